"""What a new version of a classifier begins with: log loss over its first rows.

    python benchmarks/successor.py

Flights (examples/flights.py): a logistic regression, trained again on all that is known at five
dates. Two pairs of unlike models: flights and dslabs' movielens (see benchmarks/segments.py), where
boosted trees take the place of a logistic regression. The old version's corrector learns its own
stream up to the change; from there on the new version's rows go to a successor of it, for each
discount, or to a corrector that knows no more than the class mix of the labels ("mix alone").
Labels of flights come when the fate of a flight is known, the others 100 rows late. The old one's
labels that are still under way at the change teach nobody.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from segments import table

from stream_can import Corrector

ROWS = (200, 1000, 5000)
DISCOUNTS = (0.0, 0.03, 0.1, 0.3, 1.0)
DATES = ("04-01", "05-15", "07-01", "09-01", "11-01")


def run(corrector: Corrector, P: np.ndarray, y: np.ndarray, due: np.ndarray) -> np.ndarray:
    """Play rows and labels, each with its receipt; log loss of what was sent, shape (n,).

    due is the number of rows before which each label comes; labels behind the last row do not.
    """
    n, losses, receipts = len(P), np.empty(len(P)), {}
    order, at = np.argsort(due, kind="stable"), 0
    for i in range(n):
        while at < n and due[order[at]] <= i:
            j = order[at]
            corrector.learn_one(P[j], y[j], receipt=receipts.pop(j))
            at += 1
        row, receipts[i] = corrector.process_one(P[i], receipt=True)
        losses[i] = -np.log(max(row[y[i]], 1e-6))
    return losses


def mix_alone(old: Corrector) -> Corrector:
    """A new corrector that knows the class mix of the labels."""
    new = old.successor(0)
    begun = Corrector(len(old.classes))._state
    for name in ("weights", "W.moving"):
        new._state[name][:] = begun[name]
    return new


def compare(name: str, old: Corrector, P: np.ndarray, y: np.ndarray, due: np.ndarray) -> dict:
    """The new version's first rows, behind each beginning."""
    begin = {"mix alone": mix_alone(old)} | {f"{d:g}": old.successor(d) for d in DISCOUNTS}
    k = ROWS[-1]
    losses = {how: run(c, P[:k], y[:k], due[:k]) for how, c in begin.items()}
    raw = -np.log(np.maximum(P[np.arange(k), y[:k]], 1e-6)) if len(P) == k else None
    means = {how: [one[:n].mean() for n in ROWS] for how, one in losses.items()}
    means["raw"] = [np.nan] * 3 if raw is None else [raw[:n].mean() for n in ROWS]
    print(f"{name:<34}" + "".join(f"{how:>12} {one[0]:.3f} {one[1]:.3f} {one[2]:.3f}"
                                  for how, one in means.items()), flush=True)  # fmt: skip
    return means


def models() -> dict[str, Callable[[], Any]]:
    import flights as example
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    few, wide = example.FEATURES[:-1], example.FEATURES[-1:]
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return {
        "logistic": lambda: make_pipeline(
            make_column_transformer(
                (OneHotEncoder(handle_unknown="ignore"), few), (StandardScaler(), wide)
            ),
            LogisticRegression(max_iter=200),
        ),
        "trees": lambda: make_pipeline(
            make_column_transformer((codes, few), ("passthrough", wide)),
            HistGradientBoostingClassifier(random_state=0),
        ),
    }


def flights() -> list[dict]:
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import flights as example

    rows, found, make = example.read(), [], models()
    X, y = rows[example.FEATURES].to_pandas(), rows["label"].to_numpy()
    time, known = rows["time"].to_numpy(), rows["label_time"].to_numpy()

    def version(kind: str, at: np.datetime64) -> Any:
        return make[kind]().fit(X[known < at], y[known < at])

    def stream(model: Any, begin: np.datetime64, end: np.datetime64, most: int | None) -> Any:
        part = np.flatnonzero((time >= begin) & (time < end))[:most]
        due = np.maximum(np.searchsorted(time[part], known[part]), np.arange(len(part)) + 1)
        return model.predict_proba(X.iloc[part]), y[part], due

    last = np.datetime64("2014-01-01")
    for kinds, dates in ((("logistic", "logistic"), DATES), (("logistic", "trees"), DATES[2:3])):
        begin = np.datetime64("2013-03-01")
        old = Corrector(6, train_counts=np.bincount(y[known < begin], minlength=6))
        model = version(kinds[0], begin)
        for date in dates:
            at = np.datetime64(f"2013-{date}")
            run(old, *stream(model, begin, at, None))
            model = version(kinds[1], at)
            new = stream(model, at, last, ROWS[-1])
            found.append(compare(f"flights, {kinds[1]} of {date}", old, *new))
            old, begin = old.successor(), at
    return found


def ratings() -> dict:
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    rows = table("dslabs", "movielens").sort_values("timestamp", kind="stable")
    when = pd.to_datetime(rows["timestamp"], unit="s")
    X = rows["genres"].str.get_dummies("|").astype(float)
    X["age"] = (when.dt.year - rows["year"]).fillna(0) / 10
    X["hour"] = when.dt.hour / 24
    X, y = X.to_numpy(), (np.ceil(rows["rating"]).astype(int) - 1).to_numpy()
    fifth, half = len(y) // 5, len(y) // 2
    one = LogisticRegression(max_iter=1000).fit(X[:fifth], y[:fifth])
    other = HistGradientBoostingClassifier(random_state=0).fit(X[:half], y[:half])
    old = Corrector(5, train_counts=np.bincount(y[:fifth], minlength=5))
    run(old, one.predict_proba(X[fifth:half]), y[fifth:half], np.arange(half - fifth) + 101)
    k = ROWS[-1]
    new = other.predict_proba(X[half : half + k]), y[half : half + k], np.arange(k) + 101
    return compare("ratings, trees", old, *new)


if __name__ == "__main__":
    found = flights()
    found.append(ratings())
    print("\nmean against the mix alone, worst:", ROWS)
    for how in [*map("{:g}".format, DISCOUNTS), "raw"]:
        off = np.array([[a - b for a, b in zip(one[how], one["mix alone"], strict=True)]
                        for one in found])  # fmt: skip
        print(f"{how:>6}", off.mean(axis=0).round(3), off.max(axis=0).round(3))
