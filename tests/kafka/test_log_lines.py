"""What the log says to the one on call: what is started, firsts, and who is away."""

from __future__ import annotations

import random
import time

import pytest

from stream_can.kafka import learner_lag, learner_watch
from stream_can.version import __version__
from tests.kafka.broker.broker import Served
from tests.kafka.streams import App, caught_up, fill, prediction
from tests.kafka.topics import produce
from tests.programs import wait


def test_a_start_and_the_first_of_each_kind_are_named(
    broker: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="stream_can")
    app = App(broker.bootstrap_servers, partitions=1, http_port=0)
    topic, labels, now = app.given["input"], app.given["labels"], int(1000 * time.time())
    _, value, _ = prediction(random.Random(0), 0)
    produce(app.servers, [(topic, 0, b"k", value, [], now)])
    produce(app.servers, [(topic, 0, b"bad", b"{", [], now)] * 2)
    produce(app.servers, [(topic, 0, None, value, [], now)] * 3)
    produce(app.servers, [(labels, 0, b"k", b'{"label": "no class"}', [], now)] * 2)
    produce(app.servers, [(labels, 0, b"k", None, [], now)] * 4)
    running = app.worker()
    caught_up(app, running)
    status_report = running.worker.status_report
    wait("counted", lambda: status_report.status().hour.without_id == 3)
    running.stop()
    assert (
        f"stream_can {__version__}: application '{app.id}', instance '0', corrects '{topic}' to"
        f" '{app.given['output']}', may learn, labels from '{labels}', 4 classes"
    ) in caplog.text
    assert "page http://127.0.0.1:" in caplog.text
    assert caplog.text.count(f"{topic}-0 offset 1: a dead letter: not a JSON object") == 1
    assert caplog.text.count("a dead letter: ") == 2  # the first of each topic
    says = "no id (the key, or as id says), so no label finds it"
    assert caplog.text.count(f"{topic}-0 offset 3: {says}") == 1
    text = running.worker.metrics.registry.get_sample_value
    assert text("stream_can_labels_total", {"result": "tombstone"}) == 4
    assert text("stream_can_labels_total", {"result": "dead_letter"}) == 2
    assert text("stream_can_predictions_without_id_total") == 3


def test_nobody_is_missed_after_a_quiet_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time counts from what was sent first after the newest state, not from that state."""
    now = 1000.0
    monkeypatch.setattr(learner_watch.time, "monotonic", lambda: now)
    watch = learner_watch.LearnerWatch("states")
    watch.sent()
    assert watch.look(now + 1) == 0
    now += 3600
    for _ in range(2):  # further records are no news
        watch.sent()
        assert watch.look(1001.0) == 0
        now += learner_watch.LOST_SECONDS
    assert watch.look(1001.0) == 2 * learner_watch.LOST_SECONDS
    assert watch.look(now) == 0


def test_who_is_away_is_said(
    broker: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner, in the log of a worker, which says when it is back; and workers, on the page of
    the learner."""
    caplog.set_level("INFO", logger="stream_can")
    monkeypatch.setattr(learner_watch, "LOST_SECONDS", 1.0)
    monkeypatch.setattr(learner_lag, "UNOWNED_SECONDS", 1.0)
    monkeypatch.setattr(learner_lag, "LAG_SECONDS", 0.1)
    app = App(broker.bootstrap_servers, partitions=2)
    learner, worker = app.learner(), app.worker("1", learn=False)
    fill(app, 40)
    caught_up(app, learner, worker)
    learner.stop()

    def one_more() -> bool:
        now = int(1000 * time.time())
        _, value, _ = prediction(random.Random(0), 0)
        produce(app.servers, [(app.given["input"], 0, b"k", value, [], now)])
        time.sleep(0.2)
        return "nobody learns; correcting goes on by the newest one" in caplog.text

    wait("the loss is said", one_more)
    problems = worker.worker.status_report.status().problems
    assert any(problem.what.startswith("Nobody learns: ") for problem in problems)
    learner = app.learner()
    wait("and that one is back", lambda: "states are written again" in caplog.text)
    worker.stop()
    assert learner.worker.status_report.status().unowned == {}
    fill(app, 10, 1, first=100)
    wait("nobody's", lambda: learner.worker.status_report.status().unowned == {0: 5, 1: 5})
    worker = app.worker("1", learn=False)
    wait("somebody's", lambda: learner.worker.status_report.status().unowned == {})
    worker.stop()
    learner.stop()
