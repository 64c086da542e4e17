"""Snapshots: plain arrays in a versioned, checksummed envelope.

Layout: magic (8 bytes), version (u16), CRC-32 of the payload (u32), its length (u64), all
little-endian; then the payload, MessagePack:
{"head": settings and names, "arrays": {name: [dtype, shape, bytes]}}.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import zlib
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.errors import SnapshotMismatch
from stream_can.version import __version__

__all__ = ["Decoded", "decode", "encode", "read", "save"]

MAGIC = b"strmcan\x00"
VERSION = 3
"""The version written, and the only one read; raised when the content changes."""
ENVELOPE = struct.Struct("<8sHIQ")
DTYPES = {name: (np.dtype(name), np.dtype("=" + name[1:])) for name in ("<f8", "<f4", "<i8", "<i4")}
"""Types of arrays: in a snapshot, and on this machine."""


class Payload(msgspec.Struct):
    """Content of a snapshot."""

    head: dict[str, Any]
    arrays: dict[str, tuple[str, list[int], memoryview]]
    """Type, shape and bytes of each."""
    pieces: list[memoryview] = []
    """Further snapshots."""


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Payload)
# Errors of corrupt bytes, beside msgspec's own: deep nesting, invalid UTF-8, a map as a key, a
# shape that does not match its bytes.
_UNREADABLE = (msgspec.MsgspecError, RecursionError, TypeError, ValueError, OverflowError)
_T = TypeVar("_T")


class Decoded(NamedTuple):
    """A decoded snapshot."""

    head: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def encode(head: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Encode arrays so that :func:`decode` restores them exactly."""
    little = {k: np.asarray(a, a.dtype.newbyteorder("<"), order="C") for k, a in arrays.items()}
    blocks = {k: (a.dtype.str, list(a.shape), a.data) for k, a in little.items()}
    return sealed(_encoder.encode({"head": head, "arrays": blocks}))  # a Payload


def encode_pieces(head: dict[str, Any], pieces: Iterable[bytes], count: int) -> bytes:
    """:func:`encode` of a head and so many snapshots that come one by one and are copied nowhere
    else, for :func:`pieces_of`."""
    empty = _encoder.encode({"head": head, "arrays": {}, "pieces": []})
    counted = empty[:-1] + b"\xdd" + count.to_bytes(4, "big")  # for [] an array of 32 bits
    lengths_and_pieces = ((b"\xc6" + len(piece).to_bytes(4, "big"), piece) for piece in pieces)
    file, checksum = io.BytesIO(bytes(ENVELOPE.size)), 0
    file.seek(ENVELOPE.size)
    for part in chain([counted], chain.from_iterable(lengths_and_pieces)):
        file.write(part)
        checksum = zlib.crc32(part, checksum)
    length = file.tell() - ENVELOPE.size
    file.seek(0)
    file.write(ENVELOPE.pack(MAGIC, VERSION, checksum, length))
    return file.getvalue()


def pieces_of(data: bytes) -> list[memoryview]:
    """The pieces of a snapshot that :func:`decode` has read."""
    return _decoder.decode(memoryview(data)[ENVELOPE.size :]).pieces


def envelope(payload: bytes) -> bytes:
    """What stands before a payload."""
    return ENVELOPE.pack(MAGIC, VERSION, zlib.crc32(payload), len(payload))


def sealed(payload: bytes) -> bytes:
    """A payload behind its envelope."""
    return envelope(payload) + payload


def places(payload: bytes) -> NDArray[np.int64]:
    """Where the numbers of each array begin and end in a payload, shape (arrays, 2)."""
    views = _decoder.decode(payload).arrays.values()
    begin = np.frombuffer(payload, np.uint8).ctypes.data
    starts = [np.frombuffer(view, np.uint8).ctypes.data - begin for _, _, view in views]
    ends = [start + view.nbytes for start, (_, _, view) in zip(starts, views, strict=True)]
    return np.array([starts, ends], np.int64).T.copy()


def decode(data: bytes) -> Decoded:
    """Decode a snapshot; SnapshotMismatch describes invalid bytes."""
    data = bytes(data)
    if len(data) < ENVELOPE.size:
        raise SnapshotMismatch(f"snapshot: {len(data)} bytes, too short to be one")
    magic, version, checksum, length = ENVELOPE.unpack_from(data)
    if magic != MAGIC:
        raise SnapshotMismatch("snapshot: these bytes are no stream_can snapshot")
    if version != VERSION:
        raise _other_format(f"format {version}", VERSION)
    payload = memoryview(data)[ENVELOPE.size :]
    if len(payload) != length:
        raise SnapshotMismatch(
            f"snapshot: {len(payload)} bytes of {length}; it was cut short or has bytes behind it"
        )
    if zlib.crc32(payload) != checksum:
        raise SnapshotMismatch("snapshot: checksum differs; the bytes are corrupt")
    try:
        content = _decoder.decode(payload)
        arrays = {}
        for name, (dtype, shape, raw) in content.arrays.items():
            if dtype not in DTYPES:
                raise ValueError(f"array {name} has type {dtype}")
            little, native = DTYPES[dtype]
            arrays[name] = np.frombuffer(raw, little).reshape(shape).astype(native)
    except _UNREADABLE as error:
        raise SnapshotMismatch(f"snapshot: unreadable payload: {error}") from None
    return Decoded(content.head, arrays)


def _other_format(written: str, read: int) -> SnapshotMismatch:
    return SnapshotMismatch(
        f"snapshot: {written}, and stream_can {__version__} reads format {read} alone; use the"
        " version that wrote it, or start over"
    )


def of_kind(
    data: bytes, name: str, subject: str, kind: type[_T]
) -> tuple[_T, dict[str, NDArray[Any]]]:
    """Decode a snapshot whose head has a certain field; SnapshotMismatch where it has not."""
    content, arrays = decode(data)
    if name not in content:
        raise SnapshotMismatch(f"snapshot: holds no {subject}")
    return typed(content, kind, name), arrays


def typed(head: dict[str, Any], kind: type[_T], name: str | None = None) -> _T:
    """Convert the head to a struct; SnapshotMismatch names a missing or wrong field, or another
    format, which is the number in the field ``name``."""
    try:
        return msgspec.convert(head, kind)
    except msgspec.ValidationError as error:
        written = head.get(name) if name else None
        for read in get_args(get_type_hints(kind).get(name or "")) if type(written) is int else ():
            if written != read:
                raise _other_format(f"{name} in format {written}", read) from None
        raise SnapshotMismatch(f"snapshot: unreadable: {error}") from None


def read(path: str | os.PathLike[str]) -> bytes:
    """Read a file.

    Raises
    ------
    OSError
        It cannot be read; or it is a pipe or device, which may never end or begin.
    """
    # open() would wait for a writer of a pipe.
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(number, "rb") as file:
        _mode_of_file(path, os.fstat(number))
        return file.read()


def same_file(path: Path, other: Path) -> bool:
    """Whether two paths are one file, which need not exist yet."""
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them does not exist yet
        return path.resolve() == other.resolve()


def require_replaceable(path: str | Path) -> int | None:
    """Mode of the file that :func:`save` would replace, None if missing; OSError where it is not a
    regular file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return _mode_of_file(path, status)


def _mode_of_file(path: str | os.PathLike[str], status: os.stat_result) -> int:
    if not stat.S_ISREG(status.st_mode):
        file_type = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise OSError(errno.EINVAL, f"{file_type}, and no file; name another", str(path))
    return stat.S_IMODE(status.st_mode)


def save(data: bytes, path: str | Path) -> None:
    """Replace a file atomically: after a kill or on a full disk the previous one remains.

    The mode is kept. Only regular files are replaced, and a link at the temporary path,
    ``<name>.new``, is not followed.
    """
    path = Path(os.path.realpath(path))
    new = path.with_name(path.name + ".new")
    mode = require_replaceable(path)
    try:
        new.unlink(missing_ok=True)  # left by a run that was killed
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        if hasattr(os, "O_DIRECTORY"):  # the new name is durable only after syncing its directory
            directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise OSError(f"{path}: {error.strerror}; the previous one is intact") from error


def match(subject: str, actual: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    """Raise SnapshotMismatch naming the first difference."""
    if actual == expected:
        return
    if len(actual) != len(expected):
        raise SnapshotMismatch(f"snapshot: {len(actual)} {subject}, expected {len(expected)}")
    i = next(i for i, (a, b) in enumerate(zip(actual, expected, strict=True)) if a != b)
    place = f"{subject} differ at {i}" if len(actual) > 1 else subject
    raise SnapshotMismatch(f"snapshot: {place}: it has {actual[i]!r}, expected {expected[i]!r}")
