"""Corrector: checks its input, owns the state arrays, calls the kernel."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, Self, overload

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import InvalidPrediction, SnapshotMismatch, StreamCANError, UnknownClass
from stream_can.method import paths as path_names
from stream_can.method import sums as decayed
from stream_can.method import validation
from stream_can.method.classes import ClassIndex, ClassName, class_names
from stream_can.method.kernel import Kernel, Lock, Mode
from stream_can.method.prior import laplace
from stream_can.method.rows import names_of, unordered
from stream_can.method.settings import DEFAULTS, Settings, check_settings
from stream_can.method.state import (
    SHARED,
    State,
    check_state,
    from_format_1,
    grown,
    new_state,
    start_weights,
)

__all__ = ["Corrector"]

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]


class Played(NamedTuple):
    """What came of :meth:`Corrector.play`."""

    rows: Array
    """The corrected rows, shape (n, m)."""
    receipts: Receipts | None
    """What each was mixed from, shape (n, 3, m), where asked for."""
    paths: Array | None
    """What each path made of each row, shape (paths, n, m), where asked for."""


class Head(msgspec.Struct):
    """What a snapshot says beside its arrays."""

    classes: list[ClassName]
    train_counts: list[float] | None
    paths: list[str]
    settings: dict[str, float | int | str | None]
    fit: validation.FitReport | None


class Corrector:
    """Corrects a classifier's probability vectors as they stream by and learns from late labels.

    Each row costs O(m) (m classes). The output is a Bayesian mixture of up to eight paths: the row
    as it is and recalibrated by online temperature, vector and matrix scaling [2]_, each with and
    without Classification with Alternating Normalization [1]_, weighed by how well each has done on
    the labels so far. Without labels the stream stays as it was.

    Parameters
    ----------
    classes
        The names of the classes in the order of the columns (str, int, float or bool), or their
        number m for 0..m-1.
    train_counts
        Training rows per class: shape (m,), or {class: count}. Uniform where not given.
    paths
        Which of "raw", "can", "temperature", "temperature+can", "vector", "vector+can", "matrix"
        and "matrix+can" to mix. All of them by default, without the last two above 256 classes.
    half_life
        After how many events what was learned counts half: labels for everything that is learned
        from labels, confident predictions for the column sums of CAN. ``inf`` forgets nothing.
    uncertainty, k, threshold
        CAN corrects rows whose uncertainty is at least ``threshold``; one of "topk_entropy" (of the
        ``k`` largest), "entropy", "margin" and "any_topk_entropy".
    pseudo_count
        Weight of the prior in CAN's column sums, in rows; m by default.
    prior_strength
        Weight of the training prior against the labels that arrived, in labels; m by default,
        ``inf`` for a prior that never moves.

    Raises
    ------
    ValueError
        Where an argument is out of range; the message names it.

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

    def __init__(
        self,
        classes: int | Iterable[Hashable],
        *,
        train_counts: ArrayLike | Mapping[Any, float] | None = None,
        paths: Iterable[str] | None = None,
        half_life: float = DEFAULTS.half_life,
        uncertainty: str = DEFAULTS.uncertainty,
        k: int = DEFAULTS.k,
        threshold: float = DEFAULTS.threshold,
        pseudo_count: float | None = DEFAULTS.pseudo_count,
        prior_strength: float | None = DEFAULTS.prior_strength,
    ) -> None:
        self._set_classes(class_names(classes))
        m = len(self._classes)
        self._train_counts = None if train_counts is None else self._counts_in_order(train_counts)
        self._paths = path_names.default_paths(m) if paths is None else path_names.in_order(paths)
        self._settings = check_settings(
            {
                "half_life": half_life,
                "uncertainty": uncertainty,
                "k": k,
                "threshold": threshold,
                "pseudo_count": pseudo_count,
                "prior_strength": prior_strength,
            }
        )
        self._fit_report: validation.FitReport | None = None
        self._lock = Lock()
        self._state = new_state(m, self._paths)
        self._kernel = self._new_kernel(self._paths, self._state, self._train_counts, self._lock)

    def _set_classes(self, names: tuple[Any, ...]) -> None:
        self._classes, self._index = names, ClassIndex(names)
        self._is_range = names == tuple(range(len(names))) and all(
            type(name) is int for name in names
        )

    def _counts_in_order(self, counts: ArrayLike | Mapping[Any, float]) -> Array:
        if unordered(counts):
            raise ValueError("train_counts: a set has no order; give {class: count}")
        if (names := names_of(counts)) is not None:
            counts = dict(zip(names, np.asarray(counts).tolist(), strict=True))
        if isinstance(counts, Mapping):
            strange = [name for name in counts if name not in self._index]
            if strange:
                raise ValueError(f"train_counts: {strange[0]!r} is not one of the classes")
            counts = [counts.get(name, 0) for name in self._classes]
        try:
            laplace(counts)
        except ValueError as error:
            raise ValueError(f"train_counts: {error}") from None
        array = np.array(counts, np.float64)
        if len(array) != len(self._classes):
            raise ValueError(f"train_counts: {len(array)} counts for {len(self._classes)} classes")
        return array

    def _new_kernel(
        self,
        paths: tuple[str, ...],
        state: State,
        counts: Array | None,
        lock: Lock | None = None,
        index: ClassIndex | None = None,
    ) -> Kernel:
        """A kernel that works on these arrays, in place."""
        m, settings = len(state["labels"]), dict(self._settings)
        for name in ("pseudo_count", "prior_strength"):
            settings[name] = m if settings[name] is None else settings[name]
        return Kernel(
            m,
            paths,
            state,
            lock=lock,
            index=self._index if index is None else index,
            train=laplace(np.zeros(m) if counts is None else counts),
            start_weights=start_weights(paths),
            **settings,
        )

    # ---- correct, observe

    def correct_one(self, p: ArrayLike) -> Array:
        """The corrected row with the state as it is; nothing is learned.

        Parameters
        ----------
        p
            Probabilities, shape (m,): finite, >= 0, sum within 0.001 of 1 (and divided by it). By
            name where they have names: {class: p}, a Series; for many rows a DataFrame.

        Returns
        -------
        A new float64 array, shape (m,), that sums to 1.

        Raises
        ------
        InvalidPrediction
            Where ``p`` is anything else.
        """
        return self._kernel.rows(p, 1, Mode.CORRECT)  # type: ignore[no-any-return]

    def correct_many(self, P: ArrayLike) -> Array:
        """The corrected rows, shape (n, m), with the state as it is; see :meth:`correct_one`."""
        return self._kernel.rows(P, 2, Mode.CORRECT)  # type: ignore[no-any-return]

    def observe_one(self, p: ArrayLike) -> None:
        """An unlabelled prediction, shape (m,), went by: CAN learns it where it is confident.

        Raises
        ------
        InvalidPrediction
            Where ``p`` is not a probability vector; nothing was learned.
        """
        self._kernel.rows(p, 1, Mode.OBSERVE)

    def observe_many(self, P: ArrayLike) -> None:
        """:meth:`observe_one` for each row of ``P``, shape (n, m); all rows are checked first."""
        self._kernel.rows(P, 2, Mode.OBSERVE)

    @overload
    def process_one(self, p: ArrayLike, *, receipt: Literal[False] = False) -> Array: ...
    @overload
    def process_one(self, p: ArrayLike, *, receipt: Literal[True]) -> tuple[Array, Receipts]: ...
    def process_one(self, p: ArrayLike, *, receipt: bool = False) -> Array | tuple[Array, Receipts]:
        """Correct, then observe: the one call for each prediction of a stream.

        Parameters
        ----------
        p
            Probabilities, shape (m,), as for :meth:`correct_one`.
        receipt
            Also return what the corrected row was mixed from: anchor, mixture and tempered mixture.
            Where labels come late, keep it with ``p`` and hand it back to :meth:`learn_one`: then
            what was sent is judged, not what would be sent by then.

        Returns
        -------
        The corrected row: a new float64 array, shape (m,). With ``receipt`` a second array, float32
        of shape (3, m).

        Raises
        ------
        InvalidPrediction
            Where ``p`` is not a probability vector; nothing was learned.
        """
        return self._kernel.rows(p, 1, Mode.PROCESS, receipt)  # type: ignore[no-any-return]

    @overload
    def process_many(self, P: ArrayLike, *, receipt: Literal[False] = False) -> Array: ...
    @overload
    def process_many(self, P: ArrayLike, *, receipt: Literal[True]) -> tuple[Array, Receipts]: ...
    def process_many(
        self, P: ArrayLike, *, receipt: bool = False
    ) -> Array | tuple[Array, Receipts]:
        """:meth:`process_one` for each row of ``P``, shape (n, m), in order.

        The same bits as that loop, but all rows are checked before the first is processed. With
        ``receipt`` a second array, float32 of shape (n, 3, m). Ctrl-C ends it between two rows;
        ``n_predictions`` says how many it has taken.
        """
        return self._kernel.rows(P, 2, Mode.PROCESS, receipt)  # type: ignore[no-any-return]

    def explain_one(self, p: ArrayLike) -> dict[str, Array]:
        """What each path makes of a row, {path: shape (m,)}, with the state as it is."""
        return dict(zip(self._paths, self._kernel.rows(p, 1, Mode.EXPLAIN), strict=True))

    def explain_many(self, P: ArrayLike) -> dict[str, Array]:
        """What each path makes of each row, {path: shape (n, m)}, with the state as it is."""
        return dict(zip(self._paths, self._kernel.rows(P, 2, Mode.EXPLAIN), strict=True))

    # ---- learn

    def learn_one(
        self, p: ArrayLike | None, y: Hashable, *, receipt: ArrayLike | None = None
    ) -> None:
        """The label of a prediction arrived, now or much later.

        What was sent is judged first; then the paths are weighed by the probability that each gives
        ``y`` with the state as it is now; then the bases and the prior learn it.

        Parameters
        ----------
        p
            The classifier's own prediction (not the corrected one), shape (m,); None where it is
            gone: then the label teaches the prior alone.
        y
            The name of the class.
        receipt
            What :meth:`process_one` handed out with this prediction, shape (3, m). None, or NaN,
            where it is not known: then the rows are judged as they would be now.

        Raises
        ------
        InvalidPrediction, UnknownClass
            Nothing was learned.
        """
        index = self._index_of(y, "label")
        known = None
        if receipt is not None:
            known = self._known(np.asarray(receipt)[None], np.array([index]), p is None)[0]
        self._kernel.learn_one(p, index, known)

    def learn_many(
        self,
        P: ArrayLike | None,
        ys: Iterable[Hashable],
        *,
        receipts: ArrayLike | None = None,
    ) -> None:
        """:meth:`learn_one` for each row of ``P``, shape (n, m), or None, and label of ``ys``.

        In order, but all rows and labels are checked before the first is learned. ``receipts`` has
        shape (n, 3, m), a row of NaN where one is not known any more.
        """
        indices = self._indices_of(ys)
        known = None
        if receipts is not None:
            known = self._known(np.asarray(receipts), indices, P is None)
        self._kernel.learn_many(P, indices, known)

    def _known(
        self, receipts: NDArray[Any], ys: NDArray[np.int64], gone: bool
    ) -> NDArray[np.float32]:
        """What the three rows of each receipt, shape (n, 3, m), gave the label, shape (n, 3)."""
        m = len(self._classes)
        if gone:
            raise InvalidPrediction("receipts belong to predictions, and p is None")
        if (
            receipts.ndim != 3
            or receipts.shape[:2] != (len(ys), 3)
            or not 1 <= receipts.shape[2] <= m
            or receipts.dtype.kind != "f"
        ):
            raise InvalidPrediction(
                f"receipts are {receipts.dtype} of shape {receipts.shape},"
                f" expected float32 of shape ({len(ys)}, 3, {m})"
            )
        # A class that appeared since has no column.
        told = ys < receipts.shape[2]
        known = np.zeros((len(ys), 3), np.float32)
        known[told] = receipts[told, :, ys[told]]
        wrong = ~((known >= 0) & (known <= 1.001) | np.isnan(known)).all(axis=1)
        if wrong.any():
            i = int(wrong.argmax())
            raise InvalidPrediction(
                f"receipt of row {i}: {known[i].tolist()}, expected probabilities, or NaN"
            )
        return known

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
    ) -> Played:
        """Process rows and learn labels in one call: what replays and partitions are made of.

        Parameters
        ----------
        P
            Rows, shape (first + n, m): ``first`` that were processed before and whose labels come
            now, then n to process.
        ys
            The labels in the order to learn them, shape (k,): indices of classes.
        rows
            The row of ``P`` that each belongs to, shape (k,); -1 where its prediction is gone.
        due
            Before which of the n rows each is learned, shape (k,), ascending; n is after the last.
            A row's own label cannot be due before the row.
        first
            How many rows of ``P`` were processed before.
        known
            What the receipt of each label's prediction gave the label, float32 of shape (k, 3); NaN
            where it is not known. Not needed for rows of this call where ``receipt`` is asked for.
        receipt
            Whether to hand out receipts, and to judge labels of this call's rows by them.
        explain
            Whether to say what each path made of each row.

        Returns
        -------
        The same bits as :meth:`process_one` and :meth:`learn_one` in that order.

        Raises
        ------
        InvalidPrediction, ValueError
            A row is no probability vector, or an index is out of range; nothing was learned.
        """
        return Played(*self._kernel.play(P, first, ys, rows, due, known, receipt, explain))

    # ---- what many correct and all learn

    def new_sums(self) -> Array:
        """Where :meth:`correct_and_sum` adds up: zeros, shape (parts, m + 1)."""
        return np.zeros((len(decayed.parts(self._state)), len(self._classes) + 1))

    @overload
    def correct_and_sum(
        self, P: ArrayLike, sums: Array, *, receipt: Literal[False] = False
    ) -> Array: ...
    @overload
    def correct_and_sum(
        self, P: ArrayLike, sums: Array, *, receipt: Literal[True]
    ) -> tuple[Array, Receipts]: ...
    def correct_and_sum(
        self, P: ArrayLike, sums: Array, *, receipt: bool = False
    ) -> Array | tuple[Array, Receipts]:
        """:meth:`correct_many`, for a process that is one of many which learn together.

        Nothing changes here. What observing the rows would add goes into ``sums``, for
        :meth:`add_sums` of everyone's corrector.

        Parameters
        ----------
        P
            Rows, shape (n, m).
        sums
            Of the rows before them, changed in place; see :meth:`new_sums`.
        receipt
            Also return receipts, as :meth:`process_many` does.
        """
        return self._kernel.correct_and_sum(P, sums, receipt)  # type: ignore[no-any-return]

    def add_sums(self, sums: Array) -> None:
        """Rows that were corrected elsewhere went by: :meth:`observe_many`, from their sums."""
        with self._lock:
            decayed.add(self._state, sums, self._kernel.g)
            self._kernel.changed()

    def merge_sums(self, into: Array, later: Array) -> None:
        """Make of sums, in place, those of their rows and then of later ones."""
        decayed.merge(decayed.parts(self._state), into, later, self._kernel.g)

    def fit(self, P: ArrayLike, ys: Iterable[Hashable]) -> None:
        """Learn from validation data before the stream starts, so that the first row gains already.

        Adds two paths, ``fitted`` and ``fitted+can``: a recalibration fitted to these rows and
        frozen, with an estimate of the stream's class mix that needs no label. The other bases and
        the prior learn the rows once, as labels.

        Parameters
        ----------
        P
            Predictions of the deployed classifier on rows it was not trained on, shape (n, m).
        ys
            Their labels: n names of classes.

        Raises
        ------
        StreamCANError
            Where the stream has started or ``fit`` was called before.
        ValueError
            Where fewer than two classes have rows.
        InvalidPrediction, UnknownClass
            Where a row or label is not usable. Nothing was learned, whatever the error.

        Warns
        -----
        UserWarning
            Where a class has no row: ``fit`` cannot help it.
        """
        with self._lock:
            if self._fit_report is not None:
                raise StreamCANError(
                    "fit: called a second time; make a new Corrector to fit other rows"
                )
            if self._state["counts"].any():
                raise StreamCANError(
                    "fit: the stream has started; call fit before the first prediction or label"
                )
            fitted = validation.fit(P, self._indices_of(ys), self._classes)
            paths = (*self._paths, *path_names.FITTED_PATHS)
            state = {name: array.copy() for name, array in self._state.items()} | fitted.state
            state["weights"] = start_weights(paths)
            # Weights, guards and the judging of what was sent do not see these labels.
            unseen = {name: state[name].copy() for name in SHARED if name != "labels"}
            kernel = self._new_kernel(paths, state, self._train_counts)
            kernel.learn_many(fitted.rows, fitted.labels, None)
            state |= unseen
            kernel = self._new_kernel(paths, state, self._train_counts, self._lock)
            self._kernel.successor = kernel
            self._paths, self._state, self._fit_report = paths, state, fitted.report
            self._kernel = kernel

    def _index_of(self, y: Hashable, where: str) -> int:
        try:
            return self._index.column(y)
        except UnknownClass as error:
            raise UnknownClass(f"{where} {error}") from None

    def _indices_of(self, ys: Iterable[Hashable]) -> NDArray[np.int64]:
        if isinstance(ys, str):
            raise UnknownClass(f"labels: expected one name per row, got the string {ys!r}")
        if unordered(ys) or isinstance(ys, Mapping) or hasattr(ys, "columns"):
            raise UnknownClass(f"labels: {type(ys).__name__}, expected one name per row, in order")
        array = ys if isinstance(ys, np.ndarray) else None
        if array is not None and array.ndim != 1:
            raise UnknownClass(f"labels have shape {array.shape}, expected (n,)")
        if self._is_range and array is not None and array.dtype.kind in "iu":
            outside = np.flatnonzero((array < 0) | (array >= len(self._classes)))
            if len(outside):
                self._index_of(array[outside[0]].item(), f"label of row {outside[0]}")
            return np.ascontiguousarray(array, np.int64)
        names = array.tolist() if array is not None else ys
        return np.fromiter(
            (self._index_of(y, f"label of row {i}") for i, y in enumerate(names)), np.int64
        )

    def _add_class(self, name: Hashable) -> None:
        """Append a class that was not known before: zero rows and columns, weights kept."""
        with self._lock:
            if self._fit_report is not None:
                raise StreamCANError(
                    "a fitted corrector cannot take another class: its validation rows lacked it"
                )
            names = (*self._classes, *class_names([name]))
            index = ClassIndex(names)  # refuses a name that is there already
            counts = self._train_counts
            counts = None if counts is None else np.append(counts, 0.0)
            state = grown(self._state)
            kernel = self._new_kernel(self._paths, state, counts, self._lock, index)
            self._kernel.successor = kernel
            self._set_classes(names)
            self._train_counts, self._state, self._kernel = counts, state, kernel

    # ---- the whole state

    def to_bytes(self) -> bytes:
        """The whole state with its classes and settings, versioned and checksummed; no pickle."""
        with self._lock:
            counts = self._train_counts
            return snapshot.encode(
                {
                    "classes": list(self._classes),
                    "train_counts": None if counts is None else counts.tolist(),
                    "paths": list(self._paths),
                    "settings": self._settings,
                    "fit": self._fit_report,
                },
                self._state,
            )

    @classmethod
    def from_bytes(
        cls, data: bytes, classes: int | Iterable[Hashable] | None = None, **settings: Any
    ) -> Self:
        """The corrector that :meth:`to_bytes` wrote; it continues bit for bit.

        Parameters
        ----------
        data
            What ``to_bytes`` returned.
        classes
            Where given, the classes the snapshot must have.
        **settings
            ``half_life``, ``uncertainty``, ``k``, ``threshold``, ``pseudo_count`` and
            ``prior_strength`` replace those of the snapshot; ``paths`` and ``train_counts`` must
            match it.

        Raises
        ------
        SnapshotMismatch
            Where the bytes are truncated, corrupt, of a newer version, or of other classes or
            paths.
        """
        head, state, version = snapshot.decode(data)
        if "classes" not in head:
            raise SnapshotMismatch(
                "snapshot: a task's, of one partition of a stream; see stream_can.stream.task.Task"
            )
        self = cls.__new__(cls)
        self._lock = Lock()
        self._restore(snapshot.typed(head, Head), state, version)
        if classes is not None:
            snapshot.match("classes", self._classes, class_names(classes))
        if settings.get("paths") is not None:
            own = tuple(path for path in self._paths if path not in path_names.FITTED_PATHS)
            wanted = [path for path in settings["paths"] if path not in path_names.FITTED_PATHS]
            snapshot.match("paths", own, path_names.in_order(wanted))
        if settings.get("train_counts") is not None:
            counts = self._counts_in_order(settings["train_counts"])
            own_counts = () if self._train_counts is None else tuple(self._train_counts.tolist())
            snapshot.match("train_counts", own_counts, tuple(counts.tolist()))
        changed = {k: v for k, v in settings.items() if k not in ("paths", "train_counts")}
        unknown = sorted(changed.keys() - self._settings.keys())
        if unknown:
            raise TypeError(
                f"from_bytes: unknown setting {unknown[0]!r}; known: {', '.join(self._settings)}"
            )
        self._settings |= check_settings(changed)
        self._kernel = self._new_kernel(self._paths, self._state, self._train_counts, self._lock)
        return self

    def _restore(self, head: Head, state: State, version: int) -> None:
        """Take what a snapshot holds, checked as if it had been given."""
        try:
            self._set_classes(class_names(head.classes))
            self._train_counts = (
                None if head.train_counts is None else self._counts_in_order(head.train_counts)
            )
            own = path_names.in_order(p for p in head.paths if p not in path_names.FITTED_PATHS)
            self._paths = own if head.fit is None else (*own, *path_names.FITTED_PATHS)
            if list(self._paths) != head.paths:
                raise ValueError(f"paths: {head.paths}, expected {list(self._paths)}")
            self._fit_report = head.fit
            if strange := head.settings.keys() ^ set(Settings.__struct_fields__):
                raise ValueError(f"settings: {min(strange)!r} is missing or unknown")
            self._settings = check_settings(head.settings)
            if version == 1:
                state = from_format_1(state, len(self._classes))
            check_state(state, len(self._classes), self._paths)
        except ValueError as error:
            raise SnapshotMismatch(f"snapshot: {error}") from None
        self._state = state

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self._classes)} classes, "
            f"{self.n_predictions} predictions, {self.n_labels} labels)"
        )

    # ---- to look inside

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes, in the order of the columns."""
        return self._classes

    @property
    def paths(self) -> tuple[str, ...]:
        """The names of the paths in the mixture, in their order."""
        return self._paths

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as given; None stands for the default m."""
        return dict(self._settings)

    @property
    def prior(self) -> Array:
        """The class prior in use now, shape (m,)."""
        with self._lock:
            return self._kernel.prior

    @property
    def train_prior(self) -> Array:
        """The class prior of the training set, shape (m,)."""
        counts = self._train_counts
        return laplace(np.zeros(len(self._classes)) if counts is None else counts)

    @property
    def temperature(self) -> float:
        """Temperature of the base of that name, above 1 where the classifier is overconfident.

        1 where that base is not in use.
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
        with self._lock:
            return dict(zip(self._paths, self._state["weights"].tolist(), strict=True))

    @property
    def final_weights(self) -> dict[str, float]:
        """Weights of "anchor", "mixture" and "tempered" mixture in the row that goes out.

        Earned by how well each has done as it was sent. A single path is its own anchor.
        """
        with self._lock:
            names = ("anchor", "mixture", "tempered")
            return dict(zip(names, self._kernel.final_weights, strict=True))

    @property
    def silent_classes(self) -> tuple[Any, ...]:
        """Classes that are left out of learning.

        The classifier predicts them and other predictions get labels, but no label of theirs has
        ever come.
        """
        with self._lock:
            heard = self._state["heard"].tolist()
            return tuple(n for n, h in zip(self._classes, heard, strict=True) if h < 0)

    @property
    def coverage(self) -> float:
        """How much of the correction went out of late, from 0 (none) to 1.

        Below 1 where labels are no fair sample: predictions of some class get no labels, or only
        corrections, or only confirmations come back.
        """
        with self._lock:
            return self._kernel.coverage

    @property
    def confident_sums(self) -> dict[str, Array]:
        """{base: decayed column sums of its confident rows, shape (m,)}, for each base with CAN."""
        with self._lock:
            return {
                name.removeprefix("S."): array.copy()
                for name, array in self._state.items()
                if name.startswith("S.")
            }

    @property
    def n_predictions(self) -> int:
        """Predictions observed."""
        return int(self._state["counts"][0])

    @property
    def n_labels(self) -> int:
        """Labels learned, with or without their prediction."""
        return int(self._state["counts"][1])

    @property
    def effective_sample_size(self) -> float:
        """The decayed number of labels behind what is learned now."""
        with self._lock:
            return float(self._state["labels"].sum())

    @property
    def label_counts(self) -> Array:
        """The decayed number of labels of each class, shape (m,)."""
        with self._lock:
            return self._state["labels"].copy()

    @property
    def recent_log_loss(self) -> dict[str, float]:
        """Decayed mean log loss (nats) over the labels, of "raw" and "corrected" rows.

        Is it helping now? Of what was sent where its receipt came back, weighed as it would be when
        the label came; else of what would be sent then. NaN before the first label that came with
        its prediction.
        """
        with self._lock:
            raw, corrected, weight = self._state["recent"].tolist()
        return (
            {"raw": raw / weight, "corrected": corrected / weight}
            if weight
            else {"raw": math.nan, "corrected": math.nan}
        )

    @property
    def fit_report(self) -> dict[str, Any] | None:
        """What :meth:`fit` did and why: rows, step, the gain of each step. None without it."""
        return None if self._fit_report is None else {**self._fit_report}
