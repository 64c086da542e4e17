"""Expected accuracy in a replay: what the rows and earlier labels said, beside what labels show."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import STRETCHES
from stream_can.replay.step import Step
from stream_can.scores import RowScores
from stream_can.trust.expected import Gap, Interval, expected_accuracy

FEWEST_MONTHS = 5
"""Months from which on these are the parts of a recording with dates."""


class ExpectedMoment(NamedTuple):
    """The labelled rows of one step, each counted as the weight of its label."""

    n: int
    """Number of rows."""
    rows: float
    """Sum of the weights: without weights the number of rows."""
    confidence: float
    doubt: float
    """Sum of p (1 - p) of their confidence p, times the weights' squares."""
    hits: float
    gap: Gap
    """What the labels said that had arrived by its end."""

    @property
    def expected(self) -> Interval:
        """What their accuracy was expected to be."""
        return expected_accuracy(self.rows, self.confidence, self.doubt, self.gap)


class ExpectedStretch(NamedTuple):
    """Part of a replay."""

    until_row: int
    month: str | None
    """Where rows have dates."""
    rows: int
    """Rows whose label is known."""
    expected: Interval
    accuracy: float


class ExpectedScores:
    """Expected accuracy of the rows of a replay, by the labels that had arrived."""

    def __init__(self) -> None:
        self.moments: list[ExpectedMoment] = []
        self._ends: list[tuple[int, Any]] = []
        """Number of rows so far, and time, at the end of each step."""
        self._gap = Gap()
        self._waiting: list[tuple[int, NDArray[np.float32]]] = []
        """First row and gaps of steps whose labels are on their way; nan for unfair ones."""
        self._outstanding: list[int] = []

    def add_step(
        self, step: Step, sent: RowScores, weights: NDArray[np.float64] | None = None
    ) -> None:
        """Add a step, with the scores of its rows with a known label and the weights of these
        labels."""
        known, arrivals = step.truth >= 0, step.arrivals
        gaps = np.full(len(known), np.nan, np.float32)
        gaps[known] = sent.hits - sent.confidence
        gaps[~arrivals.fair] = np.nan
        self._waiting.append((step.first, gaps))
        self._outstanding.append(int(arrivals.fair.sum()))
        self._gap = self._gap.after_rows(len(known))
        if len(arrivals.row):
            arrived = self._arrived(arrivals.row)
            fair = ~np.isnan(arrived)
            counts = None if arrivals.weight is None else arrivals.weight[fair]
            self._gap = self._gap.with_labels(arrived[fair], counts)
        confidence, n = sent.confidence, len(sent.confidence)
        doubt = confidence * (1 - confidence)
        if weights is None:
            rows, top, variance = float(n), float(confidence.sum()), float(doubt.sum())
        else:
            rows, top = float(weights.sum()), float(weights @ confidence)
            variance = float(weights**2 @ doubt)
        hits = float((sent.hits if weights is None else weights * sent.hits).sum())
        self.moments.append(ExpectedMoment(n, rows, top, variance, hits, self._gap))
        self._ends.append((step.first + len(known), None if step.time is None else step.time[-1]))

    def _arrived(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gaps of rows whose labels arrived, in order, nan for unfair ones; steps that wait for
        none are dropped."""
        steps = np.searchsorted([first for first, _ in self._waiting], rows, "right") - 1
        gaps = np.full(len(rows), np.nan)
        for k in np.unique(steps[steps >= 0]).tolist():
            first, of_step = self._waiting[k]
            places = np.flatnonzero(steps == k)
            gaps[places] = of_step[rows[places] - first]
            self._outstanding[k] -= int((~np.isnan(gaps[places])).sum())
        while self._outstanding and self._outstanding[0] <= 0:
            del self._outstanding[0], self._waiting[0]
        return gaps

    def stretches(self, *, dates: bool) -> list[ExpectedStretch]:
        """Up to 30 parts of the stream, or its months where rows have dates in five or more."""
        rows = np.array([moment.rows for moment in self.moments])
        if not rows.sum():
            return []
        months: list[Any] = []
        if dates:
            times = np.array([time for _, time in self._ends]).astype("datetime64[us]")
            months = np.datetime_as_string(times.astype("datetime64[M]")).tolist()
        if len({*months}) >= FEWEST_MONTHS:
            part = np.cumsum(np.append(0, np.array(months[1:]) != np.array(months[:-1])))
        else:
            middle = np.cumsum(rows) - rows / 2
            months = [None] * len(rows)
            part = (middle * (STRETCHES / rows.sum())).astype(np.intp)
        stretches = []
        for k in np.unique(part).tolist():
            inside = np.flatnonzero(part == k)
            merged = [self.moments[i] for i in inside.tolist()]
            n, last = sum(moment.n for moment in merged), int(inside[-1])
            if not n:
                continue
            moment = ExpectedMoment(
                n, sum(m.rows for m in merged), sum(m.confidence for m in merged),
                sum(m.doubt for m in merged), sum(m.hits for m in merged), merged[-1].gap,
            )  # fmt: skip
            accuracy = moment.hits / moment.rows
            stretches.append(
                ExpectedStretch(self._ends[last][0], months[last], n, moment.expected, accuracy)
            )
        return stretches


def stretches_as_json(stretches: list[ExpectedStretch]) -> list[dict[str, Any]]:
    """The stretches as JSON."""
    return [stretch._asdict() | {"expected": stretch.expected._asdict()} for stretch in stretches]


def expected_in_words(stretches: list[ExpectedStretch]) -> list[str]:
    """One sentence; none without labels."""
    if len(stretches) < 2:
        return []
    off = float(np.mean([abs(s.expected.value - s.accuracy) for s in stretches]))
    inside = sum(s.expected.low <= s.accuracy <= s.expected.high for s in stretches)
    part = "month" if stretches[0].month is not None else "part of the stream"
    return [
        f"The accuracy of each {part} was foretold before its labels came, on average"
        f" {100 * off:.1f} points off; it lay in the 95 % interval in {inside} of {len(stretches)}."
    ]
