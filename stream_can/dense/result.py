"""A replay of dense rows: scores of every path and class, and their course."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Change, calibration_change, change
from stream_can.column_scores import outcomes
from stream_can.dense.chosen_labels import ChosenLabels
from stream_can.dense.doubts import doubts
from stream_can.dense.moment import DenseMoment
from stream_can.learner import Learner
from stream_can.replay.classes import ClassChanges, ClassScores
from stream_can.replay.episodes import milliseconds
from stream_can.replay.expected import ExpectedScores, stretches_as_json
from stream_can.replay.model_columns import ModelColumns
from stream_can.replay.moment import moment_sums
from stream_can.replay.result import Replay, finite, with_change
from stream_can.replay.step import Step
from stream_can.replay.worst import WorstStretch
from stream_can.scores import Scores

MOST_PAIRED = 1000
"""Classes up to which predicted classes and labels are counted in pairs."""


class DenseReplay(Replay):
    """Result of a replay of dense rows."""

    def __init__(self, learner: Learner, models: ModelColumns | None = None, **options: Any):
        super().__init__(learner, models, **options)
        m, corrector = len(self.classes), self.corrector
        self.raw, self.corrected = Scores(), Scores()
        self.paths = {name: Scores() for name in corrector.paths}
        self.raw_classes, self.corrected_classes = ClassScores(m), ClassScores(m)
        self.class_changes = ClassChanges(m)
        self.pairs = np.zeros((m, m), np.int64) if m <= MOST_PAIRED else None
        """Labelled rows by predicted class and label, each counted once; None for more classes."""
        self.all_descend = True
        """Whether the probabilities of every row so far are in descending order."""
        self.all_ascend = True
        """Whether they are in ascending order."""
        self.chosen = ChosenLabels(m)
        """Predictions of the labelled rows beside those of all rows."""
        self.beside, self.right_there = 0, 0
        """Labelled rows with one before them in their step, and those right among them."""
        self.right_beside = np.zeros(2, np.int64)
        """Those whose label the prediction of the row after, or before, has."""
        self.expected = ExpectedScores()
        """Accuracy of the sent rows as it was expected before their labels came."""
        self.worst = WorstStretch()
        """The stretch in which the output did worst compared to the raw rows."""

    @staticmethod
    def explain(truth: NDArray[np.int64], *, paths: bool) -> bool:
        """The rows of each path."""
        return paths

    def score(self, step: Step) -> None:
        """Score the rows of a step, and add its moment."""
        known = step.truth >= 0
        P, y, corrected, weights = step.rows, step.truth, step.corrected, step.weights
        if not known.all():
            if weights is None:
                self.chosen.add_predictions(P, known)
            P, y, corrected = P[known], y[known], corrected[known]
            weights = None if weights is None else weights[known]
        brier_before, calibration_before = _calibration(self.raw, self.corrected)
        raw_scores = self.raw.add_checked(P, y, weights)
        sent_scores = self.corrected.add_checked(corrected, y, weights)
        self.raw_classes.add(raw_scores.best, y, weights)
        self.corrected_classes.add(sent_scores.best, y, weights)
        self.expected.add_step(step, sent_scores, weights)
        if self.costs is not None:
            self.costs.add_rows(P, corrected, y, weights)
        m, was, now = len(self.raw_classes.rows), raw_scores.hits, sent_scores.hits
        if self.pairs is not None:
            pairs = np.bincount(raw_scores.best * m + y, minlength=m * m)
            self.pairs += pairs.reshape(m, m)
        if self.all_descend or self.all_ascend:
            steps = np.diff(step.rows, axis=1)
            self.all_descend &= bool((steps <= 0).all())
            self.all_ascend &= bool((steps >= 0).all())
        best = raw_scores.best
        self.beside += max(0, len(y) - 1)
        self.right_there += int((best[1:] == y[1:]).sum())
        self.right_beside += [(best[1:] == y[:-1]).sum(), (best[:-1] == y[1:]).sum()]
        self.class_changes.add_hits(was, now, y, weights)
        self.worst.add(step.first + np.flatnonzero(known), np.stack([was, now], axis=1))
        if self.columns and step.segments is not None:
            row_outcomes = outcomes(raw_scores, sent_scores)
            for name, column in self.columns.items():
                column.scored(step.segments[name][known].tolist(), row_outcomes, weights)
        if self.sets is not None:
            self.sets.add(step, self.learner.classes)
        if self.alarm is not None:
            times = None if step.time is None else milliseconds(step.time[known])
            self.alarm.learn_scored(raw_scores, sent_scores, times)
        if (paths := step.path_rows) is not None:
            for scores, path in zip(self.paths.values(), paths, strict=True):
                scores.add_checked(path if len(path) == len(y) else path[known], y, weights)
        corrector = self.corrector
        brier, calibration = _calibration(self.raw, self.corrected)
        squared, gaps = brier - brier_before, calibration - calibration_before
        losses = raw_scores.losses, sent_scores.losses
        sums = moment_sums(self.rows, step, losses, (was, now), weights)
        counts = np.bincount(y, weights, m)
        self.moments.append(
            DenseMoment(
                *sums,
                squared,
                gaps,
                counts,
                counts if weights is None else np.bincount(y, weights**2, m),
                corrector.prior,
                np.array(list(corrector.weights.values())),
                float(corrector.temperature) if "temperature" in self.paths else float("nan"),
                np.array(list(corrector.final_weights.values())),
                corrector.last_temperature,
                corrector.coverage,
                corrector.silent_classes,
            )
        )

    def calibration_changes(self) -> tuple[Change, Change] | None:
        """Changes of the Brier score and of the expected calibration error; None without labelled
        rows."""
        squared = np.array([moment.squared for moment in self.moments]).reshape(-1, 2).T
        gaps = np.array([moment.gaps for moment in self.moments])
        brier = change(self.labelled, *squared)
        ece = calibration_change(self.labelled, gaps[:, 0], gaps[:, 1]) if brier else None
        if brier is None or ece is None:
            return None
        drawn = [(brier, ece), *filter(None, (r.calibration_changes() for r in self.other_draws))]
        values = [[change.value for change in changes] for changes in zip(*drawn, strict=True)]
        return brier.over_draws(values[0]), ece.over_draws(values[1])

    def questions(self, recording: Any) -> list[str]:
        """See :meth:`Replay.questions`."""
        return doubts(self, recording)

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

    def _mean(self, attribute: str) -> NDArray[np.float64]:
        """Mean over rows of an attribute of the moments."""
        rows = np.diff([moment.row for moment in self.moments], prepend=0)
        values = np.array([getattr(moment, attribute) for moment in self.moments])
        return np.asarray(rows @ values / rows.sum())

    def per_class(self) -> list[dict[str, Any]]:
        """Rows, recall and precision of each class, before ("raw") and after ("corrected")."""
        sides = {"raw": self.raw_classes, "corrected": self.corrected_classes}
        shares = {
            share: {side: _plain(getattr(scores, share)) for side, scores in sides.items()}
            for share in ("recall", "precision")
        }
        return [
            {"class": name, "rows": int(self.raw_classes.rows[k])}
            | {s: {side: of[k] for side, of in by_side.items()} for s, by_side in shares.items()}
            for k, name in enumerate(self.classes)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result without its course, as JSON."""
        corrector, alone = self.corrector, self.fit_alone
        fit = {} if alone is None else {"fit_alone": with_change(alone.corrected, alone.changes())}
        return super().to_dict() | {
            "classes": self.classes,
            "paths": {name: scores.summary() for name, scores in self.paths.items() if scores.n},
            "mean_weights": self.mean_weights,
            "mean_final_weights": self.mean_final_weights,
            "last_temperature": corrector.last_temperature,
            "mean_coverage": self.mean_coverage,
            "silent_classes": list(corrector.silent_classes),
            "per_class": self.per_class(),
            "worst": self.worst.to_dict(),
            "expected_accuracy": stretches_as_json(self.expected.stretches(dates=self.dates)),
            "calibration_change": self._calibration_change(),
            **fit,
        }

    def _calibration_change(self) -> dict[str, float | None] | None:
        """Standard errors of the changes of Brier score and ECE; None for a single stretch."""
        if (changes := self.calibration_changes()) is None:
            return None
        brier, ece = changes
        return finite({"brier_error": brier.error, "ece_error": ece.error})


def _calibration(raw: Scores, corrected: Scores) -> tuple[NDArray[np.float64], ...]:
    """What Brier score and calibration error are sums of so far, see :class:`DenseMoment`."""
    sums = np.array([raw.brier_sum, corrected.brier_sum])
    return sums, np.stack([raw.gaps, corrected.gaps])


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    """Numbers with None for nan, which JSON lacks."""
    return [None if value != value else value for value in values.tolist()]
