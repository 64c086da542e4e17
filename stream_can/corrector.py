"""Corrector: checks its input, owns the state arrays, calls the compiled kernel."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple, Self, Unpack, overload

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch, StreamCANError, UnknownClass
from stream_can.method import paths as path_names
from stream_can.method import receipts as receipt_rows
from stream_can.method import validation
from stream_can.method.classes import ClassIndex, ClassName, class_names
from stream_can.method.kernel import Kernel, Mode, Model, inside
from stream_can.method.prior import laplace
from stream_can.method.promise import miss_of
from stream_can.method.rows import names_of, unordered
from stream_can.method.segments import Texts, column_names, text_of, texts_of
from stream_can.method.settings import (
    LOOP,
    CorrectorKeywords,
    check_settings,
    settings_of,
    takes_settings,
)
from stream_can.method.state import (
    JUDGED,
    LATE,
    MOVING,
    SHARED,
    WEIGHTS,
    WITH_COLUMNS,
    State,
    bytes_needed,
    check_state,
    check_values,
    grown,
    judged,
    new_sets,
    new_state,
    start_weights,
)
from stream_can.method.successor import successor
from stream_can.method.values import Values
from stream_can.row_kinds import read_snapshot

__all__ = ["Corrector"]

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]


class Played(NamedTuple):
    """Result of :meth:`Corrector.play`."""

    rows: Array
    """Corrected rows, shape (n, m)."""
    receipts: Receipts | None
    """Receipts of the rows, shape (n, R m + 1), if requested; R is ``n_sent``."""
    paths: Array | None
    """Rows of each path, shape (paths, n, m), if requested."""


OWN = ("_fewest", "_settings", "_kernel")
"""Attributes of a Corrector itself; subclasses may have more."""


class Content(NamedTuple):
    """Settings that ``fit`` or a new class replaces together with the arrays, in one step."""

    classes: tuple[Any, ...]
    train_counts: Array | None
    paths: tuple[str, ...]
    fit_report: validation.FitReport | None
    columns: tuple[str, ...] = ()
    sets: float | None = None

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


@takes_settings
class Corrector:
    """Corrects a classifier's probability vectors as they stream by and learns from late labels.

    Each row costs O(m) for m classes, and up to 256 classes m^2 multiplications more, which the
    path ``full`` takes. The output is a Bayesian mixture of up to eleven paths: the row unchanged
    and recalibrated by online temperature, vector and matrix scaling [2]_, each with and without
    Classification with Alternating Normalization [1]_, and by three bases more without it, weighted
    by how well each has predicted the labels so far. Without labels the output hardly differs from
    the input.

    Parameters
    ----------
    classes
        Names of the classes in column order (str, int of 64 bits, float or bool), or their number m
        for 0..m-1. A member of a str or int Enum stands for its value.
    train_counts
        Training rows per class: shape (m,), or {class: count}; uniform by default.
    **settings
        Those of :class:`stream_can.CorrectorKeywords`.

    Raises
    ------
    ValueError
        An argument is out of range; the message names it.

    References
    ----------
    .. [1] Jia, Reiter, Lim, Artzi, Cardie: When in Doubt: Improving Classification Performance with
       Alternating Normalization. Findings of EMNLP 2021.
    .. [2] Guo, Pleiss, Sun, Weinberger: On Calibration of Modern Neural Networks. ICML 2017.

    Examples
    --------
    >>> corrector = Corrector(["fraud", "fine"], train_counts=[100, 900])
    >>> p = [0.45, 0.55]
    >>> better = corrector.process_one(p)
    >>> corrector.learn_one(p, "fraud")  # the label arrived, now or much later
    >>> corrector.n_labels
    1
    """

    row_kind = "dense"

    def __init__(
        self,
        classes: int | Iterable[Hashable],
        *,
        train_counts: ArrayLike | Mapping[Any, float] | None = None,
        **settings: Unpack[CorrectorKeywords],
    ) -> None:
        names = class_names(classes)
        self._fewest = m = len(names)
        index = ClassIndex(names)
        counts = None if train_counts is None else _counts_in_order(train_counts, index)
        given = settings_of(settings)
        paths = given.paths
        own = path_names.default_paths(m) if paths is None else path_names.in_order(paths)
        self._settings = {name: getattr(given, name) for name in LOOP}
        columns = column_names(given.segments or ())
        if columns:
            own = path_names.segmented(own)
        if (needed := bytes_needed(m, own, len(columns))) > given.max_mb * (1 << 20):
            raise ValueError(
                f"classes: {m:,} take {needed >> 20:,} MB, and max_mb is {given.max_mb:g}; of very"
                " many classes of which the classifier sends the likeliest,"
                " stream_can.sparse.SparseCorrector keeps what those need"
            )
        content = Content(names, counts, own, None, columns, given.sets)
        values = Values(columns, m, _bytes_of(given.segments_mb)) if columns else None
        state = new_state(m, own, len(columns)) | ({} if given.sets is None else new_sets())
        self._begin(state, content, index, values)

    def _begin(
        self, state: State, content: Content, index: ClassIndex, values: Values | None
    ) -> None:
        """Replace the arrays in use."""
        self._kernel = Kernel(self._model(state, content, values), state, content, index)

    def _model(self, state: State, content: Content, values: Values | None) -> Model:
        """Create the compiled model, which works on these arrays in place."""
        m, settings = len(content.classes), dict(self._settings)
        for name in ("pseudo_count", "prior_strength"):
            settings[name] = m if settings[name] is None else settings[name]
        return Model(
            m,
            content.paths,
            state,
            train=content.train_prior,
            start_weights=start_weights(content.paths),
            values=values,
            miss=0 if content.sets is None else miss_of(content.sets),
            **settings,
        )

    @property
    def _content(self) -> Content:
        return self._kernel.content  # type: ignore[no-any-return]

    @property
    def _index(self) -> ClassIndex:
        return self._kernel.index  # type: ignore[no-any-return]

    @property
    def _state(self) -> State:
        return self._kernel.state

    @property
    def _values(self) -> Values | None:
        """A copy of the column values."""
        return self._kernel.copied()[3]

    def _texts(self, segments: Any, *, many: bool = True) -> Texts | None:
        """Texts of the column values of rows, or of one row; callers skip it for a single row
        without columns."""
        return None if segments is None else texts_of(self._content.columns, segments, many=many)

    # ---- rows

    def correct_one(self, p: ArrayLike, *, segments: Any = None) -> Array:
        """Correct a row without learning from it.

        Parameters
        ----------
        p
            Probabilities, shape (m,): finite, >= 0, sum within 0.001 of 1 (and divided by it). With
            class names: {class: p}, a Series; for many rows a DataFrame.

        Returns
        -------
        A new float64 array, shape (m,), that sums to 1.

        Raises
        ------
        InvalidPrediction
            ``p`` is anything else.
        """
        texts = None if segments is None else self._texts(segments, many=False)
        return self._kernel.rows(p, 1, Mode.CORRECT, False, texts)  # type: ignore[no-any-return]

    @overload
    def correct_many(
        self, P: ArrayLike, *, receipt: Literal[False] = False, segments: Any = None
    ) -> Array: ...
    @overload
    def correct_many(
        self, P: ArrayLike, *, receipt: Literal[True], segments: Any = None
    ) -> tuple[Array, Receipts]: ...
    def correct_many(
        self, P: ArrayLike, *, receipt: bool = False, segments: Any = None
    ) -> Array | tuple[Array, Receipts]:
        """Correct rows, shape (n, m), without learning; see :meth:`correct_one`.

        With ``receipt`` also return their receipts, for :meth:`learn_many` of a corrector that
        observes the rows; see :meth:`Learner.play_sent <stream_can.Learner.play_sent>`. For
        prediction sets they record the number of rows in the state.
        """
        n = self.set_counts[0] if receipt and self.sets is not None else None
        found = self._kernel.rows(P, 2, Mode.CORRECT, receipt, self._texts(segments))
        if n is not None:
            receipt_rows.number(found[1], n)
        return found  # type: ignore[no-any-return]

    def observe_one(self, p: ArrayLike, *, segments: Any = None) -> None:
        """Observe an unlabelled prediction, shape (m,): CAN learns from confident ones.

        Raises
        ------
        InvalidPrediction
            ``p`` is not a probability vector; nothing was learned.
        """
        texts = None if segments is None else self._texts(segments, many=False)
        self._kernel.rows(p, 1, Mode.OBSERVE, False, texts)

    def observe_many(self, P: ArrayLike, *, segments: Any = None) -> None:
        """Run :meth:`observe_one` on each row of ``P``, shape (n, m); all rows are checked
        first."""
        self._kernel.rows(P, 2, Mode.OBSERVE, texts=self._texts(segments))

    @overload
    def process_one(
        self, p: ArrayLike, *, receipt: Literal[False] = False, segments: Any = None
    ) -> Array: ...
    @overload
    def process_one(
        self, p: ArrayLike, *, receipt: Literal[True], segments: Any = None
    ) -> tuple[Array, Receipts]: ...
    def process_one(
        self, p: ArrayLike, *, receipt: bool = False, segments: Any = None
    ) -> Array | tuple[Array, Receipts]:
        """Correct, then observe: the call for each prediction of a stream.

        Parameters
        ----------
        p
            Probabilities, shape (m,), as for :meth:`correct_one`.
        receipt
            Also return what the corrected row was mixed from. Where labels come late, keep it with
            ``p`` and pass it to :meth:`learn_one`: then the row that was sent is judged, not the
            one that would be sent by then.
        segments
            {column: value} of the declared columns. A value is a text, an integer or a boolean; 12,
            12.0 and "12" are equal. None, NaN or a missing column: not given.

        Returns
        -------
        The corrected row: a new float64 array, shape (m,). With ``receipt`` a second array, float32
        of shape (R m + 1,): the R rows that it was mixed from (named by ``final_weights``),
        concatenated, and the likeliest class's probability before calibration.

        Raises
        ------
        InvalidPrediction
            ``p`` is not a probability vector; nothing was learned.
        ValueError
            A column is not declared, or a value is invalid.
        """
        texts = None if segments is None else self._texts(segments, many=False)
        return self._kernel.rows(p, 1, Mode.PROCESS, receipt, texts)  # type: ignore[no-any-return]

    @overload
    def process_many(
        self, P: ArrayLike, *, receipt: Literal[False] = False, segments: Any = None
    ) -> Array: ...
    @overload
    def process_many(
        self, P: ArrayLike, *, receipt: Literal[True], segments: Any = None
    ) -> tuple[Array, Receipts]: ...
    def process_many(
        self, P: ArrayLike, *, receipt: bool = False, segments: Any = None
    ) -> Array | tuple[Array, Receipts]:
        """Run :meth:`process_one` on each row of ``P``, shape (n, m), in order.

        The bits are the same, but all rows are checked before the first is processed. With
        ``receipt`` a second array, float32 of shape (n, R m + 1). ``segments`` is {column: n
        values}, or a DataFrame with these columns. Ctrl-C interrupts between two rows;
        ``n_predictions`` tells how many were processed.
        """
        return self._kernel.rows(P, 2, Mode.PROCESS, receipt, self._texts(segments))  # type: ignore[no-any-return]

    def explain_one(self, p: ArrayLike, *, segments: Any = None) -> dict[str, Array]:
        """The rows of each path, {path: shape (m,)}, without learning."""
        rows, content = self._kernel.rows(
            p, 1, Mode.EXPLAIN, texts=self._texts(segments, many=False)
        )
        return dict(zip(content.paths, rows, strict=True))

    def explain_many(self, P: ArrayLike, *, segments: Any = None) -> dict[str, Array]:
        """The rows of each path, {path: shape (n, m)}, without learning."""
        rows, content = self._kernel.rows(P, 2, Mode.EXPLAIN, texts=self._texts(segments))
        return dict(zip(content.paths, rows, strict=True))

    # ---- labels

    def learn_one(
        self,
        p: ArrayLike | None,
        y: Hashable,
        *,
        receipt: ArrayLike | None = None,
        segments: Any = None,
    ) -> None:
        """Learn the label of a prediction, now or much later.

        The row that was sent is judged first; then the paths are weighted by the probability that
        each now gives ``y``; then the bases and the prior learn it.

        Parameters
        ----------
        p
            The classifier's own prediction (not the corrected one), shape (m,); None where it is
            gone: then the label teaches the prior alone.
        y
            Name of the class.
        receipt
            The receipt that :meth:`process_one` returned with this prediction, shape (R m + 1,). If
            it is None or NaN, or has other rows because it is older than :meth:`fit`, the rows are
            judged as they would be now.
        segments
            {column: value} as given with the prediction; without ``p`` it teaches nothing.

        Raises
        ------
        InvalidPrediction, UnknownClass
            An argument is invalid; nothing was learned.
        """
        index = self._index_of(y, "label")
        receipt_rows.require_row(receipt, p, one=True)
        known = None
        if receipt is not None:
            m, n_sent, sets = len(self.classes), self._kernel.n_sent, self.sets is not None
            known = receipt_rows.brought_one(receipt, index, m, self._fewest, n_sent, sets=sets)
        texts = None if segments is None else self._texts(segments, many=False)
        self._kernel.learn_one(p, index, known, texts)

    def learn_many(
        self,
        P: ArrayLike | None,
        ys: Iterable[Hashable],
        *,
        receipts: ArrayLike | None = None,
        segments: Any = None,
    ) -> None:
        """Run :meth:`learn_one` on each row of ``P``, shape (n, m), or None, and label of ``ys``.

        All rows and labels are checked before the first is learned. ``receipts`` has shape
        (n, R m + 1), with NaN rows for unknown ones.
        """
        indices = self._indices_of(ys)
        receipt_rows.require_row(receipts, P, one=False)
        known = None if receipts is None else self._known(receipts, indices)
        self._kernel.learn_many(P, indices, known, self._texts(segments))

    def _known(self, brought: ArrayLike, ys: NDArray[np.int64]) -> NDArray[np.float32]:
        """Probabilities that receipts gave their labels, shape (n, R + 1)."""
        m, n_sent, sets = len(self.classes), self._kernel.n_sent, self.sets is not None
        return receipt_rows.brought(brought, ys, m, self._fewest, n_sent, sets=sets)

    def play(
        self,
        P: ArrayLike,
        ys: NDArray[np.int64],
        rows: NDArray[np.int64],
        due: NDArray[np.int64],
        *,
        first: int = 0,
        known: NDArray[np.float32] | None = None,
        receipt: bool = False,
        explain: bool = False,
        segments: Any = None,
    ) -> Played:
        """Process rows and learn labels in one call; used by replays and learners.

        Parameters
        ----------
        P
            Rows, shape (first + n, m): ``first`` that were processed before and whose labels arrive
            now, and n to process.
        ys
            Labels in the order to learn them, shape (k,): indices of classes.
        rows
            For each label its row of ``P``, shape (k,); -1 where the prediction is gone.
        due
            For each label the row among the n before which it is learned, shape (k,), ascending; n
            is after the last. A label cannot be due before its own row.
        first
            Number of rows of ``P`` that were processed before.
        known
            Numbers that each prediction's receipt gave its label, float32 of shape (k, R + 1), see
            ``stream_can.method.receipts``; NaN where unknown. Not needed for rows of this call if
            ``receipt`` is true.
        receipt
            Whether to return receipts, and to judge labels of this call's rows by them.
        explain
            Whether to return the rows of each path.

        Returns
        -------
        The same bits as :meth:`process_one` and :meth:`learn_one` in that order.

        Raises
        ------
        InvalidPrediction, ValueError
            A row is not a probability vector, or an index is out of range; nothing was learned.
        """
        numbers = (_int64(ys, "ys"), _int64(rows, "rows"), _int64(due, "due"))
        if known is not None:
            known = _float32(known)
        texts = self._texts(segments)
        return Played(*self._kernel.play(P, first, *numbers, known, receipt, explain, texts))

    # ---- prediction sets

    def predict_set_one(self, p: ArrayLike, *, segments: Any = None) -> list[Any]:
        """Predict the set of classes that a row, shape (m,), can have, with the coverage ``sets``.

        Nothing is counted: this is the set with which the row would be sent now.

        Returns
        -------
        Names of classes, the likeliest first; that one is always included.

        Raises
        ------
        InvalidPrediction
            The row is not a probability vector.
        ValueError
            The corrector makes no sets.
        """
        self._require_sets("predict_set_one")
        texts = None if segments is None else self._texts(segments, many=False)
        return self.set_of(*self._kernel.rows(p, 1, Mode.CORRECT, True, texts))

    def predict_set_many(self, P: ArrayLike, *, segments: Any = None) -> NDArray[np.bool_]:
        """:meth:`predict_set_one` for each row of ``P``, shape (n, m), as booleans of the same
        shape."""
        self._require_sets("predict_set_many")
        found = self._kernel.rows(P, 2, Mode.CORRECT, True, self._texts(segments))
        return self.sets_of(*found)

    def set_of(self, row: ArrayLike, receipt: ArrayLike) -> list[Any]:
        """The set with which a row was sent, from the results of :meth:`process_one`.

        Parameters
        ----------
        row
            The corrected row, shape (m,).
        receipt
            Its receipt.

        Returns
        -------
        Names of classes, the likeliest first.

        Raises
        ------
        ValueError
            The corrector makes no sets, or the receipt has none.
        """
        sent = np.asarray(row, np.float32)
        (has,) = self.sets_of(sent[None], np.asarray(receipt)[None])
        return _inside(self.classes, sent, has)

    def _set_now(self, classes: Sequence[Any], row: ArrayLike) -> list[Any]:
        """The set of a row of these classes, possibly fewer than the corrector's, without
        correcting or counting it."""
        self._require_sets("predict_set_one")
        sent = np.array(row, np.float32)
        theta = np.array([self._kernel.theta(sent)], np.float32)
        return _inside(classes, sent, inside(sent[None], theta)[0])

    def sets_of(self, rows: ArrayLike, receipts: ArrayLike) -> NDArray[np.bool_]:
        """Whether each class is in the set with which each row, shape (n, m), was sent."""
        self._require_sets("sets_of")
        sent, receipts = np.ascontiguousarray(rows, np.float32), np.asarray(receipts, np.float32)
        n, m = sent.shape
        if receipts.shape != (n, receipt_rows.size(m, self.n_sent, sets=True)):
            raise ValueError(f"receipts of shape {receipts.shape} say nothing of sets")
        thetas = receipt_rows.thetas_of(receipts)
        if np.isnan(thetas).any():
            raise ValueError(f"receipt of row {int(np.isnan(thetas).argmax())} knows no set")
        found: NDArray[np.bool_] = inside(sent, thetas)
        return found

    def _require_sets(self, what: str) -> None:
        if self.sets is None:
            raise ValueError(f"{what}: nothing was promised; make it with sets=0.9")

    def fit(self, P: ArrayLike, ys: Iterable[Hashable], *, segments: Any = None) -> None:
        """Learn from validation data before the stream starts, so that the first row benefits.

        Adds two paths, ``fitted`` and ``fitted+can``: a recalibration fitted to these rows and
        frozen, with an estimate of the stream's class mix that needs no labels. The other bases and
        the prior learn the rows once, as labels.

        Parameters
        ----------
        P
            Predictions of the deployed classifier on rows outside its training set, shape (n, m).
        ys
            Their labels: n names of classes.
        segments
            {column: n values} of the declared columns.

        Raises
        ------
        StreamCANError
            The stream has started, or ``fit`` was called before.
        ValueError
            Fewer than two classes have rows.
        InvalidPrediction, UnknownClass
            A row or label is invalid. Nothing was learned, whatever the error.

        Warns
        -----
        UserWarning
            A class has no row: ``fit`` cannot help it.
        """
        state, changes, values = self._before_fit()
        content = self._content
        # Warnings are issued here, before anything changes and without holding the lock.
        indices = self._indices_of(ys)
        fitted = validation.fit(P, indices, content.classes, content.train_prior)
        paths = (*content.paths, *path_names.FITTED_PATHS)
        after = content._replace(paths=paths, fit_report=fitted.report)
        # The fitted base follows the class mix itself, and a single path is no longer single.
        state = {name: array for name, array in state.items() if name not in MOVING}
        state |= fitted.state | judged(len(content.classes))
        state |= dict(zip(WEIGHTS, start_weights(paths), strict=False))
        bare = after._replace(sets=None)  # these labels teach no sets; see below
        # Weights, guards and the judging of sent rows ignore these labels.
        hidden = {*SHARED, *WITH_COLUMNS, *JUDGED, *LATE} - {"labels"}
        unseen = {name: array.copy() for name, array in state.items() if name in hidden}
        kernel = Kernel(self._model(state, bare, values), state)
        kernel.learn_many(fitted.rows, fitted.labels, None, fitted.in_order(self._texts(segments)))
        state |= unseen
        if values is not None:
            values.forget_odds()
        model = self._model(state, after, values)
        if after.sets is not None:
            # As if labels came at once: sets from rows without labels would all err alike.
            kernel, texts = Kernel(model, state, after, self._index), self._texts(segments)
            model.teach_sets(kernel.rows(P, 2, Mode.CORRECT, texts=texts), indices)
        while not self._kernel.replace(model, state, after, self._index, changes):
            _, changes, _ = self._before_fit()

    def _before_fit(self) -> tuple[State, int, Values | None]:
        """Copies of the arrays, their number of changes, and the column values.

        Raise where something has been learned.
        """
        content, state, changes, values = self._kernel.copied()
        if content.fit_report is not None:
            raise StreamCANError(
                "fit: called a second time; make a new Corrector to fit other rows"
            )
        if state["counts"].any():
            raise StreamCANError(
                "fit: the stream has started; call fit before the first prediction or label"
            )
        return state, changes, values

    def _index_of(self, y: Hashable, where: str) -> int:
        try:
            return self._kernel.index.column(y)  # type: ignore[no-any-return]
        except UnknownClass as error:
            raise UnknownClass(f"{where} {error}") from None

    def _indices_of(self, ys: Iterable[Hashable]) -> NDArray[np.int64]:
        """Index of each label's class. If the classes are 0..m-1, an array of integers is checked
        as a whole."""
        if isinstance(ys, str):
            raise UnknownClass(f"labels: expected one name per row, got the string {ys!r}")
        if unordered(ys) or isinstance(ys, Mapping) or hasattr(ys, "columns"):
            raise UnknownClass(f"labels: {type(ys).__name__}, expected one name per row, in order")
        array = ys if isinstance(ys, np.ndarray) else None
        if array is not None and array.ndim != 1:
            raise UnknownClass(f"labels have shape {array.shape}, expected (n,)")
        if array is not None and array.dtype.kind in "iu" and self._index.is_range:
            outside = np.flatnonzero((array < 0) | (array >= len(self.classes)))
            if len(outside):
                self._index_of(array[outside[0]].item(), f"label of row {outside[0]}")
            return np.array(array, np.int64)
        names = array.tolist() if array is not None else ys
        return np.fromiter(
            (self._index_of(y, f"label of row {i}") for i, y in enumerate(names)), np.int64
        )

    def _add_class(self, name: Hashable) -> None:
        """Append an unknown class: zero rows and columns, weights kept."""
        while True:
            content, state, changes, values = self._kernel.copied()
            if content.fit_report is not None:
                raise StreamCANError(
                    "a fitted corrector cannot take another class: its validation rows lacked it"
                )
            names = (*content.classes, *class_names([name]))
            index = ClassIndex(names)  # raises for a name that exists
            counts = content.train_counts
            counts = None if counts is None else np.append(counts, 0.0)
            after = content._replace(classes=names, train_counts=counts)
            state = grown(state)
            values = None if values is None else values.grown(len(names))
            model = self._model(state, after, values)
            if self._kernel.replace(model, state, after, index, changes):
                return

    # ---- snapshots

    def to_bytes(self) -> bytes:
        """Serialise the state with its classes and settings, versioned and checksummed; no
        pickle."""
        content, state, _, values = self._kernel.copied()
        counts = content.train_counts
        head = {
            "classes": list(content.classes),
            "train_counts": None if counts is None else counts.tolist(),
            "paths": list(content.paths),
            "settings": dict(self._settings),
            "fit": content.fit_report,
        }
        if values is not None:
            names, state["values"] = values.dump()
            head["segments"] = SegmentsHead(list(content.columns), values.limit, names)
        if content.sets is not None:
            head["sets"] = content.sets
        return snapshot.encode(head, state)

    @classmethod
    def from_bytes(
        cls, data: bytes, classes: int | Iterable[Hashable] | None = None, **settings: Any
    ) -> Self:
        """Load :meth:`to_bytes`; the corrector continues bit for bit.

        Parameters
        ----------
        data
            The result of ``to_bytes``.
        classes
            If given, the snapshot must have these classes.
        **settings
            Replace the snapshot's; ``paths``, ``segments`` and ``train_counts`` must equal them.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version, or have other classes or paths.
        """
        head, state = read_snapshot(data, "paths", CorrectorHead)
        self = cls.__new__(cls)
        state, content, values = self._restore(head, state)
        self._fewest = len(content.classes)
        if classes is not None:
            snapshot.match("classes", content.classes, class_names(classes))
        counts = settings.pop("train_counts", None)
        given = check_settings({k: v for k, v in settings.items() if v is not None or k in LOOP})
        if "paths" in given:
            own = path_names.own(content.paths)
            snapshot.match("paths", own, path_names.in_order(path_names.own(given["paths"])))
        if counts is not None:
            want = _counts_in_order(counts, ClassIndex(content.classes))
            own_counts = content.train_counts
            have = () if own_counts is None else tuple(own_counts.tolist())
            snapshot.match("train_counts", have, tuple(want.tolist()))
        if "segments" in given:
            snapshot.match("columns", content.columns, column_names(given["segments"]))
        if "segments_mb" in given and values is not None:
            values.limit = _bytes_of(given["segments_mb"])
        if "sets" in given and given["sets"] != content.sets:
            content = content._replace(sets=given["sets"])  # another coverage: they start over
            state |= new_sets()
        self._settings |= {name: given[name] for name in LOOP if name in given}
        self._begin(state, content, ClassIndex(content.classes), values)
        return self

    def _restore(self, head: CorrectorHead, state: State) -> tuple[State, Content, Values | None]:
        """Check a snapshot's content like arguments."""
        try:
            names = class_names(head.classes)
            index = ClassIndex(names)
            counts = head.train_counts
            in_order = None if counts is None else _counts_in_order(counts, index)
            paths = path_names.in_order(path_names.own(head.paths))
            columns = () if head.segments is None else column_names(head.segments.columns)
            if columns:
                paths = path_names.segmented(paths)
            if head.fit is not None:
                paths = (*paths, *path_names.FITTED_PATHS)
            if list(paths) != head.paths:
                raise ValueError(f"paths: {head.paths}, expected {list(paths)}")
            if strange := head.settings.keys() ^ set(LOOP):
                raise ValueError(f"settings: {min(strange)!r} is missing or unknown")
            self._settings = check_settings(head.settings)
            values = None
            if head.segments is not None and columns:
                if not 0 < head.segments.limit < 1 << 53:
                    raise ValueError(f"segments: {head.segments.limit} bytes")
                values = Values(columns, len(names), head.segments.limit)
                known = [(column, text_of(text) or "") for column, text in head.segments.values]
                values.load(known, check_values(state.pop("values", np.empty((0, 0)))))
            check_settings({"sets": head.sets})
            check_state(state, len(names), paths, len(columns), head.sets is not None)
        except ValueError as error:
            raise SnapshotMismatch(f"snapshot: {error}") from None
        content = Content(names, in_order, paths, head.fit, columns, head.sets)
        return state, content, values

    def successor(self, discount: float = 0.1) -> Self:
        """Create the corrector with which a new version of the classifier starts.

        A retrained version errs much like its predecessor, but not exactly. So what was learned
        stays as a belief, but its evidence is discounted: labels of the new version change it as
        soon as they would change a corrector with ``discount`` times the evidence. The class mix of
        the labels and the weights of the paths are kept. The result of :meth:`fit` belongs to the
        old classifier and is left out; to fit the new one, use ``successor(0)``, which has seen
        nothing yet. docs/method.md, "A new version of the classifier", has the formula.

        Parameters
        ----------
        discount
            Factor of the evidence, from 0 (only the class mix and the weights of the paths are
            kept) to 1 (a copy without the result of ``fit``).

        Returns
        -------
        A new corrector with the same classes, settings and columns; this one is unchanged. Labels
        of its own predictions still belong to it.

        Raises
        ------
        ValueError
            ``discount`` is not from 0 to 1.

        Examples
        --------
        >>> old = Corrector(["fraud", "fine"])
        >>> old.learn_many([[0.6, 0.4]] * 200, ["fraud", "fine", "fine", "fine"] * 50)
        >>> new = old.successor()
        >>> new.n_labels
        20
        >>> [corrector.correct_one([0.6, 0.4])[1].round(2).item() for corrector in (old, new)]
        [0.66, 0.59]
        """
        if not (
            isinstance(discount, Real) and not isinstance(discount, bool) and 0 <= discount <= 1
        ):
            raise ValueError(f"discount: {discount!r}, expected a number from 0 to 1")
        head, state = snapshot.decode(self.to_bytes())
        values = state.pop("values", None)
        own = tuple(head["paths"])
        columns = len(head["segments"]["columns"]) if "segments" in head else 0
        state, own = successor(state, len(head["classes"]), own, columns, float(discount))
        if values is not None:
            state["values"] = discount * values
        if self.sets is not None:
            state |= new_sets()
        head |= {"paths": list(own), "fit": None}
        return type(self).from_bytes(snapshot.encode(head, state))

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copy and pickle: the bytes, and attributes of subclasses."""
        more = {name: value for name, value in vars(self).items() if name not in OWN}
        if self._fewest < len(self.classes):
            more["_fewest"] = self._fewest
        return type(self).from_bytes, (self.to_bytes(),), more or None

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.classes)} classes, "
            f"{self.n_predictions} predictions, {self.n_labels} labels)"
        )

    # ---- inspection

    @property
    def classes(self) -> tuple[Any, ...]:
        """Names of the classes, in column order."""
        return self._content.classes

    @property
    def paths(self) -> tuple[str, ...]:
        """Names of the paths in the mixture, in order."""
        return self._content.paths

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as given; None stands for the default m."""
        return dict(self._settings)

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the declared columns."""
        return self._content.columns

    def segment_values(self, column: str) -> dict[str, float]:
        """{value: log odds} of a column's labelled values, oldest label first.

        Positive odds mean that the value's labels support what its column says, in nats.
        """
        values = self._values
        if values is None or column not in values.columns:
            raise ValueError(f"column {column!r} was not declared; declared: {self.segments}")
        k, (names, numbers) = values.columns.index(column), values.dump()
        return {
            text: row[-1].item() for (of, text), row in zip(names, numbers, strict=True) if of == k
        }

    @property
    def evicted_values(self) -> int:
        """Number of values dropped because ``segments_mb`` was full, since this object exists."""
        values = self._values
        return 0 if values is None else values.evicted

    @property
    def sets(self) -> float | None:
        """Coverage that prediction sets promise; None without sets."""
        return self._content.sets

    @property
    def set_counts(self) -> tuple[int, int]:
        """Numbers of rows and labels seen by the sets."""
        return self._kernel.set_counts if self.sets is not None else (0, 0)

    @property
    def n_sent(self) -> int:
        """R, the number of rows in a receipt, those of ``final_weights``; 3 for a single path."""
        return self._kernel.n_sent

    @property
    def prior(self) -> Array:
        """Current class prior, shape (m,)."""
        return self._kernel.prior

    @property
    def train_prior(self) -> Array:
        """Class prior of the training set, shape (m,)."""
        return self._content.train_prior

    @property
    def temperature(self) -> float:
        """Temperature of the path of that name, above 1 for an overconfident classifier.

        1 where that path is not in use.
        """
        u = self._state.get("u.temperature")
        return 1.0 if u is None else math.exp(-u[0])

    @property
    def last_temperature(self) -> float:
        """Temperature of the tempered mixture, below 1 where the mixture is underconfident."""
        return math.exp(-self._state["u.last"][0])

    @property
    def weights(self) -> dict[str, float]:
        """{path: its weight in the mixture}; they sum to 1."""
        content, state, *_ = self._kernel.copied(("weights",))
        return dict(zip(content.paths, state["weights"].tolist(), strict=True))

    @property
    def final_weights(self) -> dict[str, float]:
        """Weights of the rows in the output, in the order of receipts.

        "anchor", "mixture" and "tempered" mixture; without :meth:`fit` "moving", the anchor at the
        recent class mix; "plain", the tempered mixture where the mix that labels taught is stale;
        without :meth:`fit` "raw"; with columns "segmented mixture" and "segmented tempered", where
        values are given; "calibrated". Earned by how well each did when it was sent. A single path
        is its own anchor.
        """
        content = self._content
        names = ["anchor", "mixture", "tempered"]
        if len(content.paths) > 1:
            names += ["moving", "plain", "raw"] if content.fit_report is None else ["plain"]
            names += ["segmented mixture", "segmented tempered"] if content.columns else []
            names.append("calibrated")
        return dict(zip(names, self._kernel.final_weights, strict=True))

    @property
    def silent_classes(self) -> tuple[Any, ...]:
        """Classes left out of learning.

        The classifier predicts them and other predictions get labels, but no label has ever named
        them.
        """
        content, state, *_ = self._kernel.copied(("heard",))
        heard = state["heard"].tolist()
        return tuple(n for n, h in zip(content.classes, heard, strict=True) if h < 0)

    @property
    def follows_mix(self) -> float | None:
        """Share of the row ``fitted`` that follows the class mix of the stream, from 0 to 1.

        The rest leaves rows as :meth:`fit` made them: the mix is that of validation, or it is the
        inputs that have changed. None where :meth:`fit` had fewer than 500 rows, or was not called.
        """
        return self._kernel.follows_mix

    @property
    def coverage(self) -> float:
        """Recent share of the correction that is sent, from 0 (none) to 1.

        Below 1 where labels are no fair sample: predictions of some class get no labels, or only
        corrections, or only confirmations come back.
        """
        return self._kernel.coverage

    @property
    def confident_sums(self) -> dict[str, Array]:
        """{base: decayed column sums of its confident rows, shape (m,)}, for each base with CAN."""
        _, state, *_ = self._kernel.copied()
        return {name.removeprefix("S."): array for name, array in state.items() if name[:2] == "S."}

    @property
    def n_predictions(self) -> int:
        """Number of predictions observed."""
        return int(self._state["counts"][0])

    @property
    def n_labels(self) -> int:
        """Number of labels learned, with or without their prediction."""
        return int(self._state["counts"][1])

    @property
    def effective_sample_size(self) -> float:
        """Decayed number of labels."""
        return float(self.label_counts.sum())

    @property
    def label_counts(self) -> Array:
        """Decayed number of labels of each class, shape (m,)."""
        return self._copy("labels")

    @property
    def recent_log_loss(self) -> dict[str, float]:
        """Decayed mean log loss (nats) over the labels, of "raw" and "corrected" rows.

        Is it helping now? The sent row counts where its receipt came back, weighted as of the
        label; otherwise the row that would be sent then. NaN before the first label with its
        prediction.
        """
        raw, corrected, weight, _ = self._copy("recent").tolist()
        return (
            {"raw": raw / weight, "corrected": corrected / weight}
            if weight
            else {"raw": math.nan, "corrected": math.nan}
        )

    @property
    def fitted_log_loss(self) -> float | None:
        """Decayed mean log loss (nats) over the labels, of the row that :meth:`fit` made.

        What does `fit` alone give or cost? To compare with :attr:`recent_log_loss`, of the same
        labels. None without `fit`, with a single path, and before the first label with its
        prediction.
        """
        content, state, *_ = self._kernel.copied(("recent",))
        _, _, weight, fitted = state["recent"].tolist()
        if content.fit_report is None or len(content.paths) == 1 or not weight:
            return None
        return float(fitted / weight)

    @property
    def fit_report(self) -> dict[str, Any] | None:
        """Report of :meth:`fit`: rows, step, gain of each step; None without it."""
        report = self._content.fit_report
        return None if report is None else {**report}

    def _copy(self, name: str) -> NDArray[Any]:
        """A copy of an array between two rows."""
        return self._kernel.copied((name,))[1][name]


def _inside(classes: Sequence[Any], row: NDArray[np.float32], has: NDArray[np.bool_]) -> list[Any]:
    """Names of the classes in a set, the likeliest first."""
    return [classes[k] for k in np.argsort(-row, kind="stable").tolist() if has[k]]


def _bytes_of(mb: float) -> int:
    """Convert MiB to bytes."""
    return max(1, int(mb * (1 << 20)))


def _counts_in_order(counts: ArrayLike | Mapping[Any, float], index: ClassIndex) -> Array:
    """Check training counts and put them in class order."""
    if unordered(counts):
        raise ValueError("train_counts: a set has no order; give {class: count}")
    if (names := names_of(counts)) is not None:
        counts = dict(zip(names, np.asarray(counts).tolist(), strict=True))
    if isinstance(counts, Mapping):
        strange = [name for name in counts if name not in index]
        if strange:
            raise ValueError(f"train_counts: {strange[0]!r} is not one of the classes")
        counts = [counts.get(name, 0) for name in index]
    try:
        laplace(counts)
    except ValueError as error:
        raise ValueError(f"train_counts: {error}") from None
    array = np.array(counts, np.float64)
    if len(array) != len(index):
        raise ValueError(f"train_counts: {len(array)} counts for {len(index)} classes")
    return array


def _int64(numbers: ArrayLike, name: str) -> NDArray[np.int64]:
    """A copy of integers, which cannot change while the loop runs."""
    array = np.asarray(numbers)
    if array.ndim != 1 or not (np.can_cast(array.dtype, np.int64, "safe") or not array.size):
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}, expected int64, (k,)")
    return np.array(array, np.int64) if array.size else np.empty(0, np.int64)  # of any type


def _float32(known: ArrayLike) -> NDArray[np.float32]:
    """A copy of the numbers that receipts gave labels."""
    array = np.asarray(known)
    if array.dtype.kind != "f":
        raise ValueError(f"known: {array.dtype}, expected float32")
    with np.errstate(over="ignore"):  # infinite values are refused later
        return np.array(array, np.float32, order="C")
