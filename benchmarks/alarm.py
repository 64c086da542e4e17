"""How seldom the alarm is false, and how soon it notices that a classifier is worse.

    python benchmarks/alarm.py

Made streams of 5 classes, right in a share of the rows, 10,000 labels in which nothing changes or
5,000 before a fall and 10,000 after it; digits that a weaker model reads from row 1,200 on.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from stream_can.trust import Alarm

STREAMS, BEFORE, AFTER, CHANGE = 50, 5000, 10_000, 1200


def made(rng: np.random.Generator, n: int, accuracy: float, m: int = 5) -> tuple[np.ndarray, ...]:
    y = rng.integers(0, m, n)
    top = np.where(rng.random(n) < accuracy, y, (y + rng.integers(1, m, n)) % m)
    sure = 0.2 + 0.8 * rng.beta(6, 2, n)
    P = np.repeat(((1 - sure) / (m - 1))[:, None], m, axis=1)
    P[np.arange(n), top] = sure
    return P, y


def alarmed(P: np.ndarray, y: np.ndarray) -> Alarm:
    """What is sent is what came."""
    alarm = Alarm()
    alarm.learn_many(P, P, y)
    return alarm


def main() -> None:
    false = 0
    for accuracy in (0.5, 0.8, 0.9, 0.99):
        for seed in range(STREAMS):
            rng = np.random.default_rng([seed, int(100 * accuracy)])
            false += bool(alarmed(*made(rng, AFTER, accuracy)).episodes)
    print(f"| {4 * STREAMS} streams in which nothing changes | {false} have an episode |")
    for fall in (5, 10, 20):
        delays, distances = [], []
        for seed in range(40):
            rng = np.random.default_rng([seed, fall])
            parts = made(rng, BEFORE, 0.8), made(rng, AFTER, 0.8 - fall / 100)
            alarm = alarmed(*map(np.concatenate, zip(*parts, strict=True)))
            late = [episode for episode in alarm.episodes if episode.noticed > BEFORE]
            if late:
                delays.append(late[0].noticed - BEFORE)
                distances.append(abs(late[0].since - BEFORE))
        print(f"| fall of {fall} points | {len(delays)} of 40, median after {np.median(delays):.0f}"
              f"; the begin is off by {np.median(distances):.0f} |")  # fmt: skip
    X, y = load_digits(return_X_y=True)
    noticed = []
    for seed in range(8):
        first, rest, of_first, of_rest = train_test_split(X, y, train_size=300, random_state=seed)
        strong = LogisticRegression(max_iter=2000).fit(first, of_first)
        weak = DecisionTreeClassifier(max_depth=5, random_state=0).fit(first, of_first)
        P = strong.predict_proba(rest)
        P[CHANGE:] = weak.predict_proba(rest[CHANGE:])
        noticed += [episode.noticed - CHANGE for episode in alarmed(P, of_rest).episodes[-1:]]
    print(f"| a weaker model, 8 times | {len(noticed)}, {min(noticed)} to {max(noticed)} labels |")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    main()
