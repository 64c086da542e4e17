"""How sure a change is: as often right as it says, whether rows are alike in runs or not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_can import Corrector, Learner
from stream_can.app.history import COLUMN, WIDTH, Slots
from stream_can.change import Change, Changes, _t, calibration_change, change
from stream_can.dense.result import DenseReplay
from stream_can.replay import Step
from stream_can.scores import Scores, ece
from tests.replay.streams import stream

pytestmark = pytest.mark.fast
Array = NDArray[np.float64]


def differences(n: int, run: int, rng: np.random.Generator) -> Array:
    """After minus before of n rows whose mean is 0: alike in runs of about so many rows."""
    levels = np.repeat(rng.standard_normal(n), rng.geometric(1 / run, n))[:n]
    return rng.standard_normal(n) + (levels if run > 1 else 0)


def holds_zero(found: Change | None) -> bool:
    assert found is not None
    assert found.interval is not None
    low, high = found.interval
    return low <= 0 <= high


@pytest.mark.parametrize("run", [1, 50], ids=["independent", "in runs"])
def test_the_interval_of_rows_holds_the_truth_as_often_as_it_says(run: int) -> None:
    """As in a replay. Row by row, with rows in runs, it would be 23 times in 100."""
    rng, inside = np.random.default_rng(run), 0
    for _ in range(400):
        d = differences(18_000, run, rng)
        inside += holds_zero(change(np.ones(len(d)), np.zeros(len(d)), d))
    assert 0.91 <= inside / 400 <= 0.98


@pytest.mark.parametrize("run", [1, 50], ids=["independent", "in runs"])
def test_the_interval_of_a_live_hour_holds_the_truth_as_often_as_it_says(run: int) -> None:
    """Labels come in 360 slots of 10 s. Slot by slot in runs: 76 times in 100."""
    rng, inside = np.random.default_rng(run), 0
    for _ in range(300):
        labels, rows = rng.poisson(50, 360), np.zeros((360, WIDTH))
        d = differences(labels.sum(), run, rng)
        ends = np.append(0, np.cumsum(d))[np.append(0, np.cumsum(labels))]
        rows[:, COLUMN["scored"]], rows[:, COLUMN["hits_after"]] = labels, np.diff(ends)
        inside += holds_zero(Slots(rows).change("hits"))
    assert 0.91 <= inside / 300 <= 0.98


def test_the_interval_of_a_replay_is_that_of_its_rows() -> None:
    """Moments of 64 rows, some without a label, in 30 stretches of nearly as many."""
    P, y = stream(6000, sharpness=2.5)
    y[1000:1700] = -1
    result, sent = DenseReplay(Learner(Corrector(4))), P**0.4 / (P**0.4).sum(axis=1, keepdims=True)
    for first in range(0, 6000, 64):
        cut = slice(first, first + 64)
        result.add(Step(first, P[cut], y[cut], sent[cut]))
    known = np.flatnonzero(y >= 0)
    losses = [-np.log(one[known, y[known]]) for one in (P, sent)]
    by_row, changes = change(np.ones(len(known)), *losses), result.changes()
    assert by_row is not None
    assert changes is not None
    found = changes.log_loss
    assert found.value == pytest.approx(by_row.value)
    assert found.stretches == 30
    assert found.error == pytest.approx(by_row.error, rel=0.25)


def test_stretches_of_the_same_length_have_the_error_of_a_mean_of_means() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.exponential(size=(2, 3000))
    found = change(np.ones(3000), before, after)
    means = (after - before).reshape(30, 100).mean(axis=1)
    assert found is not None
    assert found.value == pytest.approx((after - before).mean())
    assert found.error == pytest.approx(means.std(ddof=1) / np.sqrt(30))
    assert found.interval == pytest.approx(
        (found.value - 2.04523 * found.error, found.value + 2.04523 * found.error)
    )


def test_parts_of_any_length_keep_their_order_and_their_sums() -> None:
    """One part with most of the labels, many with none: fewer stretches, nothing lost."""
    rows = np.array([5, 0, 0, 10_000, *[1] * 40, 0])
    found = change(rows, np.zeros(len(rows)), 2.0 * rows)
    assert found is not None
    assert found[:2] == (0.0, 2.0)
    assert set(map(type, found[:4])) == {float, int}  # what JSON can say
    assert found.error == pytest.approx(0, abs=1e-12)
    assert found.stretches < 30


def test_what_is_too_little_to_say() -> None:
    assert change([0, 0], [0, 0], [0, 0]) is None
    one, four, five = (change(np.ones(n), np.zeros(n), np.arange(n)) for n in (1, 4, 5))
    assert one is not None
    assert four is not None
    assert five is not None
    assert np.isnan(one.error)
    assert one.interval is four.interval is None
    assert (four.rose, four.fell) == (False, False)
    assert four.error > 0
    assert five.interval is not None
    sure = change(np.ones(5), np.ones(5), np.full(5, 0.5))
    assert sure is not None
    assert (sure.rose, sure.fell) == (False, True)


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(4, 2.776445), (9, 2.262157), (29, 2.04523), (1000, 1.962339)]
)
def test_students_t(degrees: int, quantile: float) -> None:
    assert _t(degrees) == pytest.approx(quantile, rel=1e-3)


def test_the_labels_that_were_drawn_are_part_of_the_error():
    """At least 95 % of intervals hold the mean over all draws; without it every third one does."""
    rng, D, inside, alone, squares = np.random.default_rng(6), 5, 0, 0, 0.0
    for _ in range(2000):
        shifts = 0.4 * rng.standard_normal(D)
        d = rng.standard_normal(40) / 2 + shifts[:, None]
        found = [change(np.ones(40), np.zeros(40), one) for one in d]
        whole = found[0].over_draws([one.value for one in found])
        assert whole.value == found[0].value
        inside += holds_zero(whole)
        alone += holds_zero(found[0])
        squares += whole.error**2
    assert inside / 2000 > 0.95
    assert alone / 2000 < 0.4
    assert squares / 2000 == pytest.approx(0.25 / 40 + 0.4**2, rel=0.05)  # and none is too wide


def test_draws_that_agree_and_a_single_stretch_change_nothing():
    found = change(np.ones(6), np.zeros(6), np.arange(6))
    assert found.over_draws([found.value] * 3) == found
    assert found.over_draws([found.value]) == found
    single = change([5], [0], [1])
    assert single.over_draws([0.2, 0.4]) is single


def test_degrees_of_freedom_of_both_errors_are_welchs():
    both = Change(0, 1, 3.0, 10).over_draws([0.0, 4 * 2**0.5])  # of draws: 4, 1 degree of freedom
    assert both.error == pytest.approx(5)
    assert both.freedom == pytest.approx(25**2 / (9**2 / 9 + 16**2 / 1))


@pytest.mark.parametrize("name", ["accuracy", "log_loss"])
def test_either_score_is_a_gain_or_a_loss_and_one_that_may_be_nothing_is_neither(name):
    up, down = Change(0, 1, 0.1, 30), Change(0, -1, 0.1, 30)
    none, edge = Change(0, 0, 0.1, 30), Change(0, 0, 0.0, 30)
    for sure in (up, down):
        changes = Changes(none, none)._replace(**{name: sure})
        assert changes.gain == (sure is (up if name == "accuracy" else down))
        assert changes.loss == (sure is (down if name == "accuracy" else up))
    assert not edge.rose
    assert not edge.fell


def test_the_error_of_the_calibration_error_is_the_jackknife_over_stretches():
    """Against scores of the rows themselves, left out stretch by stretch."""
    rng = np.random.default_rng(7)
    n, parts = 3000, 300
    P = rng.dirichlet([1, 1, 1], n)
    y = np.array([rng.choice(3, p=p) for p in P])
    sharp = P**2 / (P**2).sum(1, keepdims=True)
    part = np.arange(n) // (n // parts)
    gaps = [np.empty((parts, 15)) for _ in range(2)]
    for side, rows in enumerate((sharp, P)):
        for k in range(parts):
            scores = Scores()
            scores.add(rows[part == k], y[part == k])
            gaps[side][k] = scores.gaps
    found = calibration_change(np.full(parts, n // parts), *gaps)
    assert found.before == pytest.approx(ece(sharp, y))
    assert found.after == pytest.approx(ece(P, y))
    stretch = np.arange(n) // (n // 30)
    without = [
        ece(P[stretch != b], y[stretch != b]) - ece(sharp[stretch != b], y[stretch != b])
        for b in range(30)
    ]
    off = np.array(without) - np.mean(without)
    assert found.error == pytest.approx(np.sqrt(29 / 30 * (off @ off)))
    assert found.stretches == 30
    assert calibration_change([0], [[0.0]], [[0.0]]) is None
