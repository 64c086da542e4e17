"""Joining a group: its clock, and partitions that nobody was given."""

from __future__ import annotations

import contextlib
import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.structs import MemberState

from stream_can.kafka.client import joining
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.assigning import OneOwner, RangeOwners
from stream_can.kafka.client.guards import RetryError
from stream_can.kafka.client.member import Member
from stream_can.kafka.client.options import Options
from tests.kafka.broker.broker import Served
from tests.kafka.topics import create, grow, unique
from tests.programs import PATIENCE, wait


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


@pytest.mark.fast
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


@pytest.mark.fast
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


class Polled(threading.Thread):
    """A member that is polled until it is stopped."""

    def __init__(
        self, broker: Served, group: str, name: str, topic: str, assignor: Any = RangeOwners
    ) -> None:
        super().__init__(daemon=True)
        options = Options([broker.bootstrap_servers], {"metadata_max_age_ms": 300})
        self.member = Member(options, group, name, topic, assignor)
        self.owned: tuple[int, ...] = ()
        self.generation = -1
        """The group's, when it was given them."""
        self.asks = self.knows = 0
        """How often it looks whether all are somebody's; and how many it knows."""
        self.ended = threading.Event()
        self.start()

    def run(self) -> None:
        member = self.member
        while not self.ended.is_set():
            with contextlib.suppress(RetryError):
                member.poll(200)
            assignment = member.take_rebalance()
            if assignment is not None and assignment.token is not None:
                member.leave_alone(assignment.partitions)
                self.owned = assignment.partitions
                self.generation = assignment.token.generation_id
            self.knows = len(member._consumer.partitions_for_topic(member.topic) or ())
            if self.asks:
                member.share_out()
                self.asks -= 1
        member.drop()

    def ask(self) -> None:
        """Have it look, and wait for that."""
        self.asks += 1
        wait("asked", lambda: not self.asks)

    def stop(self) -> None:
        """End it; the group does not hear of it."""
        self.ended.set()
        self.join(PATIENCE)


def test_a_partition_that_was_added_while_the_leader_was_down_is_somebodys(
    broker: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """A leader that comes back as the same static member is given what it had, and does not know
    that it leads: nobody assigns anew. Before, the partition was nobody's."""
    caplog.set_level(logging.INFO, "stream_can")
    topic, group = unique("grown"), unique("group")
    create(broker.bootstrap_servers, {topic: {}})
    leads = Polled(broker, group, "leads", topic)
    wait("it leads", lambda: leads.owned == (0, 1))
    follows = Polled(broker, group, "follows", topic)

    def shared(partitions: int) -> bool:
        return sorted(leads.owned + follows.owned) == [*range(partitions)]

    try:
        with Admin(follows.member._options, group) as admin:
            wait("both", lambda: admin.owned(topic) == {0, 1} and shared(2) and follows.owned)
        leads.stop()
        grow(broker.bootstrap_servers, topic, 3)
        leads = Polled(broker, group, "leads", topic)
        wait("known", lambda: shared(2) and leads.knows == follows.knows == 3)
        leads.ask()
        follows.ask()
        wait("all three", lambda: shared(3) and leads.generation == follows.generation)
        assert "have no owner" in caplog.text
        caplog.clear()
        leads.ask()  # which does nothing where all are somebody's
        follows.ask()
        assert "have no owner" not in caplog.text
    finally:
        leads.stop()
        follows.stop()


def test_a_join_that_is_done_between_two_polls_counts(broker: Served) -> None:
    """Before, the next poll joined again: a member that never waits in a poll, as one that learns,
    was in no group, and another took its place by force."""
    topic = unique("brief")
    create(broker.bootstrap_servers, {topic: {}})
    options = Options([broker.bootstrap_servers])
    group = unique("group")
    members = [Member(options, group, name, topic) for name in ("one", "other")]

    def owned() -> list[int]:
        for member in members:
            member.poll(0)
            found = member.take_rebalance()
            if found is not None and found.token is not None:
                member.leave_alone(found.partitions)
        consumers = [member._consumer for member in members]
        stable = [one.group_metadata().state == MemberState.STABLE for one in consumers]
        return [len(one.assignment()) for one in consumers] if all(stable) else []

    try:
        wait("both", lambda: owned() == [1, 1])
    finally:
        for member in members:
            member.drop()


def test_the_owner_of_all_keeps_them_until_it_is_gone(broker: Served) -> None:
    """Before, a learner that came back took learning from a healthy one: the first by name."""
    topic, group = unique("owned"), unique("group")
    create(broker.bootstrap_servers, {topic: {}})

    def member(name: str) -> Polled:
        return Polled(broker, group, name, topic, OneOwner)

    def all_in() -> int:
        """The generation that all are in, 0 where there is none."""
        found = {one.generation for one in running.values()}
        return found.pop() if len(found) == 1 else 0

    running = {"z": member("z")}
    try:
        wait("it owns all", lambda: running["z"].owned == (0, 1))
        before = running["z"].generation
        running |= {name: member(name) for name in "ab"}
        wait("three", lambda: all_in() > before)
        assert [one.owned for one in running.values()] == [(0, 1), (), ()]
        running["z"].stop()
        with Admin(running["a"].member._options, group) as admin:
            admin.remove_member("z")
        wait("the next owns all", lambda: running["a"].owned == (0, 1))
        before = running["a"].generation
        running["z"] = member("z")
        wait("all three", lambda: all_in() > before)
        assert [one.owned for one in running.values()] == [(), (0, 1), ()]
    finally:
        for one in running.values():
            one.stop()
