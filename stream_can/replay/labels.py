"""Labels in flight: each with its prediction, until it is learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.recording.recording import Chunk
from stream_can.recording.several import MultiLabelChunk

__all__ = ["Labels", "join", "on_their_way", "split"]


class Labels(NamedTuple):
    """Labels in flight, with their predictions."""

    due: NDArray[np.int64]
    """Row before which each label is learned; with times, the next row, until known."""
    time: NDArray[Any]
    asked: NDArray[Any]
    """Time of the prediction."""
    row: NDArray[np.int64]
    P: NDArray[np.float64]
    y: NDArray[Any]
    """Index of each label's class; with several labels a row of them, shape (n, m)."""
    known: NDArray[np.float32]
    """Numbers that each prediction's receipt gave its label, (n, numbers); see
    ``stream_can.method.receipts``."""
    given: NDArray[np.object_]
    """Column values of each prediction, shape (n, columns)."""
    lane: NDArray[np.int64]
    """Number of each prediction's model and version."""

    def take(self, which: NDArray[Any]) -> Labels:
        """Select some by index or mask."""
        return Labels(*(array[which] for array in self))


def on_their_way(
    chunk: Chunk,
    delay: int | None,
    labelled: NDArray[np.bool_],
    given: NDArray[np.object_],
    known: NDArray[np.float32],
    lanes: NDArray[np.int64],
) -> Labels:
    """Labels of a chunk's rows, where arriving; ``known`` holds a time per row, ``lanes`` the
    numbers of models and versions."""
    which = np.flatnonzero(labelled)
    rows = which + chunk.first
    time = asked = rows
    if chunk.time is not None and chunk.label_time is not None and delay is None:
        time, asked = chunk.label_time[which], chunk.time[which]
    due = rows + 1 + (delay or 0)
    P, y = chunk.P[which], chunk.y[which]
    return Labels(due, time, asked, rows, P, y, known[which], given[which], lanes[which])


def join(parts: list[Labels]) -> Labels:
    """Concatenate labels."""
    if len(parts) == 1:
        return parts[0]
    return Labels(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def split(
    parts: list[Labels], chunk: Chunk | MultiLabelChunk, by_time: bool, until: int
) -> tuple[Labels, list[Labels]]:
    """Split into labels learned before row ``until``, in order, and the others.

    They are ordered by the row before which they are due, then label time, then their own row.
    Parts that are due later as a whole are passed on: with long delays there are many.
    """
    end = chunk.first + len(chunk.P)
    near, late = parts[-1:], list[Labels]()
    for part in parts[:-1]:
        if by_time:
            assert chunk.time is not None
            waits = part.time.min() > chunk.time[-1]
        else:
            waits = part.due.min() > end
        (late if waits else near).append(part)
    labels = join(near)
    due = labels.due
    if by_time:
        assert chunk.time is not None
        due = np.maximum(due, chunk.first + np.searchsorted(chunk.time, labels.time, "left"))
    order = np.lexsort((labels.row, labels.time, due))
    ripe = order[due[order] <= until]
    rest = np.ones(len(due), np.bool_)
    rest[ripe] = False
    if rest.any():
        late.append(labels.take(np.flatnonzero(rest)))
    return labels.take(ripe)._replace(due=due[ripe]), late
