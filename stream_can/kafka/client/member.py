"""One member of the group, with what exactly-once delivery needs around kafka-python's clients.

Nothing outside `client`, `admin`, `client_options`, `guards`, `appending` and `unpacking` imports
kafka-python.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kafka import (
    ConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import MemberState

from stream_can.kafka.client import appending, unpacking
from stream_can.kafka.client.admin import MESSAGE_BYTES, Admin
from stream_can.kafka.client.guards import (
    ClientError,
    DeniedError,
    FencedError,
    RebuildError,
    RetryError,
    classify,
    close,
    errors_as,
    patch_await_ready,
    taken_away,
    within,
)
from stream_can.kafka.client.options import Options
from stream_can.stream.records import Output

log = logging.getLogger(__name__)

STABLE = MemberState.STABLE


class Assignment(NamedTuple):
    """The partitions that are ours, and the generation of the group that made them so."""

    partitions: tuple[int, ...]
    token: Any


class Offset(NamedTuple):
    """A committed offset and the text committed with it."""

    offset: int
    metadata: str


class _Flag(ConsumerRebalanceListener):  # type: ignore[misc]
    """Trap: listeners run on the client's I/O thread, where blocking calls raise: only a flag."""

    def __init__(self, set_: Callable[[], None]) -> None:
        self.set = set_

    def on_partitions_revoked(self, revoked: object) -> None:
        self.set()

    def on_partitions_assigned(self, assigned: object) -> None:
        self.set()


class Client:
    """One member of the group: a consumer, a transactional producer and readers for restoring.

    Parameters
    ----------
    bootstrap_servers, options
        See `Options`.
    application_id
        Consumer group; with ``instance`` the transactional id and the static member's name.
    instance
        Name of this process, the same after a restart and unique among those that are alive.
    input, labels
        The topics to read; ``labels`` may be None.
    """

    def __init__(
        self,
        bootstrap_servers: list[str],
        application_id: str,
        instance: str,
        *,
        input: str,
        labels: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = Options(bootstrap_servers, options)
        self.group = application_id
        self.identity = f"{application_id}-{instance}"
        self.input, self.labels = input, labels
        self.limits: dict[str, int] = {}
        self._consumer: Any = None
        self._producer: Any = None
        self._readers: dict[str, Any] = {}
        self._sent: list[Any] = []
        self._begun: float | None = None
        self._ended: Literal["commit", "abort"] | None = None
        self._rebalanced = threading.Event()

    @property
    def _topics(self) -> list[str]:
        return [self.input, self.labels] if self.labels else [self.input]

    @property
    def _patience(self) -> float:
        """Seconds for one call on the transaction."""
        return self.options.seconds("max_block")

    # -- before the start ------------------------------------------------------------------------

    def check(
        self, *, writes: Sequence[str], state: str, state_bytes: int, create: bool = False
    ) -> int:
        """Check addresses, rights, topics and sizes; make missing topics where ``create`` says so.

        Returns
        -------
        The number of partitions, which all topics share. ``limits`` then holds the most bytes that
        each topic takes in one record.

        Raises
        ------
        RetryError, DeniedError
            See `Admin`.
        """
        with self._admin() as admin:
            partitions, self.limits = admin.check(
                reads=self._topics, writes=writes, state=state, state_bytes=state_bytes,
                create=create,
            )  # fmt: skip
        return partitions

    def _admin(self) -> Admin:
        return Admin(self.options, self.group)

    # -- opening and closing ---------------------------------------------------------------------

    def open(self) -> None:
        """Join the group, take over the transactional id: what an earlier owner left is settled."""
        try:
            if self._consumer is None:
                self._consumer = self._open_consumer(
                    group_id=self.group, group_instance_id=self.identity
                )
                self._consumer.subscribe(self._topics, listener=_Flag(self._rebalanced.set))
            if self._producer is None:
                self._open_producer()
        except (ClientError, kafka_errors.KafkaError, OSError) as error:
            self._drop_producer()
            raise classify(error, RetryError) from error

    def _open_consumer(self, isolation: str = "read_committed", **more: Any) -> Any:
        with errors_as(RetryError):
            consumer = KafkaConsumer(
                **self.options.consumer,
                isolation_level=isolation,
                enable_auto_commit=False,
                auto_offset_reset="none",
                allow_auto_create_topics=False,
                partition_assignment_strategy=(RangePartitionAssignor,),
                **more,
            )
            unpacking.install(consumer)
            return consumer

    def _open_producer(self) -> None:
        if self._ended is None:  # otherwise what it was when the last try to settle it began
            with self._admin() as admin:
                self._ended = admin.last_ended(self.identity)
        options = self.options.producer
        options.setdefault("max_request_size", max([MESSAGE_BYTES, *self.limits.values()]))
        with errors_as(RetryError):
            self._producer = KafkaProducer(
                **options, transactional_id=self.identity, allow_auto_create_topics=False
            )
            patch_await_ready(self._producer)
            appending.check(self._producer)
            within(self._patience + 2, self._producer.init_transactions)
            if self._ended is not None:
                try:
                    self._settle(abort=self._ended == "abort")
                except FencedError as error:
                    raise self._own_fault(error) from error
                self._ended = None

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

    def rebuild(self) -> None:
        """A new producer under the same id; the next ``take_rebalance`` asks for a restore."""
        self._drop_producer()
        self._drop_readers()
        self._rebalanced.set()
        self.open()

    def rejoin(self) -> None:
        """A new consumer too, after the old one was fenced."""
        self._drop_consumer()
        self.rebuild()

    def close(self, *, leave: bool = True) -> None:
        """Close everything; what is open in the transaction is aborted by whoever comes next.

        ``leave`` hands the partitions over at once: a static member is otherwise waited for until
        its session times out.
        """
        joined, self._consumer = self._consumer, None
        self._drop_producer()
        self._drop_readers()
        if joined is None:
            return
        close(joined)
        if leave:
            try:
                with self._admin() as admin:
                    admin.remove_member(self.identity)
            except ClientError as error:
                log.warning("could not leave the group, others wait for the session: %s", error)

    def _drop_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        close(consumer)

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        self._sent, self._begun = [], None
        close(producer, 0)

    def _drop_readers(self) -> None:
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            close(reader)

    # -- reading ---------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 100) -> dict[tuple[str, int], list[Any]]:
        """Records by (topic, partition); nothing while a rebalance waits to be taken.

        Raises
        ------
        RetryError
            The brokers are away; the rebalance flag may be set all the same.
        """
        if self._rebalanced.is_set():
            timeout_ms = min(timeout_ms, 20)
        try:
            with errors_as(RetryError), taken_away():
                found = self._consumer.poll(timeout_ms)
        except RetryError as error:
            # Trap: with auto_offset_reset "none", poll raises between assignment and restore.
            if isinstance(error.__cause__, kafka_errors.NoOffsetForPartitionError):
                return {}
            if isinstance(
                error.__cause__,
                (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError),
            ):
                raise RebuildError(str(error)) from error
            raise
        return {} if self._rebalanced.is_set() else dict(found)

    @property
    def rebalanced(self) -> bool:
        """Whether a rebalance waits to be taken: what was sent since then must not be committed."""
        return self._rebalanced.is_set()

    def take_rebalance(self) -> Assignment | None:
        """The new assignment, or None where nothing changed since the last call.

        Its token is the membership as of now: `commit` presents that one, so that the brokers
        refuse what a member does after it has been evicted. (Trap: a membership asked for later
        may say generation -1, which brokers do not fence.)
        """
        if not self._rebalanced.is_set():
            return None
        self._rebalanced.clear()
        token = self._consumer.group_metadata()
        owned = self._consumer.assignment() or set()
        if self._rebalanced.is_set() or token.generation_id < 0 or token.state != STABLE:
            # Between joining and being assigned, the generation is new and the partitions are old.
            self._rebalanced.set()
            return Assignment((), None)
        sides = [sorted(tp.partition for tp in owned if tp.topic == name) for name in self._topics]
        if any(side != sides[0] for side in sides):
            # The member that assigns may have asked a broker that knew only part of the topics.
            self._rebalanced.set()
            raise RetryError(
                f"assigned partitions differ: {dict(zip(self._topics, sides, strict=True))}; all"
                " members of the group must read the same topics with the same partition count"
            )
        return Assignment(tuple(sides[0]), token)

    def committed(self, partition: int) -> dict[str, Offset | None]:
        """What the group has committed, by topic; waits for a transaction that is being settled."""
        budget = self.options.seconds("transaction_timeout") + 10
        answer: dict[str, Offset | None] = {}
        with errors_as(RebuildError), self._consumer_given_up():
            for topic in self._topics:
                found = self._consumer.committed(
                    TopicPartition(topic, partition), metadata=True, timeout_ms=budget * 1000
                )
                known = found is not None and found.offset >= 0
                answer[topic] = Offset(found.offset, found.metadata or "") if known else None
        return answer

    @contextlib.contextmanager
    def _consumer_given_up(self) -> Iterator[None]:
        """Trap: after a time-out, the next fetch of the same offsets gets the late answer to the
        first one: after an error, a new consumer asks."""
        try:
            yield
        except Exception:
            self._drop_consumer()
            raise

    def span(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset still held and the next to be read (read_committed)."""
        tp = TopicPartition(topic, partition)
        with errors_as(RebuildError):
            begin = self._consumer.beginning_offsets([tp], timeout_ms=10_000)[tp]
            return begin, self._consumer.end_offsets([tp], timeout_ms=10_000)[tp]

    def read_at(self, topic: str, partition: int, offset: int) -> Any | None:
        """The record at an offset, whether its transaction is settled or not; None if it is gone.

        READ_UNCOMMITTED: whoever asks has the offset from a committed transaction, and would wait
        for seconds behind a dead producer's open one. (Trap: a compacted topic answers with the
        *next* record.)
        """
        for record in self._read(topic, partition, offset, offset + 1, "read_uncommitted"):
            return record if record.offset == offset else None
        return None

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Any]:
        """The committed records of [start, stop), in order."""
        return self._read(topic, partition, start, stop, "read_committed")

    def spans(self, topic: str) -> dict[int, tuple[int, int]]:
        """`span` of every partition, for whoever is not in the group."""
        reader = self._reader("read_committed")
        with errors_as(RetryError):
            numbers = sorted(reader.partitions_for_topic(topic) or ())
            tps = [TopicPartition(topic, number) for number in numbers]
            if not tps:
                raise DeniedError(f"topic {topic!r} does not exist, or may not be read")
            # Trap: asked for several, it leaves out those whose leader it does not know yet.
            return {
                tp.partition: (
                    reader.beginning_offsets([tp], timeout_ms=10_000)[tp],
                    reader.end_offsets([tp], timeout_ms=10_000)[tp],
                )
                for tp in tps
            }

    def _reader(self, isolation: str) -> Any:
        if isolation not in self._readers:
            self._readers[isolation] = self._open_consumer(isolation)
        return self._readers[isolation]

    def _read(
        self, topic: str, partition: int, start: int, stop: int, isolation: str
    ) -> Iterator[Any]:
        tp, reader = TopicPartition(topic, partition), self._reader(isolation)
        with errors_as(RebuildError):
            reader.assign([tp])
            begin = reader.beginning_offsets([tp], timeout_ms=10_000)[tp]
            stop = min(stop, reader.end_offsets([tp], timeout_ms=10_000)[tp])
            reader.seek(tp, max(start, begin))
            deadline = time.monotonic() + 30
            while reader.position(tp, timeout_ms=5_000) < stop:
                for record in reader.poll(timeout_ms=500).get(tp, ()):
                    if record.offset >= stop:
                        return
                    deadline = time.monotonic() + 30
                    yield record
                if time.monotonic() > deadline:
                    raise RebuildError(f"no record of {topic}-{partition} from {start} for 30 s")

    def start_at(self, topic: str, partition: int, offset: int) -> None:
        """Read on from an offset. (Trap: positions survive a rebalance: call it after each one.)"""
        with taken_away():
            self._consumer.seek(TopicPartition(topic, partition), offset)

    def hold(self, topic: str, partition: int, held: bool) -> None:
        """Stop or resume fetching from a partition."""
        tp = TopicPartition(topic, partition)
        with taken_away():
            (self._consumer.pause if held else self._consumer.resume)(tp)

    def lag(self, pairs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """How many offsets lie between our position and the last stable offset, by partition."""
        tps = [TopicPartition(*pair) for pair in pairs]
        with errors_as(RetryError), taken_away():
            ends = self._consumer.end_offsets(tps, timeout_ms=5_000)
            return {
                (tp.topic, tp.partition): ends[tp] - self._consumer.position(tp, timeout_ms=5_000)
                for tp in tps
            }

    # -- writing ---------------------------------------------------------------------------------

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None,
        headers: list[tuple[str, bytes]] | None = None, timestamp: int | None = None,
    ) -> Any:  # fmt: skip
        """Put a record into the transaction (begun by the first); its offset after ``deliver``."""
        with errors_as(RebuildError):
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
        with errors_as(RebuildError):
            self._begin()
            limit = self.limits.get(topic, MESSAGE_BYTES)
            self._sent += appending.append(self._producer, topic, partition, outputs, limit)

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
            self._producer.flush(self.options.seconds("delivery_timeout"))
        for future in self._sent:
            if not future.succeeded():
                error = future.exception or RebuildError("a record was not acknowledged in time")
                raise self._own_fault(classify(error, RebuildError)) from error
        self._sent = []

    def commit(self, offsets: Mapping[tuple[str, int], Offset], token: Any) -> None:
        """Commit the transaction together with the offsets of what it was made from.

        Raises
        ------
        RebuildError
            It may or may not have been committed: restore. Also where a rebalance came in between.
        """
        self._require_ours(token)
        if self._sent:
            self.deliver()
        positions = {
            TopicPartition(*pair): OffsetAndMetadata(offset, text, -1)
            for pair, (offset, text) in offsets.items()
        }
        try:
            within(self._patience, self._producer.send_offsets_to_transaction, positions, token)
            within(self._patience, self._producer.commit_transaction)
        except FencedError as error:
            raise self._own_fault(error) from error
        except RebuildError as error:
            # Trap: the group does not know this member any more, and a consumer whose instance was
            # fenced for a moment never notices: it would present the same membership for ever.
            if isinstance(error.__cause__, kafka_errors.CommitFailedError):
                self._drop_consumer()
            raise
        self._begun = None

    def _require_ours(self, token: Any) -> None:
        if self._rebalanced.is_set() or token is None or token.generation_id < 0:
            raise RebuildError("the group has rebalanced since the restore")

    def group_is_new(self) -> bool:
        """Whether the group has no members and has committed nothing."""
        with self._admin() as admin:
            return admin.group_is_new()

    def start_group(
        self, records: Iterable[tuple[str, int, bytes, bytes]],
        offsets: Callable[[list[int]], Mapping[tuple[str, int], Offset]],
    ) -> None:  # fmt: skip
        """For a group without members: write records, then commit ``offsets(their offsets)``."""
        self._open_producer()
        sent = [self.send(*record) for record in records]
        self.deliver()
        within(self._patience, self._producer.commit_transaction)
        self._begun = None
        positions = {
            TopicPartition(*pair): OffsetAndMetadata(offset, text, -1)
            for pair, (offset, text) in offsets([future.value.offset for future in sent]).items()
        }
        with self._admin() as admin:
            admin.set_offsets(positions)

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
            if age > self.options.seconds("transaction_timeout"):
                return RebuildError(f"the transaction was open for {age:.0f} s and timed out")
        return error
