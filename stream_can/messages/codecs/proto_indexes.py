"""Message indexes: the prefix of a Protobuf message that names its type in the file."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from stream_can.messages.codecs.framing import long_bytes, read_long
from stream_can.messages.probability_formats import BadMessage

if TYPE_CHECKING:
    Row = array[float]

DEEPEST = 100
"""Maximum nesting of messages, as in the protobuf library."""


def indexes_bytes(indexes: tuple[int, ...]) -> bytes:
    """Encode message indexes as a prefix."""
    return b"\0" if indexes == (0,) else b"".join(map(long_bytes, (len(indexes), *indexes)))


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Decode message indexes; return them and the following position."""
    count, at = read_long(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= DEEPEST:
        raise BadMessage(f"{count} message indexes, expected 1 to {DEEPEST}")
    indexes = []
    for _ in range(count):
        index, at = read_long(data, at)
        indexes.append(index)
    return tuple(indexes), at
