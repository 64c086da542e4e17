"""Moment: the stream during one step of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.replay.step import Step

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Moment:
    """The stream during one step. Pairs are of raw rows and of sent rows."""

    row: int
    """Number of rows so far."""
    time: Any
    """Time of the step's last prediction; None where unknown."""
    labelled: int
    """Number of rows of the step with a known label."""
    hits: Pair
    """Number of right rows among these; 0 where a row has several labels."""
    losses: Pair
    """Sums of their log losses."""
    squares: Pair
    """Sums of the squares of these, for standard errors."""
    differences: Pair
    """Sums of the squared differences between raw and sent rows: of hits, of log losses."""


def moment_sums(
    row: int,
    step: Step,
    losses: tuple[NDArray[np.float64], NDArray[np.float64]],
    hits: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> tuple[int, Any, int, Pair, Pair, Pair, Pair]:
    """The fields of a `Moment`, from the log losses and hits of its labelled rows, raw and sent."""
    raw, sent = losses
    raw_hits, sent_hits = (np.zeros(len(raw), np.bool_),) * 2 if hits is None else hits
    gains = sent - raw
    return (
        row,
        None if step.time is None else step.time[-1],
        len(raw),
        (float(raw_hits.sum()), float(sent_hits.sum())),
        (float(raw.sum()), float(sent.sum())),
        (float(raw @ raw), float(sent @ sent)),
        (float(np.count_nonzero(raw_hits != sent_hits)), float(gains @ gains)),
    )
