"""The clock of joining, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.structs import MemberState

from stream_can.kafka.client import joining
from stream_can.kafka.client.guards import RetryError

pytestmark = pytest.mark.fast


def consumer(state: Any, coordinator: str | None, *known: str) -> Any:
    broker = SimpleNamespace(host="10.0.0.7", port=9092)
    metadata = SimpleNamespace(
        broker_metadata=lambda node: broker,
        partitions_for_topic=lambda topic: {0} if topic in known else None,
    )
    return SimpleNamespace(
        group_metadata=lambda: SimpleNamespace(state=state),
        _coordinator=SimpleNamespace(coordinator_id=coordinator, _cluster=metadata),
    )


def test_joining_that_takes_long_names_the_coordinator_and_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(joining.time, "monotonic", lambda: now[0])
    clock = joining.JoinClock(15)
    late = {}
    for second in range(20):
        now[0] = float(second)
        late[second] = clock.overdue(consumer(MemberState.REBALANCING, "coordinator-2"))
    assert [second for second, is_late in late.items() if is_late] == [16, 17, 18, 19]
    words = "waiting for 6 s to join the group; its coordinator is broker 2, 10.0.0.7:9092"
    assert caplog.records[0].getMessage() == words
    assert len(caplog.records) == 3
    assert not clock.overdue(consumer(MemberState.STABLE, None))
    assert not clock.overdue(consumer(MemberState.REBALANCING, None))  # from the beginning


def test_a_topic_that_is_gone_is_named_before_the_coordinator_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The group then assigns again and again; a new consumer would join no better."""
    now = [0.0]
    monkeypatch.setattr(joining.time, "monotonic", lambda: now[0])
    clock = joining.JoinClock(15)
    asked = consumer(MemberState.REBALANCING, "coordinator-2", "in")
    clock.overdue(asked, ["in", "labels"])
    now[0] = 6.0
    with pytest.raises(RetryError, match=r"^the brokers do not know labels$"):
        clock.overdue(asked, ["in", "labels"])
    now[0] = 12.0
    assert not clock.overdue(asked, ["in"])
    assert [r.getMessage()[:16] for r in caplog.records] == ["waiting for 12 s"]
