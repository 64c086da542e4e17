"""Values in a Protobuf message, and the shapes of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, message_factory  # type: ignore[import-untyped]

from stream_can.messages.probability_formats import BadMessage
from stream_can.method.class_names import json_name

F = descriptor_pb2.FieldDescriptorProto
FLOATS = {F.TYPE_DOUBLE, F.TYPE_FLOAT}
INTEGERS = {
    F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32, F.TYPE_UINT64, F.TYPE_SINT32, F.TYPE_SINT64,
    F.TYPE_FIXED32, F.TYPE_FIXED64, F.TYPE_SFIXED32, F.TYPE_SFIXED64,
}  # fmt: skip
LABELS = INTEGERS | {F.TYPE_STRING, F.TYPE_ENUM}
MESSAGES = {F.TYPE_MESSAGE, F.TYPE_GROUP}

Names = tuple[str, ...]


class Scalar(NamedTuple):
    """A value without parts."""

    type: int
    called: str = "string"
    symbols: Mapping[int, str] = {}
    """Symbols of an enum, by number."""

    def value(self, stored: Any) -> Any:
        """The value as JSON; undecodable bytes are backslash-escaped."""
        if isinstance(stored, bytes):  # a string in proto2 may be invalid UTF-8
            return stored.decode(errors="backslashreplace")
        return self.symbols.get(stored, stored) if self.symbols else stored


class Numbers(NamedTuple):
    """Repeated double or float."""


class NumberMap(NamedTuple):
    """A map from string to double or float."""


class NumberMessage(NamedTuple):
    """A message whose fields are doubles and floats."""

    names: Names


class Entries(NamedTuple):
    """Repeated messages of a label and a score."""

    label: Scalar
    make: Callable[..., Any]
    known: dict[Any, Any]
    """Field values for the labels of classes."""

    def lacks(self, names: Sequence[Any]) -> Any:
        """The first class that cannot be a label; None where all can."""
        for name in names:
            if name not in self.known:
                text = json_name(name)
                try:
                    label = int(text) if self.label.type in INTEGERS else text
                    self.known[name] = self.make(label=label).label
                except (ValueError, TypeError):
                    return name
        return None


class Other(NamedTuple):
    """Any other shape."""

    description: str
    repeated: bool
    label: Scalar | None = None
    """Type of labels, of repeated ones, or of a map of booleans by them."""


Shape = Scalar | Numbers | NumberMap | NumberMessage | Entries | Other


class Place(NamedTuple):
    """A field at a path from the top."""

    parents: Names
    name: str
    presence: bool
    shape: Shape


def place_at(top: Any, path: Sequence[str]) -> Place | None:
    """Find the field at a path of a type; None without one."""
    (*parents, name), inner = path, top
    for parent in parents:
        field = inner.fields_by_name.get(parent)
        if field is None or field.type not in MESSAGES or repeats(field):
            return None
        inner = field.message_type
    field = inner.fields_by_name.get(name)
    if field is None:
        return None
    return Place(tuple(parents), name, field.has_presence, _shape(field))


def repeats(field: Any) -> bool:
    """Whether a field is repeated, or a map."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == F.LABEL_REPEATED)  # protobuf before 6.31


def _shape(field: Any) -> Shape:
    """Shape of a field's value."""
    inner, repeated = field.message_type, repeats(field)
    if inner is None:
        if not repeated:
            return _scalar(field)
        label = _scalar(field) if field.type in LABELS else None
        if field.type in FLOATS:
            return Numbers()
        return Other(f"repeated {_called(field)}", True, label)
    fields = inner.fields_by_name
    if inner.GetOptions().map_entry:
        key, value = fields["key"], fields["value"]
        if key.type == F.TYPE_STRING and value.type in FLOATS:
            return NumberMap()
        is_labels = key.type == F.TYPE_STRING and value.type == F.TYPE_BOOL
        description = f"a map from {_called(key)} to {_called(value)}"
        return Other(description, False, _scalar(key) if is_labels else None)
    if repeated:
        plain = set(fields.keys()) == {"label", "score"} and all(map(_is_plain, inner.fields))
        if plain and fields["score"].type in FLOATS:
            label = _scalar(fields["label"])
            if label.type in LABELS:
                return Entries(label, message_factory.GetMessageClass(inner), {})
        return Other(f"repeated {inner.full_name}", True)
    if fields and all(_is_plain(part) and part.type in FLOATS for part in inner.fields):
        return NumberMessage(tuple(part.name for part in inner.fields))
    return Other(f"a message {inner.full_name}", False)


def _scalar(field: Any) -> Scalar:
    symbols = [] if field.enum_type is None else field.enum_type.values
    names = {symbol.number: symbol.name for symbol in reversed(symbols)}
    return Scalar(field.type, _called(field), names)


def _is_plain(field: Any) -> bool:
    """Whether a field is a single value and not part of a oneof."""
    union = field.containing_oneof
    return (
        not repeats(field)
        and field.message_type is None
        and (union is None or len(union.fields) == 1)
    )


def _called(field: Any) -> str:
    """Type of a field, for messages."""
    kind = field.message_type or field.enum_type
    if kind is not None:
        return str(kind.full_name)
    name: str = F.Type.Name(field.type)
    return name.removeprefix("TYPE_").lower()


def require_shape(shape: Shape, where: str) -> None:
    """Raise BadMessage where probabilities have none of the shapes."""
    if isinstance(shape, Scalar) and shape.type not in FLOATS:
        shape = Other(shape.called, False)
    if isinstance(shape, Other):
        raise BadMessage(
            f"{where}: {shape.description}, expected repeated double or float, a map from string to"
            " double or float, a message with such a field for each class, or repeated messages of"
            " label and score"
        )
