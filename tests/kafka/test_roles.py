"""Workers that only correct, and a learner: on a real broker."""

from __future__ import annotations

import itertools
import math
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stream_can import Corrector
from stream_can.app.metrics import Metrics
from stream_can.kafka import Worker, unplayed
from stream_can.kafka.client.guards import DeniedError, RetryError
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.headers import MARK_HEADER, PLAYED_HEADER
from stream_can.kafka.learning_role import LearningRole
from stream_can.kafka.start import start_of
from stream_can.kafka.state import corrector_key
from stream_can.kafka.stored import newest_index, newest_state
from tests.kafka.broker.broker import Served
from tests.kafka.streams import (
    COMMAND,
    STAMP,
    App,
    Running,
    caught_up,
    correctors_of,
    fill,
    label,
    more,
    tombstones,
)
from tests.kafka.topics import grow, produce, read
from tests.programs import PATIENCE, wait

PRIORS = ["a=1", "b=2", "c=6", "d=1"], ["a=2", "b=1", "c=1", "d=6"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"segments": ["carrier"]},
        {"sets": 0.8},
        {"model": "model", "version": "version", "max_lanes": 4},
        {"model": "model", "sets": 0.9, "segments": ["carrier"]},
        {"recent_mb": 0.02},
        {"label_wait": 2000, "weight": "weight"},
        {"weight": "weight", "logits": True, "prior": PRIORS[0], "sets": 0.9},
        {"rows": "multilabel"},
        {"rows": "multilabel", "recent_mb": 0.02, "ask": 0.3},
        {"rows": "multilabel", "model": "model", "version": "version", "max_lanes": 4},
    ],
    ids=str,
)
def test_every_state_and_output(broker: Served, settings: dict[str, Any]) -> None:
    """Labels before and after their predictions, twice and of nothing; the learner changes."""
    app = App(broker.bootstrap_servers, label_partitions=3, **settings)
    learner, worker = app.learner(), app.worker(learn=False)
    fill(app, 400, more=more, bad=True)
    caught_up(app, learner, worker)
    learner.stop()
    fill(app, 400, 1, first=400, more=more, bad=True, delay=-10)
    second, third = app.learner("1"), app.worker("1", learn=False)
    caught_up(app, second, worker, third)
    worker.stop()
    fill(app, 200, 2, first=800, more=more, bad=True)
    caught_up(app, second, third)
    for one in (second, third):
        one.stop()
    app.verify()
    verdict = app.checked
    state = newest_state(Readers(Options(app.given["bootstrap_servers"])), f"{app.id}-state")
    assert state is not None
    ends = {p: len(read(app.servers, app.given["input"], p)) for p in range(app.partitions)}
    assert state.index.inputs == ends
    assert verdict.outputs == 1000 + tombstones(app)
    assert verdict.dead_letters > 20
    assert verdict.states > 2
    assert verdict.labels["repeated"] > 10
    assert (verdict.labels["given up"] > 10) == ("label_wait" not in settings)
    if settings.get("recent_mb"):
        assert verdict.labels["held"] > 100
    else:
        assert sum(one.n_labels for one in verdict.correctors.values()) > 500


def test_the_next_learner_takes_up_another_class_mix(
    broker: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """It writes what it begins with, and says so in its log."""
    app = App(broker.bootstrap_servers, prior=PRIORS[0], logits=True, weight="weight")
    learner, worker = app.learner(), app.worker(learn=False)
    fill(app, 200)
    caught_up(app, learner, worker)
    for one in (learner, worker):
        one.stop()
    app.verify()
    (expected,) = correctors_of(app).values()
    expected.set_prior(PRIORS[1])
    with caplog.at_level("INFO"):
        second = app.learner("1", prior=PRIORS[1])
        second.learning()
        second.stop()
    assert "settings change with this start: {'prior': ['a=2', 'b=1', 'c=1'" in caplog.text
    (corrector,) = correctors_of(app).values()
    assert corrector.to_bytes() == expected.to_bytes()


def test_processes_that_are_killed(broker: Served, tmp_path: Path) -> None:
    """Both roles in each of two processes, and a learner of its own; killed at any moment."""
    app, chance = App(broker.bootstrap_servers, partitions=3, label_partitions=2), random.Random(4)
    commands = {"a": COMMAND, "b": COMMAND, "c": [*COMMAND[:-1], "learn"]}
    running = {name: app.process(tmp_path, name, command=of) for name, of in commands.items()}
    try:
        for turn in range(8):
            fill(app, 150, first=150 * turn, bad=True)
            time.sleep(chance.uniform(0.2, 2.0))
            name = chance.choice("abc")
            running[name].kill()
            running[name].wait()
            running[name] = app.process(tmp_path, name, command=commands[name])
        caught_up(app)
    finally:
        for one in running.values():
            one.terminate()
        codes = [one.wait(PATIENCE) for one in running.values()]
    assert codes == [0, 0, 0], (tmp_path / "a.log").read_text()
    app.verify()
    verdict = app.checked
    assert verdict.outputs == 1200 + tombstones(app)
    assert verdict.labels["learned"] + verdict.labels["learned late"] == 1200


def test_labels_are_learned_behind_dead_letters(broker: Served) -> None:
    """What nobody will send is not waited for, however late its label comes."""
    app = App(broker.bootstrap_servers, partitions=1)
    running = app.worker()
    fill(app, 20)
    produce(app.servers, [(app.given["input"], 0, b"k", b"{", [], STAMP + 100)] * 20)
    caught_up(app, running)
    late = STAMP + 10_000_000  # more than label_wait behind the last prediction
    produce(app.servers, [(app.given["labels"], 0, b"1", label("a"), [], late)])
    caught_up(app, running)
    running.stop()
    assert app.verify() == 40


def test_a_worker_says_that_nobody_has_learned(
    broker: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waited for ever and said nothing."""
    monkeypatch.setattr("stream_can.kafka.learner_watch.QUIET_SECONDS", 0.0)
    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 20)
    worker = app.worker(learn=False)
    wait("it says so", lambda: worker.error or "has no state yet" in caplog.text)
    learner = app.learner("1")
    caught_up(app, worker, learner)
    for one in (worker, learner):
        one.stop()
    assert app.verify() == 20
    assert caplog.text.count("has no state yet") == 1


def test_partitions_are_added_while_it_runs(broker: Served) -> None:
    """To one topic after the other; and an error's look at the topics comes in between."""
    app = App(broker.bootstrap_servers, partitions=1, client={"metadata_max_age_ms": 500})
    running = app.worker()
    fill(app, 20)
    caught_up(app, running)
    work = running.worker.work
    assert work is not None
    grow(app.servers, app.given["input"], 2)
    wait("left alone", lambda: work._left == [1])
    work._looked = math.inf  # not yet again
    for name in (app.given["output"], f"{app.id}-dead-letters", f"{app.id}-sent"):
        grow(app.servers, name, 2)
    work.check()
    assert work.known == 2
    work._looked = 0.0
    app.partitions = 2
    app.close()  # what asks for the lag knows of one
    fill(app, 20, 1, first=20)
    caught_up(app, running)
    running.stop()
    assert app.verify() == 40


def test_a_learner_begins_while_partitions_are_added(broker: Served) -> None:
    """Though nobody else learns, and no record of what is learned is committed by its group."""
    app = App(broker.bootstrap_servers, partitions=1)
    running = app.worker()
    fill(app, 20)
    caught_up(app, running)
    running.stop()
    grow(app.servers, f"{app.id}-dead-letters", 2)
    learner = app.learner("1")
    learner.learning()
    learner.stop()


def test_what_was_learned_can_be_forgotten(
    broker: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also beside one that learns, and where settings changed that no state outlives."""
    app = App(broker.bootstrap_servers, model="model", version="version")
    running = app.worker()
    fill(app, 200, more=more)
    caught_up(app, running)
    readers = Readers(Options(app.given["bootstrap_servers"]))
    before = newest_state(readers, f"{app.id}-state")
    assert before is not None
    assert len(before.lanes) > 1
    begun_otherwise = LearningRole(
        app.settings("1", raw="was"), start_of(app.settings("1")), Metrics()
    )
    with pytest.raises(DeniedError, match=r"--reset"):
        begun_otherwise.recovery.restore({})
    begun_otherwise.client.close(leave=False)
    worker = Worker(app.settings("anew"), corrects=False, reset=True)
    role = worker.learns
    assert role is not None
    write = role.writer.write_state
    between = [LearningRole(app.settings("2"), start_of(app.settings("2")), Metrics())]

    def taken_back(*given: Any) -> tuple[int, int]:
        """As the one that learns may do, at once: before, it ended the other in half of the
        cases."""
        if between:
            other = between.pop()
            other.client.transaction.take_over()
            other.client.close(leave=False)
        return write(*given)

    monkeypatch.setattr(role.writer, "write_state", taken_back)
    anew = Running(worker)

    def newest() -> Any:
        found = newest_index(readers, f"{app.id}-state")
        return found and found[1]

    index = wait("anew", lambda: (one := newest()).mark != before.index.mark and one)
    assert index.lanes == []
    kept = {one.key: one.value for one in read(app.servers, f"{app.id}-state", 0)}
    assert {kept[corrector_key(name)] for name in before.lanes} == {None}
    # A worker sends under the mark of before for a moment, and somebody else under his own.
    caplog.clear()
    produce(app.servers, [
        (f"{app.id}-sent", 0, None, b"", [(MARK_HEADER, mark), (PLAYED_HEADER, b"0")], STAMP)
        for mark in (before.index.mark.encode(), b"no")
    ])  # fmt: skip
    fill(app, 100, 1, first=200, more=more)
    caught_up(app, running, anew)
    sent = read(app.servers, f"{app.id}-sent", 0)
    (others_at,) = (one.offset for one in sent if (MARK_HEADER, b"no") in one.headers)
    left_out = re.findall(r"-sent-0 offset (\d+): header stream-can-mark is not", caplog.text)
    assert {*left_out} == {str(others_at)}
    for one in (running, anew):
        one.stop()
    after = newest_state(readers, f"{app.id}-state")
    readers.close()
    assert after is not None
    assert after.index.mark == index.mark
    labels = sum(Corrector.from_bytes(data).n_labels for data in after.lanes.values())
    assert 50 < labels <= 100
    assert sum(after.index.inputs.values()) == 300


def test_a_start_over_that_takes_a_moment_is_left_alone(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that learns took its transactional id back within a second, ten times of ten."""
    app, over = App(broker.bootstrap_servers), threading.Event()
    running = app.worker()

    def traffic() -> None:
        for first in itertools.count(0, 20):
            if over.wait(0.02):
                return
            fill(app, 20, 20, first=first)

    begun = Worker(app.settings("anew"), corrects=False, reset=True)
    assert begun.learns is not None
    first_state = begun.learns.first_state
    keep = first_state._keep_deferred

    def keep_slowly(learning: Any) -> None:
        """As beside much traffic, and on a machine with other work."""
        time.sleep(1.5)
        keep(learning)

    monkeypatch.setattr(first_state, "_keep_deferred", keep_slowly)
    with ThreadPoolExecutor(1) as pool:
        try:
            sending = pool.submit(traffic)
            wait("it learns", lambda: running.n_labels() > 100)
            anew = Running(begun)
            wait("begun anew", lambda: anew.error or begun.learns.committed)
            assert anew.error is None
        finally:
            over.set()
        sending.result()
    for one in (running, anew):
        one.stop()


def test_what_fails_for_a_moment_does_not_end_learning(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: half begun, it learned no more; and a topic of no partitions was a division by 0."""
    opened, partitions = unplayed.Assigned, Readers.partitions
    fails = {"begin": 1, "dead-letters": 1}

    def open_(options: Options) -> Any:
        if fails["begin"]:
            fails["begin"] -= 1
            raise RetryError("no broker answers")
        return opened(options)

    def partitions_of(self: Readers, topic: str) -> int:
        if topic.endswith("dead-letters") and fails["dead-letters"]:
            fails["dead-letters"] -= 1
            return 0
        return partitions(self, topic)

    monkeypatch.setattr(unplayed, "Assigned", open_)
    monkeypatch.setattr(Readers, "partitions", partitions_of)
    app = App(broker.bootstrap_servers)
    fill(app, 200, bad=True)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    assert running.worker.health.cannot_learn is None
    assert fails == {"begin": 0, "dead-letters": 0}
    app.verify()
    assert app.checked.labels["learned"] + app.checked.labels["learned late"] == 200
