"""Types of a descriptor set, and those of answers with added fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from google.protobuf import (  # type: ignore[import-untyped]
    message_factory,
)

from stream_can.messages.codecs.added_fields import AddedFields
from stream_can.messages.codecs.codec import ASKED, DECISION, SET
from stream_can.messages.codecs.framing import AnswerFields
from stream_can.messages.codecs.proto_files import (
    files_of,
    find_message,
    message_at,
    pool_of,
)
from stream_can.messages.codecs.proto_shapes import place_at, require_shape


class Types(NamedTuple):
    """Types of a stream's messages and answers."""

    make: Any
    """Class of both: messages without an answer lack the added fields."""
    pool: Any
    file: Any
    """File of the message with the added fields, a FileDescriptorProto."""
    indexes: tuple[int, ...]
    """Index path of the message in its file: at the top, nested in that, and so on."""


def output_types(
    descriptor: bytes,
    message: str,
    answer: AnswerFields,
    first_field: int,
) -> Types:
    """Read a message type from a descriptor set and add the fields of answers.

    Parameters
    ----------
    descriptor
        A FileDescriptorSet with all imported files.
    message
        Full name of the message type.
    answer
        Fields to add.
    first_field
        Number of the raw probabilities; label requests, sets and decisions have
        the next ones, in that order.

    Raises
    ------
    ValueError
        The descriptor set is invalid or incomplete; there is no such message, or nothing at
        ``answer.probs``; or the name or number of an added field is taken.
    """
    files = files_of(descriptor)
    name, indexes = find_message(files, message)
    pool = pool_of(files)
    if any(answer[1:]):
        top = pool.FindMessageTypeByName(message)
        files[name] = file = _copy(files[name])
        added = AddedFields(file, message_at(file, indexes), top, pool.FindAllExtensions(top))
        if answer.raw:
            place, like = place_at(top, answer.probs), _field_at(top, answer.probs)
            if place is None:
                raise ValueError(f"message {message}: no field {'.'.join(answer.probs)!r}")
            require_shape(place.shape, ".".join(answer.probs))
            added.raw(answer.raw, first_field, like, place.shape)
        if answer.asks:
            added.text(ASKED, first_field + 1)
        if answer.sets:
            added.texts(SET, first_field + 2)
        if answer.decides:
            added.text(DECISION, first_field + 3)
        pool = pool_of(files)
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    return Types(make, pool, files[name], indexes)


def _field_at(top: Any, path: Sequence[str]) -> Any:
    """Field at a path; None without one."""
    if place_at(top, path) is None:
        return None
    for name in path[:-1]:
        top = top.fields_by_name[name].message_type
    return top.fields_by_name[path[-1]]


def _copy(message: Any) -> Any:
    copied = type(message)()
    copied.CopyFrom(message)
    return copied
