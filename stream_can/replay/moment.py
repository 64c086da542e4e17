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
    n, gains, squares = len(raw), sent - raw, None if weights is None else weights**2

    def total(values: Array | NDArray[np.bool_], by: Array | None) -> float:
        return float(values.sum() if by is None else values @ by)

    def total_square(values: Array) -> float:
        return float(values @ values if squares is None else (values * values) @ squares)

    hit_squares = total(raw_hits, squares), total(sent_hits, squares)
    loss_squares = total(raw, squares), total(sent, squares)
    by_square = SquareSums(
        n if squares is None else float(squares.sum()),
        hit_squares,
        loss_squares,
        (total_square(raw), total_square(sent)),
        (hit_squares[1] - hit_squares[0], loss_squares[1] - loss_squares[0]),
        (total(raw_hits != sent_hits, squares), total_square(gains)),
    )
    labelled = n if weights is None else float(weights.sum())
    of_hits = total(raw_hits, weights), total(sent_hits, weights)
    of_losses = total(raw, weights), total(sent, weights)
    return row, time, n, labelled, of_hits, of_losses, by_square
