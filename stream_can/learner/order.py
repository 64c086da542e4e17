"""The order in which a learner processes the contents of several partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from stream_can.learner.late import LateLabel
from stream_can.learner.model_name import Name
from stream_can.learner.sent import Events, SentBatch, SentVersion

BEHIND = 8
"""Number of rows or labels behind one that its time is held against."""


def in_order(
    sent: Mapping[int, Sequence[SentBatch]],
    labels: Mapping[Any, Sequence[LateLabel]],
    number: int = 0,
) -> Events:
    """Merge partitions by time: the same offsets always give the same order.

    A time counts as no later than the median of the up to 8 known ones behind it in its partition.
    Each partition keeps its own order: the key of a row or label is the latest time seen so far in
    its partition, even where its own is earlier or missing. At equal keys rows come before labels,
    then lower partitions first, then the order within the partition.

    Parameters
    ----------
    sent, labels
        For each partition its content after a state, in order.
    number
        Number of the first row; rows are renumbered.

    Returns
    -------
    One batch, with the times that count, and the labels between its rows.
    """
    batches = [(p, batch) for p in sorted(sent) for batch in sent[p]]
    all_labels = [(p, label) for p in sorted(labels) for label in labels[p]]
    row_times = _row_times(sent)
    row_keys = _keys(row_times)
    label_keys = _keys([steady(_times(labels[p])) for p in sorted(labels)])
    rows = np.argsort(row_keys, kind="stable")  # partitions are concatenated
    order = np.argsort(label_keys, kind="stable")
    due = np.searchsorted(row_keys[rows], label_keys[order], side="right").tolist()
    ordered_labels = [
        msgspec.structs.replace(all_labels[k][1], due=n)
        for k, n in zip(order.tolist(), due, strict=True)
    ]
    batch = merged([batch for _, batch in batches], rows, number)
    return Events(
        replace(batch, times=np.concatenate([np.empty(0), *row_times])[rows]), ordered_labels
    )


def steady(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times of a partition, each no later than the median of the up to 8 known ones behind it.

    A clock that is ahead then moves nothing but its own rows. Of an even number the lower of the
    two in the middle counts; NaN, unknown, stays.
    """
    n = len(times)
    if not n:
        return times
    behind = np.concatenate([times[1:], np.full(BEHIND, np.nan)])
    windows = np.sort(sliding_window_view(behind, BEHIND), axis=1)  # NaN comes last
    known = BEHIND - np.isnan(windows).sum(axis=1)
    medians = windows[np.arange(n), np.maximum(known - 1, 0) // 2]
    capped: NDArray[np.float64] = np.where(medians < times, medians, times)
    return capped


def places_in_order(
    sent: Mapping[int, Sequence[SentBatch]], known: Mapping[int, Sequence[bool]]
) -> list[tuple[int, int | None]]:
    """Partition and number of each row in the order of :func:`in_order`; None where ``known`` says
    that its batch is not available."""
    places = [
        (p, number if is_known else None)
        for p in sorted(sent)
        for batch, is_known in zip(sent[p], known[p], strict=True)
        for number in batch.numbers.tolist()
    ]
    return [places[i] for i in np.argsort(_keys(_row_times(sent)), kind="stable").tolist()]


def _row_times(sent: Mapping[int, Sequence[SentBatch]]) -> list[NDArray[np.float64]]:
    """The times that count, by partition."""
    by_partition = ([np.empty(0), *(batch.times for batch in sent[p])] for p in sorted(sent))
    return [steady(np.concatenate(times)) for times in by_partition]


def _keys(times: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The latest time so far in each partition, partitions concatenated."""
    latest = [
        np.maximum.accumulate(np.where(np.isnan(partition), -np.inf, partition))
        for partition in times
    ]
    return np.concatenate([np.empty(0), *latest])


def _times(labels: Iterable[LateLabel]) -> NDArray[np.float64]:
    return np.array([np.nan if label.time is None else label.time for label in labels], np.float64)


def merged(batches: Sequence[SentBatch], rows: NDArray[np.int64], number: int) -> SentBatch:
    """Merge all rows of several batches, in the given order, into one.

    Rows are large: each is copied once.
    """
    n = len(rows)
    place_of = np.empty(n, np.int64)  # of each row, batch after batch, in the given order
    place_of[rows] = np.arange(n)
    names: dict[tuple[Name, tuple[Any, ...], tuple[Any, ...], bool, int], int] = {}
    parts: list[list[tuple[NDArray[np.int64], NDArray[Any]]]] = []
    of, first = np.empty(n, np.int32), 0
    for batch in batches:
        places = place_of[first : first + len(batch)]
        first += len(batch)
        for k, version in enumerate(batch.versions):
            width = version.rows.shape[1] if version.classes else 0  # others are padded
            key = version.name, version.classes, version.named, version.corrected, width
            number_of_version = names.setdefault(key, len(names))
            if number_of_version == len(parts):
                parts.append([])
            targets = places[batch.of == k]
            of[targets] = number_of_version
            parts[number_of_version].append((targets, version.rows))
    versions = []
    for k, (name, classes, named, corrected, _) in enumerate(names):
        within = np.cumsum(of == k) - 1
        widest = max(version_rows.shape[1] for _, version_rows in parts[k])
        shape, dtype = (int(within[-1]) + 1 if n else 0, widest), parts[k][0][1].dtype
        same = all(version_rows.shape[1] == widest for _, version_rows in parts[k])
        gathered = np.empty(shape, dtype) if same else np.zeros(shape, dtype)
        for targets, version_rows in parts[k]:
            gathered[within[targets], : version_rows.shape[1]] = version_rows
        versions.append(SentVersion(name, classes, gathered, named, corrected))
    segments = {
        name: [
            value for batch in batches for value in batch.segments.get(name, [None] * len(batch))
        ]
        for name in dict.fromkeys(name for batch in batches for name in batch.segments)
    }
    order = rows.tolist()
    ids = [id for batch in batches for id in batch.ids]
    times = np.concatenate([np.empty(0), *(batch.times for batch in batches)])
    return SentBatch(
        [ids[i] for i in order], number + np.arange(n), times[rows], versions, of,
        {name: [values[i] for i in order] for name, values in segments.items()},
    )  # fmt: skip
