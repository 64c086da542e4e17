"""The topics by which servers learn together, each a replica: their log, labels, and what new ones
begin with."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from stream_can.errors import SnapshotMismatch
from stream_can.kafka import shared
from stream_can.kafka.beginning import changed_settings
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.guards import ClientError, DeniedError, RetryError
from stream_can.kafka.client.log import LogReader
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.patience import Patience
from stream_can.kafka.restore import settled
from stream_can.kafka.start import Start
from stream_can.serve.outbox import Outbox, Sender
from stream_can.serve.settings import ServeSettings
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from stream_can.stream.writers import WINDOW

__all__ = ["Topics"]

log = logging.getLogger(__name__)

BUNDLE_KEY = b"replicas"
"""Of the records in the state topic with which a replica without a file begins."""
BUNDLE_SECONDS = 300.0
"""Between two of them, about, by the same replica."""
STILL_SECONDS = 30.0
"""A log that brings nothing for so long, though there is more, is given up."""
TURN_SECONDS = 0.02
"""So long entries are folded at a time, while requests wait."""

_write_bundle = msgspec.msgpack.Encoder().encode
_read_bundle = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode


class Topics:
    """The log, the labels and the state topic, as one replica reads and writes them.

    Parameters
    ----------
    settings, start
        The brokers and names, and the corrector to start from.
    beat
        Called while brokers are waited for.

    Raises
    ------
    DeniedError
        An option of the client is unknown.
    """

    def __init__(self, settings: ServeSettings, start: Start, beat: Callable[[], None]) -> None:
        self.settings, self.start = settings, start
        self.options = Options(
            settings.bootstrap_servers, settings.client, compression=settings.compression
        )
        self.learned, self.labels = settings.learned_topic, settings.labels_topic
        self.state = settings.own_topics[0]
        self.outbox = Outbox(self.options, self.learned)
        self._beat = beat
        self._patience = Patience(settings.connect_seconds, settings.name, threading.Event(), beat)
        self._readers = Readers(self.options)
        self._log = LogReader(self.options, self.learned)
        self._labels = LogReader(self.options, self.labels)
        self._sender = Sender(self.options)
        self._thread = ThreadPoolExecutor(1, "stream-can-labels")
        self._entries: deque[Any] = deque()
        self._labels_read: deque[Any] = deque()
        self._next = self.labels_next = 0
        """Where the log is read on, and where the labels."""
        self._passing: list[tuple[Sequence[tuple[bytes, bytes]], asyncio.Future[None]]] = []
        self._passes: asyncio.Task[None] | None = None
        self._bundled = -1
        self._bundle_due = time.monotonic() + random.uniform(0.1, 1) * BUNDLE_SECONDS

    # -- taking up -------------------------------------------------------------------------------

    def open(self, replica: Replica, labels_from: int | None) -> Replica:
        """Fold the log up to its end, from what a file holds or another replica left; begin it
        where nobody has.

        Parameters
        ----------
        replica
            What the file holds.
        labels_from
            Where it was to read on in the labels; None where it is new.

        Raises
        ------
        DeniedError
            The topics are missing, or do not fit what the file holds.
        RetryError
            No broker answers.
        """
        settings = self.settings
        self._patience.until_answered(self._check)
        try:
            begin, end = self._span(self.learned, replica.offset)
            if replica.offset > end:
                raise DeniedError(
                    f"state {settings.state}: of offset {replica.offset} of {self.learned!r}, which"
                    f" ends at {end}: is it new? Move the file away to begin with what is there"
                )
            if not replica.started or replica.offset < begin:
                replica = self._newest(replica, begin)
            self._next = replica.offset
            self._log.read({0: replica.offset})
            self._fold_until(replica, lambda: replica.offset >= end)
            if not replica.started:
                self._begin(replica)
            first, last = self._span(self.labels, labels_from)
            wanted = last - WINDOW if labels_from is None else labels_from
            if labels_from is not None and first > labels_from:
                log.warning(
                    "topic %r: retention deleted offsets %d to %d before they were read here",
                    self.labels, labels_from, first - 1,
                )  # fmt: skip
            self.labels_next = min(max(wanted, first), last)
            self._labels.read({0: self.labels_next})
        finally:
            self._readers.close()
        return replica

    def _check(self) -> None:
        with Admin(self.options, self.settings.application_id) as admin:
            admin.check_single(
                labels=self.labels, state=self.state, learned=self.learned,
                state_bytes=self.start.state_bytes, create=self.settings.create_topics,
            )  # fmt: skip

    def _span(self, topic: str, at: int | None) -> tuple[int, int]:
        return settled(lambda: self._readers.span(topic, 0), at, self._beat)

    def _newest(self, replica: Replica, begin: int) -> Replica:
        """What another replica left for new ones, where it is newer."""
        data = shared.newest_shared(self._readers, self.state, 0, BUNDLE_KEY)
        if data is not None:
            try:
                records = _read_bundle(data)
                found = shared.unpack(records.pop(shared.key("together", 0)), records)
            except (msgspec.MsgspecError, KeyError, SnapshotMismatch) as error:
                raise DeniedError(
                    f"topic {self.state!r}: what new replicas begin from: {error}"
                ) from error
            if found.offset > replica.offset:
                log.info("begins with what another replica had learned at offset %d", found.offset)
                replica = found
        if replica.offset < begin:
            raise DeniedError(
                f"topic {self.learned!r}: retention deleted offsets {replica.offset} to"
                f" {begin - 1}, and nothing newer is in {self.state!r}; start a replica whose file"
                " has them, or take a new application_id"
            )
        return replica

    def _begin(self, replica: Replica) -> None:
        """Let the log start. Of several that do so the first counts."""
        start = self.start
        self._sender.send(
            self.learned,
            [(None, entry.start(start.snapshot, identity=start.identity, by=self.settings.name,
                                fleet=start.fleet))],
        )  # fmt: skip
        self._fold_until(replica, lambda: replica.started)

    def tell_settings(self, replica: Replica) -> None:
        """Change the log's settings of the corrector to ours, unless ours were replaced there."""
        settings = self.settings
        data = changed_settings(replica, self.start, settings.settings_generation, settings.name)
        if data is not None:
            generation = replica.terms.generation
            self._sender.send(self.learned, [(None, data)])
            self._fold_until(replica, lambda: replica.terms.generation > generation)

    def _fold_until(self, replica: Replica, done: Callable[[], bool]) -> None:
        before, deadline = replica.offset, time.monotonic() + STILL_SECONDS
        while not done():
            self.advance(replica)
            self._beat()
            if replica.offset > before:
                before, deadline = replica.offset, time.monotonic() + STILL_SECONDS
            if time.monotonic() > deadline:
                raise RetryError(f"topic {self.learned!r}: nothing behind offset {before}")
            if not self._entries:
                time.sleep(0.005)

    # -- going on --------------------------------------------------------------------------------

    def advance(self, replica: Replica) -> None:
        """Fold what the log has brought, for a moment; never waits.

        Raises
        ------
        RebuildError, DeniedError, NewerEntry
            It cannot be read on.
        """
        for one in self._log.take().values():
            self._entries.extend(one.records)
            self._next = one.next
        deadline = time.monotonic() + TURN_SECONDS
        while self._entries and time.monotonic() < deadline:
            left = replica.fold(self._entries.popleft())
            if left is not None:
                log.log(
                    logging.WARNING if left.foreign else logging.INFO, "%s; left out", left.reason
                )
        if not self._entries:
            replica.advance(self._next)

    @property
    def behind(self) -> bool:
        """Whether there is more to fold at once."""
        return bool(self._entries or self._labels_read)

    def take_labels(self, most: int) -> list[Any]:
        """Records of labels that have come, in their order; never waits.

        Raises
        ------
        RebuildError, DeniedError
            They cannot be read on.
        """
        for one in self._labels.take().values():
            self._labels_read.extend(one.records)
        n = min(most, len(self._labels_read))
        found = [self._labels_read.popleft() for _ in range(n)]
        if found:
            self.labels_next = found[-1].offset + 1
        return found

    async def pass_on(self, labels: Sequence[tuple[bytes, bytes]]) -> None:
        """Bring labels, ids and messages, to all replicas; the brokers have them on return.

        Raises
        ------
        ClientError
            Perhaps not.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._passing.append((labels, future))
        if self._passes is None or self._passes.done():
            self._passes = asyncio.create_task(self._pass_all())
        await future

    async def _pass_all(self) -> None:
        """Send what waits, together; what comes meanwhile next."""
        loop = asyncio.get_running_loop()
        while self._passing:
            waiting, self._passing = self._passing, []
            records = [one for labels, _ in waiting for one in labels]
            try:
                await loop.run_in_executor(self._thread, self._sender.send, self.labels, records)
                failed = None
            except ClientError as error:
                failed = error
            for _, future in waiting:
                if future.done():
                    continue
                if failed is None:
                    future.set_result(None)
                else:
                    future.set_exception(failed)

    def leave_for_others(self, replica: Replica, *, last: bool = False) -> None:
        """From time to time: what a new replica, or one that was away for long, begins with."""
        due = last or time.monotonic() > self._bundle_due
        if not due or replica.offset == self._bundled:
            return
        lanes, at = shared.records(replica, {})
        records = {**lanes, shared.key("together", 0): shared.pack(replica, at)}
        self._bundled, self._bundle_due = replica.offset, time.monotonic() + BUNDLE_SECONDS
        self.outbox.put_beside(self.state, BUNDLE_KEY, _write_bundle(records))

    def close(self, seconds: float = 5.0) -> None:
        """Send what is left, and let go of the brokers."""
        self.outbox.end(seconds)
        self._log.close()
        self._labels.close()
        self._thread.shutdown(wait=True)
        self._sender.close()
