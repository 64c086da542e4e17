"""The mathematics once more: plain, slow, to be checked against docs/method.md and the papers."""

from __future__ import annotations

import math

import numpy as np

from stream_can.method.paths import FITTED_PATHS, MATRIX_LIMIT, PATHS, anchor, split


def normalised(r):
    return r / r.sum()


def softmax(z):
    return normalised(np.exp(z - z.max()))


def logs(p):
    """x, with the floor d = 0.01/m."""
    return np.log(np.maximum(p, 0.01 / len(p)))


def without(r, silent):
    """The row without its silent classes; a row that holds nothing else is all zeros."""
    if not np.any(silent):
        return r
    r = np.where(silent, 0.0, r)
    if r.sum() == 0:
        return r
    return normalised(r)


def topk_entropy(r, k):
    top = np.sort(r)[::-1][:k]
    top = top[top > 0] / top.sum()
    return float(-(top * np.log(top)).sum() / math.log(k))


def uncertainty(r, kind, k):
    m = len(r)
    if m == 1:
        return 0.0
    if kind == "topk_entropy":
        return topk_entropy(r, min(k, m))
    if kind == "entropy":
        return topk_entropy(r, m)
    if kind == "margin":
        second, best = np.sort(r)[-2:]
        return 1 - (best - second)
    return max(topk_entropy(r, j) for j in range(2, m + 1))


class Base:
    """Temperature, vector or (sparse) matrix scaling, fitted online by Newton steps.

    u = (log b, t1, t2) or (log b), as long as `precisions`; `shared` are the features that go with
    t, in the order of u.
    """

    def __init__(self, name, m, g, a=5.0, exponent=0.25, precisions=(10.0,)):
        self.name, self.m, self.g, self.a, self.exponent = name, m, g, a, exponent
        self.Lambda = np.diag(precisions)
        self.u, self.Q = np.zeros(len(precisions)), np.zeros((len(precisions),) * 2)
        self.c, self.H = np.zeros(m), np.zeros(m)
        self.A, self.G = np.zeros((m, m), np.float32), np.zeros((m, m), np.float32)

    def top_five(self, p):
        """J and the weights w of its classes."""
        J = sorted(range(self.m), key=lambda j: (-p[j], j))[:5]
        return [(j, max(p[j], 0.01 / self.m) ** self.exponent) for j in J]

    def row(self, p, shared=()):
        if self.name == "raw":
            return p
        z = math.exp(self.u[0]) * logs(p)
        for t, f in zip(self.u[1:], shared, strict=True):
            z = z + t * f
        if self.name in ("vector", "matrix"):
            z = z + self.c
        if self.name == "matrix":
            for j, w in self.top_five(p):
                z = z + w * self.A[j].astype(np.float64)
        return softmax(z)

    def learn(self, p, y, silent, shared=()):
        if self.name == "raw":
            return
        r, g, a = without(self.row(p, shared), silent), self.g, self.a
        F = np.array([math.exp(self.u[0]) * logs(p), *shared])
        E = F @ r
        centred = F - E[:, None]
        self.Q = g * self.Q + (r * centred) @ centred.T
        gradient = E - F[:, y] + (1 - g) * self.Lambda @ self.u
        curvature = self.Q + self.Lambda + 1e-9 * np.eye(len(self.u))
        bounds = [2, 3, 3][: len(self.u)]
        self.u = np.clip(self.u - np.linalg.solve(curvature, gradient), np.negative(bounds), bounds)
        if self.name == "temperature":
            return
        d = r - np.eye(self.m)[y]
        self.H = g * self.H + r * (1 - r)
        self.c = np.clip(self.c - (d + (1 - g) * a * self.c) / (self.H + a), -6, 6)
        self.c[silent] = self.H[silent] = 0
        if self.name == "vector":
            return
        for j, w in self.top_five(p):
            A = self.A[j].astype(np.float64)
            G = g * self.G[j].astype(np.float64) + w**2 * r * (1 - r)
            self.G[j] = G
            self.A[j] = np.clip(A - (w * d + (1 - g) * a * A) / (G + a), -6, 6)
            self.A[j, silent] = self.G[j, silent] = 0

    def add_class(self):
        self.m += 1
        for name in ("c", "H", "A", "G"):
            array = getattr(self, name)
            setattr(self, name, np.pad(array, [(0, 1)] * array.ndim))


class Oracle:
    """What a Corrector does, row by row; classes are 0..m-1."""

    def __init__(
        self,
        m,
        *,
        train_counts=None,
        paths=PATHS,
        half_life=5000,
        uncertainty="topk_entropy",
        k=3,
        threshold=0.9,
        pseudo_count=None,
        prior_strength=None,
    ):
        self.m, self.paths = m, tuple(path for path in PATHS if path in paths)
        self.g = 2 ** (-1 / half_life)
        self.kind, self.k, self.threshold = uncertainty, k, threshold
        self.pseudo_count, self.prior_strength = pseudo_count, prior_strength
        self.train_counts = np.zeros(m) if train_counts is None else np.asarray(train_counts, float)
        self.L = np.zeros(m)
        precisions = {"vector": (10.0, 3.0, 3.0), "matrix": (10.0, 3.0, 3.0)}
        self.bases = {
            name: Base(name, m, self.g, precisions=precisions.get(name, (10.0,)))
            for name in ("raw", "temperature", "vector", "matrix")
        }
        self.S = {name: np.zeros(m) for name in (*self.bases, "fitted")}
        self.frozen = None
        # the shared features and the guards
        self.M, self.N = np.zeros(m), 0.0
        self.N_j, self.n_j = np.zeros(m), np.zeros(m)
        self.heard, self.silent = np.zeros(m, bool), np.zeros(m, bool)
        self.agree, self.differ, self.top = 0, 0, 0.0
        # the second mixture
        self.odds = np.zeros(3)
        self.last = Base("temperature", m, self.g)
        self.recent = np.zeros(3)
        self.start()
        self.refresh_prior()

    def start(self):
        self.w0 = np.full(len(self.paths), 0.001)
        self.w0[self.paths.index(anchor(self.paths))] = 1 - 0.001 * (len(self.paths) - 1)
        self.w, self.n = self.w0.copy(), 0

    @property
    def alone(self):
        """One path alone is that path: no second mixture, no guards."""
        return len(self.paths) == 1

    @property
    def kappa(self):
        return self.m if self.pseudo_count is None else self.pseudo_count

    @property
    def q_train(self):
        return (self.train_counts + 1) / (self.train_counts + 1).sum()

    def refresh_prior(self):
        s = self.m if self.prior_strength is None else self.prior_strength
        self.q = self.q_train
        if math.isinf(s):
            return
        speak = ~self.silent
        S = self.q_train[speak].sum()
        self.q[speak] = S * (self.L + s * self.q_train)[speak] / (self.L[speak].sum() + s * S)

    # ---- bases and paths

    def shared(self, name):
        """f1 and f2, for the bases that have weights t for them."""
        if name not in ("vector", "matrix"):
            return ()
        return np.log((self.M + 1) / (self.N + self.m)), np.log(self.q_train)

    def base_row(self, name, p):
        if name != "fitted":
            return self.bases[name].row(p, self.shared(name))
        r = self.frozen.row(p)
        if self.ref is None:
            return r
        shifted = (self.Q + 20 * self.m * self.ref) / (self.N_Q + 20 * self.m)
        return normalised(r * shifted / self.ref)

    def uncertainty_of(self, r):
        return uncertainty(r, self.kind, self.k)

    def can(self, name, r):
        if self.uncertainty_of(r) < self.threshold:
            return r
        below = self.S[name] + self.kappa * self.q + r
        return normalised(np.divide(r, below, out=np.zeros(self.m), where=below > 0) * self.q)

    def explain(self, p):
        p, out = normalised(np.asarray(p, float)), {}
        for path in self.paths:
            name, with_can = split(path)
            r = self.base_row(name, p)
            out[path] = self.can(name, r) if with_can else r
        return out

    # ---- the row that is sent

    def three_rows(self, rows, silent=()):
        """Anchor, mixture and tempered mixture of the rows of the paths, shape (3, m)."""
        mixture = tempered = sum(w * rows[path] for w, path in zip(self.w, self.paths, strict=True))
        if self.last.u[0] != 0:
            tempered = without(self.last.row(mixture), silent)
        return np.array([rows[anchor(self.paths)], mixture, tempered])

    @property
    def final_weights(self):
        if self.alone:
            return np.array([1.0, 0.0, 0.0])
        return normalised(np.array([0.5, 0.25, 0.25]) * np.exp(self.odds - self.odds.max()))

    @property
    def last_temperature(self):
        return math.exp(-self.last.u[0])

    @property
    def recent_log_loss(self):
        """Of the raw rows and of those sent."""
        raw, corrected, n = self.recent
        return (raw / n, corrected / n) if n else (math.nan, math.nan)

    def expected(self):
        """How many labels the rows of each predicted class would have in a fair sample."""
        if self.N_j.sum() == 0:
            return np.zeros(self.m)
        return self.n_j.sum() * self.N_j / self.N_j.sum()

    def trust(self, j):
        """lambda: how far what was learned is believed for a row predicted as j."""
        if self.alone:
            return 1.0
        if self.agree == 0 and self.top > 5:
            return 0.0
        if self.differ == 0 and self.agree - self.top > 5:
            return 0.0
        return min(1.0, 4 * (self.n_j[j] + 1) / (self.expected()[j] + 1))

    @property
    def coverage(self):
        if self.N_j.sum() == 0:
            return 1.0
        return sum(N * self.trust(j) for j, N in enumerate(self.N_j)) / self.N_j.sum()

    def unlearned(self, p):
        """The row that the guards go back to."""
        if self.frozen is None:
            return p
        return self.base_row("fitted", p)

    def correct(self, p):
        if self.alone:
            return self.explain(p)[self.paths[0]]
        p = normalised(np.asarray(p, float))
        trust = self.trust(p.argmax())
        learned = self.final_weights @ self.three_rows(self.explain(p))
        return trust * learned + (1 - trust) * self.unlearned(p)

    def observe(self, p):
        p = normalised(np.asarray(p, float))
        rows = {name: self.base_row(name, p) for name in {split(path)[0] for path in self.paths}}
        for name, r in rows.items():
            if self.uncertainty_of(r) < self.threshold:
                S = self.g * self.S[name] + r
                self.S[name] = S if self.g == 1 else np.where(S < 1e-300, 0.0, S)  # decayed
        if self.frozen is not None and self.ref is not None:
            g = 2 ** (-1 / 1000)
            self.Q, self.N_Q = g * self.Q + rows["fitted"], g * self.N_Q + 1
        self.M, self.N = self.g * self.M + p, self.g * self.N + 1
        self.N_j, self.n_j = self.g * self.N_j, self.g * self.n_j
        self.N_j[p.argmax()] += 1

    def process(self, p):
        """The row sent and its receipt: the three rows as they were, before the guards."""
        out, receipt = self.correct(p), self.three_rows(self.explain(p)).astype(np.float32)
        self.observe(p)
        return out, receipt

    # ---- labels

    def learn(self, p, y, receipt=None):
        if p is None:
            self.heard[y], self.silent[y] = True, False
        else:
            self.learn_row(normalised(np.asarray(p, float)), y, receipt)
        self.L = self.g * self.L + np.eye(self.m)[y]
        self.refresh_prior()

    def learn_row(self, p, y, receipt):
        j = p.argmax()
        trust = self.trust(j)  # that of the row as it would be sent: before this label counts
        self.n_j[j] += 1
        self.heard[y] = True
        self.agree, self.differ = self.agree + (j == y), self.differ + (j != y)
        self.top += p[j]
        if not self.alone:
            e = self.expected()
            self.silent = ~self.heard & (self.n_j < e - np.sqrt(e))

        rows = {path: without(r, self.silent) for path, r in self.explain(p).items()}
        three = self.three_rows(rows, self.silent)
        sent = self.as_sent(receipt, y, three)
        back = self.unlearned(p)
        if self.frozen is not None:
            back = without(back, self.silent)
        corrected = trust * (self.final_weights @ sent) + (1 - trust) * back[y]
        losses = -np.log(np.maximum([p[y], corrected], 1e-6))
        self.recent = self.g * self.recent + [*losses, 1]
        if not self.alone:
            sent = np.maximum(sent, 1e-6)
            self.odds = self.g * self.odds + np.log(sent / sent[0])
            self.last.learn(three[1], y, self.silent)
        self.n += 1
        w = self.w * [max(rows[path][y], 1e-6) for path in self.paths]
        h = 1 / (self.n + 2)
        self.w = (1 - h) * w / w.sum() + h * self.w0
        self.step_bases(p, y)

    def as_sent(self, receipt, y, now):
        """What the three rows gave the class y: 0 where it was no class then, NaN is not known."""
        if receipt is None:
            return now[:, y]
        if y >= receipt.shape[1]:
            return np.zeros(3)
        if np.isnan(receipt[:, y]).any():
            return now[:, y]
        return receipt[:, y].astype(np.float64)

    def step_bases(self, p, y):
        for name, base in self.bases.items():
            base.learn(p, y, self.silent, self.shared(name))

    def add_class(self):
        """A class that appears on the way."""
        self.m += 1
        for name in ("train_counts", "L", "M", "N_j", "n_j", "heard", "silent"):
            setattr(self, name, np.pad(getattr(self, name), (0, 1)))
        self.S = {name: np.pad(sums, (0, 1)) for name, sums in self.S.items()}
        for base in (*self.bases.values(), self.last):
            base.add_class()
        self.refresh_prior()

    # ---- validation data

    def fit(self, P, y):
        P = np.array([normalised(np.asarray(p, float)) for p in P])
        n, m = P.shape
        rng = np.random.default_rng(0)
        orders = [rng.permutation(n) for _ in range(4)]
        enough = n >= 5000 and n >= 5 * m and m <= MATRIX_LIMIT
        kind = ("matrix", 5) if enough else self.ladder(P, y, orders)
        self.frozen = self.four_passes(P, y, orders, *kind)
        self.ref = None
        if n >= 500:
            v = np.mean([self.frozen.row(p) for p in P], axis=0)
            self.ref, self.Q, self.N_Q = (n * v + 0.5) / (n + 0.5 * m), np.zeros(m), 0.0
        for i in orders[0]:
            self.step_bases(P[i], y[i])
            self.L = self.g * self.L + np.eye(m)[y[i]]
            self.refresh_prior()
        self.paths += FITTED_PATHS
        self.start()

    def four_passes(self, P, y, orders, name, a):
        base = Base(name, self.m, 1.0, 4.0 * a, 0.5, (40.0,))
        for order in orders:
            for i in order:
                base.learn(P[i], y[i], self.silent)
        return base

    def ladder(self, P, y, orders):
        n = len(P)
        fold = np.empty(n, int)
        fold[orders[0]] = np.arange(n) % 5
        held = None
        for kind in (("temperature", 5), ("vector", 20), ("vector", 5), ("matrix", 5)):
            if kind[0] == "matrix" and self.m > MATRIX_LIMIT:
                continue
            loss = np.empty(n)
            for f in range(5):
                base = self.four_passes(
                    P, y, [[i for i in order if fold[i] != f] for order in orders], *kind
                )
                for i in np.flatnonzero(fold == f):
                    loss[i] = -math.log(max(base.row(P[i])[y[i]], 1e-6))
            if held is None or (held[1] - loss).mean() > (held[1] - loss).std() / math.sqrt(n):
                held = (kind, loss)
        return held[0]
