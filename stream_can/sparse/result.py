"""A replay of sparse rows: scores and their course."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_can.learner import Learner
from stream_can.replay.episodes import milliseconds
from stream_can.replay.model_columns import ModelColumns
from stream_can.replay.moment import Moment, moment_sums
from stream_can.replay.result import Replay
from stream_can.replay.step import Step
from stream_can.sparse.scores import SparseScores

__all__ = ["SparseReplay"]


class SparseReplay(Replay):
    """Result of a replay of sparse rows."""

    def __init__(
        self, learner: Learner, models: ModelColumns | None = None, **options: Any
    ) -> None:
        super().__init__(learner, models, **options)
        self.raw, self.corrected = SparseScores(), SparseScores()
        self.classes_listed = 0
        """Total number of classes listed by rows."""

    @staticmethod
    def explain(truth: list[Any], *, paths: bool) -> list[Any]:
        """Rank and probability of the known labels: of an unlisted class they are what the
        corrector says when the row is sent."""
        return truth

    def score(self, step: Step) -> None:
        """Score the rows of a step, and add its moment."""
        self.classes_listed += sum(map(len, step.rows))
        ranked = np.concatenate([explained.values for explained in step.explained]).reshape(
            -1, 2, 2
        )
        raw_scores, sent_scores = [
            scores.add_checked(ranked[:, side, 0], ranked[:, side, 1])
            for side, scores in enumerate((self.raw, self.corrected))
        ]
        if self.alarm is not None:
            known = [label is not None for label in step.truth]
            times = None if step.time is None else milliseconds(step.time[known])
            self.alarm.learn_scored(raw_scores, sent_scores, times)
        losses = raw_scores.losses, sent_scores.losses
        hits = raw_scores.hits, sent_scores.hits
        self.moments.append(Moment(*moment_sums(self.rows, step, losses, hits)))

    def to_dict(self) -> dict[str, Any]:
        """The result without its course, as JSON."""
        return super().to_dict() | {
            "classes": self.corrector.n_classes,
            "listed_a_row": self.classes_listed / self.rows if self.rows else None,
            "weights": self.corrector.weights,
            "final_weights": self.corrector.final_weights,
        }
