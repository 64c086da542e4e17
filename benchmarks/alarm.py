"""How seldom the alarm is false, how soon it notices that a classifier is worse, what it costs.

    python benchmarks/alarm.py [--streams 200] [--falls 40] [--long 1000000]

Made streams of 5 classes, right in a share of the rows, and sure as a classifier is; digits that a
weaker model reads from some row on, from scikit-learn. What is sent is what came.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from stream_can.trust.alarm import Alarm


def stream(rng: Any, n: int, accuracy: float, m: int = 5) -> tuple[Any, Any]:
    ys = rng.integers(0, m, n)
    top = np.where(rng.random(n) < accuracy, ys, (ys + rng.integers(1, m, n)) % m)
    sure = 0.2 + 0.8 * rng.beta(6, 2, n)
    P = np.repeat(((1 - sure) / (m - 1))[:, None], m, axis=1)
    P[np.arange(n), top] = sure
    return P, ys


def still(streams: int, n: int) -> None:
    for accuracy in (0.5, 0.8, 0.9, 0.99):
        found = 0
        for seed in range(streams // 4):
            alarm = Alarm()
            P, ys = stream(np.random.default_rng([seed, int(100 * accuracy)]), n, accuracy)
            alarm.learn_many(P, P, ys)
            found += bool(alarm.episodes)
        print(
            f"still, right in {accuracy:.0%}: {found} of {streams // 4} have an episode", flush=True
        )


def falls(streams: int, n: int) -> None:
    for fall in (0.05, 0.1, 0.2):
        delays, off = [], []
        for seed in range(streams):
            rng = np.random.default_rng([seed, int(100 * fall)])
            parts = stream(rng, 5000, 0.8), stream(rng, n, 0.8 - fall)
            P, ys = (np.concatenate(both) for both in zip(*parts, strict=True))
            alarm = Alarm()
            alarm.learn_many(P, P, ys)
            late = [one for one in alarm.episodes if one.noticed > 5000]
            if late:
                delays.append(late[0].noticed - 5000)
                off.append(abs(late[0].since - 5000))
        print(
            f"fall of {100 * fall:.0f} points: {len(delays)} of {streams} noticed within {n:,}"
            f" labels, median after {np.median(delays):.0f}, begin off by {np.median(off):.0f}",
            flush=True,
        )


def swapped(times: int) -> None:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_digits(return_X_y=True)
    delays = []
    for seed in range(times):
        first, rest, of_first, of_rest = train_test_split(X, y, train_size=300, random_state=seed)
        strong = LogisticRegression(max_iter=2000).fit(first, of_first).predict_proba(rest)
        weak = DecisionTreeClassifier(max_depth=5, random_state=0).fit(first, of_first)
        P = np.concatenate([strong[:1200], weak.predict_proba(rest)[1200:]])
        alarm = Alarm()
        alarm.learn_many(P, P, of_rest)
        delays.append(alarm.episodes[-1].noticed - 1200 if alarm.episodes else np.nan)
    print(f"digits, a tree in place of a regression: noticed after {delays} labels")


def cost(n: int) -> None:
    P, ys = stream(np.random.default_rng(0), 10_000, 0.8)
    alarm, spent = Alarm(), []
    for _ in range(n // 10_000):
        begin = time.process_time()
        alarm.learn_many(P, P, ys)
        spent.append(100 * (time.process_time() - begin))
    low, middle, high = min(spent), float(np.median(spent)), max(spent)
    print(f"a label: {low:.1f} / {middle:.1f} / {high:.1f} us")
    print(f"after {alarm.n:,} labels {len(alarm.to_bytes()):,} bytes, {len(alarm._starts)} starts")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--falls", type=int, default=40)
    parser.add_argument("--long", type=int, default=1_000_000)
    options = parser.parse_args()
    swapped(8)
    still(options.streams, 10_000)
    falls(options.falls, 10_000)
    cost(options.long)
