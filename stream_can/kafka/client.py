"""kafka-python behind the guards that exactly-once delivery needs.

Nothing else imports it but `appending` and `unpacking`, which do what it does for many records.

Every call ends within a time and every failure is one of four:

ClientError
├── RetryError    nothing happened; the same call may be made again
├── RebuildError  what the brokers hold is unknown: ``rebuild``, then restore from Kafka
├── FencedError   another process works under the same transactional id or instance id
└── DeniedError   no retry helps; the message says what to change

Written for kafka-python 3.0.12; a comment that begins with "Trap" tells what it does otherwise.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import MemberState

from stream_can.errors import StreamCANError
from stream_can.records import Output

from . import appending, unpacking

log = logging.getLogger(__name__)
T = TypeVar("T")

STABLE = MemberState.STABLE
MESSAGE_BYTES = 1_048_588
"""``max.message.bytes`` of a topic that nobody changed."""
OVERHEAD_BYTES = 1_024
"""What a batch with one record weighs beside its key, value and headers, generously."""

CONSUMER = {"reconnect_backoff_max_ms": 1_000, "bootstrap_timeout_ms": 5_000}
PRODUCER = {
    "reconnect_backoff_max_ms": 1_000,
    "bootstrap_timeout_ms": 5_000,
    "linger_ms": 5,
    "batch_size": 524_288,  # a request costs about as much whatever its size
    "request_timeout_ms": 10_000,
    "max_block_ms": 8_000,
    "delivery_timeout_ms": 18_000,  # 6 s is too close to a fail-over
    "transaction_timeout_ms": 15_000,  # how long a lost instance holds back read_committed readers
}
OURS = {
    "bootstrap_servers", "group_id", "metric_reporters", "group_instance_id", "transactional_id",
    "isolation_level",
    "enable_auto_commit", "auto_offset_reset", "partition_assignment_strategy", "acks", "retries",
    "enable_idempotence", "key_serializer", "value_serializer", "key_deserializer",
    "value_deserializer", "allow_auto_create_topics", "kafka_client", "selector",
}  # fmt: skip
"""Options of kafka-python that the guarantees rest on, so that settings may not touch them."""


class ClientError(StreamCANError):
    """Base of the four."""


class RetryError(ClientError):
    """Nothing happened; the same call may be made again."""


class RebuildError(ClientError):
    """What the brokers hold is unknown: rebuild the client, then restore from Kafka."""


class FencedError(ClientError):
    """Another process works under the same transactional id or instance id."""


class DeniedError(ClientError):
    """No retry helps; the message says what to change."""


class Assignment(NamedTuple):
    """The partitions that are ours, and the generation of the group that made them so."""

    partitions: tuple[int, ...]
    token: Any


class Offset(NamedTuple):
    """A committed offset and the text committed with it."""

    offset: int
    metadata: str


def option_defaults() -> dict[str, Any]:
    """Every option of kafka-python that settings may pass through, and its default."""
    known = {**KafkaConsumer.DEFAULT_CONFIG, **KafkaProducer.DEFAULT_CONFIG}
    return {name: value for name, value in known.items() if name not in OURS}


def _classify(error: Exception, otherwise: type[ClientError]) -> ClientError:
    """One of the four for an error of kafka-python; ``otherwise`` where it says too little."""
    e = kafka_errors
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, ClientError):
        return error
    if isinstance(error, (e.ProducerFencedError, e.InvalidProducerEpochError)):
        return FencedError(f"another producer took over this transactional id ({text})")
    if isinstance(error, e.FencedInstanceIdError):
        return FencedError(f"another consumer joined with this instance id ({text})")
    if isinstance(error, (e.AuthorizationError, e.SaslAuthenticationFailedError)):
        return DeniedError(f"the brokers refuse: {text}")
    if isinstance(error, (e.MessageSizeTooLargeError, e.RecordListTooLargeError)):
        return DeniedError(f"a record is larger than its topic's max.message.bytes: {text}")
    if isinstance(error, (e.UnsupportedCodecError, e.UnsupportedVersionError, e.InvalidTopicError,
                          e.KafkaConfigurationError, e.InvalidTransactionTimeoutError,
                          e.InvalidSessionTimeoutError, e.InvalidGroupIdError)):  # fmt: skip
        return DeniedError(text)
    return otherwise(text)


@contextlib.contextmanager
def _errors_as(otherwise: type[ClientError]) -> Iterator[None]:
    try:
        yield
    except (kafka_errors.KafkaError, OSError) as error:
        raise _classify(error, otherwise) from error


@contextlib.contextmanager
def _taken_away() -> Iterator[None]:
    """Trap: where a rebalance on the I/O thread takes a partition from under a call, or a fetch
    ends between assignment and restore, a position is None or a key is gone, and that is raised."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"{type(error).__name__}: {error}"
        raise RetryError(f"a partition was taken away meanwhile ({text})") from error


def within(
    seconds: float, call: Callable[..., T], *args: Any, otherwise: type[ClientError] = RebuildError
) -> T:
    """``call(*args)``, given up after some seconds.

    Trap: ``send_offsets_to_transaction``, ``commit_transaction``, ``close`` and the admin's calls
    take no time-out, and some of them never return once a coordinator's broker has died.
    """
    outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(call(*args))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True, name=f"stream-can-{call.__name__}").start()
    concurrent.futures.wait([outcome], seconds)
    if not outcome.done():
        raise otherwise(f"{call.__name__} did not return within {seconds:g} s")
    with _errors_as(otherwise):
        return outcome.result()


class _Reasons(logging.Handler):
    """Trap: every TLS, SASL or address error is the same "Unable to bootstrap"; the reason is only
    in kafka-python's log."""

    FATAL = ("SaslAuthenticationFailed", "UnsupportedSaslMechanism", "CERTIFICATE_VERIFY_FAILED",
             "WRONG_VERSION_NUMBER", "certificate verify failed")  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.fatal: str | None = None
        self.failed: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1]:
            text += f": {record.exc_info[1]}"
        if any(word in text for word in self.FATAL):
            self.fatal = text
        if text.startswith("Bootstrap connection"):
            self.failed.append(text)

    def __enter__(self) -> _Reasons:
        logger = logging.getLogger("kafka")
        self.before = logger.level, logger.propagate
        if logger.getEffectiveLevel() > logging.WARNING:  # heard here, still not shown
            logger.propagate = False
            logger.setLevel(logging.WARNING)
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("kafka")
        logger.removeHandler(self)
        logger.setLevel(self.before[0])
        logger.propagate = self.before[1]


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
    bootstrap_servers
        ``host:port`` of one or more brokers.
    application_id
        Consumer group; with ``instance`` the transactional id and the static member's name.
    instance
        Name of this process, the same after a restart and unique among those that are alive.
    input, labels
        The topics to read; ``labels`` may be None.
    options
        Options of kafka-python for all clients (security, time-outs). Those that only a consumer or
        a producer knows go to that one alone.
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
        self.servers, self.group = bootstrap_servers, application_id
        self.identity = f"{application_id}-{instance}"
        self.input, self.labels = input, labels
        self.options = dict(options or {})
        for name in self.options:
            if name not in option_defaults():
                raise DeniedError(
                    f"client option {name!r}: unknown to kafka-python or not yours to set"
                )
        self.limits: dict[str, int] = {}
        self._consumer: Any = None
        self._producer: Any = None
        self._readers: dict[str, Any] = {}
        self._sent: list[Any] = []
        self._begun: float | None = None
        self._rebalanced = threading.Event()

    @property
    def _topics(self) -> list[str]:
        return [self.input, self.labels] if self.labels else [self.input]

    def _options(self, known: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        chosen = {name: value for name, value in self.options.items() if name in known}
        return {"bootstrap_servers": self.servers, **defaults, **chosen}

    @property
    def _patience(self) -> float:
        """Seconds for one call on the transaction."""
        return float(self._options(KafkaProducer.DEFAULT_CONFIG, PRODUCER)["max_block_ms"]) / 1000

    @property
    def _transaction_seconds(self) -> float:
        options = self._options(KafkaProducer.DEFAULT_CONFIG, PRODUCER)
        return float(options["transaction_timeout_ms"]) / 1000

    # -- before the start ------------------------------------------------------------------------

    def check(
        self, *, reads: Iterable[str], writes: Iterable[str], state: str, state_bytes: int,
        create: bool = False,
    ) -> int:  # fmt: skip
        """Check addresses, rights, topics and sizes; make missing topics where ``create`` says so.

        Returns
        -------
        The number of partitions, which all topics share. ``limits`` then holds the most bytes that
        each topic takes in one record.

        Raises
        ------
        RetryError
            No broker answers (yet).
        DeniedError
            Anything that waiting does not mend.
        """
        for name, value in self.options.items():
            if name.endswith("file") and value is not None and not os.access(value, os.R_OK):
                raise DeniedError(f"{name}: cannot read {value}")
        reads, writes = list(reads), list(writes)
        admin = self._admin()
        try:
            topics = self._found(admin, {*reads, *writes, state})
            if self.input not in topics:
                raise DeniedError(f"input topic {self.input!r} does not exist; create it first")
            partitions = len(topics[self.input]["partitions"])
            missing = {*reads, *writes, state} - topics.keys()
            if missing and not create:
                raise DeniedError(
                    f"missing topics: {', '.join(sorted(missing))}; create them with"
                    f" {partitions} partitions (state: cleanup.policy=compact)"
                    " or use --create-topics"
                )
            if missing:
                self._create(admin, missing, partitions, writes, state, state_bytes)
                topics = self._found(admin, {*reads, *writes, state})
            for name, topic in topics.items():
                if len(topic["partitions"]) != partitions:
                    raise DeniedError(
                        f"topic {name!r} has {len(topic['partitions'])} partitions, input"
                        f" {self.input!r} has {partitions}; they must be equal"
                    )
            self._check_rights(admin, topics, reads, writes, state)
            self._check_configs(admin, [*writes, state], state, state_bytes)
            return partitions
        finally:
            self._close(admin)

    def _admin(self) -> Any:
        defaults = {"bootstrap_timeout_ms": 5_000, "request_timeout_ms": 10_000}
        with _Reasons() as reasons, _errors_as(RetryError):
            try:
                return KafkaAdminClient(**self._options(KafkaAdminClient.DEFAULT_CONFIG, defaults))
            except (kafka_errors.KafkaError, OSError, ValueError) as error:
                where, failed = ", ".join(self.servers), reasons.failed
                if reasons.fatal or isinstance(error, ValueError):
                    raise DeniedError(
                        f"cannot connect to {where}: {reasons.fatal or error}"
                    ) from error
                closed = sum("socket disconnected" in text for text in failed)
                if "SASL" in str(self.options.get("security_protocol")) and closed > 2:
                    # kafka-python often sees the end of the connection before the reason.
                    raise DeniedError(
                        f"cannot connect to {where}: connections are closed while they"
                        " authenticate; are user and password right?"
                    ) from error
                last = failed[-1] if failed else error
                raise RetryError(f"no answer from {where}: {last}") from error

    def _found(self, admin: Any, names: set[str]) -> dict[str, Any]:
        topics = within(15, admin.describe_topics, sorted(names), otherwise=RetryError)
        found = {}
        for topic in topics:
            error = kafka_errors.for_code(topic["error_code"])
            if error is kafka_errors.NoError:
                found[topic["name"]] = topic
            elif error is not kafka_errors.UnknownTopicOrPartitionError:
                raise _classify(error(f"topic {topic['name']!r}"), RetryError)
        return found

    def _create(
        self, admin: Any, names: set[str], partitions: int, writes: list[str], state: str,
        state_bytes: int,
    ) -> None:  # fmt: skip
        # Outputs and dead letters are larger than the records that they are made from.
        configs = {name: {"max.message.bytes": str(2 * MESSAGE_BYTES)} for name in writes}
        configs[state] = {
            "cleanup.policy": "compact",
            "segment.bytes": str(max(64 << 20, 4 * state_bytes)),
            "max.message.bytes": str(max(MESSAGE_BYTES, 2 * state_bytes)),
        }
        new = {
            name: {"num_partitions": partitions, "configs": configs.get(name, {})} for name in names
        }
        try:
            within(30, admin.create_topics, new, otherwise=RetryError)
        except RetryError as error:
            if not isinstance(error.__cause__, kafka_errors.TopicAlreadyExistsError):
                raise  # otherwise another instance was faster
        # Trap: a new topic is not at once visible on another broker.
        within(30, admin.wait_for_topics, sorted(names), 25_000, otherwise=RetryError)
        log.info("created topics: %s", ", ".join(sorted(names)))

    def _check_rights(
        self, admin: Any, topics: dict[str, Any], reads: list[str], writes: list[str], state: str
    ) -> None:
        # Trap: without the right to read, an assignment stays empty for ever; without the right to
        # write, only the future of a record fails.
        needed = {name: {"READ"} for name in reads}
        needed |= {name: {"WRITE"} for name in writes}
        needed[state] = {"READ", "WRITE"}
        lacking = [
            f"{right} on topic {name}"
            for name, rights in needed.items()
            for right in sorted(rights - _operations(topics[name]))
        ]
        try:
            groups = within(15, admin.describe_groups, [self.group], otherwise=RetryError)
        except DeniedError:
            groups = {self.group: {}}
        group = groups[self.group]
        new = group.get("error") and "Authorization" not in group["error"]  # not known yet
        if not new and "READ" not in _operations(group):
            lacking.append(f"READ on group {self.group}")
        if lacking:
            raise DeniedError(f"rights missing: {', '.join(lacking)}")

    def _check_configs(self, admin: Any, names: list[str], state: str, state_bytes: int) -> None:
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        described = within(15, admin.describe_configs, asked, False, "all", otherwise=RetryError)
        found = described["topic"]
        for name in names:
            configs = found.get(name) or {}
            if not configs and name == state:  # Trap: an empty answer means "not allowed"
                raise DeniedError(f"rights missing: DESCRIBE_CONFIGS on topic {state}")
            self.limits[name] = int(
                configs.get("max.message.bytes", {}).get("value", MESSAGE_BYTES)
            )
        policy = found[state]["cleanup.policy"]["value"]
        if policy != "compact":
            raise DeniedError(
                f"state topic {state!r} has cleanup.policy={policy}; set it to compact"
            )
        if state_bytes + OVERHEAD_BYTES > self.limits[state]:
            raise DeniedError(
                f"one snapshot takes {state_bytes} bytes, but state topic {state!r} has"
                f" max.message.bytes={self.limits[state]}; raise it, or leave out the matrix paths"
            )

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
            raise _classify(error, RetryError) from error

    def _open_consumer(self, isolation: str = "read_committed", **more: Any) -> Any:
        with _errors_as(RetryError):
            consumer = KafkaConsumer(
                **self._options(KafkaConsumer.DEFAULT_CONFIG, CONSUMER),
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
        options = self._options(KafkaProducer.DEFAULT_CONFIG, PRODUCER)
        options.setdefault("max_request_size", max([MESSAGE_BYTES, *self.limits.values()]))
        with _errors_as(RetryError):
            self._producer = KafkaProducer(
                **options, transactional_id=self.identity, allow_auto_create_topics=False
            )
            _patch_await_ready(self._producer)
            appending.check(self._producer)
            within(self._patience + 2, self._producer.init_transactions)

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
        self._close(joined)
        if leave:
            try:
                admin = self._admin()
                member = MemberToRemove(group_instance_id=self.identity)
                within(5, admin.remove_group_members, self.group, [member])
                self._close(admin)
            except ClientError as error:
                log.warning("could not leave the group, others wait for the session: %s", error)

    def _drop_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._close(consumer)

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        self._sent, self._begun = [], None
        self._close(producer, 0)

    def _drop_readers(self) -> None:
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            self._close(reader)

    def _close(self, client: Any, *args: Any) -> None:
        # Trap: close() can raise, can hang, and can leave its thread behind.
        if client is not None:
            with contextlib.suppress(ClientError, RuntimeError, AttributeError, ValueError):
                within(5, client.close, *args)

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
            with _errors_as(RetryError), _taken_away():
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
        budget = self._transaction_seconds + 10
        answer: dict[str, Offset | None] = {}
        with _errors_as(RebuildError), self._consumer_given_up():
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
        with _errors_as(RebuildError):
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
        with _errors_as(RetryError):
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
        with _errors_as(RebuildError):
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
        with _taken_away():
            self._consumer.seek(TopicPartition(topic, partition), offset)

    def hold(self, topic: str, partition: int, held: bool) -> None:
        """Stop or resume fetching from a partition."""
        tp = TopicPartition(topic, partition)
        with _taken_away():
            (self._consumer.pause if held else self._consumer.resume)(tp)

    def lag(self, pairs: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """How many offsets lie between our position and the last stable offset, by partition."""
        tps = [TopicPartition(*pair) for pair in pairs]
        with _errors_as(RetryError), _taken_away():
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
        with _errors_as(RebuildError):
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
        with _errors_as(RebuildError):
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
        with _errors_as(RebuildError):
            self._producer.flush(self._options(KafkaProducer.DEFAULT_CONFIG, PRODUCER)[
                "delivery_timeout_ms"] / 1000)  # fmt: skip
        for future in self._sent:
            if not future.succeeded():
                error = future.exception or RebuildError("a record was not acknowledged in time")
                raise self._own_fault(_classify(error, RebuildError)) from error
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
        admin = self._admin()
        try:
            groups = within(15, admin.describe_groups, [self.group], otherwise=RetryError)
            offsets = within(15, admin.list_group_offsets, [self.group], otherwise=RetryError)
        finally:
            self._close(admin)
        return not groups[self.group].get("members") and not offsets.get(self.group)

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
        admin = self._admin()
        try:
            done = within(15, admin.alter_group_offsets, self.group, positions)
        finally:
            self._close(admin)
        for error in done.values():
            if error is not kafka_errors.NoError:
                raise _classify(error(f"offsets of group {self.group!r}"), DeniedError)

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
            if age > self._transaction_seconds:
                return RebuildError(f"the transaction was open for {age:.0f} s and timed out")
        return error


def _operations(described: Mapping[str, Any]) -> set[str]:
    return set(described.get("authorized_operations") or ())


def _patch_await_ready(producer: Any) -> None:
    """Answer False, not an exception, where a coordinator's broker is away.

    Trap: ``producer/sender.py`` takes a request off its queue, and where ``await_ready`` raises,
    that request is lost: ``init_transactions``, ``send_offsets_to_transaction`` and
    ``commit_transaction`` then wait for ever, even after the broker is back. With False it looks
    the coordinator up again.
    """
    network = getattr(getattr(producer, "_sender", None), "_client", None)
    original = getattr(network, "await_ready", None)
    if network is None or original is None:
        log.warning("kafka-python without Sender._client.await_ready: fail-overs will take longer")
        return

    def await_ready(*args: Any, **kwargs: Any) -> bool:
        try:
            return bool(original(*args, **kwargs))
        except kafka_errors.KafkaConnectionError:
            return False

    network.await_ready = await_ready
