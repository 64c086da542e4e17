"""Figures that the pages of several kinds of rows have."""

from __future__ import annotations

from matplotlib.figure import Figure

from stream_can.replay.effect import NATS, POINTS
from stream_can.replay.result import Replay
from stream_can.report.course import Course
from stream_can.report.curves import before_and_after
from stream_can.report.svg import AFTER, BEFORE, INK, MUTED, Key, ShownPoints

__all__ = ["LABEL_RATES", "rolling_accuracy", "rolling_log_loss"]


def rolling_accuracy(result: Replay, figure: Figure) -> list[Key]:
    course = Course(result)
    means, errors = course.means("hits", "hits")
    axes = figure.subplots()
    axes.set_ylabel("accuracy, %")
    return before_and_after(axes, course, 100 * means, 100 * errors)


def rolling_log_loss(result: Replay, figure: Figure) -> list[Key]:
    course = Course(result)
    means, errors = course.means("losses", "squares")
    axes = figure.subplots()
    axes.set_ylabel("log loss, nats")
    return before_and_after(axes, course, means, errors)


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
    panels = [panel for panel in panels if hasattr(raw, panel[1])]  # several labels: log loss
    deep = len(panels) if len(kinds) > 1 else 1
    all_axes = figure.subplots(deep, len(panels) // deep, squeeze=False).ravel()
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


LABEL_RATES: ShownPoints[Replay] = ShownPoints(
    "What labels buy",
    "After minus before, by the share of the labels that arrives: at random, or asked for, half of"
    " them at random and half where the corrected row is torn between two classes.",
    label_rates,
    lambda result: bool(result.rates or result.asked_rates),
)
