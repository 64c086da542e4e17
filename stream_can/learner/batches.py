"""Batches: rows and labels that another learner, or a process that corrects, had."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.learner import saved
from stream_can.learner.lane import Name
from stream_can.learner.lanes import Lanes
from stream_can.learner.late import LateLabel
from stream_can.learner.playing import Corrected, Playing
from stream_can.learner.sent import Events, SentBatch, SentLane

__all__ = ["play_batch", "require_rows", "require_segments"]


def require_segments(batch: SentBatch, lanes: Lanes) -> None:
    """ValueError where a batch has segments that are not declared."""
    declared = set(batch.segments) <= set(lanes.default.segments)
    saved.require(declared, "segments that are not declared")


def require_rows(batch: SentBatch, lanes: Lanes) -> None:
    """ValueError where a batch from another process cannot be played, or not be loaded again."""
    require_segments(batch, lanes)
    for lane in batch.lanes:
        lanes.default.require_sent(lane)


def play_batch(
    playing: Playing, events: Events, *, sent: bool, without: Collection[Name] = ()
) -> Corrected:
    """Process a batch and the labels between its rows. Rows of lanes that are not corrected yet are
    corrected.

    Parameters
    ----------
    sent
        Whether the rows are kept as they were corrected elsewhere; otherwise they are corrected
        again.
    without
        Models and versions whose rows are skipped.
    """
    batch, lanes = events.sent, playing.lanes
    require_segments(batch, lanes)
    places = batch.places()
    labels, starts, first = deque(events.labels), deque(events.starts), 0
    parts = list[Corrected]()
    # Models with different classes need separate calls, and so does one that starts over.
    cuts = {*batch.cuts(), *(due for due, *_ in starts if due > 0), len(batch)}
    if sent:
        cuts.update(batch.lane_cuts(_skipped(batch, without, lanes)))
    for last in sorted(cuts):
        while starts and starts[0][0] <= first:
            _, name, data = starts.popleft()
            playing.memory.set_start(name, saved.corrector(data))
        before = len(events.labels) - len(labels)
        due = _labels_until(labels, first, last)
        used = np.unique(batch.of[first:last]).tolist()
        used_lanes = [batch.lanes[k] for k in used]
        same = all(
            lanes.kind_of(lane.name).fits(lane) and lane.name not in without for lane in used_lanes
        )
        if not same and sent:  # of another model of this name: skipped
            alone = [msgspec.structs.replace(label, due=0, of=None) for label in due]
            played = playing.play([], None, alone)
            playing.memory.number += last - first
            n = last - first
            played = played._replace(rows=_nothing(played.rows, n), asked=[None] * n)
        else:
            saved.require(same, "the classes of a model")
            P, made = _rows(batch, lanes, used, first, last, places[first:last])
            corrected = all(lane.corrected for lane in used_lanes)
            keeps = sent and corrected and first < last
            played = _play_rows(playing, batch, first, last, P, due, made if keeps else None)
        taught = [
            msgspec.structs.replace(one, label=one.label + before) if one.label >= 0 else one
            for one in played.taught
        ]
        parts.append(played._replace(taught=taught))
        first = last
    for _, name, data in starts:
        playing.memory.set_start(name, saved.corrector(data))
    return parts[0] if len(parts) == 1 else _joined(parts)


def _labels_until(labels: deque[LateLabel], first: int, last: int) -> list[LateLabel]:
    """Take the labels due up to row ``last``; their rows count from ``first`` on."""
    due = list[LateLabel]()
    while labels and labels[0].due <= last:
        label = labels.popleft()
        if first:
            row = None if label.of is None else label.of - first
            label = msgspec.structs.replace(label, due=label.due - first, of=row)
        due.append(label)
    return due


def _skipped(batch: SentBatch, without: Collection[Name], lanes: Lanes) -> set[int]:
    """Indices of the lanes of a batch to skip: those given, and those with other classes."""
    return {
        k
        for k, lane in enumerate(batch.lanes)
        if lane.name in without or not lanes.kind_of(lane.name).fits(lane)
    }


def _rows(
    batch: SentBatch,
    lanes: Lanes,
    used: Sequence[int],
    first: int,
    last: int,
    at: NDArray[np.int64],
) -> tuple[Any, NDArray[np.float32] | None]:
    """Rows of a batch as those of a call, and as sent. They are of the lanes ``used``, with the
    same classes, and at these places within them."""
    if len(batch.lanes) == 1:
        (lane,) = batch.lanes
        lane = lane._replace(rows=lane.rows[first:last])
        return _loaded(lane, lanes), lane.rows
    P: Any = None
    made = None
    of = batch.of[first:last]
    for k in used:
        mine, lane = of == k, batch.lanes[k]
        lane = lane._replace(rows=lane.rows[at[mine]])
        rows = _loaded(lane, lanes)
        if len(used) == 1:
            return rows, lane.rows
        if P is None or made is None:
            P = np.empty((len(of), rows.shape[1]))
            made = np.empty((len(of), lane.rows.shape[1]), np.float32)
        P[mine], made[mine] = rows, lane.rows
    return P, made


def _loaded(lane: SentLane, lanes: Lanes) -> Any:
    """Rows of a lane as those of a call."""
    if lane.corrected:
        return lanes.kind_of(lane.name).load_rows(lane)
    return lane.rows[:, 0].tolist() if lane.rows.dtype == np.object_ else lane.rows


def _play_rows(
    playing: Playing,
    batch: SentBatch,
    first: int,
    last: int,
    P: Any,
    labels: Sequence[LateLabel],
    made: NDArray[np.float32] | None,
) -> Corrected:
    """Process some rows of a batch, all of the same classes, and the labels between them."""
    if len(batch.lanes) == 1:
        names: Any = batch.lanes[0].name
    else:
        names = [batch.lanes[k].name for k in batch.of[first:last].tolist()]
    segments = {name: values[first:last] for name, values in batch.segments.items()}
    times = batch.times[first:last].tolist()
    return playing.play(
        batch.ids[first:last], P, labels, segments or None, names, times, made=made
    )  # fmt: skip


def _nothing(like: Any, n: int) -> Any:
    """Results of n skipped rows."""
    return [None] * n if isinstance(like, list) else np.full((n, like.shape[1]), np.nan)


def _joined(parts: Sequence[Corrected]) -> Corrected:
    """Join the results of several calls; rows of different classes become an array of arrays, shape
    (n,)."""
    return Corrected(
        _joined_rows([part.rows for part in parts]),
        None
        if all(part.sets is None for part in parts)
        else [names for part in parts for names in part.sets or [[]] * len(part.rows)],
        [reason for part in parts for reason in part.asked],
        [outcome for part in parts for outcome in part.outcomes],
        [taught for part in parts for taught in part.taught],
    )  # fmt: skip


def _joined_rows(parts: Sequence[Any]) -> Any:
    every = [row for part in parts for row in part]
    if isinstance(parts[0], list):
        return every
    if len({part.shape[1] for part in parts}) == 1:
        return np.concatenate(parts)
    rows = np.empty(len(every), np.object_)
    for i, row in enumerate(every):
        rows[i] = row
    return rows
