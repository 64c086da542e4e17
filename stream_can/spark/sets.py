"""Prediction sets in Spark: of rows that have no order, and of labels that have one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.method.classes import json_name
from stream_can.trust.sets import PredictionSets

__all__ = ["learn_label", "names_of_sets", "of_state"]


def of_state(
    sets: PredictionSets | bytes | str | os.PathLike[str], corrector: Corrector
) -> PredictionSets:
    """The sets that somebody gave for the rows of a corrector.

    Raises
    ------
    TypeError
        A promise is given, where nobody has learned how to keep it.
    SnapshotMismatch
        They are none, or of other classes.
    """
    if isinstance(sets, float | int):
        raise TypeError(
            f"sets: {sets}, but a fixed state learns nothing: give PredictionSets that have learned"
            f" to keep a promise, or take Learning(..., sets={sets})"
        )
    if not isinstance(sets, PredictionSets):
        sets = PredictionSets.from_bytes(sets if isinstance(sets, bytes) else snapshot.read(sets))
    if sets.classes != corrector.classes:
        raise SnapshotMismatch(
            f"sets: of classes {list(sets.classes)}, the state has {list(corrector.classes)}"
        )
    return sets


def names_of_sets(data: bytes, rows: NDArray[Any], bad: dict[int, str]) -> pa.Array:
    """The set of each row as if it were the next; null where one was bad.

    Parameters
    ----------
    data
        The snapshot of the sets. Each row begins with it: rows of a partition have no order.
    rows
        As they are sent, shape (n, m).
    bad
        The numbers of those that are no rows.
    """
    sets, found = PredictionSets.from_bytes(data), list[list[str] | None]()
    belief, state = sets._belief.copy(), sets._state.copy()
    for i, row in enumerate(rows):
        found.append(None if i in bad else [json_name(name) for name in sets.set_one(row)[0]])
        # What the row has changed; from_bytes once more would take five times as long.
        sets._belief[:], sets._state[:] = belief, state
    return pa.array(found, pa.list_(pa.field("element", pa.string(), nullable=False)))


def learn_label(sets: PredictionSets, row: Sequence[float] | NDArray[Any], label: Any) -> None:
    """A label of a row, as it would be sent now with the set that would be."""
    _, ticket = sets.set_one(row)
    sets.learn_one(row, label, ticket)
