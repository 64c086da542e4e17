"""The corrector of multilabel rows once more, slowly: one label after the other."""

from __future__ import annotations

import math

import numpy as np

W0 = np.array([0.998, 0.001, 0.001])
EVIDENCE, A, A_S, S, KAPPA, THRESHOLD = 20.0, 5.0, 20.0, 20.0, 20.0, 0.9


def logit(p):
    return math.log(p / (1 - p))


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def clip(v, least, most):
    return min(max(v, least), most)


def entropy(r):
    """Of (r, 1 - r), in bits."""
    return -sum(x * math.log2(x) for x in (r, 1 - r) if x > 0)


class Shared:
    """Numbers that all labels share, and their curvature."""

    def __init__(self, precisions, limits):
        self.precisions, self.limits = np.array(precisions), np.array(limits)
        self.u = np.zeros(len(precisions))
        self.Q = np.zeros((len(precisions),) * 2)

    def learn(self, features, r, y, g, D):
        """features: of each known label a vector."""
        Lambda = D * np.diag(self.precisions)
        gradient = (1 - g) * Lambda @ self.u
        self.Q = g * self.Q
        for f, r_k, y_k in zip(features, r, y, strict=True):
            self.Q = self.Q + r_k * (1 - r_k) * np.outer(f, f)
            gradient = gradient + (r_k - y_k) * np.array(f)
        step = np.linalg.solve(self.Q + Lambda + 1e-9 * np.eye(len(self.u)), gradient)
        self.u = np.clip(self.u - step, -self.limits, self.limits)


class Label:
    """What is learned of one label."""

    def __init__(self, q_train):
        self.q_train, self.f2 = q_train, logit(q_train)
        self.M = self.c = self.H = self.s = self.H_s = 0.0
        self.L = self.L_N = self.S1 = self.S0 = 0.0
        self.negatives, self.sum_no = 0, 0.0  # known ones, and what was said against it


class OracleMultiLabel:
    def __init__(self, m, train_counts=None, train_rows=None, half_life=5000.0):
        self.m, self.g = m, 2 ** (-1 / half_life)
        if train_counts is None:
            q_train = [0.5] * m
        else:
            q_train = [(count + 0.5) / (train_rows + 1) for count in train_counts]
        self.labels = [Label(q) for q in q_train]
        self.temperature = Shared([10.0], [2.0])
        self.vector = Shared([10.0, 3.0, 3.0, 3.0], [2.0, 5.0, 5.0, 5.0])
        self.N = self.sum_G2 = self.sum_C = 0.0
        self.w, self.G, self.n_rows = W0.copy(), 0.0, 0
        self.negatives = self.positives = 0
        self.sum_no = self.sum_yes = 0.0
        self.N_side, self.n_side = [0.0, 0.0], [0.0, 0.0]
        self.n_predictions = 0

    # ---- a row as it looks now

    def features(self, k, p):
        """x, f1, f2."""
        of = self.labels[k]
        x = logit(clip(p, 1e-4, 1 - 1e-4))
        seen = (of.M + EVIDENCE * of.q_train) / (self.N + EVIDENCE)
        return x, logit(clip(seen, 1e-6, 1 - 1e-6)) - of.f2, of.f2

    def of_temperature(self, k, p):
        return sigmoid(math.exp(self.temperature.u[0]) * self.features(k, p)[0])

    def of_vector(self, k, p):
        of, (x, f1, f2), u = self.labels[k], self.features(k, p), self.vector.u
        z = math.exp(u[0]) * x + u[1] + u[2] * f1 + u[3] * f2
        return sigmoid(z + of.c + of.s * (x - f2))

    def with_can(self, k, p):
        of, r = self.labels[k], self.of_vector(k, p)
        if entropy(r) < THRESHOLD:
            return r
        q = (of.L + S * of.q_train) / (of.L_N + S)
        yes = r * q / (of.S1 + KAPPA * q + r)
        no = (1 - r) * (1 - q) / (of.S0 + KAPPA * (1 - q) + 1 - r)
        return yes / (yes + no)

    def rows(self, p):
        """Of the three paths, (3, m)."""
        ways = (self.of_temperature, self.of_vector, self.with_can)
        return np.array([[way(k, p[k]) for k in range(self.m)] for way in ways])

    def trust(self, k, p):
        of = self.labels[k]
        if self.negatives == 0 and self.sum_no > 5:
            return 0.0
        if self.positives == 0 and self.sum_yes > 5:
            return 0.0
        if of.negatives == 0 and of.sum_no > 5:
            return 0.0
        N, n, side = sum(self.N_side), sum(self.n_side), int(p >= 0.5)
        if N == 0:
            return 1.0
        return min(1.0, 4 * (self.n_side[side] + 1) / (n * self.N_side[side] / N + 1))

    # ---- on a row

    def correct(self, p):
        """What is sent, and the receipt (2, m)."""
        rows = self.rows(p)
        mixture = self.w @ rows
        by = np.exp([0.0, self.G])
        by = by / by.sum()
        out = by[0] * rows[0] + by[1] * mixture
        trust = np.array([self.trust(k, p[k]) for k in range(self.m)])
        return trust * out + (1 - trust) * np.array(p), np.array([rows[0], mixture])

    def process(self, p):
        sent = self.correct(p)
        g, vector = self.g, self.rows(p)[1]
        self.N_side = [g * n for n in self.N_side]
        self.n_side = [g * n for n in self.n_side]
        for k, of in enumerate(self.labels):
            r = vector[k]
            if entropy(r) < THRESHOLD:
                of.S1, of.S0 = g * of.S1 + r, g * of.S0 + 1 - r
            of.M = g * of.M + p[k]
            self.N_side[int(p[k] >= 0.5)] += 1
        self.N = g * self.N + 1
        self.n_predictions += 1
        return sent

    # ---- on a row of labels

    def learn(self, p, y, receipt=None):
        """y of 1, 0 and -1; p None where the row is gone."""
        known = [k for k in range(self.m) if y[k] >= 0]
        if not known:
            return
        if p is not None:
            self.learn_row(p, y, known, receipt)
        for k in known:
            of = self.labels[k]
            of.L, of.L_N = self.g * of.L + y[k], self.g * of.L_N + 1

    def learn_row(self, p, y, known, receipt):
        g, rows = self.g, self.rows(p)
        self.n_rows += 1
        for k in known:
            of = self.labels[k]
            if y[k] == 0:
                of.negatives += 1
                self.negatives += 1
            else:
                self.positives += 1
            of.sum_no += 1 - p[k]
            self.sum_no += 1 - p[k]
            self.sum_yes += p[k]
            self.n_side[int(p[k] >= 0.5)] += 1

        def given(row, k):
            return max(row[k] if y[k] else 1 - row[k], 1e-6)

        D = max(1.0, (10 * math.sqrt(len(known)) + self.sum_G2) / (10 + self.sum_C))
        anchor, mixture = rows[0], self.w @ rows
        if receipt is not None and not np.isnan(np.asarray(receipt)[:, known]).any():
            anchor, mixture = np.asarray(receipt, float)
        gains = [math.log(given(mixture, k) / given(anchor, k)) for k in known]
        self.G = g * self.G + sum(gains) / D
        gave = np.array([sum(math.log(given(row, k)) for k in known) for row in rows]) / D
        w = self.w * np.exp(gave - gave.max())
        h = 1 / (self.n_rows + 2)
        self.w = (1 - h) * w / w.sum() + h * W0

        x, f1, f2 = np.array([self.features(k, p[k]) for k in known]).T
        ys = np.array([y[k] for k in known])
        temperature, vector = rows[0][known], rows[1][known]
        b_t, b_v = math.exp(self.temperature.u[0]), math.exp(self.vector.u[0])
        self.temperature.learn([[b_t * v] for v in x], temperature, ys, g, D)
        F = np.array([b_v * x, np.ones(len(x)), f1, f2]).T
        self.vector.learn(F, vector, ys, g, D)
        self.sum_G2 = g * self.sum_G2 + (temperature - ys).sum() ** 2
        self.sum_C = g * self.sum_C + (temperature * (1 - temperature)).sum()
        for i, k in enumerate(known):
            of, r, d, z = self.labels[k], vector[i], vector[i] - ys[i], x[i] - f2[i]
            v = r * (1 - r)
            of.H = g * of.H + v
            of.c = clip(of.c - (d + (1 - g) * A * of.c) / (of.H + A), -6, 6)
            of.H_s = g * of.H_s + v * z**2
            of.s = clip(of.s - (d * z + (1 - g) * A_S * of.s) / (of.H_s + A_S), -0.8, 1.5)
