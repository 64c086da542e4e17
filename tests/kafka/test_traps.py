"""One test for each trap of kafka-python that stream_can.kafka guards against.

Where the guard can be taken out cleanly the test also shows what happens without it.
Not shown here: that a new topic is not at once visible on another broker (it takes several
brokers); TLS, SASL, rights (test_check.py); headers with null values (test_fuzz.py); deserializers
that raise and listeners that block, which the client does not use (their options are refused).
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError

from stream_can.kafka.client import consumer as consumer_module
from stream_can.kafka.client import member as member_module
from stream_can.kafka.client import probe, unpacking
from stream_can.kafka.client import transaction as transaction_module
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import ClientError, RebuildError, RetryError, close
from stream_can.kafka.client.member import Assignment, Member
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.topic_limits import TopicLimits
from stream_can.kafka.client.transaction import Transaction
from stream_can.kafka.client.transaction_status import TransactionStatus, last_transaction
from stream_can.kafka.client.unpacking import unpark
from stream_can.kafka.retry import RetryPolicy
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, caught_up, fill, run_once
from tests.kafka.topics import create, produce, read, unique
from tests.programs import PATIENCE, wait


class Pass:
    """A client over its own topics, opened and assigned."""

    def __init__(self, servers: str, **options: Any) -> None:
        self.name = unique("trap")
        self.input, self.out = f"{self.name}-in", f"{self.name}-out"
        create(servers, {self.input: {}, self.out: {}}, partitions=1)
        self.servers = servers
        self.client = Client([servers], self.name, "0", input=self.input, options=options)

    def rebuild(self) -> None:
        """As a worker does: again while the brokers are only just back."""
        RetryPolicy(120, "0", threading.Event(), lambda: None).until_answered(self.client.rebuild)

    def open(self) -> Assignment:
        self.client.open()

        def assigned() -> Assignment | None:
            self.client.member.poll(100)
            found = self.client.member.take_rebalance()
            return found if found and found.partitions else None

        return wait("assignment", assigned)

    def send(self, n: int) -> None:
        for i in range(n):
            self.client.transaction.send(self.out, 0, b"k", b"%d" % i)

    def commit(self, token: Any, offset: int = 1) -> None:
        self.client.commit({(self.input, 0): offset}, token)

    def stored(self) -> list[bytes]:
        return [record.value for record in read(self.servers, self.out, 0)]


@pytest.mark.parametrize("guarded", [pytest.param(False, marks=pytest.mark.release), True])
def test_a_topic_that_is_deleted_is_made_anew(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """By the next request for metadata of kafka-python's, whatever its options say."""
    if not guarded:
        for module in (consumer_module, transaction_module):
            monkeypatch.setattr(module, "create_no_topics", lambda _: None)
    p = Pass(broker.bootstrap_servers, metadata_max_age_ms=200)
    assignment = p.open()
    p.send(1)
    p.commit(assignment.token)
    admin = KafkaAdminClient(bootstrap_servers=p.servers)
    begin = time.monotonic()
    admin.delete_topics([p.input, p.out])
    seen = {p.input, p.out}
    while time.monotonic() - begin < 3 or (guarded and seen):
        with contextlib.suppress(ClientError):  # the offsets of the new one start over
            p.client.member.poll(100)
        seen = set(admin.list_topics()) & {p.input, p.out}
    assert seen == (set() if guarded else {p.input, p.out})
    admin.close()
    p.client.close()


def stopped(pid: int) -> Iterator[bool]:
    """Of each thread; on a busy machine one may still answer a while after SIGSTOP."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        yield stat.read_text().rpartition(")")[2].split()[0] == "T"


class TestLostBatch:
    """A batch that expires inside a transaction: the commit says OK with part of the output."""

    options: ClassVar = {
        "delivery_timeout_ms": 4_000,
        "request_timeout_ms": 1_000,
        "max_block_ms": 120_000,
        "transaction_timeout_ms": 300_000,
    }

    def lose(self, p: Pass, broker: Broker) -> Any:
        """One record acknowledged, five expired while the broker's process stood still."""
        token = p.open().token
        p.send(1)
        p.client.transaction.deliver()
        assert broker.process is not None
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            wait("the broker stands still", lambda: all(stopped(broker.process.pid)))
            p.send(5)
            self.expired(p)
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
        return token

    def expired(self, p: Pass) -> None:
        futures = p.client.transaction._sent
        wait("the batch expires", lambda: all(future.is_done for future in futures))

    def test_deliver_finds_it(self, each_own_broker: Broker) -> None:
        p = Pass(each_own_broker.bootstrap_servers, **self.options)
        token = self.lose(p, each_own_broker)
        with pytest.raises(RebuildError):
            p.commit(token)
        p.rebuild()
        p.client.close()
        assert p.stored() == []

    @pytest.mark.release
    def test_without_it_the_commit_is_a_lie(self, each_own_broker: Broker) -> None:
        for _ in range(5):  # on a busy machine the broker that is back may answer too late
            p = Pass(each_own_broker.bootstrap_servers, **self.options)
            token = p.open().token
            p.send(1)
            p.client.transaction.deliver()
            each_own_broker.kill()
            p.send(5)
            self.expired(p)
            each_own_broker.start()
            p.client.transaction._sent = []  # the guard taken out
            try:
                p.commit(token)
            except RebuildError as error:
                told = str(error)
                p.rebuild()
            else:
                told = ""
            p.client.close()
            if "timed out after 9" not in told:
                break
        assert not told, f"kafka-python tells now: {told}; is the guard still needed?"
        assert p.stored() == [b"0"]


class TestBrokerDies:
    """The coordinator's broker dies with a request queued: its answer never comes."""

    def start(self, p: Pass, broker: Broker) -> Any:
        token = p.open().token
        p.send(3)
        p.client.transaction.deliver()
        broker.kill()
        back = threading.Timer(1.5, broker.start)
        back.start()
        return token, back

    def test_commit_goes_through_once_it_is_back(self, own_broker: Broker) -> None:
        # The broker takes its time to come back; its transactions must not time out before.
        patient = {"max_block_ms": 120_000, "transaction_timeout_ms": 300_000}
        p = Pass(own_broker.bootstrap_servers, **patient)
        token, back = self.start(p, own_broker)
        begin = time.monotonic()
        p.commit(token)
        seconds = time.monotonic() - begin
        back.join()
        p.client.close()
        assert p.stored() == [b"0", b"1", b"2"]
        print(f"committed {seconds:.1f} s after the kill")

    @pytest.mark.release
    def test_unpatched_it_never_returns_and_the_time_out_ends_it(
        self, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transaction_module, "patch_await_ready", lambda producer: None)
        error = None
        for _ in range(5):  # on a busy machine it finds its broker again now and then
            p = Pass(own_broker.bootstrap_servers, max_block_ms=8_000)
            token, back = self.start(p, own_broker)
            begin = time.monotonic()
            try:
                p.commit(token)
            except RebuildError as raised:
                error = raised
            seconds = time.monotonic() - begin
            back.join()
            if error:
                p.rebuild()
            p.client.close()
            if error:
                break
        assert "did not return within 8 s" in str(error), "it always returns: is the patch needed?"
        assert seconds < 30


class TestMarkerLeftOut:
    """A broker aborts a transaction and leaves a partition out: its records are still open.

    Brokers do so by a race while they start (KAFKA-20734); here the coordinator never hears of the
    partition, which leaves the same behind.
    """

    def open(self, broker: Broker) -> Pass:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        verify = {"transaction.partition.verification.enable": "false"}
        admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "1", configs=verify)])
        admin.close()
        p = Pass(broker.bootstrap_servers)
        p.client.transaction.topic_limits = {p.out: TopicLimits()}
        return p

    def send_unheard(self, p: Pass, producer: Any) -> None:
        producer._transaction_manager._partitions_in_transaction.add(TopicPartition(p.out, 0))
        producer.send(p.out, b"unheard", partition=0).get(10)

    def leave_open(self, broker: Broker) -> Pass:
        p = self.open(broker)
        p.open()
        producer = p.client.transaction._producer
        producer.begin_transaction()
        self.send_unheard(p, producer)
        return p

    def go_on_while(
        self, monkeypatch: pytest.MonkeyPatch, p: Pass, meanwhile: Callable[[Any], None]
    ) -> list[bytes]:
        """Its owner lives on, and does this after the next one has looked how it ended."""
        owner, p.client.transaction._producer = p.client.transaction._producer, None
        ask, waiting = Admin.ask, [meanwhile]

        def asking(self: Admin, seconds: float, name: str, *args: Any) -> Any:
            answer = ask(self, seconds, name, *args)
            if name == "describe_transactions" and waiting:
                waiting.pop()(owner)
            return answer

        monkeypatch.setattr(Admin, "ask", asking)
        try:
            return self.go_on(p)
        finally:
            close(owner, 0)

    def go_on(self, p: Pass) -> list[bytes]:
        p.rebuild()
        token = p.open().token
        p.send(2)
        p.commit(token)
        p.client.close()
        return p.stored()

    def test_the_next_producer_aborts_them(self, own_broker: Broker) -> None:
        assert self.go_on(self.leave_open(own_broker)) == [b"0", b"1"]

    def test_without_that_its_commit_commits_them(
        self, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Transaction, "_settle", lambda self, **_: None)
        assert self.go_on(self.leave_open(own_broker)) == [b"unheard", b"0", b"1"]

    def test_what_was_committed_is_not_aborted(
        self, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        p = self.leave_open(own_broker)
        committed = TransactionStatus("commit", -1, 0)
        monkeypatch.setattr(transaction_module, "last_transaction", lambda *_: committed)
        assert self.go_on(p) == [b"unheard", b"0", b"1"]

    def test_an_owner_that_commits_before_it_is_fenced(
        self, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        p = self.leave_open(own_broker)
        p.client.transaction._producer.send(p.input, b"known of", partition=0).get(10)
        found = self.go_on_while(monkeypatch, p, lambda owner: owner.commit_transaction())
        assert found == [b"unheard", b"0", b"1"]

    def test_an_owner_that_begins_before_it_is_fenced(
        self, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        p = self.open(own_broker)
        token = p.open().token
        p.send(1)
        p.commit(token)

        def begin(owner: Any) -> None:
            owner.begin_transaction()
            self.send_unheard(p, owner)
            owner.send(p.input, b"known of", partition=0).get(10)

        assert self.go_on_while(monkeypatch, p, begin) == [b"0", b"0", b"1"]

    def test_an_owner_that_goes_on_before_it_is_fenced_commits_all_or_nothing(
        self, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        p = self.open(own_broker)
        p.open()
        owner, p.client.transaction._producer = p.client.transaction._producer, None
        owner.begin_transaction()
        owner.send(p.out, b"first", partition=0).get(10)
        waiting = [owner]

        def looked(*args: Any, **options: Any) -> Any:
            answer = last_transaction(*args, **options)
            if waiting:
                waiting.pop()
                owner.send(p.input, b"second", partition=0).get(10)
                owner.commit_transaction()
            return answer

        monkeypatch.setattr(transaction_module, "last_transaction", looked)
        try:
            assert self.go_on(p) == [b"first", b"0", b"1"]
        finally:
            close(owner, 0)
        assert [record.value for record in read(p.servers, p.input, 0)] == [b"second"]

    def test_how_the_last_transaction_ended(self, broker: Broker) -> None:
        p = Pass(broker.bootstrap_servers)

        def ended() -> str | None:
            with Admin(p.client.options, p.client.group) as admin:
                last = last_transaction(admin, p.client.transaction.identity)
                return last and last.state

        assert ended() is None
        token = p.open().token
        p.send(1)
        p.client.transaction.deliver()
        assert ended() == "open"
        p.commit(token)
        assert ended() == "commit"
        p.client.close()


def test_offsets_of_a_missing_topic_do_not_hang(broker: Broker) -> None:
    p = Pass(broker.bootstrap_servers, max_block_ms=2_000)
    token = p.open().token
    p.send(1)
    with pytest.raises(RebuildError):
        p.client.commit({(unique("nowhere"), 0): 1}, token)
    p.client.close()


def test_poll_between_assignment_and_restore(broker: Broker) -> None:
    p = Pass(broker.bootstrap_servers)
    p.open()
    assert p.client.member.poll(500) == {}

    def polls() -> None:
        for _ in range(20):
            p.client.member._consumer.poll(100)

    with pytest.raises(NoOffsetForPartitionError):
        polls()
    p.client.close()


def test_committed_offsets_that_retention_deleted(broker: Broker) -> None:
    """Before, a worker began again for ever: it never came to take over, which goes on elsewhere or
    says what to do."""
    p = Pass(broker.bootstrap_servers)
    produce(p.servers, [(p.input, 0, b"k", b"%d" % i) for i in range(50)])
    token = p.open().token
    p.send(1)
    p.commit(token, 10)
    p.client.close()
    admin = KafkaAdminClient(bootstrap_servers=p.servers)
    admin.delete_records({TopicPartition(p.input, 0): 30})
    admin.close()
    again = Client([p.servers], p.name, "0", input=p.input)
    again.open()
    member = again.member
    wait("a rebalance", lambda: member.poll(100) or member.rebalanced)

    def polls() -> None:
        for _ in range(50):
            member._consumer.poll(100)

    with pytest.raises(OffsetOutOfRangeError):
        polls()
    for _ in range(50):
        assert member.poll(100) == {}
    assert wait("assignment", member.take_rebalance).partitions == (0,)
    member.start_at(0, 30)
    assert wait("records", lambda: member.poll(100))[p.input, 0][0].offset == 30
    again.close()


def test_what_was_fetched_of_a_held_partition_comes_when_it_is_read_again(broker: Broker) -> None:
    name = unique("held")
    create(broker.bootstrap_servers, {name: {}}, partitions=2)
    produce(broker.bootstrap_servers, [(name, i % 2, b"k", b"%d" % i) for i in range(2000)])
    options = {"max_poll_records": 100}
    client = Client([broker.bootstrap_servers], name, "0", input=name, options=options)
    member, taken = client.member, Counter[int]()
    client.open()
    wait("assignment", lambda: member.poll(100) or member.take_rebalance())
    for partition in range(2):
        member.start_at(partition, 0)

    def read_on() -> int:
        for (_, partition), records in member.poll(100).items():
            taken[partition] += len(records)
        return taken.total()

    wait("the first records", read_on)
    (first,) = taken
    member.hold(first, True)  # with the rest of what was fetched in memory
    wait("the other is read to its end", lambda: read_on() == 1000 + taken[first])
    for _ in range(3):
        read_on()
    member.hold(1 - first, True)
    for _ in range(10):
        read_on()  # until no fetch is under way
    member.hold(first, False)
    wait("all is read", lambda: read_on() == 2000, seconds=30)
    client.close()


def test_close_that_raises_is_survived(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    p = Pass(broker.bootstrap_servers)
    p.open()
    close = p.client.member._consumer.close

    def raising(*args: Any) -> None:
        close(*args)
        raise KafkaError("as seen")

    monkeypatch.setattr(p.client.member._consumer, "close", raising)
    p.client.close()


def test_a_compacted_pointer_is_seen(broker: Broker) -> None:
    """After compaction, a seek answers with the next record."""
    servers, topic = broker.bootstrap_servers, unique("compacted")
    fast = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1"}
    create(servers, {topic: {"cleanup.policy": "compact"} | fast}, partitions=1)
    deadline = time.monotonic() + PATIENCE
    offsets: list[int] = []
    while not offsets or offsets[0] == 0:
        assert time.monotonic() < deadline, "the broker does not compact"
        produce(servers, [(topic, 0, b"k", b"v")])
        time.sleep(1)
        offsets = [record.offset for record in read(servers, topic, 0)]
    client = Client([servers], topic, "0", input=topic)
    assert client.readers.read_at(topic, 0, 0) is None
    assert client.readers.read_at(topic, 0, offsets[-1]).offset == offsets[-1]
    assert client.readers.read_at(topic, 0, offsets[-1] + 1) is None
    client.close()


def test_what_comes_next_is_told_from_one_batch(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole fetch of 1 MB was unpacked for nine records, with each state."""
    servers, topic = broker.bootstrap_servers, unique("next")
    create(servers, {topic: {}}, partitions=1)
    for k in range(20):  # a batch each
        produce(servers, [(topic, 0, None, b"%d" % k)] * 10)
    client = Client([servers], topic, "0", input=topic)
    found, real = [], unpacking.unpack

    def unpack(*args: Any) -> list[Any]:
        records = real(*args)
        found.append(len(records))
        return records

    monkeypatch.setattr(unpacking, "unpack", unpack)
    time_of_next = client.readers.following(
        topic, 0, 50, lambda records: np.array([float(one.offset) for one in records])
    )
    client.close()
    assert time_of_next == 54.0
    assert sum(found) <= 20  # the next may be begun


class TestNotKnownYet:
    """A lag that cannot be told is asked for again; what is wrong otherwise is a bug."""

    def test_a_partition_without_a_leader(self, broker: Broker) -> None:
        """Asked for several, kafka-python forgets it and then looks it up."""
        p = Pass(broker.bootstrap_servers)
        p.open()
        here, nowhere = TopicPartition(p.input, 0), TopicPartition(p.input, 1)
        with pytest.raises(KeyError):
            p.client.member._consumer.end_offsets([here, nowhere], timeout_ms=5_000)
        with pytest.raises(RetryError, match=f"no leader is known of .*{nowhere.topic}"):
            p.client.member.lag([0, 1])
        p.client.close()

    def test_no_position_in_time(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        """kafka-python says None, not that time was up."""
        p = Pass(broker.bootstrap_servers)
        p.open()
        with KafkaConsumer(bootstrap_servers=p.client.options.servers, group_id=p.input) as other:
            other.assign([TopicPartition(p.input, 0)])  # which has asked nobody yet
            late = functools.partial(KafkaConsumer.position, other)
            monkeypatch.setattr(
                p.client.member._consumer, "position", lambda tp, **_: late(tp, timeout_ms=0)
            )
            with pytest.raises(RetryError, match=f"no position in .*{p.input}"):
                p.client.member.lag([0])
        p.client.close()


@pytest.mark.parametrize("bug", [TypeError("bug"), KeyError("bug"), ValueError("bug")], ids=repr)
def test_a_bug_ends_the_worker_at_once(broker: Broker, bug: Exception) -> None:
    """It is nobody's outage: no retries for `connect_seconds`, and its own traceback."""
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    running = app.worker()
    wait("assignment", lambda: running.error or running.worker.health.ready)

    def poll(*_: object, **__: object) -> None:
        raise bug

    assert running.worker.work is not None
    running.worker.work.client.member._consumer.poll = poll
    with pytest.raises(type(bug), match="bug"):
        running.join()


# -- traps of the worker: what it must do with what the client tells it --------------------------


def commit_fails_after(app: App, monkeypatch: pytest.MonkeyPatch, *, really: bool) -> None:
    """Run a worker whose third commit fails, before or after it has happened."""
    commit, calls = Client.commit, []

    def failing(self: Client, *of: Any) -> None:
        calls.append(None)
        if len(calls) == 3:
            if really:
                commit(self, *of)
            raise RebuildError("commit timed out")
        commit(self, *of)

    monkeypatch.setattr(Client, "commit", failing)
    fill(app, 2000)
    run_once(app, commit_every=200, client={"max_poll_records": 100})
    assert len(calls) > 4


@pytest.mark.parametrize("really", [False, True])
def test_a_commit_that_timed_out(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, really: bool
) -> None:
    """Restoring from Kafka is right whether or not the brokers have committed it after all."""
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    commit_fails_after(app, monkeypatch, really=really)
    assert app.verify() == 2000


def test_positions_survive_so_a_restore_without_seek_loses(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    start_at, first = Member.start_at, []

    def only_once(self: Member, *where: Any) -> None:
        if self.topic != app.given["input"]:
            start_at(self, *where)
        elif not first:
            first.append(None)
            start_at(self, *where)

    monkeypatch.setattr(Member, "start_at", only_once)
    commit_fails_after(app, monkeypatch, really=False)
    with pytest.raises(AssertionError):
        app.verify()
    assert len(app.outputs(0)) < 2000


class TestEvicted:
    """A worker stalls past max_poll_interval_ms, another takes over, the first one wakes up."""

    def stall(self, broker: Any, monkeypatch: pytest.MonkeyPatch) -> App:
        app = App(broker.bootstrap_servers, partitions=1, labels=False)
        # What the first has begun must still be open when it wakes up.
        client = {**app.given["client"], "transaction_timeout_ms": 300_000}
        armed = threading.Event()
        stalling = threading.Event()
        woken = threading.Event()
        deliver = Transaction.deliver

        def slow(self: Transaction) -> None:
            deliver(self)
            if armed.is_set() and self.identity.endswith("/first") and not stalling.is_set():
                stalling.set()
                woken.wait(PATIENCE)

        monkeypatch.setattr(Transaction, "deliver", slow)
        evicted_soon = {"max_poll_interval_ms": 2_000, "session_timeout_ms": 3_000}
        first = app.worker("first", client=client | evicted_soon, label_wait=1000)
        wait("the log has started", lambda: first.error or first.worker.health.ready)
        armed.set()
        fill(app, 300)
        assert stalling.wait(PATIENCE)
        second = app.worker("second", client=client, label_wait=1000)
        # What the first has begun stays open.
        wait("the second to take over", lambda: second.error or app.lag(open_ones=False) == 0)
        woken.set()
        time.sleep(2)
        fill(app, 300, seed=1)
        caught_up(app, first, second)
        first.stop()
        second.stop()
        return app

    def test_the_kept_token_is_fenced(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.stall(broker, monkeypatch).verify() == 600

    @pytest.mark.release
    def test_a_live_one_is_not(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nor is static membership, which fences the same, in the way."""
        commit, open_consumer = Client.commit, member_module.open_consumer

        def dynamic(*args: Any, **options: Any) -> Any:
            options.pop("group_instance_id", None)
            return open_consumer(*args, **options)

        def live(self: Client, offsets: Any, _: Any, *notes: Any) -> None:
            self.transaction.deliver()  # in which it stalls
            commit(self, offsets, self.member._consumer.group_metadata(), *notes)

        monkeypatch.setattr(Member, "require", lambda self, token: None)
        monkeypatch.setattr(member_module, "open_consumer", dynamic)
        monkeypatch.setattr(Client, "commit", live)
        app = self.stall(broker, monkeypatch)
        with pytest.raises(AssertionError):
            app.verify()
        assert len(app.outputs(0)) > 600, "expected duplicates"


def test_a_producer_with_undelivered_records_leaves_no_thread(broker: Broker) -> None:
    topic = unique("undelivered")
    create(broker.bootstrap_servers, {topic: {}})
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000)
    producer.send(topic, b"x", partition=0)
    close(producer, 0)
    wait("its thread has ended", lambda: not producer._sender.is_alive())


def test_a_partition_that_is_read_again_gives_what_was_fetched_for_it(broker: Broker) -> None:
    """Before, the poll that found another one paused waited for new records instead."""
    topic, given = unique("resumed"), set[int]()
    create(broker.bootstrap_servers, {topic: {}})
    produce(broker.bootstrap_servers, [(topic, i % 2, b"k", b"v") for i in range(20)])
    consumer = member_module.open_consumer(Options([broker.bootstrap_servers], {}))
    both = [TopicPartition(topic, partition) for partition in (0, 1)]
    try:
        consumer.assign(both)
        consumer.seek_to_beginning()

        def one_of() -> set[int]:
            unpark(consumer)
            return {tp.partition for tp in consumer.poll(0, max_records=1)}

        while given != {0, 1}:  # both are fetched
            given |= {tp.partition for tp in consumer.poll(100, max_records=1)}
            for tp in both:
                (consumer.pause if tp.partition in given else consumer.resume)(tp)
        for _ in range(3):  # to and fro
            paused, other = both
            consumer.pause(paused)
            consumer.resume(other)
            assert one_of() == {other.partition}
            both.reverse()
    finally:
        close(consumer)


def test_a_server_that_hangs_is_not_waited_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure, each client of a restore asked it again, for four seconds."""
    monkeypatch.setattr(probe, "SECONDS", 600.0)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        servers = [f"127.0.0.1:{hung.getsockname()[1]}", broker.bootstrap_servers]
        options = Options(servers, {"max_block_ms": 7000})
        options.failed = time.monotonic()
        assert options.seconds("max_block") == 7
        assert options.consumer["bootstrap_servers"] == [broker.bootstrap_servers]
        asked, _ = hung.accept()
        asked.close()
