"""What a server does with messages: corrects predictions, learns labels, keeps all in its file.

One thread has the task and the fold; another one writes. What came since the last commit is written
together and folded once it is there, so that predictions are corrected by what is kept and nothing
else: a restart goes on with the same bits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from stream_can.app.health import Health
from stream_can.app.labelling.requests import NotOpen, Pending
from stream_can.app.look import Look
from stream_can.app.metrics import Metrics
from stream_can.errors import SnapshotMismatch, StreamCANError, UnknownClass
from stream_can.kafka.known import known, sources
from stream_can.kafka.start import Start
from stream_can.messages.messages import BadMessage
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Output, Record, Result
from stream_can.method.state import rows_at_once
from stream_can.serve.database import CannotWrite, StateError
from stream_can.serve.journal import LOG, MOST_UNKNOWN, Commit, Journal, Kept
from stream_can.serve.settings import INPUT, LABELS, ServeSettings
from stream_can.stream import entry
from stream_can.stream.entry import entries
from stream_can.stream.recent import Recent
from stream_can.stream.replica import Replica
from stream_can.stream.requests import RequestMessage
from stream_can.stream.task import Task
from stream_can.trust.sets import Ticket

__all__ = ["MOST_MESSAGES", "STATUSES", "Refused", "Service", "Status", "Unavailable"]

log = logging.getLogger(__name__)

FOLD_SECONDS = 30.0
"""Between two folds of the log in the file."""
AGAIN_SECONDS = 1.0
"""Between two tries to write a file that could not be written."""
MOST_MESSAGES = 10_000
"""Of a request."""
MOST_SHOWN = 10
"""Messages of a request that its refusal names."""
MOST_REQUESTS = 10_000
"""Open label requests that are kept; the oldest go first."""

Status = str
"""What became of a label, one of `STATUSES`."""
STATUSES: tuple[Status, ...] = ("learned", "repeated", "unknown")


class Refused(StreamCANError):
    """Nothing of a request was taken; the message says which of its messages cannot be read."""


class Unavailable(StreamCANError):
    """Nothing of a request was taken: the file cannot be written now."""


class Corrected(NamedTuple):
    """The answer to predictions."""

    messages: list[bytes]
    learned: int
    """The offset of the log up to which was learned what corrected them."""


class Service:
    """One server's task, its file, and what it shows.

    Parameters
    ----------
    settings
        What to run.

    Raises
    ------
    StateError, ValueError
        The file cannot be used, or is another application's; settings do not make a corrector.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.start = Start(settings)
        self.health = Health(settings.live_seconds)
        self.journal = Journal(settings.state)
        try:
            with self.journal.explained():
                self._restore()
        except BaseException:
            self.close()
            raise
        self.metrics = Metrics(lambda: known({0: self.replica}), shown=settings.field_names)
        self.metrics.restored(sources({0: self.task}), 0.0, 0.0)
        self.look = Look(
            settings.application_id,
            settings.state,
            together=True,
            has_labels=True,
            health=self.health,
            metrics=self.metrics,
            known=lambda: known({0: self.replica}),
            over_http=True,
        )
        self._thread = ThreadPoolExecutor(1, "stream-can-journal")
        self._unknown: list[bytes] = []
        self._requests: dict[int, bytes] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._together: list[tuple[Sequence[bytes], asyncio.Future[Corrected]]] = []
        self._changed = self._refused = self._ends = False
        self._wake = asyncio.Event()
        self._folded = time.monotonic()
        self.trouble: str | None = None
        """Why nothing can be written; labels are refused meanwhile."""

    # -- the file --------------------------------------------------------------------------------

    def _restore(self) -> None:
        """Take up what the file holds, or begin."""
        stored, start = self.journal.read(), self.start
        self._task: Task | None = None
        self.replica: Replica = stored.replica
        if not self.replica.started:
            first = entry.start(start.snapshot, identity=start.identity, fleet=start.fleet)
            self._tell(first)
        self._require_ours()
        self.start.compare_counts(self.replica.corrector)
        if stored.positions:
            self._task = start.stored(self.replica, stored.positions, errors="refuse")
        else:
            self._task = start.fresh(self.replica, 0, 0, errors="refuse")
        self.unknown: OrderedDict[bytes, None] = OrderedDict()
        self.requests: OrderedDict[int, Pending] = OrderedDict()
        self._keep(stored.kept)
        self.unknown |= dict.fromkeys(stored.unknown)
        self._written = self.task.next_prediction
        self._tell_settings()

    def _tell(self, data: bytes) -> None:
        """Write an entry alone, and fold it."""
        record = Record(LOG, 0, self.replica.offset, _now(), None, data)
        positions = b"" if self._task is None else self._task.positions(self.replica.offset)
        self.journal.write(Commit([record], positions, [], []))
        self.replica.fold(record)

    def _require_ours(self) -> None:
        """Raise StateError where the file is another application's."""
        theirs = self.replica.terms.identity
        found = [] if theirs is None else theirs.differs(self.start.identity)
        try:
            self.start.require_fits(self.replica.corrector)
        except SnapshotMismatch as error:
            found.append(str(error))
        if found:
            raise StateError(
                f"state {self.settings.state}: of other settings: {'; '.join(found)}; set these"
                " back, or name another file, which begins anew"
            )

    def _tell_settings(self) -> None:
        """The settings of the corrector are those given now."""
        have, want, fleet = self.replica.settings, self.start.settings, self.start.fleet
        changed = {name: value for name, value in want.items() if have[name] != value}
        if changed or fleet != self.replica.terms.fleet:
            if self.replica.offset > 1:  # a new log is told of them too, after its start
                log.info("settings of the corrector change: %s", changed or "max_lanes or [models]")
            app, number = self.replica.terms.app, self.replica.terms.generation + 1
            self._tell(entry.settings(changed, number, app=app, fleet=fleet))

    def _keep(self, kept: Sequence[Kept]) -> None:
        """Know again the predictions that wait for labels, and which have theirs."""
        self.task.rebuild(())
        lanes, marks = self.task.lanes, self.task.marks
        for one in kept:
            name = LaneName(*one.lane)
            recent = Recent(
                one.offset, one.time, one.m, rows=one.rows, fair=one.fair, given=one.given,
                labelled=one.offset in marks, ticket=one.ticket and Ticket(*one.ticket),
            )  # fmt: skip
            lane = lanes.keep(name, one.id, recent)
            if lane is not None and one.request is not None and not recent.labelled:
                lane.open_requests.ask(one.offset, one.time)
                self._ask(one.offset, one.request)

    @property
    def most(self) -> int:
        """Messages that are worked on together."""
        classes = max(len(lane.messages.classes) for lane in self.task.lanes)
        return min(MOST_MESSAGES, rows_at_once(classes))

    @property
    def task(self) -> Task:
        """What corrects and learns."""
        assert self._task is not None
        return self._task

    # -- messages --------------------------------------------------------------------------------

    def correct(self, messages: Sequence[bytes]) -> Corrected:
        """Correct the messages of predictions, or none of them.

        Raises
        ------
        Refused
            One of them cannot be read.
        """
        task, now = self.task, _now()
        first = task.next_prediction
        result = self._handle(
            [Record(INPUT, 0, first + i, now, None, one) for i, one in enumerate(messages)], first
        )
        for out in result.requests:
            assert out.source is not None
            assert out.value is not None
            self._requests[out.source.offset] = out.value
            self._ask(out.source.offset, out.value)
        self._write_soon()
        return Corrected([out.value or b"null" for out in result.outputs], self.replica.offset)

    async def correct_together(self, messages: Sequence[bytes]) -> Corrected:
        """:meth:`correct`, with what comes in the same turn of the loop: a batch costs less."""
        future: asyncio.Future[Corrected] = asyncio.get_running_loop().create_future()
        if not self._together:
            asyncio.get_running_loop().call_soon(self._correct_all)
        self._together.append((messages, future))
        return await future

    def _correct_all(self) -> None:
        """Answer all that came together; where a message is bad, each request by itself."""
        every, self._together = self._together, []
        waiting: list[tuple[Sequence[bytes], asyncio.Future[Corrected]]] = []
        size, most = 0, self.most
        for one in every:
            if waiting and size + len(one[0]) > most:
                self._correct_these(waiting)
                waiting, size = [], 0
            waiting.append(one)
            size += len(one[0])
        self._correct_these(waiting)

    def _correct_these(
        self, waiting: Sequence[tuple[Sequence[bytes], asyncio.Future[Corrected]]]
    ) -> None:
        try:
            every, learned = self.correct([one for messages, _ in waiting for one in messages])
            found = iter(every)
            for messages, future in waiting:
                outputs = list(islice(found, len(messages)))
                if not future.done():
                    future.set_result(Corrected(outputs, learned))
            return
        except Refused as error:
            if len(waiting) == 1:
                if not waiting[0][1].done():
                    waiting[0][1].set_exception(error)
                return
        for messages, future in waiting:
            try:
                corrected = self.correct(messages)
            except Refused as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(corrected)

    async def labels(self, messages: Sequence[bytes]) -> list[Status]:
        """Take labels, or none of them, for good; what became of each.

        Raises
        ------
        Refused
            One of them cannot be read.
        Unavailable
            The file cannot be written.
        """
        found = self.label(messages)
        await self.written()
        return found

    def label(self, messages: Sequence[bytes]) -> list[Status]:
        """Learn labels, or none of them; what became of each, once :meth:`written` has returned.

        Raises
        ------
        Refused
            One of them cannot be read.
        Unavailable
            The file cannot be written.
        """
        if self.trouble is not None:
            raise Unavailable(f"{self.trouble}; nothing was learned, send it again")
        task, now = self.task, _now()
        reads = task.lane.messages
        records: list[Record] = []
        statuses: list[Status] = []
        taken: list[tuple[int, bytes, list[Recent], bool]] = []
        seen: set[tuple[object, ...]] = set()
        for i, one in enumerate(messages):
            try:
                message, name = self._open_label(one)
                holders = task.lanes.holders(name, message)
            except StreamCANError as error:
                raise Refused(_refusal([(i, error)], len(messages))) from None
            done = holders and all(of.labelled for of in holders)
            which = name, *(of.offset for of in holders)
            if done or which in seen or (not holders and name in self.unknown):
                statuses.append("repeated")
                continue
            seen.add(which)
            statuses.append("unknown")
            brings = reads.echo_path and reads.labels.find(message, reads.echo_path) is not None
            taken.append((i, name, holders, bool(brings)))
            records.append(Record(LABELS, 0, task.next_label + len(records), now, None, one))
        if not records:
            return statuses
        before = {id(of) for _, _, holders, _ in taken for of in holders if of.labelled}
        self._handle(records, task.next_label, [i for i, *_ in taken])
        for i, name, holders, brings in taken:
            learned = [of.offset for of in holders if of.labelled and id(of) not in before]
            for offset in learned:
                self.requests.pop(offset, None)
            if learned or brings:
                statuses[i] = "learned"
            if not holders:
                self._unknown.append(name)
                self.unknown[name] = None
        while len(self.unknown) > MOST_UNKNOWN:
            self.unknown.popitem(last=False)
        self._write_soon()
        return statuses

    def _open_label(self, message: bytes) -> tuple[Any, bytes]:
        """What the message of a label says, and the id of its prediction.

        Raises
        ------
        BadMessage
            It cannot be read, or has no id.
        """
        reads = self.task.lane.messages
        opened = reads.open(message, label=True)
        name = reads.id_of_label(opened, None)
        if name is None:
            raise BadMessage(f"no field {self.settings.id!r}")
        return opened, name

    def _handle(
        self, records: list[Record], first: int, numbers: Sequence[int] | None = None
    ) -> Result:
        """One batch through the task; Refused where a message cannot be read.

        ``numbers`` are those of the messages in their request, where some were left out.
        """
        result = self.task.handle(records)
        self.metrics.handled(result)
        if result.dead_letters:
            bad = [
                (out.source.offset - first, _why(out))
                for out in result.dead_letters
                if out.source is not None
            ]
            if numbers is not None:
                bad = [(numbers[i], why) for i, why in bad]
            self._refused = True
            raise Refused(_refusal(bad, len(records)))
        return result

    # -- label requests --------------------------------------------------------------------------

    def _ask(self, offset: int, value: bytes) -> None:
        says = msgspec.json.decode(value, type=RequestMessage)
        self.requests[offset] = Pending(0, offset, None, says)
        while len(self.requests) > MOST_REQUESTS:
            self.requests.popitem(last=False)

    async def answer(self, offset: int, column: int) -> None:
        """Take the label of an open request, for good.

        Raises
        ------
        NotOpen
            Nobody waits for it any more.
        UnknownClass
            It has not so many classes.
        Unavailable
            See :meth:`labels`.
        """
        pending = self.requests.get(offset)
        if pending is None or offset < self.task.oldest:
            self.requests.pop(offset, None)
            raise NotOpen("this request was answered already, or is too old")
        classes = pending.says.classes or self.start.classes
        if not 0 <= column < len(classes):
            raise UnknownClass(f"class {column}: there are {len(classes)}")
        message: dict[str, object] = {}
        fields = self.task.lane.messages
        put(message, fields.label_path, classes[column])
        put(message, self.settings.id.split("."), pending.says.id)
        await self.labels([msgspec.json.encode(message)])
        self.requests.pop(offset, None)

    # -- commits ---------------------------------------------------------------------------------

    def _write_soon(self) -> None:
        self._changed = True
        self._wake.set()

    async def written(self) -> None:
        """Wait until all that was taken before is on the disk.

        Raises
        ------
        Unavailable
            It cannot be written now. It is kept in memory, and written once it can be.
        """
        if self.trouble is None and not self._changed and self._idle.is_set():
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._wake.set()
        await future

    async def run(self) -> None:
        """Commit what is taken, until :meth:`end`."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.health.ready = True
        try:
            await self._run(self.settings.commit_interval_ms / 1000)
        finally:
            for future in self._waiting:
                if not future.done():
                    future.set_exception(Unavailable("the server stops; send it again"))

    async def _run(self, interval: float) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), 1.0)
            self.health.beat()
            if self._changed or self._waiting:
                if not self._ends:
                    await asyncio.sleep(interval)
                await self._commit()
            elif self._refused:
                self.metrics.committed(sources({0: self.task}), 0.0, 0)
                self._refused = False
            if self._ends and (self._changed or self._waiting) and self.trouble is None:
                continue
            if self._ends or time.monotonic() - self._folded > FOLD_SECONDS:
                await self._fold()
            if self._ends:
                return

    async def _commit(self) -> None:
        """Write what came since the last one, then fold it; try again where that does not go."""
        self._wake.clear()
        self._idle.clear()
        begin, loop = time.monotonic(), asyncio.get_running_loop()
        commit, waiting = self._gather(), self._waiting
        self._waiting, self._changed, self._refused = [], False, False
        sync = bool(waiting)
        while True:
            try:
                await loop.run_in_executor(
                    self._thread, lambda: self.journal.write(commit, sync=sync)
                )
                break
            except CannotWrite as error:
                if self.trouble is None:
                    log.error("%s; trying again until it can be written", error)
                self.trouble = self.health.waits_for = str(error)
                for future in waiting + self._waiting:
                    if not future.done():
                        future.set_exception(
                            Unavailable(f"{error}; it is learned once that can be written")
                        )
                waiting = self._waiting = []
                self.health.beat()
                if self._ends:
                    log.error("what came since is not kept; no label of it was acknowledged")
                    return
                await asyncio.sleep(AGAIN_SECONDS)
        if self.trouble is not None:
            log.warning("state %s: written again", self.settings.state)
        self.trouble = self.health.waits_for = None
        for record in commit.entries:
            left = self.replica.fold(record)
            if left is not None:
                log.warning("%s; left out", left.reason)
        written = sum(len(one.value or b"") for one in commit.entries) + len(commit.positions)
        self.metrics.committed(sources({0: self.task}), time.monotonic() - begin, written)
        self._idle.set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _gather(self) -> Commit:
        """All that came since the last commit."""
        task, replica = self.task, self.replica
        now, end = _now(), (task.next_prediction, task.next_label)
        found: list[Record] = []
        parts, _ = task.take_all()
        for mark, part in parts:
            if mark is None and not part.teaches:
                continue
            for data in entries(
                part.corrector, replica.offset, [(0, part, end)], app=replica.terms.app, lane=mark
            ):
                offset = replica.offset + len(found)
                found.append(Record(LOG, 0, offset, now, None, data))
        kept = [
            Kept(
                of.offset, of.timestamp, id, of.m, of.rows, of.fair, of.given, lane.name,
                self._requests.get(of.offset), of.ticket,
            )
            for lane in task.lanes
            for id, of in lane.recent.since(self._written)
        ]  # fmt: skip
        kept.sort(key=lambda one: one.offset)
        unknown, self._unknown = self._unknown, []
        self._written, self._requests = task.next_prediction, {}
        return Commit(found, task.positions(replica.offset), kept, unknown, task.oldest)

    async def _fold(self) -> None:
        """Make the file short: its log gives way to what it makes."""
        self._folded = time.monotonic()
        oldest = self.task.oldest
        for offset in [n for n in self.requests if n < oldest]:
            del self.requests[offset]
        loop = asyncio.get_running_loop()
        try:  # nothing is learned meanwhile: that is done by whoever waits here
            await loop.run_in_executor(self._thread, self.journal.fold, self.replica)
        except CannotWrite as error:
            log.warning("%s", error)

    def close(self) -> None:
        """Let go of the file, where nothing was taken."""
        self.journal.close()

    async def end(self, running: asyncio.Task[None]) -> None:
        """Write what is left, and let go of the file."""
        self.health.ready = False
        self._ends = True
        self._wake.set()
        try:
            await running
        finally:
            self._thread.shutdown()
            self.journal.close()


def _now() -> int:
    return time.time_ns() // 1_000_000


def _why(out: Output) -> str:
    """The reason of a dead letter."""
    says = dict(out.headers)
    return (says["__connect.errors.exception.message"] or b"").decode(errors="replace")


def _refusal(bad: Sequence[tuple[int, object]], n: int) -> str:
    """Which messages of a request are bad, and why."""
    if n == 1:
        return str(bad[0][1])
    shown = "; ".join(f"message {i}: {why}" for i, why in bad[:MOST_SHOWN])
    more = f"; and {len(bad) - MOST_SHOWN} more" if len(bad) > MOST_SHOWN else ""
    return f"{shown}{more}"


def put(message: dict[str, object], path: Sequence[str], value: object) -> None:
    """Set a value at a path of an object, making what is missing on the way."""
    for name in path[:-1]:
        inner = message.setdefault(name, {})
        assert isinstance(inner, dict)
        message = inner
    message[path[-1]] = value
