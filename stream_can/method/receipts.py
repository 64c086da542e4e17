"""Receipts: how they lie in memory, and what they give a label.

A receipt is what a row was mixed from as it was sent: float32, one flat array of R m + 1 numbers.
First the R rows of m: anchor, mixture and tempered mixture; the row that follows the class mix,
where there is one; with columns the mixture and the tempered one that know them; the calibrated row
last. Behind them the top: the largest number of their mixture, before it was calibrated. See
``Corrector.n_sent`` for R.

With prediction sets there is more behind that: the row as it was sent, m numbers; theta, by which
its set was made; and the row's number, as two numbers, below 0 where the set was not counted.

Once the label comes, no more of it is needed than what each row gave the label's class, and the
top, with a minus sign where the label's class was not on it: R + 1 numbers, here what is *known*;
NaN where the receipt is gone; with sets 4 more: what the row sent gave the class, theta, the row's
number. The kernel writes receipts and learns from what is known; everybody
else asks here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.kernel import given_by_each, given_by_one

__all__ = [
    "ROWS", "blank", "brought", "gave", "gave_all", "gave_row", "joined", "kept", "none_known",
    "number", "sensible", "size",
]  # fmt: skip

Receipts = NDArray[np.float32]

ROWS = 5
"""Rows of a receipt without columns and without fit."""
ANY_ROWS = (3, 4, 5, 6, 7)
"""Numbers of rows that a receipt of some corrector may have."""
NAN = np.array(np.nan, np.float32).tobytes()
OF_SET, TAIL = 4, 3
"""Numbers that are known of a label's set; and of a receipt behind the row as it was sent: theta,
two numbers of the row."""
OF_ROW, NOT_FAIR = -2, -2.0
"""Where in what is known the row's number is, and what in its place says that the label was asked
for because of what is in the row: it teaches no sets."""


def size(m: int, rows: int = ROWS, *, sets: bool = False) -> int:
    """The numbers of a receipt for m classes."""
    return rows * m + 1 + (m + TAIL if sets else 0)


def blank(n: int, m: int, rows: int = ROWS) -> Receipts:
    """n receipts of which nothing is known any more."""
    return np.full((n, size(m, rows)), np.nan, np.float32)


def none_known(n: int, rows: int = ROWS, *, sets: bool = False) -> NDArray[np.float32]:
    """Known numbers of n labels without receipts, shape (n, rows + 1), with sets 4 more."""
    return np.full((n, rows + 1 + (OF_SET if sets else 0)), np.nan, np.float32)


def gave_all(
    receipts: Receipts, ys: NDArray[np.int64], rows: int = ROWS, *, sets: bool = False
) -> NDArray[np.float32]:
    """Numbers that each receipt gave its label, shape (n, rows + 1), with sets 4 more."""
    with np.errstate(over="ignore"):  # infinite, and refused as that
        single = np.ascontiguousarray(receipts, np.float32)
    known: NDArray[np.float32] = given_by_each(single, ys, rows, sets)
    return known


def thetas_of(receipts: Receipts) -> Receipts:
    """By what the set of each receipt with sets was made, (n,)."""
    return np.ascontiguousarray(receipts[:, -TAIL])


def number(receipts: Receipts, n: int) -> None:
    """Let receipts with sets say that so many rows had been counted before theirs, in place."""
    receipts[:, OF_ROW:] = n // 2**24, n % 2**24


def only_set(receipt: Receipts, m: int) -> Receipts:
    """A receipt of m classes of which the set alone is known."""
    found = np.full_like(receipt, np.nan)
    found[-m - TAIL :] = receipt[-m - TAIL :]
    return found


def gave_row(receipts: Receipts, i: int, y: int, rows: int = ROWS) -> bytes:
    """Numbers that the i-th receipt gave class y."""
    return gave(receipts[i].tobytes(), y, rows)


def kept(receipt: bytes) -> bytes | None:
    """A receipt that was kept as bytes; None where it is blank."""
    return None if receipt.startswith(NAN) else receipt


def gave(receipt: bytes | None, y: int, rows: int = ROWS) -> bytes:
    """Numbers that a receipt kept as bytes gave class y."""
    if receipt is None:
        return (rows + 1) * NAN
    found: bytes = given_by_one(receipt, y, rows)
    return found


def joined(known: Iterable[bytes], dtype: str = "=f4", rows: int = ROWS) -> NDArray[np.float32]:
    """Join known numbers of labels, shape (n, rows + 1), from the bytes of each.

    Raises
    ------
    ValueError
        They are not so many numbers a label.
    """
    numbers = np.frombuffer(b"".join(known), dtype).astype(np.float32, copy=False)
    return numbers.reshape(-1, rows + 1)


def sensible(numbers: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which of what is known, shape (n, rows + 1), can be: probabilities, as float32 rounds them,
    or NaN; the top may have a minus sign."""
    size = numbers.copy()
    size[:, -1] = abs(size[:, -1])
    return (size >= 0) & (size <= 1.001) | np.isnan(size)


def brought(
    receipts: NDArray[Any],
    ys: NDArray[np.int64],
    m: int,
    fewest: int = 1,
    rows: int = ROWS,
    *,
    sets: bool = False,
) -> NDArray[np.float32]:
    """Numbers that receipts from users gave their labels: shape (n, rows + 1), with sets 4 more.

    Parameters
    ----------
    receipts
        One for each label, of ``fewest`` to m classes: one that appeared since has no column, and
        was given nothing. Those of a corrector with other rows, before ``fit``, say nothing of what
        this one sends: they count as none.
    rows
        What a row is mixed from here.

    Raises
    ------
    InvalidPrediction
        They are no receipts of these classes.
    """
    n = len(ys)
    if receipts.dtype.kind == "f" and receipts.shape == (n, size(m, rows, sets=sets)):
        return _brought(receipts, ys, m, rows, sets)
    known = none_known(n, rows, sets=sets)
    if receipts.dtype.kind == "f" and len(receipts) == n:
        sizes = range(fewest, m + 1)
        width = receipts.shape[1] if receipts.ndim == 2 else 0
        for has in (sets, not sets):
            own, rest = divmod(width - size(0, rows, sets=has), rows + has)
            if rest == 0 and own in sizes:
                found = _brought(receipts, ys, own, rows, has)
                columns = min(found.shape[1], known.shape[1])
                known[:, :columns] = found[:, :columns]
                return known
        if any(
            width == size(own, others, sets=has)
            for own in sizes for others in ANY_ROWS for has in (False, True)
        ):  # fmt: skip
            return known
    raise InvalidPrediction(
        f"receipts are {receipts.dtype} of shape {receipts.shape},"
        f" expected float32 of shape {(n, size(m, rows, sets=sets))}"
    )


def _brought(
    receipts: NDArray[Any], ys: NDArray[np.int64], m: int, rows: int, sets: bool
) -> NDArray[np.float32]:
    """Numbers that receipts of m classes gave their labels: nothing to classes that came later."""
    told = ys < m
    if told.all():
        known = gave_all(receipts, ys, rows, sets=sets)
    else:
        known = np.zeros_like(none_known(len(ys), rows, sets=sets))
        known[told] = gave_all(receipts[told], ys[told], rows, sets=sets)
        known[~told, rows] = -receipts[~told, rows * m]
        if sets:
            known[~told, -TAIL:] = receipts[~told, -TAIL:]
    wrong = ~sensible(known[:, : rows + 1] if sets else known).all(axis=1)
    if sets:
        given = known[:, rows + 1]
        wrong |= (given < 0) | (given > 1.001)
    if wrong.any():
        i = int(wrong.argmax())
        raise InvalidPrediction(
            f"receipt of row {i}: {known[i].tolist()}, expected probabilities, or NaN"
        )
    return known
