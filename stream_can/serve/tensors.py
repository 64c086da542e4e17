"""Tensors of the open inference protocol, read as a matrix or as texts; limits are checked."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.messages.counting import elements
from stream_can.messages.naming import LONGEST
from stream_can.method.state import rows_at_once
from stream_can.serve.service import MOST_MESSAGES

Size = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Word = Annotated[str, Meta(max_length=LONGEST)]
"""A name: errors repeat it."""
NUMBERS = {"FP64": np.float64, "FP32": np.float32}
NESTED = re.compile(rb"\[\s*\[")
"""Data in rows."""
_read_row = msgspec.json.Decoder(list[float]).decode
_read_rows = msgspec.json.Decoder(list[list[float]]).decode
_read_texts = msgspec.json.Decoder(list[str | list[str]]).decode


class BadRequest(StreamCANError):
    """A request violates the protocol, or asks for something not served here."""


class Tensor(msgspec.Struct):
    """An input tensor."""

    name: Word
    shape: Annotated[list[Size], Meta(max_length=8)]
    datatype: Word
    data: msgspec.Raw
    """An array; counted before it is read."""
    parameters: dict[str, Any] = {}


class OutputTensor(msgspec.Struct):
    """An output tensor."""

    name: str
    shape: list[int]
    datatype: Literal["FP64", "FP32", "BYTES"]
    data: list[Any]


def matrix_of(probs: Tensor) -> NDArray[np.float64]:
    """The probabilities of an input tensor, shape (rows, classes); BadRequest where it has none."""
    name = f"inputs.{probs.name}"
    kind = NUMBERS.get(probs.datatype)
    if kind is None:
        raise BadRequest(f"{name}.datatype: {probs.datatype!r}, expected FP64 or FP32")
    shape = probs.shape if len(probs.shape) != 1 else [1, *probs.shape]
    if len(shape) != 2 or not all(shape):
        raise BadRequest(f"{name}.shape: {probs.shape}, expected [rows, classes]")
    rows, columns = shape
    if rows > (most := min(MOST_MESSAGES, rows_at_once(columns))):
        raise BadRequest(f"{name}.shape: {probs.shape}, expected {most:,} rows at most")
    if "binary_data_size" in probs.parameters:
        raise BadRequest(f"{name}: binary data is not supported, send JSON")
    _require(probs, rows * columns)
    nested = NESTED.match(probs.data) is not None
    n = bytes(probs.data).count(b",") + 1  # at any depth, before any is read
    if n != rows * columns:
        raise BadRequest(f"{name}.data: {n} numbers, and shape is {probs.shape}")
    try:
        data = np.array((_read_rows if nested else _read_row)(probs.data), dtype=np.float64)
    except ValueError:  # msgspec's errors too
        raise BadRequest(f"{name}.data: expected numbers") from None
    if data.size != rows * columns:
        raise BadRequest(f"{name}.data: {data.size} numbers, and shape is {probs.shape}")
    if kind is np.float32:  # float32 rounding makes the sums deviate: see `normalise`
        with np.errstate(over="ignore"):  # infinite values are refused below
            data = data.astype(np.float32).astype(np.float64)
    if not np.isfinite(data).all():
        raise BadRequest(f"{name}.data: a number is not finite in {probs.datatype}")
    return data.reshape(shape)


def _require(tensor: Tensor, most: int) -> None:
    """Raise BadRequest if data is no array, or one of more elements."""
    if bytes(memoryview(tensor.data)[:1]) != b"[":
        raise BadRequest(f"inputs.{tensor.name}.data: expected an array")
    if elements(tensor.data, most) > most:
        raise BadRequest(
            f"inputs.{tensor.name}.data: over {most} elements, and shape is {tensor.shape}"
        )


def texts_of(tensor: Tensor, n: int) -> list[Any]:
    """Ids of the rows, or their values of a column."""
    name = f"inputs.{tensor.name}"
    if tensor.datatype != "BYTES" or tensor.shape not in ([n], [n, 1]):
        raise BadRequest(f"{name}: {tensor.datatype} of shape {tensor.shape}, expected BYTES [{n}]")
    _require(tensor, n)
    try:
        texts = _read_texts(tensor.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        texts = []
    data = [x[0] if isinstance(x, list) and len(x) == 1 else x for x in texts]
    if len(data) != n or not all(isinstance(text, str) for text in data):
        raise BadRequest(f"{name}.data: expected {n} texts")
    return data
