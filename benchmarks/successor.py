"""What a new version of a classifier begins with: log loss over its first rows.

    python benchmarks/successor.py

Flights (examples/flights.py): a logistic regression, trained again at five dates on the last 50,000
that are known, and once replaced by boosted trees. The old version's corrector learns its own
stream up to the change; then the new version's rows go to a successor of it, for each discount.
Labels come when the fate of a flight is known; those still under way at the change teach nobody.
Nats against the successor with discount 0, which knows the class mix alone: mean / worst of six.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from stream_can import Corrector

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import flights as example

ROWS, TRAINED, DISCOUNTS = (200, 1000, 5000), 50_000, (0, 0.03, 0.1, 0.3, 1)
DATES = ("04-01", "05-15", "07-01", "09-01", "11-01")
FEW, WIDE = example.FEATURES[:-1], example.FEATURES[-1:]


def classifier(trees: bool) -> Any:
    if trees:
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        columns = make_column_transformer((codes, FEW), ("passthrough", WIDE))
        return make_pipeline(columns, HistGradientBoostingClassifier(random_state=0))
    codes = OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer((codes, FEW), (StandardScaler(), WIDE))
    return make_pipeline(columns, LogisticRegression(max_iter=200))


class Flights:
    def __init__(self) -> None:
        table = example.read()
        self.X, self.y = table[example.FEATURES].to_pandas(), table["label"].to_numpy()
        self.time, self.known = table["time"].to_numpy(), table["label_time"].to_numpy()

    def version(self, at: Any, trees: bool = False) -> Any:
        past = np.flatnonzero(self.known < at)[-TRAINED:]
        return classifier(trees).fit(self.X.iloc[past], self.y[past])

    def play(self, corrector: Corrector, model: Any, begin: Any, end: Any, most: int) -> Any:
        """Log losses of the rows as they came and as they were sent."""
        at = np.flatnonzero((self.time >= begin) & (self.time < end))[:most]
        due = np.maximum(np.searchsorted(self.time[at], self.known[at]), np.arange(len(at)) + 1)
        order = np.argsort(due, kind="stable")
        order = order[due[order] < len(at)]
        P, y = model.predict_proba(self.X.iloc[at]), self.y[at]
        sent = corrector.play(P, y[order], order, due[order], receipt=True).rows
        given = (np.maximum(rows[np.arange(len(y)), y], 1e-6) for rows in (P, sent))
        return [-np.log(p) for p in given]


def main() -> None:
    flights, found = Flights(), []
    begin, end = np.datetime64("2013-03-01"), np.datetime64("2014-01-01")
    counts = np.bincount(flights.y[flights.known < begin], minlength=6)
    old, model = Corrector(6, train_counts=counts), flights.version(begin)
    for date in DATES:
        at = np.datetime64(f"2013-{date}")
        flights.play(old, model, begin, at, len(flights.y))
        model = flights.version(at)
        for new in (model, *[flights.version(at, trees=True)] * (date == DATES[2])):
            played = [flights.play(old.successor(d), new, at, end, ROWS[-1]) for d in DISCOUNTS]
            losses = [*(sent for _, sent in played), played[0][0]]
            found.append([[row[:n].mean() for n in ROWS] for row in losses])
        old, begin = old.successor(), at
    change = np.array(found) - np.array(found)[:, :1]
    print("| discount | " + " | ".join(f"{n} rows" for n in ROWS) + " |\n|---" + "|---" * 3 + "|")
    for i, name in enumerate([*map(str, DISCOUNTS), "the classifier's own rows"]):
        cells = (f"{c.mean():+.3f} / {c.max():+.3f}" for c in change[:, i].T)
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    main()
