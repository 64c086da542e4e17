"""A day in bounded memory, and how sure a change is."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_can.app import history as history_module
from stream_can.app.history import History, Ring, Slots
from tests.app.small import BEGIN

STATED = 207_360
"""Bytes of the history, as docs/live.md states."""


def test_a_day_stays_within_the_stated_memory() -> None:
    """A commit a second, with delays; a day and then a second day."""
    history = History()
    tracemalloc.start()
    try:
        for second in range(0, 2 * 86_400, 4):
            history.record(BEGIN + second, [0.5, 7200.0], predictions=1, commits=1, scored=1)
        every = tracemalloc.take_snapshot()  # of other threads too
        own = every.filter_traces([tracemalloc.Filter(True, history_module.__file__)])
        grown = sum(one.size for one in own.statistics("filename"))
    finally:
        tracemalloc.stop()
    assert history.nbytes <= STATED
    assert grown < 10_000, "it grows"
    day = history.day.last(BEGIN + 2 * 86_400 - 1)
    assert day.total("predictions") == 86_400 / 4
    assert history.hour.last(BEGIN + 2 * 86_400 - 1).total("predictions") == 900
    assert day.delay(0.9) == (3600, 21600)
    assert day.delay(0.1) == (0, 1)


@given(
    st.lists(st.tuples(st.floats(0, 400), st.integers(0, 100)), max_size=60),
    st.floats(0, 400),
)
def test_a_ring_holds_its_newest_slots(steps: list[tuple[float, int]], later: float) -> None:
    """Against a dictionary of every slot there ever was."""
    ring, every, now = Ring(10, 12), {}, BEGIN
    for ahead, amount in steps:
        now += ahead
        ring.slot(now)[0] += amount
        every[int(now // 10)] = every.get(int(now // 10), 0) + amount
    now += later
    newest = int(now // 10)
    expected = [every.get(number, 0) for number in range(newest - 11, newest + 1)]
    assert ring.last(now)["predictions"].tolist() == expected
    assert ring.last(now, 5)["predictions"].tolist() == expected[-5:]


def test_a_clock_that_was_set_back_adds_to_the_newest() -> None:
    history = History()
    history.record(BEGIN, predictions=3)
    history.record(BEGIN - 7000, predictions=4)
    assert history.hour.last(BEGIN - 7000).total("predictions") == 7
    assert history.hour.last(BEGIN).total("predictions") == 7


def filled(slots: int, rng: np.random.Generator, shift: float = 0.0) -> Slots:
    """Slots of unequal numbers of labels, each slot with a level of its own."""
    history = History()
    for slot in range(slots):
        n = int(rng.integers(1, 60))
        level = 0.2 * rng.standard_normal()
        before = rng.exponential(1.0, n) + level
        after = before + shift + 0.3 * rng.standard_normal() + rng.standard_normal(n)
        history.record(BEGIN + 10 * slot, scored=n, log_loss_before=float(before.sum()),
                    log_loss_after=float(after.sum()))  # fmt: skip
    return history.hour.last(BEGIN + 10 * slots - 1)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Slots whose labels go up and down together, which one label by one would be too sure of."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(600):
        found = filled(int(rng.integers(5, 40)), rng, shift=0.1).change("log_loss")
        assert found is not None
        assert found.interval is not None
        inside += found.interval[0] <= 0.1 <= found.interval[1]
    assert 0.91 <= inside / 600 <= 0.98


def test_too_few_slots_say_nothing_of_how_sure() -> None:
    rng = np.random.default_rng(1)
    assert filled(4, rng).change("log_loss").interval is None  # type: ignore[union-attr]
    assert filled(5, rng).change("log_loss").interval is not None  # type: ignore[union-attr]
    assert History().hour.last(BEGIN).change("log_loss") is None


def test_merged_slots_keep_sums_and_peaks() -> None:
    history = History()
    for slot, lag in enumerate((5, 900, 7)):
        history.record(BEGIN + 10 * slot, predictions=2, lag=lag)
    minutes = history.hour.last(BEGIN + 59).merged(6)
    assert minutes["predictions"][-1] == 6
    assert minutes["lag"][-1] == 900


def test_mix_ups_are_those_of_the_last_hour():
    history, one = History(), np.ones((2, 3, 3))
    assert history.confusion(0) is None
    history.record_confusion(0, None)
    for minute in range(0, 120, 10):
        history.record_confusion(60 * minute, one)
    np.testing.assert_array_equal(history.confusion(60 * 110), 6 * one)
    np.testing.assert_array_equal(history.confusion(60 * 160), one)
    assert history.confusion(60 * 200) is None
    history.record_confusion(60 * 100, one)  # a clock was set back: it is the newest slot's
    np.testing.assert_array_equal(history.confusion(60 * 160), 2 * one)
    history.record_confusion(60 * 160, np.ones((2, 4, 4)))  # other classes
    assert history.confusion(60 * 160).shape == (2, 4, 4)
