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
from stream_can.learner.memory import LearnerMemory
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_version import ModelVersion
from stream_can.learner.model_versions import adapter_of
from stream_can.learner.recent import Recent, check_ids, mark, marks, prediction_of
from stream_can.learner.saved import State
from stream_can.learner.sent import SentBatch

MOST_PENDING = 64 << 10
"""Maximum bytes of unscored predictions that a state stores for all models together: with many
models or classes it would otherwise be larger than a topic accepts."""

Under = Callable[[Name, Any], Any]
"""Replaces the corrector of a model and version, for example by one under other settings."""


def state_of(memory: LearnerMemory, joining: LabelJoining, without: Collection[Name] = ()) -> State:
    """The state of a learner, see :meth:`Learner.state`."""
    versions = memory.versions
    by_name = versions.by_name
    if sum(len(row.rows) for version in by_name.values() for row in version.pending) > MOST_PENDING:
        for version in by_name.values():
            version.judge()
    head = saved.SavedHead(
        1, memory.recent_mb, versions.ask, joining.wait, versions.max_lanes, versions.dropped,
        None if math.isinf(joining.clock) else joining.clock, memory.number, memory.oldest, [],
        *marks(memory.order), joining.held.all(), joining.lone.all(), joining.changed,
        [(name, kind.corrector.to_bytes()) for name, kind in versions.starts.items()],
    )  # fmt: skip
    return State(
        versions.initial,
        {name: version.kind.corrector.to_bytes() for name, version in by_name.items()
         if name not in without},
        saved.memory(head, by_name.values()),
        list(by_name),
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
    versions = memory.versions
    stored: dict[ModelVersion, Kind] = {}
    for number, version_head in enumerate(head.lanes):
        data = state.correctors[version_head.lane]
        kind_as_stored = adapter_of(saved.corrector(data))
        has_own_classes = kind_as_stored.classes != versions.default.classes
        corrector = saved.corrector(data, None if has_own_classes else classes, settings)
        kind = adapter_of(under(version_head.lane, corrector))
        saved.require(type(kind) is type(versions.default), "a model of another kind")
        saved.require(kind.segments == versions.default.segments, "a model of other segments")
        saved.require(version_head.lane not in versions.by_name, "two models of a name")
        versions.mixed = versions.mixed or has_own_classes
        version = _version(version_head, number, kind, versions.ask, arrays)
        versions.enter(version)
        stored[version] = kind_as_stored
        if version.name == ONLY:  # as where it began; new names keep their numbers
            versions.default = version.kind
    for name, initial in head.starts:
        versions.set_start(name, adapter_of(under(name, saved.corrector(initial, None, settings))))
    check_ids(held.id for held in head.held)
    for held in head.held:
        joining.held.hold(held)
    if versions.by_name:
        versions.unused = None
    for hashed, named, label in head.lone:
        joining.lone.restore(hashed, named, label)
    memory.number, joining.changed, versions.dropped = head.number, head.changed, head.dropped
    joining.clock = -math.inf if head.clock is None else head.clock
    _recall(memory, head, sent, stored, whole)
    memory.drop_oldest()


def _version(
    head: saved.VersionHead, k: int, kind: Kind, ask: float | None, arrays: dict[str, NDArray[Any]]
) -> ModelVersion:
    """Restore the k-th version, without recent predictions."""
    version = ModelVersion(head.lane, kind, ask, head.begun, head.last, head.after)
    if version.asks is not None and head.asks is not None:
        version.asks = version.asks.resumed(head.asks)
    version.pending = saved.pending(head, kind)
    version.judged = kind.load_judged(arrays[f"raw.{k}"], arrays[f"sent.{k}"], head.alarm)
    return version


def _recall(
    memory: LearnerMemory,
    head: saved.SavedHead,
    sent: Iterable[SentBatch],
    stored: Mapping[ModelVersion, Kind],
    whole: bool,
) -> None:
    """Restore the recent predictions of a state."""
    last = -1
    predictions = list[tuple[ModelVersion, Recent]]()
    for batch in sent:
        numbers = batch.numbers.tolist()
        saved.require(not numbers or last < numbers[0], "the order of sent batches")
        last = max(last, *numbers, -1)
        if last < head.oldest:
            continue
        saved.require(last < head.number, "sent batches behind the state")
        check_ids(batch.ids)
        require_segments(batch, memory.versions)
        predictions += _kept(memory, head, batch, stored, whole)
    n, known, n_expected = len(predictions), dict(head.known), len(head.flags)
    enough = n == n_expected if whole else n <= n_expected
    saved.require(enough, "sent batches of recent predictions are missing")
    saved.require(max(known, default=-1) < n_expected, "the labels of recent predictions")
    for i, (version, entry) in enumerate(predictions, n_expected - n):
        _mark(memory, version, entry, head.flags[i], known.get(i))


def _kept(
    memory: LearnerMemory,
    head: saved.SavedHead,
    batch: SentBatch,
    stored: Mapping[ModelVersion, Kind],
    whole: bool,
) -> Iterator[tuple[ModelVersion, Recent]]:
    """The predictions of a batch that a state keeps, each with its version."""
    versions, blobs = list[ModelVersion | None](), list[Iterator[bytes]]()
    for k, sent_version in enumerate(batch.versions):
        version, blob_of = memory.versions.by_name.get(sent_version.name), iter(list[bytes]())
        numbers = batch.numbers[batch.of == k]
        if version is not None and (
            not len(numbers) or numbers[-1] < version.first
        ):  # it was dropped
            version = None
        if version is not None:
            try:  # of what another process sent, rows of other classes were not played
                saved.require(version.kind.number_and_check(sent_version), "the classes of a model")
                rows = sent_version.rows[numbers >= version.first]
                blob_of = iter(version.kind.load_blobs(rows, stored[version]))
            except ValueError:
                if whole:
                    raise
                version = None
        versions.append(version)
        blobs.append(blob_of)
    segments = [batch.segments.get(name) for name in memory.versions.default.segments]
    for i, (id, number, k, time) in enumerate(
        zip(batch.ids, batch.numbers.tolist(), batch.of.tolist(), batch.times.tolist(), strict=True)
    ):
        version = versions[k]
        if version is None or number < version.first:
            continue
        blob = next(blobs[k])
        if id is None or number < head.oldest:
            continue
        row_segments = None
        if batch.segments:
            row_segments = tuple([None if values is None else values[i] for values in segments])
        yield version, prediction_of(id, number, row_segments, blob, time, version.serial)


def _mark(
    memory: LearnerMemory, version: ModelVersion, entry: Recent, flags: int, known: Any
) -> None:
    """Restore one prediction with the state's marks."""
    assert entry.id is not None
    mark(entry, flags)
    entry.known = version.kind.load_known(known)
    version.recent.keep([entry], version.requests)
    if entry.asked is not None and known is None and memory.versions.ask is not None:
        version.requests[entry.id] = entry.asked
    memory.order.append(entry)
    memory.size += entry.size
