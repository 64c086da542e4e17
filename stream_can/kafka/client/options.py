"""Options of kafka-python: those open to users, and those set by this package."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.probe import answering
from stream_can.kafka.client.selector import Selector

MESSAGE_BYTES = 1_048_588
"""Default of a topic's ``max.message.bytes``."""
ADMIN = {"bootstrap_timeout_ms": 5_000, "request_timeout_ms": 10_000}
CONSUMER = {
    "reconnect_backoff_max_ms": 1_000,
    "session_timeout_ms": 10_000,  # how long the partitions of a killed worker stand still
    "bootstrap_timeout_ms": 5_000,
    "request_timeout_ms": 10_000,  # time limit of a heartbeat to a hanging broker
    # Trap: a poll returns 500 records, all of the first partition with that many.
    "max_poll_records": 100_000,
}
PRODUCER = {
    "reconnect_backoff_max_ms": 1_000,
    "bootstrap_timeout_ms": 5_000,
    "linger_ms": 5,
    # Trap: the sender thread sleeps this long where a transaction begins while brokers still write
    # the markers of the last one, which is nearly always. The default is 100.
    "retry_backoff_ms": 20,
    "batch_size": 524_288,  # a request costs about the same whatever its size
    "request_timeout_ms": 10_000,
    "max_block_ms": 8_000,
    "delivery_timeout_ms": 18_000,  # 6 s is too short for a fail-over
    "transaction_timeout_ms": 15_000,  # how long a lost instance holds back read_committed readers
}
HUNG_SECONDS = 60.0
"""After a failed connection, seconds during which servers are probed before creating a client."""
OURS = {
    "bootstrap_servers", "group_id", "metric_reporters", "group_instance_id", "transactional_id",
    "isolation_level",
    "enable_auto_commit", "auto_offset_reset", "partition_assignment_strategy", "acks", "retries",
    "enable_idempotence", "key_serializer", "value_serializer", "key_deserializer",
    "value_deserializer", "allow_auto_create_topics", "kafka_client", "selector",
    "compression_type",
}  # fmt: skip
"""Options on which the guarantees depend; settings may not change them."""


def option_defaults() -> dict[str, Any]:
    """Options of kafka-python open to settings, with their defaults."""
    known = {**KafkaConsumer.DEFAULT_CONFIG, **KafkaProducer.DEFAULT_CONFIG}
    return {name: value for name, value in known.items() if name not in OURS}


def require_time(client: Mapping[str, Any], label_wait: float, commit_interval_ms: int) -> None:
    """Raise ValueError where settings are too short or long for the time-outs of a client's
    options."""
    timeout = int(client.get("transaction_timeout_ms", PRODUCER["transaction_timeout_ms"]))
    session = int(client.get("session_timeout_ms", CONSUMER["session_timeout_ms"]))
    if label_wait * 1000 <= timeout + session:
        raise ValueError(
            f"label_wait: {label_wait:g} s, expected more than transaction and session time-outs"
            f" together, {(timeout + session) / 1000:g} s: so late a prediction may be"
        )
    if 2 * commit_interval_ms > timeout:
        raise ValueError(
            f"commit_interval_ms: {commit_interval_ms}, expected at most half of"
            f" client.transaction_timeout_ms, {timeout}: a commit takes time too"
        )


class Options:
    """Brokers and options for each kind of client.

    Parameters
    ----------
    bootstrap_servers
        ``host:port`` of one or more brokers.
    settings
        Options for all clients (security, time-outs). An option known only to consumers or only to
        producers goes to those.
    compression
        Codec of sent records: "none", "gzip", "snappy", "lz4" or "zstd".
    skip_damaged
        Whether to read a damaged batch as one unreadable record.

    Raises
    ------
    DeniedError
        An option is unknown to kafka-python, or not open to users.
    """

    def __init__(
        self,
        bootstrap_servers: list[str],
        settings: Mapping[str, Any] | None = None,
        *,
        compression: str = "none",
        skip_damaged: bool = False,
    ) -> None:
        self.servers, self.settings = bootstrap_servers, dict(settings or {})
        self.skip_damaged = skip_damaged
        self.failed = -HUNG_SECONDS
        """Time of a client's last failure to connect."""
        self.compression = None if compression == "none" else compression
        for name in self.settings:
            if name not in option_defaults():
                raise DeniedError(
                    f"client option {name!r}: unknown to kafka-python, or set by stream_can itself"
                )

    def _chosen(self, known: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        chosen = {name: value for name, value in self.settings.items() if name in known}
        ours = {"bootstrap_servers": self._well(), "selector": Selector}
        return {**ours, **defaults, **chosen}

    def _well(self) -> list[str]:
        """The servers to use first."""
        servers = self.servers
        if len(servers) > 1 and time.monotonic() - self.failed < HUNG_SECONDS:
            # Trap: a client keeps one server, chosen at random, even if another one works.
            servers = answering(servers)
        return servers

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Record failures to connect while a client is created."""
        try:
            yield
        except (KafkaTimeoutError, KafkaConnectionError):
            self.failed = time.monotonic()
            raise

    @property
    def consumer(self) -> dict[str, Any]:
        return self._chosen(KafkaConsumer.DEFAULT_CONFIG, CONSUMER)

    @property
    def producer(self) -> dict[str, Any]:
        ours = {**PRODUCER, "compression_type": self.compression}
        return self._chosen(KafkaProducer.DEFAULT_CONFIG, ours)

    @property
    def admin(self) -> dict[str, Any]:
        return self._chosen(KafkaAdminClient.DEFAULT_CONFIG, ADMIN)

    @property
    def session_seconds(self) -> float:
        """Seconds without a heartbeat after which the group drops a member."""
        default = CONSUMER["session_timeout_ms"]
        return float(self.settings.get("session_timeout_ms", default)) / 1000

    def seconds(self, name: str) -> float:
        """A producer time-out in seconds, named without ``_ms``, such as ``max_block``."""
        known = {**KafkaProducer.DEFAULT_CONFIG, **PRODUCER, **self.settings}
        return float(known[f"{name}_ms"]) / 1000
