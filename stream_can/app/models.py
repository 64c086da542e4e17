"""The models and versions of a learner, and with what others begin beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stream_can.app.reader import Classes
from stream_can.app.start import NO_CLASSES, Start
from stream_can.corrector import Corrector
from stream_can.learner.kinds import Id
from stream_can.learner.lane import Name
from stream_can.learner.learner import Learner
from stream_can.messages.messages import BadMessage
from stream_can.messages.naming import LaneName

__all__ = ["LearnerModels"]

HOUR_SECONDS = 3600.0


class LearnerModels:
    """Of a learner, see :class:`stream_can.app.reader.Models`.

    Those that begin are made known to the learner by :meth:`admit`, or forgotten.

    Parameters
    ----------
    learner, start
        Whose models there are, and with what others begin.
    max_lanes
        So many models and versions may begin within an hour.
    only_listed
        Whether models without a table are refused.
    clock
        The time in seconds.
    """

    def __init__(
        self,
        learner: Learner,
        start: Start,
        *,
        max_lanes: int,
        only_listed: bool,
        clock: Callable[[], float],
    ) -> None:
        self._learner, self._start = learner, start
        self._max_lanes, self._only_listed, self._clock = max_lanes, only_listed, clock
        self._begun: deque[float] = deque()
        """When models and versions began, in the hour before now."""
        self.refused = 0
        """Predictions of models that were one too many."""
        self._new: dict[Name, Corrector | None] = {}
        self._dropped, self._classes = -1, dict[Name, Classes]()

    def classes(self) -> Mapping[Name, Classes]:
        """Of each."""
        if self._dropped != self._learner.dropped:
            self._dropped = self._learner.dropped
            self._classes = {name: one.classes for name, one in self._correctors().items()}
        return self._classes

    def holders(self, id: Id) -> list[Name]:
        """Which of them keep a prediction of an id."""
        return self._learner.models_of(id)

    def _correctors(self) -> dict[Name, Corrector]:
        live = self._learner.live.items()
        found = {name: one.corrector for name, one in live}
        return {name: one for name, one in found.items() if isinstance(one, Corrector)}

    # -- models that begin -----------------------------------------------------------------------

    def begin(self, name: Name, named: Sequence[Any] | None) -> Classes:
        """The classes of one that is not there; BadMessage where it may not begin."""
        corrector = self._corrector(name, named)
        self._new[name] = corrector
        return self._start.classes if corrector is None else corrector.classes

    def admit(self) -> None:
        """Make those that begin known to the learner."""
        for name, corrector in self._new.items():
            if corrector is not None:
                self._learner.start(corrector, *name)
            self._classes[name] = self._start.classes if corrector is None else corrector.classes
            self._begun.append(self._clock())
        self._new = {}

    def forget(self) -> None:
        """Those that were to begin do not."""
        self._new = {}

    def _corrector(self, name: Name, named: Sequence[Any] | None) -> Corrector | None:
        """With what a model and version begins; None: with what all do."""
        start, model = self._start, name[0] or ""
        if self._only_listed and not start.listed(model):
            raise BadMessage(
                f"model {model!r} has no table [models.{model}], and only_listed_models refuses all"
                " others"
            )
        self._require_room(name)
        if start.knows_classes_of(model):
            return start.of_model(model)
        versions = self._versions(name[0])
        if versions and named is None:
            return start.of_classes(versions[0], model)
        for classes in versions:
            if {*map(str, classes)} == {*map(str, named or ())}:
                return start.of_classes(classes, model)
        if named is None or len(named) < 2:
            raise BadMessage(
                f"model {model!r}: its classes are not known; give them under [models.{model}], or"
                " send its probabilities as an object of all classes"
            )
        try:
            return start.of_classes(named, model)
        except ValueError as error:
            raise BadMessage(f"model {model!r}: {error}") from None

    def _versions(self, model: str | None) -> list[Classes]:
        """The classes of a model's versions, that with most labels of late first."""
        found = [one for name, one in self._correctors().items() if name[0] == model]
        found = [one for one in found if one.classes != NO_CLASSES]
        found.sort(key=lambda one: -one.effective_sample_size)
        return [one.classes for one in found]

    def _require_room(self, name: Name) -> None:
        """BadMessage where too many began within an hour."""
        begun = self._begun
        while begun and begun[0] <= self._clock() - HOUR_SECONDS:
            begun.popleft()
        if len(begun) + len(self._new) >= self._max_lanes:
            self.refused += 1
            raise BadMessage(
                f"lane {LaneName(name[0] or '', name[1] or '')}: {self._max_lanes} models and"
                " versions began within an hour, which is max_lanes; does the setting model or"
                " version name the field that it should?"
            )
