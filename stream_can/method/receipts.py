"""Receipts: their layout in memory, and the numbers needed for a label.

A receipt holds the rows from which a sent row was mixed: float32, a flat array of R m + 1 numbers.
First R rows of m: anchor, mixture and tempered mixture; the row that follows the class mix, without
`fit`; the tempered mixture where the mix is held to be fresh; the row as it came, without `fit`;
with columns the mixture and tempered mixture that know them; last the calibrated row. Then the top:
the largest number of their mixture before calibration. See ``Corrector.n_sent`` for R.

With prediction sets more follows: the sent row, m numbers; theta, by which its set was made; and
the row's number, as two numbers, below 0 if the set was not counted.

A label needs only what each row gave its class, and the top, negative if the label's class was not
on top: R + 1 numbers, here called *known*; NaN if the receipt is gone; with sets 4 more: what the
sent row gave the class, theta, the row's number. The kernel writes receipts and learns from known
numbers; everything else uses these functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.kernel import given_by_each, given_by_one, given_by_own
from stream_can.method.rows import TOLERANCE

__all__ = [
    "ROWS", "as_array", "blank", "brought", "brought_one", "checked", "gave", "gave_all",
    "gave_row", "joined", "kept", "none_known", "number", "require_probabilities", "require_row",
    "require_size", "size",
]  # fmt: skip

Receipts = NDArray[np.float32]

ROWS = 7
"""Number of rows in a receipt without columns and fit."""
ANY_ROWS = (3, 5, 7, 9)
"""Possible numbers of rows in a receipt."""
NAN = np.array(np.nan, np.float32).tobytes()
OF_SET, TAIL = 4, 3
"""Count of known numbers of a label's set; and of a receipt's numbers after the sent row: theta and
two of the row's number."""
OF_ROW, NOT_FAIR = -2, -2.0
"""Position of the row's number among the known ones, and its value for a label that was requested
because of its row: it teaches no sets."""


# ---- what is refused, of every kind of rows


def as_array(receipts: ArrayLike, *, one: bool) -> NDArray[Any]:
    """Receipts of users as an array with a receipt per row; InvalidPrediction where they are
    none."""
    try:
        array = np.asarray(receipts)
    except ValueError:  # lists of different lengths
        raise InvalidPrediction(f"receipt{'' if one else 's'}: no array of numbers") from None
    return array[None] if one else array


def require_size(array: NDArray[Any], shape: tuple[int, ...], *, one: bool = False) -> None:
    """InvalidPrediction where receipts, the first axis the rows, are no floats of this shape."""
    if array.shape != shape or array.dtype.kind != "f":
        receipts, first, row = ("receipt is", 1, "row") if one else ("receipts are", 0, "rows")
        raise InvalidPrediction(
            f"{receipts} {array.dtype} of shape {array.shape[first:]}, expected float32 of shape"
            f" {shape[first:]}: what the corrector returned with the {row}"
        )


def require_probabilities(
    receipts: NDArray[Any],
    *,
    one: bool = False,
    first: int = 0,
    most: float = 1 + TOLERANCE,
    tail: int = 0,
) -> None:
    """InvalidPrediction for a number of receipts that is no probability, nor NaN.

    Parameters
    ----------
    first
        Number of the first row.
    most
        The largest number that a receipt has.
    tail
        Count of the last numbers of a receipt that are no probabilities, and may be any but
        infinite ones.
    """
    fits = (receipts >= 0) & (receipts <= most) | np.isnan(receipts)
    if tail:
        fits[..., -tail:] = ~np.isinf(receipts[..., -tail:])
    if not fits.all():
        at = np.unravel_index(int(fits.argmin()), fits.shape)
        row = "receipt" if one else f"receipt of row {first + at[0]}"
        raise InvalidPrediction(f"{row}: {receipts[at]}, expected probabilities, or NaN")


def checked(
    receipts: ArrayLike,
    shape: tuple[int, ...],
    *,
    one: bool = False,
    most: float = 1 + TOLERANCE,
) -> Receipts:
    """A copy of receipts of users, shape (n, ...); of ``one`` row they lack the first axis.

    Raises
    ------
    InvalidPrediction
        They have another shape or type, or a number is no probability, nor NaN.
    """
    array = as_array(receipts, one=one)
    require_size(array, shape, one=one)
    with np.errstate(over="ignore"):  # infinite values are refused below
        own = np.array(array, np.float32, order="C")
    require_probabilities(own, one=one, most=most)
    return own


def require_row(receipts: object, row: object, *, one: bool) -> None:
    """InvalidPrediction for receipts without the rows that they belong to."""
    if receipts is not None and row is None:
        said = "receipt: it needs the row that it belongs to"
        raise InvalidPrediction(said if one else "receipts: they need the rows that they belong to")


# ---- receipts of dense rows


def size(m: int, rows: int = ROWS, *, sets: bool = False) -> int:
    """Count of numbers in a receipt for m classes."""
    return rows * m + 1 + (m + TAIL if sets else 0)


def blank(n: int, m: int, rows: int = ROWS) -> Receipts:
    """n unknown receipts."""
    return np.full((n, size(m, rows)), np.nan, np.float32)


def none_known(n: int, rows: int = ROWS, *, sets: bool = False) -> NDArray[np.float32]:
    """Known numbers of n labels without receipts, shape (n, rows + 1), with sets 4 more."""
    return np.full((n, rows + 1 + (OF_SET if sets else 0)), np.nan, np.float32)


def gave_all(
    receipts: Receipts, ys: NDArray[np.int64], rows: int = ROWS, *, sets: bool = False
) -> NDArray[np.float32]:
    """Numbers that each receipt gave its label, shape (n, rows + 1), with sets 4 more."""
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
    found = np.full_like(receipt, np.nan)
    found[-m - TAIL :] = receipt[-m - TAIL :]
    return found


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
    found: bytes = given_by_one(receipt, y, rows)
    return found


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
    one: bool = False,
) -> NDArray[np.float32]:
    """Numbers that users' receipts gave their labels: shape (n, rows + 1), with sets 4 more.

    Parameters
    ----------
    receipts
        One for each label, with ``fewest`` to m classes: a class that appeared since has no column,
        and was given nothing. Receipts with other rows, from before ``fit``, do not describe what
        this corrector sends: they count as missing.
    rows
        Number of rows in this corrector's receipts.
    one
        Whether they are the receipt of one row, without the first axis.

    Raises
    ------
    InvalidPrediction
        They are not receipts of these classes.
    """
    array, n = as_array(receipts, one=one), len(ys)
    if array.dtype.kind == "f" and array.shape == (n, size(m, rows, sets=sets)):
        return _brought(array, ys, m, rows, sets, one)
    known = none_known(n, rows, sets=sets)
    if array.dtype.kind == "f" and array.ndim == 2 and len(array) == n:
        sizes, width = range(fewest, m + 1), array.shape[1]
        for has in (sets, not sets):
            own, rest = divmod(width - size(0, rows, sets=has), rows + has)
            if rest == 0 and own in sizes:
                found = _brought(array, ys, own, rows, has, one)
                columns = min(found.shape[1], known.shape[1])
                known[:, :columns] = found[:, :columns]
                return known
        if any(
            width == size(own, others, sets=has)
            for own in sizes for others in ANY_ROWS for has in (False, True)
        ):  # fmt: skip
            return known
    require_size(array, (n, size(m, rows, sets=sets)), one=one)
    return known


def brought_one(
    receipt: ArrayLike, y: int, m: int, fewest: int = 1, rows: int = ROWS, *, sets: bool = False
) -> NDArray[np.float32]:
    """:func:`brought` for a single label: shape (rows + 1,), with sets 4 more."""
    known: NDArray[np.float32] | None = given_by_own(receipt, y, m, rows, sets, 1 + TOLERANCE)
    if known is None:
        (known,) = brought(receipt, np.array([y]), m, fewest, rows, sets=sets, one=True)
    return known


def _brought(
    receipts: NDArray[Any], ys: NDArray[np.int64], m: int, rows: int, sets: bool, one: bool
) -> NDArray[np.float32]:
    """Numbers that receipts of m classes gave their labels: nothing for later classes."""
    told = ys < m
    if told.all():
        known = gave_all(receipts, ys, rows, sets=sets)
    else:
        known = np.zeros_like(none_known(len(ys), rows, sets=sets))
        known[told] = gave_all(receipts[told], ys[told], rows, sets=sets)
        known[~told, rows] = -receipts[~told, rows * m]
        if sets:
            known[~told, -TAIL:] = receipts[~told, -TAIL:]
    shares = known[:, : rows + 2 if sets else rows + 1].copy()
    shares[:, rows] = abs(shares[:, rows])  # the top is negative where another class was on it
    require_probabilities(shares, one=one)
    return known
