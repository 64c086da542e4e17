"""SparseCorrector: checks its input, owns the state, calls the compiled loop."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self, overload

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import InvalidPrediction, SnapshotMismatch, UnknownClass
from stream_can.method import receipts as receipt_rows
from stream_can.method.rows import TOLERANCE
from stream_can.method.settings import in_range
from stream_can.row_kinds import read_snapshot
from stream_can.sparse.loop import MOST_LISTED, NUMBERS, Fault, Model, Names, check, given_by

__all__ = ["SparseCorrector", "SparseRow", "SparseRows", "shortened"]

CLASS_BYTES = 256
"""Maximum memory of a class: a cell of 64 bytes and a block of 192."""
MOST_CLASSES = 2**31 - 1
MOST_HALF_LIFE = 1e6
"""Sums in single precision saturate at 2^24 events of equal weight."""
SETTINGS = ("max_classes", "train_counts", "half_life", "memory_mb")
"""Arguments besides ``classes``."""
PATHS = ("temperature", "vector", "matrix", "matrix+can")

Ids = NDArray[np.int32]
Array = NDArray[np.float64]
Receipts = NDArray[np.float32]


class SparseRow(NamedTuple):
    """A corrected row."""

    probabilities: dict[Any, float]
    """Probability by class: those of the row in order, then promoted ones."""
    rest: float
    """Total probability of all other classes."""


def shortened(rows: Sequence[SparseRow], digits: int) -> list[SparseRow]:
    """Round rows to a number of digits."""
    return [
        SparseRow({name: round(p, digits) for name, p in row.items()}, round(rest, digits))
        for row, rest in rows
    ]


class SparseRows(NamedTuple):
    """Corrected rows."""

    ids: Ids
    """Classes, shape (n, k + at most 5): those of the row, then promoted ones; padded with -1."""
    probabilities: Array
    """Their probabilities, of the same shape; padded with 0."""
    rest: Array
    """Total probability of all other classes, shape (n,)."""


class SparseHead(msgspec.Struct):
    """Head of a snapshot: everything but its arrays."""

    sparse: Literal[1]
    classes: Annotated[int, Meta(ge=1, le=MOST_CLASSES)]
    names: list[str] | None
    half_life: Annotated[float, Meta(ge=1, le=MOST_HALF_LIFE)]


class Rows(NamedTuple):
    """Checked rows, owned by the caller."""

    ids: Ids
    P: Array
    ks: Ids


class SparseCorrector:
    """Corrects the k likeliest of very many classes and learns from late labels; O(k) per row.

    The method is that of :class:`~stream_can.Corrector` with the paths temperature, vector, matrix
    and matrix+can; the classes that a row does not list form one more entry, the rest.

    Parameters
    ----------
    classes
        Their number m: classes are then the integers 0..m-1. "any": classes are names that appear
        with the stream.
    max_classes
        With "any", the maximum number of classes, which is m in every formula.
    train_counts
        Training rows per class, shape (m,), or {class: count}; uniform by default.
    half_life
        Number of events after which knowledge counts half, 1 to 1e6: labels for what labels teach,
        rows for what rows teach.
    memory_mb
        Maximum memory of classes in MiB, at 256 bytes each (64, and 192 more once a class was among
        the five largest of a labelled row). Names are extra.

    Raises
    ------
    ValueError
        An argument is out of range; the message names it.

    Examples
    --------
    >>> corrector = SparseCorrector("any")
    >>> row = {"cat": 0.4, "dog": 0.1}
    >>> better, rest = corrector.process_one(row)
    >>> corrector.learn_one(row, "eel")  # a label may be of a class that was not listed
    >>> corrector.n_labels
    1
    """

    row_kind = "sparse"

    def __init__(
        self,
        classes: int | Literal["any"] = "any",
        *,
        max_classes: int = 1_000_000,
        train_counts: ArrayLike | Mapping[Any, float] | None = None,
        half_life: float = 5000.0,
        memory_mb: float = 1024,
    ) -> None:
        if classes == "any":
            name, m = "max_classes", max_classes
        else:
            name, m = "classes", classes
        if isinstance(m, bool) or not isinstance(m, int | np.integer) or not 1 <= m <= MOST_CLASSES:
            hint = ', or "any"' if name == "classes" else ""
            raise ValueError(f"{name}: {m!r}, expected a number from 1 to {MOST_CLASSES:,}{hint}")
        in_range("half_life", half_life, 1, MOST_HALF_LIFE)
        in_range("memory_mb", memory_mb, 0, 2**40)
        needed = math.ceil(int(m) * CLASS_BYTES / 2**20)
        if needed > max(memory_mb, 1):
            raise ValueError(
                f"{name}: {m:,} may take {needed:,} MiB ({CLASS_BYTES} bytes each), memory_mb"
                f" allows {memory_mb:,}; give more memory_mb, or fewer {name}"
            )
        self._half_life = float(half_life)
        self._names = Names(int(m)) if classes == "any" else None
        self._model = Model(int(m), self._half_life)
        if train_counts is not None:
            self._model.train(self._counts(train_counts))

    def _counts(self, counts: ArrayLike | Mapping[Any, float]) -> Array:
        """Training rows of the first classes."""
        if isinstance(counts, Mapping):
            ids = self._ids_of(list(counts), "train_counts", add=True)
            array = np.zeros(max(ids, default=-1) + 1)
            array[ids] = list(counts.values())
        elif self._names is not None:
            raise ValueError('train_counts: classes "any" have no order; give {class: count}')
        else:
            array = np.array(counts, np.float64)
            if array.shape != (self.m,):
                raise ValueError(f"train_counts: shape {array.shape}, expected ({self.m},)")
        bad = np.flatnonzero(~((array >= 0) & (array < 1e15)))
        if bad.size:
            raise ValueError(
                f"train_counts: {array[bad[0]]} of class {bad[0]}, expected a number of rows"
            )
        return array

    # ---- rows

    @overload
    def process_many(
        self, ids: ArrayLike, probs: ArrayLike, *, receipt: Literal[False] = False
    ) -> SparseRows: ...
    @overload
    def process_many(
        self, ids: ArrayLike, probs: ArrayLike, *, receipt: Literal[True]
    ) -> tuple[SparseRows, Receipts]: ...
    def process_many(
        self, ids: ArrayLike, probs: ArrayLike, *, receipt: bool = False
    ) -> SparseRows | tuple[SparseRows, Receipts]:
        """Correct rows, then observe them, in order: the call for predictions of a stream.

        Parameters
        ----------
        ids
            Classes listed by each row, distinct integers of shape (n, k), k <= 128, padded with -1
            at the end. Of equal largest probabilities the first counts.
        probs
            Their probabilities, shape (n, k): finite, >= 0, with a sum of at most 1 (within 0.001,
            and then divided by it; always where a row lists all classes). The rest of 1 belongs to
            unlisted classes. 0 or NaN where ids are -1.
        receipt
            Also return what each row was mixed from, to be passed to :meth:`learn_many` with its
            label.

        Returns
        -------
        :class:`SparseRows`: ids, probabilities, rests; a row and its rest sum to 1. With
        ``receipt`` also the receipts, float32 of shape (n, 3, k + 1).

        Raises
        ------
        InvalidPrediction
            A row is anything else; no row was processed.
        """
        return self._sent(self._rows(ids, probs), True, receipt)  # type: ignore[no-any-return]

    @overload
    def correct_many(
        self, ids: ArrayLike, probs: ArrayLike, *, receipt: Literal[False] = False
    ) -> SparseRows: ...
    @overload
    def correct_many(
        self, ids: ArrayLike, probs: ArrayLike, *, receipt: Literal[True]
    ) -> tuple[SparseRows, Receipts]: ...
    def correct_many(
        self, ids: ArrayLike, probs: ArrayLike, *, receipt: bool = False
    ) -> SparseRows | tuple[SparseRows, Receipts]:
        """:meth:`process_many` with the state as it is; nothing is learned."""
        return self._sent(self._rows(ids, probs), False, receipt)  # type: ignore[no-any-return]

    def _sent(self, rows: Rows, observes: bool, receipt: bool) -> Any:
        ids, P, rest, receipts = self._model.rows(*rows, observes, receipt)
        corrected = SparseRows(ids, P, rest)
        return (corrected, receipts) if receipt else corrected

    @overload
    def process_one(
        self, row: Mapping[Any, float], *, receipt: Literal[False] = False
    ) -> SparseRow: ...
    @overload
    def process_one(
        self, row: Mapping[Any, float], *, receipt: Literal[True]
    ) -> tuple[SparseRow, Receipts]: ...
    def process_one(self, row: Mapping[Any, float], *, receipt: bool = False) -> Any:
        """:meth:`process_many` of one row, {class: probability}; the same bits.

        Returns
        -------
        :class:`SparseRow`: {class: probability}, and the rest. With ``receipt`` also the receipt,
        float32 of shape (3, k + 1).
        """
        return self._one(row, True, receipt)

    def correct_one(
        self, row: Mapping[Any, float], *, receipt: bool = False
    ) -> SparseRow | tuple[SparseRow, Receipts]:
        """:meth:`process_one` with the state as it is; nothing is learned."""
        return self._one(row, False, receipt)  # type: ignore[no-any-return]

    def _one(self, row: Mapping[Any, float], observes: bool, receipt: bool) -> Any:
        rows = self._row(row) if observes else self._check_one(row)
        numbers, P, rest, receipts = self._model.rows(*rows, observes, receipt)
        ids = numbers[0][numbers[0] >= 0].tolist()
        names = list(row) + self._names_of(ids[len(row) :])
        better = SparseRow(dict(zip(names, P[0].tolist(), strict=False)), float(rest[0]))
        return (better, receipts[0]) if receipt else better

    # ---- labels

    def learn_many(
        self,
        ids: ArrayLike | None,
        probs: ArrayLike | None,
        labels: ArrayLike,
        *,
        receipts: ArrayLike | None = None,
    ) -> None:
        """Learn labels of rows, now or much later, in order.

        Parameters
        ----------
        ids, probs
            The rows as the classifier gave them, as for :meth:`process_many`; None for both where
            they are gone: then the labels teach the class mix alone.
        labels
            The classes, integers of shape (n,), listed or not.
        receipts
            Receipts that :meth:`process_many` returned with these rows, shape (n, 3, k + 1). If
            None or NaN, rows are judged as they would be sent now.

        Raises
        ------
        InvalidPrediction, UnknownClass, ValueError
            A row, label or receipt is invalid; nothing was learned.
        """
        ys = np.array(labels)
        if ys.ndim != 1 or (ys.size and ys.dtype.kind not in "iu"):
            raise UnknownClass(f"labels: {ys.dtype} of shape {ys.shape}, expected integers, (n,)")
        known = self._known
        bad = np.flatnonzero((ys < 0) | (ys >= known))
        if bad.size:
            raise UnknownClass(f"label {bad[0]}: {self._unknown(int(ys[bad[0]]))}")
        ys = ys.astype(np.int64)
        receipt_rows.require_row(receipts, ids, one=False)
        if ids is None or probs is None:
            if not (ids is None and probs is None):
                raise ValueError("ids and probs: a row is given by both")
            self._model.learn(None, None, None, ys, None)
            return
        rows = self._rows(ids, probs)
        if len(rows.ids) != len(ys):
            raise InvalidPrediction(
                f"{len(rows.ids)} rows but {len(ys)} labels; give one label per row"
            )
        of_rows = None if receipts is None else self._receipts(receipts, rows)
        self._learn(rows, ys, of_rows)

    def learn_one(
        self, row: Mapping[Any, float] | None, label: Hashable, *, receipt: ArrayLike | None = None
    ) -> None:
        """:meth:`learn_many` of one row, {class: probability} or None; the same bits.

        With classes "any" a label may be a new name. ``receipt`` has shape (3, k + 1).
        """
        receipt_rows.require_row(receipt, row, one=True)
        if row is None:
            alone = self._ids_of([label], "label", add=True, error=UnknownClass)
            self._model.learn(None, None, None, np.array(alone, np.int64), None)
            return
        checked = self._check_one(row)
        of_row = None if receipt is None else self._receipts(receipt, checked, single=True)
        # New names are numbered once everything else is valid.
        y, *ids = self._ids_of([label, *row], "label", add=True, error=UnknownClass)
        checked.ids[0] = ids
        self._learn(checked, np.array([y], np.int64), of_row)

    def _learn(self, rows: Rows, ys: NDArray[np.int64], receipts: Receipts | None) -> None:
        known = None if receipts is None else given_by(receipts, rows.ids, rows.ks, ys)
        self._model.learn(*rows, ys, known)

    def _receipts(self, receipts: ArrayLike, rows: Rows, *, single: bool = False) -> Receipts:
        n, k = rows.ids.shape
        return receipt_rows.checked(receipts, (n, 3, k + 1), one=single)

    # ---- the tail

    def tail(self, label: Hashable, ids: ArrayLike, rest: float) -> float:
        """Current probability of a class that is not among ``ids``: its share of ``rest``.

        Parameters
        ----------
        label
            The class, an integer or a name. All names that never appeared have the same
            probability.
        ids
            Classes of a row, shape (k,), by number or name; -1 is ignored.
        rest
            Total probability of the unlisted classes.

        Raises
        ------
        ValueError
            ``label`` is listed: its probability is in the row.
        """
        in_range("rest", rest, 0, 1 + TOLERANCE)
        classes = np.asarray(ids).tolist()
        if self._names is not None and len(classes) and not isinstance(classes[0], str):
            classes = self._names_of([i for i in classes if 0 <= i < self._known])
        y, *listed = self._ids_of([label, *(i for i in classes if i != -1)], "tail", add=False)
        if y in listed:
            raise ValueError(f"label {label!r} is listed: its probability is in the row")
        return rest * self._model.tail_of(y, np.array(listed, np.int32))

    # ---- names

    def ids_of(self, names: Iterable[str]) -> Ids:
        """Numbers of names, int32 of shape (n,), for :meth:`process_many` and the like.

        Only with classes "any". New names are numbered, all of them or none.
        """
        return np.array(self._ids_of(list(names), "names", add=True), np.int32)

    def names_of(self, ids: ArrayLike) -> list[Any]:
        """The names of numbers, shape (n,); the numbers themselves where classes have no names."""
        numbers = np.asarray(ids).tolist()
        known = self._known
        for i in numbers:
            if not 0 <= i < known:
                raise UnknownClass(self._unknown(i))
        return self._names_of(numbers)

    def _names_of(self, ids: list[int]) -> list[Any]:
        return ids if self._names is None else self._names.of(ids)

    def _ids_of(
        self, names: Sequence[Any], field: str, *, add: bool, error: type[ValueError] = ValueError
    ) -> list[int]:
        """Numbers of classes given by name or number.

        New names get the next numbers; without ``add`` the last number, which no class has, for
        this call only.
        """
        if self._names is None:
            for i in names:
                if isinstance(i, bool) or not isinstance(i, int | np.integer):
                    raise error(f"{field}: {i!r}, expected a class, 0 to {self.m - 1}")
                if not 0 <= i < self.m:
                    raise error(f"{field}: {self._unknown(int(i))}")
            return [int(i) for i in names]
        for name in names:
            if type(name) is not str or not name.isascii():
                _check_name(name, field, error)
        names = [str.__str__(name) for name in names]
        if add:
            try:
                return self._names.add(names)
            except ValueError as full:
                raise error(f"{field}: {full}") from None
        known = [self._names.find(name) for name in names]
        new = dict.fromkeys(name for name, i in zip(names, known, strict=True) if i < 0)
        if len(self._names) + len(new) > self.m:
            raise error(f"{field}: {self._names.full(len(new))}")
        last = dict(zip(new, range(self.m - 1, -1, -1), strict=False))
        return [last[name] if i < 0 else i for name, i in zip(names, known, strict=True)]

    @property
    def _known(self) -> int:
        """Numbers below this are classes."""
        return self.m if self._names is None else len(self._names)

    def _unknown(self, i: int) -> str:
        if self._names is None:
            return f"class {i} is none; expected 0 to {self.m - 1}"
        return f"class {i} has no name yet, {len(self._names)} have; ids_of gives numbers to names"

    # ---- checks

    def _rows(self, ids: ArrayLike, probs: ArrayLike) -> Rows:
        """Check and copy rows; a copy cannot change while the loop runs."""
        id_array, P = np.asarray(ids), np.asarray(probs)
        if id_array.ndim != 2 or P.shape != id_array.shape:
            raise InvalidPrediction(
                f"ids have shape {id_array.shape} and probs {P.shape}, expected (n, k) of both"
            )
        if id_array.size and id_array.dtype.kind not in "iu":
            raise InvalidPrediction(f"ids are {id_array.dtype}, expected integers")
        if P.size and P.dtype.kind not in "fiu":
            raise InvalidPrediction(f"probs are {P.dtype}, expected floats")
        if id_array.dtype != np.int32 and id_array.size:  # no number may wrap around to another
            out = np.argwhere((id_array < -1) | (id_array >= self.m))
            if len(out):
                row, column = out[0].tolist()
                raise InvalidPrediction(f"row {row}: {self._unknown(int(id_array[row, column]))}")
        numbers, P = np.array(id_array, np.int32, order="C"), np.array(P, np.float64, order="C")
        ks, fault, row, column = check(numbers, P, self.m, self._known)
        if fault != Fault.NONE:
            raise InvalidPrediction(
                f"row {row}: {self._reason(numbers[row], P[row], fault, column)}"
            )
        return Rows(numbers, P, ks)

    def _row(self, row: Mapping[Any, float]) -> Rows:
        """Check one row by name; new names are numbered once everything else is valid."""
        rows = self._check_one(row)
        if self._names is not None and rows.ids.max(initial=-1) >= self._known:
            rows.ids[0] = self._ids_of(list(row), "row", add=True, error=InvalidPrediction)
        return rows

    def _check_one(self, row: Mapping[Any, float]) -> Rows:
        """Check one row, with numbers for this call only."""
        if not isinstance(row, Mapping):
            raise InvalidPrediction(f"row: {type(row).__name__}, expected {{class: probability}}")
        names = list(row)
        if len(names) > MOST_LISTED:
            raise InvalidPrediction(self._reason(names, np.empty(0), Fault.LONG, 0))
        ids = self._ids_of(names, "row", add=False, error=InvalidPrediction)
        try:
            P = np.array([[float(p) for p in row.values()]], np.float64).reshape(1, len(ids))
        except (TypeError, ValueError):
            raise InvalidPrediction("row: probabilities are no numbers") from None
        numbers = np.array([ids], np.int32).reshape(1, len(ids))
        ks, fault, _, column = check(numbers, P, self.m, self.m)
        if fault != Fault.NONE:
            raise InvalidPrediction(self._reason(names, P[0], fault, column))
        return Rows(numbers, P, ks)

    def _reason(self, names: Any, p: Array, fault: Fault, column: int) -> str:
        """Describe what is wrong with a row."""
        listed_class = names[column] if len(names) else None
        name = repr(listed_class) if isinstance(listed_class, str) else listed_class
        if fault == Fault.EMPTY:
            return "no class is listed, expected 1 to 128"
        if fault == Fault.LONG:
            return (
                f"{len(names)} classes are listed, expected 1 to {MOST_LISTED}; send the likeliest"
            )
        if fault == Fault.GAP:
            return f"class {name} in column {column} is behind a -1; pads come last"
        if fault == Fault.RANGE:
            return f"{self._unknown(int(names[column]))}; -1 pads"
        if fault == Fault.TWICE:
            return f"class {name} is listed twice, the second time in column {column}"
        if fault == Fault.NEGATIVE:
            return f"probability {p[column]} of class {name}, expected a number >= 0"
        if fault == Fault.PAD:
            return f"probability {p[column]} in column {column}, whose class is -1, expected 0"
        total = float(np.nansum(p))
        if fault == Fault.ZERO:
            return "all classes are listed and their probabilities sum to 0, expected 1"
        return f"probabilities sum to {total:.6g}, expected at most 1 (within {TOLERANCE:g})"

    # ---- snapshots

    def to_bytes(self) -> bytes:
        """Serialise the state with its settings, versioned and checksummed: about 56 bytes for each
        class with content, and 192 for each block."""
        arrays = self._model.dump()  # before the names: there may be more by then, but not fewer
        head = {
            "sparse": 1,
            "classes": self.m,
            "names": None if self._names is None else self._names.copy(),
            "half_life": self._half_life,
        }
        return snapshot.encode(head, arrays)

    @classmethod
    def from_bytes(cls, data: bytes, *, memory_mb: float = 1024) -> Self:
        """Load :meth:`to_bytes`; the corrector continues bit for bit.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version or kind, or need more than
            ``memory_mb``.
        """
        head, arrays = read_snapshot(data, "sparse", SparseHead)
        options: dict[str, Any] = {"half_life": head.half_life, "memory_mb": memory_mb}
        try:
            if head.names is None:
                self = cls(head.classes, **options)
            else:
                self = cls("any", max_classes=head.classes, **options)
                self.ids_of(head.names)
        except (ValueError, MemoryError) as error:
            raise SnapshotMismatch(f"snapshot: {error}") from None
        if head.names is not None and self._known != len(head.names):
            raise SnapshotMismatch("snapshot: a name is there twice")
        _check_arrays(arrays, self._known)
        self._model.load(arrays)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (type(self), self.to_bytes())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_classes} classes, "
            f"{self.n_predictions} predictions, {self.n_labels} labels)"
        )

    # ---- inspection

    @property
    def m(self) -> int:
        """The number of classes in every formula: ``classes``, or ``max_classes``."""
        return self._model.m

    @property
    def n_classes(self) -> int:
        """Number of classes; with "any", of names that appeared."""
        return self._known

    @property
    def names(self) -> list[str] | None:
        """Names in the order of their numbers; None where classes are numbers."""
        return None if self._names is None else self._names.copy()

    @property
    def half_life(self) -> float:
        """Number of events after which knowledge counts half."""
        return self._half_life

    @property
    def n_predictions(self) -> int:
        """Number of predictions observed."""
        return self._model.n_predictions

    @property
    def n_labels(self) -> int:
        """Number of labels learned, with or without their prediction."""
        return self._model.n_labels

    @property
    def effective_sample_size(self) -> float:
        """Decayed number of labels."""
        return float(self._model.numbers()["labels"])

    def class_shares(self) -> tuple[Ids, Array, Array]:
        """The class mix of recent labels and rows.

        Returns
        -------
        The classes that were seen, int32 of shape (n,), see :meth:`names_of`; their decayed shares
        of the labels; and their mean probabilities in recent rows, not listed counting as 0.
        """
        arrays, numbers = self._model.dump(), self._model.numbers()
        M, L = arrays["cells"][:, [0, 3]].astype(np.float64).T
        rows = float(numbers["rows"] * numbers["scale"])
        return arrays["ids"], L / max(float(L.sum()), 1e-300), M / max(rows, 1e-300)

    @property
    def weights(self) -> dict[str, float]:
        """{path: its weight in the mixture}; they sum to 1."""
        return dict(zip(PATHS, self._model.numbers()["weights"].tolist(), strict=True))

    @property
    def final_weights(self) -> dict[str, float]:
        """Weights of the rows in the output, in the order of receipts."""
        names = ("anchor", "mixture", "tempered")
        return dict(zip(names, self._model.final_weights, strict=True))

    @property
    def memory(self) -> int:
        """Bytes of cells and blocks, without names."""
        return 64 * self.m + 192 * self._model.n_blocks


def _from_bytes(cls: type[SparseCorrector], data: bytes) -> SparseCorrector:
    """Support copy and pickle, for any size."""
    return cls.from_bytes(data, memory_mb=2**40)


def _check_name(name: Any, field: str, error: type[ValueError]) -> None:
    """Check that a name is a text."""
    if not isinstance(name, str):
        raise error(f"{field}: {name!r}, expected the name of a class, a str")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise error(f"{field}: {name!r} is no text that UTF-8 can write") from None


SHAPES = {
    "ids": (np.int32, 0), "heard": (np.int32, 0), "stamps": (np.int64, 0),
    "cells": (np.float32, 11),
    "owners": (np.int32, 0), "partners": (np.int32, 15), "A": (np.float32, 16),
    "G": (np.float32, 16), "numbers": (np.float64, 0), "front": (np.int32, 0),
}  # fmt: skip


def _check_arrays(arrays: dict[str, NDArray[Any]], known: int) -> None:
    """Check that arrays of a snapshot are usable; raise SnapshotMismatch otherwise."""
    for name, (dtype, width) in SHAPES.items():
        array = arrays.get(name)
        if array is None or array.dtype != dtype or array.ndim != 1 + (width > 0):
            raise SnapshotMismatch(f"snapshot: sparse corrector without its {name}")
        if width and array.shape[1] != width:
            raise SnapshotMismatch(f"snapshot: {name} has {array.shape[1]} columns, not {width}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise SnapshotMismatch(f"snapshot: {name} is not finite")
    ids, owners, partners, front = (arrays[n] for n in ("ids", "owners", "partners", "front"))
    cells, numbers = arrays["cells"], arrays["numbers"]
    at = np.cumsum([0, *NUMBERS.values()])
    if len(numbers) != at[-1]:
        raise SnapshotMismatch(f"snapshot: {len(numbers)} numbers, expected {at[-1]}")
    of = {n: numbers[a:b] for n, a, b in zip(NUMBERS, at[:-1], at[1:], strict=True)}
    free = {"odds", "untrained", "temperature", "last", "vector", "matrix"}
    free |= {"last_Q", "vector_Q", "matrix_Q"}  # off their diagonals
    learned = of["agree"][0] + of["differ"][0]
    stamps, heard = arrays["stamps"], arrays["heard"]
    wrong = {
        "ids": len(ids) and (ids[0] < 0 or ids[-1] >= known or (np.diff(ids) <= 0).any()),
        "heard": ((heard < 0) | (heard > 1)).any() or len(heard) != len(ids),
        "stamps": ((stamps < 0) | (stamps > learned)).any() or len(stamps) != len(ids),
        "cells": len(cells) != len(ids)
        or (cells[:, [*range(7), 9, 10]] < 0).any()
        or (np.abs(cells[:, 7:9]) > 6.01).any()
        # Labels that came unlisted; sums in single precision are at most twice what they should be.
        or (cells[:, 4] > 2 * of["scale_outside"][0] * of["outside"][0]).any(),
        "owners": ((owners < 0) | (owners >= known)).any() or len(np.unique(owners)) != len(owners),
        "partners": ((partners < -1) | (partners >= known)).any() or len(partners) != len(owners),
        "A": len(arrays["A"]) != len(owners) or (np.abs(arrays["A"]) > 6.01).any(),
        "G": len(arrays["G"]) != len(owners) or (arrays["G"] < 0).any(),
        "front": len(front) > 5
        or ((front < 0) | (front >= known)).any()
        or len(np.unique(front)) != len(front),
        "numbers": any((of[n] < 0).any() for n in NUMBERS if n not in free)
        or (np.abs(numbers) > 1e300).any()
        or any((np.abs(of[n]) > 8).any() for n in ("temperature", "last", "vector", "matrix"))
        or any(not 1 <= of[n][0] <= 1e20 for n in NUMBERS if n.startswith("scale"))
        or not abs(of["weights"].sum() - 1) < 1e-6
        or not -60 < of["untrained"][0] < 60,
    }
    for name, bad in wrong.items():
        if bad:
            raise SnapshotMismatch(f"snapshot: {name} of a sparse corrector out of range")
