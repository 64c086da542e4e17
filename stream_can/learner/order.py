"""The order in which a learner processes the contents of several partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.learner.lane import Name
from stream_can.learner.late import LateLabel
from stream_can.learner.sent import Events, SentBatch, SentLane

__all__ = ["in_order", "merged", "places_in_order"]


def in_order(
    sent: Mapping[int, Sequence[SentBatch]],
    labels: Mapping[int, Sequence[LateLabel]],
    number: int = 0,
) -> Events:
    """Merge partitions by time: the same offsets always give the same order.

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
    One batch, and the labels between its rows.
    """
    batches = [(p, one) for p in sorted(sent) for one in sent[p]]
    every = [(p, one) for p in sorted(labels) for one in labels[p]]
    row_keys = _row_keys(sent)
    label_keys = np.concatenate(
        [np.empty(0), *(_latest([_times(labels[p])]) for p in sorted(labels))]
    )
    rows = np.argsort(row_keys, kind="stable")  # partitions are concatenated
    order = np.argsort(label_keys, kind="stable")
    due = np.searchsorted(row_keys[rows], label_keys[order], side="right").tolist()
    told = [
        msgspec.structs.replace(every[k][1], due=n)
        for k, n in zip(order.tolist(), due, strict=True)
    ]
    return Events(merged([one for _, one in batches], rows, number), told)


def places_in_order(
    sent: Mapping[int, Sequence[SentBatch]], known: Mapping[int, Sequence[bool]]
) -> list[tuple[int, int | None]]:
    """Partition and number of each row in the order of :func:`in_order`; None where ``known`` says
    that its batch is not available."""
    found = [
        (p, number if says else None)
        for p in sorted(sent)
        for one, says in zip(sent[p], known[p], strict=True)
        for number in one.numbers.tolist()
    ]
    return [found[i] for i in np.argsort(_row_keys(sent), kind="stable").tolist()]


def _row_keys(sent: Mapping[int, Sequence[SentBatch]]) -> NDArray[np.float64]:
    """Keys of all rows, partitions concatenated."""
    keys = [_latest([one.times for one in sent[p]]) for p in sorted(sent)]
    return np.concatenate([np.empty(0), *keys])


def _times(labels: Iterable[LateLabel]) -> NDArray[np.float64]:
    return np.array([np.nan if one.time is None else one.time for one in labels], np.float64)


def _latest(times: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Running maximum of the times of a partition."""
    every = np.concatenate([np.empty(0), *times])
    latest: NDArray[np.float64] = np.maximum.accumulate(np.where(np.isnan(every), -np.inf, every))
    return latest


def merged(batches: Sequence[SentBatch], rows: NDArray[np.int64], number: int) -> SentBatch:
    """Merge rows of several batches, in the given order, into one."""
    places: dict[tuple[Name, tuple[Any, ...], int], int] = {}
    of = [np.empty(0, np.int32)]
    within: list[list[NDArray[np.float32]]] = []
    counts: list[int] = []  # rows of each batch
    at = [np.empty(0, np.int64)]
    for batch in batches:
        numbers, begun = np.empty(len(batch.lanes), np.int32), np.empty(len(batch.lanes), np.int64)
        for k, lane in enumerate(batch.lanes):
            key = lane.name, lane.classes, lane.rows.shape[1]
            numbers[k] = place = places.setdefault(key, len(places))
            if place == len(within):
                within.append([])
                counts.append(0)
            begun[k] = counts[place]
            counts[place] += len(lane.rows)
            within[place].append(lane.rows)
        of.append(numbers[batch.of])
        at.append(begun[batch.of] + batch.places())
    lane_of, place_of = np.concatenate(of)[rows], np.concatenate(at)[rows]
    lanes = [
        SentLane(name, classes, np.concatenate(within[k])[place_of[lane_of == k]])
        for (name, classes, _), k in places.items()
    ]
    names = dict.fromkeys(name for batch in batches for name in batch.columns)
    columns = {
        name: [value for batch in batches for value in batch.columns.get(name, [None] * len(batch))]
        for name in names
    }
    order = rows.tolist()
    ids = [id for batch in batches for id in batch.ids]
    times = np.concatenate([np.empty(0), *(batch.times for batch in batches)])
    return SentBatch(
        [ids[i] for i in order], number + np.arange(len(order)), times[rows], lanes, lane_of,
        {name: [values[i] for i in order] for name, values in columns.items()},
    )  # fmt: skip
