"""SparseCorrector: checks its input, owns the state, calls the compiled loop."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Annotated, Any, Literal, Self, overload

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import InvalidPrediction, SnapshotMismatch, UnknownClass
from stream_can.method import receipt_checks
from stream_can.method.rows import TOLERANCE
from stream_can.method.settings import in_range
from stream_can.row_kinds import read_snapshot
from stream_can.sparse.class_numbers import ClassNumbers
from stream_can.sparse.loop import Model, given_by
from stream_can.sparse.row_checks import checked_row, checked_rows, numbered_row
from stream_can.sparse.rows import Rows, SparseRow, SparseRows
from stream_can.sparse.snapshot_arrays import require_arrays
from stream_can.sparse.state import SparseState

CLASS_BYTES = 256
"""Maximum memory of a class: a cell of 64 bytes and a block of 192."""
MOST_CLASSES = 2**31 - 1
MOST_HALF_LIFE = 1e6
"""Sums in single precision saturate at 2^24 events of equal weight."""
SETTINGS = ("max_classes", "train_counts", "half_life", "memory_mb")
"""Arguments besides ``classes``."""

Ids = NDArray[np.int32]
Array = NDArray[np.float64]
Receipts = NDArray[np.float32]


class SparseHead(msgspec.Struct):
    """Head of a snapshot: everything but its arrays."""

    sparse: Literal[1]
    classes: Annotated[int, Meta(ge=1, le=MOST_CLASSES)]
    names: list[str] | None
    half_life: Annotated[float, Meta(ge=1, le=MOST_HALF_LIFE)]


class SparseCorrector(SparseState):
    """Corrects the k likeliest of many classes and learns from late labels; O(k) per row.

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
        self._classes = ClassNumbers(int(m), named=classes == "any")
        self._model = Model(int(m), self._half_life)
        if train_counts is not None:
            self._model.train(self._counts(train_counts))

    def _counts(self, counts: ArrayLike | Mapping[Any, float]) -> Array:
        """Training rows of the first classes."""
        if isinstance(counts, Mapping):
            ids = self._classes.numbers_of(list(counts), "train_counts", add=True)
            array = np.zeros(max(ids, default=-1) + 1)
            array[ids] = list(counts.values())
        elif self._classes.names is not None:
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
        return self._sent(ids, probs, True, receipt)  # type: ignore[no-any-return]

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
        return self._sent(ids, probs, False, receipt)  # type: ignore[no-any-return]

    def _sent(self, ids: ArrayLike, probs: ArrayLike, observes: bool, receipt: bool) -> Any:
        rows = checked_rows(ids, probs, self._classes)
        *sent, receipts = self._model.rows(*rows, observes, receipt)
        corrected = SparseRows(*sent)
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
        rows = (numbered_row if observes else checked_row)(row, self._classes)
        numbers, P, rest, receipts = self._model.rows(*rows, observes, receipt)
        ids = numbers[0][numbers[0] >= 0].tolist()
        names = list(row) + self._classes.names_of(ids[len(row) :])
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
        known = self._classes.known
        bad = np.flatnonzero((ys < 0) | (ys >= known))
        if bad.size:
            raise UnknownClass(f"label {bad[0]}: {self._classes.unknown(int(ys[bad[0]]))}")
        ys = ys.astype(np.int64)
        receipt_checks.require_row(receipts, ids, single=False)
        if ids is None or probs is None:
            if not (ids is None and probs is None):
                raise ValueError("ids and probs: a row is given by both")
            self._model.learn(None, None, None, ys, None)
            return
        rows = checked_rows(ids, probs, self._classes)
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
        receipt_checks.require_row(receipt, row, single=True)
        if row is None:
            alone = self._classes.numbers_of([label], "label", add=True, error=UnknownClass)
            self._model.learn(None, None, None, np.array(alone, np.int64), None)
            return
        checked = checked_row(row, self._classes)
        of_row = None if receipt is None else self._receipts(receipt, checked, single=True)
        # New names are numbered once everything else is valid.
        y, *ids = self._classes.numbers_of([label, *row], "label", add=True, error=UnknownClass)
        checked.ids[0] = ids
        self._learn(checked, np.array([y], np.int64), of_row)

    def _learn(self, rows: Rows, ys: NDArray[np.int64], receipts: Receipts | None) -> None:
        known = None if receipts is None else given_by(receipts, rows.ids, rows.ks, ys)
        self._model.learn(*rows, ys, known)

    def _receipts(self, receipts: ArrayLike, rows: Rows, *, single: bool = False) -> Receipts:
        n, k = rows.ids.shape
        return receipt_checks.checked(receipts, (n, 3, k + 1), single=single)

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
        classes, row = self._classes, np.asarray(ids).tolist()
        if classes.names is not None and len(row) and not isinstance(row[0], str):
            row = classes.names_of([i for i in row if 0 <= i < classes.known])
        y, *listed = classes.numbers_of([label, *(i for i in row if i != -1)], "tail", add=False)
        if y in listed:
            raise ValueError(f"label {label!r} is listed: its probability is in the row")
        return rest * self._model.tail_of(y, np.array(listed, np.int32))

    # ---- names

    def ids_of(self, names: Iterable[str]) -> Ids:
        """Numbers of names, int32 of shape (n,), for :meth:`process_many` and the like.

        Only with classes "any". New names are numbered, all of them or none.
        """
        return np.array(self._classes.numbers_of(list(names), "names", add=True), np.int32)

    # ---- snapshots

    def to_bytes(self) -> bytes:
        """Serialise the state with its settings, versioned and checksummed: about 56 bytes for each
        class with content, and 192 for each block."""
        arrays = self._model.dump()  # before the names: there may be more by then, but not fewer
        head = {
            "sparse": 1,
            "classes": self.m,
            "names": None if self._classes.names is None else self._classes.names.copy(),
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
        if head.names is not None and self._classes.known != len(head.names):
            raise SnapshotMismatch("snapshot: a name is there twice")
        require_arrays(arrays, self._classes.known)
        self._model.load(arrays)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (type(self), self.to_bytes())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_classes} classes, "
            f"{self.n_predictions} predictions, {self.n_labels} labels)"
        )


def _from_bytes(cls: type[SparseCorrector], data: bytes) -> SparseCorrector:
    """Support copy and pickle, for any size."""
    return cls.from_bytes(data, memory_mb=2**40)
