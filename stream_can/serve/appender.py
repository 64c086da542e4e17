"""A server's appender to topics, in a thread of its own: predictions that were sent, and labels."""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from stream_can.kafka.client.guards import ClientError, RetryError, errors_as
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.producer import Appended, Producer
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.corrections import CurrentState
from stream_can.kafka.state import headers_by
from stream_can.learner.order import merged
from stream_can.learner.sent import SentBatch
from stream_can.serve.service import Unavailable

__all__ = ["Appender"]

log = logging.getLogger(__name__)

DELIVERY = {"delivery_timeout_ms": 60_000}
"""Brokers may be away for so long, and nothing is lost that was under way."""
MOST_BYTES = 64 << 20
"""Most bytes of rows that wait; of more the oldest are dropped."""
SLOW_SECONDS = 10.0
"""Brokers that have not answered for so long are not waited for by more labels."""
AGAIN_SECONDS = 1.0
"""Between two tries while no broker answers."""
STOP_SECONDS = 5.0
"""For what is left when the server ends."""


class Waiting(NamedTuple):
    """Rows of one request."""

    batch: SentBatch
    number: int
    mark: str
    """Mark of the state that corrected them."""
    size: int


class Appender:
    """Collects for an interval, then appends and waits for the brokers, in turns.

    Rows that may or may not have been appended are not sent again, so that none counts twice.

    Parameters
    ----------
    options
        The brokers and client options.
    sent
        The topic of sent batches.
    name
        Of this server: rows of one name lie in one partition.
    limits
        The most bytes of a record, of each topic.
    interval
        Seconds to collect for.
    appended
        Called behind each turn, with the seconds and bytes that it took, and how many rows were
        dropped.
    """

    def __init__(
        self,
        options: Options,
        sent: str,
        name: str,
        limits: dict[str, int],
        interval: float,
        appended: Callable[[float, int, int], None],
    ) -> None:
        self._options, self._sent, self._name, self._interval = options, sent, name, interval
        self._limit = limits[sent] - 1024
        self._producer = Producer(options, max(limits.values()))
        self._appended = appended
        self._lock, self._wake = threading.Lock(), threading.Event()
        self._rows: deque[Waiting] = deque()
        self._bytes = self._dropped = 0
        self._labels: list[Appended] = []
        self._futures: list[Future[None]] = []
        self._partition: int | None = None
        self._error: str | None = None
        self._began: float | None = None
        """When the turn began that waits for the brokers."""

    # -- by the thread of the requests -----------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """Why nothing can be appended now."""
        if self._error is None and (began := self._began) is not None:
            waits = time.monotonic() - began
            if waits > SLOW_SECONDS:
                return f"the brokers have not answered for {waits:.0f} s"
        return self._error

    def rows(self, batch: SentBatch, state: CurrentState) -> None:
        """Have rows appended that were answered."""
        size = sum(lane.rows.nbytes for lane in batch.lanes) + 200 * len(batch)
        with self._lock:
            self._rows.append(Waiting(batch, state.number, state.index.mark, size))
            self._bytes += size
            while self._bytes > MOST_BYTES and len(self._rows) > 1:
                gone = self._rows.popleft()
                self._bytes -= gone.size
                self._dropped += len(gone.batch)
        self._wake.set()

    def labels(self, labels: Sequence[Appended] = ()) -> Future[None]:
        """Have labels appended; done when they are, and so is all that was given before.

        Raises
        ------
        Unavailable
            Nothing can be appended now.
        """
        if (trouble := self.trouble) is not None:
            raise Unavailable(trouble)
        future: Future[None] = Future()
        with self._lock:
            self._labels += labels
            self._futures.append(future)
        self._wake.set()
        return future

    # -- by its own thread -----------------------------------------------------------------------

    def run(self, stopping: threading.Event) -> None:
        """Append what is given until `stopping`; then what is left."""
        while True:
            self._wake.wait(1.0)
            if not stopping.is_set():
                stopping.wait(self._interval)
            self._wake.clear()
            ends = stopping.is_set()
            with self._lock:
                rows, self._rows, self._bytes = self._rows, deque(), 0
                labels, self._labels = self._labels, []
                futures, self._futures = self._futures, []
                dropped, self._dropped = self._dropped, 0
            # From here on they cannot be cancelled, as by a request that waits no longer.
            futures = [one for one in futures if one.set_running_or_notify_cancel()]
            if rows or labels or futures:
                self._turn(rows, labels, futures, dropped, ends=ends)
            if ends:
                break
            if self._error is not None:
                stopping.wait(AGAIN_SECONDS)
        self._producer.close()

    def _turn(
        self,
        rows: deque[Waiting],
        labels: list[Appended],
        futures: list[Future[None]],
        dropped: int,
        *,
        ends: bool,
    ) -> None:
        begin, written = time.monotonic(), 0
        self._began = begin
        try:
            records = self._records(rows)
            written = sum(len(one.value) for one in records)
            seconds = STOP_SECONDS if ends else self._options.seconds("delivery_timeout") + 5
            self._producer.append([*records, *labels], seconds)
        except ClientError as error:
            self._fail(error, futures)
            if isinstance(error, RetryError) and not ends:
                with self._lock:
                    self._rows.extendleft(reversed(rows))
                    self._bytes += sum(one.size for one in rows)
                self._wake.set()
            else:
                dropped += sum(len(one.batch) for one in rows)
        else:
            if self._error is not None:
                log.warning("what is sent and labels are appended again")
            self._error = None
            for future in futures:
                future.set_result(None)
        self._began = None
        if dropped:
            log.warning("%d predictions that were answered are not learned from", dropped)
        self._appended(time.monotonic() - begin, written, dropped)

    def _fail(self, error: ClientError, futures: list[Future[None]]) -> None:
        if self._error is None:
            log.error("%s; trying again until it can be appended", error)
        self._error = f"the brokers do not take it: {error}"
        with self._lock:
            later = [one for one in self._futures if one.set_running_or_notify_cancel()]
            futures = futures + later
            self._labels, self._futures = [], []
        for future in futures:
            future.set_exception(Unavailable(self._error))

    def _records(self, rows: deque[Waiting]) -> list[Appended]:
        """Sent batches of rows that the same state corrected."""
        if self._partition is None and rows:
            readers = Readers(self._options)
            try:
                with errors_as(RetryError):
                    of = readers.partitions(self._sent)
            finally:
                readers.close()
            self._partition = zlib.crc32(self._name.encode()) % max(of, 1)
        found: list[Appended] = []
        alike: dict[tuple[int, str], list[SentBatch]] = {}
        for one in rows:
            alike.setdefault((one.number, one.mark), []).append(one.batch)
        for (number, mark), batches in alike.items():
            n = sum(map(len, batches))
            whole = merged(batches, np.arange(n), 0)
            headers = headers_by(number, mark)
            for data, _ in whole.pieces(self._limit):
                found.append(Appended(self._sent, self._partition, None, data, headers))
        return found
