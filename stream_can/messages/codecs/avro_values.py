"""Values in the bytes of an Avro record: read, and put in place of others."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_can.messages.codecs.avro_types import (
    NUMBER,
    WIDTHS,
    AvroEntries,
    AvroLabels,
    AvroNumberMap,
    AvroNumbers,
    AvroScalar,
    NumberRecord,
    Type,
)
from stream_can.messages.codecs.framing import long_bytes, read_long
from stream_can.messages.codecs.walk import place_map, place_numbers, read_map
from stream_can.messages.probability_formats import BadMessage, Form, LabelScore, Largest, Named

if TYPE_CHECKING:
    Row = array[float]

Item = TypeVar("Item")


class AvroSpan(NamedTuple):
    """A value found in a message."""

    data: bytes
    start: int
    end: int
    type: Type


def text_bytes(text: str) -> bytes:
    data = text.encode()
    return long_bytes(len(data)) + data


def block_bytes(items: Sequence[bytes]) -> bytes:
    """Encode an array or map."""
    return (long_bytes(len(items)) + b"".join(items) if items else b"") + b"\x00"


def read_entries(span: AvroSpan) -> list[LabelScore]:
    """Labels and scores of a walked array of records."""
    data, start, _, type_ = span
    assert isinstance(type_, AvroEntries)
    score = NUMBER[type_.width]

    def read(at: int) -> tuple[LabelScore, int]:
        name, behind = _name(type_.label, data, at if type_.label_first else at + score.size)
        (number,) = score.unpack_from(data, behind if type_.label_first else at)
        return LabelScore(name, number), behind + score.size * type_.label_first

    return _items(data, start, read)


def read_labels(span: AvroSpan) -> Any:
    """Names in a walked array, or booleans by name of a walked map."""
    data, start, _, type_ = span
    assert isinstance(type_, AvroLabels)

    def read(at: int) -> tuple[tuple[Any, bool], int]:
        name, behind = _name(type_.label, data, at)
        return (name, data[behind] == 1), behind + 1

    if type_.is_map:
        return dict(_items(data, start, read))
    return _items(data, start, lambda at: _name(type_.label, data, at))


def _items(data: bytes, at: int, read: Callable[[int], tuple[Item, int]]) -> list[Item]:
    """Items of a walked array or map; ``read`` returns the one at a position, and where it ends."""
    items: list[Item] = []
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return items
        if count < 0:
            (_, at), count = read_long(data, at), -count
        for _ in range(count):
            item, at = read(at)
            items.append(item)


def _name(label: AvroScalar, data: bytes, at: int) -> tuple[Any, int]:
    """A label, and where it ends."""
    number, behind = read_long(data, at)
    if label.kind == "string":
        behind += number
    return label.value(data, at, behind), behind


def place_probs(span: AvroSpan, form: Form | None, row: NDArray[np.float64]) -> bytes:
    """Encode probabilities in their original form and type."""
    data, start, end, type_ = span
    if isinstance(type_, AvroNumbers):
        return place_numbers(data, start, end, type_.width, row)
    assert form is not None
    numbers = row.tolist()
    if isinstance(type_, AvroNumberMap):
        if isinstance(form, Named):
            in_order = [numbers[i] for i in form.columns.values()]
            placed = place_map(data, start, end, type_.width, in_order)
            if placed is not None:
                return placed
        put, answer = NUMBER[type_.width].pack, form.of(numbers)
        return block_bytes([text_bytes(name) + put(number) for name, number in answer.items()])
    if isinstance(type_, NumberRecord):
        assert isinstance(form, Named)
        return type_.layout.pack(*[numbers[form.columns[name]] for name in type_.names])
    if isinstance(type_, AvroEntries):
        put, label = NUMBER[type_.width].pack, type_.label
        entries = []
        for entry in form.of(numbers):
            name, number = entry["label"], put(entry["score"])
            match label.kind:
                case "string":
                    text = text_bytes(str(name))
                case "enum":
                    text = long_bytes(label.symbols.index(name))
                case _:
                    text = long_bytes(int(name))
            entries.append(text + number if type_.label_first else number + text)
        return block_bytes(entries)
    assert isinstance(type_, AvroScalar)
    return NUMBER[WIDTHS[type_.kind]].pack(form.of(numbers))


def decode_probs(span: AvroSpan) -> Any:
    """Decode probabilities that are no array, for the forms."""
    data, start, end, type_ = span
    match type_:
        case AvroNumberMap():
            try:
                return read_map(data, start, end, type_.width)
            except UnicodeDecodeError as error:
                raise BadMessage(f"a name in the map: {error}") from None
        case NumberRecord():
            return dict(zip(type_.names, type_.layout.unpack_from(data, start), strict=True))
        case AvroEntries():
            return list(read_entries(span))
        case AvroScalar() if type_.kind in WIDTHS:
            return type_.value(data, start, end)
    description = type_.kind if isinstance(type_, AvroScalar) else getattr(type_, "description", "")
    raise BadMessage(
        f"{description}, expected an array or map of float or double, an array of records of"
        " label and score, or a record of float or double fields"
    )


def require_symbols(label: AvroScalar, form: Form | None) -> None:
    """Check that an enum of labels has a symbol for every class that an answer may name."""
    assert isinstance(form, Largest)
    missing = next((name for name in form.names if name not in label.symbols), None)
    if missing is not None:
        raise BadMessage(f"the labels are an enum that has no symbol for class {missing!r}")
