"""Reads the messages of a request as a learner takes them, whatever classes a model has."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.app.start import NO_CLASSES, Start
from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError, UnknownClass
from stream_can.learner import LateLabel
from stream_can.learner.lane import ONLY, Name
from stream_can.learner.learner import Learner, is_of
from stream_can.messages.columns import Table, table
from stream_can.messages.fields import Fields
from stream_can.messages.messages import BadMessage, Label, Messages, Prediction
from stream_can.messages.naming import LaneName, Naming
from stream_can.messages.opening import Reading, open_records
from stream_can.messages.records import Record

__all__ = ["BadMessages", "ReadLabels", "ReadPredictions", "Reader"]

Array = NDArray[np.float64]
INPUT, LABELS = "predictions", "labels"
READING = Reading(LABELS, False, None)
HOUR_SECONDS = 3600.0


class BadMessages(StreamCANError):
    """Messages that cannot be read: nothing of their request is taken."""

    def __init__(self, bad: Sequence[tuple[int, StreamCANError]]) -> None:
        super().__init__(str(bad[0][1]))
        self.bad = bad
        """Which of the request, and why."""


class ReadPredictions(NamedTuple):
    """Predictions of models of the same classes."""

    places: Sequence[int]
    """Where in the request they came."""
    messages: Messages
    says: list[Prediction]
    ids: list[bytes | None]
    rows: Array
    """Shape (n, m)."""
    names: list[Name] | None
    """The model and version of each; None where there is one for all."""
    segments: Sequence[str]
    """The declared columns."""
    off: int
    """Rows that were divided by their sum."""

    @property
    def columns(self) -> Table | None:
        """What they give of the declared columns."""
        names = self.segments
        return table(names, [one.given for one in self.says]) if names else None


class ReadLabels(NamedTuple):
    """The labels of a request."""

    labels: list[LateLabel]
    """Those that a learner takes."""
    places: list[int]
    """Where in the request they came; others are of no model that there is."""


class Reader:
    """Messages of predictions and labels, read as a learner takes them.

    Parameters
    ----------
    start
        With what models begin.
    fields
        Where in a message everything is.
    learner
        Whose models there are.
    max_lanes
        So many models and versions may begin within an hour.
    only_listed
        Whether models without a table are refused.
    clock
        The time in seconds.
    """

    def __init__(
        self,
        start: Start,
        fields: Fields,
        learner: Learner,
        *,
        max_lanes: int,
        only_listed: bool,
        clock: Callable[[], float],
    ) -> None:
        self._start, self._fields, self._learner = start, fields, learner
        self._max_lanes, self._only_listed, self._clock = max_lanes, only_listed, clock
        self._naming = Naming(fields) if fields.model or fields.version else None
        self._of_classes: dict[tuple[Any, ...], Messages] = {}
        self.first = self._messages(start.classes)
        """What reads the messages where there is one model, and opens those of others."""
        self._begun: deque[float] = deque()
        """When models and versions began, in the hour before now."""
        self.refused = 0
        """Predictions of models that were one too many."""
        self._dropped, self._classes = -1, dict[Name, tuple[Any, ...]]()
        self._look()

    @property
    def named(self) -> bool:
        """Whether messages name a model or version."""
        return self._naming is not None

    def classes(self, name: Name) -> tuple[Any, ...]:
        """Of a model and version."""
        return self._classes.get(name, self.first.classes)

    @property
    def widest(self) -> int:
        """Classes of the model that has most."""
        return max(len(one) for one in self._of_classes)

    def _messages(self, classes: tuple[Any, ...]) -> Messages:
        found = self._of_classes.get(classes)
        if found is None:
            start = self._start
            found = Messages(classes, self._fields, columns=start.segments, formats=start.formats)
            self._of_classes[classes] = found
        return found

    def _look(self) -> None:
        """Which models and versions there are, where some were dropped."""
        if self._dropped != self._learner.dropped:
            self._dropped = self._learner.dropped
            self._classes = {name: one.classes for name, one in self._correctors().items()}

    def _correctors(self) -> dict[Name, Corrector]:
        live = self._learner.live.items()
        found = {name: one.corrector for name, one in live}
        return {name: one for name, one in found.items() if isinstance(one, Corrector)}

    # -- predictions -----------------------------------------------------------------------------

    def predictions(self, values: Sequence[bytes]) -> list[ReadPredictions]:
        """Read messages of predictions, of which models of the same classes come together.

        Models that begin with them are made known to the learner.

        Raises
        ------
        BadMessages
            Nothing was made known.
        """
        records = [Record(INPUT, 0, i, 0, None, one) for i, one in enumerate(values)]
        if self._naming is None:
            found, bad = self._read(self.first, range(len(records)), records, None, None)
            if bad:
                raise BadMessages(bad)
            return [found]
        self._look()
        names: list[Name] = []
        new: dict[Name, Corrector | None] = {}
        alike: dict[tuple[bool, tuple[Any, ...]], tuple[list[int], list[Any]]] = {}
        bad = []
        for i, one in enumerate(values):
            try:
                message = self.first.open(one)
                name = self._name(message)
                classes = self._classes.get(name)
                if classes is None:
                    if name not in new:
                        new[name] = self._begin(name, message, len(new))
                    own = new[name]
                    classes = self.first.classes if own is None else own.classes
            except (BadMessage, UnknownClass) as error:
                bad.append((i, error))
                names.append(ONLY)
                continue
            names.append(name)
            # Those that begin come behind the others: one of these may be dropped for them.
            places, given = alike.setdefault((name in new, classes), ([], []))
            places.append(i)
            given.append(message)
        groups = []
        for (_, classes), (places, given) in sorted(alike.items(), key=lambda one: one[0][0]):
            reads = self._messages(classes)
            found, wrong = self._read(
                reads, places, [records[i] for i in places], given, [names[i] for i in places]
            )
            bad += wrong
            groups.append(found)
        if bad:
            raise BadMessages(sorted(bad, key=lambda one: one[0]))
        for name, corrector in new.items():
            if corrector is not None:
                self._learner.start(corrector, *name)
            self._classes[name] = self.first.classes if corrector is None else corrector.classes
            self._begun.append(self._clock())
        return groups

    def _read(
        self,
        reads: Messages,
        places: Sequence[int],
        records: list[Record],
        given: list[Any] | None,
        names: list[Name] | None,
    ) -> tuple[ReadPredictions, list[tuple[int, StreamCANError]]]:
        opened, P, off = open_records(records, reads, READING, given)
        says, bad = list[Prediction](), list[tuple[int, StreamCANError]]()
        for i, one in zip(places, opened, strict=True):
            if isinstance(one, Prediction):
                says.append(one)
            elif isinstance(one, StreamCANError):
                bad.append((i, one))
        ids = [reads.id_of(one.message, None) for one in says]
        segments = self._start.segments
        return ReadPredictions(places, reads, says, ids, P, names, segments, off), bad

    def _name(self, message: Any) -> Name:
        """The model and version of a prediction."""
        assert self._naming is not None
        model, version = self._naming.of_prediction(self.first.predictions.find, message, ())
        return model or None, version or None

    # -- models that begin -----------------------------------------------------------------------

    def _begin(self, name: Name, message: Any, others: int) -> Corrector | None:
        """With what a model and version begins; None: with what all do.

        Raises
        ------
        BadMessage
            It may not begin, or its classes are not known.
        """
        start, model = self._start, name[0] or ""
        if self._only_listed and not start.listed(model):
            raise BadMessage(
                f"model {model!r} has no table [models.{model}], and only_listed_models refuses all"
                " others"
            )
        self._require_room(name, others)
        if start.knows_classes_of(model):
            return start.of_model(model)
        names = self.first.names_in(message)
        versions = self._versions(name[0])
        if versions and names is None:
            return start.of_classes(versions[0], model)
        for classes in versions:
            if {*map(str, classes)} == {*map(str, names or ())}:
                return start.of_classes(classes, model)
        if names is None or len(names) < 2:
            raise BadMessage(
                f"model {model!r}: its classes are not known; give them under [models.{model}], or"
                " send its probabilities as an object of all classes"
            )
        try:
            return start.of_classes(names, model)
        except ValueError as error:
            raise BadMessage(f"model {model!r}: {error}") from None

    def _versions(self, model: str | None) -> list[tuple[Any, ...]]:
        """The classes of a model's versions, that with most labels of late first."""
        found = [one for name, one in self._correctors().items() if name[0] == model]
        found = [one for one in found if one.classes != NO_CLASSES]
        found.sort(key=lambda one: -one.effective_sample_size)
        return [one.classes for one in found]

    def _require_room(self, name: Name, others: int) -> None:
        """BadMessage where too many began within an hour; ``others`` begin with the request."""
        begun = self._begun
        while begun and begun[0] <= self._clock() - HOUR_SECONDS:
            begun.popleft()
        if len(begun) + others >= self._max_lanes:
            self.refused += 1
            raise BadMessage(
                f"lane {LaneName(name[0] or '', name[1] or '')}: {self._max_lanes} models and"
                " versions began within an hour, which is max_lanes; does the setting model or"
                " version name the field that it should?"
            )

    # -- labels ----------------------------------------------------------------------------------

    def labels(self, values: Sequence[bytes]) -> ReadLabels:
        """Read messages of labels.

        Raises
        ------
        BadMessages
            They cannot be read.
        """
        self._look()
        found, bad = ReadLabels([], []), list[tuple[int, StreamCANError]]()
        for i, value in enumerate(values):
            try:
                late = self._label(value)
            except StreamCANError as error:
                bad.append((i, error))
                continue
            if late is not None:
                found.labels.append(late)
                found.places.append(i)
        if bad:
            raise BadMessages(bad)
        return found

    def _label(self, value: bytes) -> LateLabel | None:
        """One label; None where no model that there is has its class, and none its prediction."""
        first = self.first
        message = first.open(value, label=True)
        id = first.id_of_label(message, None)
        if id is None:
            raise BadMessage(f"no field {self._fields.id!r}")
        if self._naming is None:
            says, P = self._read_label(first, message)
            return self._late(says, P, ONLY, first)
        model, version = self._naming.of_label(first.labels.find, message, ())
        name = model or None, version or None
        whole = (model or not self._naming.has_model) and (version or not self._naming.has_version)
        holders = [one for one in self._learner.models_of(id) if is_of(one, name)]
        error: StreamCANError | None = None
        for classes in dict.fromkeys(self._classes[one] for one in holders):
            try:
                says, P = self._read_label(self._messages(classes), message)
            except (BadMessage, UnknownClass) as why:
                error = error or why
                continue
            # Unless it names one, it does not say whose row it brings.
            return self._late(says, P if whole else None, name, self._messages(classes))
        if error is not None:
            raise error
        return self._of_nobody(message, name, bool(whole))

    def _of_nobody(self, message: Any, name: Name, whole: bool) -> LateLabel | None:
        """A label whose prediction no model has: it may bring the row."""
        own = self._classes.get(name) if whole else None
        if own is not None:
            reads = self._messages(own)
            return self._late(*self._read_label(reads, message), name, reads)
        may_be = [classes for one, classes in self._classes.items() if is_of(one, name)]
        for classes in dict.fromkeys([*may_be, self.first.classes]):
            reads = self._messages(classes)
            try:
                says, _ = self._read_label(reads, message)
            except (BadMessage, UnknownClass):
                continue
            return self._late(says, None, name, reads)
        return None

    def _read_label(self, reads: Messages, message: Any) -> tuple[Label, Array]:
        record = Record(LABELS, 0, 0, 0, None, b"")
        (says,), P, _ = open_records([record], reads, READING, [message])
        if isinstance(says, StreamCANError):
            raise says
        assert isinstance(says, Label)
        return says, P

    def _late(self, says: Label, P: Array | None, name: Name, reads: Messages) -> LateLabel:
        """A label as a learner takes it, with the row that it brings where ``P`` has it."""
        late = LateLabel(says.id, reads.classes[says.index], model=name[0], version=name[1])
        if P is not None and says.number >= 0:
            late.row = P[says.number]
            if says.given is not None:
                late.columns = dict(zip(self._start.segments, says.given, strict=True))
        return late
