"""Prediction sets once more, slowly: every histogram is summed anew from all that came."""

from __future__ import annotations

import math

import numpy as np

EDGE, BINS = 14.0, 560
ROWS_HALF_LIFE = 1000.0
ALL = 1e-4


def scores(row):
    """-logit of each probability, kept within the histogram."""
    with np.errstate(divide="ignore"):
        s = np.log1p(-np.asarray(row)) - np.log(row)
    return np.clip(s, -EDGE, EDGE)


def bin_of(s):
    return np.minimum(((s + EDGE) * (BINS / (2 * EDGE))).astype(int), BINS - 1)


class OracleSets:
    def __init__(self, m, miss=0.1, half_life=5000.0, per_class=False):
        self.m, self.miss, self.half_life, self.per_class = m, miss, half_life, per_class
        self.rows, self.labels = [], []  # bins and weights of each row; the bin of each label
        self.i = 0.0
        self.under_way = []
        self.d, self.n = np.zeros(m), np.zeros(m)

    @property
    def gamma(self):
        mean = 0.0
        for k, found in enumerate(self.under_way, 1):
            mean += max(1 / k, 0.01) * (found - mean)
        return 0.5 / (mean + 100)

    def level(self):
        return 1 / (1 + math.exp(-(math.log(self.miss / (1 - self.miss)) + self.i)))

    def theta(self):
        if self.level() < ALL:
            return math.inf
        F = np.zeros(BINS)
        for age, b in enumerate(reversed(self.labels)):
            F[b] += 0.5 ** (age / self.half_life)
        B = np.zeros(BINS)
        for age, (bins, row) in enumerate(reversed(self.rows)):
            np.add.at(B, bins, row * 0.5 ** (age / ROWS_HALF_LIFE))
        F += B / B.sum() / self.miss
        wanted = (1 - self.level()) * F.sum()
        below = 0.0
        for b in range(BINS):
            if below + F[b] >= wanted:
                return -EDGE + (b + (wanted - below) / F[b]) * (2 * EDGE / BINS)
            below += F[b]
        return EDGE

    def set_one(self, row):
        row = np.asarray(row, float)
        s = scores(row)
        self.rows.append((bin_of(s), row))
        theta = self.theta()
        inside = s <= theta + self.d
        inside[row.argmax()] = True
        return inside, (theta, len(self.rows) - 1)

    def learn_one(self, row, y, ticket):
        theta, number = ticket
        s = scores(row)
        missed = float(s[y] > theta + self.d[y])
        # Of the rows since its own the share that is labelled, as far as that can be known.
        share = (len(self.labels) + 1) / (number + 1)
        self.under_way.append((len(self.rows) - number) * share)
        self.i += self.gamma * (self.miss - missed) / (self.miss * (1 - self.miss))
        if self.per_class:
            self.d[y] += (missed - self.miss) / math.sqrt(self.n[y] + 1)
            self.n[y] += 1
        self.labels.append(int(bin_of(s)[y]))
        return missed
