"""Batches: rows and labels that another learner, or a process that corrects, had."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.learner import saved
from stream_can.learner.call import Corrected
from stream_can.learner.late import LateLabel
from stream_can.learner.model_name import Name
from stream_can.learner.model_versions import ModelVersions
from stream_can.learner.playing import Playing
from stream_can.learner.sent import Events, SentBatch, SentVersion


def require_segments(batch: SentBatch, versions: ModelVersions) -> None:
    """ValueError where a batch has segments that are not declared."""
    declared = set(batch.segments) <= set(versions.default.segments)
    saved.require(declared, "segments that are not declared")


def require_rows(batch: SentBatch, versions: ModelVersions) -> None:
    """ValueError where a batch from another process cannot be played, or not be loaded again."""
    require_segments(batch, versions)
    for version in batch.versions:
        versions.default.require_sent(version)


def play_batch(
    playing: Playing, events: Events, *, sent: bool, without: Collection[Name] = ()
) -> Corrected:
    """Process a batch and the labels between its rows. Rows that are not corrected yet are
    corrected.

    Parameters
    ----------
    sent
        Whether the rows are kept as they were corrected elsewhere; otherwise they are corrected
        again.
    without
        Models and versions whose rows are skipped.
    """
    batch, versions = events.sent, playing.versions
    require_segments(batch, versions)
    places = batch.places()
    labels, starts, first = deque(events.labels), deque(events.starts), 0
    parts = list[Corrected]()
    # Models with different classes need separate calls, and so does one that starts over.
    cuts = {*batch.cuts(), *(due for due, *_ in starts if due > 0), len(batch)}
    if sent:
        cuts.update(batch.version_cuts(_skipped(batch, without, versions)))
    for last in sorted(cuts):
        while starts and starts[0][0] <= first:
            _, name, data = starts.popleft()
            playing.memory.set_start(name, saved.corrector(data))
        first_label = len(events.labels) - len(labels)
        due = _labels_until(labels, first, last)
        used = np.unique(batch.of[first:last]).tolist()
        used_versions = [batch.versions[k] for k in used]
        same = all(
            versions.kind_of(version.name).number_and_check(version) and version.name not in without
            for version in used_versions
        )
        if not same and sent:  # of another model of this name: skipped
            alone = [msgspec.structs.replace(label, due=0, of=None) for label in due]
            played = playing.play([], None, alone)
            playing.memory.number += last - first
            n = last - first
            played = played._replace(rows=_nothing(played.rows, n), asked=[None] * n)
        else:
            saved.require(same, "the classes of a model")
            P, blobs = _rows(batch, versions, used, first, last, places[first:last])
            corrected = all(version.corrected for version in used_versions)
            keeps = sent and corrected and first < last
            played = _play_rows(playing, batch, first, last, P, due, blobs if keeps else None)
        taught = [
            msgspec.structs.replace(learned, label=learned.label + first_label)
            if learned.label >= 0
            else learned
            for learned in played.taught
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


def _skipped(batch: SentBatch, without: Collection[Name], versions: ModelVersions) -> set[int]:
    """Indices of the versions of a batch to skip: those given, and those with other classes."""
    return {
        k
        for k, version in enumerate(batch.versions)
        if version.name in without or not versions.kind_of(version.name).number_and_check(version)
    }


def _rows(
    batch: SentBatch,
    versions: ModelVersions,
    used: Sequence[int],
    first: int,
    last: int,
    at: NDArray[np.int64],
) -> tuple[Any, NDArray[np.float32] | None]:
    """Rows of a batch as those of a call, and as sent. They are of the versions ``used``, with the
    same classes, and at these places within them."""
    if len(batch.versions) == 1:
        (version,) = batch.versions
        version = version._replace(rows=version.rows[first:last])
        return _loaded(version, versions), version.rows
    P: Any = None
    blobs = None
    of = batch.of[first:last]
    for k in used:
        mask, version = of == k, batch.versions[k]
        version = version._replace(rows=version.rows[at[mask]])
        rows = _loaded(version, versions)
        if len(used) == 1:
            return rows, version.rows
        if P is None or blobs is None:
            P = np.empty((len(of), rows.shape[1]))
            blobs = np.empty((len(of), version.rows.shape[1]), np.float32)
        P[mask], blobs[mask] = rows, version.rows
    return P, blobs


def _loaded(version: SentVersion, versions: ModelVersions) -> Any:
    """Rows of a version as those of a call."""
    if version.corrected:
        return versions.kind_of(version.name).load_rows(version)
    return version.rows[:, 0].tolist() if version.rows.dtype == np.object_ else version.rows


def _play_rows(
    playing: Playing,
    batch: SentBatch,
    first: int,
    last: int,
    P: Any,
    labels: Sequence[LateLabel],
    blobs: NDArray[np.float32] | None,
) -> Corrected:
    """Process some rows of a batch, all of the same classes, and the labels between them."""
    if len(batch.versions) == 1:
        names: Any = batch.versions[0].name
    else:
        names = [batch.versions[k].name for k in batch.of[first:last].tolist()]
    segments = {name: values[first:last] for name, values in batch.segments.items()}
    times = batch.times[first:last].tolist()
    return playing.play(
        batch.ids[first:last], P, labels, segments or None, names, times, blobs=blobs
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
    all_rows = [row for part in parts for row in part]
    if isinstance(parts[0], list):
        return all_rows
    if len({part.shape[1] for part in parts}) == 1:
        return np.concatenate(parts)
    rows = np.empty(len(all_rows), np.object_)
    for i, row in enumerate(all_rows):
        rows[i] = row
    return rows
