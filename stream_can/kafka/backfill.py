"""The history of a topic, replayed offline into one snapshot: a new deployment starts warm.

All partitions are merged by timestamp and teach one Corrector, from which the new deployment
starts. Nothing is sent and nobody has to be in the group.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from stream_can.corrector import Corrector
from stream_can.kafka import restore as state
from stream_can.kafka import shared
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.settings import Settings
from stream_can.kafka.start import TaskStart
from stream_can.kafka.worker import Worker
from stream_can.messages.naming import LaneName
from stream_can.scores import Scores
from stream_can.stream import entry
from stream_can.stream.replica import Begun, Replica
from stream_can.stream.task import Counts, Record, Task

log = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
"""Between two lines of the log that say how far it is."""
CHUNK = 5_000
"""Records of one partition read at a time; this many of each partition are held in memory."""


class Backfill(NamedTuple):
    """What a history has taught."""

    corrector: Corrector
    """Of several lanes, that which others begin with."""
    tasks: dict[int, Task]
    """Partition -> positions, counts and recent predictions; they share the Corrector."""
    lanes: Mapping[LaneName, Begun] = MappingProxyType({})
    """Where messages name a model or version."""

    @property
    def counts(self) -> Counts:
        """Of all partitions."""
        total = Counts()
        for task in self.tasks.values():
            for name in Counts.__struct_fields__:
                setattr(total, name, getattr(total, name) + getattr(task.counts, name))
        return total

    def to_dict(self) -> dict[str, Any]:
        """Counts, accuracy and log loss before and after over the history, and where it ended."""
        found: dict[str, Any] = {
            name: getattr(self.counts, name) for name in Counts.__struct_fields__
        }
        tasks = self.tasks.values()
        sides = {
            "before": sum((task.raw_scores for task in tasks), Scores()),
            "after": sum((task.sent_scores for task in tasks), Scores()),
        }
        found["scored"] = sides["before"].n
        for stage, scores in sides.items():
            if scores.n:
                found[stage] = {"accuracy": scores.accuracy, "log_loss": scores.log_loss}
        if self.lanes:
            found["lanes"] = [
                {"model": name.model, "version": name.version, "labels": one.corrector.n_labels}
                for name, one in sorted(self.lanes.items())
            ]
        found["next_offsets"] = {
            partition: {"input": task.next_prediction, "labels": task.next_label}
            for partition, task in self.tasks.items()
        }
        return found


def backfill(
    settings: Settings,
    *,
    start_group: bool = False,
) -> Backfill:
    """Replay what the topics hold now, in the order a worker would have taken it.

    Parameters
    ----------
    settings
        Those of the deployment. All of its topics must exist (or ``create_topics``).
    start_group
        Begin the learned log with the result and commit the offsets where the history ended, so
        that ``stream-can run`` with these settings goes on exactly there, and joins labels that
        come for predictions before it. Only for a group that has committed nothing.

    Raises
    ------
    DeniedError
        Topics, rights or sizes are wrong, or the group to start has started already.
    RetryError
        No broker answers.
    """
    worker = Worker(settings)
    client, readers, s = worker.client, worker.client.readers, settings
    try:
        worker.check()
        if start_group and not client.group_is_new():
            raise DeniedError(
                f"group {s.application_id!r} has members or committed offsets: it goes on from its"
                " own state; take another application_id, or only write a snapshot"
            )
        learner = _Learner(worker.start)
        spans = readers.spans(s.input)
        label_spans = readers.spans(s.labels) if s.labels else {}
        options = worker.start.task_options()
        tasks = {
            p: Task(
                learner.learns,
                **options,
                next_prediction=begin,
                next_label=label_spans.get(p, (0, 0))[0],
            )
            for p, (begin, _) in spans.items()
        }
        streams = [_records(client.readers, s.input, p, *span) for p, span in spans.items()]
        if s.labels:
            streams += [
                _records(client.readers, s.labels, p, *span) for p, span in label_spans.items()
            ]
        total = sum(end - begin for begin, end in (*spans.values(), *label_spans.values()))
        done, said = 0, time.monotonic()
        # Equal timestamps: the prediction first, so that its label finds it.
        merged = heapq.merge(
            *streams, key=lambda record: (record.timestamp, record.topic != s.input)
        )
        for partition, run in groupby(merged, attrgetter("partition")):
            while batch := list(islice(run, CHUNK)):
                result = tasks[partition].handle(batch)
                if result.stopped is not None:
                    record, error = result.stopped
                    raise DeniedError(
                        f"offset {record.offset} of {record.topic}-{partition}: {error}"
                    )
                learner.learn(partition, tasks[partition])
                done += len(batch)
                if time.monotonic() - said > EVERY_SECONDS:
                    said = time.monotonic()
                    log.info("%d of %d records", done, total)
        log.info("%d records", done)
        for p, task in tasks.items():  # to the very end: the last offsets may be only markers
            task.next_prediction = spans[p][1]
            task.next_label = label_spans.get(p, (0, 0))[1]
        if start_group:
            _start_group(worker, learner, tasks)
        return Backfill(learner.corrector, tasks, learner.lanes)
    finally:
        client.close()


class _Learner:
    """What a history teaches: one corrector, or where there are lanes a log that is not stored."""

    def __init__(self, start: TaskStart) -> None:
        self._replica: Replica | None = None
        self._corrector = start.corrector()
        if start.fleet is not None:
            self._replica = Replica()
            self._fold(entry.start(start.snapshot, identity=start.identity, fleet=start.fleet))

    @property
    def learns(self) -> Corrector | Replica:
        """What the tasks are made with."""
        return self._replica or self._corrector

    @property
    def corrector(self) -> Corrector:
        """The one corrector, or that which lanes begin with."""
        return self._corrector if self._replica is None else self._replica.corrector

    @property
    def lanes(self) -> dict[LaneName, Begun]:
        """Where there are lanes, what each has learned."""
        return {} if self._replica is None else self._replica.lanes

    def learn(self, partition: int, task: Task) -> None:
        """Learn what the last batch of a task has to teach."""
        if self._replica is None:
            return
        app, (parts, end) = self._replica.terms.app, task.take_all()
        for mark, part in parts:
            opened = [(partition, part, end)]
            for data in entry.entries(
                part.corrector, self._replica.offset, opened, app=app, lane=mark
            ):
                self._fold(data)

    def _fold(self, data: bytes) -> None:
        assert self._replica is not None
        now = int(time.time() * 1000)
        self._replica.fold(Record("history", 0, self._replica.offset, now, None, data))


def _records(readers: Readers, topic: str, partition: int, start: int, stop: int) -> Iterator[Any]:
    """The committed records of [start, stop), read a chunk at a time.

    All partitions share one consumer, which reads one partition at a time. So each chunk is read to
    its end before it is handed out.
    """
    while start < stop:
        chunk = list(islice(readers.read(topic, partition, start, stop), CHUNK))
        if not chunk:
            return
        yield from chunk
        start = chunk[-1].offset + 1


def _start_group(worker: Worker, learner: _Learner, tasks: dict[int, Task]) -> None:
    """Write what a worker restores from: positions, shared records, and the start of the log.

    The shared record and the log's first entry hold the same corrector, and the record's offset is
    that of the entry: a start folds the entry, which changes nothing. Lanes follow it in the log.
    """
    s = worker.settings
    state_topic, _ = s.own_topics

    def offsets(written: list[int]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for (partition, task), so in zip(tasks.items(), written, strict=False):
            found |= state.offsets(task, s.input, s.labels, partition, so)
        return found

    records: list[tuple[str, int, bytes | None, bytes]] = [
        (state_topic, p, state.key(s.input, p), task.positions()) for p, task in tasks.items()
    ]
    # reset: what an earlier group of this name has left in the log does not count from here on.
    identity, corrector, fleet = worker.start.identity, learner.corrector, worker.start.fleet
    begin = entry.start(corrector.to_bytes(), reset=True, identity=identity, by=s.name, fleet=fleet)
    lanes = [
        entry.keep(identity.mark, name, one.corrector.to_bytes())
        for name, one in learner.lanes.items()
    ]
    spans = worker.client.readers.spans(s.learned_topic)
    for number, (_, end) in spans.items():
        name = shared.key(s.learn, number)
        records.append((state_topic, number, name, shared.pack(Replica(corrector, end))))
        records += [(s.learned_topic, number, None, data) for data in (begin, *lanes)]
    worker.client.start_group(records, offsets)
