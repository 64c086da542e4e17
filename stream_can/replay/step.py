"""Step: consecutive rows that went through a learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.learner.call import Explained
from stream_can.learner.model_name import ONLY, Name
from stream_can.recording.recording import Segments


class Arrivals(NamedTuple):
    """Labels in flight, for one step."""

    coming: int
    """Number of messages about rows of the step that will arrive, possibly after the last row."""
    possible: int
    """The same if every label that the recording has were requested."""
    row: NDArray[np.int64]
    """For each label learned in the step, the number of its row."""
    due: NDArray[np.int64]
    """For each label learned in the step, the row before which it was."""
    time: NDArray[Any] | None
    """Time between prediction and label, where labels have their own times."""
    fair: NDArray[np.bool_]
    """Rows of the step whose label will arrive, and not because of the row's content."""
    weight: NDArray[np.float64] | None = None
    """For each label learned in the step, its weight, where labels have weights."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """For each label learned in the step, the number of rows since its own."""
        delays: NDArray[np.int64] = self.due - self.row - 1
        return delays


NO_ARRIVALS = Arrivals(
    0, 0, np.zeros(0, np.int64), np.zeros(0, np.int64), None, np.zeros(0, np.bool_)
)


class Step(NamedTuple):
    """Consecutive rows that went through the learner."""

    first: int
    """Number of the first row, from 0."""
    rows: Any
    """The n predictions, as the recording has them."""
    truth: Any
    """Their known labels, in the terms of their kind."""
    corrected: Any
    """Sent rows."""
    explained: Sequence[Explained] = ()
    """What explains the rows, see :meth:`Learner.play`."""
    sets: list[list[Any]] | None = None
    """Names in the prediction set of each row, if the corrector makes sets."""
    asked: Sequence[Any] = ()
    """Why the label of each row was requested; None where it was not."""
    time: NDArray[Any] | None = None
    """Time of each prediction, where known."""
    arrivals: Arrivals = NO_ARRIVALS
    """Labels that set out and that arrived."""
    segments: Segments | None = None
    """Column values of each row, and its model, if the recording has them."""
    learned: list[tuple[str | None, ...]] | None = None
    """Column values, and model, of the predictions whose labels arrived."""
    lane: Name = ONLY
    """Model and version of the last row."""
    weights: NDArray[np.float64] | None = None
    """Weight of each row's label, shape (n,), where labels have weights."""

    @property
    def path_rows(self) -> NDArray[np.float64] | None:
        """Rows of each path, shape (number of paths, n, m); None where they are not explained."""
        if not self.explained:
            return None
        if len(self.explained) == 1:
            only: NDArray[np.float64] = self.explained[0].values
            return only
        path_rows = np.empty((len(self.explained[0].values), *self.corrected.shape))
        for rows, paths in self.explained:
            path_rows[:, rows] = paths
        return path_rows
