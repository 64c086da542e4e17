"""ClassLabels: what adapters share whose labels are numbers of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.learner.kinds import Judged, Unscored
from stream_can.learner.recent import first_counts
from stream_can.trust.alarm import Alarm


class ClassLabels:
    """Part of an adapter: labels are numbers of classes, and an alarm watches their scores."""

    scores: type[Any]
    """Class of the scores."""

    news = staticmethod(first_counts)

    @property
    def n_known(self) -> int:
        """Numbers below this are classes."""
        raise NotImplementedError

    def score(self, judged: Judged, pending: Sequence[Unscored]) -> tuple[Any, Any]:
        """Add labelled predictions to the scores; return the scores of each, raw and sent."""
        raise NotImplementedError

    def new_judged(self) -> Judged:
        """Empty scores and an alarm without labels."""
        return Judged(self.scores(), self.scores(), Alarm())

    def judge(self, judged: Judged, pending: Sequence[Unscored]) -> None:
        """Score more labelled predictions."""
        times = 1000 * np.array([row.time for row in pending], np.float64)  # None becomes NaN
        judged.alarm.learn_scored(*self.score(judged, pending), times)

    def copied(self, judged: Judged) -> Judged:
        """An independent copy."""
        raw, sent, alarm = judged
        return Judged(raw + self.scores(), sent + self.scores(), alarm.copy())

    def load_judged(self, raw: NDArray[Any], sent: NDArray[Any], alarm: bytes | None) -> Judged:
        """Restore scores from their sums."""
        if alarm is None:
            raise ValueError("no alarm")
        sides = self.restored_scores(raw), self.restored_scores(sent)
        return Judged(*sides, Alarm.from_bytes(alarm))

    def restored_scores(self, sums: NDArray[Any]) -> Any:
        """Restore scores from their sums; ValueError where they are impossible."""
        return self.scores.from_sums(sums)

    def load_known(self, known: Any) -> int | None:
        """Check the label of a recent prediction of a snapshot."""
        if known is not None and (type(known) is not int or not 0 <= known < self.n_known):
            raise ValueError("the label of a recent prediction")
        return known
