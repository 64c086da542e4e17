"""Where partitions end is known from what fetches brought, without asking."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.consumer.fetcher import Fetcher

from stream_can.kafka import Worker
from stream_can.kafka.client.client import Client
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, Running, fill
from tests.kafka.topics import create, produce, unique, wait


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The fetchers of this process that asked brokers for ends or beginnings, once a request."""
    found: list[Any] = []
    original = Fetcher._send_list_offsets_request

    async def send(self: Any, node: Any, offsets: Any) -> Any:
        found.append(self)
        return await original(self, node, offsets)

    monkeypatch.setattr(Fetcher, "_send_list_offsets_request", send)
    return found


class TestOnePartition:
    @pytest.fixture
    def client(self, each_broker: Broker, asked: list[Any]) -> Any:
        """Reads one partition with five records from its beginning."""
        self.servers, self.name = each_broker.bootstrap_servers, unique("ends")
        create(self.servers, {self.name: {}}, partitions=1)
        self.add(5)
        client = Client([self.servers], self.name, "0", input=self.name)
        client.open()

        def assigned() -> bool:
            client.member.poll(100)
            assignment = client.member.take_rebalance()
            return assignment is not None and assignment.partitions == (0,)

        wait("assignment", assigned)
        client.member.start_at(self.name, 0, 0)
        self.got = 0
        yield client
        client.close()

    def add(self, n: int) -> None:
        produce(self.servers, [(self.name, 0, b"k", b"v")] * n)

    def lag(self, client: Client) -> int:
        return client.member.lag([(self.name, 0)])[self.name, 0]

    def read_to(self, client: Client, n: int) -> None:
        def read() -> bool:
            self.got += sum(map(len, client.member.poll(100).values()))
            return self.got >= n

        wait(f"{n} records", read, every=0)
        assert self.got == n

    def test_asked_once_and_then_told(self, client: Client, asked: list[Any]) -> None:
        asked.clear()
        assert self.lag(client) == 5
        assert len(asked) == 1
        self.read_to(client, 5)
        self.add(2)
        self.read_to(client, 7)
        assert self.lag(client) == 0
        assert len(asked) == 1

    def test_an_open_transaction_is_not_to_be_read_yet(
        self, client: Client, asked: list[Any]
    ) -> None:
        producer = KafkaProducer(bootstrap_servers=self.servers, transactional_id=self.name)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(self.name, b"open", partition=0).get(30)
        asked.clear()
        self.read_to(client, 5)
        self.add(2)  # behind it
        client.member.poll(1000)
        assert self.lag(client) == 0
        producer.commit_transaction()
        producer.close()
        self.read_to(client, 8)
        assert self.lag(client) == 0
        assert asked == []

    def test_what_was_not_fetched_for_a_while_is_asked_for(
        self, client: Client, asked: list[Any]
    ) -> None:
        self.read_to(client, 5)
        client.member.hold(self.name, 0, True)
        self.add(4)
        assert client.member.poll(1000) == {}
        client.member.hold(self.name, 0, False)
        asked.clear()
        assert self.lag(client) == 4
        assert len(asked) == 1
        self.read_to(client, 9)
        assert self.lag(client) == 0
        assert len(asked) == 1

    def test_that_there_is_no_more_is_believed_of_what_was_looked_at_since(
        self, client: Client, asked: list[Any]
    ) -> None:
        """Otherwise a label could be taken before its prediction, which was written before it."""
        self.read_to(client, 5)
        client.member.hold(self.name, 0, True)
        assert client.member.poll(1000) == {}  # until no fetch is under way
        self.add(2)
        asked.clear()
        pair = self.name, 0
        assert client.member.lag([pair], {pair: time.monotonic()}) == {pair: 2}
        assert len(asked) == 1
        assert client.member.lag([pair], {pair: time.monotonic()}) == {pair: 2}
        assert len(asked) == 1

    def test_nothing_is_known_after_a_seek(self, client: Client, asked: list[Any]) -> None:
        self.read_to(client, 5)
        client.member.start_at(self.name, 0, 2)
        asked.clear()
        assert self.lag(client) == 3
        assert len(asked) == 1


def test_catching_up_asks_nothing_and_takes_all_partitions(
    broker: Broker, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it asked whenever a side was empty, and a transaction had one or two partitions."""
    app = App(broker.bootstrap_servers, partitions=8)
    fill(app, 8_000)
    worker = Worker(app.settings(commit_every=2000, commit_interval_ms=5000, http_port=0))
    transactions: list[set[int]] = []
    commit, restore = worker.client.commit, worker._partitions.restore

    def noting_commit(offsets: Any, token: Any) -> None:
        commit(offsets, token)
        transactions.append({partition for _, partition in offsets})

    def noting_restore(assignment: Any) -> None:
        restore(assignment)
        asked.clear()

    monkeypatch.setattr(worker.client, "commit", noting_commit)
    monkeypatch.setattr(worker._partitions, "restore", noting_restore)
    running = Running(worker)
    wait("all committed", lambda: running.error or app.lag() == 0)
    fetcher = worker.client.member._consumer._fetcher
    running.stop()
    assert app.verify() == 8_000
    assert transactions[:7] == [set(range(8))] * 7
    # For the first lag of /metrics, and where one side has been read to its end.
    assert asked.count(fetcher) <= 5
