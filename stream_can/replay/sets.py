"""Prediction sets in a replay: their coverage and size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import change
from stream_can.method.class_names import json_name
from stream_can.replay.step import Step

WINDOW = 500
"""Number of consecutive labelled rows in the worst window."""
MOST_GROUPS = 100
"""Number of groups that are told of, those with most labels."""
ENOUGH = 100
"""Labelled rows from which a group's coverage is compared."""


class SetMoment(NamedTuple):
    """The sets of one step."""

    row: int
    """Number of rows so far."""
    rows: int
    """Number of rows of the step."""
    size: int
    """Number of classes in their sets."""
    known: float
    """Sum of the weights of the step's known labels: without weights their number."""
    covered: float
    """The same of those that are in the set of their row."""
    squares: tuple[float, float]
    """Sums of the squares of these weights, of both, for standard errors."""


class Group(NamedTuple):
    """Coverage of a group of rows: those of a predicted class, or of a segment's value."""

    name: Any
    rows: int
    size: int
    """Number of classes in their sets."""
    known: int
    """Number of rows with a known label,"""
    weight: float
    """sum of the weights of these labels: without weights their number,"""
    covered: float
    """and of those that are in the set of their row."""

    @property
    def kept(self) -> float:
        """Share of labelled rows covered; nan without rows."""
        return _share(self.covered, self.weight)

    @property
    def mean_size(self) -> float:
        """Mean number of classes in a set."""
        return _share(self.size, self.rows)


def _group(name: Any, sums: NDArray[np.float64]) -> Group:
    return Group(name, *sums[:3].astype(int).tolist(), *sums[3:].tolist())


class SetScores:
    """Coverage of prediction sets in a replay.

    Every sent row has a set, and every label teaches the sets as it teaches the corrector; with
    label requests only randomly drawn labels do. Shares count a label as its weight; numbers of
    rows and the worst window count each once.

    Parameters
    ----------
    promised
        Promised coverage.
    by
        Groups that each keep it: "class", the predicted one, or a segment. If all rows together do,
        predicted classes are shown.
    """

    def __init__(self, promised: float, by: str | None = None) -> None:
        self.promised, self.by = promised, by or "class"
        self._numbers: dict[Any, int] = {}
        """Number of each group, and of None for rows in none;"""
        self._sums = np.zeros((0, 5))
        """by that, rows, classes in sets, known labels, their weight, that of covered ones."""
        self.moments: list[SetMoment] = []
        """The course, step by step."""
        self._single = self.learned = 0
        """Number of sets of a single class, and of rows whose label taught the sets."""
        self._learned = [0.0, 0.0]
        """Weight of these labels, and of covered ones."""
        self._waiting: dict[int, bool] = {}
        """For rows whose teaching label is in flight, whether they are covered."""
        self._tail = np.zeros(0, np.int64)
        """Coverage of the last labelled rows, fewer than a window."""
        self._worst: tuple[int, int] | None = None
        """Number of covered rows in the worst window, and the row after it."""

    def add(self, step: Step, classes: Sequence[Any]) -> None:
        """Add the sets of a step's rows, and the labels between them."""
        assert step.sets is not None
        inside = np.array(
            [
                y >= 0 and classes[y] in names
                for y, names in zip(step.truth.tolist(), step.sets, strict=True)
            ]
        )
        for i in np.flatnonzero(step.arrivals.fair).tolist():
            self._waiting[step.first + i] = bool(inside[i])
        arrivals = step.arrivals
        arrived = repeat(1.0) if arrivals.weight is None else arrivals.weight.tolist()
        for row, weight in zip(arrivals.row.tolist(), arrived, strict=False):
            was_covered = self._waiting.pop(row, None)
            if was_covered is not None:
                self.learned += 1
                self._learned[0] += weight
                self._learned[1] += weight * was_covered
        sizes = np.array([len(names) for names in step.sets])
        at = np.flatnonzero(step.truth >= 0)
        covered = inside[at].astype(np.int64)
        weights = (step.truth >= 0) * (1.0 if step.weights is None else step.weights)
        counts = [np.ones(len(sizes)), sizes, step.truth >= 0, weights, weights * inside]
        self._add_groups(step, np.stack(counts))
        self._single += int((sizes == 1).sum())
        known = float(weights.sum()), float(weights @ inside)
        squares = float(weights @ weights), float(weights**2 @ inside)
        row = step.first + len(sizes)
        self.moments.append(SetMoment(row, len(sizes), int(sizes.sum()), *known, squares))
        run = np.concatenate([self._tail, covered])
        if len(run) >= WINDOW:
            total = np.append(0, np.cumsum(run))
            sums = total[WINDOW:] - total[:-WINDOW]
            least = int(sums.argmin())
            if self._worst is None or sums[least] < self._worst[0]:
                last = at[least + WINDOW - 1 - len(self._tail)]
                self._worst = int(sums[least]), step.first + int(last) + 1
        self._tail = run[-(WINDOW - 1) :]

    def _add_groups(self, step: Step, counts: NDArray[np.float64]) -> None:
        """Add counts of the rows of a step, shape (5, n), to those of their groups."""
        assert step.sets is not None
        if self.by == "class":
            groups = [names[0] if names else None for names in step.sets]
        else:
            assert step.segments is not None
            groups = step.segments[self.by].tolist()
        numbers = [self._numbers.setdefault(group, len(self._numbers)) for group in groups]
        self._sums = np.pad(self._sums, [(0, len(self._numbers) - len(self._sums)), (0, 0)])
        np.add.at(self._sums, numbers, counts.T)

    @property
    def groups(self) -> list[Group]:
        """Coverage by group, the one with most labels first; rows without a value are in none."""
        named = {name: k for name, k in self._numbers.items() if name is not None}
        groups = [_group(name, self._sums[k]) for name, k in named.items()]
        return sorted(groups, key=lambda group: -group.known)

    @property
    def all_rows(self) -> Group:
        """Coverage of all rows, those in no group too; their name is None."""
        return _group(None, self._sums.sum(axis=0))

    @property
    def worst_group(self) -> Group | None:
        """The group covered least of those with 100 labelled rows; None without one."""
        enough = [group for group in self.groups if group.known >= ENOUGH]
        return min(enough, key=lambda group: group.kept, default=None)

    @property
    def known(self) -> int:
        """Number of rows with a known label, arriving or not."""
        return self.all_rows.known

    @property
    def kept(self) -> float:
        """Share of labelled rows covered; nan without rows."""
        return self.all_rows.kept

    @property
    def kept_learned(self) -> float:
        """Coverage of rows whose label taught the sets, for which the promise is made."""
        return _share(self._learned[1], self._learned[0])

    @property
    def mean_size(self) -> float:
        """Mean number of classes in a set."""
        return self.all_rows.mean_size

    @property
    def singletons(self) -> float:
        """Share of sets with a single class."""
        return _share(self._single, self.all_rows.rows)

    @property
    def worst(self) -> tuple[float, int] | None:
        """Lowest coverage of 500 consecutive labelled rows, and the row after them.

        None where there are fewer rows.
        """
        return None if self._worst is None else (self._worst[0] / WINDOW, self._worst[1])

    @property
    def error(self) -> float:
        """Standard error of ``kept``, over 30 stretches of the stream; nan for a single one."""
        known = np.array([moment.known for moment in self.moments])
        covered = [moment.covered for moment in self.moments]
        coverage_change = change(known, self.promised * known, covered)
        return float("nan") if coverage_change is None else coverage_change.error

    def to_dict(self) -> dict[str, Any]:
        """The scores without their course, as JSON."""
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
            "by": self.by,
            "groups": [
                {
                    "group": json_name(group.name),
                    "rows": group.rows,
                    "known": group.known,
                    "kept": _plain(group.kept),
                    "mean_size": group.mean_size,
                }
                for group in self.groups[:MOST_GROUPS]
            ],
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _plain(value: float) -> float | None:
    """A number, or None for nan, which JSON lacks."""
    return None if value != value else value
