"""The mathematics once more: plain, slow, to be checked against docs/method.md and the papers."""

from __future__ import annotations

import copy
import math

import numpy as np

from stream_can.method.paths import FITTED_PATHS, PATHS, anchor, split

MATRIX_LIMIT = 256
MOST_LOG_B, MOST_T, MOST_C = 2, 3, 6
SEGMENTED_PATHS = ("segmented", "segmented+can")
NO_CAN = ("centred", "shared", "full")


def normalised(r):
    return r / r.sum()


def softmax(z):
    return normalised(np.exp(z - z.max()))


def mixed(weights, rows):
    """The rows, weighed and summed up in their order."""
    return sum(w * r for w, r in zip(weights, rows, strict=True))


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


def text_of(value):
    """The text of a value of a column; None where it is not given."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (int, str)):
        return str(value)
    raise ValueError(f"{value!r} is no value of a column")


def top_of(r):
    """The class of a row and its largest probability, rounded to single precision."""
    j = int(r.argmax())
    return j, float(np.float32(r[j]))


class Chain:
    """Experts of a class mix, slow to fast; each starts from the one before it, the first from ref.

    Expert 0 leaves a row alone. `strengths` are in rows a class, `half_lives` in rows. A `rival`
    is one expert more, the last, which leaves a row alone too, and begins with half the weight.
    With a `factor` of each class no mix is further from ref than that.
    """

    KEPT = 0.997

    def __init__(self, m, strengths, half_lives, rival=None, factor=None):
        K = len(strengths)
        self.strengths, self.g = np.array(strengths), 2 ** (-1 / np.array(half_lives))
        self.Q, self.N, self.W = np.zeros((K, m)), np.zeros(K), np.full(K + 1, 1 / (K + 1))
        self.rival, self.factor = rival, factor
        if rival is not None:
            self.W = np.append(self.W / 2, 1 / 2)

    def row(self, v, ref):
        """The row, the posteriors r_0..r_K that it is mixed from, and their likelihoods l."""
        base, posteriors, likelihoods = ref, [v], [1.0]
        for Q, N, s in zip(self.Q, self.N, self.strengths * len(v), strict=True):
            base = (Q + s * base) / (N + s)
            if self.factor is not None:
                base = normalised(np.clip(base, ref / self.factor, ref * self.factor))
            r = v * base / ref
            likelihoods.append(r.sum())
            posteriors.append(normalised(r) if r.any() else r)
        if self.rival is not None:
            likelihoods.append(self.rival.likelihood(v))
            posteriors.append(v)
        likelihoods = np.array(likelihoods)
        return mixed(self.shares(likelihoods), posteriors), posteriors, likelihoods

    def shares(self, likelihoods):
        """W': what each expert has of the row, by the row's own evidence too."""
        return normalised(self.W * likelihoods)

    def observe(self, posteriors, likelihoods):
        """Count a row, after it is made: the first its own posterior, the others that before."""
        K = len(self.N)
        counted = np.array([posteriors[max(i - 1, 1)] for i in range(1, K + 1)])
        self.W = self.KEPT * self.shares(likelihoods) + (1 - self.KEPT) / len(self.W)
        self.Q = self.g[:, None] * self.Q + counted
        self.N = self.g * self.N + 1

    def add_class(self):
        self.Q = np.pad(self.Q, [(0, 0), (0, 1)])

    def discount(self, d):
        """Of the counts; the weights are beliefs."""
        self.Q, self.N = d * self.Q, d * self.N


class Cells:
    """The rival of a chain: rows fall into cells otherwise than those of validation did.

    A cell is the class j of a row and in which third of validation's rows its top is.
    """

    STRENGTH, EACH, HALF_LIFE = 200.0, 30.0, 300  # rows, rows a class, rows

    def __init__(self, R):
        n, m = R.shape
        self.s = max(self.STRENGTH, self.EACH * m)
        tops = np.sort([top_of(v)[1] for v in R])
        self.edges = [(tops[n * i // 3 - 1] + tops[n * i // 3]) / 2 for i in (1, 2)]
        counts = np.zeros((m, 3))
        for v in R:
            counts[self.cell(v)] += 1
        self.p0 = (counts + 0.5) / (n + 1.5 * m)
        self.H, self.N = np.zeros((m, 3)), 0.0

    def cell(self, v):
        j, top = top_of(v)
        return j, sum(top >= edge for edge in self.edges)

    def likelihood(self, v):
        p0 = self.p0[self.cell(v)]
        return (self.H[self.cell(v)] + self.s * p0) / (self.N + self.s) / p0

    def observe(self, v):
        g = 2 ** (-1 / self.HALF_LIFE)
        self.H, self.N = g * self.H, g * self.N + 1
        self.H[self.cell(v)] += 1


class Value:
    """What the labels of one value of a column say."""

    def __init__(self, m):
        self.L, self.E = np.zeros((2, m)), np.zeros((2, m))  # slow, fast
        self.S, self.last = 0.0, 0

    def discount(self, d):
        self.L, self.E, self.S = d * self.L, d * self.E, d * self.S


class Base:
    """Temperature, vector or (sparse) matrix scaling, fitted online by Newton steps.

    u = (log b, t1, t2) or (log b), as long as `precisions`; `shared` are the features that go with
    t, in the order of u. What b stretches is what x says beyond `start`: log q_train, or 0.
    """

    def __init__(self, name, m, g, a=5.0, exponent=0.25, precisions=(10.0,), noise=0.0):
        self.name, self.m, self.g, self.a, self.exponent = name, m, g, a, exponent
        self.noise = noise
        self.Lambda = np.diag(precisions)
        self.u, self.Q = np.zeros(len(precisions)), np.zeros((len(precisions),) * 2)
        self.c, self.H = np.zeros(m), np.zeros(m)
        self.A, self.G = np.zeros((m, m), np.float32), np.zeros((m, m), np.float32)

    def top_five(self, p):
        """J and the weights w of its classes."""
        J = sorted(range(self.m), key=lambda j: (-p[j], j))[:5]
        return [(j, max(p[j], 0.01 / self.m) ** self.exponent) for j in J]

    def row(self, p, shared=(), start=0.0):
        return p if self.name == "raw" else softmax(self.logits(p, shared, start))

    def logits(self, p, shared, start):
        z = start + math.exp(self.u[0]) * (logs(p) - start)
        for t, f in zip(self.u[1:], shared, strict=True):
            z = z + t * f
        if self.name in ("vector", "matrix"):
            z = z + self.c
        if self.name == "matrix":
            for j, w in self.top_five(p):
                z = z + w * self.A[j].astype(np.float64)
        return z

    def learn(self, p, y, silent, shared=(), start=0.0, weight=1.0):
        if self.name == "raw":
            return
        r, g, a = without(self.row(p, shared, start), silent), self.g, self.a
        right = weight * self.believed(r[y])
        F = np.array([math.exp(self.u[0]) * (logs(p) - start), *shared])
        E = F @ r
        centred = F - E[:, None]
        self.Q = g * self.Q + right * (r * centred) @ centred.T
        gradient = right * (E - F[:, y]) + (1 - g) * self.Lambda @ self.u
        curvature = self.Q + self.Lambda + 1e-9 * np.eye(len(self.u))
        bounds = [MOST_LOG_B] + [MOST_T] * (len(self.u) - 1)
        self.u = np.clip(self.u - np.linalg.solve(curvature, gradient), np.negative(bounds), bounds)
        if self.name in ("temperature", "shared"):
            return
        d = right * (r - np.eye(self.m)[y])
        self.H = g * self.H + right * r * (1 - r)
        self.c = np.clip(self.c - (d + (1 - g) * a * self.c) / (self.H + a), -MOST_C, MOST_C)
        self.c[silent] = self.H[silent] = 0
        if self.name == "vector":
            return
        for j, w in self.top_five(p):
            A = self.A[j].astype(np.float64)
            G = g * self.G[j].astype(np.float64) + w**2 * right * r * (1 - r)
            self.G[j] = G
            self.A[j] = np.clip(A - (w * d + (1 - g) * a * A) / (G + a), -MOST_C, MOST_C)
            self.A[j, silent] = self.G[j, silent] = 0

    def believed(self, r_y):
        """How likely a label is right that the row gives so much."""
        if self.noise == 0:
            return 1.0
        right = (1 - self.noise) * r_y
        return right / (right + self.noise / self.m)

    def discount(self, d):
        """The minimum of d times what the labels said and all that the prior says.

        Around its value a parameter has the curvature of the labels and that of the prior, which
        pulls it to 0: what it is, is where both balance.
        """
        if self.name == "raw":
            return
        both = d * (self.Q + self.Lambda) @ self.u
        bounds = [MOST_LOG_B] + [MOST_T] * (len(self.u) - 1)
        self.u = np.clip(
            np.linalg.solve(d * self.Q + self.Lambda, both), np.negative(bounds), bounds
        )
        self.Q = d * self.Q
        a = self.a
        self.c = self.c * d * (self.H + a) / (d * self.H + a)
        self.H = d * self.H
        G = self.G.astype(np.float64)
        self.A = (self.A.astype(np.float64) * d * (G + a) / (d * G + a)).astype(np.float32)
        self.G = (d * G).astype(np.float32)

    def add_class(self):
        self.m += 1
        for name in ("c", "H", "A", "G"):
            array = getattr(self, name)
            setattr(self, name, np.pad(array, [(0, 1)] * array.ndim))


class Full(Base):
    """Vector scaling and a whole matrix, whose curvature is a Kronecker product: H by C.

    phi is x beyond `start`, centred over the classes and scaled. What has m x m numbers is kept in
    single precision.
    """

    PRIOR, RIDGE, LEAST_SPREAD = 20.0, 0.3, 1e-4

    def __init__(self, m, g, noise):
        super().__init__("vector", m, g, precisions=(10.0, 3.0, 3.0), noise=noise)
        self.begin()

    def begin(self):
        """Of the inputs nothing is known."""
        self.spread, self.n_spread = 1.0, 1.0
        self.C, self.n_C = np.zeros((self.m, self.m), np.float32), 0.0
        self.P = np.eye(self.m).astype(np.float32) * np.float32(1 / (1 + self.RIDGE))
        self.n, self.n_then = 0, 0

    def phi(self, p, start):
        y = logs(p) - start
        return (y - y.mean()) / math.sqrt(max(self.spread / self.n_spread, self.LEAST_SPREAD))

    def logits(self, p, shared, start):
        A = self.A.astype(np.float64)
        return super().logits(p, shared, start) + A @ self.phi(p, start)

    def learn(self, p, y, silent, shared=(), start=0.0, weight=1.0):
        g, a, phi = self.g, self.PRIOR, self.phi(p, start)
        r = without(self.row(p, shared, start), silent)
        super().learn(p, y, silent, shared, start, weight)
        right = weight * self.believed(r[y])
        d, h = right * (r - np.eye(self.m)[y]), right * r * (1 - r)
        s = self.P.astype(np.float64) @ phi
        q = phi @ s
        kept = 1 - (1 - g) * a / (self.H + a)
        A = kept[:, None] * self.A.astype(np.float64) - np.outer(d / (self.H + a + h * q), s)
        self.A = np.clip(A, -MOST_C, MOST_C).astype(np.float32)
        self.A[silent] = 0
        x = logs(p) - start
        self.spread = g * self.spread + weight * ((x - x.mean()) ** 2).mean()
        self.n_spread = g * self.n_spread + weight
        self.C = (g * self.C.astype(np.float64) + weight * np.outer(phi, phi)).astype(np.float32)
        self.n_C = g * self.n_C + weight
        self.n += 1
        if self.n >= 20 and (self.n >= 1.25 * self.n_then or self.n >= self.n_then + 500):
            C = self.C.astype(np.float64) / self.n_C
            self.P = np.linalg.inv(C + self.RIDGE * np.eye(self.m)).astype(np.float32)
            self.n_then = self.n

    def discount(self, d):
        a = self.PRIOR
        A = self.A.astype(np.float64) * (d * (self.H + a) / (d * self.H + a))[:, None]
        super().discount(d)
        self.A = A.astype(np.float32)
        if d == 0:
            self.begin()
            return
        self.spread, self.n_spread = d * self.spread, d * self.n_spread
        self.C, self.n_C = (d * self.C.astype(np.float64)).astype(np.float32), d * self.n_C
        self.n, self.n_then = math.floor(d * self.n), math.floor(d * self.n_then)

    def add_class(self):
        super().add_class()
        self.C, self.P = (np.pad(array, [(0, 1)] * 2) for array in (self.C, self.P))
        self.P[-1, -1] = 1 / (1 + self.RIDGE)


class Oracle:
    """What a Corrector does, row by row; classes are 0..m-1.

    With `segments`, the names of columns, a row may give a value of each: {column: value}.
    """

    STRENGTH = 20.0
    HALF_LIVES = 5000, 20
    ODDS_HALF_LIFE = 500
    CAP = 1.5
    FITTED_MIX = (20, 5, 2), (1000, 500, 50)
    MOVING_MIX = (2,), (50,)
    MOVING, PLAIN, RAW, CALIBRATED = 0.02, 0.01, 0.5, 0.5  # prior weights
    STALE_HALF_LIVES = 50, 200  # of rows, of labels
    BINS = 15

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
        label_noise=0.0,
        segments=(),
        segments_bytes=1 << 26,
        monotone=False,
        prior=None,
    ):
        self.noise, self.monotone, self.known_mix = label_noise, monotone, prior
        self.m, self.paths = m, tuple(path for path in PATHS if path in paths)
        self.columns, self.limit, self.values = tuple(segments), segments_bytes, {}
        self.value_labels = 0
        self.g = 2 ** (-1 / half_life)
        self.kind, self.k, self.threshold = uncertainty, k, threshold
        self.pseudo_count, self.prior_strength = pseudo_count, prior_strength
        self.train_counts = np.zeros(m) if train_counts is None else np.asarray(train_counts, float)
        self.L = np.zeros(m)
        like = {"centred": "temperature"}
        precisions = {
            "vector": (10.0, 3.0, 3.0), "matrix": (10.0, 3.0, 3.0), "shared": (10.0, 3.0, 3.0, 3.0)
        }  # fmt: skip
        self.bases = {
            name: Base(like.get(name, name), m, self.g, precisions=precisions.get(name, (10.0,)),
                       noise=label_noise)
            for name in ("raw", "temperature", "vector", "matrix", "centred", "shared")
        }  # fmt: skip
        if "full" in self.paths:
            self.bases["full"] = Full(m, self.g, label_noise)
        if self.columns:
            named = {split(path)[0] for path in self.paths}
            if self.alone or "vector" not in named:
                raise ValueError("segments need the base vector and another path")
            self.paths += SEGMENTED_PATHS
            like = "matrix" if "matrix" in named else "vector"
            precisions = (10.0, 3.0, 3.0, *(3.0, 3.0) * len(self.columns))
            self.bases["segmented"] = Base(
                like, m, self.g, precisions=precisions, noise=label_noise
            )
        self.S = {name: np.zeros(m) for name in (*self.bases, "fitted") if name not in NO_CAN}
        self.frozen = None
        # the shared features and the guards
        self.M, self.N = np.zeros(m), 0.0
        self.N_j, self.n_j = np.zeros(m), np.zeros(m)
        self.heard, self.silent = np.zeros(m, bool), np.zeros(m, bool)
        self.agree, self.differ, self.top = 0, 0, 0.0
        # of the last rows and of the last labels: what was predicted, how many, and their squares
        self.A, self.N_A, self.N2_A = np.zeros(m), 0.0, 0.0
        self.B, self.N_B, self.N2_B, self.n_B = np.zeros(m), 0.0, 0.0, 0.0
        self.W = 1.0  # the largest weight of a label
        self.squares = np.zeros(m)
        # the second mixture
        self.last = Base("temperature", m, self.g, noise=label_noise)
        self.last_with = Base("temperature", m, self.g, noise=label_noise)
        self.recent = np.zeros(3)
        self.start()
        self.refresh_prior()

    def start(self):
        self.start_paths()
        self.start_judge()

    def start_paths(self):
        """The weights w, which are 0 for the segmented paths, and w', both without evidence."""
        own = np.array([path not in SEGMENTED_PATHS for path in self.paths])
        few = np.isin(self.paths, ("centred", "shared")) & (self.frozen is None)
        self.w0_with = np.where(few, 0.2, 0.001)
        self.w0 = np.where(own, self.w0_with, 0.0)
        for w0 in (self.w0, self.w0_with):
            first = self.paths.index(anchor(self.paths))
            w0[first] += 1 - w0.sum()
        self.w, self.w_with, self.n = self.w0.copy(), self.w0_with.copy(), 0

    def start_judge(self):
        """The rows in the order of a receipt: priors and odds; what "moving" and the bins count."""
        pair = [1 / 8] * 2 if self.columns else [1 / 4] * 2
        pi = [1 / 2, *pair]
        if self.moves:
            pi.append(self.MOVING)
        if not self.alone:
            pi.append(self.PLAIN)
        if self.known_mix is not None:
            pi.append(2 * (sum(pi) + self.RAW + self.CALIBRATED))
        if self.says_raw:
            pi.append(self.RAW)
        self.own = len(pi)  # rows without columns: they come first
        if self.columns:
            pi += pair
        if not self.alone:
            pi.append(self.CALIBRATED)
        self.pi, self.odds = np.array(pi), np.zeros(len(pi))
        self.bins = np.zeros((3, 2 * self.BINS if self.m == 2 else self.BINS))  # n, hits, conf
        self.moving = Chain(self.m, *self.MOVING_MIX)
        self.V, self.N_V = np.zeros(self.m), 0.0

    @property
    def alone(self):
        """One path alone is that path: no second mixture, no guards."""
        return len(self.paths) == 1

    @property
    def moves(self):
        """Whether there is a row "moving": `fit` has its own way to follow the mix."""
        return not self.alone and self.frozen is None

    @property
    def says_raw(self):
        """Whether there is a row "raw": after `fit` the anchor was validated."""
        return not self.alone and self.frozen is None

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

    def start_of(self, name):
        """The mix that a base is centred on, as logarithms; 0 where it is not."""
        return 0.0 if name in ("raw", "temperature") else np.log(self.q_train)

    def shared(self, name, segments=None):
        """The features that a base has weights t for, and what a row's values say."""
        if name in ("raw", "temperature", "centred"):
            return ()
        f1, f2 = np.log((self.M + 1) / (self.N + self.m)), np.log(self.q_train)
        two = (f1 - f2, f2)
        if name == "shared":
            return (*two, np.log((self.N_j + 1) / (self.M + 1)))
        return two if name != "segmented" else (*two, *self.features(segments))

    def given(self, segments):
        """A (column, text), or None, for each column."""
        segments = segments or {}
        if strange := [name for name in segments if name not in self.columns]:
            raise ValueError(f"{strange[0]!r} is not one of the columns")
        texts = [text_of(segments.get(name)) for name in self.columns]
        return [None if text is None else (k, text) for k, text in enumerate(texts)]

    def features(self, segments):
        """f of each column, slow and fast: what was observed over what was expected."""
        found = []
        for key in self.given(segments):
            value = self.values.get(key) or Value(self.m)
            s = self.STRENGTH
            found += [np.log((value.L[i] + s * self.q) / (value.E[i] + s * self.q)) for i in (0, 1)]
        return found

    def base_row(self, name, p, segments=None):
        if name != "fitted":
            return self.bases[name].row(p, self.shared(name, segments), self.start_of(name))
        r = self.frozen_row(p)
        if self.ref is None:
            return r
        fitted, _, _ = self.chain.row(r, self.ref)
        f = self.believed()
        return f * fitted + (1 - f) * r

    def frozen_row(self, p):
        return self.frozen.row(p, start=self.start_of("fitted"))

    def believed(self):
        """f: 0 where rows are sharper or flatter than validation rows of such classes were."""
        return float(np.clip((0.08 - abs(self.D) / (self.N_D + 100)) / 0.04, 0, 1))

    def observe_fitted(self, p):
        """The class mix behind `fitted`, and its guard, count a row."""
        r, g = self.frozen_row(p), 2 ** (-1 / 300)
        fitted, *made = self.chain.row(r, self.ref)
        self.chain.observe(*made)
        self.D = g * self.D + (r**2).sum() - fitted @ self.sharp
        self.N_D = g * self.N_D + 1
        if self.chain.rival is not None:
            self.chain.rival.observe(r)

    @property
    def mean_anchor(self):
        """The class mix as the anchor's rows have it: the ref of "moving"."""
        return (self.V + 1) / (self.N_V + self.m)

    def observe_moving(self, v):
        """The row "moving" counts a row of the anchor; then the anchor's mean does."""
        _, *made = self.moving.row(v, self.mean_anchor)
        self.moving.observe(*made)
        self.V, self.N_V = self.g * self.V + v, self.g * self.N_V + 1

    def uncertainty_of(self, r):
        return uncertainty(r, self.kind, self.k)

    def can(self, name, r):
        if self.uncertainty_of(r) < self.threshold:
            return r
        below = self.S[name] + self.kappa * self.q + r
        return normalised(np.divide(r, below, out=np.zeros(self.m), where=below > 0) * self.q)

    def path_row(self, path, p, segments=None):
        name, with_can = split(path)
        r = self.base_row(name, p, segments)
        return self.can(name, r) if with_can else r

    def explain(self, p, segments=None):
        p = normalised(np.asarray(p, float))
        return {path: self.path_row(path, p, segments) for path in self.paths}

    def judged(self, p, segments=None):
        """What is sent is made of these: the paths, and the raw row in any case."""
        return {"raw": normalised(np.asarray(p, float)), **self.explain(p, segments)}

    # ---- the row that is sent

    def sent_rows(self, rows, silent=(), segments=None, fresh=None):
        """All rows of a receipt, the largest probability of their mixture s, and its class."""
        found = self.other_rows(rows, silent, fresh)
        s = mixed(self.shares_of_learned(segments), found)
        j = int(s.argmax())
        top = float(np.float32(s[j]))
        if not self.alone:
            found.append(self.calibrated(s, j, top))
        return np.array(found), top, j

    def other_rows(self, rows, silent=(), fresh=None):
        """Anchor, mixture, tempered, moving, plain, raw; then mixture' and tempered' of columns.

        `fresh` is f of the mix, that of now unless it is given.
        """
        f = self.freshness() if fresh is None else fresh
        first = rows[anchor(self.paths)]
        mixture, tempered = self.pair(rows, self.w, self.last, silent)
        back = first
        if self.moves:
            moving = first if self.monotone else self.moving.row(first, self.mean_anchor)[0]
            back = without(moving, silent)
        found = [first, self.guarded(f, mixture, back), self.guarded(f, tempered, back)]
        if self.moves:
            found.append(back)
        if not self.alone:
            found.append(tempered)
        if self.known_mix is not None:
            found.append(self.at_known_mix(first))
        if self.says_raw:
            found.append(rows["raw"])
        if self.columns:
            found += self.pair(rows, self.w_with, self.last_with, silent)
        return found

    def at_known_mix(self, r):
        """The row under label shift from the training mix to the known one."""
        shifted = r * self.known_mix / self.q_train
        return shifted / shifted.sum() if shifted.sum() > 0 else shifted

    def guarded(self, f, r, back):
        return f * r + (1 - f) * back if f < 1 else r

    def freshness(self):
        """f: 0 where the last rows are others than those that had the last labels."""
        if self.alone or min(self.N_A, self.n_B) <= 20:
            return 1.0
        off = (self.A / self.N_A - self.B / self.N_B) ** 2
        variance = np.maximum(self.squares / self.N - (self.M / self.N) ** 2, 0)
        share = self.N2_A / self.N_A**2 + self.N2_B / self.N_B**2
        T = (off / ((variance + 0.001 / self.m) * share)).mean()
        return float(np.clip((8 - T) / 4, 0, 1))

    def pair(self, rows, weights, last, silent):
        """A mixture of the paths, and that tempered."""
        mixture = tempered = mixed(weights, [rows[path] for path in self.paths])
        if last.u[0] != 0:
            tempered = without(last.row(mixture), silent)
        return mixture, tempered

    def calibrated(self, s, j, top):
        """The row s with what its top has been worth; j stays its class."""
        if s[j] == 0 or 1 - s[j] < 1e-9:
            return s
        n, hits, conf = self.bins[:, self.bin_of(top, j)]
        rest, e = 1 - s[j], np.delete(s, j).max()
        v = min(s[j] + (hits - conf) / (n + 100), 1 - 1e-4)
        v = max(v, (1 + 1e-6) * e / (rest + e))
        row = s * (1 - v) / rest
        row[j] = v
        return row

    def bin_of(self, top, j):
        """Two classes have bins of their own each."""
        b = min(math.floor(self.BINS * top), self.BINS - 1)
        return b + self.BINS * j if self.m == 2 else b

    def weights_of(self, segments=None):
        """The weights of all rows in what is sent, for a row that gives these values."""
        if self.alone:
            return self.shares()
        c = self.group(slice(None))[0][-1]
        return np.append((1 - c) * self.shares(segments), c)

    def shares(self, segments=None):
        """The weights of the others, mixed: of all rows but the calibrated one."""
        if self.alone:
            return np.array([1.0, 0.0, 0.0])
        own, log_own = self.group(slice(self.own))
        if not self.columns:
            return own
        with_, log_with = self.group(slice(self.own, -1))
        kept = [self.values.get(key) for key in self.given(segments) if key is not None]
        S = min((0.0 if value is None else value.S for value in kept), default=0.0)
        share = 1 / (1 + np.exp(min(700.0, -min(log_with - log_own, self.CAP) - S)))
        return np.append((1 - share) * own, share * with_)

    def shares_of_learned(self, segments=None):
        """Those in the row that is calibrated: raw is left out, unless it holds all."""
        shares = self.shares(segments)
        if self.says_raw:
            others = np.where(np.arange(len(shares)) == self.own - 1, 0.0, shares)
            if others.sum() > 0:
                return normalised(others)
        return shares

    def group(self, part):
        """The weights within a group of rows, and the logarithm of what they are shares of."""
        most = self.odds[part].max()
        mass = self.pi[part] * np.exp(self.odds[part] - most)
        return normalised(mass), most + math.log(mass.sum())

    @property
    def final_weights(self):
        return self.weights_of()

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
        due = self.B * self.n_B / self.N_B if self.N_B else self.B
        unheard = self.B[~self.heard & (due > 5)].sum()
        most = 0.4 if self.heard.sum() > 1 else 0.0
        if self.n_j.sum() < 0.9 * self.N_j.sum() and unheard > most * self.N_B:
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

    def correct(self, p, segments=None):
        if self.alone:
            return self.explain(p)[self.paths[0]]
        p = normalised(np.asarray(p, float))
        trust = self.trust(p.argmax())
        sent, _, _ = self.sent_rows(self.judged(p, segments), segments=segments)
        learned = mixed(self.weights_of(segments), sent)
        return trust * learned + (1 - trust) * self.unlearned(p)

    def observe(self, p, segments=None):
        p = normalised(np.asarray(p, float))
        names = {split(path)[0] for path in self.paths}
        rows = {name: self.base_row(name, p, segments) for name in names}
        first = self.path_row(anchor(self.paths), p, segments)
        for name, r in rows.items():
            if name not in NO_CAN and self.uncertainty_of(r) < self.threshold:
                S = self.g * self.S[name] + r
                self.S[name] = S if self.g == 1 else np.where(S < 1e-300, 0.0, S)  # decayed
        if self.frozen is not None and self.ref is not None:
            self.observe_fitted(p)
        if self.moves:
            self.observe_moving(first)
        self.M, self.N = self.g * self.M + p, self.g * self.N + 1
        self.N_j, self.n_j = self.g * self.N_j, self.g * self.n_j
        self.N_j[p.argmax()] += 1
        g = 2 ** (-1 / self.STALE_HALF_LIVES[0])
        self.A, self.N_A, self.N2_A = g * self.A + p, g * self.N_A + 1, g**2 * self.N2_A + 1
        self.squares = self.g * self.squares + p**2

    def process(self, p, segments=None):
        """The row sent and its receipt: what it was mixed from, before the guards, and top."""
        out = self.correct(p, segments)
        sent, top, _ = self.sent_rows(self.judged(p, segments), segments=segments)
        self.observe(p, segments)
        return out, np.append(sent, top).astype(np.float32)

    # ---- labels

    def learn(self, p, y, receipt=None, segments=None, weight=1.0):
        if p is None:
            self.heard[y], self.silent[y] = True, False
        else:
            self.learn_row(normalised(np.asarray(p, float)), y, receipt, segments, weight)
        self.L = self.g * self.L + weight * np.eye(self.m)[y]
        self.refresh_prior()
        if p is not None:
            p, g = normalised(np.asarray(p, float)), 2 ** (-1 / self.STALE_HALF_LIVES[1])
            self.B, self.N_B = g * self.B + weight * p, g * self.N_B + weight
            self.N2_B, self.n_B = g**2 * self.N2_B + weight**2, g * self.n_B + 1

    def weigh(self, weight):
        """What a label of this weight moves the odds by, its share of the largest weight; and what
        that leaves of the odds."""
        left = self.W / max(self.W, weight)
        for value in self.values.values():
            value.S *= left
        self.W = max(self.W, weight)
        return weight / self.W, left

    def learn_row(self, p, y, receipt, segments, weight):
        j = p.argmax()
        trust = self.trust(j)  # that of the row as it would be sent: before this label counts
        self.n_j[j] += 1
        self.heard[y] = True
        self.agree, self.differ = self.agree + (j == y), self.differ + (j != y)
        self.top += p[j]
        if not self.alone:
            e = self.expected()
            self.silent = ~self.heard & (self.n_j < e - np.sqrt(e))

        judged = self.judged(p, segments)
        rows = {path: without(r, self.silent) for path, r in judged.items()}
        now, *top_now = self.sent_rows(rows, self.silent, segments, fresh=1.0)
        sent, top, k = self.as_sent(receipt, y) or (now[:, y], *top_now)
        share, left = self.weigh(weight)
        back = self.unlearned(p)
        if self.frozen is not None:
            back = without(back, self.silent)
        weights = self.weights_of(segments)
        corrected = trust * mixed(weights, sent) + (1 - trust) * back[y]
        losses = -np.log(np.maximum([p[y], corrected], 1e-6))
        self.recent = self.g * self.recent + [*losses, 1]
        if self.columns:
            self.judge_values(sent, segments, share)
        if not self.alone:
            sent = np.maximum(self.as_labelled(sent), 1e-6)
            self.odds = self.g * (left * self.odds) + share * np.log(sent / sent[0])
            b = self.bin_of(top, k)
            self.bins[:, b] = self.g * self.bins[:, b] + weight * np.array([1, k == y, top])
            self.last.learn(now[1], y, self.silent, weight=weight)
            if self.columns:
                self.last_with.learn(now[self.own], y, self.silent, weight=weight)
        self.n += 1
        h = 1 / (self.n + 2)
        likely = np.array([max(self.as_labelled(rows[path][y]), 1e-6) for path in self.paths])
        likely = (likely / likely.max()) ** weight
        for w, w0 in ((self.w, self.w0), (self.w_with, self.w0_with)):
            w[:] = (1 - h) * normalised(w * likely) + h * w0
        self.step_bases(p, y, segments, weight)

    def as_labelled(self, u):
        """The probability of a label, where some are wrong."""
        return (1 - self.noise) * u + self.noise / self.m

    def as_sent(self, receipt, y):
        """What the rows gave the class y, top and its class; None is not known.

        A receipt of fewer classes gave y nothing where y was none of them. Of another length, or
        with NaN in what is read (the rows at y, the calibrated row, top), a receipt says nothing.
        """
        if receipt is None or receipt.ndim != 1 or (receipt.size - 1) % len(self.pi):
            return None
        m = (receipt.size - 1) // len(self.pi)
        if not 1 <= m <= self.m:
            return None
        *numbers, top = receipt.astype(np.float64)
        rows = np.reshape(numbers, (-1, m))
        given = rows[:, y] if y < m else np.zeros(len(rows))
        if np.isnan([*given, *rows[-1], top]).any():
            return None
        return given, top, int(rows[-1].argmax())

    def judge_values(self, sent, segments, share):
        """S of each value of the row: what "with" gained on "without", forgotten by its labels."""
        (a, _), (b, _) = self.group(slice(self.own)), self.group(slice(self.own, -1))
        with_, own = (
            max(self.as_labelled(u), 1e-6) for u in (b @ sent[self.own : -1], a @ sent[: self.own])
        )
        rho = math.log(with_ / own)
        for key in self.given(segments):
            if key is not None:
                value = self.values.setdefault(key, Value(self.m))
                value.S = 2 ** (-1 / self.ODDS_HALF_LIFE) * value.S + share * rho

    def step_bases(self, p, y, segments=None, weight=1.0):
        """Each base on what it says now; then the values, on what the base vector said."""
        expected = without(self.base_row("vector", p), self.silent)
        for name, base in self.bases.items():
            base.learn(p, y, self.silent, self.shared(name, segments), self.start_of(name), weight)
        self.value_labels += 1
        for key in self.given(segments):
            if key is None:
                continue
            value = self.values.setdefault(key, Value(self.m))
            value.last = self.value_labels
            for i, half_life in enumerate(self.HALF_LIVES):
                g = 2 ** (-1 / half_life)
                value.L[i] = g * value.L[i] + weight * np.eye(self.m)[y]
                value.E[i] = g * value.E[i] + weight * expected
        self.evict()

    def size_of(self, key):
        """Bytes that a value counts as: 4 m + 3 numbers, its text, when it last had a label."""
        return 8 * (4 * self.m + 3) + len(key[1].encode()) + 16

    def evict(self):
        """The values whose last label is oldest go; ties: the column declared first."""
        while sum(map(self.size_of, self.values)) > self.limit:
            del self.values[min(self.values, key=lambda key: (self.values[key].last, key[0]))]

    def add_class(self):
        """A class that appears on the way."""
        if self.m == 1:  # its bins become those of class 0
            self.bins = np.pad(self.bins, [(0, 0), (0, self.BINS)])
        if self.m == 2:  # from three classes on all share their bins
            self.bins = self.bins[:, : self.BINS] + self.bins[:, self.BINS :]
        self.m += 1
        for name in ("train_counts", "L", "M", "V", "N_j", "n_j", "heard", "silent", "A", "B",
                     "squares"):  # fmt: skip
            setattr(self, name, np.pad(getattr(self, name), (0, 1)))
        self.S = {name: np.pad(sums, (0, 1)) for name, sums in self.S.items()}
        for part in (*self.bases.values(), self.last, self.last_with, self.moving):
            part.add_class()
        for value in self.values.values():
            value.L, value.E = (np.pad(sums, [(0, 0), (0, 1)]) for sums in (value.L, value.E))
        self.refresh_prior()

    # ---- a new version of the classifier

    def successor(self, d=0.1):
        """What its corrector begins with: of the evidence a part, and what it led to."""
        new = copy.deepcopy(self)
        if d == 1 and self.frozen is None:
            return new
        if self.frozen is not None:
            new.drop_fitted()
        for part in (*new.bases.values(), new.last, new.last_with, new.moving):
            part.discount(d)
        for value in new.values.values():
            value.discount(d)
        new.S = {name: d * sums for name, sums in new.S.items()}
        for name in ("M", "N", "N_j", "n_j", "agree", "differ", "top", "odds", "bins", "V", "N_V",
                     "recent", "A", "N_A", "B", "N_B", "n_B", "squares"):  # fmt: skip
            setattr(new, name, d * getattr(new, name))
        new.N2_A, new.N2_B = d**2 * new.N2_A, d**2 * new.N2_B
        new.n = math.floor(d * new.n)
        return new

    def drop_fitted(self):
        """What `fit` made belongs to the old classifier; what its paths had goes to the anchor."""
        paths = tuple(path for path in self.paths if path not in FITTED_PATHS)
        kept = [self.paths.index(path) for path in paths]
        for name in ("w", "w_with"):
            w = getattr(self, name)
            left = w.sum() - w[kept].sum()
            w = w[kept]
            w[paths.index(anchor(paths))] += left
            setattr(self, name, w)
        odds, bins = self.odds, self.bins
        self.paths, self.frozen, self.S["fitted"] = paths, None, np.zeros(self.m)
        w, w_with, n = self.w, self.w_with, self.n
        self.start()
        self.w, self.w_with, self.n, self.bins = w, w_with, n, bins
        if not self.alone:  # of the rows "moving" and "raw" nothing is known
            self.odds = np.insert(odds, 3, 0.0)
            self.odds = np.insert(self.odds, 5, 0.0)

    # ---- validation data

    def fit(self, P, y, segments=None):
        P = np.array([normalised(np.asarray(p, float)) for p in P])
        n, m = P.shape
        rng = np.random.default_rng(0)
        orders = [rng.permutation(n) for _ in range(4)]
        enough = n >= 5000 and n >= 5 * m and m <= MATRIX_LIMIT
        kind = ("matrix", 5) if enough else self.ladder(P, y, orders)
        self.frozen = self.four_passes(P, y, orders, *kind)
        self.ref = None
        if n >= 500:
            self.follow_mix(np.array([self.frozen_row(p) for p in P]), np.asarray(y))
        for i in orders[0]:
            self.step_bases(P[i], y[i], None if segments is None else segments[i])
            self.L = self.g * self.L + np.eye(m)[y[i]]
            self.refresh_prior()
        self.paths += FITTED_PATHS
        self.start()

    def follow_mix(self, R, y):
        """The class mix behind `fitted` and its guard, from the rows of the frozen base."""
        n, m = R.shape
        self.ref = (n * R.mean(axis=0) + 0.5) / (n + 0.5 * m)
        squares = (R**2).sum(axis=1)
        sums, counts = np.bincount(y, squares, m), np.bincount(y, minlength=m)
        self.sharp = (sums + 5 * squares.mean()) / (counts + 5)
        rival = Cells(R)
        factor = 1 + counts / 5
        self.chain, self.D, self.N_D = Chain(m, *self.FITTED_MIX, rival, factor), 0.0, 0.0

    def four_passes(self, P, y, orders, name, a):
        base = Base(name, self.m, 1.0, 4.0 * a, 0.5, (40.0,))
        for order in orders:
            for i in order:
                base.learn(P[i], y[i], self.silent, start=self.start_of("fitted"))
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
                    row = base.row(P[i], start=self.start_of("fitted"))
                    loss[i] = -math.log(max(row[y[i]], 1e-6))
            if held is None or (held[1] - loss).mean() > (held[1] - loss).std() / math.sqrt(n):
                held = (kind, loss)
        return held[0]
