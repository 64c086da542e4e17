"""Content: the classes and settings that change together with the arrays of a corrector."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import UnknownClass
from stream_can.method import validation
from stream_can.method.class_names import ClassName
from stream_can.method.classes import ClassIndex
from stream_can.method.prior import laplace
from stream_can.method.rows import names_of, unordered

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]


class Content(NamedTuple):
    """Settings that ``fit`` or a new class replaces together with the arrays, in one step."""

    classes: tuple[Any, ...]
    train_counts: Array | None
    paths: tuple[str, ...]
    fit_report: validation.FitReport | None
    columns: tuple[str, ...] = ()
    sets: float | None = None
    monotone: bool = False
    known_mix: Array | None = None
    sets_by: str | None = None

    @property
    def ratio(self) -> Array | None:
        """The known class mix of the stream divided by that of the training set, shape (m,)."""
        return None if self.known_mix is None else self.known_mix / self.train_prior

    @property
    def train_prior(self) -> Array:
        """Class prior of the training set, shape (m,)."""
        counts = self.train_counts
        return laplace(np.zeros(len(self.classes)) if counts is None else counts)


class SegmentsHead(msgspec.Struct):
    """Columns in a snapshot: names, memory bound in bytes, values in order."""

    columns: list[str]
    limit: int
    values: list[tuple[int, str]]


class CorrectorHead(msgspec.Struct):
    """Head of a snapshot: everything but its arrays."""

    classes: list[ClassName]
    train_counts: list[float] | None
    paths: list[str]
    settings: dict[str, float | int | str | None]
    fit: validation.FitReport | None
    segments: SegmentsHead | None = None
    sets: float | None = None
    monotone: bool = False
    known_mix: list[float] | None = None
    sets_by: str | None = None


def in_class_order(
    name: str, of_class: str, numbers: ArrayLike | Mapping[Any, float], index: ClassIndex
) -> Any:
    """Put the numbers of classes that have names in class order, 0 where one is missing; others
    stay as they are.

    Parameters
    ----------
    name, of_class
        The setting, and what it says of each class.

    Raises
    ------
    ValueError
        They have no order, or name another class.
    """
    if unordered(numbers):
        raise ValueError(f"{name}: a set has no order; give {{class: {of_class}}}")
    if (names := names_of(numbers)) is not None:
        numbers = dict(zip(names, np.asarray(numbers).tolist(), strict=True))
    if not isinstance(numbers, Mapping):
        return numbers
    try:
        [index[key] for key in numbers]
    except UnknownClass as error:
        raise ValueError(f"{name}: {error}") from None
    return [numbers.get(key, 0) for key in index]


def counts_in_order(counts: ArrayLike | Mapping[Any, float], index: ClassIndex) -> Array:
    """Check training counts and put them in class order."""
    ordered = in_class_order("train_counts", "count", counts, index)
    try:
        laplace(ordered)
    except ValueError as error:
        raise ValueError(f"train_counts: {error}") from None
    array = np.array(ordered, np.float64)
    if len(array) != len(index):
        raise ValueError(f"train_counts: {len(array)} counts for {len(index)} classes")
    return array


def bytes_of(mb: float) -> int:
    """Convert MiB to bytes."""
    return max(1, int(mb * (1 << 20)))
