"""Replays of labels with weights: every score is the weighted mean that numpy says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from matplotlib.figure import Figure

from stream_can import Corrector
from stream_can.cli.main import main
from stream_can.compare.stream import load
from stream_can.dense.class_changes import losing
from stream_can.dense.figures import class_mix
from stream_can.errors import StreamCANError
from stream_can.method.costs import Costs
from stream_can.replay import Player, Recording, judge, replay
from stream_can.replay.noise_variants import try_label_noise
from stream_can.report import report
from stream_can.report.course import Course, _with_errors, share_errors
from stream_can.report.figures import rolling_accuracy
from stream_can.report.sets import kept_and_size
from stream_can.trust.expected import Gap, expected_accuracy
from tests.replay.streams import stream

pytestmark = pytest.mark.fast

NAMES = [*"abcd"]
COSTS = Costs(NAMES, {"x": {"a": 0, "b": 3, "c": 1, "d": 9}, "z": {"a": 4, "b": 0, "c": 0, "d": 1}})
DELAY = 30


def write(path, P, y, weights, **columns):
    """A recording, of which rows with y = -1 have no label."""
    labels = np.where(y >= 0, np.array(NAMES)[y], "")
    np.savez(path, probs=P, label=labels, w=weights, classes=NAMES, **columns)
    return path


@pytest.fixture(scope="module", params=["integers", "others"])
def weighted(request, tmp_path_factory):
    """A replay of weighted labels; its rows as they came and were sent, labels and weights."""
    rng = np.random.default_rng(0)
    P, y = stream(5000, sharpness=2.5)
    y = np.where(rng.random(5000) < 0.2, -1, y)
    w = rng.choice([1.0, 2, 3], 5000) if request.param == "integers" else rng.uniform(0.05, 1, 5000)
    w = np.where(y == 2, w / 4, w)
    shop = rng.choice(["s", "t", "u"], 5000)
    file = write(tmp_path_factory.mktemp("w") / "a.npz", P, y, w, shop=shop)
    steps = []
    corrector = Corrector(NAMES, sets=0.8, sets_by="shop", segments=["shop"])
    recording = Recording(file, weight="w", segments=["shop"])
    result = replay(recording, corrector, label_delay=DELAY, costs=COSTS, each=steps.append)
    sent = np.concatenate([step.corrected for step in steps])
    sets = [names for step in steps for names in step.sets]
    paths = np.concatenate([step.path_rows for step in steps], axis=1)
    return result, P, sent, y, w, shop, sets, paths


def scores_by_definition(P, y, w):
    at = y >= 0
    P, y, w = P[at], y[at], w[at]
    best, confidence, of_label = P.argmax(1), P.max(1), P[np.arange(len(y)), y]
    squared = ((P - np.eye(P.shape[1])[y]) ** 2).sum(1)
    bins = np.ceil(confidence * 15).astype(int)
    ece = (
        sum(abs((w * ((best == y) - confidence))[bins == b].sum()) for b in range(1, 16)) / w.sum()
    )
    return {
        "accuracy": np.average(best == y, weights=w),
        "log_loss": np.average(-np.log(np.maximum(of_label, 1e-6)), weights=w),
        "brier": np.average(squared, weights=w),
        "ece": ece,
    }


def test_scores_are_weighted_means(weighted):
    result, P, sent, y, w, _, _, paths = weighted
    shown = result.to_dict()
    assert shown["labelled"] == (y >= 0).sum()
    sides = [(shown["raw"], P), (shown["corrected"], sent)]
    sides += list(zip(shown["paths"].values(), paths, strict=True))
    for scores, rows in sides:
        for name, value in scores_by_definition(rows, y, w).items():
            assert scores[name] == pytest.approx(value, abs=1e-9), name
    changes = result.changes()
    before, after = (scores_by_definition(rows, y, w) for rows in (P, sent))
    assert changes.accuracy.value == pytest.approx(after["accuracy"] - before["accuracy"])
    assert changes.log_loss.value == pytest.approx(after["log_loss"] - before["log_loss"])
    brier, ece = result.calibration_changes()
    assert brier.value == pytest.approx(after["brier"] - before["brier"])
    assert ece.value == pytest.approx(after["ece"] - before["ece"])


def test_classes_costs_sets_and_segments_are_by_weight(weighted):
    result, P, sent, y, w, shop, sets, _ = weighted
    shown, at = result.to_dict(), y >= 0
    for k, scores in enumerate(shown["per_class"]):
        assert scores["rows"] == (y == k).sum()
        for side, rows in (("raw", P), ("corrected", sent)):
            right = w[at] * ((rows.argmax(1) == y) & (y == k))[at]
            predicted = w[at][rows[at].argmax(1) == k].sum()
            assert scores["recall"][side] == pytest.approx(right.sum() / w[y == k].sum())
            assert scores["precision"][side] == pytest.approx(right.sum() / predicted)
    costs = shown["costs"]
    for side, decided, rows in (("before", "raw", P), ("after", "corrected", sent)):
        action = (rows[at] @ COSTS.matrix.T).argmin(1)
        each = COSTS.matrix[action, y[at]]
        assert costs[side] == pytest.approx(1000 * np.average(each, weights=w[at]))
        assert costs["decided"][decided]["x"] == pytest.approx(
            np.average(action == 0, weights=w[at])
        )
    always = np.average(COSTS.matrix[:, y[at]], axis=1, weights=w[at])
    assert [*costs["always"].values()] == pytest.approx(1000 * always)
    least = np.average(COSTS.matrix[:, y[at]].min(axis=0), weights=w[at])
    assert (costs["rows"], costs["with_labels_known"]) == (at.sum(), pytest.approx(1000 * least))
    inside = np.array([k >= 0 and NAMES[k] in names for k, names in zip(y, sets, strict=True)])
    assert shown["sets"]["kept"] == pytest.approx(np.average(inside[at], weights=w[at]))
    taught = at & (np.arange(5000) < 5000 - DELAY)
    assert shown["sets"]["learned"] == taught.sum()
    assert shown["sets"]["kept_learned"] == pytest.approx(
        np.average(inside[taught], weights=w[taught])
    )
    assert shown["sets"]["mean_size"] == pytest.approx(np.mean([len(names) for names in sets]))
    for group in shown["sets"]["groups"]:
        of = at & (shop == group["group"])
        assert (group["rows"], group["known"]) == ((shop == group["group"]).sum(), of.sum())
        assert group["kept"] == pytest.approx(np.average(inside[of], weights=w[of]))
    for segment in shown["segments"]["shop"]:
        of = shop == segment["value"]
        for side, rows in (("raw", P), ("corrected", sent)):
            scores = scores_by_definition(rows[of], y[of], w[of])
            assert segment["accuracy"][side] == pytest.approx(scores["accuracy"])
            assert segment["log_loss"][side] == pytest.approx(scores["log_loss"])
            mean = np.average(rows[of & at].max(1), weights=w[of & at])
            assert segment["calibration"][side] == pytest.approx(abs(scores["accuracy"] - mean))


def test_expected_accuracy_is_beside_that_by_weight(weighted):
    result, _, sent, y, w, *_ = weighted
    start = 0
    for part in result.to_dict()["expected_accuracy"]:
        at = np.flatnonzero(y[start : part["until_row"]] >= 0) + start
        assert part["rows"] == len(at)
        hits = sent[at].argmax(1) == y[at]
        assert part["accuracy"] == pytest.approx(np.average(hits, weights=w[at]))
        start = part["until_row"]


def test_errors_in_figures_are_of_weighted_means(weighted):
    """By the definition: the root of sum w^2 (x - mean)^2 / sum w, over the rows of the window."""
    result, P, sent, y, w, *_, sets, _ = weighted
    course = Course(result)
    course.at = np.array([moment.row for moment in result.moments], float)[10:-1]
    course.window = 640.0  # ten steps
    hits = (P.argmax(1) == y).astype(float), (sent.argmax(1) == y).astype(float)
    means, errors = course.means("hits")
    change, change_errors = course.changes("hits")
    for i, end in enumerate(course.at.astype(int)):
        of = np.flatnonzero(y[end - 640 : end] >= 0) + end - 640
        for x, mean, error in (
            (hits[0], means[0, i], errors[0, i]), (hits[1], means[1, i], errors[1, i]),
            (hits[1] - hits[0], change[i], change_errors[i]),
        ):  # fmt: skip
            expected = np.average(x[of], weights=w[of])
            assert mean == pytest.approx(expected, abs=1e-9)
            squares = (w[of] ** 2 * (x[of] - expected) ** 2).sum()
            assert error == pytest.approx(np.sqrt(squares) / w[of].sum(), abs=1e-9)
    at = y >= 0
    inside = np.array([k >= 0 and NAMES[k] in names for k, names in zip(y, sets, strict=True)])
    squares = np.sum([moment.squares for moment in result.sets.moments], axis=0)
    assert squares == pytest.approx([w[at] @ w[at], w[inside] @ w[inside]])
    counts = np.sum([(moment.counts, moment.squared_counts) for moment in result.moments], axis=0)
    assert counts == pytest.approx(np.array([np.bincount(y[at], v[at], 4) for v in (w, w**2)]))
    kept_and_size(result, Figure())
    class_mix(result, Figure())


def test_the_error_of_a_weighted_mean_is_that_of_drawing_labels():
    """Over draws of labels by class the mean of the errors is the standard deviation of the
    means."""
    rng = np.random.default_rng(0)
    x = rng.exponential(size=4000) * np.where(np.arange(4000) < 400, 3, 1)
    chance = np.where(np.arange(4000) < 400, 0.5, 0.05)
    found = []
    for _ in range(1500):
        labels = rng.integers(0, 4000, 4000)  # rows are a sample, too
        labels = labels[rng.random(4000) < chance[labels]]
        w, values = 0.05 / chance[labels], x[labels]
        hits = values > 2
        sums = [w @ values, w**2 @ values, w**2 @ values**2, w.sum(), w @ w]
        share = np.array([w @ hits / w.sum()])
        error = share_errors(share, np.array([w**2 @ hits]), np.array([w.sum()]), np.array([w @ w]))
        means = _with_errors(*(np.array([value]) for value in sums))
        found.append([*np.concatenate(means), *share, *error])
    mean, error, share, share_error = np.array(found).T
    assert error.mean() == pytest.approx(mean.std(), rel=0.06)
    assert share_error.mean() == pytest.approx(share.std(), rel=0.06)


def test_the_gap_knows_how_much_weighted_labels_tell():
    gaps = np.random.default_rng(0).normal(0.1, 0.3, 300)
    once = Gap().after_rows(10).with_labels(gaps).after_rows(5)
    alike = Gap().after_rows(10).with_labels(gaps, np.full(300, 0.05)).after_rows(5)
    expected = expected_accuracy(100, 70, 20, once)
    assert expected_accuracy(100, 70, 20, alike) == pytest.approx(expected)
    few = np.where(np.arange(300) % 10 == 0, 1.0, 0.01)
    uneven = Gap().with_labels(gaps, few)
    fade = 0.5 ** (np.arange(300)[::-1] / 400)
    assert uneven.effective == pytest.approx((fade @ few) ** 2 / (fade @ few**2))
    assert uneven.gap / uneven.labels == pytest.approx(np.average(gaps, weights=fade * few))


def test_figures_of_rare_labels_that_came_often_are_those_of_all_rows(tmp_path):
    """The labels' mix is not the rows': counted once, a correction that gains seems to lose."""
    rng = np.random.default_rng(1)
    y = rng.choice(4, 40_000, p=[0.7, 0.2, 0.05, 0.05])
    scores = rng.normal(size=(40_000, 4)) + 1.2 * np.eye(4)[y]
    P = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    chance = np.where(y >= 2, 0.5, 0.05)
    came = rng.random(40_000) < chance
    file = write(tmp_path / "a.npz", P, np.where(came, y, -1), 0.05 / chance)
    sent = []
    result = replay(
        Recording(file, weight="w"), Corrector(NAMES), label_delay=DELAY,
        each=lambda step: sent.append(step.corrected),
    )  # fmt: skip
    rows = np.concatenate(sent)
    hits = [(side.argmax(1) == y) for side in (P, rows)]
    gain = hits[1].mean() - hits[0].mean()
    once = hits[1][came].mean() - hits[0][came].mean()
    low, high = result.changes().accuracy.interval
    assert once < 0 < low < gain < high
    said = judge(result)
    assert said.use.startswith("Use it")
    assert not result.doubts
    assert 0 not in losing(result).tolist()
    page = report(result, "x")
    assert "count each label as its weight" in page


def test_the_command_says_that_labels_are_weighed(tmp_path, capsys):
    P, y = stream(600, sharpness=2)
    file = write(tmp_path / "a.npz", P, y, np.where(y == 1, 0.1, 1))
    command = ["replay", str(file), "--label-delay", "9", "--weight", "w"]
    assert main([*command, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["raw"]
    assert main(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "No verdict" not in shown
    assert "scores count each label as its weight" in shown
    w = np.where(y == 1, 0.1, 1)
    assert scores["accuracy"] == pytest.approx(np.average(P.argmax(1) == y, weights=w))
    assert main([*command, "--against", "ops"])
    assert "leave it or --weight out" in capsys.readouterr().err


def test_rivals_refuse_weights(tmp_path):
    P, y = stream(300)
    file = write(tmp_path / "a.npz", P, y, np.ones(300))
    with pytest.raises(StreamCANError, match="weights in 'w'"):
        load(Recording(file, weight="w"), label_delay=3)


def test_noise_is_tried_by_weight(tmp_path):
    P, y = stream(2000, sharpness=2)
    w = np.where(y == 1, 0.1, 1)
    recording = Recording(write(tmp_path / "a.npz", P, y, w), weight="w")
    player = Player(recording, label_delay=9)
    plain, _ = try_label_noise(player, lambda share: Corrector(NAMES, label_noise=share), [0.1])
    assert plain.expected.after == pytest.approx(plain.log_loss.after)  # of no wrong label


def test_an_alarm_is_drawn_where_its_label_is(tmp_path):
    """Labels are numbered, not weighed."""
    P, y = stream(3000, sharpness=2)
    result = replay(
        Recording(write(tmp_path / "a.npz", P, y, np.full(3000, 0.25)), weight="w"),
        Corrector(NAMES), label_delay=9,
    )  # fmt: skip
    assert Course(result).of_label(1500) == pytest.approx(1500)
    rolling_accuracy(result, Figure())
