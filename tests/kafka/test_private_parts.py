"""The private parts of kafka-python that stream_can.kafka.client uses are there, each by its name.

Which of them is used for what: docs/decisions/kafka-python.md. A test without a broker, so that a
new version of the library is known to differ before anything hangs.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.producer.future import FutureRecordMetadata
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager
from kafka.record.memory_records import MemoryRecordsBuilder

from tests.pages import ROOT

pytestmark = pytest.mark.fast

PARTS: dict[type[Any], tuple[str, str]] = {
    KafkaConsumer: (
        "guards, joining, high_watermarks, unpacking", "_coordinator _fetcher _cluster",
    ),
    KafkaProducer: (
        "guards, appending, transaction",
        "_accumulator _closed _metadata _sender _transaction_manager config",
    ),
    ConsumerCoordinator: (
        "joining, member", "_cluster _join_task coordinator_id request_rejoin",
    ),
    Fetcher: (
        "high_watermarks, unpacking",
        "PartitionRecords _handle_fetch_response _next_partition_records _paused_partition_records"
        " _subscriptions",
    ),
    Fetcher.PartitionRecords: (
        "unpacking", "_unpack_records check_crcs leader_epoch next_fetch_offset take"
        " topic_partition",
    ),
    Sender: ("guards, appending", "_client force_close wakeup"),
    RecordAccumulator: (
        "appending", "_appends_in_progress _batches _closed _incomplete _tp_lock",
    ),
    TransactionManager: (
        "appending, transaction",
        "has_error is_partition_added is_transactional last_error"
        " maybe_add_partition_to_transaction producer_id_and_epoch",
    ),
    ProducerBatch: (
        "appending", "_record_futures last_append max_record_size produce_future records",
    ),
    MemoryRecordsBuilder: ("appending", "_builder _closed next_offset"),
    ClusterMetadata: ("guards, joining", "broker_metadata config partitions_for_topic"),
}  # fmt: skip
"""Class -> modules of the client that use its parts, and these."""
CASES = [(kind, name) for kind, (_, names) in PARTS.items() for name in names.split()]


@pytest.mark.parametrize(
    ("kind", "name"), CASES, ids=[f"{kind.__qualname__}.{name}" for kind, name in CASES]
)
def test_a_private_part_has_its_name(kind: type[Any], name: str) -> None:
    """Of the class, or set by a method of it."""
    source = "".join(inspect.getsource(base) for base in kind.__mro__[:-1])
    is_set = re.search(rf"\bself\.{name}\b[^=\n]*=(?!=)|['\"]{name}['\"]", source)
    assert hasattr(kind, name) or is_set, f"this kafka-python has no {kind.__qualname__}.{name}"


def test_a_coordinator_is_asked_for_as_it_is_patched() -> None:
    """`guards.patch_await_ready` answers False where this raises."""
    assert "self._client.await_ready(" in inspect.getsource(Sender)


def test_a_future_of_a_batch_takes_what_is_given() -> None:
    names = [*inspect.signature(FutureRecordMetadata).parameters]
    assert len(names) == 7


def test_the_page_names_every_class_and_module() -> None:
    page = (ROOT / "docs" / "decisions" / "kafka-python.md").read_text()
    assert [kind.__qualname__ for kind in PARTS if f"`{kind.__qualname__}`" not in page] == []
    modules = {name for used, _ in PARTS.values() for name in used.split(", ")}
    assert [name for name in sorted(modules) if f"`{name}`" not in page] == []
