"""Prediction sets once more, slowly, from docs/sets.md: every sum is made anew of all that came."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

EDGE, BINS = 14.0, 560
ROWS_HALF_LIFE = 1000.0
ALL = 1e-4


class Sent(NamedTuple):
    """What is known of a row's set: theta of its group, of all rows, the row's number."""

    theta: float
    theta_of_all: float
    number: int


class Learned(NamedTuple):
    """A label: its score, weight, and that as a share of the heaviest; its row's number, how many
    rows there were; its group; whether its set missed it, and that of all rows would have."""

    score: float
    weight: float
    share: float
    number: int
    rows: int
    group: Any
    missed: bool
    missed_of_all: bool


def scores(row):
    """-logit of each probability, kept within the histogram."""
    with np.errstate(divide="ignore"):
        s = np.log1p(-np.asarray(row)) - np.log(row)
    return np.clip(s, -EDGE, EDGE)


def bin_of(s):
    return np.minimum(((s + EDGE) * (BINS / (2 * EDGE))).astype(int), BINS - 1)


class OracleSets:
    def __init__(self, miss, half_life):
        self.miss, self.half_life = miss, half_life
        self.rows, self.labels = [], []  # every row; every `Learned`
        self.heaviest = 1.0

    def levels(self):
        """i of all rows, and {group: i}."""
        of_all, of_group, mean, labels_of = 0.0, {}, 0.0, {}
        for n, label in enumerate(self.labels, 1):
            under_way = (label.rows - label.number) * n / (label.number + 1)
            mean += max(1 / n, 0.01) * (under_way - mean)
            scale = label.share / (self.miss * (1 - self.miss))
            if label.group is not None:
                labels_of[label.group] = labels_of.get(label.group, 0) + 1
                i = of_group.get(label.group, of_all)
                step = 0.5 / (mean * labels_of[label.group] / n + 2 / self.miss)
                of_group[label.group] = i + step * (self.miss - label.missed) * scale
            of_all += 0.5 / (mean + 100) * (self.miss - label.missed_of_all) * scale
        return of_all, of_group

    def theta(self, i):
        level = 1 / (1 + math.exp(-(math.log(self.miss / (1 - self.miss)) + i)))
        if level < ALL:
            return math.inf
        F, B = np.zeros(BINS), np.zeros(BINS)
        for age, label in enumerate(reversed(self.labels)):
            F[bin_of(label.score)] += label.weight * 0.5 ** (age / self.half_life)
        for age, row in enumerate(reversed(self.rows)):
            np.add.at(B, bin_of(scores(row)), row * 0.5 ** (age / ROWS_HALF_LIFE))
        F += B / B.sum() / self.miss
        wanted, below = (1 - level) * F.sum(), 0.0
        for b in np.flatnonzero(F):
            if below + F[b] >= wanted:
                return -EDGE + (b + (wanted - below) / F[b]) * (2 * EDGE / BINS)
            below += F[b]
        return EDGE

    def send(self, row, group):
        """A row goes by."""
        self.rows.append(np.asarray(row, float))
        of_all, of_group = self.levels()
        theta_of_all = self.theta(of_all)
        theta = self.theta(of_group[group]) if group in of_group else theta_of_all
        return Sent(theta, theta_of_all, len(self.rows) - 1)

    def learn(self, row, y, group, sent, weight=1.0):
        """The label of a row; one whose set is unknown goes by now."""
        sent = self.send(row, group) if sent is None else sent
        self.heaviest = max(self.heaviest, weight)
        s = scores(row)[y]
        self.labels.append(Learned(
            s, weight, weight / self.heaviest, sent.number, len(self.rows), group,
            s > sent.theta, s > sent.theta_of_all,
        ))  # fmt: skip
