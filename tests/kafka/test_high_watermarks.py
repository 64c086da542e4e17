"""Where partitions end is known from what fetches brought, without asking."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaProducer
from kafka.consumer.fetcher import Fetcher

from stream_can.kafka.client.assigned import Assigned
from stream_can.kafka.client.options import Options
from tests.kafka.broker.broker import Broker
from tests.kafka.topics import create, produce, unique, wait


class TestOnePartition:
    @pytest.fixture
    def reader(self, each_broker: Broker) -> Iterator[Assigned]:
        """Reads one partition with five records from its beginning."""
        self.servers, self.name = each_broker.bootstrap_servers, unique("ends")
        self.place = self.name, 0
        create(self.servers, {self.name: {}}, partitions=1)
        self.add(5)
        reader = Assigned(Options([self.servers]))
        reader.start({self.place: 0})
        self.got = 0
        yield reader
        reader.close()

    def add(self, n: int) -> None:
        produce(self.servers, [(self.name, 0, b"k", b"v")] * n)

    def read_to(self, reader: Assigned, n: int) -> None:
        def read() -> bool:
            self.got += sum(map(len, reader.poll(100).values()))
            return self.got >= n and not reader.behind([self.place])

        wait(f"the end at {n} records", read, every=0)
        assert self.got == n

    def test_it_is_told_and_never_asked_for(
        self, reader: Assigned, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.read_to(reader, 5)
        monkeypatch.delattr(Fetcher, "_send_list_offsets_request")
        self.add(2)
        self.read_to(reader, 7)
        assert reader.spans() == {self.place: (7, 7)}

    def test_nothing_is_known_before_the_first_fetch(self, reader: Assigned) -> None:
        assert reader.behind([self.place]) == [self.place]
        assert reader.spans() == {}

    def test_an_open_transaction_is_not_to_be_read_yet(self, reader: Assigned) -> None:
        producer = KafkaProducer(bootstrap_servers=self.servers, transactional_id=self.name)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(self.name, b"open", partition=0).get(30)
        self.read_to(reader, 5)
        self.add(2)  # behind it
        reader.poll(1000)
        self.read_to(reader, 5)
        producer.commit_transaction()
        producer.close()
        self.read_to(reader, 8)

    def test_the_end_of_what_was_not_fetched_for_a_while_is_not_believed(
        self, reader: Assigned
    ) -> None:
        """Otherwise what was written meanwhile would be passed over in the order of time."""
        self.read_to(reader, 5)
        reader.hold(self.place, True)
        assert reader.poll(1000) == {}  # until no fetch is under way
        self.add(4)
        reader.hold(self.place, False)
        assert reader.behind([self.place]) == [self.place]
        self.read_to(reader, 9)

    def test_nor_is_it_after_a_seek(self, reader: Assigned) -> None:
        self.read_to(reader, 5)
        reader.start({self.place: 5})
        assert reader.behind([self.place]) == [self.place]
        self.read_to(reader, 5)
