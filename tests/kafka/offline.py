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
from typing import Any, NamedTuple

import numpy as np

from stream_can.kafka import Settings, Worker
from stream_can.kafka.start import TaskStart
from stream_can.method import sums as sums_of_rows
from stream_can.stream import entry
from stream_can.stream.lane import VERSION_HEADER
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
    of_sets: int = 0
    """Labels that have taught prediction sets."""
    replicas: dict[int, Replica] = field(default_factory=dict)
    tasks: dict[int, Task] = field(default_factory=dict)


class Placed(NamedTuple):
    """A part of an entry: the entry's offset, and what the rows in it gave of columns."""

    offset: int
    part: entry.LogPart
    given: list[tuple[str | None, ...]]


def given_in(one: entry.LogEntry, columns: tuple[str, ...]) -> list[list[tuple[str | None, ...]]]:
    """What the rows of each part of an entry gave of the columns."""
    rows = [int((np.frombuffer(part.classes, "<i4") >= 0).sum()) for part in one.parts]
    none = (None,) * len(columns)
    if one.segments is None:
        return [[none] * n for n in rows]
    texts = [*one.segments.texts, None]
    numbers = np.frombuffer(one.segments.values, "<i4").reshape(-1, len(columns))
    given = [tuple(texts[i] for i in row) for row in numbers.tolist()]
    assert len(given) == sum(rows)
    return [given[sum(rows[:i]) : sum(rows[: i + 1])] for i in range(len(rows))]


def plain(record: Any) -> tuple[Any, ...]:
    """All but the release that sent it, which may be an older one."""
    headers = tuple((n, b"" if n == VERSION_HEADER[0] else v) for n, v in record.headers)
    return record.key or b"", record.value or b"", headers, record.timestamp


class Partition:
    """One partition of the input: what is stored of it, and a Task that takes it again."""

    def __init__(
        self,
        start: TaskStart,
        replica: Replica,
        settings: Settings,
        number: int,
        begun: bytes | None,
    ) -> None:
        servers = settings.bootstrap_servers[0]
        self.number, self.where = number, f"partition {number}"
        self.start, self.replica = start, replica
        self.stored = read(servers, settings.input, number)
        self.positions = start.fresh(replica, 0, 0).positions() if begun is None else begun
        self.task = self.restored()
        first, first_label = self.task.next_prediction, self.task.next_label
        self.repeated = self.task.counts.repeated
        """Labels before, whose prediction had one."""
        self.predictions = {r.offset: r for r in self.stored if r.offset >= first}
        labels = read(servers, settings.labels, number) if settings.labels else []
        self.labels = {r.offset: r for r in labels if r.offset >= first_label}
        self.outputs = read(servers, settings.output, number)
        begin = {settings.input: first, settings.labels: first_label}
        dead = [(r, origin(r)) for r in read(servers, settings.own_topics[1], number)]
        self.dead = [r for r, (topic, offset) in dead if offset >= begin[topic]]
        letters = Counter(map(origin, self.dead))
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
        self.parts: list[Placed] = []

    def restored(self) -> Task:
        """The task of the last positions, as a worker restores it."""
        task = self.start.stored(self.replica, self.positions)
        if task.oldest < (first := task.next_prediction):
            task.rebuild([r for r in self.stored if task.oldest <= r.offset < first])
        return task

    def steps(self) -> Iterator[tuple[str, Any]]:
        """Every stored record in the order that the entries state, and where the entries end."""
        at, label_at = self.task.next_prediction, self.task.next_label
        pending: list[Placed] = []
        predictions, labels = deque(sorted(self.predictions)), deque(sorted(self.labels))
        for placed in self.parts:
            part = placed.part
            assert (part.inputs[0], part.labels[0]) == (at, label_at), f"{self.where}: a gap"
            pending.append(placed)
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
    def _numbers(pending: list[Placed], name: str) -> list[int]:
        return np.frombuffer(b"".join(getattr(p.part, name) for p in pending), "<i8").tolist()


def origin(record: Any) -> tuple[str, int]:
    """Topic and offset of the record that became a dead letter."""
    headers = dict(record.headers)
    return headers["__connect.errors.topic"].decode(), int(headers["__connect.errors.offset"])


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


def counted(log: list[Any]) -> list[Any]:
    """Without what is none of the application's."""
    replica, found = Replica(), []
    for record in log:
        left = replica.fold(record)
        if left is None or not left.foreign:
            found.append(record)
    return found


def verify_log(
    start: TaskStart, settings: Settings, number: int, own: dict[int, bytes | None], found: Checked
) -> None:
    log = read(settings.bootstrap_servers[0], settings.learned_topic, number)
    entries = [(record, entry.read(record.value)) for record in counted(log)]
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
        for part, given in zip(one.parts, given_in(one, replica.corrector.segments), strict=True):
            next(p for p in partitions if p.number == part.partition).parts.append(
                Placed(record.offset, part, given)
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
        g = next(g for k, g in reversed(decays) if k <= one.folded_to)
        for _, part_sums in sorted(parts, key=lambda found: found[0]):
            sums_of_rows.merge(replica.corrector.parts_of_sums, want, part_sums, g)
        packed = want.astype("<f4").tobytes() if want[1, -1] else None
        assert one.sums == packed, f"offset {offset} of the log: sums of {len(parts)} parts"
    if replica.terms.sets is not None:
        of_sets = [one.sets for _, one in entries if one.sets is not None]
        assert sum(one.rows for one in of_sets) == sum(w.believed for w in walks.values())
        got = sorted(float(p) for one in of_sets for p in np.frombuffer(one.known, "<f4")
                     if not np.isnan(p))  # fmt: skip
        told = [one for walk in walks.values() for one in walk.told if one is not None]
        want_known = sorted(float(np.float32(-one.p if one.missed else one.p)) for one in told)
        found.of_sets = len(got)
        # Fewer where a prediction was sent before a restart; of one life all.
        missing = list(want_known)
        for p in got:
            missing.remove(p)
        assert len(missing) + len(got) == len(told)
    for partition in partitions:
        compare(partition, settings, found)


class Walk:
    """The steps of a partition, taken as far as the log is folded."""

    def __init__(self, partition: Partition, sums: dict[int, Any]) -> None:
        self.partition, self.sums = partition, sums
        self._steps = partition.steps()
        self._next = next(self._steps, None)
        self._open: list[Any] = []
        """Taken since the last entry ended."""
        self.told: list[Any] = []
        """Of each label what is known of its prediction's set."""
        self.believed = 0

    def go(self, k: int) -> None:
        """Take what was made from offset k of the log or needs none."""
        p, batch = self.partition, []
        if p.task.stale:  # those who had it restored it, and took again what was open
            p.task = p.restored()
            p.task.handle(self._open)
        while self._next is not None:
            kind, what = self._next
            if kind == "record":
                if what.topic != p.task.reading.labels_topic and p.at.get(what.offset, k) > k:
                    break
                batch.append(what)
            else:
                self._handle(batch)
                batch = []
                self._end(what)
            self._next = next(self._steps, None)
        self._handle(batch)

    def _handle(self, batch: list[Any]) -> None:
        self._open += batch
        result = self.partition.task.handle(batch)
        self.partition.want += result.outputs
        self.partition.want_dead += result.dead_letters
        self.partition.want_requests += result.requests

    def _end(self, pending: list[Placed]) -> None:
        p = self.partition
        part, end = p.task.take()
        p.positions, self._open = p.task.positions(), []
        most = max(len(one.part.classes) // 4 for one in pending) or 1
        ((want, given, _),) = part.pieces(p.number, end, max(most, len(part.rows)) or 1)
        got, at = [one.part for one in pending], pending[-1].offset
        for name in ("offsets", "taken", "classes", "rows"):
            assert b"".join(getattr(one, name) for one in got) == getattr(want, name), (
                f"{p.where}: {name} of the entry at {at}"
            )
        none = (None,) * len(p.replica.corrector.segments)
        assert [one for placed in pending for one in placed.given] == [
            one or none for one in given
        ], f"{p.where}: values of columns of the entry at {at}"
        width = p.replica.corrector.n_sent + 1
        known = np.frombuffer(b"".join(one.known for one in got), "<f4").reshape(-1, width)
        expected = np.frombuffer(want.known, "<f4").reshape(-1, width)
        same = (known == expected).all(axis=1)
        assert (same | np.isnan(known).all(axis=1)).all(), f"{p.where}: receipts"
        self.sums[at][1].append((p.number, part.sums))
        self.told += part.told
        self.believed += part.belief.rows


def compare(partition: Partition, settings: Settings, found: Checked) -> None:
    p = partition
    assert [plain(r) for r in p.outputs] == [plain(r) for r in p.want], p.where
    assert sorted(map(plain, p.dead)) == sorted(map(plain, p.want_dead)), p.where
    assert [plain(r) for r in p.requests] == [plain(r) for r in p.want_requests], p.where
    found.requests += len(p.requests)
    found.compared += len(p.outputs) + len(p.dead)
    classes = np.frombuffer(b"".join(one.part.classes for one in p.parts), "<i4")
    known = np.frombuffer(b"".join(one.part.known for one in p.parts), "<f4")
    known = known.reshape(-1, p.replica.corrector.n_sent + 1)
    found.learned += len(classes)
    found.unknown += int((np.isnan(known).all(axis=1) & (classes >= 0)).sum())
    if settings.learn_share == 1:
        dead = sum(dict(r.headers)["__connect.errors.topic"].decode() == settings.labels
                   for r in p.dead)  # fmt: skip
        labels = sum(r.value is not None for r in p.labels.values())
        again = p.task.counts.repeated - p.repeated
        assert labels == len(classes) + dead + again, f"{p.where}: labels lost"
    found.tasks[p.number] = p.task
