"""Receipts: how they lie in memory, and what they give a label.

A receipt is what a row was mixed from as it was sent: anchor, mixture and tempered mixture, float32
of shape (3, m); with columns (5, m), see ``Corrector.n_sent``. Once the label comes, no more of it
is needed than what each row gave the label's class: three or five numbers, here what is *known*;
NaN where the receipt is gone. The kernel writes receipts and learns from what is known; everybody
else asks here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction

__all__ = [
    "ROWS", "blank", "brought", "gave", "gave_all", "gave_row", "joined", "kept", "none_known",
    "sensible", "size",
]  # fmt: skip

Receipts = NDArray[np.float32]

ROWS = 3
"""Of a receipt without columns."""
NAN = np.array(np.nan, np.float32).tobytes()


def size(m: int, rows: int = ROWS) -> int:
    """The numbers of a receipt for m classes."""
    return rows * m


def blank(n: int, m: int, rows: int = ROWS) -> Receipts:
    """n receipts of which nothing is known any more."""
    return np.full((n, rows, m), np.nan, np.float32)


def none_known(n: int, rows: int = ROWS) -> NDArray[np.float32]:
    """What is known of n labels without receipts, shape (n, rows)."""
    return np.full((n, rows), np.nan, np.float32)


def gave_all(receipts: Receipts, ys: NDArray[np.int64]) -> NDArray[np.float32]:
    """What each receipt gave its label, shape (n, rows)."""
    return receipts[np.arange(len(ys)), :, ys]


def gave_row(receipts: Receipts, i: int, y: int) -> bytes:
    """What the i-th receipt gave class y."""
    return receipts[i, :, y].tobytes()


def kept(receipt: bytes) -> bytes | None:
    """A receipt that was kept as bytes; None where it is blank."""
    return None if receipt.startswith(NAN) else receipt


def gave(receipt: bytes | None, y: int, m: int, rows: int = ROWS) -> bytes:
    """What a receipt that was kept as bytes gave class y."""
    if receipt is None:
        return rows * NAN
    return b"".join([receipt[at : at + 4] for at in range(4 * y, 4 * rows * m, 4 * m)])


def joined(known: Iterable[bytes], dtype: str = "=f4", rows: int = ROWS) -> NDArray[np.float32]:
    """What is known of labels, shape (n, rows), from the bytes of each.

    Raises
    ------
    ValueError
        They are not so many numbers a label.
    """
    return np.frombuffer(b"".join(known), dtype).astype(np.float32, copy=False).reshape(-1, rows)


def sensible(numbers: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which of them can be in a receipt: probabilities, as float32 rounds them, or NaN."""
    return (numbers >= 0) & (numbers <= 1.001) | np.isnan(numbers)


def brought(
    receipts: NDArray[Any], ys: NDArray[np.int64], m: int, fewest: int = 1, rows: int = ROWS
) -> NDArray[np.float32]:
    """What receipts that users hand back gave their labels, shape (n, rows).

    Parameters
    ----------
    receipts
        One for each label, of ``fewest`` to m classes: one that appeared since has no column, and
        was given nothing.
    rows
        What a row is mixed from: 3, or 5 where columns are declared.

    Raises
    ------
    InvalidPrediction
        They are no receipts of these classes.
    """
    n = len(ys)
    if (
        receipts.ndim != 3
        or receipts.shape[:2] != (n, rows)
        or not fewest <= receipts.shape[2] <= m
        or receipts.dtype.kind != "f"
    ):
        raise InvalidPrediction(
            f"receipts are {receipts.dtype} of shape {receipts.shape},"
            f" expected float32 of shape {(n, rows, m)}"
        )
    told = ys < receipts.shape[2]
    known = np.zeros((n, rows), np.float32)
    known[told] = receipts[told, :, ys[told]]
    wrong = ~sensible(known).all(axis=1)
    if wrong.any():
        i = int(wrong.argmax())
        raise InvalidPrediction(
            f"receipt of row {i}: {known[i].tolist()}, expected probabilities, or NaN"
        )
    return known
