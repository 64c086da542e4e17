"""Counts of a program's records, rows and labels, as metrics and pages read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_can.app.letters import Letter
from stream_can.app.versions import Comparison, Pair
from stream_can.column_scores import ColumnScores
from stream_can.messages.naming import LaneName

SETS = ("set_rows", "set_classes", "set_labels", "set_kept")
EXPECTED = ("sure_rows", "confidence", "doubt", "gap_labels", "gap")


class Seen(NamedTuple):
    """Tallies of models and versions."""

    tallies: dict[LaneName, NDArray[np.float64]]
    """For each: predictions, scored ones, hits before and after, sums of log losses before and
    after."""
    versions: dict[Pair, Comparison]
    refused: int
    """Predictions refused because of too many models."""


class Handled(NamedTuple):
    """Results of a batch, counted with the next commit."""

    outputs: int = 0
    normalised: int = 0
    """Rows divided by their sum."""
    faults: int = 0
    """Predictions with an invalid column value."""
    delays: Sequence[int] = ()
    """Milliseconds from prediction to label, for each matched label."""
    requested: Sequence[str] = ()
    """Reasons of label requests."""
    answered: int = 0
    """Labels that had been requested."""
    letters: Sequence[Letter] = ()
    """The last unreadable messages."""


class Committed(NamedTuple):
    """Counts at the last commit."""

    counts: dict[str, int]
    """Records: "predictions" and those "corrected", "labels" and those "matched", "unmatched",
    "repeated", "early"; and "dead_letters", "handed_over"."""
    scored: float
    """Sent predictions whose label arrived, each counted as its label's weight, as in the sums of
    scores; since this process has the partition, as are the following."""
    hits: dict[str, float]
    log_loss: dict[str, float]
    requests: tuple[int, int | None] | None
    """Number of open requests and timestamp of the oldest in milliseconds; None where labels are
    not requested."""
    sets: Sequence[float] = (0.0, 0.0, 0.0, 0.0)
    """Rows with prediction sets, classes in these, labels of such rows, and labels that are in
    their set."""
    expected: Sequence[float] = (0.0,) * 5
    """Sent rows, sums of their confidence p and of p (1 - p); scored labels, and the sum of hits
    less confidence of these: see `stream_can.trust.expected`."""

    def scores_since(self, previous: Committed) -> dict[str, float]:
        """What was scored since an earlier commit, by the names of `History`."""
        scores: dict[str, float] = {"scored": self.scored - previous.scored}
        for stage, hits in self.hits.items():
            scores[f"hits_{stage}"] = hits - previous.hits[stage]
            scores[f"log_loss_{stage}"] = self.log_loss[stage] - previous.log_loss[stage]
        now, then = [*self.sets, *self.expected], [*previous.sets, *previous.expected]
        for name, n, n_before in zip((*SETS, *EXPECTED), now, then, strict=True):
            scores[name] = n - n_before
        return scores


class MetricsSource(Protocol):
    """A source of counts; taking returns what was added since it was last taken."""

    def committed(self) -> Committed:
        """Counts so far."""

    def take_values(self) -> Mapping[str, ColumnScores]:
        """Scores by value of each declared column."""

    def take_confusion(self) -> NDArray[np.float64] | None:
        """Sums by predicted class, shape (2, m, m): of the probabilities of each class in sent
        rows, and of labels; None without any, with models, or with many classes."""

    def take_seen(self) -> Seen | None:
        """Tallies of models and versions; None without models."""
