"""Labels wait for partitions that are behind others."""

from __future__ import annotations

import math
import random
import threading
from typing import Any

import pytest

from stream_can.kafka import learned_time, unplayed
from stream_can.kafka.client.guards import RetryError
from stream_can.kafka.correcting_role import CorrectingRole
from stream_can.kafka.learned_time import HandedOver, LearnedTime
from tests.kafka.broker.broker import Served
from tests.kafka.streams import (
    STAMP,
    App,
    caught_up,
    fill,
    label,
    prediction,
    run_once,
)
from tests.kafka.topics import produce
from tests.programs import wait

WAIT, NEAR = 100.0, 50.0
ROWS = 400


class Input:
    """Partitions of records by their times, learned up to some offset of each."""

    def __init__(self, *times: list[float]) -> None:
        self.times = times
        self.inputs = dict.fromkeys(range(len(times)), 0)
        self.behind = LearnedTime(self._ends, self._following, WAIT)
        self.asked = 0
        self.asked_next: list[int] = []

    def _ends(self, partitions: list[int]) -> dict[int, int]:
        self.asked += 1
        return {p: len(self.times[p]) for p in partitions}

    def _following(self, partition: int, offset: int) -> float | None:
        self.asked_next.append(partition)
        return next(iter(self.times[partition][offset:]), None)

    def until(self, near: float = NEAR) -> float:
        learned = {p: self.times[p][:n] for p, n in self.inputs.items()}
        latest = {p: max(some) for p, some in learned.items() if some}
        return self.behind.until(self.inputs, latest, near)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(learned_time.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.fast
def test_until_is_where_the_slowest_is(now: list[float]) -> None:
    found = Input([0.0, 500, 1000, 1500], [10.0, 510, 910], [20.0])
    assert found.until() == -math.inf  # nothing is learned
    found.inputs = {0: 3, 1: 1, 2: 1}
    assert found.until() == 10  # of partition 2 nothing is left
    found.inputs = {0: 3, 1: 2, 2: 1}
    assert found.until() == 510
    found.inputs = {0: 4, 1: 3, 2: 1}
    assert found.until() == math.inf  # nothing is left at all


@pytest.mark.fast
def test_in_a_backlog_ends_are_asked_for_once(now: list[float]) -> None:
    found = Input([float(t) for t in range(1000)], [float(t) for t in range(500)])
    for n in range(0, 500, 10):
        found.inputs = {0: n, 1: n}
        found.until()
    assert found.asked == 1
    found.inputs = {0: 500, 1: 500}
    found.times[1].append(500.5)  # more than there was
    assert found.until(0) == 499
    assert found.asked == 2


@pytest.mark.fast
def test_a_partition_of_little_traffic_is_not_behind(now: list[float]) -> None:
    found = Input([float(t) for t in range(1000)], [10.0, 998.5])
    found.inputs = {0: 1000, 1: 1}  # one record, which has just come
    assert found.until() == 999 - NEAR
    assert found.until(0) == 10
    found = Input([float(t) for t in range(1000)], [10.0, 900])
    found.inputs = {0: 1000, 1: 1}
    assert found.until() == 10


@pytest.mark.fast
def test_the_slowest_that_is_behind_decides_without_asking_for_others(now: list[float]) -> None:
    """With each state of a backlog all were asked: of 100 partitions that is 100 requests."""
    found = Input(*([float(t) for t in range(p, 1000)] for p in (0, 5, 3)), [1.0, 900, 901])
    found.inputs = {0: 500, 1: 200, 2: 300, 3: 1}
    assert found.until(0) == 204  # nothing of the last comes before
    assert found.asked_next == [3, 1]


@pytest.mark.fast
def test_a_partition_that_nobody_corrects_is_not_waited_for(now: list[float]) -> None:
    found = Input([float(t) for t in range(1000)], [10.0, 20, 30])
    found.inputs = {0: 500, 1: 1}
    assert found.until() == 10
    now[0] += 10 * WAIT  # nor is anything learned of the others
    assert found.until() == 10
    found.inputs = {0: 600, 1: 1}
    assert found.until() == 599 - NEAR
    found.inputs = {0: 600, 1: 2}
    assert found.until() == 20


@pytest.mark.fast
def test_a_partition_that_keeps_up_is_not_behind_whatever_its_clock(now: list[float]) -> None:
    """One that was 5 minutes behind stopped nearly all learning."""
    found = Input([], [])
    found.inputs, worst = {0: 0, 1: 0}, -math.inf
    for second in range(60):
        now[0] += 1
        found.times[0].append(1000.0 + second)
        found.times[1].append(700.0 + second)
        until = found.until(0)  # what has just come is not learned yet
        if second > 25:
            worst = max(worst, 1000.0 + second - until)
        found.inputs = {0: second + 1, 1: second + 1}
    assert worst < 15
    found.inputs[1] = 20  # and now it does not
    assert found.until(0) == 719


@pytest.mark.fast
def test_what_is_handed_over_waits_for_partitions_that_go_on(now: list[float]) -> None:
    """A worker may take long to come to one of many; where nothing is left, nothing is waited
    for."""
    ends, nexts, asked = {0: 50, 1: 50, 2: 51}, {1: 30.0, 2: math.inf}, list[int]()

    def following(partition: int, offset: int) -> float:
        asked.append(partition)
        return nexts[partition]

    one, at = HandedOver(lambda of: {p: ends[p] for p in of}, following), {0: 0, 1: 0, 2: 50}
    times = {0: 0.0, 2: 90.0}

    def until(seconds: float) -> float:
        found = math.nan
        for _ in range(int(seconds / 0.4)):
            now[0] += 0.4
            at[0] += 1  # it goes on
            found = one.until(at, times | {0: float(at[0])})
        return found

    assert until(0.8) == -math.inf
    assert until(4) == 12  # the second has nothing older than 30, the third has nothing
    at[0] = 40
    assert until(0.4) == 30
    assert sorted(asked) == [1, 2]  # once
    assert until(8) == 30
    assert until(4) == math.inf  # nobody hands over the second, and the first has ended


def test_no_label_is_given_up_while_a_partition_is_behind(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is corrected first, to its end, and the other then: 400 s later, where labels wait for
    90 s. Before, those of the second came too late."""
    app = App(broker.bootstrap_servers)
    rng, predictions, labels = random.Random(1), [], []
    for i in range(ROWS):
        key, message, truth = prediction(rng, i)
        stamp = STAMP + 1000 * i
        predictions.append((app.given["input"], i % 2, key, message, [], stamp))
        labels.append((app.given["labels"], i % 2, key, label(truth), [], stamp + 5000))
    produce(app.servers, predictions, labels)
    released, step = threading.Event(), CorrectingRole.step

    def first_the_one(self: CorrectingRole, wait_ms: int) -> None:
        if self.handler.at:
            self.client.member.hold(1, not released.is_set())
        step(self, wait_ms)

    monkeypatch.setattr(CorrectingRole, "step", first_the_one)
    running = app.worker()
    wait("the one is learned", lambda: running.learning().positions.inputs.get(0) == ROWS // 2)
    released.set()
    caught_up(app, running)
    running.stop()
    app.verify()
    found = app.checked.labels
    assert found["learned"] + found["learned late"] == ROWS
    assert found["given up"] == 0


def test_an_answer_that_does_not_come_costs_no_row(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are taken for a state before it is asked how far all partitions are: what was taken was
    lost where the brokers did not answer, and no learner could go on from the state behind it."""
    until, fails = LearnedTime.until, iter([False, True, False, False, True] + [False] * 10_000)

    def sometimes(self: LearnedTime, *args: Any, **more: Any) -> float:
        if next(fails):
            raise RetryError("no answer")
        return until(self, *args, **more)

    monkeypatch.setattr(LearnedTime, "until", sometimes)
    app = App(broker.bootstrap_servers)
    for seed in range(3):
        fill(app, 300, seed=seed, first=300 * seed)
        run_once(app)
    assert app.verify() == 900
    assert app.checked.labels["learned"] + app.checked.labels["learned late"] == 900


def test_labels_that_wait_leave_room_for_rows(
    broker: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels of a backlog that filled all the memory of the learner kept it from reading the rows
    that they waited for: nothing went on."""
    monkeypatch.setattr(unplayed, "WAITING_BYTES", 40_000)  # a third of the labels
    app = App(broker.bootstrap_servers)
    rng, predictions, labels = random.Random(1), [], []
    for i in range(400):
        key, message, truth = prediction(rng, i)
        stamp = STAMP + 60_000 * i
        predictions.append((app.given["input"], i % 2, key, message, [], stamp))
        labels.append((app.given["labels"], 0, key, label(truth), [], stamp + 5000))
    produce(app.servers, labels, predictions)
    run_once(app, learned=400)
    assert app.verify() == 400
