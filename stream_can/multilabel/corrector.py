"""MultiLabelCorrector: checks its input, owns the state, calls the compiled loop."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self, overload

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import InvalidPrediction, SnapshotMismatch, UnknownClass
from stream_can.method import receipts as receipt_rows
from stream_can.method.classes import ClassIndex, ClassName, class_names, preview
from stream_can.method.rows import as_float64, names_of
from stream_can.method.settings import in_range
from stream_can.method.successor import balanced
from stream_can.multilabel.loop import (
    BINS,
    NUMBERS,
    OF_LABELS,
    PRECISIONS,
    STRENGTH,
    Model,
    outside,
)
from stream_can.row_kinds import read_snapshot

__all__ = ["MultiLabelCorrector"]

PATHS = ("temperature", "vector", "vector+can")
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


class MultiLabelCorrector:
    """Corrects rows of several labels and learns from late labels; O(m) per row.

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
        q = np.full(len(self._labels), 0.5)
        if (train_counts is None) != (train_rows is None):
            raise ValueError("train_counts and train_rows: give both, or none of them")
        if train_counts is not None and train_rows is not None:
            in_range("train_rows", train_rows, 0, MOST_ROWS)
            counts = self._counts_of(train_counts, float(train_rows))
            self._counts, self._rows = counts, float(train_rows)
            q = (counts + 0.5) / (self._rows + 1)
        self._model = Model(q, self._half_life)

    def _counts_of(self, counts: ArrayLike | Mapping[Any, float], rows: float) -> Array:
        if (names := names_of(counts)) is not None:
            counts = dict(zip(names, np.asarray(counts).tolist(), strict=True))
        if isinstance(counts, Mapping):
            for name in counts:
                if name not in self._index:
                    raise ValueError(f"train_counts: {name!r} is none of the labels")
            counts = [counts.get(name, 0) for name in self._labels]
        array = np.array(counts, np.float64)
        if array.shape != (self.m,):
            raise ValueError(f"train_counts: shape {array.shape}, expected ({self.m},)")
        bad = np.flatnonzero(~((array >= 0) & (array <= rows)))
        if bad.size:
            raise ValueError(
                f"train_counts: {array[bad[0]]:g} rows with label {self._labels[bad[0]]!r},"
                f" expected 0 to train_rows, {rows:g}"
            )
        return array

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
        played = self._play(self._rows_of(P), True, True, receipt)
        return played[:2] if receipt else played[0]  # type: ignore[no-any-return]

    def correct_many(
        self, P: ArrayLike, *, receipt: bool = False
    ) -> Array | tuple[Array, Receipts]:
        """:meth:`process_many` with the state as it is; nothing is learned."""
        played = self._play(self._rows_of(P), False, True, receipt)
        return played[:2] if receipt else played[0]  # type: ignore[no-any-return]

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
        receipt_rows.require_row(receipts, P, one=False)
        rows = at = None
        if P is not None:
            rows, at = self._rows_of(P), np.arange(len(labels))
            if len(rows) != len(labels):
                raise InvalidPrediction(
                    f"{len(rows)} rows but {len(labels)} rows of labels; give one per row"
                )
        known = None if receipts is None else self._receipts(receipts, len(labels))
        self._learn(rows, labels, at, known)

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
            y = self.row_of([k for k, v in y.items() if v], [k for k, v in y.items() if not v])
        labels = self._labels_of(np.asarray(y)[None])
        receipt_rows.require_row(receipt, p, one=True)
        if p is None:
            self._learn(None, labels, None, None)
            return
        rows = self._row_of(p)
        known = None if receipt is None else self._receipts(receipt, 1, single=True)
        self._learn(rows, labels, np.zeros(1, np.int64), known)

    def _learn(
        self,
        P: Array | None,
        Y: Labels,
        rows: NDArray[np.int64] | None,
        known: Receipts | None,
    ) -> None:
        first = 0 if P is None else len(P)
        self._model.play(P, first, Y, rows, None, known, False, False, False)

    def row_of(self, has: Iterable[Any], lacks: Iterable[Any] | None = None) -> Labels:
        """Labels as a row of 1, 0 and -1, int8 of shape (m,).

        Parameters
        ----------
        has
            Labels that the row has.
        lacks
            Labels that it does not have; by default all others. The rest is unknown.

        Raises
        ------
        UnknownClass
            A name is not one of the labels, or in both lists.
        """
        row = np.full(self.m, 0 if lacks is None else -1, np.int8)
        for name in () if lacks is None else lacks:
            row[self._column(name)] = 0
        for name in has:
            k = self._column(name)
            if lacks is not None and row[k] == 0:
                raise UnknownClass(f"label {name!r}: both had and lacked")
            row[k] = 1
        return row

    def _column(self, name: Any) -> int:
        try:
            return self._index[name]
        except (TypeError, UnknownClass):
            raise UnknownClass(
                f"label {name!r} is none of the {self.m} labels: {preview(self._labels)}"
            ) from None

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

    # ---- decisions

    @property
    def threshold(self) -> float:
        """Probability from which on to decide for a label so as to maximise F1: half the largest
        F1.

        Computed from the last one or two thousand corrected rows, all labels together, without
        known labels; renewed every 100 rows; 0.5 before the first. [4]_

        References
        ----------
        .. [4] Lipton, Elkan, Narayanaswamy: Optimal Thresholding of Classifiers to Maximize F1
           Measure. ECML PKDD 2014.
        """
        return float(self._numbers["threshold"][0])

    def decide(self, rows: ArrayLike) -> NDArray[np.bool_]:
        """Decide for the labels of corrected rows whose probability reaches :attr:`threshold`.

        A threshold of 0.5 on calibrated rows selects what is more likely than not; for rare labels
        that is next to nothing, and F1 suffers.

        Parameters
        ----------
        rows
            Corrected rows, shape (..., m).
        """
        return np.asarray(np.asarray(rows) >= self.threshold)

    # ---- checks

    def _rows_of(self, P: ArrayLike) -> Array:
        """Check and copy rows; a copy cannot change while the loop runs."""
        array = as_float64(P, self._index)
        if array.ndim != 2 or array.shape[1] != self.m:
            raise InvalidPrediction(
                f"predictions have shape {array.shape}, expected (n, {self.m}): one column per"
                " label"
            )
        array = np.array(array, order="C")
        if (bad_cell := outside(array)) is not None:
            row, column = bad_cell
            raise InvalidPrediction(f"row {row}: {self._why(array[row, column], column)}")
        return array

    def _row_of(self, p: ArrayLike) -> Array:
        array = as_float64(p, self._index)
        if array.shape != (self.m,):
            raise InvalidPrediction(
                f"prediction has shape {array.shape}, expected ({self.m},): one number per label"
            )
        array = np.array(array[None], order="C")
        if (bad_cell := outside(array)) is not None:
            raise InvalidPrediction(self._why(array[bad_cell], bad_cell[1]))
        return array

    def _why(self, value: float, column: int) -> str:
        return (
            f"the probability of label {self._labels[column]!r} is {value}, expected a number from"
            " 0 to 1"
        )

    def _labels_of(self, Y: ArrayLike) -> Labels:
        array = np.asarray(Y)
        if array.ndim != 2 or array.shape[1] != self.m or array.dtype.kind not in "iubf":
            raise UnknownClass(
                f"labels are {array.dtype} of shape {array.shape}, expected integers of shape"
                f" (n, {self.m}): 1, 0, or -1 where it is not known"
            )
        bad = np.argwhere((array != 1) & (array != 0) & (array != -1))
        if len(bad):
            row, column = bad[0].tolist()
            raise UnknownClass(
                f"row {row}: label {self._labels[column]!r} is {array[row, column]}, expected 1, 0,"
                " or -1 where it is not known"
            )
        return np.array(array, np.int8, order="C")

    def _receipts(self, receipts: ArrayLike, n: int, *, single: bool = False) -> Receipts:
        return receipt_rows.checked(receipts, (n, 2 * self.m), one=single, most=1)

    # ---- snapshots

    def to_bytes(self) -> bytes:
        """Encode the state with its settings, versioned and checksummed."""
        head = MultiLabelHead(
            1, list(self._labels), None if self._counts is None else self._counts.tolist(),
            self._rows, self._half_life,
        )  # fmt: skip
        return snapshot.encode(msgspec.to_builtins(head), self._model.dump())

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
            expected = cls(head.labels, train_counts=train_counts, train_rows=train_rows)
            counts = [
                None if corrector._counts is None else corrector._counts.tolist()
                for corrector in (self, expected)
            ]
            if (counts[0], self._rows) != (counts[1], expected._rows):
                raise SnapshotMismatch(
                    f"snapshot: train_counts {counts[0]} of {self._rows} rows, expected {counts[1]}"
                    f" of {expected._rows}"
                )
        _check_arrays(arrays, self.m)
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
        arrays, d = self._model.dump(), float(discount)
        of = _numbers_of(arrays["numbers"])
        label = dict(zip(OF_LABELS, arrays["labels"], strict=True))
        for name in ("temperature", "vector"):
            of[name][:] = balanced(of[name], of[f"{name}_Q"], d, PRECISIONS[name])
        for name, curvature in (("c", "H"), ("s", "H_s")):
            a = PRECISIONS[name]
            label[name] *= d * (label[curvature] + a) / (d * label[curvature] + a)
        for name, number in of.items():
            if name not in ("temperature", "vector", "weights", "threshold"):
                number *= d
        for name in ("n_predictions", "n_labels", "n_learned"):
            of[name][:] = np.floor(of[name])
        for name, numbers in label.items():
            if name not in ("c", "s", "L", "L_N"):
                numbers *= d
        arrays["bins"] *= d
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

    # ---- inspection

    @property
    def labels(self) -> tuple[Any, ...]:
        """Names of the labels, in column order."""
        return self._labels

    @property
    def m(self) -> int:
        """Number of labels."""
        return len(self._labels)

    @property
    def half_life(self) -> float:
        """Number of events after which knowledge counts half."""
        return self._half_life

    @property
    def train_shares(self) -> Array:
        """Share of training rows with each label, shape (m,); 0.5 where unknown."""
        if self._counts is None or self._rows is None:
            return np.full(self.m, 0.5)
        return np.asarray((self._counts + 0.5) / (self._rows + 1))

    @property
    def n_predictions(self) -> int:
        """Number of predictions observed."""
        return self._model.n_predictions

    @property
    def n_labels(self) -> int:
        """Number of rows of labels learned, with or without prediction, at least one label
        known."""
        return self._model.n_labels

    @property
    def label_counts(self) -> Array:
        """Decayed counts of each label, known and yes: shape (2, m)."""
        of = dict(zip(OF_LABELS, self._model.dump()["labels"], strict=True))
        return np.array([of["L_N"], of["L"]])

    @property
    def label_mix(self) -> Array:
        """Estimated frequency of each label, shape (m,), from its labels and from training."""
        known, yes = self.label_counts
        return np.asarray((yes + STRENGTH * self.train_shares) / (known + STRENGTH))

    @property
    def effective_sample_size(self) -> float:
        """Decayed number of times that the most often known label was known."""
        return float(self.label_counts[0].max())

    @property
    def temperature(self) -> float:
        """Temperature of that path, above 1 for an overconfident classifier."""
        return math.exp(-float(self._numbers["temperature"][0]))

    @property
    def weights(self) -> dict[str, float]:
        """{path: its weight in the mixture}; they sum to 1."""
        return dict(zip(PATHS, self._numbers["weights"].tolist(), strict=True))

    @property
    def final_weights(self) -> dict[str, float]:
        """Weights of "anchor" and "mixture" in the output; they sum to 1."""
        odds = float(self._numbers["odds"][0])
        share = 1 / (1 + math.exp(-min(max(odds, -700.0), 700.0)))
        return {"anchor": 1 - share, "mixture": share}

    @property
    def _numbers(self) -> dict[str, Array]:
        return _numbers_of(self._model.dump()["numbers"])


def _numbers_of(numbers: Array) -> dict[str, Array]:
    """Views of a state's numbers, by name."""
    at = np.cumsum([0, *NUMBERS.values()])
    return {n: numbers[a:b] for n, a, b in zip(NUMBERS, at[:-1], at[1:], strict=True)}


def _check_arrays(arrays: dict[str, NDArray[Any]], m: int) -> None:
    """Check that arrays of a snapshot are usable; raise SnapshotMismatch otherwise."""
    shapes = {
        "numbers": (sum(NUMBERS.values()),), "labels": (len(OF_LABELS), m), "bins": (2, BINS),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = arrays.get(name)
        if array is None or array.dtype != np.float64 or array.shape != shape:
            raise SnapshotMismatch(f"snapshot: a corrector of several labels without its {name}")
        if not (np.abs(array) <= 1e18).all():  # also false for NaN
            raise SnapshotMismatch(f"snapshot: {name} out of range")
    of = _numbers_of(arrays["numbers"])
    label = dict(zip(OF_LABELS, arrays["labels"], strict=True))
    signed = {"temperature", "vector", "vector_Q", "odds"}
    wrong = {
        "numbers": any((of[n] < 0).any() for n in NUMBERS if n not in signed)
        or (of["vector_Q"][[0, 4, 7, 9]] < 0).any()
        or (np.abs(of["temperature"]) > 2).any()
        or (np.abs(of["vector"]) > 5).any()
        or not abs(of["weights"].sum() - 1) < 1e-6
        or of["threshold"][0] > 1,
        "labels": any((label[n] < 0).any() for n in OF_LABELS if n not in ("c", "s"))
        or (label["M"] > of["rows"][0] + 1e-6).any()
        or (label["L"] > label["L_N"] + 1e-6).any()
        or (np.abs(label["c"]) > 6).any()
        or (label["s"] < -0.8).any()
        or (label["s"] > 1.5).any(),
        "bins": (arrays["bins"] < 0).any() or (arrays["bins"][1] > arrays["bins"][0] + 1e-6).any(),
    }  # fmt: skip
    for name, bad in wrong.items():
        if bad:
            raise SnapshotMismatch(
                f"snapshot: {name} of a corrector of several labels out of range"
            )
