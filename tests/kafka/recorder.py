"""Records kept as they are written: what retention deletes later, or goes with its topic, is judged
all the same."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from stream_can.kafka.client.guards import create_no_topics
from tests.kafka.topics import create, delete, read
from tests.programs import wait

LOOK_SECONDS = 1.0
"""How often added partitions are looked for."""


@dataclass
class Recording:
    """What one topic held, until it was deleted."""

    id: str
    """Of the topic; another one of the same name has another. Empty: any."""
    records: dict[int, list[Any]] = field(default_factory=dict)
    """Of each partition, in order."""
    deleted: dict[int, int] = field(default_factory=dict)
    """Of each partition the offset before which its records were deleted."""
    cuts: dict[int, set[int]] = field(default_factory=dict)
    """Of each partition all such offsets: records are deleted more than once."""
    ended: float = math.inf
    """When the topic was deleted."""


class Recorder(threading.Thread):
    """Reads a topic from its beginning on, until told to stop; nothing that it read is deleted
    for it."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.servers, self.topic = servers, topic
        self.recording = Recording(topic_id(servers, topic))
        self.positions: dict[int, int] = {}
        """Of each partition the next offset; all records before are kept."""
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(KafkaError, OSError, ValueError):
                self._follow()
            self._ended.wait(0.2)

    def _follow(self) -> None:
        # Trap: a broker that was killed names an older end for a moment, where a position that is
        # reset by itself would begin again at the start.
        consumer = KafkaConsumer(
            bootstrap_servers=self.servers, isolation_level="read_committed",
            auto_offset_reset="none", request_timeout_ms=10_000, reconnect_backoff_max_ms=500,
            metadata_max_age_ms=1_000, fetch_max_wait_ms=100,
        )  # fmt: skip
        create_no_topics(consumer)
        looked = 0.0
        try:
            while not self._ended.is_set():
                if time.monotonic() - looked > LOOK_SECONDS:
                    looked = time.monotonic()
                    found = consumer.partitions_for_topic(self.topic) or set()
                    if found > {tp.partition for tp in consumer.assignment()}:
                        tps = [TopicPartition(self.topic, p) for p in sorted(found)]
                        consumer.assign(tps)
                        for tp in tps:
                            consumer.seek(tp, self.positions.get(tp.partition, 0))
                for tp, records in consumer.poll(200).items():
                    self.recording.records.setdefault(tp.partition, []).extend(records)
                    self.positions[tp.partition] = records[-1].offset + 1
                for tp in consumer.assignment():
                    at = consumer.position(tp, timeout_ms=1_000)
                    self.positions[tp.partition] = max(self.positions.get(tp.partition, 0), at or 0)
        finally:
            consumer.close(autocommit=False)

    def until_end(self) -> None:
        """Wait until all that the topic holds now is kept."""
        ends: dict[int, int] = {}

        def asked() -> bool:
            with contextlib.suppress(KafkaError, OSError, ValueError):
                ends.update(ends_of(self.servers, self.topic))
            return bool(ends)

        wait(f"ends of {self.topic}", asked)
        wait(
            f"{self.topic} is read to {ends}",
            lambda: all(self.positions.get(p, 0) >= end for p, end in ends.items()),
        )

    def delete(self, before: Mapping[int, int]) -> dict[int, int]:
        """Delete records, as retention does; what is not kept yet stays. Returns before which
        offset of each partition they were."""
        least = {p: min(at, self.positions.get(p, 0)) for p, at in before.items()}
        wanted = {TopicPartition(self.topic, p): at for p, at in least.items() if at > 0}
        if wanted:
            self.recording.deleted |= {tp.partition: at for tp, at in wanted.items()}
            for tp, at in wanted.items():
                self.recording.cuts.setdefault(tp.partition, set()).add(at)

            def done() -> bool:
                with contextlib.suppress(KafkaError, OSError):
                    admin = KafkaAdminClient(bootstrap_servers=self.servers)
                    try:
                        admin.delete_records(wanted)
                    finally:
                        admin.close()
                    return True
                return False

            wait(f"records of {self.topic} are deleted", done)
        return {tp.partition: at for tp, at in wanted.items()}

    def stop(self) -> None:
        """Stop; what was read is kept."""
        self._ended.set()
        self.join()


class Records:
    """What some topics held, from the start of a run on, over their deletion."""

    def __init__(self, servers: str, topics: list[str]) -> None:
        self.servers = servers
        self.now = {topic: Recorder(servers, topic) for topic in topics}
        self._before: dict[str, list[Recording]] = {topic: [] for topic in topics}

    def make_again(self, topic: str, configs: Mapping[str, Any], partitions: int) -> None:
        """Delete a topic, to which nobody writes now, and make another one of its name."""
        recorder = self.now[topic]
        recorder.until_end()
        recorder.stop()
        self._before[topic].append(recorder.recording)

        def insist(what: str, call: Any) -> None:
            def done() -> bool:
                with contextlib.suppress(KafkaError, OSError):
                    call()
                    return True
                return False

            wait(what, done)

        insist(f"{topic} is deleted", lambda: delete(self.servers, topic))
        recorder.recording.ended = time.time()
        insist(
            f"{topic} is made again",
            lambda: create(self.servers, {topic: dict(configs)}, partitions),
        )
        self.now[topic] = Recorder(self.servers, topic)

    def of(self) -> dict[str, list[Recording]]:
        """All that was kept, to the present ends: of each topic those of its name, the oldest
        first."""
        for recorder in self.now.values():
            recorder.until_end()
        return {
            topic: [*self._before[topic], recorder.recording]
            for topic, recorder in self.now.items()
        }

    def stop(self) -> None:
        """Stop reading."""
        for recorder in self.now.values():
            recorder.stop()


def topic_id(servers: str, topic: str) -> str:
    """The id of a topic."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        return str(admin.describe_topics([topic])[0]["topic_id"])
    finally:
        admin.close()


def ends_of(servers: str, topic: str) -> dict[int, int]:
    """Of each partition the next offset to be read."""
    consumer = KafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed")
    create_no_topics(consumer)
    try:
        tps = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        return {tp.partition: consumer.end_offsets([tp])[tp] for tp in tps}
    finally:
        consumer.close()


def held_now(servers: str, topic: str) -> Recording:
    """What a topic holds now, read from its beginning."""
    consumer = KafkaConsumer(bootstrap_servers=servers)
    try:
        numbers = sorted(consumer.partitions_for_topic(topic) or ())
    finally:
        consumer.close()
    return Recording("", {p: read(servers, topic, p) for p in numbers})
