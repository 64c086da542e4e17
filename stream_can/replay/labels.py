"""Labels in flight: from their prediction until they are learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class RecordedRows(NamedTuple):
    """Consecutive rows of a recording, with the messages that label them."""

    first: int
    """Number of the first row, from 0."""
    rows: Any
    """The n rows, as :meth:`Learner.play` takes them."""
    truth: Any
    """Known labels of the rows, whether they arrive or not, in the terms of their kind."""
    time: NDArray[Any] | None
    """Time of each prediction, where the recording has times."""
    of: NDArray[np.int64]
    """Row number of each message that arrives, shape (k,)."""
    label: NDArray[Any]
    """Label in each message, shape (k,): the index of its class, or an object, as
    :meth:`Learner.label` takes it."""
    at: NDArray[Any] | None
    """Time at which each message is known, shape (k,)."""
    segments: dict[str, NDArray[np.object_]] | None = None
    """Column values of each row."""
    weight: NDArray[np.float64] | None = None
    """Weight of each row's label, shape (n,)."""


class Labels(NamedTuple):
    """Labels in flight."""

    due: NDArray[np.int64]
    """Row before which each label is learned; with times, the next row, until known."""
    time: NDArray[Any]
    predicted: NDArray[Any]
    """Time of the prediction."""
    row: NDArray[np.int64]
    label: NDArray[Any]
    weight: NDArray[Any]
    """How many labels each counts as; without weights anything."""

    def take(self, selection: NDArray[Any]) -> Labels:
        """Select some by index or mask."""
        return Labels(*(array[selection] for array in self))


def on_their_way(events: RecordedRows, drawn: NDArray[np.bool_], delay: int | None) -> Labels:
    """Labels of rows, of those that are drawn, shape (n,)."""
    drawn_messages = np.flatnonzero(drawn[events.of - events.first])
    rows = events.of[drawn_messages]
    time = predicted = rows
    if events.time is not None and events.at is not None and delay is None:
        time, predicted = events.at[drawn_messages], events.time[rows - events.first]
    weight = rows if events.weight is None else events.weight[rows - events.first]
    label = events.label[drawn_messages]
    return Labels(rows + 1 + (delay or 0), time, predicted, rows, label, weight)


def join(parts: list[Labels]) -> Labels:
    """Concatenate labels."""
    if len(parts) == 1:
        return parts[0]
    return Labels(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def split(
    parts: list[Labels], events: RecordedRows, by_time: bool, until: int
) -> tuple[Labels, list[Labels]]:
    """Split into labels learned before row ``until``, in order, and the others.

    They are ordered by the row before which they are due, then label time, then their own row.
    Parts that are due later as a whole are passed on: with long delays there are many.
    """
    end = events.first + len(events.rows)
    near, late = parts[-1:], list[Labels]()
    for part in parts[:-1]:
        if by_time:
            assert events.time is not None
            waits = part.time.min() > events.time[-1]
        else:
            waits = part.due.min() > end
        (late if waits else near).append(part)
    labels = join(near)
    due = labels.due
    if by_time:
        assert events.time is not None
        due = np.maximum(due, events.first + np.searchsorted(events.time, labels.time, "left"))
    order = np.lexsort((labels.row, labels.time, due))
    ripe = order[due[order] <= until]
    rest = np.ones(len(due), np.bool_)
    rest[ripe] = False
    if rest.any():
        late.append(labels.take(np.flatnonzero(rest)))
    return labels.take(ripe)._replace(due=due[ripe]), late
