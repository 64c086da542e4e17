"""Counts of a program and its correctors, as metrics and pages read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_can.app.letters import Letter
from stream_can.app.versions import Comparison, Pair
from stream_can.column_scores import ColumnScores
from stream_can.learner.switch import ON, CorrectionSwitch
from stream_can.messages.naming import LaneName
from stream_can.row_kinds import kind_of

__all__ = ["Committed", "Handled", "Known", "KnownLane", "MetricsSource", "Seen"]


class Seen(NamedTuple):
    """Tallies of models and versions."""

    tallies: dict[LaneName, NDArray[np.float64]]
    """For each: predictions, scored ones, hits before and after, sums of log losses before and
    after."""
    versions: dict[Pair, Comparison]
    refused: int
    """Predictions refused because of too many models."""


class KnownLane(NamedTuple):
    """The corrector of a model and version."""

    corrector: Any
    predecessor: str | None
    """The version from which it was started."""


class Known(NamedTuple):
    """The correctors in use."""

    corrector: Any
    """The corrector; with several models, the initial one."""
    offset: int | None
    """Number of the state; None for a server."""
    newest: int | None
    """When it was written, or its last label arrived, in milliseconds."""
    sets: float | None
    """Coverage that prediction sets promise."""
    lanes: Mapping[LaneName, KnownLane] | None = None
    """None where messages name no models."""
    max_lanes: int = 0
    dropped: int = 0
    """Lanes dropped for others."""

    changed: int = 0
    """Labels that contradicted an earlier one of their prediction."""
    early: int = 0
    """Labels that were given up before their prediction came."""
    foreign: int = 0
    """Records of sent batches that belong to something else and were skipped."""
    switch: CorrectionSwitch = ON
    """Whether rows are corrected."""

    @property
    def n_classes(self) -> int:
        """Number of classes or labels."""
        return kind_of(self.corrector).n_classes(self.corrector)

    @property
    def n_silent(self) -> int | None:
        """Classes left out of learning; None where such rows leave out none."""
        silent = getattr(self.corrector, "silent_classes", None)
        return None if silent is None else len(silent)


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
    scored: int
    """Since this process has the partition, as are the following."""
    hits: dict[str, float]
    log_loss: dict[str, float]
    requests: tuple[int, int | None] | None
    """Number of open requests and timestamp of the oldest in milliseconds; None where labels are
    not requested."""
    sets: Sequence[float] = (0.0, 0.0, 0.0, 0.0)
    """Rows with prediction sets, classes in these, labels of such rows, and labels that are in
    their set."""


class MetricsSource(Protocol):
    """A source of counts; taking returns what was added since it was last taken."""

    def committed(self) -> Committed:
        """Counts so far."""

    def take_values(self) -> Mapping[str, ColumnScores]:
        """Scores by value of each declared column."""

    def take_seen(self) -> Seen | None:
        """Tallies of models and versions; None without models."""
