"""From release 0.2: what it left is gone on from, one worker after the other.

With real processes of both releases, and the way back: `tests.kafka.upgrade`, by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from msgspec.structs import replace

from stream_can import Corrector, snapshot
from stream_can.kafka.client import consumer as consumer_module
from stream_can.kafka.shared import pack, unpack
from stream_can.kafka.worker import Worker
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from stream_can.stream.terms import Terms
from tests.fixtures import topics
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, Running, caught_up, fill, run_once
from tests.kafka.topics import read
from tests.programs import wait


def formats(app: App) -> list[int]:
    return [
        entry.read(record.value).version for record in read(app.servers, f"{app.id}-learned", 0)
    ]


def test_the_log_stays_as_an_older_member_reads_it_until_it_has_left(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of release 0.2 says nothing of itself as it joins."""
    app = App(broker.bootstrap_servers)
    monkeypatch.setattr(consumer_module, "CommonRange", RangePartitionAssignor)
    worker = Worker(app.settings("old"))
    worker.client.others = lambda: {"itself": False}  # it knows of no other format
    old = Running(worker)
    fill(app, 100)
    caught_up(app, old)
    monkeypatch.undo()
    new = app.worker("new")
    wait("both work", lambda: old.error or new.error or len(new.worker.tasks) == 1)
    fill(app, 100, seed=1)
    caught_up(app, old, new)
    assert set(formats(app)) == {1}
    old.stop()
    wait("all at the new one", lambda: new.error or len(new.worker.tasks) == 2)
    fill(app, 100, seed=2)
    caught_up(app, new)
    new.stop()
    found = formats(app)
    begin = found.index(2)
    assert set(found[:begin]) == {1}
    assert set(found[begin:]) == {2}
    assert len(found) > begin + 1
    assert app.verify() == 100
    assert app.checked.learned == 100


OLD = Path(topics.__file__).parent / "release-0.2" / "topics.msgpack"


def test_what_release_0_2_left_is_gone_on_from(our_broker: Broker) -> None:
    """Written by a real worker of 0.2, whose outputs stay; what follows is made again, each bit."""
    app = topics.load(our_broker.bootstrap_servers, OLD)
    before = [app.outputs(p) for p in range(app.partitions)]
    begin = formats(app)
    assert (sum(map(len, before)), set(begin)) == (120, {1})
    fill(app, 100, seed=2)
    worker = run_once(app, learned=220)
    found = formats(app)
    assert set(found[len(begin) :]) == {2}
    assert worker.learned_log.replicas[0].terms.identity is not None
    assert [app.outputs(p)[: len(before[p])] for p in range(app.partitions)] == before
    assert app.verify() == 100
    assert app.checked.learned == 100


@pytest.mark.fast
def test_the_way_back_is_refused_in_plain_words() -> None:
    """Release 0.2 looks at the envelope's number first, and says to upgrade. Before, it said
    ``unreadable: Expected `int` <= 1 - at `$.shared```."""
    corrector = Corrector(["a", "b"])
    log = Replica(corrector, 7), Replica(corrector, 7, replace(Terms.of(corrector), app=bytes(16)))
    for replica, number in zip(log, (2, 3), strict=True):
        data = pack(replica)
        assert snapshot.ENVELOPE.unpack_from(data)[1] == number
        assert unpack(data).terms == replica.terms
