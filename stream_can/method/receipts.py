"""Receipts: their layout in memory, and the numbers needed for a label.

A receipt holds the rows from which a sent row was mixed: float32, a flat array of R m + 1 numbers.
First R rows of m: anchor, mixture and tempered mixture; the row that follows the class mix, without
`fit`; the tempered mixture where the mix is held to be fresh; the row as it came, without `fit`;
with columns the mixture and tempered mixture that know them; the row at a known class mix; last the
calibrated row. Then the top: the largest number of their mixture before calibration. See
``Corrector.n_sent`` for R.

With prediction sets more follows: the sent row, m numbers; theta, by which its set was made; theta
of all rows; the row's group, where that is a class; and the row's number, as two numbers, below 0
if the set was not counted.

A label needs only what each row gave its class, and the top, negative if the label's class was not
on top: R + 1 numbers, here called *known*; NaN if the receipt is gone; with sets 6 more: what the
sent row gave the class, and what follows that row. The kernel writes receipts and learns from known
numbers; everything else uses these functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.method.kernel import given_by_each, given_by_one, given_by_own
from stream_can.method.receipt_checks import as_array, require_probabilities, require_size
from stream_can.method.rows import TOLERANCE

Receipts = NDArray[np.float32]

ROWS = 7
"""Number of rows in a receipt without columns, fit and a known class mix."""
ANY_ROWS = (3, 5, 7, 8, 9)
"""Possible numbers of rows in a receipt."""
NAN = np.array(np.nan, np.float32).tobytes()
OF_SET, TAIL = 6, 5
"""Count of known numbers of a label's set; and of a receipt's numbers after the sent row."""
OF_ROW, NOT_FAIR = -2, -2.0
"""Position of the row's number among the known ones, and its value for a label that was requested
because of its row: it teaches no sets."""


# ---- what is refused, of every kind of rows


# ---- receipts of dense rows


def size(m: int, rows: int = ROWS, *, sets: bool = False) -> int:
    """Count of numbers in a receipt for m classes."""
    return rows * m + 1 + (m + TAIL if sets else 0)


def width_has_sets(width: int, m: int, rows: int = ROWS) -> bool | None:
    """Whether receipts of so many numbers for m classes have sets; None where none are so long.
    Those of so many rows are looked for first: for 5 classes others are as long."""
    for n_rows in (rows, *ANY_ROWS):
        for sets in (False, True):
            if width == size(m, n_rows, sets=sets):
                return sets
    return None


def blank(n: int, m: int, rows: int = ROWS) -> Receipts:
    """n unknown receipts."""
    return np.full((n, size(m, rows)), np.nan, np.float32)


def none_known(n: int, rows: int = ROWS, *, sets: bool = False) -> NDArray[np.float32]:
    """Known numbers of n labels without receipts, shape (n, rows + 1), with sets 6 more."""
    return np.full((n, rows + 1 + (OF_SET if sets else 0)), np.nan, np.float32)


def gave_all(
    receipts: Receipts, ys: NDArray[np.int64], rows: int = ROWS, *, sets: bool = False
) -> NDArray[np.float32]:
    """Numbers that each receipt gave its label, shape (n, rows + 1), with sets 6 more."""
    with np.errstate(over="ignore"):  # infinite values are refused later
        single = np.ascontiguousarray(receipts, np.float32)
    known: NDArray[np.float32] = given_by_each(single, ys, rows, sets)
    return known


def thetas_of(receipts: Receipts) -> Receipts:
    """Theta of each receipt with sets, (n,)."""
    return np.ascontiguousarray(receipts[:, -TAIL])


def number(receipts: Receipts, n: int) -> None:
    """Set the number of counted rows in receipts with sets, in place."""
    receipts[:, OF_ROW:] = n // 2**24, n % 2**24


def only_set(receipt: Receipts, m: int) -> Receipts:
    """A receipt of m classes in which only the set is known."""
    only = np.full_like(receipt, np.nan)
    only[-m - TAIL :] = receipt[-m - TAIL :]
    return only


def gave_row(receipts: Receipts, i: int, y: int, rows: int = ROWS) -> bytes:
    """Numbers that the i-th receipt gave class y."""
    return gave(receipts[i].tobytes(), y, rows)


def kept(receipt: bytes) -> bytes | None:
    """A stored receipt as bytes; None if blank."""
    return None if receipt.startswith(NAN) else receipt


def gave(receipt: bytes | None, y: int, rows: int = ROWS) -> bytes:
    """Numbers that a receipt, stored as bytes, gave class y."""
    if receipt is None:
        return (rows + 1) * NAN
    numbers: bytes = given_by_one(receipt, y, rows)
    return numbers


def joined(known: Iterable[bytes], dtype: str = "=f4", rows: int = ROWS) -> NDArray[np.float32]:
    """Join the known numbers of labels, shape (n, rows + 1), from bytes.

    Raises
    ------
    ValueError
        The number of bytes does not match.
    """
    numbers = np.frombuffer(b"".join(known), dtype).astype(np.float32, copy=False)
    return numbers.reshape(-1, rows + 1)


def brought(
    receipts: ArrayLike,
    ys: NDArray[np.int64],
    m: int,
    fewest: int = 1,
    rows: int = ROWS,
    *,
    sets: bool = False,
    single: bool = False,
) -> NDArray[np.float32]:
    """Numbers that users' receipts gave their labels: shape (n, rows + 1), with sets 6 more.

    Parameters
    ----------
    receipts
        One for each label, with ``fewest`` to m classes: a class that appeared since has no column,
        and was given nothing. Receipts with other rows, from before ``fit``, do not describe what
        this corrector sends: they count as missing.
    rows
        Number of rows in this corrector's receipts.
    single
        Whether they are the receipt of one row, without the first axis.

    Raises
    ------
    InvalidPrediction
        They are not receipts of these classes.
    """
    array, n = as_array(receipts, single=single), len(ys)
    if array.dtype.kind == "f" and array.shape == (n, size(m, rows, sets=sets)):
        return _brought(array, ys, m, rows, sets, single)
    known = none_known(n, rows, sets=sets)
    if array.dtype.kind == "f" and array.ndim == 2 and len(array) == n:
        sizes, width = range(fewest, m + 1), array.shape[1]
        for with_sets in (sets, not sets):
            n_classes, rest = divmod(width - size(0, rows, sets=with_sets), rows + with_sets)
            if rest == 0 and n_classes in sizes:
                part = _brought(array, ys, n_classes, rows, with_sets, single)
                columns = min(part.shape[1], known.shape[1])
                known[:, :columns] = part[:, :columns]
                return known
        if any(width_has_sets(width, n_classes, rows) is not None for n_classes in sizes):
            return known
    require_size(array, (n, size(m, rows, sets=sets)), single=single)
    return known


def brought_one(
    receipt: ArrayLike, y: int, m: int, fewest: int = 1, rows: int = ROWS, *, sets: bool = False
) -> NDArray[np.float32]:
    """:func:`brought` for a single label: shape (rows + 1,), with sets 6 more."""
    known: NDArray[np.float32] | None = given_by_own(receipt, y, m, rows, sets, 1 + TOLERANCE)
    if known is None:
        (known,) = brought(receipt, np.array([y]), m, fewest, rows, sets=sets, single=True)
    return known


def _brought(
    receipts: NDArray[Any], ys: NDArray[np.int64], m: int, rows: int, sets: bool, single: bool
) -> NDArray[np.float32]:
    """Numbers that receipts of m classes gave their labels: nothing for later classes."""
    has_column = ys < m
    if has_column.all():
        known = gave_all(receipts, ys, rows, sets=sets)
    else:
        known = np.zeros_like(none_known(len(ys), rows, sets=sets))
        known[has_column] = gave_all(receipts[has_column], ys[has_column], rows, sets=sets)
        known[~has_column, rows] = -receipts[~has_column, rows * m]
        if sets:
            known[~has_column, -TAIL:] = receipts[~has_column, -TAIL:]
    shares = known[:, : rows + 2 if sets else rows + 1].copy()
    shares[:, rows] = abs(shares[:, rows])  # the top is negative where another class was on it
    require_probabilities(shares, single=single)
    return known
