"""Drawing of curves: overlapping curves, error bands, the x axis."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from numpy.typing import NDArray

from stream_can.replay.result import Replay
from stream_can.report.course import Course
from stream_can.report.svg import AFTER, BEFORE, MUTED, Key


def before_and_after(
    axes: Axes, course: Course, means: NDArray[np.float64], errors: NDArray[np.float64]
) -> list[Key]:
    """Draw two curves with bands; where they coincide, "before" is visible on both sides."""
    for mean, error, color in zip(means, errors, (BEFORE, AFTER), strict=True):
        band(axes, course, mean, error, color)
    wide(axes, course, means[0], BEFORE, "before")
    axes.plot(course.x, means[1], color=AFTER, linewidth=1.5, label=" after")
    along(axes, course.result)
    return [Key("before", BEFORE, "wide"), Key("after", AFTER), *worse(axes, course)]


def worse(axes: Axes, course: Course) -> list[Key]:
    """Mark from when the classifier, or only the output, was worse."""
    alarm, keys = course.result.alarm, dict[str, Key]()
    if alarm is None:
        return []
    for episode in alarm.episodes:
        name, color = ("sent worse", AFTER) if episode.side else ("classifier worse", MUTED)
        start, end = (
            course.of_label(alarm.n if at is None else at) for at in (episode.since, episode.until)
        )
        axes.axvspan(start, end, color=color, alpha=0.13, linewidth=0)
        axes.axvline(start, color=color, linewidth=1)
        keys[name] = Key(name, color, "area")
    return list(keys.values())


def band(
    axes: Axes,
    course: Course,
    mean: NDArray[np.float64],
    error: NDArray[np.float64],
    color: str,
) -> None:
    """Draw a band of two standard errors either way."""
    axes.fill_between(
        course.x, mean - 2 * error, mean + 2 * error, color=color, alpha=0.13, linewidth=0
    )


def wide(axes: Axes, course: Course, values: NDArray[np.float64], color: str, name: str) -> None:
    """Draw a wide curve, over which another can be drawn."""
    axes.plot(course.x, values, color=color, linewidth=4.5, alpha=0.45, label=f" {name}")


def along(axes: Axes, result: Replay, ticks: int = 5) -> None:
    """Set up the x axis: dates, else rows; ``ticks`` is the maximum number of intervals."""
    axes.margins(x=0.01)
    if result.dates:
        locator = dates.AutoDateLocator(minticks=2, maxticks=ticks + 1)
        axes.xaxis.set_major_locator(locator)
        short = dates.ConciseDateFormatter(locator)
        axes.xaxis.set_major_formatter(short)
        return
    axes.set_xlabel("rows")
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda value, _: _rows(value))


def _rows(value: float) -> str:
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:g}{unit}"
    return f"{value:g}"
