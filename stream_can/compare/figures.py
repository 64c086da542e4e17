"""Figures of rivals beside a replay: the best of each sort over time, and their calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from stream_can.compare.against import Against
from stream_can.replay.result import Replay
from stream_can.report.course import Course
from stream_can.report.curves import along, wide
from stream_can.report.reliability import diagram
from stream_can.report.svg import AFTER, BEFORE, SERIES, Key, draw

SORTS: list[tuple[Callable[[Against], bool], str]] = [
    (lambda comparison: "labels" not in comparison.outcome.needs, SERIES[2]),
    (lambda comparison: "labels" in comparison.outcome.needs, SERIES[3]),
]
"""Rivals that need no label of the stream, and those that learn from them."""


class Drawn(NamedTuple):
    """A replay, and the rivals to draw with their colors."""

    result: Replay
    rivals: list[tuple[Against, str]]


def against_figures(result: Replay, comparisons: Sequence[Against]) -> list[tuple[str, str, str]]:
    """Title, figure (HTML) and caption of each figure; none without rivals."""
    drawn = Drawn(result, [])
    for is_of_sort, color in SORTS:
        if of_sort := [comparison for comparison in comparisons if is_of_sort(comparison)]:
            drawn.rivals.append(
                (min(of_sort, key=lambda comparison: comparison.outcome.scores.log_loss), color)
            )
    if not drawn.rivals:
        return []
    names = " and ".join(comparison.outcome.name for comparison, _ in drawn.rivals)
    window = f"{Course(result).window:,.0f}"
    return [
        (f"{title}: {names}", draw(title, plot, drawn), caption.replace("{window}", window))
        for title, plot, caption in FIGURES
    ]


def rolling(k: int) -> Callable[[Drawn, Figure], list[Key]]:
    """A figure of accuracy (0) or log loss (1) in a sliding window of rows."""

    def plot(drawn: Drawn, figure: Figure) -> list[Key]:
        course = Course(drawn.result)
        means, _ = course.means(("hits", "losses")[k])
        scale = (100, 1)[k]
        axes = figure.subplots()
        axes.set_ylabel(("accuracy, %", "log loss, nats")[k])
        wide(axes, course, scale * means[0], BEFORE, "before")
        keys = [Key("before", BEFORE, "wide")]
        for comparison, color in drawn.rivals:
            sums = course.sums(np.stack([comparison.sums[k], comparison.labelled], axis=1))
            n = np.where(sums[:, 1] > 0, sums[:, 1], np.nan)
            name = comparison.outcome.name
            axes.plot(course.x, scale * sums[:, 0] / n, color=color, label=f" {name}")
            keys.append(Key(name, color))
        axes.plot(course.x, scale * means[1], color=AFTER, linewidth=1.5, label=" stream_can")
        along(axes, drawn.result)
        return [*keys, Key("stream_can", AFTER)]

    plot.__name__ = f"against-{k}"
    return plot


def reliability(drawn: Drawn, figure: Figure) -> list[Key]:
    panels = np.atleast_1d(figure.subplots(1, len(drawn.rivals), sharey=True))
    for axes, (comparison, color) in zip(panels, drawn.rivals, strict=True):
        title = f"{comparison.outcome.name}\nECE {100 * comparison.outcome.scores.ece:.1f} %"
        diagram(axes, comparison.outcome.scores.reliability, color, title, 9.5)
    panels[0].set_ylabel("accuracy, %")
    return []


OVER_TIME = (
    "In a sliding window of {window} rows: of the rivals that learn from labels, and of those that"
    " need none, the one with the lowest log loss."
)
FIGURES: list[tuple[str, Callable[[Drawn, Figure], list[Key]], str]] = [
    ("Accuracy against", rolling(0), OVER_TIME),
    ("Log loss against", rolling(1), OVER_TIME),
    (
        "Reliability of",
        reliability,
        "Accuracy against confidence; the area of a point is its share of the rows.",
    ),
]
