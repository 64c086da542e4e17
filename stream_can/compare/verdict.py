"""Verdict: whether stream_can is better than the best method fitted by hand."""

from __future__ import annotations

from collections.abc import Sequence

from stream_can.compare.outcome import Outcome, against
from stream_can.compare.rivals import BOTH, OURS, WITH

__all__ = ["best", "highlighted", "verdict"]


def best(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome with the lowest log loss."""
    return min(outcomes, key=lambda one: one.scores.log_loss)


def highlighted(outcomes: Sequence[Outcome]) -> str:
    """Which row of the table is highlighted, and which is most accurate if that is another."""
    first = best(outcomes)
    right = max(outcomes, key=lambda one: one.scores.accuracy)
    said = f"Highlighted: {first.name}, the lowest log loss."
    if right.scores.accuracy > first.scores.accuracy:
        said += (
            f" The highest accuracy is another's, {right.name}:"
            f" {100 * right.scores.accuracy:.2f} % against {100 * first.scores.accuracy:.2f} %."
        )
    return said


def verdict(outcomes: Sequence[Outcome]) -> str:
    """One paragraph: stream_can compared to the rival with the lowest log loss.

    A difference counts beyond its 95 % interval.
    """
    ours = next((one for one in outcomes if one.name == BOTH), None)
    rivals = [one for one in outcomes if not one.name.startswith(OURS)]
    if ours is None:
        return (
            f"Not finished: stream_can has not been played yet. So far {best(rivals).name} leads."
        )
    rival = best(rivals)
    found = against(ours, rival)
    changed = found.summary()
    numbers = (
        f"log loss {ours.scores.log_loss:.4f} against {rival.scores.log_loss:.4f} "
        f"({changed['nats']:+.4f} nats, standard error {changed['nats_error']:.4f}), accuracy "
        f"{100 * ours.scores.accuracy:.2f} % against {100 * rival.scores.accuracy:.2f} % "
        f"({changed['points']:+.2f} points, standard error {changed['points_error']:.2f})"
    )
    if found.gain and found.loss:
        first = "A trade, and yours to weigh"
    elif found.gain:
        first = "stream_can is better here than anything fitted by hand"
    elif found.loss:
        first = f"Use {rival.name} here and not stream_can"
    else:
        first = "No difference here that stands out of the noise"
    return (
        f"{first}. stream_can with validation rows and labels, against the best of the rest, "
        f"{rival.name}: {numbers}."
    ) + _columns(outcomes, ours)


def _columns(outcomes: Sequence[Outcome], ours: Outcome) -> str:
    """A sentence on the gain by columns, if they played."""
    with_columns = next((one for one in outcomes if one.name == WITH), None)
    if with_columns is None:
        return ""
    found = against(with_columns, ours)
    if found.gain and not found.loss:
        first = "The columns are worth having"
    elif found.loss and not found.gain:
        first = "Leave the columns out"
    else:
        first = "The columns make no difference that stands out of the noise"
    return f" {first}: with them {found.in_words()}."
