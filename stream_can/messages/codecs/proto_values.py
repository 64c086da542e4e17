"""Values of fields in a Protobuf message: read, and put in place of others."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from stream_can.messages.codecs.proto_shapes import (
    INTEGERS,
    Entries,
    F,
    NumberMap,
    NumberMessage,
    Other,
    Place,
    Scalar,
    repeats,
)
from stream_can.messages.probability_formats import BadMessage, Form, LabelScore, Named
from stream_can.method.class_names import json_name

if TYPE_CHECKING:
    Row = array[float]


class FieldValue(NamedTuple):
    """A field with a value."""

    holder: Any
    """The message that contains it."""
    place: Place
    value: Any
    """The value; a view where it is repeated or a message."""


def decode(field: FieldValue) -> Any:
    """Decode probabilities that are not repeated numbers, for the forms, and labels."""
    value = field.value
    match shape := field.place.shape:
        case Other(repeated=True, label=Scalar() as label):
            return [label.value(name) for name in value]
        case NumberMap() | Other(repeated=False, label=Scalar()):
            try:
                return dict(value)
            except UnicodeDecodeError as error:  # strings in proto2 may be invalid UTF-8
                raise BadMessage(f"a name in the map: {error}") from None
        case NumberMessage():
            return {name: getattr(value, name) for name in shape.names}
        case Entries():
            return [LabelScore(shape.label.value(entry.label), entry.score) for entry in value]
    return value


def put_probs(field: FieldValue, form: Form | None, row: list[float]) -> None:
    """Set the probabilities, in their original form."""
    holder, place, value = field
    if form is None:
        del value[:]
        value.extend(row)
        return
    match shape := place.shape:
        case Scalar():
            setattr(holder, place.name, form.of(row))
        case NumberMap():
            if not isinstance(form, Named):
                value.clear()
            for name, number in form.of(row).items():
                value[name] = number
        case NumberMessage():
            for name, number in form.of(row).items():
                setattr(value, name, number)
        case Entries():
            del value[:]
            for entry in form.of(row):
                value.add(label=shape.known[entry["label"]], score=entry["score"])


def fill(message: Any, values: Mapping[str, Any]) -> None:
    """Set those fields of a message that are among the values."""
    for name, field in message.DESCRIPTOR.fields_by_name.items():
        value = values.get(name)
        if value is None:
            continue
        inner = field.message_type
        if repeats(field):
            target = getattr(message, name)
            if isinstance(value, Mapping):
                target.update(value)
            elif inner is not None:
                for entry in value:
                    fill(target.add(), entry)
            else:
                target.extend([_as(field, entry) for entry in value])
        elif inner is not None:
            getattr(message, name).SetInParent()
            fill(getattr(message, name), value)
        else:
            setattr(message, name, _as(field, value))


def _as(field: Any, value: Any) -> Any:
    """An id or label of another type as that of a field."""
    if isinstance(value, str) and field.type == F.TYPE_BYTES:
        return value.encode()
    if isinstance(value, str) and field.type in INTEGERS:
        return int(value)
    if not isinstance(value, str) and field.type == F.TYPE_STRING:
        return json_name(value)
    return value
