"""Exactly once: records and offsets in one transaction, and what a broker left open of the last."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from stream_can.kafka.client import appending
from stream_can.kafka.client.accepts import Accepts
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.ended import last_ended
from stream_can.kafka.client.guards import (
    ClientError,
    FencedError,
    RebuildError,
    RetryError,
    classify,
    close,
    errors_as,
    patch_await_ready,
    within,
)
from stream_can.kafka.client.options import MESSAGE_BYTES, Options
from stream_can.stream.records import Output


class Offset(NamedTuple):
    """A committed offset and the text committed with it."""

    offset: int
    metadata: str


def positions(offsets: Mapping[tuple[str, int], Offset]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets by (topic, partition), as kafka-python wants them."""
    return {
        TopicPartition(*pair): OffsetAndMetadata(offset, text, -1)
        for pair, (offset, text) in offsets.items()
    }


class Transaction:
    """The transactional producer of one instance; its first record begins each transaction.

    Parameters
    ----------
    options
        The brokers and the client options.
    group
        The consumer group whose offsets are committed with the records.
    identity
        The transactional id.
    """

    def __init__(self, options: Options, group: str, identity: str) -> None:
        self.group, self.identity = group, identity
        self.accepts: dict[str, Accepts] = {}
        """What each topic that is written takes; `Client.check` finds out."""
        self._options = options
        self._patience = options.seconds("max_block")
        self._producer: Any = None
        self._sent: list[Any] = []
        self._begun: float | None = None
        self._ended: Literal["commit", "abort"] | None = None

    @property
    def limits(self) -> dict[str, int]:
        """The most bytes of one record, of each topic that is written."""
        return {topic: accepts.max_bytes for topic, accepts in self.accepts.items()}

    def open(self) -> None:
        """Take over the transactional id: what an earlier owner left is settled."""
        if self._producer is None:
            try:
                self._open_producer()
            except ClientError:
                self.close()  # half taken over: the next call begins again
                raise

    def close(self) -> None:
        """Drop the producer; what is open is aborted by whoever comes next."""
        producer, self._producer = self._producer, None
        self._sent, self._begun = [], None
        close(producer, 0)

    def _open_producer(self) -> None:
        options = self._options.producer
        options.setdefault("max_request_size", max([MESSAGE_BYTES, *self.limits.values()]))
        with errors_as(RetryError):
            with self._options.noting():
                self._producer = KafkaProducer(
                    **options, transactional_id=self.identity, allow_auto_create_topics=False
                )
            patch_await_ready(self._producer)
            appending.check(self._producer)
            self._fence()
            if self._ended is not None:
                try:
                    self._settle(abort=self._ended == "abort")
                except FencedError as error:
                    self._ended = None  # who took over has settled it
                    raise self._own_fault(error) from error
                self._ended = None

    def _fence(self) -> None:
        """Take over the id, and note how the last transaction before that ended.

        Brokers tell how it ended only until a producer takes over. What is open then must not be
        aborted in its owner's name: the owner is not stopped by that, and commits the rest alone.
        """
        last = None
        if self._ended is None:  # otherwise what it was when the last try to settle it began
            with Admin(self._options, self.group) as admin:
                last = last_ended(admin, self.identity)
        within(self._patience + 2, self._producer.init_transactions)
        if last is not None:
            now = self._producer._transaction_manager.producer_id_and_epoch
            self._ended = last.at_fence(now.producer_id, now.epoch)

    def _settle(self, *, abort: bool) -> None:
        """End whatever is still open of this id, wherever it may have written, as it ended before.

        Trap, of brokers (KAFKA-20734, seen with 4.4.0): a coordinator that ends a transaction
        leaves out a partition without a leader, and none has one for a moment while a broker
        starts. The records there stay open, and the next commit of this id commits them, even
        those of a transaction that was aborted.
        """
        producer, deadline = self._producer, time.monotonic() + self._patience
        manager = producer._transaction_manager
        written = [TopicPartition(t, p) for t in self.limits for p in producer.partitions_for(t)]
        self._begin()
        for tp in written:
            manager.maybe_add_partition_to_transaction(tp)
        within(self._patience, producer.send_offsets_to_transaction, {}, self.group)
        while not all(map(manager.is_partition_added, written)):
            if manager.has_error():
                raise classify(manager.last_error, RetryError)
            if time.monotonic() > deadline:
                raise RetryError(f"partitions not added to a transaction: {written[:3]} ...")
            time.sleep(0.005)
        within(self._patience, producer.abort_transaction if abort else producer.commit_transaction)
        self._begun = None

    # -- records ---------------------------------------------------------------------------------

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None,
        headers: list[tuple[str, bytes]] | None = None, timestamp: int | None = None,
    ) -> Any:  # fmt: skip
        """Put a record into the transaction; what comes back has its offset after ``deliver``."""
        with self._sending():
            self._begin()
            future = self._producer.send(
                topic, value, key, headers, partition=partition, timestamp_ms=timestamp
            )
        self._sent.append(future)
        return future

    def send_all(self, topic: str, partition: int, outputs: Sequence[Output]) -> None:
        """Put many records into the transaction, in their order."""
        if not outputs:
            return
        with self._sending():
            self._begin()
            limit = self.accepts.get(topic, Accepts()).max_bytes
            self._sent += appending.append(self._producer, topic, partition, outputs, limit)

    @contextlib.contextmanager
    def _sending(self) -> Iterator[None]:
        """Trap: after a refusal the next record is not taken either, and its error is no reason."""
        try:
            with errors_as(RebuildError):
                yield
        except RebuildError as error:
            failed = [future for future in self._sent if future.is_done and future.exception]
            args = error.__cause__.args if error.__cause__ else ()
            if failed:
                reason = _refusal(failed[0])
            elif len(args) > 1 and isinstance(args[1], kafka_errors.KafkaError):
                # Trap: a batch that is too large is cut in two, and its own future never done.
                waiting = {future._produce_future.topic_partition for future in self._sent}
                reason = _named(args[1], *waiting)
            else:
                raise
            raise self._own_fault(classify(reason or error, RebuildError)) from error

    def _begin(self) -> None:
        if self._begun is None:
            self._producer.begin_transaction()
            self._begun = time.monotonic()

    def deliver(self) -> None:
        """Return once every record sent is acknowledged.

        Trap: a batch that expires, or is refused as out of order, inside a transaction fails only
        its futures; the commit afterwards says OK with part of the output.
        """
        with errors_as(RebuildError):
            self._producer.flush(self._options.seconds("delivery_timeout"))
        for future in self._sent:
            if not future.succeeded():
                error = _refusal(future) or RebuildError("a record was not acknowledged in time")
                raise self._own_fault(classify(error, RebuildError)) from error
        self._sent = []

    # -- its end ---------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[tuple[str, int], Offset], token: Any) -> None:
        """Commit the records together with the offsets of what they were made from, if any.

        Raises
        ------
        RebuildError
            It may or may not have been committed: restore.
        """
        if self._sent:
            self.deliver()
        try:
            if offsets:
                where = positions(offsets)
                within(self._patience, self._producer.send_offsets_to_transaction, where, token)
            within(self._patience, self._producer.commit_transaction)
        except FencedError as error:
            raise self._own_fault(error) from error
        self._begun = None

    def abort(self) -> None:
        """Give up what was sent since the last commit."""
        self._sent = []
        if self._begun is not None:
            self._begun = None
            within(self._patience, self._producer.abort_transaction)

    def _own_fault(self, error: ClientError) -> ClientError:
        """A transaction older than its time-out was ended by the brokers, not by a process."""
        if isinstance(error, FencedError) and self._begun is not None:
            age = time.monotonic() - self._begun
            if age > self._options.seconds("transaction_timeout"):
                return RebuildError(f"the transaction was open for {age:.0f} s and timed out")
        return error


def _refusal(future: Any) -> Exception | None:
    """Why a record, or another one of its batch, was not taken; it names topic and partition."""
    error: Exception | None = future.exception
    batch = future._produce_future
    if type(error) is kafka_errors.KafkaError and batch.succeeded():
        # Trap: the others of a batch with a bad record fail with no reason; that one has it.
        tell = batch.value[2]
        reasons = (tell(index) for index in range(future.args[0] + 1))
        error = next((r for r in reasons if type(r) is not kafka_errors.KafkaError), error)
    return _named(error, batch.topic_partition)


def _named(error: Exception | None, *places: TopicPartition) -> Exception | None:
    if isinstance(error, kafka_errors.KafkaError):
        where = " or ".join(sorted(f"{topic}-{partition}" for topic, partition in places))
        error = type(error)(f"{where}: {error}")
    return error
