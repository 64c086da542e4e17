"""Prediction sets on the page: coverage and size over time, and in numbers."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stream_can.replay.result import Replay
from stream_can.replay.set_words import in_group
from stream_can.replay.sets import WINDOW, SetScores
from stream_can.report.course import Course, share_errors
from stream_can.report.curves import along, band
from stream_can.report.svg import AFTER, BEFORE, MUTED, Key

MOST_NAMED = 20
"""Number of groups that are named, those with most labels."""


def kept_and_size(result: Replay, figure: Figure) -> list[Key]:
    """Draw two small figures one above the other, over the same rows."""
    assert result.sets is not None
    course, moments = Course(result), result.sets.moments
    sums = course.sums([(m.covered, m.known, m.size, m.rows, *m.squares) for m in moments])
    known = np.where(sums[:, 1] > 0.5 * course.unit, sums[:, 1], np.nan)
    coverage = sums[:, 0] / known
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    above.axhline(100 * result.sets.promised, color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
    error = share_errors(coverage, sums[:, 5], known, sums[:, 4])
    band(above, course, 100 * coverage, 100 * error, AFTER)
    above.plot(course.x, 100 * coverage, color=AFTER, label=" kept")
    above.set_ylabel("kept, %")
    low = np.nanmin(100 * (coverage - 2 * error), initial=100 * result.sets.promised)
    above.set_ylim(max(0, low - 1), 101)
    size = sums[:, 2] / np.maximum(sums[:, 3], 1)
    below.plot(course.x, size, color=BEFORE, label=" size")
    below.set_ylabel("size")
    below.set_ylim(0, 1.15 * max(1, float(size.max())))
    below.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    along(below, result)
    return [Key("kept", AFTER), Key("mean size", BEFORE)]


def sets_facts(scores: SetScores) -> list[tuple[str, str]]:
    """Names and numbers."""
    facts = [("promised", f"{100 * scores.promised:.10g} %")]
    if scores.known:
        off = 100 * scores.error
        error = "" if off != off else f" (± {off:.2f})"
        rows = f"{scores.known:,} rows whose label is known"
        facts.append(("kept", f"{100 * scores.kept:.2f} %{error} of the {rows}"))
    if scores.learned:
        rows = f"{scores.learned:,} rows whose label taught the sets"
        facts.append(
            ("kept where labels taught", f"{100 * scores.kept_learned:.2f} % of the {rows}")
        )
    facts.append(("mean size", f"{scores.mean_size:.2f} classes"))
    facts.append(("of one class", f"{100 * scores.singletons:.1f} % of the sets"))
    if scores.worst is not None:
        coverage, row = scores.worst
        text = f"{100 * coverage:.1f} % kept, up to row {row:,}"
        facts.append((f"worst {WINDOW} rows in a row", text))
    facts += [
        (in_group(scores, group),
         f"{100 * group.kept:.1f} % kept of {group.known:,}, {group.mean_size:.2f} classes")
        for group in scores.groups[:MOST_NAMED] if group.known
    ]  # fmt: skip
    return facts
