"""The figures of a report, each with the sentence that says what it shows."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from stream_can.replay.result import Replay
from stream_can.report.course import Course
from stream_can.report.svg import AFTER, BEFORE, INK, MUTED, SERIES, Shown
from stream_can.scores import Scores

__all__ = ["FIGURES"]

SHOWN = 6
"""Classes that get a line of their own."""


def rolling_accuracy(result: Replay, figure: Figure) -> None:
    axes = figure.subplots()
    course = Course(result)
    before, after = 100 * course.shares("hits")
    _pair(axes, course, before, after)
    axes.set_ylabel("accuracy, %")
    _along(axes, result)


def rolling_log_loss(result: Replay, figure: Figure) -> None:
    axes = figure.subplots()
    course = Course(result)
    before, after = course.shares("losses")
    _pair(axes, course, before, after)
    axes.set_ylabel("log loss, nats")
    _along(axes, result)


def class_mix(result: Replay, figure: Figure) -> None:
    axes = figure.subplots()
    course = Course(result)
    counts = np.array([moment.counts for moment in result.moments])
    seen = course.sums(counts)
    truth = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    prior = np.array([moment.prior for moment in result.moments])
    commonest = np.argsort(-counts.sum(axis=0), kind="stable")[:SHOWN]
    for color, k in zip(SERIES, commonest, strict=False):
        name = _short(result.classes[k])
        axes.plot(course.x, 100 * truth[:, k], color=color, alpha=0.35, linewidth=4)
        axes.plot(
            course.x, 100 * course.values(prior[:, k]), color=color, linewidth=1.4, label=name
        )
    axes.set_ylabel("share, %")
    axes.set_ylim(bottom=0)
    _legend(axes, 2)
    _along(axes, result)


def reliability(result: Replay, figure: Figure) -> None:
    pair: list[tuple[str, Scores, str]] = [
        ("before", result.raw, BEFORE),
        ("after", result.corrected, AFTER),
    ]
    for axes, (name, scores, color) in zip(figure.subplots(1, 2, sharey=True), pair, strict=True):
        bins = scores.reliability
        axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
        share = bins.rows / max(bins.rows.sum(), 1)
        at = bins.rows > 0
        x, y = 100 * bins.confidence[at], 100 * bins.accuracy[at]
        axes.vlines(x, np.minimum(x, y), np.maximum(x, y), color=color, alpha=0.35, linewidth=3)
        axes.scatter(x, y, 12 + 500 * share[at], color=color, alpha=0.85, linewidth=0)
        axes.set(
            xlim=(0, 100), ylim=(0, 100), aspect="equal", xticks=[0, 50, 100], yticks=[0, 50, 100]
        )
        axes.set_xlabel("confidence, %")
        axes.set_title(f"{name}: ECE {100 * scores.ece:.1f} %", color=INK, fontsize=10.5)
    figure.axes[0].set_ylabel("accuracy, %")


def path_weights(result: Replay, figure: Figure) -> None:
    axes = figure.subplots()
    course = Course(result)
    weights = np.array([moment.weights for moment in result.moments])
    names = list(result.paths)
    share = course.sums(weights * course.lengths[:, None]).T / course.window
    shown = np.argsort(-share.max(axis=1), kind="stable")[:SHOWN]
    shown = np.array([k for k in sorted(shown) if share[k].max() > 0.02])
    other = 1 - share[shown].sum(axis=0)
    layers, labels, colors = [*share[shown]], [names[k] for k in shown], [*SERIES[: len(shown)]]
    if other.max() > 0.005:
        layers, labels, colors = [*layers, other], [*labels, "others"], [*colors, MUTED]
    axes.stackplot(course.x, 100 * np.array(layers), labels=labels, colors=colors)
    axes.set(ylabel="weight, %", ylim=(0, 100))
    axes.grid(False)
    _legend(axes, 3)
    _along(axes, result)


def temperature(result: Replay, figure: Figure) -> None:
    axes = figure.subplots()
    course = Course(result)
    values = course.values([moment.temperature for moment in result.moments])
    axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
    axes.plot(course.x, values, color=AFTER)
    low, high = min(values.min(), 1), max(values.max(), 1)
    pad = max(0.1 * (high - low), 0.05)
    axes.set_ylim(low - pad, high + pad)
    axes.set_ylabel("temperature")
    _along(axes, result)


def label_rates(result: Replay, figure: Figure) -> None:
    names = [f"{100 * rate:g} %" for rate in result.rates]
    panels = [
        (
            "accuracy, points",
            [100 * (s.accuracy - result.raw.accuracy) for s in result.rates.values()],
            "%+.2f",
        ),
        (
            "log loss, nats",
            [s.log_loss - result.raw.log_loss for s in result.rates.values()],
            "%+.3f",
        ),
    ]
    for axes, (title, values, form) in zip(figure.subplots(1, 2), panels, strict=True):
        bars = axes.bar(names, values, width=0.62, color=AFTER)
        axes.bar_label(
            bars,
            [(form % value).replace("-", "\N{MINUS SIGN}") for value in values],
            padding=3,
            fontsize=9,
            color=INK,
        )
        axes.axhline(0, color=MUTED, linewidth=1)
        axes.set_title(title, color=INK, fontsize=10.5)
        axes.margins(y=0.18)
        axes.tick_params(axis="y", labelleft=False)
        axes.tick_params(axis="x", labelsize=9)
        axes.grid(False)


# ---- what the figures share


def _along(axes: Axes, result: Replay) -> None:
    axes.margins(x=0.01)
    if result.dates:
        locator = dates.AutoDateLocator(maxticks=6)
        axes.xaxis.set_major_locator(locator)
        short = dates.ConciseDateFormatter(locator)
        axes.xaxis.set_major_formatter(short)
        return
    axes.set_xlabel("rows")
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5))
    axes.xaxis.set_major_formatter(lambda value, _: _rows(value))


def _rows(value: float) -> str:
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:g}{unit}"
    return f"{value:g}"


def _pair(axes: Axes, course: Course, before: NDArray[Any], after: NDArray[Any]) -> None:
    axes.plot(course.x, before, color=BEFORE, label="before")
    axes.plot(course.x, after, color=AFTER, label="after")
    _legend(axes, 2)


def _legend(axes: Axes, columns: int) -> None:
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        handlelength=1.2,
        columnspacing=1.2,
        fontsize=9,
        borderaxespad=0.2,
    )


def _short(name: Any, limit: int = 24) -> str:
    text = str(name)
    return text if len(text) <= limit else text[: limit - 1] + "…"


FIGURES = [
    Shown(
        "Rolling accuracy",
        "Share of right predictions in a sliding window, before and after.",
        rolling_accuracy,
    ),
    Shown("Rolling log loss", "Log loss in a sliding window, before and after.", rolling_log_loss),
    Shown(
        "Class mix: labels (wide) and estimate (thin)",
        "What the labels were, and what the corrector took the class mix for.",
        class_mix,
    ),
    Shown(
        "Reliability",
        "Accuracy against confidence; the area of a point is its share of the rows.",
        reliability,
    ),
    Shown(
        "Weight of each path",
        "How much each path has to say, on average in a sliding window.",
        path_weights,
    ),
    Shown(
        "Temperature",
        "Above 1 the classifier is overconfident.",
        temperature,
        lambda result: "temperature" in result.paths,
    ),
    Shown(
        "What labels buy",
        "Change against the raw predictions, by the share of rows whose label arrives.",
        label_rates,
        lambda result: bool(result.rates),
    ),
]
