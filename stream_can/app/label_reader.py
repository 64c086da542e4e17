"""LabelReader: parses records of labels for learners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stream_can.app.model_messages import Array, Bad, ModelMessages, too_long
from stream_can.errors import StreamCANError, UnknownClass
from stream_can.learner import LateLabel
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.model_versions import is_of
from stream_can.learner.recent import LONGEST_ID
from stream_can.messages.label import Label, NoLabel
from stream_can.messages.messages import BadMessage, Messages
from stream_can.messages.parsing import OpenedLabels, RawMessage


class ReadLabels(NamedTuple):
    """Labels."""

    labels: list[LateLabel]
    """Labels for a learner."""
    places: list[int]
    """Positions among the records."""
    bad: Bad
    without: list[int]
    """Positions of records without a value, or of which the map of labels says that they are
    none."""
    of_nobody: list[int]
    """Positions of labels that no model in use has."""


class LabelReader:
    """Parses records of labels.

    Parameters
    ----------
    messages
        The messages of the models.
    needs_id
        Whether a label without an id is unreadable.
    """

    def __init__(self, messages: ModelMessages, *, needs_id: bool = False) -> None:
        self._messages, self._needs_id = messages, needs_id

    def parse(
        self, records: Sequence[RawMessage], require_few: Callable[[int], None] | None = None
    ) -> ReadLabels:
        """Read labels. ``require_few`` is called with the
        number of rows that they carry as it grows, and may raise."""
        if (ordinary := self._ordinary_labels(records)) is not None:
            return ReadLabels(ordinary, [*range(len(records))], [], [], [])
        labels_read, rows = ReadLabels([], [], [], [], []), 0
        for i, record in enumerate(records):
            if record.value is None:
                labels_read.without.append(i)
                continue
            try:
                late = self._label(record, record.value)
            except NoLabel:
                labels_read.without.append(i)
                continue
            except StreamCANError as error:
                labels_read.bad.append((i, error))
                continue
            if late is None:
                labels_read.of_nobody.append(i)
            else:
                rows += late.row is not None
                if require_few is not None and late.row is not None:
                    require_few(rows)
                labels_read.labels.append(late)
                labels_read.places.append(i)
        return labels_read

    def _ordinary_labels(self, records: Sequence[RawMessage]) -> list[LateLabel] | None:
        """Read a batch of ordinary labels of one model; None where there are others."""
        values = [record.value for record in records]
        alone = self._messages.naming is None
        batch = self._messages.first.ordinary.read(values) if alone else None
        if batch is None or batch.ids or batch.size < len(values):
            return None
        labels = [LateLabel(id, label) for id, label, _ in batch.labels]
        if self._messages.fields.id is None:
            for late, record in zip(labels, records, strict=True):
                late.id = record.key
        if self._needs_id and any(late.id is None for late in labels):
            return None
        if any(late.id is not None and len(late.id) > LONGEST_ID for late in labels):
            return None
        return labels

    def id_of(self, record: RawMessage) -> bytes | None:
        """Id of the prediction that a readable label names."""
        message = self._messages.first.open(record.value or b"", record.headers, label=True)
        return self._messages.first.id_of_label(message, record.key, record.headers)

    def _label(self, record: RawMessage, value: bytes) -> LateLabel | None:
        """Read a label; None where no model in use has its class or its prediction."""
        first, headers = self._messages.first, record.headers
        message = first.open(value, headers, label=True)
        id = None
        naming = self._messages.naming
        if self._needs_id or naming is not None:
            id = first.id_of_label(message, record.key, headers)
        if id is None and self._needs_id:
            raise BadMessage(f"no field {self._messages.fields.id!r}")
        if naming is None:
            parsed, P = self._read_label(first, message, record)
            return self._late(parsed, P, ONLY, first)
        model, version = naming.of_label(first.labels.find, message, headers)
        name = model or None, version or None
        is_complete = (model or not naming.has_model) and (version or not naming.has_version)
        known = self._messages.models.classes()
        holders = [] if id is None else self._messages.models.holders(id, name)
        error: StreamCANError | None = None
        for classes in dict.fromkeys(known[holder] for holder in holders):
            messages = self._messages.of_classes(classes)
            try:
                parsed, P = self._read_label(messages, message, record)
            except (BadMessage, UnknownClass) as unreadable:
                error = error or unreadable
                continue
            # A label that names no model does not say whose row it carries.
            return self._late(parsed, P if is_complete else None, name, messages)
        if error is not None:
            raise error
        return self._of_nobody(message, record, name, bool(is_complete))

    def _of_nobody(
        self, message: Any, record: RawMessage, name: Name, is_complete: bool
    ) -> LateLabel | None:
        """Read a label whose prediction is not kept; it may carry the row."""
        known = self._messages.models.classes()
        own_classes = known.get(name) if is_complete else None
        if own_classes is not None:
            messages = self._messages.of_classes(own_classes)
            return self._late(*self._read_label(messages, message, record), name, messages)
        candidates = [classes for candidate, classes in known.items() if is_of(candidate, name)]
        error: StreamCANError | None = None
        for classes in dict.fromkeys([*candidates, self._messages.first.classes]):
            messages = self._messages.of_classes(classes)
            try:
                parsed, _ = self._read_label(messages, message, record)
            except UnknownClass as unreadable:
                error = error or unreadable
                continue
            return self._late(parsed, None, name, messages)
        if error is not None and self._messages.models.alike:
            raise error
        return None  # it may belong to an unknown model

    def _read_label(
        self, messages: Messages, message: Any, record: RawMessage
    ) -> tuple[Label, Array]:
        reading = OpenedLabels(messages)
        reading.append(record, message)
        (parsed,), P = reading.checked()
        if isinstance(parsed, StreamCANError):
            raise parsed
        assert parsed is not None
        return parsed, P

    def _late(self, parsed: Label, P: Array | None, name: Name, messages: Messages) -> LateLabel:
        """Convert a label for a learner, with its row from ``P`` where it carries one."""
        if parsed.id is not None and len(parsed.id) > LONGEST_ID:
            raise too_long(parsed.id)
        label = messages.label_of(parsed.index)
        late = LateLabel(parsed.id, label, model=name[0], version=name[1], weight=parsed.weight)
        if P is not None and parsed.number >= 0:
            late.row = P[parsed.number]
            if parsed.segments is not None:
                late.segments = dict(zip(self._messages.segments, parsed.segments, strict=True))
        return late
