"""What the topics hold, checked from them alone: the log folded, every output and entry made again.

The log is folded offset by offset. At each offset that outputs name, the stored input goes through
one Task a partition, with the log's fold so far in place of a worker's replica: what comes out must
be what was sent, and what a Task has to teach must be what its entries hold, bit by bit. A label's
receipt may be unknown in an entry, where its prediction was sent before a restart; nothing else may
differ.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stream_can.kafka import Settings, Worker
from stream_can.kafka.start import Start
from stream_can.method import sums as sums_of_rows
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from stream_can.stream.task import Task
from tests.kafka.topics import read


@dataclass
class Checked:
    """What was compared."""

    compared: int = 0
    """Outputs and dead letters."""
    learned: int = 0
    """Labels in the log."""
    unknown: int = 0
    """Of those with a prediction, how many had no receipt any more."""
    entries: int = 0
    requests: int = 0
    """For labels."""
    replicas: dict[int, Replica] = field(default_factory=dict)
    tasks: dict[int, Task] = field(default_factory=dict)


def plain(record: Any) -> tuple[Any, ...]:
    return record.key or b"", record.value or b"", tuple(record.headers), record.timestamp


class Partition:
    """One partition of the input: what is stored of it, and a Task that takes it again."""

    def __init__(
        self,
        start: Start,
        replica: Replica,
        settings: Settings,
        number: int,
        begun: bytes | None,
    ) -> None:
        servers = settings.bootstrap_servers[0]
        self.number, self.where = number, f"partition {number}"
        stored = read(servers, settings.input, number)
        self.task = start.fresh(replica, 0, 0) if begun is None else start.stored(replica, begun)
        first, first_label = self.task.next_prediction, self.task.next_label
        if self.task.oldest < first:
            self.task.rebuild([r for r in stored if self.task.oldest <= r.offset < first])
        self.predictions = {r.offset: r for r in stored if r.offset >= first}
        labels = read(servers, settings.labels, number) if settings.labels else []
        self.labels = {r.offset: r for r in labels if r.offset >= first_label}
        self.outputs = read(servers, settings.output, number)
        self.dead = read(servers, settings.own_topics[1], number)
        letters = Counter(
            (headers["__connect.errors.topic"].decode(), int(headers["__connect.errors.offset"]))
            for headers in (dict(r.headers) for r in self.dead)
        )
        assert max(letters.values(), default=1) == 1, f"{self.where}: a dead letter twice"
        # An output says what it was made from, but not which record it was: they come in order.
        sent = [o for o in sorted(self.predictions) if (settings.input, o) not in letters]
        self.at = dict(zip(sent, (learned(r) for r in self.outputs), strict=False))
        """Input offset -> the offset of the log that its output was made from."""
        ks = list(self.at.values())
        assert ks == sorted(ks), f"{self.where}: goes back in the log"
        self.want: list[Any] = []
        self.want_dead: list[Any] = []
        self.requests = read(servers, settings.requests_topic, number) if settings.ask else []
        self.want_requests: list[Any] = []
        self.parts: list[tuple[int, entry.Part]] = []

    def steps(self) -> Iterator[tuple[str, Any]]:
        """Every stored record in the order that the entries state, and where the entries end."""
        at, label_at = self.task.next_prediction, self.task.next_label
        pending: list[tuple[int, entry.Part]] = []
        predictions, labels = deque(sorted(self.predictions)), deque(sorted(self.labels))
        for offset, part in self.parts:
            assert (part.inputs[0], part.labels[0]) == (at, label_at), f"{self.where}: a gap"
            pending.append((offset, part))
            if part.inputs[1] == at and part.labels[1] == label_at:
                continue  # more labels of this transaction follow
            at, label_at = part.inputs[1], part.labels[1]
            taken = dict(zip(self._numbers(pending, "offsets"), self._numbers(pending, "taken"),
                             strict=True))  # fmt: skip
            while predictions and predictions[0] < at:
                while labels and labels[0] < label_at and taken.get(labels[0], 0) <= predictions[0]:
                    yield "record", self.labels[labels.popleft()]
                yield "record", self.predictions[predictions.popleft()]
            while labels and labels[0] < label_at:
                yield "record", self.labels[labels.popleft()]
            yield "end", pending
            pending = []
        assert not pending, f"{self.where}: a transaction without its end"

    @staticmethod
    def _numbers(pending: list[tuple[int, entry.Part]], name: str) -> list[int]:
        return np.frombuffer(b"".join(getattr(p, name) for _, p in pending), "<i8").tolist()


def learned(record: Any) -> int:
    return int(dict(record.headers)["stream-can-learned"])


def verify(settings: Settings, partitions: int, begun: dict[int, bytes]) -> Checked:
    """Check everything that the topics of an application hold.

    Parameters
    ----------
    begun
        The positions at which partitions began, where that is not at 0.
    """
    worker = Worker(settings)
    worker.check()
    apart = settings.learn == "apart"
    found = Checked()
    for number in range(partitions) if apart else [0]:
        own = [number] if apart else list(range(partitions))
        verify_log(worker.start, settings, number, {p: begun.get(p) for p in own}, found)
    return found


def verify_log(
    start: Start, settings: Settings, number: int, own: dict[int, bytes | None], found: Checked
) -> None:
    log = read(settings.bootstrap_servers[0], settings.learned_topic, number)
    entries = [(record, entry.read(record.value)) for record in log]
    replica = found.replicas[number] = Replica()
    waiting, decays = iter(log), []
    upcoming = next(waiting, None)

    def fold_to(k: int) -> None:
        nonlocal upcoming
        while upcoming is not None and upcoming.offset < k:
            replica.fold(upcoming)
            decays.append((replica.offset, replica.corrector._kernel.g))
            upcoming = next(waiting, None)
        replica.advance(k)

    # What outputs were made from; the tasks need the start before anything else.
    fold_to(log[0].offset + 1 if log else 0)
    partitions = [Partition(start, replica, settings, p, begun) for p, begun in own.items()]
    for record, one in entries:
        found.entries += 1
        for part in one.parts:
            next(p for p in partitions if p.number == part.partition).parts.append(
                (record.offset, part)
            )
    sums = {record.offset: (one, []) for record, one in entries if one.parts}
    walks = {p.number: Walk(p, sums) for p in partitions}
    for k in sorted({k for p in partitions for k in p.at.values()} | {1 << 62}):
        fold_to(k)
        for walk in walks.values():
            walk.go(k)
    for offset, (one, parts) in sums.items():
        want = replica.corrector.new_sums()
        # As its writer merged them, by the settings that it had folded.
        g = next(g for k, g in reversed(decays) if k <= one.learned)
        for _, part_sums in sorted(parts, key=lambda found: found[0]):
            sums_of_rows.merge(sums_of_rows.parts(replica.corrector._state), want, part_sums, g)
        packed = want.astype("<f4").tobytes() if want[1, -1] else None
        assert one.sums == packed, f"offset {offset} of the log: sums of {len(parts)} parts"
    for partition in partitions:
        compare(partition, settings, found)


class Walk:
    """The steps of a partition, taken as far as the log is folded."""

    def __init__(self, partition: Partition, sums: dict[int, Any]) -> None:
        self.partition, self.sums = partition, sums
        self._steps = partition.steps()
        self._next = next(self._steps, None)

    def go(self, k: int) -> None:
        """Take what was made from offset k of the log or needs none."""
        p, batch = self.partition, []
        while self._next is not None:
            kind, what = self._next
            if kind == "record":
                if what.topic != p.task._labels_topic and p.at.get(what.offset, k) > k:
                    break
                batch.append(what)
            else:
                self._handle(batch)
                batch = []
                self._end(what)
            self._next = next(self._steps, None)
        self._handle(batch)

    def _handle(self, batch: list[Any]) -> None:
        result = self.partition.task.handle(batch)
        self.partition.want += result.outputs
        self.partition.want_dead += result.dead_letters
        self.partition.want_requests += result.requests

    def _end(self, pending: list[tuple[int, entry.Part]]) -> None:
        p = self.partition
        part, end = p.task.take()
        most = max(len(one.classes) // 4 for _, one in pending) or 1
        (want,) = part.pieces(p.number, end, max(most, len(part.rows)) or 1)
        got = [one for _, one in pending]
        for name in ("offsets", "taken", "classes", "rows"):
            assert b"".join(getattr(one, name) for one in got) == getattr(want, name), (
                f"{p.where}: {name} of the entry at {pending[-1][0]}"
            )
        known = np.frombuffer(b"".join(one.known for one in got), "<f4").reshape(-1, 3)
        expected = np.frombuffer(want.known, "<f4").reshape(-1, 3)
        same = (known == expected).all(axis=1)
        assert (same | np.isnan(known).all(axis=1)).all(), f"{p.where}: receipts"
        self.sums[pending[-1][0]][1].append((p.number, part.sums))


def compare(partition: Partition, settings: Settings, found: Checked) -> None:
    p = partition
    assert [plain(r) for r in p.outputs] == [plain(r) for r in p.want], p.where
    assert sorted(map(plain, p.dead)) == sorted(map(plain, p.want_dead)), p.where
    assert [plain(r) for r in p.requests] == [plain(r) for r in p.want_requests], p.where
    found.requests += len(p.requests)
    found.compared += len(p.outputs) + len(p.dead)
    classes = np.frombuffer(b"".join(part.classes for _, part in p.parts), "<i4")
    known = np.frombuffer(b"".join(part.known for _, part in p.parts), "<f4").reshape(-1, 3)
    found.learned += len(classes)
    found.unknown += int((np.isnan(known).all(axis=1) & (classes >= 0)).sum())
    if settings.learn_share == 1:
        dead = sum(dict(r.headers)["__connect.errors.topic"].decode() == settings.labels
                   for r in p.dead)  # fmt: skip
        labels = sum(r.value is not None for r in p.labels.values())
        assert labels == len(classes) + dead, f"{p.where}: labels lost"
    found.tasks[p.number] = p.task
