"""Reader: parses records of predictions and labels for learners and correctors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy import float64
from numpy.typing import NDArray

from stream_can.errors import StreamCANError, UnknownClass
from stream_can.learner import LateLabel
from stream_can.learner.kinds import Id, Reason
from stream_can.learner.lane import ONLY, Name
from stream_can.learner.lanes import is_of
from stream_can.learner.recent import LONGEST_ID
from stream_can.messages.columns import Table, table
from stream_can.messages.fields import Fields
from stream_can.messages.messages import (
    BadMessage,
    Formats,
    Label,
    Messages,
    Numbering,
    Prediction,
    messages_of,
)
from stream_can.messages.naming import Naming
from stream_can.messages.opening import (
    Reading,
    far_below,
    needs_measure,
    open_records,
    rows_at,
)
from stream_can.messages.ordinary import OrdinaryBatch
from stream_can.messages.records import Source

__all__ = ["Models", "ReadLabels", "ReadPredictions", "Reader"]

Array = NDArray[float64]
Classes = tuple[Any, ...]
Bad = list[tuple[int, StreamCANError]]
"""Unreadable records by position, with the reason."""
LABELS = "labels"


class Models(Protocol):
    """Models and versions in use."""

    @property
    def alike(self) -> bool:
        """Whether all models have the same classes, including future ones."""

    def classes(self) -> Mapping[Name, Classes]:
        """Classes of each model and version."""

    def train(self, classes: Classes) -> Array | None:
        """Training prior, shape (m,), of a model with these classes, where known."""

    def begin(self, name: Name, named: Sequence[Any] | None) -> Classes:
        """Classes of a new model and version, given those named in its first message, if any.

        Raises
        ------
        BadMessage
            It may not begin, or its classes are unknown.
        """

    def holders(self, id: Id, name: Name) -> list[Name]:
        """Models and versions that keep a prediction of an id, among those to which a label for
        ``name`` can belong."""


class ReadPredictions(NamedTuple):
    """Predictions of models with the same classes."""

    places: Sequence[int]
    """Positions among the records."""
    messages: Messages
    runs: list[OrdinaryBatch | list[Prediction]]
    """The predictions, in order: ordinary ones, and others."""
    ids: list[bytes | None]
    rows: Any
    """Rows, shape (n, m); of very many classes the checked rows."""
    names: list[Name] | None
    """Model and version of each; None without models."""
    segments: Sequence[str]
    """Names of the declared columns."""
    off: int
    """Number of rows divided by their sum."""
    empty: list[int]
    """Positions of records without a value."""

    @property
    def says(self) -> list[Prediction]:
        """The predictions that are not ordinary: all where columns are declared."""
        return [one for run in self.runs if isinstance(run, list) for one in run]

    @property
    def columns(self) -> Table | None:
        """Values of the declared columns."""
        names = self.segments
        return table(names, [one.given for one in self.says]) if names else None

    @property
    def faults(self) -> list[tuple[int, str]]:
        """Positions of invalid column values, and what is wrong."""
        both = zip(self.places, self.says, strict=False)
        return [(i, says.fault) for i, says in both if says.fault is not None]

    def write(
        self,
        rows: Any,
        asked: Sequence[Reason | None] | None = None,
        sets: Sequence[list[Any]] | None = None,
    ) -> list[bytes]:
        """Write the answers: corrected rows, with the reasons of label requests and with sets."""
        at, out = 0, list[bytes]()
        for run in self.runs:
            n = len(run if isinstance(run, list) else run.ids)
            part = slice(at, at + n)
            reasons, named = asked and asked[part], sets and sets[part]
            if isinstance(run, list):
                for says, reason in zip(run, reasons or (), strict=False):
                    says.asked = reason
                for says, names in zip(run, named or (), strict=False):
                    says.set = names
                out += self.messages.write_all(run, rows[part])
            else:
                out += run.write(rows[part], reasons, named)
            at += n
        return out


class ReadLabels(NamedTuple):
    """Labels."""

    labels: list[LateLabel]
    """Labels for a learner."""
    places: list[int]
    """Positions among the records; others belong to no model in use, or have no value."""
    bad: Bad


def too_long(id: bytes) -> BadMessage:
    """The error of an id that no learner keeps."""
    return BadMessage(f"id: {len(id):,} bytes, expected at most {LONGEST_ID:,}")


class Reader:
    """Parses records of predictions and labels.

    Parameters
    ----------
    classes
        Classes of the model; with several models, those that most have.
    fields, formats
        Fields and formats of the messages.
    segments
        Names of the declared columns.
    models
        Models and versions in use.
    max_bytes
        Maximum output size; a prediction whose output could exceed it is unreadable.
    needs_id
        Whether a label without an id is unreadable, and a prediction whose label can name none.
    rows
        Name of the kind of rows.
    numbering
        What numbers the classes of rows as they appear, where they are not declared.
    """

    def __init__(
        self,
        classes: Classes,
        fields: Fields,
        formats: Formats,
        segments: Sequence[str],
        models: Models,
        max_bytes: int | None = None,
        *,
        rows: str,
        needs_id: bool = False,
        numbering: Numbering | None = None,
    ) -> None:
        self._needs_id, self._rows, self._numbering = needs_id, rows, numbering
        self._fields, self._formats, self._segments = fields, formats, segments
        self.models, self._max_bytes = models, max_bytes
        self._naming = Naming(fields) if fields.model or fields.version else None
        self._of_classes: dict[Classes, Messages] = {}
        self.first = self._messages(classes)
        """Parser for the common classes; also extracts the model of a message."""

    @property
    def named(self) -> bool:
        """Whether messages name a model or version."""
        return self._naming is not None

    def classes(self, name: Name) -> Classes:
        """Classes of a model and version."""
        return self.models.classes().get(name, self.first.classes)

    @property
    def widest(self) -> int:
        """Largest number of classes of a row."""
        return max(one.widest for one in self._of_classes.values())

    def _messages(self, classes: Classes) -> Messages:
        found = self._of_classes.get(classes)
        if found is None:
            train = self.models.train(classes)
            found = messages_of(
                self._rows, classes, self._fields, train, self._segments, self._formats,
                numbering=self._numbering,
            )  # fmt: skip
            self._of_classes[classes] = found
        return found

    # -- predictions -----------------------------------------------------------------------------

    def predictions(self, records: Sequence[Source]) -> tuple[list[ReadPredictions], Bad]:
        """Read predictions, grouped by classes, with those of new models last; also return the
        unreadable records."""
        if self._naming is None:
            found, bad = self._read(self.first, range(len(records)), records, None, None)
            return [found], bad
        names, known = list[Name](), self.models.classes()
        new: dict[Name, Classes] = {}
        alike: dict[tuple[bool, Classes], tuple[list[int], list[Any]]] = {}
        bad, empty = Bad(), list[int]()
        for i, one in enumerate(records):
            names.append(ONLY)
            if one.value is None and one.key is not None:
                empty.append(i)
                continue
            try:
                message = self.first.open(one.value or b"", one.headers)
                name = self._name(message, one)
                classes = known.get(name) or new.get(name)
                if classes is None:
                    new[name] = classes = self.models.begin(name, self.first.names_in(message))
            except (BadMessage, UnknownClass) as error:
                bad.append((i, error))
                continue
            names[i] = name
            # New models come last: one of the others may be dropped for them.
            places, given = alike.setdefault((name in new, classes), ([], []))
            places.append(i)
            given.append(message)
        groups = []
        for (_, classes), (places, given) in sorted(alike.items(), key=lambda one: one[0][0]):
            found, wrong = self._read(
                self._messages(classes), places, [records[i] for i in places], given,
                [names[i] for i in places],
            )  # fmt: skip
            bad += wrong
            groups.append(found)
        if empty:
            first = self.first
            groups.append(self._nothing(first, empty))
        return groups, sorted(bad, key=lambda one: one[0])

    def _nothing(self, reads: Messages, empty: list[int]) -> ReadPredictions:
        found, _ = self._read(reads, [], [], [], [])
        return found._replace(empty=empty)

    def _read(
        self,
        reads: Messages,
        places: Sequence[int],
        records: Sequence[Source],
        given: list[Any] | None,
        names: list[Name] | None,
    ) -> tuple[ReadPredictions, Bad]:
        runs = list[OrdinaryBatch | list[Prediction]]()
        ids, rows, at = list[bytes | None](), list[Any](), list[int]()
        empty, bad, off = list[int](), Bad(), 0
        reading = Reading(None, False, self._max_bytes)
        for first, last, batch in self._runs(reads, records, given):
            some = records[first:last]
            if batch is not None:
                ids += batch.ids if self._fields.id is not None else [one.key for one in some]
                at += range(first, last)
                runs.append(batch)
                rows.append(batch.rows)
                off += batch.off
                continue
            opened, P, divided = open_records(some, reads, reading, given)
            says = list[Prediction]()
            for i, (one, record) in enumerate(zip(opened, some, strict=True), first):
                if isinstance(one, Prediction):
                    says.append(one)
                    at.append(i)
                    ids.append(reads.id_of(one.message, record.key, record.headers))
                elif one is None:
                    empty.append(places[i])
                else:
                    assert isinstance(one, StreamCANError)
                    bad.append((places[i], one))
            if len(says) < len(opened):
                P = rows_at(P, [one.number for one in says])
            runs.append(says)
            rows.append(P)
            off += divided
        if len(at) < len(places):
            places = [places[i] for i in at]
            names = None if names is None else [names[i] for i in at]
        every = rows[0] if len(rows) == 1 else np.concatenate(rows)
        if self._needs_id:
            long = zip(places, ids, strict=True)
            bad += [(i, too_long(id)) for i, id in long if id is not None and len(id) > LONGEST_ID]
            bad.sort(key=lambda one: one[0])
        ids = [None if id is None or len(id) > LONGEST_ID else id for id in ids]
        return ReadPredictions(
            places, reads, runs, ids, every, names, self._segments, off, empty
        ), bad

    def _runs(
        self, reads: Messages, records: Sequence[Source], given: list[Any] | None
    ) -> Iterable[tuple[int, int, OrdinaryBatch | None]]:
        """Cut records into runs of ordinary ones, none of them near the limit of size, and others;
        those that are ``given`` are opened."""
        if given is not None or not records:
            return [(0, len(records), None)]
        values = [record.value for record in records]
        if self._max_bytes is not None:
            most = far_below(reads, self._max_bytes)
            values = [
                None if value is None or len(value) > most or needs_measure(record) else value
                for record, value in zip(records, values, strict=True)
            ]
        return reads.runs(values, labels=False)

    def _name(self, message: Any, record: Source) -> Name:
        """Model and version of a prediction."""
        assert self._naming is not None
        find = self.first.predictions.find
        model, version = self._naming.of_prediction(find, message, record.headers)
        return model or None, version or None

    # -- labels ----------------------------------------------------------------------------------

    def labels(
        self, records: Sequence[Source], require_few: Callable[[int], None] | None = None
    ) -> ReadLabels:
        """Read labels; a record without a value is skipped. ``require_few`` is called with the
        number of rows that they carry as it grows, and may raise."""
        if (ordinary := self._ordinary_labels(records)) is not None:
            return ReadLabels(ordinary, [*range(len(records))], [])
        found, rows = ReadLabels([], [], []), 0
        for i, record in enumerate(records):
            if record.value is None:
                continue
            try:
                late = self._label(record, record.value)
            except StreamCANError as error:
                found.bad.append((i, error))
                continue
            if late is not None:
                rows += late.row is not None
                if require_few is not None and late.row is not None:
                    require_few(rows)
                found.labels.append(late)
                found.places.append(i)
        return found

    def _ordinary_labels(self, records: Sequence[Source]) -> list[LateLabel] | None:
        """Read a batch of ordinary labels of one model; None where there are others."""
        values = [record.value for record in records]
        batch = self.first.read_ordinary(values) if self._naming is None else None
        if batch is None or batch.ids or batch.size < len(values):
            return None
        labels = [LateLabel(id, label) for id, label, _ in batch.labels]
        if self._fields.id is None:
            for late, record in zip(labels, records, strict=True):
                late.id = record.key
        if self._needs_id and any(late.id is None for late in labels):
            return None
        if any(late.id is not None and len(late.id) > LONGEST_ID for late in labels):
            return None
        return labels

    def id_of_label(self, record: Source) -> bytes | None:
        """Id of the prediction that a readable label names."""
        message = self.first.open(record.value or b"", record.headers, label=True)
        return self.first.id_of_label(message, record.key, record.headers)

    def _label(self, record: Source, value: bytes) -> LateLabel | None:
        """Read a label; None where no model in use has its class or its prediction."""
        first, headers = self.first, record.headers
        message = first.open(value, headers, label=True)
        id = None
        if self._needs_id or self._naming is not None:
            id = first.id_of_label(message, record.key, headers)
        if id is None and self._needs_id:
            raise BadMessage(f"no field {self._fields.id!r}")
        if self._naming is None:
            says, P = self._read_label(first, message, record)
            return self._late(says, P, ONLY, first)
        model, version = self._naming.of_label(first.labels.find, message, headers)
        name = model or None, version or None
        whole = (model or not self._naming.has_model) and (version or not self._naming.has_version)
        known = self.models.classes()
        holders = [] if id is None else self.models.holders(id, name)
        error: StreamCANError | None = None
        for classes in dict.fromkeys(known[one] for one in holders):
            try:
                says, P = self._read_label(self._messages(classes), message, record)
            except (BadMessage, UnknownClass) as why:
                error = error or why
                continue
            # A label that names no model does not say whose row it carries.
            return self._late(says, P if whole else None, name, self._messages(classes))
        if error is not None:
            raise error
        return self._of_nobody(message, record, name, bool(whole))

    def _of_nobody(self, message: Any, record: Source, name: Name, whole: bool) -> LateLabel | None:
        """Read a label whose prediction is not kept; it may carry the row."""
        known = self.models.classes()
        own = known.get(name) if whole else None
        if own is not None:
            reads = self._messages(own)
            return self._late(*self._read_label(reads, message, record), name, reads)
        may_be = [classes for one, classes in known.items() if is_of(one, name)]
        error: StreamCANError | None = None
        for classes in dict.fromkeys([*may_be, self.first.classes]):
            reads = self._messages(classes)
            try:
                says, _ = self._read_label(reads, message, record)
            except UnknownClass as why:
                error = error or why
                continue
            return self._late(says, None, name, reads)
        if error is not None and self.models.alike:
            raise error
        return None  # it may belong to an unknown model

    def _read_label(self, reads: Messages, message: Any, record: Source) -> tuple[Label, Array]:
        reading = Reading(record.topic, False, None)
        (says,), P, _ = open_records([record], reads, reading, [message])
        if isinstance(says, StreamCANError):
            raise says
        assert isinstance(says, Label)
        return says, P

    def _late(self, says: Label, P: Array | None, name: Name, reads: Messages) -> LateLabel:
        """Convert a label for a learner, with its row from ``P`` where it carries one."""
        if says.id is not None and len(says.id) > LONGEST_ID:
            raise too_long(says.id)
        label = reads.label_of(says.index)
        late = LateLabel(says.id, label, model=name[0], version=name[1])
        if P is not None and says.number >= 0:
            late.row = P[says.number]
            if says.given is not None:
                late.segments = dict(zip(self._segments, says.given, strict=True))
        return late
