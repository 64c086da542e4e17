"""The mathematics once more: plain, slow, to be checked against docs/method.md and the papers."""

from __future__ import annotations

import math

import numpy as np

from stream_can.method.paths import FITTED_PATHS, PATHS, split


def normalised(r):
    return r / r.sum()


def softmax(z):
    return normalised(np.exp(z - z.max()))


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
    """Temperature, vector or (sparse) matrix scaling, fitted online by diagonal Newton steps."""

    def __init__(self, name, m, g, a, exponent):
        self.name, self.m, self.g, self.a, self.exponent = name, m, g, a, exponent
        self.log_b, self.H_b = 0.0, 10.0
        self.c, self.H = np.zeros(m), np.zeros(m)
        self.A, self.G = np.zeros((m, m), np.float32), np.zeros((m, m), np.float32)

    def speakers(self, p):
        J = sorted(range(self.m), key=lambda j: (-p[j], j))[:5]
        return J, [max(p[j], 1e-7) ** self.exponent for j in J]

    def row(self, p):
        if self.name == "raw":
            return p
        z = math.exp(self.log_b) * np.log(np.maximum(p, 1e-7))
        if self.name in ("vector", "matrix"):
            z = z + self.c
        if self.name == "matrix":
            for j, w in zip(*self.speakers(p), strict=True):
                z = z + w * self.A[j].astype(np.float64)
        return softmax(z)

    def learn(self, p, y):
        if self.name == "raw":
            return
        r, b, g, a = self.row(p), math.exp(self.log_b), self.g, self.a
        x = np.log(np.maximum(p, 1e-7))
        E = (r * x).sum()
        self.H_b = 10 + g * (self.H_b - 10) + b**2 * ((r * x**2).sum() - E**2)
        step = (b * (E - x[y]) + (1 - g) * 10 * self.log_b) / (self.H_b + 1e-9)
        self.log_b = float(np.clip(self.log_b - step, -2, 2))
        if self.name == "temperature":
            return
        d = r - np.eye(self.m)[y]
        self.H = g * self.H + r * (1 - r)
        self.c = np.clip(self.c - (d + (1 - g) * a * self.c) / (self.H + a), -6, 6)
        if self.name == "vector":
            return
        for j, w in zip(*self.speakers(p), strict=True):
            A, G = (
                self.A[j].astype(np.float64),
                g * self.G[j].astype(np.float64) + w**2 * r * (1 - r),
            )
            self.G[j] = G
            self.A[j] = np.clip(A - (w * d + (1 - g) * a * A) / (G + a), -6, 6)


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
        self.m, self.paths = m, [path for path in PATHS if path in paths]
        self.g = 2 ** (-1 / half_life)
        self.kind, self.k, self.threshold = uncertainty, k, threshold
        self.kappa = m if pseudo_count is None else pseudo_count
        self.s = m if prior_strength is None else prior_strength
        counts = np.zeros(m) if train_counts is None else np.asarray(train_counts, float)
        self.q_train = (counts + 1) / (counts + 1).sum()
        self.L, self.n = np.zeros(m), 0
        self.bases = {
            name: Base(name, m, self.g, 5.0, 0.25)
            for name in ("raw", "temperature", "vector", "matrix")
        }
        self.S = {name: np.zeros(m) for name in (*self.bases, "fitted")}
        self.frozen = None
        self.start()

    def start(self):
        anchor = next(
            (a for a in ("fitted", "temperature", "raw") if a in self.paths), self.paths[0]
        )
        self.w0 = np.array(
            [1 - 0.001 * (len(self.paths) - 1) if path == anchor else 0.001 for path in self.paths]
        )
        self.w, self.n = self.w0.copy(), 0

    @property
    def q(self):
        if math.isinf(self.s):
            return self.q_train
        return (self.L + self.s * self.q_train) / (self.L.sum() + self.s)

    def base_row(self, name, p):
        if name != "fitted":
            return self.bases[name].row(p)
        r = self.frozen.row(p)
        if self.ref is None:
            return r
        shifted = (self.Q + 20 * self.m * self.ref) / (self.N + 20 * self.m)
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

    def correct(self, p):
        return sum(w * r for w, r in zip(self.w, self.explain(p).values(), strict=True))

    def observe(self, p):
        p = normalised(np.asarray(p, float))
        rows = {name: self.base_row(name, p) for name in {split(path)[0] for path in self.paths}}
        for name, r in rows.items():
            if self.uncertainty_of(r) < self.threshold:
                self.S[name] = self.g * self.S[name] + r
        if self.frozen is not None and self.ref is not None:
            g = 2 ** (-1 / 1000)
            self.Q, self.N = g * self.Q + rows["fitted"], g * self.N + 1

    def process(self, p):
        out = self.correct(p)
        self.observe(p)
        return out

    def learn(self, p, y):
        if p is not None:
            self.n += 1
            w = self.w * [max(r[y], 1e-6) for r in self.explain(p).values()]
            h = 1 / (self.n + 2)
            self.w = (1 - h) * w / w.sum() + h * self.w0
            p = normalised(np.asarray(p, float))
            for base in self.bases.values():
                base.learn(p, y)
        self.L = self.g * self.L + np.eye(self.m)[y]

    # ---- validation data

    def fit(self, P, y):
        P = np.array([normalised(np.asarray(p, float)) for p in P])
        n, m = P.shape
        rng = np.random.default_rng(0)
        orders = [rng.permutation(n) for _ in range(4)]
        enough = n >= 5000 and n >= 5 * m
        kind = ("matrix", 5) if enough else self.ladder(P, y, orders)
        self.frozen = self.four_passes(P, y, orders, *kind)
        self.ref = None
        if n >= 500:
            v = np.mean([self.frozen.row(p) for p in P], axis=0)
            self.ref, self.Q, self.N = (n * v + 0.5) / (n + 0.5 * m), np.zeros(m), 0.0
        self.paths += FITTED_PATHS
        self.start()
        for i in orders[0]:
            self.learn(P[i], y[i])
        self.start()

    def four_passes(self, P, y, orders, name, a):
        base = Base(name, self.m, 1.0, 4 * a, 0.5)
        base.H_b = 40.0
        for order in orders:
            for i in order:
                base.learn(P[i], y[i])
        return base

    def ladder(self, P, y, orders):
        n = len(P)
        fold = np.empty(n, int)
        fold[orders[0]] = np.arange(n) % 5
        held = None
        for kind in (("temperature", 5), ("vector", 20), ("vector", 5), ("matrix", 5)):
            if kind[0] == "matrix" and self.m > 256:
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
