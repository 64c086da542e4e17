"""In words: whether stream_can is better than the best that can be fitted by hand."""

from __future__ import annotations

from collections.abc import Sequence

from stream_can.compare.outcome import Outcome, change
from stream_can.compare.rivals import BOTH

__all__ = ["best", "verdict"]

OURS = "stream_can"


def best(outcomes: Sequence[Outcome]) -> Outcome:
    """The one with the lowest log loss."""
    return min(outcomes, key=lambda one: one.scores.log_loss)


def verdict(outcomes: Sequence[Outcome]) -> str:
    """One paragraph: stream_can against the rival with the lowest log loss.

    A difference counts where it is larger than two standard errors.
    """
    ours = next((one for one in outcomes if one.name == BOTH), None)
    rivals = [one for one in outcomes if not one.name.startswith(OURS)]
    if ours is None:
        return (
            f"Not finished: stream_can has not been played yet. So far {best(rivals).name} leads."
        )
    rival = best(rivals)
    against = change(ours, rival)
    numbers = (
        f"log loss {ours.scores.log_loss:.4f} against {rival.scores.log_loss:.4f} "
        f"({against.nats:+.4f} nats, standard error {against.nats_error:.4f}), accuracy "
        f"{100 * ours.scores.accuracy:.2f} % against {100 * rival.scores.accuracy:.2f} % "
        f"({against.points:+.2f} points, standard error {against.points_error:.2f})"
    )
    closer, further = (sign * against.nats > 2 * against.nats_error for sign in (-1, 1))
    more, fewer = (sign * against.points > 2 * against.points_error for sign in (1, -1))
    if (closer and fewer) or (further and more):
        first = "A trade, and yours to weigh"
    elif closer or more:
        first = "stream_can is better here than anything fitted by hand"
    elif further or fewer:
        first = f"Use {rival.name} here and not stream_can"
    else:
        first = "No difference here that stands out of the noise"
    return (
        f"{first}. stream_can with validation rows and labels, against the best of the rest, "
        f"{rival.name}: {numbers}."
    )
