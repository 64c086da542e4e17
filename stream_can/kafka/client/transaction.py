"""Transaction: records and offsets committed together, and recovery from an unfinished one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka import errors as kafka_errors

from stream_can.kafka.client import appending
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.clock import BrokerClock
from stream_can.kafka.client.guards import (
    ClientError,
    FencedError,
    RebuildError,
    RetryError,
    classify,
    close,
    create_no_topics,
    errors_as,
    patch_await_ready,
    within,
)
from stream_can.kafka.client.options import MESSAGE_BYTES, Options
from stream_can.kafka.client.topic_limits import TopicLimits
from stream_can.kafka.client.transaction_status import last_transaction
from stream_can.messages.records import Header, Output


def positions(
    offsets: Mapping[tuple[str, int], int], notes: Mapping[tuple[str, int], str] | None = None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets by (topic, partition), with notes, in kafka-python's types."""
    notes = notes or {}
    return {
        TopicPartition(*pair): OffsetAndMetadata(offset, notes.get(pair, ""), -1)
        for pair, offset in offsets.items()
    }


class Transaction:
    """The transactional producer of an instance; a transaction begins with its first record.

    Parameters
    ----------
    options
        Brokers and client options.
    group
        Consumer group whose offsets are committed with the records.
    identity
        Transactional id.
    """

    def __init__(self, options: Options, group: str, identity: str) -> None:
        self.group, self.identity = group, identity
        self.topic_limits: dict[str, TopicLimits] = {}
        """Limits of each output topic, set by `Client.check_topics`."""
        self.clock = BrokerClock()
        """Measured whenever a producer is created."""
        self._options = options
        self._patience = options.seconds("max_block")
        self._producer: Any = None
        self._sent: list[Any] = []
        self._begun: float | None = None
        self._ended: Literal["commit", "abort"] | None = None

    @property
    def max_bytes(self) -> dict[str, int]:
        """Maximum record size of each output topic."""
        return {topic: limits.max_bytes for topic, limits in self.topic_limits.items()}

    def take_over(self) -> None:
        """Take over the transactional id and settle an earlier owner's transaction."""
        if self._producer is None:
            try:
                self._open_producer()
            except ClientError:
                self.close()  # half taken over: the next call starts again
                raise

    def close(self) -> None:
        """Close the producer; its successor aborts an open transaction."""
        producer, self._producer = self._producer, None
        self._sent, self._begun = [], None
        close(producer, 0)

    def _open_producer(self) -> None:
        """Connect, take over the id, and settle what the last transaction left open.

        ``_ended`` survives a failure here: once the id is taken over, a second attempt can no
        longer ask how the transaction ended.
        """
        options = self._options.producer
        options.setdefault("max_request_size", max([MESSAGE_BYTES, *self.max_bytes.values()]))
        with errors_as(RetryError):
            with self._options.noting():
                self._producer = KafkaProducer(**options, transactional_id=self.identity)
            create_no_topics(self._producer)
            patch_await_ready(self._producer)
            appending.check(self._producer)
            self._fence()
            if self._ended is not None:
                try:
                    self._settle(abort=self._ended == "abort")
                except FencedError as error:
                    self._ended = None  # settled by the producer that took over
                    raise self._own_fault(error) from error
                self._ended = None
            else:  # first transaction of this id
                self._settle(abort=True, topics=())

    def _fence(self) -> None:
        """Take over the id, and record how its last transaction ended.

        Trap, of brokers: they report the outcome only until a producer takes over. An open
        transaction must not be aborted under its owner's epoch: that would not stop the owner,
        which would continue and commit only the rest.
        """
        last = None
        if self._ended is None:  # otherwise an earlier attempt asked, and could not settle it
            with Admin(self._options, self.group) as admin:
                last = last_transaction(admin, self.identity)
        within(self._patience + 2, self._producer.init_transactions)
        if last is not None:
            now = self._producer._transaction_manager.producer_id_and_epoch
            self._ended = last.at_fence(now.producer_id, now.epoch)

    def _settle(self, *, abort: bool, topics: Iterable[str] | None = None) -> None:
        """End whatever is still open of this id, in every partition, with its original outcome.

        Trap, of brokers (KAFKA-20734, seen with 4.4.0): a coordinator that ends a transaction skips
        a partition without a leader, and none has one for a moment while a broker starts. The
        records there stay open, and the next commit of this id commits them, even those of an
        aborted transaction.

        The transaction's coordinator knows when it began, by the brokers' clock.

        Parameters
        ----------
        abort
            The outcome.
        topics
            Topics that it may have written to; all by default.
        """
        producer, topics = self._producer, self.max_bytes if topics is None else topics
        written = [TopicPartition(t, p) for t in topics for p in producer.partitions_for(t)]
        with Admin(self._options, self.group) as admin:  # connected before anything is open
            asked_at = time.time()
            self._begin()
            self._add(written)
            answered_at = time.time()
            # Open parts end here at once, whether or not the time is known.
            with contextlib.suppress(RetryError):
                began = admin.ask(5, "describe_transactions", [self.identity])[self.identity]
                if began.transaction_start_time_ms > 0:
                    broker_time = began.transaction_start_time_ms / 1000
                    self.clock.compare(asked_at, broker_time, answered_at)
            end = producer.abort_transaction if abort else producer.commit_transaction
            within(self._patience, end)
        self._begun = None

    def _add(self, written: Sequence[TopicPartition]) -> None:
        """Add partitions and the group's offsets to the open transaction."""
        deadline, manager = time.monotonic() + self._patience, self._producer._transaction_manager
        for tp in written:
            manager.maybe_add_partition_to_transaction(tp)
        within(self._patience, self._producer.send_offsets_to_transaction, {}, self.group)
        while not all(map(manager.is_partition_added, written)):
            if manager.has_error():
                raise classify(manager.last_error, RetryError)
            if time.monotonic() > deadline:
                raise RetryError(f"partitions not added to a transaction: {written[:3]} ...")
            time.sleep(0.005)

    # -- records ---------------------------------------------------------------------------------

    def expect(self, *written: tuple[str, int]) -> None:
        """Announce the partitions to which the transaction will write.

        Each request that adds partitions is a broker write during which no records are sent.
        Announced with the first records, they go in one request.
        """
        with self._sending():
            self._begin()
            for pair in written:
                manager = self._producer._transaction_manager
                manager.maybe_add_partition_to_transaction(TopicPartition(*pair))

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None,
        headers: list[Header] | None = None, timestamp: int | None = None,
    ) -> Any:  # fmt: skip
        """Send a record in the transaction; the result has its offset after ``deliver``."""
        with self._sending():
            self._begin()
            appending.require(self._producer, topic, partition)
            future = self._producer.send(
                topic,
                value,
                key,
                headers,
                partition=partition,
                timestamp_ms=self.clock.now_ms() if timestamp is None else timestamp,
            )
        self._sent.append(future)
        return future

    def send_all(self, topic: str, partition: int, outputs: Sequence[Output]) -> None:
        """Send many records in the transaction, in order."""
        if not outputs:
            return
        with self._sending():
            self._begin()
            limit = self.topic_limits.get(topic, TopicLimits()).max_bytes
            self._sent += appending.append(self._producer, topic, partition, outputs, limit)

    @contextlib.contextmanager
    def _sending(self) -> Iterator[None]:
        """Find the first cause of a refusal during a send.

        Trap: after a refused record the next one fails as well, with an unrelated error.
        """
        try:
            with errors_as(RebuildError):
                yield
        except RebuildError as error:
            failed = [future for future in self._sent if future.is_done and future.exception]
            args = error.__cause__.args if error.__cause__ else ()
            if failed:
                reason = _refusal(failed[0])
            elif len(args) > 1 and isinstance(args[1], kafka_errors.KafkaError):
                # Trap: the producer may fail before the future of what it could not send does.
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
        """Wait until every record is acknowledged.

        Trap: a batch that expires or is refused as out of order fails only its futures; the
        transaction's commit then succeeds with part of the output.
        """
        seconds = self._options.seconds("delivery_timeout")
        deadline = time.monotonic() + seconds
        with errors_as(RebuildError), contextlib.suppress(kafka_errors.UnknownError):
            self._producer.flush(seconds)  # Trap: gives up where a batch is split meanwhile.
        for future in self._sent:
            if not future.is_done:
                appending.wait(future, deadline - time.monotonic())
            if not future.succeeded():
                error = _refusal(future) or RebuildError("a record was not acknowledged in time")
                raise self._own_fault(classify(error, RebuildError)) from error
        self._sent = []

    # -- its end ---------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        token: Any,
        notes: Mapping[tuple[str, int], str] | None = None,
    ) -> None:
        """Commit the records with the offsets of their input, if any, and notes beside these.

        Raises
        ------
        RebuildError
            The outcome is unknown: restore. (Trap: a commit that timed out may have succeeded.)
        """
        if self._sent:
            self.deliver()
        try:
            if offsets:
                where = positions(offsets, notes)
                within(self._patience, self._producer.send_offsets_to_transaction, where, token)
            within(self._patience, self._producer.commit_transaction)
        except FencedError as error:
            raise self._own_fault(error) from error
        self._begun = None

    def abort(self) -> None:
        """Abort the records since the last commit."""
        self._sent = []
        if self._begun is not None:
            self._begun = None
            within(self._patience, self._producer.abort_transaction)

    def _own_fault(self, error: ClientError) -> ClientError:
        """Tell a transaction that timed out from one that was fenced by another process."""
        if isinstance(error, FencedError) and self._begun is not None:
            age = time.monotonic() - self._begun
            if age > self._options.seconds("transaction_timeout"):
                return RebuildError(f"the transaction was open for {age:.0f} s and timed out")
        return error


def _refusal(future: Any) -> Exception | None:
    """Why a record or another one of its batch was refused, naming topic and partition."""
    error: Exception | None = future.exception
    batch = future._produce_future
    if type(error) is kafka_errors.KafkaError and batch.succeeded():
        # Trap: the other records of its batch fail without a reason.
        tell = batch.value[2]
        reasons = (tell(index) for index in range(future.args[0] + 1))
        error = next((r for r in reasons if type(r) is not kafka_errors.KafkaError), error)
    return _named(error, batch.topic_partition)


def _named(error: Exception | None, *places: TopicPartition) -> Exception | None:
    if isinstance(error, kafka_errors.KafkaError):
        where = " or ".join(sorted(f"{topic}-{partition}" for topic, partition in places))
        error = type(error)(f"{where}: {error}")
    return error
