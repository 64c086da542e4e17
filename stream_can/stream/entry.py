"""An entry of the learned log: what one transaction has to teach everybody.

Processes that learn together fold the same entries in the same order, so that each has the same
corrector. All that the fold uses stands in the log: rows, labels, what was sent, even the corrector
to start from and the settings; nothing comes from a process' own files.

An entry is MessagePack, with the numbers of arrays as little-endian bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.method.kernel import checked

__all__ = ["BadEntry", "Entry", "OpenPart", "Part", "entries", "fold", "read", "settings", "start"]

VERSION = 1
LIMIT = 256 << 10
"""Bytes of labels at which an entry is full: at most twice as many are in it."""
LABEL_BYTES = 40
"""Of a label, besides its row."""

Array = NDArray[np.float64]
Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class BadEntry(StreamCANError, ValueError):
    """A record of the learned log is no entry that this release can fold."""


class Part(msgspec.Struct, array_like=True, frozen=True):
    """What one partition adds: its labels in the order they were taken."""

    partition: Position
    inputs: tuple[Position, Position]
    """The input offset it goes on from and the next; equal while more of its labels follow."""
    labels: tuple[Position, Position]
    """The same of the labels topic."""
    offsets: bytes = b""
    """Of each label, int64."""
    taken: bytes = b""
    """The next input offset as each label was taken, int64: which predictions came before it."""
    classes: bytes = b""
    """Column of each label, int32; ~column where its prediction is gone."""
    known: bytes = b""
    """What the three rows of its receipt gave each label, float32; NaN where not known any more."""
    rows: bytes = b""
    """The predictions of the labels that have one, float32."""


class Entry(msgspec.Struct, omit_defaults=True, frozen=True):
    """One record of the log."""

    version: Annotated[int, Meta(ge=1)]
    learned: Position = 0
    """The log offset up to which its writer had folded."""
    parts: list[Part] = []
    sums: bytes | None = None
    """Of all rows of the parts that end here, float32; see ``stream_can.method.sums``."""
    start: bytes | None = None
    """The corrector to start from; the first in a log counts."""
    reset: bool = False
    """Whether ``start`` replaces what was learned."""
    settings: dict[str, float | int | str | None] | None = None
    """Settings of the corrector from here on."""


class Version(msgspec.Struct):
    """As much of an entry as any release can read."""

    version: Annotated[int, Meta(ge=1)]


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Entry).decode
_read_version = msgspec.msgpack.Decoder(Version).decode


class OpenPart:
    """What a partition adds to the next entry.

    Parameters
    ----------
    corrector
        Makes the sums.
    inputs, labels
        The next offsets of input and labels, where it begins.
    """

    def __init__(self, corrector: Corrector, inputs: int, labels: int) -> None:
        self.begin = inputs, labels
        self.sums = corrector.new_sums()
        self.offsets: list[int] = []
        self.taken: list[int] = []
        self.classes: list[int] = []
        self.known: list[bytes] = []
        self.rows: list[bytes | None] = []

    def add(self, offset: int, taken: int, y: int, known: bytes, row: bytes | None) -> None:
        """A label: where it lies, which prediction comes next as it does, its class, the three
        float32 that its receipt gave it, and its row."""
        self.offsets.append(offset)
        self.taken.append(taken)
        self.classes.append(y)
        self.known.append(known)
        self.rows.append(row)

    def pieces(self, partition: int, end: tuple[int, int], most: int) -> list[Part]:
        """The parts of entries that it makes, each with so many labels at most."""
        (first, label), (next_, next_label) = self.begin, end
        found = []
        for start in range(0, max(1, len(self.rows)), most):
            cut = slice(start, start + most)
            last = start + most >= len(self.rows)
            rows = self.rows[cut]
            found.append(
                Part(
                    partition,
                    (first, next_ if last else first),
                    (label, next_label if last else label),
                    np.array(self.offsets[cut], "<i8").tobytes(),
                    np.array(self.taken[cut], "<i8").tobytes(),
                    np.array(
                        [
                            ~y if row is None else y
                            for y, row in zip(self.classes[cut], rows, strict=True)
                        ],
                        "<i4",
                    ).tobytes(),
                    b"".join(self.known[cut]),
                    np.frombuffer(b"".join(filter(None, rows))).astype("<f4").tobytes(),
                )
            )
        return found


def entries(
    corrector: Corrector,
    learned: int,
    opened: Sequence[tuple[int, OpenPart, tuple[int, int]]],
    limit: int = LIMIT,
) -> list[bytes]:
    """The entries of a transaction.

    Parameters
    ----------
    corrector, learned
        What the rows were corrected with, and up to where it has folded.
    opened
        Partition, what it adds, and its next offsets of input and labels; by partition.
    limit
        Bytes of an entry's labels, about: it is full once it has as many.
    """
    m, size = len(corrector.classes), limit
    most = max(1, limit // (4 * m + LABEL_BYTES))
    found: list[tuple[list[Part], Array]] = []
    for partition, part, end in opened:
        for piece in part.pieces(partition, end, most):
            if size >= limit:
                found.append(([], corrector.new_sums()))
                size = 0
            found[-1][0].append(piece)
            size += len(piece.rows) + LABEL_BYTES * (1 + len(piece.classes) // 4)
        corrector.merge_sums(found[-1][1], part.sums)
    return [
        _encode(
            Entry(VERSION, learned, parts, sums.astype("<f4").tobytes() if sums[1, -1] else None)
        )
        for parts, sums in found
    ]


def start(corrector: bytes, *, reset: bool = False) -> bytes:
    """The entry that a log starts with: a corrector's snapshot."""
    return _encode(Entry(VERSION, start=corrector, reset=reset))


def settings(changed: dict[str, Any]) -> bytes:
    """The entry that changes settings of the corrector."""
    return _encode(Entry(VERSION, settings=changed))


def read(data: bytes | None) -> Entry:
    """An entry from its bytes.

    Raises
    ------
    BadEntry
        They are none, or of a newer release.
    """
    if data is None:
        raise BadEntry("an empty record")
    try:
        version = _read_version(data).version
        if version > VERSION:
            raise BadEntry(
                f"format {version}, this release reads up to {VERSION}; upgrade stream_can"
            )
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadEntry(f"no entry: {error}") from None


def fold(corrector: Corrector | None, entry: Entry) -> Corrector | None:
    """The corrector once it has learned an entry: the same object, changed, where there was one.

    Parameters
    ----------
    corrector
        None before the log's start: until then nothing is learned.

    Raises
    ------
    BadEntry
        What the entry holds does not fit the corrector. Nothing of it was learned.
    """
    try:
        if entry.start is not None and (corrector is None or entry.reset):
            return Corrector.from_bytes(entry.start)
        if corrector is None:
            return None
        if entry.settings is not None:
            return Corrector.from_bytes(corrector.to_bytes(), None, **entry.settings)
        sums = _sums(entry.sums, corrector.new_sums().shape)
        labels = _labels(entry.parts, len(corrector.classes))
    except (StreamCANError, ValueError, TypeError) as error:
        raise BadEntry(f"an entry that does not fit: {error}") from None
    if sums is not None:
        corrector.add_sums(sums)
    if len(labels.ys):
        due = np.zeros(len(labels.ys), np.int64)
        corrector.play(
            labels.P, labels.ys, labels.rows, due, first=len(labels.P), known=labels.known
        )
    return corrector


class Labels(NamedTuple):
    """Labels as :meth:`Corrector.play` takes them."""

    ys: NDArray[np.int64]
    rows: NDArray[np.int64]
    P: Array
    known: NDArray[np.float32]


def _floats(data: bytes) -> Array:
    """Numbers, not yet checked: changed bytes may be a signalling NaN, of which a cast warns."""
    with np.errstate(invalid="ignore"):
        return np.frombuffer(data, "<f4").astype(np.float64)


def _sums(data: bytes | None, shape: tuple[int, ...]) -> Array | None:
    if data is None:
        return None
    sums = _floats(data).reshape(shape)
    if not ((sums >= 0) & (sums < 2**40)).all():
        raise ValueError("sums out of range")
    return sums


def _labels(parts: Sequence[Part], m: int) -> Labels:
    classes = np.frombuffer(b"".join(part.classes for part in parts), "<i4").astype(np.int64)
    P = _floats(b"".join(part.rows for part in parts))
    known = np.frombuffer(b"".join(part.known for part in parts), "<f4").astype(np.float32)
    with_row = classes >= 0
    ys, rows = np.where(with_row, classes, ~classes), np.where(with_row, with_row.cumsum() - 1, -1)
    if not (ys < m).all():
        raise ValueError(f"a label of class {ys.max()}")
    P, known = checked(P.reshape(with_row.sum(), m)), known.reshape(len(ys), 3)
    if not ((known >= 0) & (known <= 1.001) | np.isnan(known)).all():
        raise ValueError("what receipts gave a label is no probability")
    return Labels(ys, rows, P, known)
