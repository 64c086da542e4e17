"""Figures of a report, each with a sentence that explains it."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from stream_can.replay.effect import NATS, POINTS
from stream_can.replay.names import readable
from stream_can.replay.result import Replay
from stream_can.replay.sparse import AnyReplay, SparseReplay
from stream_can.report.course import Course
from stream_can.report.curves import along, band, before_and_after, wide
from stream_can.report.reliability import diagram
from stream_can.report.sets import kept_and_size
from stream_can.report.svg import AFTER, BEFORE, INK, MUTED, SERIES, Key, ShownPoints
from stream_can.scores import Scores

__all__ = ["FIGURES", "rolling_accuracy", "rolling_log_loss"]

SHOWN = 6
"""Maximum number of classes and paths with colors of their own."""


def rolling_accuracy(result: Replay | SparseReplay, figure: Figure) -> list[Key]:
    course = Course(result)
    means, errors = course.means("hits", "hits")
    axes = figure.subplots()
    axes.set_ylabel("accuracy, %")
    return before_and_after(axes, course, 100 * means, 100 * errors)


def rolling_log_loss(result: AnyReplay, figure: Figure) -> list[Key]:
    course = Course(result)
    means, errors = course.means("losses", "squares")
    axes = figure.subplots()
    axes.set_ylabel("log loss, nats")
    return before_and_after(axes, course, means, errors)


def class_mix(result: Replay, figure: Figure) -> list[Key]:
    axes = figure.subplots()
    course = Course(result)
    counts = np.array([moment.counts for moment in result.moments])
    seen = course.sums(counts)
    n = np.maximum(seen.sum(axis=1, keepdims=True), 1)
    truth = seen / n
    error = np.sqrt(truth * (1 - truth) / n)
    prior = np.array([moment.prior for moment in result.moments])
    keys = []
    commonest = np.argsort(-counts.sum(axis=0), kind="stable")[:SHOWN]
    for color, k in zip(SERIES, commonest, strict=False):
        band(axes, course, 100 * truth[:, k], 100 * error[:, k], color)
        name = readable(result.classes[k])
        wide(axes, course, 100 * truth[:, k], color, name)
        taken = 100 * course.values(prior[:, k])
        axes.plot(course.x, taken, color=color, linewidth=1.4, label=f" {name}, taken for")
        keys.append(Key(name, color))
    axes.set_ylabel("share, %")
    axes.set_ylim(bottom=0)
    along(axes, result)
    return keys


def reliability(result: Replay, figure: Figure) -> list[Key]:
    pair: list[tuple[str, Scores, str]] = [
        ("before", result.raw, BEFORE),
        ("after", result.corrected, AFTER),
    ]
    for axes, (name, scores, color) in zip(figure.subplots(1, 2, sharey=True), pair, strict=True):
        diagram(axes, scores.reliability, color, f"{name}: ECE {100 * scores.ece:.1f} %", 10.5)
    figure.axes[0].set_ylabel("accuracy, %")
    return []


def path_weights(result: Replay, figure: Figure) -> list[Key]:
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


def final_weights(result: Replay, figure: Figure) -> list[Key]:
    keys = [
        Key(name, color, "area")
        for name, color in zip(result.mean_final_weights, (MUTED, *SERIES), strict=False)
    ]
    return stacked(figure, result, shares(result, "final_weights"), keys)


def shares(result: Replay, what: str) -> NDArray[np.float64]:
    """Weights of the moments, averaged over the window, shape (weights, points)."""
    course = Course(result)
    weights = np.array([getattr(moment, what) for moment in result.moments])
    return course.sums(weights * course.lengths[:, None]).T / course.window


def stacked(
    figure: Figure, result: Replay, share: NDArray[np.float64], keys: list[Key]
) -> list[Key]:
    """Draw stacked weights, which sum to one."""
    axes = figure.subplots()
    axes.stackplot(Course(result).x, 100 * share, colors=[key.color for key in keys])
    axes.set(ylabel="weight, %", ylim=(0, 100))
    axes.grid(False)
    along(axes, result)
    return keys


def temperature(result: Replay, figure: Figure) -> list[Key]:
    axes = figure.subplots()
    course = Course(result)
    curves = [("of the mixture", [moment.last_temperature for moment in result.moments], AFTER)]
    if "temperature" in result.paths:
        own = [moment.temperature for moment in result.moments]
        curves.insert(0, ("of the predictions", own, BEFORE))
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


def label_rates(result: Replay, figure: Figure) -> list[Key]:
    rates = sorted({*result.rates, *result.asked_rates})
    kinds = [("at random", result.rates, BEFORE), ("asked for", result.asked_rates, AFTER)]
    kinds = [kind for kind in kinds if kind[1]]
    width = 0.72 / len(kinds)
    raw = result.raw
    panels = [
        ("accuracy, points", "accuracy", 100, "%+.2f", POINTS),
        ("log loss, nats", "log_loss", 1, "%+.3f", NATS),
    ]
    all_axes = figure.subplots(len(kinds), 3 - len(kinds))
    for axes, (title, score, scale, form, least) in zip(all_axes, panels, strict=True):
        low = high = 0.0
        for i, (_, scores, color) in enumerate(kinds):
            at = [k for k, rate in enumerate(rates) if rate in scores]
            values = [scale * (getattr(scores[rates[k]], score) - getattr(raw, score)) for k in at]
            # Side by side where a rate has both, centred where it has one.
            both = [rates[k] in result.rates and rates[k] in result.asked_rates for k in at]
            aside = (i - 0.5) * width
            x = [k + aside * beside for k, beside in zip(at, both, strict=True)]
            axes.bar_label(
                axes.bar(x, values, width=0.92 * width, color=color),
                [(form % value).replace("-", "\N{MINUS SIGN}") for value in values],
                padding=3,
                fontsize=10 - len(kinds),
                color=INK,
            )
            low, high = min(low, *values), max(high, *values)
        axes.set_xticks(range(len(rates)), [f"{100 * rate:g} %" for rate in rates])
        axes.axhline(0, color=MUTED, linewidth=1)
        axes.set_title(title, color=INK, fontsize=10.5)
        # Leave room for the numbers, and keep small changes looking small.
        room = max(0.2 * len(kinds) * (high - low), 2 * least)
        axes.set_ylim(low - room, high + room)
        axes.tick_params(axis="y", labelleft=False)
        axes.tick_params(axis="x", labelsize=9)
        axes.grid(False)
    return [Key(name, color, "area") for name, _, color in kinds] if len(kinds) > 1 else []


FIGURES: list[ShownPoints[Replay]] = [
    ShownPoints(
        "Accuracy",
        "Share of right predictions among the labelled rows of a window of {window} rows that "
        "slides over the stream. Bands: two standard errors of each curve; both curves are of the "
        "same rows, so their difference is surer than the bands.",
        rolling_accuracy,
    ),
    ShownPoints(
        "Log loss",
        "Mean over the labelled rows of a window of {window} rows; lower is better. Bands: two "
        "standard errors of each curve.",
        rolling_log_loss,
    ),
    ShownPoints(
        "Class mix",
        "Wide: share of each class among the labels of a window of {window} rows, with two "
        "standard errors. Thin: what the corrector took it for. The commonest classes.",
        class_mix,
    ),
    ShownPoints(
        "Reliability",
        "Accuracy against confidence; the area of a point is its share of the rows, its stem its "
        "distance from what the confidence promised.",
        reliability,
    ),
    ShownPoints(
        "Weight of each path",
        "How much each path has to say in the mixture, on average over a window of {window} rows.",
        path_weights,
    ),
    ShownPoints(
        "What goes out",
        "Weights, in the row that is sent, of the rows that it is mixed from, on average over a "
        "window of {window} rows: each is judged by how well it did as it was sent.",
        final_weights,
        lambda result: len(result.paths) > 1,
    ),
    ShownPoints(
        "Temperature",
        "What the path of this name divides the logarithms of the predictions by, and the last "
        "step those of the mixture: above 1 they were overconfident, below 1 underconfident.",
        temperature,
        lambda result: len(result.paths) > 1,
    ),
    ShownPoints(
        "Prediction sets",
        "Above: share of the rows with a known label that have it in their set, in a window of "
        "{window} rows, with two standard errors; dashed: what was promised. Below: classes in a "
        "set, on average.",
        kept_and_size,
        lambda result: result.sets is not None,
    ),
    ShownPoints(
        "What labels buy",
        "After minus before, by the share of the labels that arrives: at random, or asked for, "
        "half of them at random and half where the corrected row is torn between two classes.",
        label_rates,
        lambda result: bool(result.rates or result.asked_rates),
    ),
]
