"""Appender: sends a server's corrected predictions and labels to topics, in its own thread."""

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
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.headers import headers_by
from stream_can.learner.order import merged
from stream_can.learner.sent import SentBatch
from stream_can.serve.service import Unavailable

log = logging.getLogger(__name__)

DELIVERY = {"delivery_timeout_ms": 60_000}
"""How long brokers may be away without a loss of what is in flight."""
MOST_BYTES = 64 << 20
"""Maximum bytes of waiting rows; beyond it the oldest are dropped."""
SLOW_SECONDS = 10.0
"""After this time without an answer of the brokers, labels are refused."""
AGAIN_SECONDS = 1.0
"""Seconds between two attempts while no broker answers."""
STOP_SECONDS = 5.0
"""Time limit for the rest when the server stops."""


class Waiting(NamedTuple):
    """Rows of one request."""

    batch: SentBatch
    number: int
    mark: str
    """Identifier of the application's beginning in the state that corrected them."""
    size: int


class Appender:
    """Alternates between collecting for an interval and appending.

    Rows whose fate is unknown after an error are not sent again, so that none counts twice.

    Parameters
    ----------
    options
        Brokers and client options.
    sent
        Topic of sent batches.
    name
        Name of this server: it determines the partition of its rows.
    limits
        Maximum record size of each topic.
    interval
        Length of the collecting interval in seconds.
    appended
        Called after each round with its seconds and bytes, and the number of dropped rows.
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
        """Start of the round that waits for the brokers."""

    # -- called by the thread of requests --------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """Why nothing can be appended now."""
        if self._error is None and (began := self._began) is not None:
            waits = time.monotonic() - began
            if waits > SLOW_SECONDS:
                return f"the brokers have not answered for {waits:.0f} s"
        return self._error

    def rows(self, batch: SentBatch, state: CurrentState) -> None:
        """Append answered rows."""
        size = sum(lane.rows.nbytes for lane in batch.versions) + 200 * len(batch)
        with self._lock:
            self._rows.append(Waiting(batch, state.number, state.index.mark, size))
            self._bytes += size
            while self._bytes > MOST_BYTES and len(self._rows) > 1:
                dropped = self._rows.popleft()
                self._bytes -= dropped.size
                self._dropped += len(dropped.batch)
        self._wake.set()

    def labels(self, labels: Sequence[Appended] = ()) -> Future[None]:
        """Append labels; the future completes once they and everything before are appended.

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

    # -- its own thread --------------------------------------------------------------------------

    def run(self, stopping: threading.Event) -> None:
        """Append until `stopping`; then append the rest."""
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
            # From here on a request that gives up cannot cancel them.
            futures = [future for future in futures if future.set_running_or_notify_cancel()]
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
            written = sum(len(record.value) for record in records)
            seconds = STOP_SECONDS if ends else self._options.seconds("delivery_timeout") + 5
            self._producer.append([*records, *labels], seconds)
        except ClientError as error:
            self._fail(error, futures)
            if isinstance(error, RetryError) and not ends:
                with self._lock:
                    self._rows.extendleft(reversed(rows))
                    self._bytes += sum(request.size for request in rows)
                self._wake.set()
            else:
                dropped += sum(len(request.batch) for request in rows)
        else:
            if self._error is not None:
                log.warning("the brokers accept records again")
            self._error = None
            for future in futures:
                future.set_result(None)
        self._began = None
        if dropped:
            log.warning("%d corrected predictions are not learned from", dropped)
        self._appended(time.monotonic() - begin, written, dropped)

    def _fail(self, error: ClientError, futures: list[Future[None]]) -> None:
        if self._error is None:
            log.error("%s; trying again until it can be appended", error)
        self._error = f"the brokers do not accept records: {error}"
        with self._lock:
            later = [future for future in self._futures if future.set_running_or_notify_cancel()]
            futures = futures + later
            self._labels, self._futures = [], []
        for future in futures:
            future.set_exception(Unavailable(self._error))

    def _records(self, rows: deque[Waiting]) -> list[Appended]:
        """Encode rows as sent batches, one for each state."""
        if self._partition is None and rows:
            readers = Readers(self._options)
            try:
                with errors_as(RetryError):
                    n_partitions = readers.partitions(self._sent)
            finally:
                readers.close()
            self._partition = zlib.crc32(self._name.encode()) % max(n_partitions, 1)
        records: list[Appended] = []
        batches_by_state: dict[tuple[int, str], list[SentBatch]] = {}
        for request in rows:
            batches_by_state.setdefault((request.number, request.mark), []).append(request.batch)
        for (number, mark), batches in batches_by_state.items():
            n = sum(map(len, batches))
            batch = merged(batches, np.arange(n), 0)
            headers = headers_by(number, mark)
            for data, _ in batch.pieces(self._limit):
                records.append(Appended(self._sent, self._partition, None, data, headers))
        return records
