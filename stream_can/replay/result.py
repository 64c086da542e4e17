"""What came of a replay: scores before and after, of every path, and how the stream went."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.replay.steps import Step
from stream_can.scores import Scores

__all__ = ["Moment", "Replay"]


class Moment(NamedTuple):
    """The stream during one step, and the corrector after it."""

    row: int
    """Rows until then."""
    time: Any
    """When the step's last row was predicted; None where that is not known."""
    labelled: int
    """Rows of the step whose label is known."""
    hits: tuple[float, float]
    """Of those, how many were right: raw, corrected."""
    losses: tuple[float, float]
    """Sums of their log losses: raw, corrected."""
    counts: NDArray[np.int64]
    """Labels per class, shape (m,)."""
    prior: NDArray[np.float64]
    """The corrector's estimate of the class mix, shape (m,)."""
    weights: NDArray[np.float64]
    """The weight of each path."""
    temperature: float


class Replay:
    """What a replay found out: scores of every path, and how the stream went.

    Parameters
    ----------
    corrector
        The one the steps went through; :attr:`corrector` is its state after the last row.
    """

    def __init__(self, corrector: Corrector) -> None:
        self.corrector = corrector
        self.classes = list(corrector.classes)
        self.raw, self.corrected = Scores(), Scores()
        self.paths = {name: Scores() for name in corrector.paths}
        self.moments: list[Moment] = []
        self.rows = 0
        self.seconds = 0.0
        self.rates: dict[float, Scores] = {}
        """Scores where only a share of the labels arrives; filled by :func:`label_rates`."""
        self.dates = False
        """Whether the times of the moments are dates: datetime64, or microseconds since 1970."""
        self.delay = ""
        """How late labels came, in words."""

    def add(self, step: Step) -> None:
        """Count a step in; call it before the next one is taken."""
        known = step.y >= 0
        P, y, corrected = step.P, step.y, step.corrected
        if not known.all():
            P, y, corrected = P[known], y[known], corrected[known]
        before = self.raw.add_checked(P, y)
        after = self.corrected.add_checked(corrected, y)
        if step.paths is not None:
            for scores, path in zip(self.paths.values(), step.paths, strict=True):
                scores.add_checked(path if len(path) == len(y) else path[known], y)
        self.rows = step.first + len(step.P)
        self.dates |= step.time is not None and step.time.dtype.kind == "M"
        corrector = self.corrector
        self.moments.append(
            Moment(
                self.rows,
                None if step.time is None else step.time[-1],
                len(y),
                (before[0], after[0]),
                (before[1], after[1]),
                np.bincount(y, minlength=len(self.classes)),
                corrector.prior,
                np.array(list(corrector.weights.values())),
                float(corrector.temperature) if "temperature" in self.paths else float("nan"),
            )
        )

    @property
    def mean_weights(self) -> dict[str, float]:
        """The weight of each path, averaged over the stream."""
        rows = np.diff([moment.row for moment in self.moments], prepend=0)
        weights = np.array([moment.weights for moment in self.moments])
        return dict(zip(self.paths, (rows @ weights / rows.sum()).tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The result without its course, as JSON would have it."""
        corrector = self.corrector
        return {
            "rows": self.rows,
            "labelled": self.raw.n,
            "learned": corrector.n_labels,
            "classes": self.classes,
            "label_delay": self.delay,
            "raw": self.raw.summary(),
            "corrected": self.corrected.summary(),
            "paths": {name: scores.summary() for name, scores in self.paths.items() if scores.n},
            "mean_weights": self.mean_weights,
            "label_rates": {f"{rate:g}": scores.summary() for rate, scores in self.rates.items()},
            "seconds": self.seconds,
        }
