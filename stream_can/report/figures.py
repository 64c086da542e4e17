"""Figures that the pages of several kinds of rows have."""

from __future__ import annotations

from matplotlib.figure import Figure

from stream_can.replay.effect import NATS, POINTS
from stream_can.replay.result import Replay
from stream_can.report.course import Course
from stream_can.report.curves import along, band, before_and_after
from stream_can.report.svg import AFTER, BEFORE, INK, MUTED, Key, ShownPoints


def rolling_accuracy(result: Replay, figure: Figure) -> list[Key]:
    course = Course(result)
    means, errors = course.means("hits")
    axes = figure.subplots()
    axes.set_ylabel("accuracy, %")
    return before_and_after(axes, course, 100 * means, 100 * errors)


def rolling_log_loss(result: Replay, figure: Figure) -> list[Key]:
    course = Course(result)
    means, errors = course.means("losses")
    axes = figure.subplots()
    axes.set_ylabel("log loss, nats")
    return before_and_after(axes, course, means, errors)


def change_over_time(result: Replay, figure: Figure) -> list[Key]:
    course = Course(result)
    panels = [("losses", "log loss, nats", 1), ("hits", "accuracy, points", 100)]
    panels = panels if hasattr(result.moments[0], "hits") else panels[:1]
    all_axes = figure.subplots(len(panels), squeeze=False, sharex=True).ravel()
    for axes, (quantity, name, scale) in zip(all_axes, panels, strict=True):
        mean, error = course.changes(quantity)
        band(axes, course, scale * mean, scale * error, AFTER)
        axes.axhline(0, color=MUTED, linewidth=1)
        axes.plot(course.x, scale * mean, color=AFTER, label=" change")
        axes.set_ylabel(name)
        along(axes, result)
    for axes in all_axes[:-1]:
        axes.set_xlabel("")
    return []


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

    def reach(rate: float, is_requested: bool, score: str, scale: float) -> float:
        """Two standard errors of a change, 0 where they are not known."""
        change = result.rate_changes.get((rate, is_requested))
        error = 0.0 if change is None else 2 * scale * float(getattr(change, score).error)
        return error if error == error else 0.0

    all_axes = figure.subplots(deep, len(panels) // deep, squeeze=False).ravel()
    for axes, (title, score, scale, form, least) in zip(all_axes, panels, strict=True):
        low = high = 0.0
        for i, (_, scores, color) in enumerate(kinds):
            at = [k for k, rate in enumerate(rates) if rate in scores]
            values = [scale * (getattr(scores[rates[k]], score) - getattr(raw, score)) for k in at]
            # Side by side where a rate has both, centred where it has one.
            has_both = [rates[k] in result.rates and rates[k] in result.asked_rates for k in at]
            aside = (i - 0.5) * width
            x = [k + aside * is_double for k, is_double in zip(at, has_both, strict=True)]
            is_requested = scores is result.asked_rates
            reaches = [reach(rates[k], is_requested, score, scale) for k in at]
            axes.bar_label(
                axes.bar(x, values, width=0.92 * width, color=color, ecolor=MUTED, yerr=reaches),
                [(form % value).replace("-", "\N{MINUS SIGN}") for value in values],
                padding=3,
                fontsize=10 - len(kinds),
                color=INK,
            )
            far = max(reaches, default=0.0)
            low, high = min(low, *values) - far, max(high, *values) + far
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


CHANGE: ShownPoints[Replay] = ShownPoints(
    "Change over time",
    "After minus before, of the same labelled rows of a window of {window} rows; of log loss, below"
    " 0 is better. Bands: two standard errors of the change.",
    change_over_time,
)
LABEL_RATES: ShownPoints[Replay] = ShownPoints(
    "What labels buy",
    "After minus before, by the share of the labels that arrives: at random, or asked for, as --ask"
    " does. Lines, where there are some: two standard errors, also over which labels were drawn.",
    label_rates,
    lambda result: bool(result.rates or result.asked_rates),
)
