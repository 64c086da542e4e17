"""LearnerModels: the models and versions of a learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_can.app.model_messages import Classes
from stream_can.app.models import Begins, DeclaredCorrector, LiveModels, classes_of
from stream_can.learner.kinds import Id
from stream_can.learner.learner import Learner
from stream_can.learner.model_name import Name
from stream_can.row_kinds import kind_of


class LearnerModels(LiveModels):
    """Models of a learner.

    Parameters
    ----------
    learner
        The learner, which is told of new models.
    start, **options
        See `LiveModels`.
    """

    def __init__(self, learner: Learner, start: Begins, **options: Any) -> None:
        super().__init__(start, **options)
        self._learner = learner
        self._dropped, self._classes = -1, dict[Name, Classes]()

    def classes(self) -> Mapping[Name, Classes]:
        """Classes of each model and version."""
        if self._dropped != self._learner.dropped:
            self._dropped = self._learner.dropped
            self._classes = {
                name: classes_of(corrector) for name, corrector in self._correctors().items()
            }
        return self._classes

    def holders(self, id: Id, name: Name) -> list[Name]:
        """Models and versions that keep a prediction of an id."""
        return self._learner.models_of(id, *name)

    def _correctors(self) -> Mapping[Name, DeclaredCorrector]:
        correctors = {name: lane.corrector for name, lane in self._learner.live.items()}
        return {
            name: corrector
            for name, corrector in correctors.items()
            if kind_of(corrector).declares_classes
        }

    def _bytes_of_new(self) -> int:
        return self._learner.bytes_of_new

    def _begin_model(self, name: Name, corrector: DeclaredCorrector | None) -> None:
        if corrector is not None:
            self._learner.start(corrector, *name)
        self._classes[name] = self._start.classes if corrector is None else classes_of(corrector)
