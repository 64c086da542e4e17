"""Restoring: a learner's state without the rows of its predictions, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from stream_can.learner import saved
from stream_can.learner.batches import require_segments
from stream_can.learner.joining import LabelJoining
from stream_can.learner.kinds import Kind
from stream_can.learner.lane import ONLY, Lane, Name
from stream_can.learner.lanes import adapter_of
from stream_can.learner.memory import LearnerMemory
from stream_can.learner.recent import Recent, check_ids, mark, marks, prediction_of
from stream_can.learner.saved import State
from stream_can.learner.sent import SentBatch

__all__ = ["restore", "state_of"]

MOST_PENDING = 64 << 10
"""Maximum bytes of unscored predictions that a state stores for all models together: with many
models or classes it would otherwise be larger than a topic accepts."""

Under = Callable[[Name, Any], Any]
"""Replaces the corrector of a model and version, for example by one under other settings."""


def state_of(memory: LearnerMemory, joining: LabelJoining, without: Collection[Name] = ()) -> State:
    """The state of a learner, see :meth:`Learner.state`."""
    lanes = memory.lanes
    every = lanes.by_name
    if sum(len(x.both) for lane in every.values() for x in lane.pending) > MOST_PENDING:
        for lane in every.values():
            lane.judge()
    head = saved.SavedHead(
        1, memory.recent_mb, lanes.ask, joining.wait, lanes.max_lanes, lanes.dropped,
        None if math.isinf(joining.clock) else joining.clock, memory.number, memory.oldest, [],
        *marks(memory.order), joining.held.all(), joining.lone.all(), joining.changed,
        [(name, kind.corrector.to_bytes()) for name, kind in lanes.starts.items()],
    )  # fmt: skip
    return State(
        lanes.initial,
        {name: lane.kind.corrector.to_bytes() for name, lane in every.items()
         if name not in without},
        saved.memory(head, every.values()),
        list(every),
    )  # fmt: skip


def restore(
    memory: LearnerMemory,
    joining: LabelJoining,
    state: State,
    sent: Iterable[SentBatch],
    classes: int | Iterable[Hashable] | None,
    settings: Mapping[str, Any],
    under: Under,
    whole: bool,
) -> None:
    """Load a state into a new learner, see :meth:`Learner.from_state`."""
    head, arrays = saved.opened(state.memory)
    lanes = memory.lanes
    stored: dict[Lane, Kind] = {}
    for number, lane_head in enumerate(head.lanes):
        data = state.correctors[lane_head.lane]
        kind_as_stored = adapter_of(saved.corrector(data))
        own = kind_as_stored.classes != lanes.default.classes
        corrector = saved.corrector(data, None if own else classes, settings)
        kind = adapter_of(under(lane_head.lane, corrector))
        saved.require(type(kind) is type(lanes.default), "a model of another kind")
        saved.require(kind.segments == lanes.default.segments, "a model of other segments")
        saved.require(lane_head.lane not in lanes.by_name, "two models of a name")
        lanes.mixed = lanes.mixed or own
        lane = _lane(lane_head, number, kind, lanes.ask, arrays)
        lanes.add(lane)
        stored[lane] = kind_as_stored
        if lane.name == ONLY:  # as where it began; new names keep their numbers
            lanes.default = lane.kind
    for name, initial in head.starts:
        lanes.set_start(name, adapter_of(under(name, saved.corrector(initial, None, settings))))
    check_ids(held.id for held in head.held)
    for held in head.held:
        joining.held.add(held)
    if lanes.by_name:
        lanes.unused = None
    for hashed, named, label in head.lone:
        joining.lone.restore(hashed, named, label)
    memory.number, joining.changed, lanes.dropped = head.number, head.changed, head.dropped
    joining.clock = -math.inf if head.clock is None else head.clock
    _recall(memory, head, sent, stored, whole)
    memory.drop_oldest()


def _lane(
    head: saved.LaneHead, k: int, kind: Kind, ask: float | None, arrays: dict[str, NDArray[Any]]
) -> Lane:
    """Restore the k-th lane, without recent predictions."""
    lane = Lane(head.lane, kind, ask, head.begun, head.last, head.after)
    if lane.asks is not None and head.asks is not None:
        lane.asks = lane.asks.resumed(head.asks)
    lane.pending = saved.pending(head, kind)
    lane.judged = kind.load_judged(arrays[f"raw.{k}"], arrays[f"sent.{k}"], head.alarm)
    return lane


def _recall(
    memory: LearnerMemory,
    head: saved.SavedHead,
    sent: Iterable[SentBatch],
    stored: Mapping[Lane, Kind],
    whole: bool,
) -> None:
    """Restore the recent predictions of a state."""
    last = -1
    kept = list[tuple[Lane, Recent]]()
    for batch in sent:
        numbers = batch.numbers.tolist()
        saved.require(not numbers or last < numbers[0], "the order of sent batches")
        last = max(last, *numbers, -1)
        if last < head.oldest:
            continue
        saved.require(last < head.number, "sent batches behind the state")
        check_ids(batch.ids)
        require_segments(batch, memory.lanes)
        kept += _kept(memory, head, batch, stored, whole)
    n, known, every = len(kept), dict(head.known), len(head.flags)
    enough = n == every if whole else n <= every
    saved.require(enough, "sent batches of recent predictions are missing")
    saved.require(max(known, default=-1) < every, "the labels of recent predictions")
    for i, (lane, entry) in enumerate(kept, every - n):
        _mark(memory, lane, entry, head.flags[i], known.get(i))


def _kept(
    memory: LearnerMemory,
    head: saved.SavedHead,
    batch: SentBatch,
    stored: Mapping[Lane, Kind],
    whole: bool,
) -> Iterator[tuple[Lane, Recent]]:
    """The predictions of a batch that a state keeps, each with its lane."""
    lanes, blobs = list[Lane | None](), list[Iterator[bytes]]()
    for k, sent_lane in enumerate(batch.lanes):
        lane, blob_of = memory.lanes.by_name.get(sent_lane.name), iter(list[bytes]())
        mine = batch.numbers[batch.of == k]
        if lane is not None and (not len(mine) or mine[-1] < lane.begun):  # it was dropped
            lane = None
        if lane is not None:
            try:  # of what another process sent, rows of other classes were not played
                saved.require(lane.kind.fits(sent_lane), "the classes of a model")
                rows = sent_lane.rows[mine >= lane.begun]
                blob_of = iter(lane.kind.load_blobs(rows, stored[lane]))
            except ValueError:
                if whole:
                    raise
                lane = None
        lanes.append(lane)
        blobs.append(blob_of)
    segments = [batch.segments.get(name) for name in memory.lanes.default.segments]
    for i, (id, number, k, time) in enumerate(
        zip(batch.ids, batch.numbers.tolist(), batch.of.tolist(), batch.times.tolist(), strict=True)
    ):
        lane = lanes[k]
        if lane is None or number < lane.begun:
            continue
        blob = next(blobs[k])
        if id is None or number < head.oldest:
            continue
        given = None
        if batch.segments:
            given = tuple([None if values is None else values[i] for values in segments])
        yield lane, prediction_of(id, number, given, blob, time, lane.serial)


def _mark(memory: LearnerMemory, lane: Lane, entry: Recent, flags: int, known: Any) -> None:
    """Restore one prediction with the state's marks."""
    assert entry.id is not None
    mark(entry, flags)
    entry.known = lane.kind.load_known(known)
    lane.recent.keep([entry], lane.requests)
    if entry.asked is not None and known is None and memory.lanes.ask is not None:
        lane.requests[entry.id] = entry.asked
    memory.order.append(entry)
    memory.size += entry.size
