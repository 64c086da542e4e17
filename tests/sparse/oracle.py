"""The sparse corrector once more, slowly: every class is kept, and every class is decayed."""

from __future__ import annotations

import math

import numpy as np

A = 2.0  # the precision of c and of A
PI = np.array([0.5, 0.25, 0.25])
W0 = np.array([0.997, 0.001, 0.001, 0.001])
LAMBDA = np.array([10.0, 3.0, 3.0, 1.0])
LIMITS = np.array([2.0, 3.0, 3.0, 8.0])
PARTNERS, FRONT = 15, 5


def normalised(r):
    return r / r.sum()


def softmax(z):
    return normalised(np.exp(z - z.max()))


def without(r, silent):
    """The row without its silent entries."""
    return normalised(np.where(silent, 0.0, r)) if silent.any() else r


def uncertainty(listed):
    """The entropy of the three largest, renormalised, over its maximum."""
    if len(listed) == 1:
        return 0.0
    top = normalised(np.sort(listed)[::-1][:3])
    inside = top[top > 0]
    return float(-(inside * np.log(inside)).sum() / math.log(len(top)))


class Parameters:
    """u and its curvature: one Newton step a label."""

    def __init__(self, precisions, limits, g):
        n = len(precisions)
        self.u, self.Q = np.zeros(n), np.zeros((n, n))
        self.Lambda, self.limits, self.g = np.diag(precisions), np.array(limits), g

    def learn(self, F, r, y):
        """F has a row for each feature and a column for each entry; y is an entry."""
        E = F @ r
        centred = F - E[:, None]
        self.Q = self.g * self.Q + (r * centred) @ centred.T
        gradient = E - F[:, y] + (1 - self.g) * self.Lambda @ self.u
        step = np.linalg.solve(self.Q + self.Lambda + 1e-9 * np.eye(len(self.u)), gradient)
        self.u = np.clip(self.u - step, -self.limits, self.limits)


class Block:
    """What a class says of others: at most 15 partners, and the rest."""

    def __init__(self):
        self.partners = []  # [id, A, G]
        self.rest = [0.0, 0.0]  # A, G

    def of(self, i):
        return next((a for partner, a, _ in self.partners if partner == i), 0.0)


class OracleSparse:
    def __init__(self, m, train_counts=None, half_life=5000.0):
        self.m, self.g = m, 2 ** (-1 / half_life)
        counts = np.zeros(m) if train_counts is None else np.array(train_counts, float)
        self.q_train = (counts + 1) / (counts + 1).sum()
        for name in ("M", "N_j", "n_j", "L", "O", "S"):
            setattr(self, name, np.zeros(m))
        self.c = {"vector": np.zeros(m), "matrix": np.zeros(m)}
        self.H = {"vector": np.zeros(m), "matrix": np.zeros(m)}
        self.heard = np.zeros(m, bool)
        self.blocks = {}
        self.temperature = Parameters(LAMBDA[:1], LIMITS[:1], self.g)
        self.last = Parameters(LAMBDA[[0, 3]], LIMITS[[0, 3]], self.g)
        self.vector = Parameters(LAMBDA, LIMITS, self.g)
        self.matrix = Parameters(LAMBDA, LIMITS, self.g)
        self.N = self.n = self.N_R = self.n_R = 0.0
        self.sum_L = self.sum_O = self.sum_S = 0.0
        self.agree = self.differ = self.unlisted = 0
        self.sum_top = self.sum_R = 0.0
        self.n_predictions = self.n_labels = 0
        self.w, self.G, self.V = W0.copy(), np.zeros(3), np.zeros(3)
        self.front = []
        self.rest_silent = False

    # ---- a row

    def row(self, ids, p):
        """ids, p and the rest R."""
        ids, p = np.array(ids), np.array(p, float)
        if p.sum() > 1 or len(ids) == self.m:
            p = p / p.sum()
        R = max(0.0, 1 - p.sum()) if len(ids) < self.m else 0.0
        return ids, p, R

    def silent(self, ids):
        if self.N == 0:
            return np.zeros(len(ids), bool)
        e = self.n * self.N_j[ids] / self.N
        return ~self.heard[ids] & (self.n_j[ids] < e - np.sqrt(e))

    def speakers(self, ids, p):
        """J as places in the list, and w."""
        J = sorted(range(len(ids)), key=lambda place: (-p[place], place))[:5]
        return [(int(ids[j]), max(p[j], 0.01 / self.m) ** 0.25) for j in J]

    def features(self, ids, p, R):
        """x, f1 - f2, f2 and what marks the rest: (4, k + 1)."""
        m, n_rest = self.m, self.m - len(ids)
        x = np.log(np.maximum(np.append(p, R / n_rest if n_rest else 0.0), 0.01 / m))
        f1 = np.append(np.log((self.M[ids] + 1) * m / (self.N + m)), 0.0)
        f2 = np.append(np.log(m * self.q_train[ids]), 0.0)
        return np.array([x, f1 - f2, f2, np.append(np.zeros(len(ids)), 1.0)])

    def few(self, p, R):
        """Logarithms of the listed entries, and of one of at most 50 classes of the rest."""
        n = min(self.m - len(p), 50)
        return np.log(np.maximum(np.append(p, R / n if n else 1.0), 0.01 / self.m))

    def base(self, name, ids, p, R):
        """softmax(b x + ..., b x_R + log n_r + ...); of temperature at most 50 are n_r."""
        u, n_rest = getattr(self, name).u, self.m - len(ids)
        F = self.features(ids, p, R)
        if name == "temperature":
            z = math.exp(u[0]) * self.few(p, R)
            z[-1] = z[-1] + math.log(min(n_rest, 50)) if n_rest else -np.inf
            return softmax(z)
        z = F[2] + math.exp(u[0]) * (F[0] - F[2]) + u[1:] @ F[1:]
        z[:-1] += np.where(self.silent(ids), 0.0, self.c[name][ids])
        if name == "matrix":
            for j, w in self.speakers(ids, p):
                if j in self.blocks:
                    z[:-1] += w * np.array([self.blocks[j].of(i) for i in ids])
                    z[-1] += w * self.blocks[j].rest[0]
        z[-1] = z[-1] + math.log(n_rest) if n_rest else -np.inf
        return softmax(z)

    def can(self, r, ids):
        if uncertainty(r[:-1]) < 0.9:
            return r
        q = (self.L[ids] + self.m * self.q_train[ids]) / (self.sum_L + self.m)
        q = np.where(self.silent(ids), self.q_train[ids], q)
        q = np.append(q, max(1e-9, 1 - q.sum()))
        S = np.append(self.S[ids], max(0.0, self.sum_S - self.S[ids].sum()))
        return normalised(r * q / (S + self.m * q + r))

    def paths(self, ids, p, R):
        matrix = self.base("matrix", ids, p, R)
        return [
            self.base("temperature", ids, p, R),
            self.base("vector", ids, p, R),
            matrix,
            self.can(matrix, ids),
        ]

    def tempered(self, mixture, n_rest):
        if not self.last.u.any():
            return mixture
        z = self.last_features(mixture)[0]
        z[-1] = z[-1] + self.last.u[1] if n_rest else -np.inf
        return softmax(z)

    def last_features(self, mixture):
        x = math.exp(self.last.u[0]) * np.log(np.maximum(mixture, 0.01 / self.m))
        return np.array([x, np.append(np.zeros(len(x) - 1), 1.0)])

    def three(self, paths, n_rest, silent):
        mixture = sum(w * r for w, r in zip(self.w, paths, strict=True))
        return np.array([paths[0], mixture, without(self.tempered(mixture, n_rest), silent)])

    @property
    def final_weights(self):
        return normalised(PI * np.exp(self.G - self.G.max()))

    def trust(self, j):
        if self.agree == 0 and self.sum_top > 5:
            return 0.0
        if self.differ == 0 and self.agree - self.sum_top > 5:
            return 0.0
        e = self.n * self.N_j[j] / self.N if self.N else 0.0
        return min(1.0, 4 * (self.n_j[j] + 1) / (e + 1))

    # ---- the tail

    def parts_of_tail(self, labels):
        """T_c of classes: (3, ...)."""
        q = self.q_train[labels]
        return np.array(
            [np.full_like(q, 1 / self.m), q, (self.O[labels] + 10 * q) / (self.sum_O + 10)]
        )

    def shares_of_tail(self, y, ids):
        """v_c T_c(y) / z_c."""
        z = np.maximum(1 - self.parts_of_tail(ids).sum(axis=1), 1e-6)
        v = (self.V + 1) / (self.V.sum() + 3)
        return v * self.parts_of_tail(np.array([y]))[:, 0] / z

    def tail(self, y, ids, rest):
        return rest * self.shares_of_tail(y, ids).sum()

    # ---- on a row

    def correct(self, ids, p):
        """The ids and probabilities that are sent, the rest, and the receipt (3, k + 1)."""
        ids, p, R = self.row(ids, p)
        rows = self.three(self.paths(ids, p, R), self.m - len(ids), np.zeros(len(ids) + 1, bool))
        trust = self.trust(ids[p.argmax()])
        out = trust * (self.final_weights @ rows) + (1 - trust) * np.append(p, R)
        if self.rest_silent and R < 1 and out[:-1].sum() > 0:
            out = np.append(out[:-1] * (1 - R) / out[:-1].sum(), R)
        sent_ids, sent, rest = ids.tolist(), out[:-1].tolist(), out[-1]
        for y in self.front:
            share = self.tail(y, ids, out[-1])
            if y not in ids and share > out[:-1].min():
                sent_ids.append(y)
                sent.append(share)
                rest -= share
        return sent_ids, np.array(sent), rest, rows

    def observe(self, ids, p):
        ids, p, R = self.row(ids, p)
        r, g = self.base("matrix", ids, p, R), self.g
        if uncertainty(r[:-1]) < 0.9:
            self.S, self.sum_S = g * self.S, g * self.sum_S + 1
            self.S[ids] += r[:-1]
        self.M, self.N_j, self.n_j = g * self.M, g * self.N_j, g * self.n_j
        self.M[ids] += p
        self.N_j[ids[p.argmax()]] += 1
        self.N, self.n = g * self.N + 1, g * self.n
        self.N_R, self.n_R = g * self.N_R + R, g * self.n_R
        self.n_predictions += 1

    def process(self, ids, p):
        sent = self.correct(ids, p)
        self.observe(ids, p)
        return sent

    # ---- on a label

    def learn(self, ids, p, y, receipt=None):
        self.n_labels += 1
        self.heard[y] = True
        if ids is not None:
            self.learn_row(*self.row(ids, p), y, receipt)
        self.L, self.sum_L = self.g * self.L, self.g * self.sum_L + 1
        self.L[y] += 1

    def learn_row(self, ids, p, R, y, receipt):
        g, n_rest = self.g, self.m - len(ids)
        j = ids[p.argmax()]
        listed = y in ids
        entry = ids.tolist().index(y) if listed else len(ids)
        self.n_j[j] += 1
        self.n += 1
        self.n_R += R
        self.sum_R += R
        self.unlisted += not listed
        self.agree, self.differ = self.agree + int(j == y), self.differ + int(j != y)
        self.sum_top += p.max()
        e = self.n * self.N_R / self.N if self.N else 0.0
        self.rest_silent = bool(
            self.unlisted == 0 and self.sum_R > 5 and self.n_R < e - math.sqrt(e)
        )
        silent = np.append(self.silent(ids), self.rest_silent)
        paths = [without(r, silent) for r in self.paths(ids, p, R)]
        now = self.three(paths, n_rest, silent)

        known = None if receipt is None else np.asarray(receipt, float)[:, entry]
        given = now[:, entry] if known is None or np.isnan(known).any() else known
        given = np.maximum(given, 1e-6)
        self.G = g * self.G + np.log(given / given[0])
        _, mixture, tempered = now
        if not self.last.u.any():  # the row of the step has the floor
            z = self.last_features(mixture)[0]
            z[-1] = z[-1] if n_rest else -np.inf
            tempered = without(softmax(z), silent)
        self.last.learn(self.last_features(mixture), tempered, entry)
        h = 1 / (self.agree + self.differ + 2)
        likely = np.maximum([r[entry] for r in paths], 1e-6)
        self.w = (1 - h) * normalised(self.w * likely) + h * W0

        F, speakers = self.features(ids, p, R), self.speakers(ids, p)
        for base, r in (
            (self.temperature, paths[0]),
            (self.vector, paths[1]),
            (self.matrix, paths[2]),
        ):
            mine = F[: len(base.u)].copy()
            mine[0] -= F[2]
            if len(mine) == 1:  # temperature is not centred, and its rest is of few classes
                mine[0] = self.few(p, R)
            mine[0] *= math.exp(base.u[0])
            base.learn(mine, r, entry)
        for name, r in (("vector", paths[1]), ("matrix", paths[2])):
            self.step_offsets(name, ids, r, entry, silent)
        self.step_blocks(speakers, ids, paths[2], y, entry)
        if not listed:
            self.learn_tail(y, ids)

    def stepped(self, a, H, r, d, w=1.0):
        """One dense step of an offset and its curvature."""
        H = self.g * H + w**2 * r * (1 - r)
        return np.clip(a - (w * d + (1 - self.g) * A * a) / (H + A), -6, 6), H

    def step_offsets(self, name, ids, r, entry, silent):
        """Every class takes the step: with r = 0 where it is not listed."""
        everywhere, d = np.zeros(self.m), np.zeros(self.m)
        everywhere[ids] = r[:-1]
        d[ids] = r[:-1] - (np.arange(len(ids)) == entry)
        self.c[name], self.H[name] = self.stepped(self.c[name], self.H[name], everywhere, d)
        self.c[name][ids[silent[:-1]]] = self.H[name][ids[silent[:-1]]] = 0

    def step_blocks(self, speakers, ids, r, y, entry):
        d = r - (np.arange(len(r)) == entry)
        place = {int(i): at for at, i in enumerate(ids)}
        for j, w in speakers:
            block = self.blocks.setdefault(j, Block())
            for slot in block.partners:
                at = place.get(slot[0])
                ri, di = (0.0, 0.0) if at is None else (r[at], d[at])
                slot[1:] = self.stepped(slot[1], slot[2], ri, di, w)
            block.rest = list(self.stepped(*block.rest, r[-1], d[-1], w))
            if self.rest_silent:
                block.rest = [0.0, 0.0]
            if y in place and y not in [slot[0] for slot in block.partners]:
                new = [int(y), *self.stepped(0.0, 0.0, r[entry], d[entry], w)]
                if len(block.partners) < PARTNERS:
                    block.partners.append(new)
                else:
                    weakest = min(range(PARTNERS), key=lambda at: block.partners[at][2])
                    block.partners[weakest] = new

    def learn_tail(self, y, ids):
        g = self.g
        self.V = g * self.V + normalised(self.shares_of_tail(y, ids))
        self.O, self.sum_O = g * self.O, g * self.sum_O + 1
        self.O[y] += 1
        if y in self.front:
            return
        if len(self.front) < FRONT:
            self.front.append(int(y))
            return
        weakest = min(range(FRONT), key=lambda at: self.O[self.front[at]])
        if self.O[self.front[weakest]] < self.O[y]:
            self.front[weakest] = int(y)
