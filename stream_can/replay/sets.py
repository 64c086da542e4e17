"""Prediction sets over a replay: did they keep what they promise, and how large were they?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import change
from stream_can.replay.steps import Step

__all__ = ["WINDOW", "SetMoment", "SetScores", "sets_in_words"]

WINDOW = 500
"""Rows with a known label, in a row, of which the worst are told."""


class SetMoment(NamedTuple):
    """The sets of one step."""

    row: int
    """Rows until then."""
    rows: int
    """Rows of the step."""
    size: int
    """Classes in all of their sets."""
    known: int
    """Rows of the step whose label is known."""
    kept: int
    """How many of those have it in their set."""


class SetScores:
    """Scores of the promise of prediction sets in a replay.

    Each row that was sent has a set, and each label teaches the sets as it teaches the corrector.
    Where labels are asked for only those teach that were drawn at random.

    Parameters
    ----------
    promised
        The share of rows whose set is to hold the label.
    """

    def __init__(self, promised: float) -> None:
        self.promised = promised
        self.moments: list[SetMoment] = []
        """How the stream went, step by step."""
        self.rows = self.size = self.single = 0
        """Rows; classes in all of their sets; sets of one class."""
        self.known = self.known_kept = 0
        """Rows whose label is known, whether it arrives or not, and those that have it."""
        self.learned = self.learned_kept = 0
        """Rows whose label taught the sets, and those that have it."""
        self._waiting: dict[int, bool] = {}
        """Rows whose label is on its way and will teach: whether the set has it."""
        self._tail = np.zeros(0, np.int64)
        """Whether the last rows with a known label, fewer than a window, have it."""
        self._worst: tuple[int, int] | None = None
        """How many rows of the worst window have it, and the row behind it."""

    def add(self, step: Step) -> None:
        """Take the sets of a step's rows, and the labels that came between them."""
        assert step.inside is not None
        if step.arrivals is not None:
            for i in np.flatnonzero(step.arrivals.fair).tolist():
                self._waiting[step.first + i] = bool(step.inside[i, step.y[i]])
            for row in (step.arrivals.due - 1 - step.arrivals.rows).tolist():
                kept = self._waiting.pop(row, None)
                self.learned += kept is not None
                self.learned_kept += bool(kept)
        self._count(step, step.inside)

    def _count(self, step: Step, inside: NDArray[np.bool_]) -> None:
        sizes = inside.sum(axis=1)
        at = np.flatnonzero(step.y >= 0)
        kept = inside[at, step.y[at]].astype(np.int64)
        self.rows += len(sizes)
        self.size += int(sizes.sum())
        self.single += int((sizes == 1).sum())
        self.known += len(at)
        self.known_kept += int(kept.sum())
        moment = SetMoment(
            step.first + len(sizes), len(sizes), int(sizes.sum()), len(at), int(kept.sum())
        )
        self.moments.append(moment)
        run = np.concatenate([self._tail, kept])
        if len(run) >= WINDOW:
            total = np.append(0, np.cumsum(run))
            sums = total[WINDOW:] - total[:-WINDOW]
            least = int(sums.argmin())
            if self._worst is None or sums[least] < self._worst[0]:
                last = at[least + WINDOW - 1 - len(self._tail)]
                self._worst = int(sums[least]), step.first + int(last) + 1
        self._tail = run[-(WINDOW - 1) :]

    @property
    def kept(self) -> float:
        """Share of the rows with a known label that have it in their set; nan without rows."""
        return _share(self.known_kept, self.known)

    @property
    def kept_learned(self) -> float:
        """The same of the rows whose label taught the sets: those that the promise is made to."""
        return _share(self.learned_kept, self.learned)

    @property
    def mean_size(self) -> float:
        """Classes in a set, on average over all rows."""
        return _share(self.size, self.rows)

    @property
    def singletons(self) -> float:
        """Share of all rows whose set has one class."""
        return _share(self.single, self.rows)

    @property
    def worst(self) -> tuple[float, int] | None:
        """The lowest share kept in 500 rows with a known label in a row, and the row behind them.

        None where there are fewer.
        """
        return None if self._worst is None else (self._worst[0] / WINDOW, self._worst[1])

    @property
    def error(self) -> float:
        """Standard error of ``kept``, over 30 stretches of the stream; nan for a single one."""
        known = np.array([moment.known for moment in self.moments])
        kept = [moment.kept for moment in self.moments]
        found = change(known, self.promised * known, kept)
        return float("nan") if found is None else found.error

    def to_dict(self) -> dict[str, Any]:
        """Without the course, as JSON would have it."""
        return {
            "promised": self.promised,
            "kept": _plain(self.kept),
            "kept_error": _plain(self.error),
            "known": self.known,
            "kept_learned": _plain(self.kept_learned),
            "learned": self.learned,
            "mean_size": _plain(self.mean_size),
            "singletons": _plain(self.singletons),
            "worst_window": None
            if self.worst is None
            else {"rows": WINDOW, "kept": self.worst[0], "until_row": self.worst[1]},
        }


def sets_in_words(scores: SetScores | None) -> list[str]:
    """One or two sentences; none where there are no sets or no labels."""
    if scores is None or not scores.known:
        return []
    off = 100 * scores.error
    error = "" if off != off else f" (standard error {off:.1f})"
    said = (
        f"Prediction sets promise {_percent(scores.promised)} and keep"
        f" {100 * scores.kept:.1f} %{error} of the {scores.known:,} rows whose label is known"
    )
    if not scores.learned:
        said += "; no label came that could teach them"
    elif scores.learned != scores.known:
        said += (
            f", {100 * scores.kept_learned:.1f} % of the {scores.learned:,} whose label taught them"
        )
    said += (
        f": {scores.mean_size:.2f} classes on average, {100 * scores.singletons:.0f} % of the sets"
        " have one"
    )
    if scores.worst is not None:
        said += f"; worst {WINDOW} rows in a row {100 * scores.worst[0]:.1f} %"
    return [f"{said}."]


def _percent(share: float) -> str:
    return f"{100 * share:.10g} %"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _plain(value: float) -> float | None:
    """A number with None for nan, which JSON does not have."""
    return None if value != value else value
