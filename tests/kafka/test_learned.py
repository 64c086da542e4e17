"""What is learned together: by every partition, through a log that may stall, end or be refused."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from stream_can import Corrector
from stream_can.kafka import DeniedError
from stream_can.kafka.client.log import LogReader
from stream_can.kafka.client.options import Options
from stream_can.kafka.newest import newest
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from tests.kafka.broker.broker import Broker
from tests.kafka.offline import learned as made_from
from tests.kafka.stored import refused, worked
from tests.kafka.streams import (
    CLASSES,
    STAMP,
    App,
    caught_up,
    fill,
    label,
    prediction,
    run_once,
)
from tests.kafka.topics import create, produce, read
from tests.programs import wait

pytestmark = pytest.mark.release


def learned(running: Any, number: int = 0) -> Corrector:
    return running.replica(number).corrector


def changed(app: App, partition: int) -> int:
    """How many outputs differ from what came in by more than a worker without labels changes."""
    fresh, found = Corrector(CLASSES), 0
    for record in app.outputs(partition):
        message = json.loads(record.value)
        before = fresh.correct_one(message["probs_raw"])
        found += max(abs(before - message["probs"])) > 0.02
    return found


@pytest.mark.parametrize("learn", ["together", "apart"])
def test_labels_of_one_partition(broker: Broker, learn: str) -> None:
    """Together the other partition learns from them too; apart it does not."""
    app = App(broker.bootstrap_servers, learn=learn)
    rng, records = random.Random(1), []
    for i in range(2000):
        key, value, truth = prediction(rng, i)
        partition, stamp = i % 2, STAMP + i
        records.append((app.given["input"], partition, key, value, [], stamp))
        if partition == 0:
            records.append((app.given["labels"], 0, key, label(truth), [], stamp + 40))
    running = app.worker()
    for begin in range(0, len(records), 500):
        produce(app.servers, records[begin : begin + 500])
        caught_up(app, running)
        wait("learned", lambda: not running.error and learned(running).n_labels > 0)
    running.stop()
    assert app.verify() == 2000
    assert changed(app, 0) > 100
    assert (changed(app, 1) > 100) == (learn == "together")
    assert app.checked.learned == 1000


def test_a_log_that_stalls_holds_back_learning_and_nothing_else(broker: Broker) -> None:
    """A reader stops at the first open transaction, whoever's it is."""
    app = App(broker.bootstrap_servers)
    running = app.worker()
    fill(app, 200)
    caught_up(app, running)
    wait("all learned", lambda: learned(running).n_labels == 200)
    stalls = KafkaProducer(bootstrap_servers=app.servers, transactional_id=f"{app.id}-other")
    stalls.init_transactions()
    stalls.begin_transaction()
    stalls.send(f"{app.id}-learned", b"never committed").get(10)
    fill(app, 400, seed=1)
    caught_up(app, running)  # corrected and committed all the same
    assert learned(running).n_labels == 200
    stalls.abort_transaction()
    stalls.close()
    wait("all learned", lambda: learned(running).n_labels == 600)
    running.stop()
    assert app.verify() == 600


def test_settings_that_change_do_so_in_the_log(broker: Broker) -> None:
    """A worker that runs follows one that starts with others, once."""
    app = App(broker.bootstrap_servers)
    fill(app, 300)
    old = app.worker("old")
    caught_up(app, old)
    fill(app, 300, seed=1)
    new = app.worker("new", half_life=50.0)
    wait("followed", lambda: learned(old).settings["half_life"] == 50.0)
    caught_up(app, old, new)
    new.stop()
    again = app.worker("new", half_life=50.0)
    fill(app, 300, seed=2)
    caught_up(app, old, again)
    again.stop()
    old.stop()
    log = [entry.read(record.value) for record in read(app.servers, f"{app.id}-learned", 0)]
    assert [one.settings for one in log if one.settings] == [{"half_life": 50.0}]
    assert app.verify() == 900


def test_a_log_that_begins_anew_under_two_workers(broker: Broker) -> None:
    """Both give up what is open and go on with the new start: nothing is lost, twice or mixed."""
    app = App(broker.bootstrap_servers)
    one, two = app.worker("one"), app.worker("two")
    fill(app, 400)
    caught_up(app, one, two)
    identity = one.worker.start.identity
    begin = entry.start(Corrector(CLASSES).to_bytes(), reset=True, identity=identity)
    for seed in (1, 2):
        fill(app, 1000, seed=seed)
        produce(app.servers, [(f"{app.id}-learned", 0, None, begin)])
    caught_up(app, one, two)
    fill(app, 400, seed=3)
    caught_up(app, one, two)
    wait("all learned", lambda: learned(one).n_labels == learned(two).n_labels >= 400)
    log = read(app.servers, f"{app.id}-learned", 0)
    anew = [record.offset for record in log if record.value == begin]
    assert {one.replica().epoch, two.replica().epoch} == {anew[-1] + 1}
    assert learned(one).to_bytes() == learned(two).to_bytes()
    one.stop()
    two.stop()
    assert app.verify() == 2800
    assert app.checked.learned == 2800


def test_a_reset_with_other_classes_ends_those_who_have_the_old_ones(broker: Broker) -> None:
    """And no label is learned as another class, before or after."""
    app = App(broker.bootstrap_servers)
    swapped = ["b", "a", *CLASSES[2:]]
    old = app.worker("old")
    fill(app, 400)
    caught_up(app, old)
    fill(app, 2000, seed=1)
    new = app.worker("new", classes=swapped, reset_state=True, for_everyone=True)
    with pytest.raises(DeniedError, match=r"-learned'.*classes differ at 0: it has 'b', expected"):
        old.join()
    fill(app, 400, seed=2)
    caught_up(app, new)
    new.stop()
    topic = f"{app.id}-learned"
    log = [(record, entry.read(record.value)) for record in read(app.servers, topic, 0)]
    (anew,) = [record.offset for record, one in log if one.reset]
    told = {p: {r.offset: r for r in read(app.servers, app.given["labels"], p)} for p in (0, 1)}
    n = 0
    for _, one in log:
        names = swapped if one.folded_to > anew else CLASSES
        for part in one.parts:
            columns = np.frombuffer(part.classes, "<i4")
            for at, column in zip(np.frombuffer(part.offsets, "<i8"), columns, strict=True):
                said = json.loads(told[part.partition][at].value)["label"]
                assert said == names[column if column >= 0 else ~column]
                n += 1
    assert n == 2800
    replica, waiting = Replica(), [record for record, _ in log]
    outputs = [record for p in (0, 1) for record in app.outputs(p)]
    assert len(outputs) == 2800
    for record in sorted(outputs, key=made_from):
        while waiting and waiting[0].offset < made_from(record):
            replica.fold(waiting.pop(0))
        message = json.loads(record.value)
        assert message["probs"] == replica.corrector.correct_one(message["probs_raw"]).tolist()


def test_many_labels_make_several_entries(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_can.stream.entry.entries.__defaults__", (1_000, None))
    app = App(broker.bootstrap_servers)
    fill(app, 1000)
    run_once(app)
    assert app.verify() == 1000
    assert app.checked.entries > 20


class TestRefused:
    """The log and what stands about it do not fit together."""

    @pytest.fixture
    def app(self, broker: Broker) -> App:
        return worked(broker)

    def goes_on(self, app: App, seed: int = 5, **changes: Any) -> None:
        before = len(app.outputs(0))
        fill(app, 20, seed=seed)
        run_once(app, **changes)
        assert len(app.outputs(0)) == before + 20

    def test_a_new_log(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stream_can.kafka.restore.SETTLE_SECONDS", 1)
        admin = KafkaAdminClient(bootstrap_servers=app.servers)
        admin.delete_topics([f"{app.id}-learned"])
        admin.close()
        wait("deleted", lambda: f"{app.id}-learned" not in topics(app))
        create(app.servers, {f"{app.id}-learned": {}}, partitions=1)
        refused(app, r"of '.*-learned': the shared record .* is of offset .* ends at .*--reset-s")
        self.goes_on(app, reset_state=True, learned=120)  # from the newest shared record
        # It finds nothing wrong any more.
        self.goes_on(app, seed=6, reset_state=True, learned=140)

    def test_retention_has_passed_the_shared_record(self, app: App) -> None:
        fill(app, 100, seed=1)
        running = app.worker()
        caught_up(app, running)
        shared = newest(f"{app.id}-state", [app.servers])["shared"][1]["learned"]
        running.worker.learned_log._shared[0] = (1 << 62, 0.0)  # it ends without another
        running.stop()
        end = read(app.servers, f"{app.id}-learned", 0)[-1].offset + 1
        assert shared < end
        admin = KafkaAdminClient(bootstrap_servers=app.servers)
        admin.delete_records({TopicPartition(f"{app.id}-learned", 0): end})
        admin.close()
        refused(app, rf"retention deleted offsets {shared} to {end - 1} .*--skip-gap")
        self.goes_on(app, skip_gap=True)
        self.goes_on(app, seed=6)

    def test_other_classes(self, app: App) -> None:
        refused(app, r"classes differ at 3.*--reset-state", classes=["a", "b", "c", "e"])


def topics(app: App) -> set[str]:
    admin = KafkaAdminClient(bootstrap_servers=app.servers)
    try:
        return set(admin.list_topics())
    finally:
        admin.close()


def test_a_log_that_cannot_be_reached_holds_nobody_up() -> None:
    reader = LogReader(Options(["127.0.0.1:9"], {"bootstrap_timeout_ms": 500}), "log")
    reader.read({0: 0})
    try:
        for _ in range(100):
            assert reader.take() == {}
    finally:
        reader.close()


def test_two_workers_that_begin_a_log_at_once(broker: Broker) -> None:
    """The first start counts, and both fold the same."""
    app = App(broker.bootstrap_servers)
    one, two = app.worker("one", half_life=40.0), app.worker("two", half_life=40.0)
    fill(app, 400)
    caught_up(app, one, two)
    wait("all learned", lambda: learned(one).n_labels == learned(two).n_labels == 400)
    assert learned(one).to_bytes() == learned(two).to_bytes()
    one.stop()
    two.stop()
    assert app.verify() == 400


def test_a_worker_of_the_wrong_mode_is_refused(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    running = app.worker(learn="apart")
    with pytest.raises(DeniedError, match="'apart' as many as the input, 2"):
        running.join()
