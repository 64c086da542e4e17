"""Figures on the page of a replay of dense rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from stream_can.dense.result import DenseReplay
from stream_can.replay.names import readable
from stream_can.report.course import Course, share_errors
from stream_can.report.curves import along, band, wide
from stream_can.report.figures import CHANGE, LABEL_RATES, rolling_accuracy, rolling_log_loss
from stream_can.report.reliability import diagram
from stream_can.report.sets import kept_and_size
from stream_can.report.svg import AFTER, BEFORE, MUTED, SERIES, Key, ShownPoints
from stream_can.scores import Scores
from stream_can.trust.expected import Gap, expected_accuracy

SHOWN = 6
"""Maximum number of paths with colors of their own."""
TOGETHER, PANELS = 4, (4, 3)
"""Number of classes up to which one panel shows the class mix; rows and columns of panels, of a
class each, above."""


def class_mix(result: DenseReplay, figure: Figure) -> list[Key]:
    course = Course(result)
    counts = np.array([moment.counts for moment in result.moments])
    seen = course.sums(counts)
    n = np.maximum(seen.sum(axis=1, keepdims=True), course.unit)
    truth = seen / n
    squares = course.sums([moment.squared_counts for moment in result.moments])
    error = share_errors(truth, squares, n, squares.sum(axis=1, keepdims=True))
    prior = np.array([moment.prior for moment in result.moments])
    commonest = np.argsort(-counts.sum(axis=0), kind="stable")
    if is_alone := len(commonest) > TOGETHER:
        commonest = commonest[: PANELS[0] * PANELS[1]]
        figure.set_figheight(4.4)
    shape = PANELS if is_alone else (1, 1)
    panels = figure.subplots(*shape, squeeze=False, sharex=True).ravel()
    for axes in panels[len(commonest) :]:
        axes.set_axis_off()
    keys = []
    for i, k in enumerate(commonest):
        axes, color = (panels[i], AFTER) if is_alone else (panels[0], SERIES[i])
        name = readable(result.classes[k])
        band(axes, course, 100 * truth[:, k], 100 * error[:, k], color)
        wide(axes, course, 100 * truth[:, k], color, name)
        prior_shares = 100 * course.values(prior[:, k])
        axes.plot(course.x, prior_shares, color=color, linewidth=1.4, label=f" {name}, estimate")
        if is_alone:
            axes.set_title(readable(name, 14), fontsize=9)
        else:
            keys.append(Key(name, color))
    for axes in panels[: len(commonest)]:
        axes.set_ylim(bottom=0)
        along(axes, result, ticks=2 if is_alone else 5)
        if is_alone:
            axes.tick_params(labelsize=9)
            axes.set_xlabel("")
    figure.supylabel("share, %", fontsize=10.5, color=MUTED)
    return keys


def reliability(result: DenseReplay, figure: Figure) -> list[Key]:
    pair: list[tuple[str, Scores, str]] = [
        ("before", result.raw, BEFORE),
        ("after", result.corrected, AFTER),
    ]
    for axes, (name, scores, color) in zip(figure.subplots(1, 2, sharey=True), pair, strict=True):
        diagram(axes, scores.reliability, color, f"{name}: ECE {100 * scores.ece:.1f} %", 10.5)
    figure.axes[0].set_ylabel("accuracy, %")
    return []


def path_weights(result: DenseReplay, figure: Figure) -> list[Key]:
    names = list(result.paths)
    share = shares(result, "weights")
    shown = np.argsort(-share.max(axis=1), kind="stable")[:SHOWN]
    shown = np.array([k for k in sorted(shown) if share[k].max() > 0.02])
    parts = [*share[shown]]
    keys = [Key(names[k], SERIES[i], "area") for i, k in enumerate(shown)]
    other = 1 - share[shown].sum(axis=0)
    if other.max() > 0.005:
        parts.append(other)
        keys.append(Key("others", MUTED, "area"))
    return stacked(figure, result, np.array(parts), keys)


def final_weights(result: DenseReplay, figure: Figure) -> list[Key]:
    keys = [
        Key(name, color, "area")
        for name, color in zip(result.mean_final_weights, (MUTED, *SERIES), strict=False)
    ]
    return stacked(figure, result, shares(result, "final_weights"), keys)


def shares(result: DenseReplay, attribute: str) -> NDArray[np.float64]:
    """Weights of the moments, averaged over the window, shape (weights, points)."""
    course = Course(result)
    weights = np.array([getattr(moment, attribute) for moment in result.moments])
    return course.sums(weights * course.lengths[:, None]).T / course.window


def stacked(
    figure: Figure, result: DenseReplay, share: NDArray[np.float64], keys: list[Key]
) -> list[Key]:
    """Draw stacked weights, which sum to one."""
    axes = figure.subplots()
    axes.stackplot(Course(result).x, 100 * share, colors=[key.color for key in keys])
    axes.set(ylabel="weight, %", ylim=(0, 100))
    axes.grid(False)
    along(axes, result)
    return keys


def temperature(result: DenseReplay, figure: Figure) -> list[Key]:
    axes = figure.subplots()
    course = Course(result)
    curves = [("of the mixture", [moment.last_temperature for moment in result.moments], AFTER)]
    if "temperature" in result.paths:
        of_path = [moment.temperature for moment in result.moments]
        curves.insert(0, ("of the predictions", of_path, BEFORE))
    axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
    low = high = 1.0
    for name, values, color in curves:
        curve = course.values(values)
        axes.plot(course.x, curve, color=color, label=f" {name}")
        low, high = min(low, curve.min()), max(high, curve.max())
    pad = max(0.1 * (high - low), 0.05)
    axes.set_ylim(low - pad, high + pad)
    axes.set_ylabel("temperature")
    along(axes, result)
    return [Key(name, color) for name, _, color in curves]


def expected(result: DenseReplay, figure: Figure) -> list[Key]:
    """Draw expected accuracy with its interval, over the accuracy that labels showed."""
    axes, course = figure.subplots(), Course(result)
    moments = result.expected.moments
    sums = course.sums([(m.rows, m.confidence, m.doubt, m.hits) for m in moments])
    gaps = zip(*(course.values([m.gap[k] for m in moments]) for k in range(3)), strict=True)
    rows = zip(sums[:, :3].tolist(), gaps, strict=True)
    intervals = [expected_accuracy(n, top, doubt, Gap(*gap)) for (n, top, doubt), gap in rows]
    value, low, high = 100 * np.array(intervals).T
    axes.fill_between(course.x, low, high, color=AFTER, alpha=0.13, linewidth=0)
    n = np.where(sums[:, 0] > 0.5 * course.unit, sums[:, 0], np.nan)
    wide(axes, course, 100 * sums[:, 3] / n, BEFORE, "labels")
    axes.plot(course.x, value, color=AFTER, label=" expected")
    axes.set_ylabel("accuracy, %")
    along(axes, result)
    return [Key("as labels showed", BEFORE, "wide"), Key("expected", AFTER)]


FIGURES: list[ShownPoints[Any]] = [
    ShownPoints(
        "Accuracy",
        "Share of right predictions among the labelled rows of a window of {window} rows that "
        "slides over the stream. Bands: two standard errors of each curve; both curves are of the "
        "same rows, so their difference is more certain than the bands.",
        rolling_accuracy,
    ),
    ShownPoints(
        "Log loss",
        "Mean over the labelled rows of a window of {window} rows; lower is better. Bands: two "
        "standard errors of each curve.",
        rolling_log_loss,
    ),
    CHANGE,
    ShownPoints(
        "Class mix",
        "Wide: share of each class among the labels of a window of {window} rows, with two "
        "standard errors. Thin: the corrector's estimate. With more than four classes, the twelve "
        "commonest, each on its own scale.",
        class_mix,
    ),
    ShownPoints(
        "Reliability",
        "Accuracy against confidence. The area of a point is its share of the rows; its stem is"
        " the "
        "difference between accuracy and confidence.",
        reliability,
    ),
    ShownPoints(
        "Expected accuracy",
        "Accuracy of the corrected rows of a window of {window} rows as it was expected before"
        " their labels came, from their probabilities and from the labels that had arrived, with"
        " its 95 % interval; wide: the accuracy that their labels showed.",
        expected,
    ),
    ShownPoints(
        "Weight of each path",
        "Weight of each path in the mixture, on average over a window of {window} rows.",
        path_weights,
    ),
    ShownPoints(
        "Final weights",
        "Weights of the rows that the corrected row is mixed from, on average over a window of "
        "{window} rows. A row's weight follows its past log loss.",
        final_weights,
        lambda result: len(result.paths) > 1,
    ),
    ShownPoints(
        "Temperature",
        "Divisor of the logarithms of the predictions, in the path of this name, and of the "
        "mixture, in the last step: above 1 they were overconfident, below 1 underconfident.",
        temperature,
        lambda result: len(result.paths) > 1,
    ),
    ShownPoints(
        "Prediction sets",
        "Above: share of the labelled rows whose set contains the label, in a window of {window} "
        "rows, with two standard errors; dashed: the promised share. Below: mean number of classes "
        "in a set.",
        kept_and_size,
        lambda result: result.sets is not None,
    ),
    LABEL_RATES,
]
