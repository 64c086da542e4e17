"""Counts and knowledge of a program, as the numbers and the page show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_can.app.letters import Letter
from stream_can.app.versions import Comparison, Pair
from stream_can.column_scores import ColumnScores
from stream_can.corrector import Corrector
from stream_can.messages.naming import LaneName
from stream_can.multilabel import MultiLabelCorrector
from stream_can.sparse import SparseCorrector

__all__ = ["Committed", "Handled", "Known", "KnownLane", "MetricsSource", "Seen"]


class Seen(NamedTuple):
    """Tallies of models and versions."""

    tallies: dict[LaneName, NDArray[np.float64]]
    """Tally of each: its predictions, those that are scored, hits before and after, sums of log
    losses before and after."""
    versions: dict[Pair, Comparison]
    refused: int
    """Predictions of models that were one too many."""


AnyCorrector = Corrector | MultiLabelCorrector | SparseCorrector
"""A corrector of whatever rows."""


class KnownLane(NamedTuple):
    """The corrector of a model and version."""

    corrector: AnyCorrector
    after: str | None
    """The version that it went on from."""


class Known(NamedTuple):
    """The correctors in use."""

    corrector: AnyCorrector
    """The one there is; of several models what they begin with."""
    offset: int | None
    """The number of the state; None of a server."""
    newest: int | None
    """When it was written, or its last label came, in milliseconds."""
    sets: float | None
    """Share that prediction sets promise."""
    lanes: Mapping[LaneName, KnownLane] | None = None
    """None where there is one for all."""
    max_lanes: int = 0
    dropped: int = 0
    """Lanes given up for others."""

    changed: int = 0
    """Labels that said otherwise than an earlier one of their prediction."""
    foreign: int = 0
    """Records of sent batches that were none of ours, and left out."""

    @property
    def n_classes(self) -> int:
        """Classes of the corrector; of several labels these."""
        one = self.corrector
        if isinstance(one, SparseCorrector):
            return one.n_classes
        return len(one.labels if isinstance(one, MultiLabelCorrector) else one.classes)

    @property
    def n_silent(self) -> int | None:
        """Classes left out of learning; None of several labels and of very many classes."""
        one = self.corrector
        return len(one.silent_classes) if isinstance(one, Corrector) else None


class Handled(NamedTuple):
    """Results of a batch, to be counted with the next commit."""

    outputs: int = 0
    normalised: int = 0
    """Rows that were divided by their sum."""
    faults: int = 0
    """Predictions with a column's value that is none."""
    delays: Sequence[int] = ()
    """Milliseconds from prediction to label, of each label that found its prediction."""
    asked: Sequence[str] = ()
    """Why each label is asked for."""
    answered: int = 0
    """Labels that came as asked for."""
    letters: Sequence[Letter] = ()
    """The last messages that could not be read."""


class Committed(NamedTuple):
    """Counts as of the last commit."""

    counts: dict[str, int]
    """Records: "predictions" and those of them "corrected", "labels" and those "matched",
    "unmatched", "repeated"; and "dead_letters"."""
    scored: int
    """Since this process has it, as are those below."""
    hits: dict[str, float]
    log_loss: dict[str, float]
    requests: tuple[int, int | None] | None
    """How many are open and the timestamp of the oldest, in milliseconds; None where no label is
    asked for."""
    sets: Sequence[float] = (0.0, 0.0, 0.0, 0.0)
    """Rows with prediction sets, the classes in these, labels of such rows, and those of them that
    are in the set."""


class MetricsSource(Protocol):
    """Where the numbers come from; what is taken is what came since it was taken before."""

    def committed(self) -> Committed:
        """Counts so far."""

    def take_values(self) -> Mapping[str, ColumnScores]:
        """Scores of the values of each declared column."""

    def take_seen(self) -> Seen | None:
        """Tallies of models and versions; None where there is one for all."""
