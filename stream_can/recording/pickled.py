"""Arrays of Python objects, as numpy saves them, read without running what a pickle may hold.

numpy pickles such an array. Of a pickle only the opcodes that build plain values are followed, and
the few functions that numpy's own ones name are replaced by our own: anything else is refused.
"""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_objects"]


class _Array:
    """A stand-in for an array: its state names its shape and its values."""

    values: list[Any]

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        _, self.shape, _, self.by_columns, self.values = state


class _Type:
    """A stand-in for a type of numpy's scalars."""

    def __init__(self, code: str, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        self.code = self.code.lstrip("<>|=")


def _scalar(kind: _Type, data: Any = b"") -> Any:
    """One of numpy's scalars, from its bytes in little-endian order."""
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
    """Knows nothing but the above."""

    def find_class(self, module: str, name: str) -> Any:
        """Our own in place of numpy's."""
        known = {"_reconstruct": _Array, "ndarray": _Array, "dtype": _Type, "scalar": _scalar}
        if module.partition(".")[0] == "numpy" and name in known:
            return known[name]
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def read_objects(file: IO[bytes], name: str) -> NDArray[Any]:
    """The array of plain values that follows in a file, shape (n,); ValueError where it is none."""
    try:
        array = _Plain(file).load()
        values = array.values if isinstance(array, _Array) else None
        if not isinstance(values, list):
            raise pickle.UnpicklingError("no array")
    except Exception as error:  # whatever a damaged pickle leads to
        raise ValueError(f"array {name} holds Python objects other than names: {error}") from None
    for value in values:
        if not isinstance(value, str | int | float | None):
            raise ValueError(f"array {name} holds a {type(value).__name__}, expected names")
    found = np.empty(len(values), object)
    found[:] = values
    return found
