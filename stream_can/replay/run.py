"""Recorded predictions and late labels through a Corrector, as the stream would have seen them.

The order is the stream's own: before each row, the labels that are due by then are learned. Labels
come a fixed number of rows late, or at their own time. What is kept is the labels on their way and
sums, so a recording of any length replays in bounded memory.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.recording.recording import Recording, from_arrays
from stream_can.replay.steps import Step, steps
from stream_can.scores import Scores

__all__ = ["Moment", "Recording", "Replay", "Step", "from_arrays", "label_rates", "replay", "steps"]


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


def replay(
    recording: Recording,
    corrector: Corrector,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    explain: bool = True,
    progress: Callable[[int], object] = lambda rows: None,
) -> Replay:
    """Replay a recording through a corrector.

    Parameters
    ----------
    recording
        Predictions and labels.
    corrector
        A new corrector, fitted or not, or the state of an earlier one.
    label_delay, label_rate, seed, explain
        As for :func:`steps`; `label_delay` may be None only where the recording has times.
    progress
        Is called after each step with the number of its rows.

    Returns
    -------
    Scores over all rows whose label is known, those whose label never arrives included.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice(2, 2000, p=[0.8, 0.2])
    >>> P = np.where(y[:, None] == [0, 1], 0.55, 0.45)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "stream.npz")
    ...     np.savez(file, probs=P, label=y)
    ...     result = replay(Recording(file), Corrector(2), label_delay=10)
    >>> result.corrected.log_loss < result.raw.log_loss
    True
    """
    if label_delay is None and not recording.has_times:
        raise ValueError(
            "label_delay: say after how many rows a label arrives, or name the columns of times"
        )
    started = clock.perf_counter()
    result = Replay(corrector)
    for step in steps(
        recording.chunks(),
        corrector,
        label_delay=label_delay,
        label_rate=label_rate,
        seed=seed,
        explain=explain,
    ):
        result.add(step)
        progress(len(step.P))
    result.dates |= recording.dates
    result.delay = "at their own time" if label_delay is None else f"{label_delay:,} rows late"
    result.seconds = clock.perf_counter() - started
    return result


def label_rates(
    recording: Recording,
    start: Callable[[], Corrector],
    rates: Iterable[float],
    *,
    label_delay: int | None = None,
    seed: int = 0,
    progress: Callable[[int], object] = lambda rows: None,
) -> dict[float, Scores]:
    """What labelling a share of the stream would buy: scores of the corrected rows at each rate.

    Parameters
    ----------
    start
        Makes the corrector that each rate begins with.
    rates
        Shares of the labels that arrive, in [0, 1].
    """
    return {
        rate: replay(
            recording,
            start(),
            label_delay=label_delay,
            label_rate=rate,
            seed=seed,
            explain=False,
            progress=progress,
        ).corrected
        for rate in rates
    }
