"""What a worker's tasks and replicas have done and know, as `stream_can.app` shows it."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence

import msgspec

from stream_can.app.known import (
    Committed,
    Handled,
    Known,
    KnownLane,
    MetricsSource,
    Seen,
    Watched,
)
from stream_can.app.letters import KEPT, letter
from stream_can.column_scores import ColumnScores
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Result
from stream_can.stream.replica import Replica
from stream_can.stream.requests import reason_of
from stream_can.stream.task import Task

__all__ = ["TaskSource", "handled", "known", "sources"]


def known(replicas: Mapping[int, Replica]) -> dict[int, Known]:
    """Of each replica that has started what it knows."""
    return {number: _known(one) for number, one in dict(replicas).items() if one.started}


def _known(replica: Replica) -> Known:
    terms, lanes = replica.terms, None
    if terms.fleet is not None:
        lanes = {name: KnownLane(one.corrector, one.after) for name, one in replica.lanes.items()}
    return Known(
        replica.corrector,
        replica.offset,
        replica.newest,
        terms.sets,
        lanes,
        0 if terms.fleet is None else terms.fleet.max_lanes,
        replica.dropped,
        replica.foreign,
    )


def handled(result: Result, ours: Container[str]) -> Handled:
    """What came of a batch; ``ours`` are texts that the reason of a dead letter may show."""
    return Handled(
        len(result.outputs),
        result.normalised,
        len(result.faults),
        result.delays,
        [reason_of(one) for one in result.requests],
        result.answered,
        [letter(out, time.time(), ours) for out in result.dead_letters[-KEPT:]],
    )


def sources(tasks: Mapping[int, Task]) -> dict[int, MetricsSource]:
    """Each task as a source of numbers."""
    return {partition: TaskSource(task) for partition, task in tasks.items()}


class TaskSource:
    """The task of a partition, as a source of numbers."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def committed(self) -> Committed:
        """What is counted by now."""
        task = self._task
        sides = {"before": task.raw_scores, "after": task.sent_scores}
        return Committed(
            msgspec.to_builtins(task.counts),
            task.raw_scores.n,
            {stage: scores.hits for stage, scores in sides.items()},
            {stage: scores.log_loss_sum for stage, scores in sides.items()},
            None if task.lane.requests is None else task.lanes.open_requests,
            task.set_tally.tolist(),
        )

    def take_values(self) -> Mapping[str, ColumnScores]:
        """What became of the values of each declared column."""
        return self._task.take_values()

    def take_seen(self) -> Seen | None:
        """What became of models and versions; None where there is one for all."""
        if not self._task.lanes.named:
            return None
        return self._task.lanes.take_seen()

    def take_watched(self) -> Mapping[LaneName, Sequence[Watched]]:
        """What became of labelled predictions, for the alarms."""
        return self._task.take_watched()
