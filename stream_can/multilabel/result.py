"""A replay of multilabel rows: scores and their course."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Changes
from stream_can.learner import Learner
from stream_can.multilabel.scores import BestThreshold, LabelScores
from stream_can.replay.model_columns import ModelColumns
from stream_can.replay.moment import Moment, moment_sums
from stream_can.replay.result import Replay, finite
from stream_can.replay.step import Step

__all__ = ["LabelMoment", "MultiLabelReplay", "decided_of"]


@dataclass(frozen=True, slots=True)
class LabelMoment(Moment):
    """The stream during one step, and its decisions on labels."""

    positives: int
    """Number of true labels."""
    decided: tuple[int, ...]
    """Number of labels decided for: raw at 0.5, raw at its best threshold so far, corrected at the
    threshold."""
    right: tuple[int, ...]
    """Number of these that are true."""


class MultiLabelReplay(Replay):
    """Result of a replay of multilabel rows."""

    has_alarm = False

    def __init__(
        self, learner: Learner, models: ModelColumns | None = None, **options: Any
    ) -> None:
        super().__init__(learner, models, **options)
        self.raw, self.corrected, self.decided = (LabelScores(len(self.classes)) for _ in range(3))
        """Scores before and after, deciding at 0.5; and after, deciding at the threshold of the
        moment."""
        self.own = LabelScores(len(self.classes)), LabelScores(len(self.classes))
        """Scores before and after, each deciding at the threshold that was best for it in the steps
        before."""
        self.best = BestThreshold(), BestThreshold()
        """These thresholds, at the end."""

    @staticmethod
    def explain(truth: NDArray[np.int8], *, paths: bool) -> bool:
        """The decisions on each label."""
        return True

    def score(self, step: Step) -> None:
        """Score the rows of a step, and add its moment."""
        P, Y, corrected = step.rows, step.truth, step.corrected
        decided = decided_of(step)
        known, is_true = Y >= 0, Y == 1
        losses = self.raw.add_checked(P, Y), self.corrected.add_checked(corrected, Y)
        self.decided.add_checked(corrected, Y, decided)
        decisions = [decision & known for decision in (P >= 0.5, self.best[0].value <= P, decided)]
        for scores, best, rows in zip(self.own, self.best, (P, corrected), strict=True):
            scores.add_checked(rows, Y, rows >= best.value)
            best.count(rows, Y)
        self.moments.append(
            LabelMoment(
                *moment_sums(self.rows, step, losses),
                int(is_true.sum()),
                tuple(int(decision.sum()) for decision in decisions),
                tuple(int((decision & is_true).sum()) for decision in decisions),
            )
        )

    def changes(self, before: Replay | None = None) -> Changes | None:
        """None: only log loss is compared, see ``stream_can.multilabel.replay.loss_change``."""
        return None

    def per_label(self) -> list[dict[str, Any]]:
        """Scores of each label: how often known and true, F1, and log loss per row, before ("raw")
        and after ("corrected"), and F1 before at its best threshold ("raw_best") and after at the
        threshold ("decided"); None where it was never true or decided for."""
        known, positives, *_ = self.raw.of_labels
        f1 = [scores.f1 for scores in (self.raw, self.own[0], self.corrected, self.decided)]
        loss = [scores.of_labels[2] / np.maximum(known, 1) for scores in (self.raw, self.corrected)]
        return [
            {
                "label": name,
                "known": int(known[k]),
                "there": int(positives[k]),
                "f1": {
                    side: None if np.isnan(f1_of_side[k]) else float(f1_of_side[k])
                    for side, f1_of_side in zip(
                        ("raw", "raw_best", "corrected", "decided"), f1, strict=True
                    )
                },
                "log_loss": {"raw": float(loss[0][k]), "corrected": float(loss[1][k])},
            }
            for k, name in enumerate(self.classes)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result without its course, as JSON."""
        corrector = self.corrector
        return super().to_dict() | {
            "labels": self.classes,
            "decided": finite(self.decided.summary()),
            "threshold": corrector.threshold,
            "own_threshold": {
                side: finite(scores.summary()) | {"threshold": best.value}
                for side, scores, best in zip(
                    ("raw", "corrected"), self.own, self.best, strict=True
                )
            },
            "weights": corrector.weights,
            "final_weights": corrector.final_weights,
            "temperature": corrector.temperature,
            "per_label": self.per_label(),
            "changed_labels": self.changed_labels,
        }


def decided_of(step: Step) -> NDArray[np.bool_]:
    """The decision on each label by the threshold of that moment, shape (n, m)."""
    decided = np.empty(step.truth.shape, np.bool_)
    for rows, decisions in step.explained:
        decided[rows] = decisions
    return decided
