"""In words: whether a replay says that the corrector should be used."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_can.replay.result import Replay

__all__ = ["verdict"]

FEW = 200
"""Below this many labelled rows a replay is an anecdote."""
GROUPS = 30


def verdict(result: Replay) -> str:
    """One paragraph on whether to use the corrector on this stream, and why.

    A change counts where it is larger than two standard errors, taken over 30 stretches of the
    stream, since neighbouring rows are alike.
    """
    if result.raw.n < FEW:
        return (
            f"Too few labels to say: {result.raw.n:,} rows have one, and below {FEW} any "
            "difference may be chance. Replay a longer recording."
        )
    points, points_error = _change(result, "hits", 100)
    nats, nats_error = _change(result, "losses", 1)
    raw, corrected = result.raw, result.corrected
    numbers = (
        f"accuracy {100 * raw.accuracy:.2f} % before and {100 * corrected.accuracy:.2f} % after "
        f"({points:+.2f} points, standard error {points_error:.2f}), log loss {raw.log_loss:.4f} "
        f"before and {corrected.log_loss:.4f} after ({nats:+.4f} nats, standard error "
        f"{nats_error:.4f})"
    )
    right_more, right_less = points > 2 * points_error, points < -2 * points_error
    closer, further = nats < -2 * nats_error, nats > 2 * nats_error
    if (right_less and not closer) or (further and not right_more):
        first = f"Do not use it on this stream: it made the predictions worse, {numbers}."
    elif right_less or further:
        first = f"It is a trade on this stream, and yours to weigh: {numbers}."
    elif right_more:
        first = f"Use it: more predictions are right, {numbers}."
    elif closer:
        first = (
            f"Use it where the probabilities themselves matter: as many predictions are right, and "
            f"the probabilities are closer to the truth, {numbers}."
        )
    else:
        first = f"It changes nothing here that stands out of the noise: {numbers}."
    return " ".join([first, *_reasons(result)])


def _reasons(result: Replay) -> list[str]:
    reasons = []
    weights = result.mean_weights
    best = max(weights, key=weights.__getitem__)
    reasons.append(f"Most weight was on {best}: {100 * weights[best]:.0f} % over the whole stream.")
    can = result.paths.get("can")
    if can is not None and can.n:
        change = 100 * (can.accuracy - result.raw.accuracy)
        if change < -0.5:
            reasons.append(
                f"CAN alone would have cost {-change:.1f} points of accuracy: the mixture is what "
                "keeps it from doing harm."
            )
    early, late = _mixes(result)
    moved = 0.5 * float(np.abs(late - early).sum())
    if moved > 0.1:
        reasons.append(
            f"The class mix moves: {100 * moved:.0f} % of the labels are of other classes in the "
            "last fifth of the stream than in the first."
        )
    few = result.rates.get(0.05)
    gain = result.raw.log_loss - result.corrected.log_loss
    if few is not None and gain > 0.001:
        kept = 100 * min(max((result.raw.log_loss - few.log_loss) / gain, 0), 1)
        reasons.append(f"With one label in 20 it would keep {kept:.0f} % of the gain in log loss.")
    return reasons


def _change(result: Replay, what: str, scale: float) -> tuple[float, float]:
    """Corrected minus raw per labelled row, and its standard error."""
    labelled = np.cumsum([moment.labelled for moment in result.moments])
    sums = np.cumsum([np.subtract(*getattr(moment, what)[::-1]) for moment in result.moments])
    edges = np.linspace(0, labelled[-1], min(GROUPS, len(labelled)) + 1)
    at = np.interp(edges, np.append(0, labelled), np.append(0.0, sums))
    means = scale * np.diff(at) / np.diff(edges)
    error = means.std(ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    return float(scale * sums[-1] / labelled[-1]), float(error)


def _mixes(result: Replay) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The class mix of the labels in the first and the last fifth."""
    counts = np.cumsum([moment.counts for moment in result.moments], axis=0)
    rows = np.array([moment.row for moment in result.moments])
    first = counts[np.searchsorted(rows, result.rows / 5)]
    last = counts[-1] - counts[np.searchsorted(rows, 0.8 * result.rows)]
    if not first.sum() or not last.sum():
        return np.zeros(1), np.zeros(1)
    return first / first.sum(), last / last.sum()
