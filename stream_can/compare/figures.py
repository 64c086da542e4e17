"""Figures of a comparison: the best of each sort over time, and their calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stream_can.compare.outcome import Outcome
from stream_can.compare.rivals import BOTH
from stream_can.compare.stream import Stream
from stream_can.compare.verdict import best
from stream_can.report.reliability import diagram
from stream_can.report.svg import AFTER, BEFORE, SERIES

__all__ = ["Drawn", "Line", "lines", "panels", "rolling"]

POINTS = 240
REFITTED = "refitted"


class Line(NamedTuple):
    """An outcome with its color."""

    outcome: Outcome
    color: str


class Drawn(NamedTuple):
    """A stream, and the outcomes to draw."""

    stream: Stream
    lines: list[Line]


def lines(outcomes: list[Outcome]) -> list[Line]:
    """Raw, the best fitted once, the best refitted, and stream_can with both."""
    raw, rest = outcomes[0], outcomes[1:]
    shown = [Line(raw, BEFORE)]
    kinds: list[tuple[Callable[[Outcome], bool], str]] = [
        (lambda one: one.needs == "validation rows" and one.name[:6] != BOTH[:6], SERIES[2]),
        (lambda one: one.name.endswith(REFITTED), SERIES[3]),
        (lambda one: one.name == BOTH, AFTER),
    ]
    for is_one, color in kinds:
        if found := [one for one in rest if is_one(one)]:
            shown.append(Line(best(found), color))
    return shown


def rolling(what: str) -> Callable[[Drawn, Figure], list[Any]]:
    """A figure of "accuracy" or "log loss" in a sliding window of scored rows."""

    def plot(drawn: Drawn, figure: Figure) -> list[Any]:
        rows = np.flatnonzero(drawn.stream.scored)
        window = min(max(len(rows) // 25, 500), max(len(rows) // 2, 1))
        ends = np.linspace(window, len(rows), POINTS).astype(np.intp)
        axes = figure.subplots()
        # Each is narrower than the one below, so that coinciding lines are visible.
        widths = np.linspace(4.5, 1.5, len(drawn.lines))
        for (outcome, color), width in zip(drawn.lines, widths, strict=True):
            values = 100.0 * outcome.hits if what == "accuracy" else outcome.losses
            total = np.append(0, np.cumsum(values))
            mean = (total[ends] - total[ends - window]) / window
            axes.plot(rows[ends - 1], mean, color=color, linewidth=width, label=f" {outcome.name}")
        axes.set_ylabel("accuracy, %" if what == "accuracy" else "log loss, nats")
        axes.set_xlabel("rows")
        axes.margins(x=0.01)
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        return []

    plot.__name__ = f"rolling-{what}"
    return plot


def panels(first: int) -> Callable[[Drawn, Figure], list[Any]]:
    """A figure of two reliability diagrams side by side: lines first and first + 1."""

    def plot(drawn: Drawn, figure: Figure) -> list[Any]:
        pair = drawn.lines[first : first + 2]
        found = np.atleast_1d(figure.subplots(1, 2, sharey=True))
        for axes, (outcome, color) in zip(found, pair, strict=False):
            title = f"{outcome.name}\nECE {100 * outcome.scores.ece:.1f} %"
            diagram(axes, outcome.scores.reliability, color, title, 9.5)
        for axes in found[len(pair) :]:
            axes.set_visible(False)
        found[0].set_ylabel("accuracy, %")
        return []

    plot.__name__ = f"reliability-{first}"
    return plot
