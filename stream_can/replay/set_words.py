"""Prediction sets of a replay, in words."""

from __future__ import annotations

from stream_can.replay.names import readable
from stream_can.replay.sets import ENOUGH, WINDOW, Group, SetScores


def sets_in_words(scores: SetScores | None) -> list[str]:
    """One or two sentences; none without sets or labels."""
    if scores is None or not scores.known:
        return []
    off = 100 * scores.error
    error = "" if off != off else f" (standard error {off:.1f})"
    sentence = (
        f"Prediction sets promise {_percent(scores.promised)} and keep"
        f" {100 * scores.kept:.1f} %{error} of the {scores.known:,} rows whose label is known"
    )
    if not scores.learned:
        sentence += "; no label came that could teach them"
    elif scores.learned != scores.known:
        sentence += (
            f", {100 * scores.kept_learned:.1f} % of the {scores.learned:,} whose label taught them"
        )
    sentence += (
        f": {scores.mean_size:.2f} classes on average, {100 * scores.singletons:.0f} % of the sets"
        " have one"
    )
    if scores.worst is not None:
        sentence += f"; worst {WINDOW} rows in a row {100 * scores.worst[0]:.1f} %"
    if (group := scores.worst_group) is not None:
        sentence += (
            f"; of rows {in_group(scores, group)} {100 * group.kept:.1f} %, the least of any with"
            f" {ENOUGH} labels"
        )
    return [f"{sentence}."]


def in_group(scores: SetScores, group: Group) -> str:
    """Which rows a group has, in words."""
    name = readable(group.name, 40)
    return f"predicted as {name}" if scores.by == "class" else f"with {scores.by} {name}"


def _percent(share: float) -> str:
    return f"{100 * share:.10g} %"
