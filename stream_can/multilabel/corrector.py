"""MultiLabelCorrector: checks its input, owns the state, calls the compiled loop."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self, overload

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import InvalidPrediction, SnapshotMismatch
from stream_can.method import receipt_checks
from stream_can.method.class_names import ClassName, class_names
from stream_can.method.classes import ClassIndex
from stream_can.method.settings import in_range
from stream_can.multilabel.loop import Model
from stream_can.multilabel.snapshot_arrays import require_arrays
from stream_can.multilabel.state import MultiLabelState
from stream_can.multilabel.successor import discount_arrays
from stream_can.row_kinds import read_snapshot

__all__ = ["MultiLabelCorrector"]

MOST_ROWS = 1e15
"""Maximum number of training rows; a share of more would exceed a float's precision."""

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]
Labels = NDArray[np.int8]


class PlayedMultiLabel(NamedTuple):
    """Result of :meth:`MultiLabelCorrector.play`."""

    rows: Array
    """Corrected rows, shape (n, m)."""
    receipts: Receipts
    """Receipts of the rows, shape (n, 2 m)."""
    decided: NDArray[np.bool_]
    """Decision on each label by the threshold of that moment, shape (n, m)."""


class MultiLabelHead(msgspec.Struct):
    """Head of a snapshot: everything but its arrays."""

    multilabel: Literal[1]
    labels: list[ClassName]
    train_counts: list[float] | None
    train_rows: float | None
    half_life: Annotated[float, Meta(ge=1, le=1e15)]


class MultiLabelCorrector(MultiLabelState):
    """Corrects multilabel rows and learns from late labels; O(m) per row.

    A row has m probabilities, one for each label; they need not sum to 1. The output mixes online
    temperature [2]_, Platt scaling of each label [3]_, shrunk towards what all labels share, and
    Classification with Alternating Normalization [1]_ on the rows (r, 1 - r) of uncertain labels,
    by how well each has done. Without labels the output hardly differs. docs/multilabel.md has the
    formulas.

    Parameters
    ----------
    labels
        Names of the labels in column order, or their number m for 0..m-1.
    train_counts, train_rows
        Number of training rows with each label, shape (m,) or {label: count}, and number of
        training rows. Unknown by default.
    half_life
        Number of events after which knowledge counts half: rows for what rows teach, rows of labels
        for what labels teach.

    Raises
    ------
    ValueError
        An argument is out of range; the message names it.

    References
    ----------
    .. [1] Jia, Reiter, Lim, Artzi, Cardie: When in Doubt: Improving Classification Performance with
       Alternating Normalization. Findings of EMNLP 2021.
    .. [2] Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017.
    .. [3] Platt: Probabilistic Outputs for Support Vector Machines. 1999.

    Examples
    --------
    >>> corrector = MultiLabelCorrector(["invoice", "urgent", "spam"])
    >>> p = [0.7, 0.2, 0.1]
    >>> better = corrector.process_one(p)
    >>> corrector.learn_one(p, {"invoice": True, "spam": False})  # of "urgent" nobody said
    >>> corrector.n_labels
    1
    """

    row_kind = "multilabel"

    def __init__(
        self,
        labels: int | Iterable[Hashable],
        *,
        train_counts: ArrayLike | Mapping[Any, float] | None = None,
        train_rows: float | None = None,
        half_life: float = 5000.0,
    ) -> None:
        self._labels = class_names(labels)
        self._index = ClassIndex(self._labels)
        in_range("half_life", half_life, 1, 1e15)
        self._half_life = float(half_life)
        self._counts = self._rows = None
        if (train_counts is None) != (train_rows is None):
            raise ValueError("train_counts and train_rows: give both, or none of them")
        if train_counts is not None and train_rows is not None:
            in_range("train_rows", train_rows, 0, MOST_ROWS)
            self._rows = float(train_rows)
            self._counts = self._counts_of(train_counts, self._rows)
        self._model = Model(self.train_shares, self._half_life)

    # ---- rows

    def process_many(
        self, P: ArrayLike, *, receipt: bool = False
    ) -> Array | tuple[Array, Receipts]:
        """Correct rows, then observe them, in order: the call for predictions of a stream.

        Parameters
        ----------
        P
            Probabilities, shape (n, m), each from 0 to 1; a DataFrame by the names of the labels.
        receipt
            Also return what each row was mixed from, float32 of shape (n, 2 m), to be passed to
            :meth:`learn_many` with its labels.

        Returns
        -------
        The corrected rows, a new float64 array, shape (n, m).

        Raises
        ------
        InvalidPrediction
            A row is anything else; no row was processed.
        """
        return self._sent(P, True, receipt)  # type: ignore[no-any-return]

    def correct_many(
        self, P: ArrayLike, *, receipt: bool = False
    ) -> Array | tuple[Array, Receipts]:
        """:meth:`process_many` with the state as it is; nothing is learned."""
        return self._sent(P, False, receipt)  # type: ignore[no-any-return]

    def _sent(self, P: ArrayLike, observes: bool, receipt: bool) -> Any:
        sent, receipts, _ = self._play(self._rows_of(P), observes, True, receipt)
        return (sent, receipts) if receipt else sent

    def observe_many(self, P: ArrayLike) -> None:
        """Observe rows, shape (n, m): :meth:`process_many` without its output."""
        self._play(self._rows_of(P), True, False, False)

    @overload
    def process_one(self, p: ArrayLike, *, receipt: Literal[False] = False) -> Array: ...
    @overload
    def process_one(self, p: ArrayLike, *, receipt: Literal[True]) -> tuple[Array, Receipts]: ...
    def process_one(self, p: ArrayLike, *, receipt: bool = False) -> Any:
        """:meth:`process_many` of one row, shape (m,) or {label: probability}; the same bits."""
        rows, receipts, _ = self._play(self._row_of(p), True, True, receipt)
        return (rows[0], receipts[0]) if receipt else rows[0]

    def correct_one(self, p: ArrayLike) -> Array:
        """:meth:`process_one` with the state as it is; nothing is learned."""
        row: Array = self._play(self._row_of(p), False, True, False)[0][0]
        return row

    def observe_one(self, p: ArrayLike) -> None:
        """Observe a row, shape (m,): :meth:`process_one` without its output."""
        self._play(self._row_of(p), True, False, False)

    def _play(self, P: Array, observes: bool, sends: bool, receipt: bool) -> Any:
        return self._model.play(P, 0, None, None, None, None, observes, sends, receipt)

    # ---- labels

    def learn_many(
        self, P: ArrayLike | None, Y: ArrayLike, *, receipts: ArrayLike | None = None
    ) -> None:
        """Learn labels of rows, now or much later, in order.

        Parameters
        ----------
        P
            The rows as the classifier gave them, shape (n, m); None where they are gone: then the
            labels teach the label mix alone.
        Y
            Shape (n, m): 1 where a row has the label, 0 where it has not, -1 where unknown. A row
            without a known label teaches nothing.
        receipts
            Results of :meth:`process_many` for these rows, shape (n, 2 m). Without one, or with NaN
            at a known label, the row is judged as it would be sent now.

        Raises
        ------
        InvalidPrediction, UnknownClass
            A row, label or receipt is invalid; nothing was learned.
        """
        labels = self._labels_of(Y)
        receipt_checks.require_row(receipts, P, single=False)
        rows = None if P is None else self._rows_of(P)
        if rows is not None and len(rows) != len(labels):
            raise InvalidPrediction(
                f"{len(rows)} rows but {len(labels)} rows of labels; give one per row"
            )
        known = None if receipts is None else self._receipts(receipts, len(labels))
        self._learn(rows, labels, known)

    def learn_one(
        self,
        p: ArrayLike | None,
        y: Mapping[Any, Any] | ArrayLike,
        *,
        receipt: ArrayLike | None = None,
    ) -> None:
        """:meth:`learn_many` of one row; the same bits.

        ``y`` has shape (m,), of 1, 0 and -1, or is {label: whether the row has it}; missing labels
        are unknown. :meth:`row_of` converts a list of labels.
        """
        if isinstance(y, Mapping):
            y = self._row_of_known(y)
        labels = self._labels_of(np.asarray(y)[None])
        receipt_checks.require_row(receipt, p, single=True)
        rows = None if p is None else self._row_of(p)
        known = None if receipt is None else self._receipts(receipt, 1, single=True)
        self._learn(rows, labels, known)

    def _learn(self, P: Array | None, Y: Labels, known: Receipts | None) -> None:
        first = 0 if P is None else len(P)
        rows = None if P is None else np.arange(first)
        self._model.play(P, first, Y, rows, None, known, False, False, False)

    # ---- rows and labels

    def play(
        self,
        P: ArrayLike,
        Y: ArrayLike,
        rows: NDArray[np.int64],
        due: NDArray[np.int64],
        *,
        first: int = 0,
        receipts: Receipts | None = None,
    ) -> PlayedMultiLabel:
        """Process rows and learn labels between them, in one call; see :meth:`Corrector.play`.

        Parameters
        ----------
        P
            Rows, shape (first + n, m): ``first`` that were processed before, and n to process.
        Y
            Labels in the order to learn them, shape (k, m), of 1, 0 and -1.
        rows, due
            For each label the row of ``P``, -1 where it is gone; and before which of the n rows it
            is learned, ascending. Shape (k,).
        receipts
            Receipt of each label's row, shape (k, 2 m), NaN where missing; not needed for rows of
            this call.

        Returns
        -------
        The same bits as :meth:`process_one` and :meth:`learn_one` in that order.
        """
        checked_rows, labels = self._rows_of(P), self._labels_of(Y)
        at, when = np.array(rows, np.int64), np.array(due, np.int64)
        n, k = len(checked_rows) - first, len(labels)
        if not (0 <= first <= len(checked_rows) and at.shape == when.shape == (k,)):
            raise ValueError(f"first: {first} of {len(checked_rows)} rows, {k} labels")
        processed = np.where(at >= first, at - first + 1, 0)
        if k and (
            (at < -1).any() or (at >= len(checked_rows)).any() or (np.diff(when) < 0).any()
            or when[0] < 0 or when[-1] > n or (when < processed).any()
        ):  # fmt: skip
            raise ValueError("rows, due: a label belongs to no row, or is due before it")
        known = None if receipts is None else self._receipts(receipts, k)
        sent, sent_receipts, decided = self._model.play(
            checked_rows, first, labels, at, when, known, True, True, True, True
        )
        return PlayedMultiLabel(sent, sent_receipts, decided.view(np.bool_))

    def _receipts(self, receipts: ArrayLike, n: int, *, single: bool = False) -> Receipts:
        return receipt_checks.checked(receipts, (n, 2 * self.m), single=single, most=1)

    # ---- snapshots

    def to_bytes(self) -> bytes:
        """Encode the state with its settings, versioned and checksummed."""
        return snapshot.encode(msgspec.to_builtins(self._head()), self._model.dump())

    def _head(self) -> MultiLabelHead:
        counts = None if self._counts is None else self._counts.tolist()
        return MultiLabelHead(1, list(self._labels), counts, self._rows, self._half_life)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        labels: int | Iterable[Hashable] | None = None,
        *,
        train_counts: ArrayLike | Mapping[Any, float] | None = None,
        train_rows: float | None = None,
        half_life: float | None = None,
    ) -> Self:
        """Decode :meth:`to_bytes`; the corrector continues bit for bit.

        Parameters
        ----------
        data
            The result of ``to_bytes``.
        labels, train_counts, train_rows
            Where given, the snapshot must have the same.
        half_life
            Replaces the snapshot's.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version or kind, or have other labels.
        """
        head, arrays = read_snapshot(data, "multilabel", MultiLabelHead)
        if labels is not None:
            snapshot.match("labels", tuple(head.labels), class_names(labels))
        try:
            self = cls(
                head.labels, train_counts=head.train_counts, train_rows=head.train_rows,
                half_life=head.half_life if half_life is None else half_life,
            )  # fmt: skip
        except (ValueError, MemoryError) as error:
            raise SnapshotMismatch(f"snapshot: {error}") from None
        if train_counts is not None or train_rows is not None:
            expected = cls(head.labels, train_counts=train_counts, train_rows=train_rows)._head()
            counts, rows = head.train_counts, head.train_rows
            if (counts, rows) != (expected.train_counts, expected.train_rows):
                raise SnapshotMismatch(
                    f"snapshot: train_counts {counts} of {rows} rows, expected"
                    f" {expected.train_counts} of {expected.train_rows}"
                )
        require_arrays(arrays, self.m)
        self._model.load(arrays)
        return self

    def successor(self, discount: float = 0.1) -> Self:
        """The corrector with which a new version of the classifier starts, see
        :meth:`Corrector.successor`: knowledge stays, its evidence is discounted.

        Raises
        ------
        ValueError
            ``discount`` is not from 0 to 1.
        """
        in_range("discount", discount, 0, 1)
        successor = self.from_bytes(self.to_bytes())
        if discount == 1:
            return successor
        arrays = self._model.dump()
        discount_arrays(arrays, float(discount))
        successor._model.load(arrays)
        return successor

    def _add_labels(self, names: Iterable[Hashable]) -> None:
        """Add labels without knowledge or training rows."""
        arrays, new = self._model.dump(), class_names(names)
        self._labels = (*self._labels, *new)
        self._index = ClassIndex(self._labels)
        if self._counts is not None:
            self._counts = np.append(self._counts, np.zeros(len(new)))
        self._model = Model(self.train_shares, self._half_life)
        fresh = self._model.dump()["labels"][:, -len(new) :]
        self._model.load(arrays | {"labels": np.concatenate([arrays["labels"], fresh], axis=1)})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.m} labels, "
            f"{self.n_predictions} predictions, {self.n_labels} rows of labels)"
        )
