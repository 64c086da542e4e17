"""Replay: scores before and after and of every path, and their course."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Changes
from stream_can.column_scores import ColumnScores, outcomes
from stream_can.corrector import Corrector
from stream_can.method.asking import LabelRequests
from stream_can.replay.classes import ClassScores
from stream_can.replay.delays import Delays
from stream_can.replay.episodes import milliseconds, told
from stream_can.replay.models import PlayedModels
from stream_can.replay.sets import SetScores
from stream_can.replay.steps import Step
from stream_can.replay.worst import WorstStretch
from stream_can.scores import Scores
from stream_can.trust.alarm import Alarm

__all__ = ["Moment", "Replay"]


class Moment(NamedTuple):
    """The stream during one step, and the corrector after it."""

    row: int
    """Number of rows so far."""
    time: Any
    """Time of the step's last prediction; None where unknown."""
    labelled: int
    """Number of rows of the step with a known label."""
    hits: tuple[float, float]
    """Number of those that were right: raw, corrected."""
    losses: tuple[float, float]
    """Sums of their log losses: raw, corrected."""
    squares: tuple[float, float]
    """Sums of the squares of these, for standard errors."""
    counts: NDArray[np.int64]
    """Labels per class, shape (m,)."""
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


class Replay:
    """Result of a replay: scores of every path, and their course.

    Parameters
    ----------
    corrector
        The corrector of the steps, or those of several models; after the last row ``corrector`` has
        the final state.
    requests
        The label requests, if any.
    alarm
        Receives labelled rows in order, if it should detect a worse classifier.
    """

    def __init__(
        self,
        corrector: Corrector | PlayedModels,
        requests: LabelRequests | None = None,
        alarm: Alarm | None = None,
    ) -> None:
        self.models = corrector if isinstance(corrector, PlayedModels) else None
        """Models of the recording, if there are several."""
        self._one = corrector
        self.requests = requests
        corrector = self.corrector
        self.classes = list(corrector.classes)
        self.raw, self.corrected = Scores(), Scores()
        self.paths = {name: Scores() for name in corrector.paths}
        self.moments: list[Moment] = []
        self.rows = 0
        self.seconds = 0.0
        self.rates: dict[float, Scores] = {}
        """Scores at other label rates; filled by :func:`replay`."""
        self.asked_rates: dict[float, Scores] = {}
        """Scores with requested labels instead of random ones."""
        self.asked = {"random": 0, "margin": 0}
        """Number of labels requested, by reason."""
        self.at_random: Replay | None = None
        """With requests: the replay with as many random labels."""
        self.dates = False
        """Whether times of moments are dates: datetime64, or microseconds since 1970."""
        self.delay = ""
        """Description of the label delay."""
        self.delay_rows, self.delay_time = Delays(), Delays()
        """Label delays in rows and (microseconds for dates) in time, of labels that arrived."""
        self.coming = 0
        """Number of labels that arrive, including after the last row."""
        self.possible = 0
        """Number of labels that could arrive if all were requested."""
        self.raw_classes = ClassScores(len(self.classes))
        self.corrected_classes = ClassScores(len(self.classes))
        self.made_right = np.zeros(len(self.classes), np.int64)
        """Rows of each class that were wrong before and are right after."""
        self.made_wrong = np.zeros(len(self.classes), np.int64)
        """Rows of each class that were right before and are wrong after."""
        columns = [*corrector.segments, *([self.models.title] if self.models else ())]
        self.columns = {name: ColumnScores() for name in columns}
        """Scores by value of each declared column, and by model."""
        self.sets = None if corrector.sets is None else SetScores(corrector.sets)
        """Prediction sets and their coverage, if any."""
        self.worst = WorstStretch()
        """The stretch in which the output did worst compared to the raw rows."""
        self.alarm = alarm
        """Detects a worse classifier, if watched."""

    @property
    def corrector(self) -> Corrector:
        """The corrector of the steps; with several models the last row's."""
        return self._one.latest if isinstance(self._one, PlayedModels) else self._one

    @property
    def learned(self) -> int:
        """Number of labels learned by all models."""
        return self.corrector.n_labels if self.models is None else self.models.n_labels

    def add(self, step: Step) -> None:
        """Add a step, before the next is taken: the corrector's state is read."""
        known = step.y >= 0
        P, y, corrected = step.P, step.y, step.corrected
        if not known.all():
            P, y, corrected = P[known], y[known], corrected[known]
        before = self.raw.add_checked(P, y)
        after = self.corrected.add_checked(corrected, y)
        self.raw_classes.add(before.best, y)
        self.corrected_classes.add(after.best, y)
        was, now = before.hits, after.hits
        self.made_right += np.bincount(y[now & ~was], minlength=len(self.classes))
        self.made_wrong += np.bincount(y[was & ~now], minlength=len(self.classes))
        self.worst.add(step.first + np.flatnonzero(known), np.stack([was, now], axis=1))
        if step.arrivals is not None:
            self.coming += step.arrivals.coming
            self.possible += step.arrivals.possible
            self.delay_rows.add(step.arrivals.rows)
            if step.arrivals.time is not None:
                self.delay_time.add(step.arrivals.time)
        if self.columns:
            self._add_values(step, known, outcomes(before, after))
        if self.sets is not None:
            self.sets.add(step)
        if self.alarm is not None:
            times = None if step.time is None else milliseconds(step.time[known])
            self.alarm.learn_scored(before, after, times)
        for request in step.asked:
            self.asked[request.reason] += 1
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
                (float(was.sum()), float(now.sum())),
                (float(before.losses.sum()), float(after.losses.sum())),
                (float(before.losses @ before.losses), float(after.losses @ after.losses)),
                np.bincount(y, minlength=len(self.classes)),
                corrector.prior,
                np.array(list(corrector.weights.values())),
                float(corrector.temperature) if "temperature" in self.paths else float("nan"),
                np.array(list(corrector.final_weights.values())),
                corrector.last_temperature,
                corrector.coverage,
                corrector.silent_classes,
            )
        )

    def _add_values(self, step: Step, known: NDArray[np.bool_], found: NDArray[np.float64]) -> None:
        """Add scores by column value; ``found`` are the outcomes of labelled rows."""
        for k, (name, column) in enumerate(self.columns.items()):
            if step.segments is not None:
                column.came(step.segments[name].tolist())
                column.scored(step.segments[name][known].tolist(), found)
            if step.learned is not None:
                column.learned(step.learned[:, k].tolist())

    @property
    def labelled(self) -> list[int]:
        """Number of labelled rows of each step."""
        return [moment.labelled for moment in self.moments]

    def sums(self, side: int) -> NDArray[np.float64]:
        """Hits and log losses of the steps, of raw rows (0) or sent rows (1), shape (2, steps)."""
        pairs = [(moment.hits[side], moment.losses[side]) for moment in self.moments]
        return np.array(pairs, np.float64).reshape(-1, 2).T

    def changes(self, before: Replay | None = None) -> Changes | None:
        """Changes of sent rows relative to raw rows, or to the sent rows of another replay; None
        without labelled rows."""
        other = self.sums(0) if before is None else before.sums(1)
        return Changes.of_sums(self.labelled, other, self.sums(1))

    @property
    def mean_weights(self) -> dict[str, float]:
        """Weight of each path, averaged over the stream."""
        return dict(zip(self.paths, self._mean("weights").tolist(), strict=True))

    @property
    def mean_final_weights(self) -> dict[str, float]:
        """Weights of the rows in the output, averaged over the stream."""
        names = self.corrector.final_weights
        return dict(zip(names, self._mean("final_weights").tolist(), strict=True))

    @property
    def mean_coverage(self) -> float:
        """Share of the correction that the labels let out, averaged over the stream."""
        return float(self._mean("coverage"))

    def _mean(self, what: str) -> NDArray[np.float64]:
        """Mean over rows of an attribute of the moments."""
        rows = np.diff([moment.row for moment in self.moments], prepend=0)
        values = np.array([getattr(moment, what) for moment in self.moments])
        return np.asarray(rows @ values / rows.sum())

    def per_class(self) -> list[dict[str, Any]]:
        """Rows, recall and precision of each class, before ("raw") and after ("corrected")."""
        sides = {"raw": self.raw_classes, "corrected": self.corrected_classes}
        recall = {side: _plain(scores.recall) for side, scores in sides.items()}
        precision = {side: _plain(scores.precision) for side, scores in sides.items()}
        return [
            {
                "class": name,
                "rows": int(self.raw_classes.rows[k]),
                "recall": {side: values[k] for side, values in recall.items()},
                "precision": {side: values[k] for side, values in precision.items()},
            }
            for k, name in enumerate(self.classes)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result without its course, as JSON."""
        corrector = self.corrector
        return {
            "rows": self.rows,
            "labelled": self.raw.n,
            "learned": self.learned,
            "classes": self.classes,
            "label_delay": self.delay,
            "raw": self.raw.summary(),
            "corrected": self.corrected.summary(),
            "paths": {name: scores.summary() for name, scores in self.paths.items() if scores.n},
            "mean_weights": self.mean_weights,
            "mean_final_weights": self.mean_final_weights,
            "last_temperature": corrector.last_temperature,
            "mean_coverage": self.mean_coverage,
            "silent_classes": list(corrector.silent_classes),
            "per_class": self.per_class(),
            "worst": self.worst.to_dict(),
            "delays": {
                "coming": self.coming,
                "rows": self.delay_rows.summary(),
                "time": self.delay_time.summary(),
            },
            "label_rates": _by_rate(self.rates),
            "asked_rates": _by_rate(self.asked_rates),
            "asked": None if self.requests is None else self.asked,
            "seconds": self.seconds,
            **({} if self.sets is None else {"sets": self.sets.to_dict()}),
            **({} if self.alarm is None else {"episodes": told(self.alarm, dates=self.dates)}),
        } | self._by_value()

    def _by_value(self) -> dict[str, Any]:
        """Scores by value of declared columns."""
        if not self.columns:
            return {}
        return {
            "segments": {
                name: [one.to_dict() for one in column.values()]
                for name, column in self.columns.items()
            }
        }


def _by_rate(rates: dict[float, Scores]) -> dict[str, Any]:
    return {f"{rate:g}": scores.summary() for rate, scores in rates.items()}


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    """Numbers with None for nan, which JSON lacks."""
    return [None if value != value else value for value in values.tolist()]
