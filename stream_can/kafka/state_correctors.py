"""Correctors that a state records: restored, and those with which models begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy import float64
from numpy.typing import NDArray

from stream_can.app.model_messages import Classes
from stream_can.app.models import DeclaredCorrector, classes_of, train_prior_of
from stream_can.app.start import NO_CLASSES
from stream_can.errors import SnapshotMismatch
from stream_can.learner import saved
from stream_can.row_kinds import kind_of

__all__ = ["StateBegins", "corrector_of"]


def corrector_of(data: bytes) -> DeclaredCorrector:
    """Restore the corrector of a snapshot; SnapshotMismatch where it is invalid, or no topic holds
    such rows."""
    corrector: DeclaredCorrector = saved.corrector(data)
    kind = kind_of(corrector)
    if "topics" not in kind.has:
        raise SnapshotMismatch(f"snapshot: of {kind.described}, which no topic holds")
    return corrector


class StateBegins:
    """Initial correctors as a state records them; see :class:`stream_can.app.models.Begins`."""

    def __init__(
        self, begins: Mapping[str | None, DeclaredCorrector], listed: Sequence[str]
    ) -> None:
        self._begins, self._listed = begins, {*listed}

    @property
    def classes(self) -> Classes:
        """Classes of a model without its own."""
        return classes_of(self._begins[None])

    def train(self, classes: Classes) -> NDArray[float64] | None:
        """Training prior, shape (m,), of a model with these classes, where known."""
        return train_prior_of(self._begins.values(), classes)

    @property
    def alike(self) -> bool:
        """Whether all models have the same classes."""
        known = {classes_of(corrector) for corrector in self._begins.values()}
        return len(known) == 1 and self.classes != NO_CLASSES

    def has_settings(self, model: str) -> bool:
        """Whether a model has a table in the settings."""
        return model in self._listed

    def knows_classes_of(self, model: str) -> bool:
        """Whether the classes of a model are known."""
        return self.classes != NO_CLASSES or model in self._begins

    def of_model(self, model: str) -> DeclaredCorrector | None:
        """Own initial corrector of a model; None where it starts with the common one."""
        return self._begins.get(model)

    def of_classes(self, names: Sequence[Any], model: str) -> DeclaredCorrector:
        """Initial corrector of a model whose first message names its classes."""
        like = self._begins.get(model, self._begins[None])
        settings = dict(like.settings, sets=like.sets)
        corrector: DeclaredCorrector = kind_of(like).new(names, settings)
        return corrector
