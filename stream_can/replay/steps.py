"""Rows and late labels in the order of the stream: before each row, the labels due by then.

A label brings the receipt of its prediction back, so that what was sent is judged.

Labels come a fixed number of rows late, or at their own time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.recording.recording import Chunk

__all__ = ["Arrivals", "Step", "check_labels", "steps"]

DRAW = b"which labels arrive"
FIRST_STEP, LAST_STEP = 64, 16_384
STEPS_PER_LENGTH = 256


class Arrivals(NamedTuple):
    """What is known of labels on their way, for one step."""

    coming: int
    """Rows of the step whose label will come, be it after the last row."""
    rows: NDArray[np.int64]
    """For each label learned in the step, the rows that went by since its own."""
    time: NDArray[Any] | None
    """The same as time between prediction and label, where labels come at their own time."""


class Step(NamedTuple):
    """A run of rows that went through the corrector."""

    first: int
    """The number of the first row, from 0."""
    P: NDArray[np.float64]
    """The predictions, shape (n, m)."""
    y: NDArray[np.int64]
    """Index of each row's class, -1 where it is not known."""
    corrected: NDArray[np.float64]
    """What the corrector made of each row when it came by, shape (n, m)."""
    paths: NDArray[np.float64] | None
    """What each path made of it, shape (number of paths, n, m)."""
    time: NDArray[Any] | None
    """When each row was predicted, where that is known."""
    arrivals: Arrivals | None = None
    """The labels that set out and that came."""


class _Labels(NamedTuple):
    """Labels on their way, with the predictions they are for."""

    due: NDArray[np.int64]
    """The row before which each is learned (once that is known), else the row after its own."""
    time: NDArray[Any]
    asked: NDArray[Any]
    """When the row was predicted, as `time` counts."""
    row: NDArray[np.int64]
    P: NDArray[np.float64]
    y: NDArray[np.int64]
    known: NDArray[np.float32]
    """What the receipt of each prediction gave its label, shape (n, 3), once it went by."""

    def take(self, which: NDArray[Any]) -> _Labels:
        return _Labels(*(array[which] for array in self))


def _on_their_way(chunk: Chunk, delay: int | None, given: NDArray[np.bool_]) -> _Labels:
    which = np.flatnonzero(chunk.arrives & given)
    rows = which + chunk.first
    time = asked = rows
    if chunk.time is not None and chunk.label_time is not None and delay is None:
        time, asked = chunk.label_time[which], chunk.time[which]
    due, known = rows + 1 + (delay or 0), np.full((len(which), 3), np.nan, np.float32)
    return _Labels(due, time, asked, rows, chunk.P[which], chunk.y[which], known)


def _join(parts: list[_Labels]) -> _Labels:
    if len(parts) == 1:
        return parts[0]
    return _Labels(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _split(parts: list[_Labels], chunk: Chunk, by_time: bool) -> tuple[_Labels, list[_Labels]]:
    """The labels that are learned within the chunk, in their order, and the others."""
    end = chunk.first + len(chunk.P)
    near, late = parts[-1:], list[_Labels]()
    for part in parts[:-1]:
        if by_time:
            assert chunk.time is not None
            waits = part.time.min() > chunk.time[-1]
        else:
            waits = part.due.min() > end
        (late if waits else near).append(part)
    labels = _Labels(*(np.concatenate(arrays) for arrays in zip(*near, strict=True)))
    due = labels.due
    if by_time:
        assert chunk.time is not None
        due = np.maximum(due, chunk.first + np.searchsorted(chunk.time, labels.time, "left"))
    order = np.lexsort((labels.row, labels.time, due))
    # After the last row a delay in rows still counts; that a time has come only a next row says.
    ripe = order[due[order] <= end - by_time]
    rest = np.ones(len(due), np.bool_)
    rest[ripe] = False
    if rest.any():
        late.append(labels.take(np.flatnonzero(rest)))
    return labels.take(ripe)._replace(due=due[ripe]), late


def check_labels(label_delay: int | None, label_rate: float) -> None:
    """ValueError where labels cannot come so late, or in such a share."""
    if label_delay is not None and label_delay < 0:
        raise ValueError(f"label_delay: expected 0 or more rows, got {label_delay}")
    if not 0 <= label_rate <= 1:
        raise ValueError(f"label_rate: expected a share in [0, 1], got {label_rate}")


def steps(
    chunks: Iterable[Chunk],
    corrector: Corrector,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    explain: bool = True,
) -> Iterator[Step]:
    """Run chunks through a corrector, a step at a time.

    Parameters
    ----------
    chunks
        The rows in order: :meth:`Recording.chunks` or :func:`from_arrays`.
    corrector
        Is taught; its state after a step is what the stream's corrector would have known.
    label_delay
        The label of row t - label_delay is learned after row t. None (or for chunks without times,
        0) where labels come at their own time: before a row, the labels of earlier rows whose time
        is not later than the row's, by label time, then row.
    label_rate
        Share of the labels that arrive at all, drawn at random from `seed`.
    explain
        Whether to say what each path makes of each row; takes about twice the time.

    Yields
    ------
    Step
        64 rows each at first, more as the stream goes on, never more than 16,384.
    """
    check_labels(label_delay, label_rate)
    # Not default_rng(seed) itself: data simulated with that very generator would lose the labels of
    # some classes and keep those of others, since its uniforms also drew the classes.
    rng = np.random.default_rng([seed, *DRAW])
    waiting: list[_Labels] = []
    for chunk in chunks:
        given = rng.random(len(chunk.P)) < label_rate
        by_time = label_delay is None and chunk.time is not None
        labels, waiting = _split(
            [*waiting, _on_their_way(chunk, label_delay, given)], chunk, by_time
        )
        start, end, done = chunk.first, chunk.first + len(chunk.P), 0
        known = np.full((len(chunk.P), 3), np.nan, np.float32)
        while start < end:
            stop = min(end, start + _step(start))
            upto = int(np.searchsorted(labels.due, stop, "right"))
            cut = slice(start - chunk.first, stop - chunk.first)
            P, due = chunk.P[cut], labels.take(np.arange(done, upto))
            # Of a row of this step the corrector has the receipt itself.
            here, earlier = due.row >= start, (due.row < start) & (due.row >= chunk.first)
            due.known[earlier] = known[due.row[earlier] - chunk.first]
            k = int((~here).sum())
            corrected, receipts, paths = corrector.play(
                np.concatenate([due.P[~here], P]),
                due.y,
                np.where(here, due.row - start + k, np.cumsum(~here) - 1),
                due.due - start,
                first=k,
                known=due.known,
                receipt=True,
                explain=explain,
            )
            assert receipts is not None
            known[cut] = receipts[np.arange(len(P)), :, np.maximum(chunk.y[cut], 0)]
            time = None if chunk.time is None else chunk.time[cut]
            arrivals = Arrivals(
                int((chunk.arrives & given)[cut].sum()),
                due.due - due.row - 1,
                due.time - due.asked if by_time else None,
            )
            yield Step(start, P, chunk.y[cut], corrected, paths, time, arrivals)
            start, done = stop, upto
        for part in waiting:
            late = part.row >= chunk.first
            part.known[late] = known[part.row[late] - chunk.first]


def _step(start: int) -> int:
    """Rows of a step: at most a 256th of what went before, but 64."""
    size = FIRST_STEP
    while size < LAST_STEP and start >= 2 * size * STEPS_PER_LENGTH:
        size *= 2
    return size
