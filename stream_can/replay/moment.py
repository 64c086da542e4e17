"""Moment: the stream during one step of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.replay.step import Step

Array = NDArray[np.float64]
Pair = tuple[float, float]


class SquareSums(NamedTuple):
    """Sums over the labelled rows of a step, each times the square of its label's weight, for
    standard errors. Pairs are of raw rows and of sent rows."""

    labelled: float
    """Of 1."""
    hits: Pair
    """Of hits."""
    losses: Pair
    """Of log losses."""
    squares: Pair
    """Of the squares of log losses."""
    gains: Pair
    """Of the differences between raw and sent rows: of hits, of log losses."""
    differences: Pair
    """Of the squares of these."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The stream during one step. Pairs are of raw rows and of sent rows."""

    row: int
    """Number of rows so far."""
    time: Any
    """Time of the step's last prediction; None where unknown."""
    n: int
    """Number of rows of the step with a known label."""
    labelled: float
    """Sum of the weights of these labels: without weights their number."""
    hits: Pair
    """Number of right rows among these, each counted as the weight of its label; 0 where a row has
    several labels."""
    losses: Pair
    """Sums of their log losses, times weights."""
    by_square: SquareSums
    """Sums for standard errors."""


def moment_sums(
    row: int,
    step: Step,
    losses: tuple[Array, Array],
    hits: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
    weights: Array | None = None,
) -> tuple[int, Any, int, float, Pair, Pair, SquareSums]:
    """The fields of a `Moment`, from the log losses and hits of its labelled rows, raw and sent,
    and the weights of their labels."""
    raw, sent = losses
    raw_hits, sent_hits = (np.zeros(len(raw), np.bool_),) * 2 if hits is None else hits
    time = None if step.time is None else step.time[-1]
    n, gains = len(raw), sent - raw
    if weights is None:
        of_hits = float(raw_hits.sum()), float(sent_hits.sum())
        of_losses = float(raw.sum()), float(sent.sum())
        by_square = SquareSums(
            n, of_hits, of_losses, (float(raw @ raw), float(sent @ sent)),
            (of_hits[1] - of_hits[0], of_losses[1] - of_losses[0]),
            (float(np.count_nonzero(raw_hits != sent_hits)), float(gains @ gains)),
        )  # fmt: skip
        return row, time, n, n, of_hits, of_losses, by_square
    first: Array = np.stack([np.ones(n), raw_hits, sent_hits, raw, sent])
    labelled, *sums = (first @ weights).tolist()
    squares = weights**2
    total, a, b, c, d = (first @ squares).tolist()
    second: Array = np.stack([raw * raw, sent * sent, raw_hits != sent_hits, gains * gains])
    e, f, g, h = (second @ squares).tolist()
    by_square = SquareSums(total, (a, b), (c, d), (e, f), (b - a, d - c), (g, h))
    return row, time, n, labelled, (sums[0], sums[1]), (sums[2], sums[3]), by_square
