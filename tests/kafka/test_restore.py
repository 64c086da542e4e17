"""Restarting: a worker goes on exactly where it was, or says why it cannot, and the way out."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from stream_can import Corrector
from stream_can.kafka import FencedError, RetryError
from stream_can.kafka.client.member import Member
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.worker import Worker
from tests.kafka.broker.broker import Broker
from tests.kafka.stored import point, refused, store, worked
from tests.kafka.streams import CLASSES, App, caught_up, fill, run_once
from tests.kafka.topics import create, delete, produce, read
from tests.programs import PATIENCE, wait


def test_recent_predictions_survive_a_restart(broker: Broker) -> None:
    """Labels that come after the restart find the predictions from before it."""
    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 500, delay=1_000_000_000)
    produced = read(app.servers, app.given["labels"], 0)
    assert len(produced) == 500
    run_once(app)
    fill(app, 500, seed=1)
    worker = run_once(app)
    assert app.verify() == 1000
    counts = worker.tasks[0].counts
    assert (counts.labels, counts.matched, counts.unmatched) == (1000, 1000, 0)


def test_restart_after_kill_9(broker: Broker, tmp_path: Path) -> None:
    """Killed in the middle of its work three times, the next goes on before the session ends."""
    longer_than_we_wait = {"session_timeout_ms": 600_000}
    app = App(broker.bootstrap_servers, partitions=2, client=longer_than_we_wait)
    fill(app, 500)
    process = app.process(tmp_path)
    seconds = []
    try:
        wait("the first commit", lambda: app.lag() == 0)
        for seed in range(1, 4):
            fill(app, 500, seed)
            process.kill()
            process.wait()
            before = app.lag()
            begin = time.monotonic()
            process = app.process(tmp_path)
            wait("a commit", lambda behind=before: app.lag() < behind or behind == 0, every=0.02)
            seconds.append(time.monotonic() - begin)
        caught_up(app)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    print(f"kill -9 to the next commit: {', '.join(f'{s:.1f}' for s in seconds)} s")
    assert app.verify() == 2000


def test_sigterm_hands_over_at_once(broker: Broker, tmp_path: Path) -> None:
    slow = {"session_timeout_ms": 300_000}
    app = App(broker.bootstrap_servers, partitions=2, client=slow)
    fill(app, 200)
    first = app.process(tmp_path, "first")
    try:
        wait("the first", lambda: app.lag() == 0)
        second = app.worker("second", client={**app.given["client"], **slow})
        wait("two partitions shared", lambda: second.error or len(second.worker.tasks) == 1)
        first.send_signal(signal.SIGTERM)
        assert first.wait(PATIENCE) == 0
        wait("both at the second", lambda: second.error or len(second.worker.tasks) == 2)
    finally:
        first.kill()
        first.wait()
    fill(app, 200, seed=1)
    caught_up(app, second)
    second.stop()
    assert app.verify() == 400


def test_two_processes_with_one_name_end_one_of_them(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    fill(app, 100)
    one = app.worker("same")
    caught_up(app, one)
    two = app.worker("same")
    rng, seed = random.Random(0), 1
    deadline = time.monotonic() + PATIENCE
    while one.thread.is_alive() and two.thread.is_alive() and time.monotonic() < deadline:
        fill(app, rng.randrange(5, 20), seed)
        seed += 1
        time.sleep(0.1)
    ended, alive = (one, two) if one.error else (two, one)
    assert isinstance(ended.error, FencedError)
    assert "another process run with instance 'same'" in str(ended.error)
    caught_up(app, alive)
    alive.stop()
    app.verify()


@pytest.mark.release
def test_start_latest(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, start="latest")
    fill(app, 100)
    running = app.worker()
    wait("assignment", lambda: running.error or running.worker.tasks)
    fill(app, 50, seed=1)
    wait("outputs", lambda: running.error or len(app.outputs(0)) == 50)
    running.stop()


@pytest.mark.release
def test_start_from_a_snapshot(broker: Broker, tmp_path: Path) -> None:
    corrector = Corrector(["a", "b", "c", "d"], half_life=100)
    for i in range(200):
        corrector.learn_one([0.25, 0.25, 0.25, 0.25], "abcd"[i % 2])
    path = tmp_path / "state.bin"
    path.write_bytes(corrector.to_bytes())
    app = App(broker.bootstrap_servers, classes=None, classes_from_file=str(path))
    fill(app, 100)
    run_once(app)
    assert app.verify() == 100
    (log,) = app.checked.replicas.values()
    assert log.corrector.n_labels == 300
    assert log.corrector.settings["half_life"] == 100


@pytest.mark.release
def test_a_restore_that_fails_halfway_begins_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two partitions is restored when the brokers go away."""
    app = App(broker.bootstrap_servers, partitions=2)
    fill(app, 200)
    run_once(app)
    fill(app, 200, seed=1)
    read_at, calls = Readers.read_at, []

    def away(self: Readers, *where: Any) -> Any:
        calls.append(where)
        if len(calls) == 2:
            raise RetryError("Unable to bootstrap")
        return read_at(self, *where)

    monkeypatch.setattr(Readers, "read_at", away)
    run_once(app)
    assert len(calls) == 4
    assert app.verify() == 400


@pytest.mark.release
class TestRefused:
    """What is stored does not fit together. Each says what, and `reset_state` is the way out."""

    @pytest.fixture
    def app(self, broker: Broker) -> App:
        return worked(broker)

    def goes_on(self, app: App, **changes: Any) -> None:
        before = len(app.outputs(0))
        fill(app, 20, seed=9)
        run_once(app, reset_state=True, **changes)
        assert len(app.outputs(0)) == before + 20

    def test_truncated(self, app: App) -> None:
        snapshot = read(app.servers, f"{app.id}-state", 0)[-1].value
        point(app, store(app, snapshot[:-7]))
        refused(app, r"cut short .*--reset-state")
        self.goes_on(app)

    def test_foreign(self, app: App) -> None:
        refused(app, r"classes differ at 3.*--reset-state", classes=["a", "b", "c", "e"])

    def test_newer(self, app: App) -> None:
        snapshot = bytearray(read(app.servers, f"{app.id}-state", 0)[-1].value)
        snapshot[8] = 99  # the version
        point(app, store(app, bytes(snapshot)))
        refused(app, r"format 99.*use the version that wrote it")

    def test_missing(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stream_can.kafka.restore.SETTLE_SECONDS", 1)
        point(app, 10_000)
        refused(app, r"are not at 10000 in .* any more; --reset-state")
        self.goes_on(app)

    def test_of_another_offset(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stream_can.kafka.restore.SETTLE_SECONDS", 1)
        admin = KafkaAdminClient(bootstrap_servers=app.servers)
        tp = TopicPartition(app.given["input"], 0)
        so = json.loads(admin.list_group_offsets([app.id])[app.id][tp].metadata)["so"]
        admin.close()
        point(app, so, offset=50)
        refused(app, r"go on at 100, not at the committed offset 50")

    def test_committed_by_something_else(self, app: App) -> None:
        point(app, None)
        refused(app, "no pointer to positions")

    def test_expired_offsets(self, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stream_can.kafka.restore.SETTLE_SECONDS", 1)
        admin = KafkaAdminClient(bootstrap_servers=app.servers)
        wait("an empty group", lambda: not admin.describe_groups([app.id])[app.id]["members"])
        admin.delete_groups([app.id])
        admin.close()
        refused(app, r"no committed offset \(they expire")

    def test_a_gap_by_retention(self, app: App) -> None:
        fill(app, 100, seed=1)
        admin = KafkaAdminClient(bootstrap_servers=app.servers)
        admin.delete_records({TopicPartition(app.given["input"], 0): 150})
        admin.close()
        refused(app, r"retention deleted offsets 100 to 149 .*--skip-gap")
        run_once(app, skip_gap=True)
        assert len(app.outputs(0)) == 150

    def test_a_labels_topic_with_another_partition_count(self, broker: Broker) -> None:
        app = App(broker.bootstrap_servers, configs={"labels": {"partitions": 3}})
        refused(app, "has 3 partitions, input .* has 2")


@pytest.mark.release
def test_check_finds_nothing_wrong_and_consumes_nothing(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    fill(app, 10)
    assert Worker(app.settings(check=True)).check() == 2
    assert app.outputs(0) == []


@pytest.mark.release
def test_another_owner_commits_for_the_first_time_while_we_ask(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was committed when we asked, but a snapshot is there when we look: ask again."""
    app = worked(broker)
    committed, calls = Member.committed, []

    def before(self: Member, partition: int) -> Any:
        calls.append(partition)
        found = committed(self, partition)
        return dict.fromkeys(found) if len(calls) == 1 else found

    monkeypatch.setattr(Member, "committed", before)
    fill(app, 100, seed=1)
    run_once(app)
    assert len(calls) == 2
    assert app.verify() == 200


@pytest.mark.release
def test_the_end_of_a_broker_just_back_may_lag(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end before the committed offset is asked for again before anything is refused."""
    app = worked(broker)
    span, calls = Member.span, []

    def behind(self: Member, topic: str, partition: int) -> tuple[int, int]:
        calls.append(topic)
        return (0, 40) if len(calls) < 4 else span(self, topic, partition)

    monkeypatch.setattr(Member, "span", behind)
    fill(app, 100, seed=1)
    worker = run_once(app)
    assert app.verify() == 200
    assert worker.tasks[0].counts.unmatched == 0
    monkeypatch.setattr(Member, "span", lambda *_: (0, 40))
    monkeypatch.setattr("stream_can.kafka.restore.SETTLE_SECONDS", 0.5)
    refused(app, r"committed offset 200 of .* is behind its end 40.*--reset-state")


@pytest.mark.release
def test_other_train_counts_are_not_in_force_and_that_is_said(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(broker.bootstrap_servers, labels=False, train_counts=[1, 2, 3, 4])

    def run(seed: int, **changes: Any) -> list[str]:
        caplog.clear()
        fill(app, 50, seed)
        run_once(app, **changes)
        return [r.getMessage() for r in caplog.records if "train_counts" in r.getMessage()]

    assert run(0) == run(1) == run(2, train_counts=None) == []
    (said,) = run(3, train_counts=[4, 3, 2, 1])  # once, and not for each partition
    assert "[0.3571 0.2857 0.2143 0.1429]" in said
    assert "began with [0.1429 0.2143 0.2857 0.3571]" in said
    assert app.verify() == 200


@pytest.mark.release
class TestPartitionsAreAdded:
    """To the input, while a worker runs."""

    def grow(self, app: App, *kinds: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=app.servers)
        admin.create_partitions({f"{app.id}-{kind}": 3 for kind in kinds})
        admin.close()
        app.partitions = 3

    @pytest.mark.parametrize("labels", [False, True])
    def test_the_others_get_them_where_the_worker_may(self, broker: Broker, labels: bool) -> None:
        soon = {"metadata_max_age_ms": 500}
        app = App(broker.bootstrap_servers, labels=labels, create_topics=True, client=soon)
        fill(app, 100)
        running = app.worker()
        caught_up(app, running)
        self.grow(app, "in")
        if labels:
            wait("labels too", lambda: running.error or len(running.worker.tasks) == 3)
        fill(app, 150, seed=1)
        caught_up(app, running)
        running.stop()
        assert app.verify() == 250

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("last", "restart"), [("out", False), ("state", True), ("labels", True), ("in", True)]
    )
    def test_in_any_order(
        self, broker: Broker, caplog: pytest.LogCaptureFixture, last: str, restart: bool
    ) -> None:
        """Those that all topics have are worked, the others when the last topic has them too.
        Before, the worker ended, and a start in between was refused."""
        app = App(broker.bootstrap_servers, client={"metadata_max_age_ms": 500})
        fill(app, 100)
        running = app.worker()
        caught_up(app, running)
        kinds = ["out", "dead-letters", "state", "labels", "in"]
        self.grow(app, *(kind for kind in kinds if kind != last))
        app.partitions = 2
        if restart:
            running.stop()
            caplog.clear()
            running = app.worker()

        def said() -> list[str]:
            found = [r.getMessage() for r in caplog.records]
            return [text for text in found if "different numbers of part" in text]

        wait("left alone", lambda: running.error or said())
        for seed in range(1, 4):
            fill(app, 20, seed=seed)
            caught_up(app, running)
        assert sorted(running.worker.tasks) == [0, 1]
        app.partitions = 3
        if last not in ("labels", "in"):  # read once there is an output for it
            fill(app, 30, seed=4)
        self.grow(app, last)
        wait("three", lambda: running.error or len(running.worker.tasks) == 3)
        fill(app, 150, seed=5)
        caught_up(app, running)
        running.stop()
        assert len(said()) == len(set(said()))  # each once, though looked at in between
        assert app.verify() == (340 if last not in ("labels", "in") else 310)

    def test_a_producer_that_has_not_heard_of_them_is_made_anew(self, broker: Broker) -> None:
        """Labels alone came to the new partition, so its position was the first to be written
        there. Before, the worker ended with "this is a bug"."""
        app = App(broker.bootstrap_servers, client={"metadata_max_age_ms": 500})
        fill(app, 100)
        running = app.worker()
        caught_up(app, running)
        producer = running.worker.client.transaction._producer
        producer._metadata.config["metadata_max_age_ms"] = 10**9
        wait("it asks no more", lambda: producer._metadata.ttl() > 10**6)
        self.grow(app, "out", "dead-letters", "state", "labels", "in")
        late = json.dumps({"id": "of nothing", "label": CLASSES[0]}).encode()
        produce(app.servers, [(app.given["labels"], 2, b"of nothing", late)])
        wait("three", lambda: running.error or len(running.worker.tasks) == 3)

        def taken() -> bool:
            task = running.worker.tasks.get(2)  # none while all are restored
            return task is not None and task.counts.labels == 1

        wait("the label", lambda: running.error or taken())
        fill(app, 150, seed=1)
        caught_up(app, running)
        running.stop()
        assert app.verify() == 250

    def test_a_topic_that_was_made_anew_with_fewer_is_refused(self, broker: Broker) -> None:
        app = App(broker.bootstrap_servers)
        fill(app, 100)
        run_once(app)
        delete(app.servers, f"{app.id}-dead-letters")
        create(app.servers, {f"{app.id}-dead-letters": {}}, partitions=1)
        refused(app, r"dead-letters' has 1 partitions, input .* has 2; they must be equal")

    @pytest.mark.long
    @pytest.mark.parametrize("first", ["labels", "in"])
    def test_labels_and_input_in_either_order(self, broker: Broker, first: str) -> None:
        """Meanwhile the worker goes on with those that both have. Before, it ended."""
        app = App(broker.bootstrap_servers, client={"metadata_max_age_ms": 500})
        fill(app, 100)
        running = app.worker()
        caught_up(app, running)
        self.grow(app, "out", "dead-letters", "state")
        self.grow(app, first)
        app.partitions = 2
        for seed in range(1, 5):  # several looks at the topics
            fill(app, 20, seed=seed)
            caught_up(app, running)
            time.sleep(0.5)
        running.worker.client.member.ask_again()  # a rebalance, and what it looks at
        fill(app, 20, seed=5)
        caught_up(app, running)
        assert running.error is None
        assert sorted(running.worker.tasks) == [0, 1]
        self.grow(app, "in" if first == "labels" else "labels")
        wait("three", lambda: running.error or len(running.worker.tasks) == 3)
        fill(app, 150, seed=6)
        caught_up(app, running)
        running.stop()
        assert app.verify() == 350
