"""DenseMoment: the stream during one step of a replay of dense rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.replay.moment import Moment


@dataclass(frozen=True, slots=True)
class DenseMoment(Moment):
    """The stream during one step, and the corrector after it."""

    squared: NDArray[np.float64]
    """Sums of the Brier scores of its labelled rows, times weights: raw, corrected."""
    gaps: NDArray[np.float64]
    """Right predictions less confidence in each bin: raw, corrected, shape (2, bins)."""
    counts: NDArray[Any]
    """Labels per class, or the sums of their weights, shape (m,)."""
    squared_counts: NDArray[Any]
    """Sums of the squares of these weights; without weights the same."""
    prior: NDArray[np.float64]
    """The corrector's estimate of the class mix, shape (m,)."""
    weights: NDArray[np.float64]
    """Weight of each path."""
    temperature: float
    final_weights: NDArray[np.float64]
    """Weights of the rows in the output, in the order of ``Corrector.final_weights``."""
    last_temperature: float
    coverage: float
    """Share of the correction that the labels let out."""
    silent: tuple[Any, ...]
    """Classes left out of learning because they have no labels."""
