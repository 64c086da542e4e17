"""CorrectorsInUse: the correctors of a program, as metrics and pages read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stream_can.learner.switch import ON, CorrectionSwitch
from stream_can.messages.naming import LaneName
from stream_can.row_kinds import kind_of


class CorrectorInUse(NamedTuple):
    """The corrector of a model and version."""

    corrector: Any
    predecessor: str | None
    """The version from which it was started."""


class CorrectorsInUse(NamedTuple):
    """The correctors in use."""

    corrector: Any
    """The corrector; with several models, the initial one."""
    offset: int | None
    """Number of the state; None for a server."""
    newest: int | None
    """When it was written, or its last label arrived, in milliseconds."""
    sets: float | None
    """Coverage that prediction sets promise."""
    lanes: Mapping[LaneName, CorrectorInUse] | None = None
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
