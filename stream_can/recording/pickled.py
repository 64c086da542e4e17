"""Read arrays of Python objects saved by numpy, without running code from a pickle.

numpy pickles such arrays. Only the opcodes that build plain values are interpreted, and the few
functions of numpy that they name are replaced by safe ones; anything else is refused.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

PUTS = "PUT", "BINPUT", "LONG_BINPUT"
"""Opcodes that put a value in a place, up to which an unpickler takes memory."""


class _Array:
    """Stand-in for an array; its state has the shape and the values."""

    values: list[Any]

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        _, self.shape, _, self.by_columns, self.values = state


class _Type:
    """Stand-in for the type of a numpy scalar."""

    def __init__(self, code: str, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        self.code = self.code.lstrip("<>|=")


def _scalar(kind: _Type, data: Any = b"") -> Any:
    """A numpy scalar from its little-endian bytes."""
    letter = kind.code[:1]
    if letter == "U":
        return data.decode("utf-32-le").rstrip("\0")
    if letter in "iu":
        return int.from_bytes(data, "little", signed=letter == "i")
    if letter == "f":
        return struct.unpack({2: "<e", 4: "<f", 8: "<d"}[len(data)], data)[0]
    if letter == "b":
        return bool(data[0])
    raise pickle.UnpicklingError(f"a scalar of type {kind.code}")


class _Plain(pickle.Unpickler):
    """An unpickler that only knows these."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the safe replacement of numpy's function."""
        known = {"_reconstruct": _Array, "ndarray": _Array, "dtype": _Type, "scalar": _scalar}
        if module.partition(".")[0] == "numpy" and name in known:
            return known[name]
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def read_objects(file: IO[bytes], name: str) -> NDArray[Any]:
    """Read an array of plain values, shape (n,); ValueError where it holds others."""
    try:
        data = file.read()
        for code, place, _ in pickletools.genops(data):
            if code.name in PUTS and isinstance(place, int) and place > len(data):
                raise pickle.UnpicklingError("it names a place far beyond its end")
        array = _Plain(io.BytesIO(data)).load()
        values = array.values if isinstance(array, _Array) else None
        if not isinstance(values, list):
            raise pickle.UnpicklingError("no array")
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(f"array {name} holds Python objects other than names: {error}") from None
    for value in values:
        if not isinstance(value, str | int | float | None):
            raise ValueError(f"array {name} holds a {type(value).__name__}, expected names")
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects
