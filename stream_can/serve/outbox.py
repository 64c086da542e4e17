"""Entries on their way to a log without transactions: sent again until they are seen there."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from kafka import KafkaProducer

from stream_can.kafka.client.guards import ClientError, RetryError, close, errors_as
from stream_can.kafka.client.options import Options

__all__ = ["Outbox", "Sender"]

log = logging.getLogger(__name__)

ANSWER_SECONDS = 8.0
"""For the brokers to have what was sent."""
SEEN_SECONDS = 30.0
"""An entry that the brokers have is in the log by then, or it is sent again."""


class Sender:
    """An idempotent producer, made when it is needed."""

    def __init__(self, options: Options) -> None:
        self._options, self._producer = options, None

    def send(self, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> None:
        """Send keys and values to partition 0 of a topic; all of them are there on return.

        Raises
        ------
        RetryError, DeniedError
            They are there or not, or some of them.
        """
        try:
            with errors_as(RetryError):
                if self._producer is None:
                    options = self._options.producer | {"max_block_ms": int(1000 * ANSWER_SECONDS)}
                    with self._options.noting():
                        self._producer = KafkaProducer(
                            **options, enable_idempotence=True, acks="all"
                        )
                producer: Any = self._producer
                sent = [producer.send(topic, value, key, partition=0) for key, value in records]
                producer.flush(ANSWER_SECONDS)
                for future in sent:
                    if not future.is_done:
                        raise RetryError(f"topic {topic!r}: not there within {ANSWER_SECONDS:g} s")
                    future.get(0)
        except (ClientError, ValueError) as error:
            self.close()
            if isinstance(error, ValueError):  # a partition that this producer has not heard of
                raise RetryError(f"topic {topic!r}: {error}") from None
            raise

    def close(self) -> None:
        """Let go of the brokers; what is not there yet is given up."""
        producer, self._producer = self._producer, None
        close(producer, 0)


class Outbox:
    """Entries on their way to the log: sent in their order, again until they are seen there.

    Parameters
    ----------
    options, topic
        Where to.
    """

    def __init__(self, options: Options, topic: str) -> None:
        self.topic = topic
        self._sender = Sender(options)
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._sent = -1
        """The number of the last that the brokers have."""
        self._moved = time.monotonic()
        self._ended = False
        self._beside: list[tuple[str, bytes, bytes]] = []
        self._thread = threading.Thread(target=self._run, daemon=True, name="stream-can-outbox")

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """More to send, by their numbers."""
        with self._changed:
            self._waiting.extend(entries)
            self._changed.notify()

    def put_beside(self, topic: str, key: bytes, value: bytes) -> None:
        """A record of another topic, which is sent once, or lost."""
        with self._changed:
            self._beside = [(topic, key, value)]
            self._changed.notify()

    def seen(self, number: int) -> None:
        """The log has entries up to this one."""
        with self._changed:
            while self._waiting and self._waiting[0][0] <= number:
                self._waiting.popleft()
                self._moved = time.monotonic()

    def end(self, seconds: float) -> None:
        """Send what is left, for so long."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._to_send() and not self._beside:
                    if self._ended:
                        break
                    self._changed.wait(1.0)
                    late = time.monotonic() - self._moved > SEEN_SECONDS
                    if self._waiting and late and self._sent >= self._waiting[0][0]:
                        log.warning("topic %r: an entry was sent and is not there", self.topic)
                        self._sent, self._moved = self._waiting[0][0] - 1, time.monotonic()
                batch, beside, self._beside = self._to_send(), self._beside, []
            try:
                if batch:
                    self._sender.send(self.topic, ((None, data) for _, data in batch))
                    self._sent, self._moved = batch[-1][0], time.monotonic()
            except ClientError as error:
                log.warning("%s; trying again", error)
                with self._changed:
                    if self._ended:
                        break
                    self._changed.wait(1.0)
            try:
                for topic, key, value in beside:
                    self._sender.send(topic, [(key, value)])
            except ClientError as error:
                log.warning("what new replicas begin from was not written: %s", error)
        self._sender.close()

    def _to_send(self) -> list[tuple[int, bytes]]:
        return [one for one in self._waiting if one[0] > self._sent]
