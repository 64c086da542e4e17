"""Models and versions in use, and initial correctors of new ones."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from stream_can.app.model_messages import Array, Classes
from stream_can.app.start import NO_CLASSES
from stream_can.learner.kinds import Id
from stream_can.learner.model_name import Name
from stream_can.learner.model_version import most_bytes
from stream_can.learner.model_versions import adapter_of
from stream_can.messages.messages import BadMessage
from stream_can.messages.naming import LaneName
from stream_can.row_kinds import kind_of

HOUR_SECONDS = 3600.0
DeclaredCorrector = Any
"""A corrector whose classes are declared."""


def classes_of(corrector: DeclaredCorrector) -> Classes:
    """Names of a corrector's classes."""
    classes: Classes = kind_of(corrector).adapter(corrector).classes
    return classes


def train_prior_of(correctors: Iterable[DeclaredCorrector], classes: Classes) -> Array | None:
    """Training prior of the first corrector with these classes, for rows that lack some; None where
    there is none, or such rows lack nothing."""
    for corrector in correctors:
        if kind_of(corrector).fills_in and corrector.classes == classes:
            prior: Array = corrector.train_prior
            return prior
    return None


class Begins(Protocol):
    """Source of initial correctors, see :class:`stream_can.app.start.Start`."""

    @property
    def alike(self) -> bool:
        """Whether all models have the same classes."""

    @property
    def classes(self) -> Classes:
        """Classes of a model without its own."""

    def train(self, classes: Classes) -> Array | None:
        """Training prior, shape (m,), of a model with these classes, where known."""

    def has_settings(self, model: str) -> bool:
        """Whether a model has a table in the settings."""

    def knows_classes_of(self, model: str) -> bool:
        """Whether the classes of a model are known."""

    def of_model(self, model: str) -> DeclaredCorrector | None:
        """Own initial corrector of a model; None where it starts with the common one."""

    def of_classes(self, names: Sequence[Any], model: str) -> DeclaredCorrector:
        """Initial corrector of a model whose first message names its classes."""


class LiveModels:
    """Models in use, see :class:`stream_can.app.model_messages.Models`. New ones are pending until
    :meth:`admit` or :meth:`forget`.

    Parameters
    ----------
    start
        Source of initial correctors.
    max_lanes
        Maximum number of models and versions that may begin within an hour.
    only_listed
        Whether to refuse models without a table.
    clock
        Returns the time in seconds.
    """

    def __init__(
        self,
        start: Begins,
        *,
        max_lanes: int,
        only_listed: bool,
        clock: Callable[[], float],
    ) -> None:
        self._start = start
        self._max_lanes, self._only_listed, self._clock = max_lanes, only_listed, clock
        self._begun: deque[tuple[float, int]] = deque()
        """When models and versions began, over the last hour, and the bytes of their correctors."""
        self.refused = 0
        """Predictions refused because of too many models."""
        self._new: dict[Name, DeclaredCorrector | None] = {}

    @property
    def alike(self) -> bool:
        """Whether all models have the same classes, including future ones."""
        return self._start.alike

    def train(self, classes: Classes) -> Array | None:
        """Training prior, shape (m,), of a model with these classes, where known."""
        prior = train_prior_of(self._correctors().values(), classes)
        return self._start.train(classes) if prior is None else prior

    @abstractmethod
    def classes(self) -> Mapping[Name, Classes]:
        """Classes of each model and version."""

    @abstractmethod
    def holders(self, id: Id, name: Name) -> list[Name]:
        """Models and versions that keep a prediction of an id; see `model_messages.Models`."""

    @abstractmethod
    def _correctors(self) -> Mapping[Name, DeclaredCorrector]:
        """Corrector of each model and version."""

    @abstractmethod
    def _bytes_of_new(self) -> int:
        """Bytes of the common corrector."""

    @abstractmethod
    def _begin_model(self, name: Name, corrector: DeclaredCorrector | None) -> None:
        """Begin a model and version with a corrector, or with the common one."""

    # -- new models ------------------------------------------------------------------------------

    def begin(self, name: Name, named: Sequence[Any] | None) -> Classes:
        """Classes of a new model and version; BadMessage where it may not begin."""
        corrector = self._corrector(name, named)
        self._new[name] = corrector
        return self._start.classes if corrector is None else classes_of(corrector)

    def admit(self) -> None:
        """Begin the pending models."""
        for name, corrector in self._new.items():
            self._begin_model(name, corrector)
            self._begun.append((self._clock(), self._bytes(corrector)))
        self._new = {}

    def forget(self) -> None:
        """Drop the pending models."""
        self._new = {}

    def _corrector(self, name: Name, named: Sequence[Any] | None) -> DeclaredCorrector | None:
        """Initial corrector of a model and version; None: the common one."""
        start, model = self._start, name[0] or ""
        if self._only_listed and not start.has_settings(model):
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
        """Classes of a model's versions, the one with the most recent labels first."""
        correctors = [
            corrector for name, corrector in self._correctors().items() if name[0] == model
        ]
        correctors.sort(key=lambda corrector: -corrector.effective_sample_size)
        all_classes = map(classes_of, correctors)
        return [classes for classes in all_classes if classes != NO_CLASSES]

    @property
    def full(self) -> bool:
        """Whether no model may begin, because too many, or too large ones, did within an hour."""
        recent_begins = self._begun
        while recent_begins and recent_begins[0][0] <= self._clock() - HOUR_SECONDS:
            recent_begins.popleft()
        sizes = [*(size for _, size in recent_begins), *map(self._bytes, self._new.values())]
        return len(sizes) >= self._max_lanes or sum(sizes) >= most_bytes(self._max_lanes)

    def _bytes(self, corrector: DeclaredCorrector | None) -> int:
        return self._bytes_of_new() if corrector is None else adapter_of(corrector).nbytes

    def _require_room(self, name: Name) -> None:
        """Raise BadMessage where no model may begin."""
        if self.full:
            self.refused += 1
            mb = most_bytes(self._max_lanes) >> 20
            raise BadMessage(
                f"lane {LaneName(name[0] or '', name[1] or '')}: {self._max_lanes} models and"
                f" versions, or {mb} MB of them, began within an hour, which is max_lanes; does the"
                " setting model or version name the field that it should?"
            )
