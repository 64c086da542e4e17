"""Label requests in a replay: a share of all rows, compared to as many labels at random."""

from __future__ import annotations

from typing import Any

from stream_can.method.asking import LabelRequests
from stream_can.replay.effect import Effects
from stream_can.replay.result import Replay


def asking_for(recording: Any, share: float) -> float:
    """Share of the labelled rows to request for a share of all rows: only labelled ones can answer.

    The labelled rows are counted first, and a larger share of them is requested to make up for the
    others; all of them where they are too few.

    Parameters
    ----------
    share
        Share of all rows of the recording, above 0 and at most 1.

    Raises
    ------
    ValueError
        The share is out of range.
    """
    LabelRequests(share)  # refuses what is no share
    labelled: int = sum(int(chunk.arrives.sum()) for chunk in recording.chunks())
    if labelled in (0, recording.rows):
        return share
    rows: int = recording.rows
    return min(1.0, round(share * rows / labelled, 6))


def asked_labels(result: Replay) -> list[str]:
    """Describe the requests, and what as many labels at random would have brought."""
    if result.learner.ask is None:
        return []
    at_random, by_margin = result.asked["random"], result.asked["margin"]
    requested = at_random + by_margin
    sentences = [
        f"Labels of {requested:,} rows were asked for, {at_random:,} at random and "
        f"{by_margin:,} by margin; no other was learned. Accuracy and log loss are of all "
        f"{result.raw.n:,} rows whose label the recording has, asked for or not: in deployment "
        "take them from the random half alone."
    ]
    if result.possible < result.rows:
        sentences.append(
            f"Only the {result.possible:,} rows with a label can be answered here, "
            f"{100 * requested / max(result.possible, 1):.1f} % of them were, which is "
            f"{100 * requested / result.rows:.1f} % of all {result.rows:,} rows; a deployment"
            " chooses among all rows."
        )
    return sentences + _against_random(result)


def _against_random(result: Replay) -> list[str]:
    changes = None if result.at_random is None else result.changes(result.at_random)
    if changes is None:
        return []
    effects = Effects.of(changes)
    better, worse = effects.better, effects.worse
    if worse and not better:
        first = "Asking does worse than random here: draw the labels at random"
    elif worse:
        first = "Asking is a trade against random here"
    elif better:
        first = "Asking does better than random here"
    else:
        first = "Asking does neither better nor worse than random here"
    return [f"{first}. Against as many labels at random: {changes.in_words()}, in this one draw."]
