"""Calibration: fitting, transforming, serialising and checks of every method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.calibration.softmax import Labels, logs, softmax, temperature
from stream_can.errors import InvalidPrediction, SnapshotMismatch, StreamCANError
from stream_can.method.checks import normalised
from stream_can.scores.row_scores import check_rows

Array = NDArray[np.float64]


class CalibrationHead(msgspec.Struct):
    """Head of a fitted method's snapshot."""

    calibration: str
    """Name of its class."""
    classes: int
    options: dict[str, int | float]


class Calibration(ABC):
    """A method fitted once to validation rows, then applied to any row.

    A class without validation rows gets the probability that a single temperature, fitted to all
    rows, gives it. The other classes are calibrated among themselves and share the rest.
    """

    of_each = True
    """Whether it has parameters per class, and so needs rows of each."""
    options: ClassVar[tuple[str, ...]] = ()
    """Names of the method's parameters."""
    numbers: ClassVar[tuple[tuple[str, int], ...]] = ()
    """Attributes set by a fit, with the number of their axes that are classes."""
    _m = 0
    _held: Labels
    _temperature = 1.0
    """Temperature of all rows, where some classes have no rows."""

    def fit(self, P: ArrayLike, y: ArrayLike) -> Self:
        """Fit to predictions on rows that the classifier was not trained on.

        Parameters
        ----------
        P
            Probabilities, shape (n, m): finite, not negative, rows summing to 1 within 0.001.
        y
            The index of each row's class, integers of shape (n,) in [0, m).

        Returns
        -------
        The same object.

        Raises
        ------
        InvalidPrediction, UnknownClass
            A row or label is invalid; the message names it.
        ValueError
            The rows hold fewer than two classes.
        """
        probs, labels = check_rows(P, y)
        n, m = probs.shape
        held = np.flatnonzero(np.bincount(labels, minlength=m))
        if len(held) < 2:
            raise ValueError(
                f"fit: {n} validation rows hold {len(held)} of {m} classes, expected at least 2"
            )
        if not self.of_each:
            held = np.arange(m)
        self._m, self._held = m, held
        if len(held) < m:
            self._temperature = temperature(probs, labels)
        place = np.full(m, -1)
        place[held] = np.arange(len(held))
        self._fit(rows_to_one(probs[:, held]), place[labels])
        return self

    def transform(self, P: ArrayLike) -> Array:
        """Calibrate rows.

        Parameters
        ----------
        P
            Probabilities, shape (n, m), as for :meth:`fit`.

        Returns
        -------
        A new float64 array, shape (n, m), rows summing to 1.

        Raises
        ------
        InvalidPrediction
            A row is not a probability vector of m classes.
        StreamCANError
            :meth:`fit` has not been called.
        """
        if not self._m:
            raise StreamCANError(f"{type(self).__name__}: transform before fit; call fit first")
        probs = normalised(P)
        if probs.shape[1] != self._m:
            raise InvalidPrediction(f"predictions have {probs.shape[1]} classes, fit had {self._m}")
        if len(self._held) == self._m:
            return self._transform(probs)
        tempered = softmax(logs(probs) / self._temperature)
        share = tempered[:, self._held].sum(axis=1, keepdims=True)
        tempered[:, self._held] = share * self._transform(rows_to_one(probs[:, self._held]))
        return tempered

    def to_bytes(self) -> bytes:
        """Serialise the fitted method, versioned and checksummed.

        Raises
        ------
        StreamCANError
            :meth:`fit` has not been called.
        """
        name = type(self).__name__
        if not self._m:
            raise StreamCANError(f"{name}: to_bytes before fit; call fit first")
        options = {option: getattr(self, option) for option in self.options}
        arrays = {"held": self._held, "of_all": np.array(self._temperature)}
        head = msgspec.to_builtins(CalibrationHead(name, self._m, options))
        return snapshot.encode(head, arrays | self._dump())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Load :meth:`to_bytes`; results have the same bits.

        ``Calibration.from_bytes`` loads any method, a subclass only its own.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version or of another method.
        """
        head, arrays = snapshot.of_kind(data, "calibration", "calibration", CalibrationHead)
        method = _methods(cls).get(head.calibration)
        if method is None:
            raise SnapshotMismatch(f"snapshot: of {head.calibration}, expected {cls.__name__}")
        try:
            self: Self = method(**head.options)
            held, of_all = arrays.pop("held"), arrays.pop("of_all")
            _require(
                head.classes > 1 and held.dtype.kind == "i" and len(held) > 1
                and held[0] >= 0 and (np.diff(held) > 0).all() and held[-1] < head.classes,
                "its classes",
            )  # fmt: skip
            _require(of_all.shape == () and 0 < of_all < np.inf, "its temperature")
            self._m, self._held, self._temperature = head.classes, held, float(of_all)
            for name, array in arrays.items():
                _require(array.dtype == np.float64 and np.isfinite(array).all(), name)
            self._load(arrays, len(held))
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotMismatch(f"snapshot: {head.calibration}: {error}") from None
        return self

    def _dump(self) -> dict[str, NDArray[Any]]:
        """Arrays found by the fit."""
        return {name: np.asarray(getattr(self, name)) for name, _ in self.numbers}

    def _load(self, arrays: dict[str, NDArray[Any]], k: int) -> None:
        """Restore them for k classes; KeyError or ValueError where they are missing or invalid."""
        for name, axes in self.numbers:
            array = arrays[name]
            _require(array.shape == (k,) * axes, name)
            _require(axes > 0 or array > 0, name)
            setattr(self, name, array if axes else float(array))

    @abstractmethod
    def _fit(self, P: Array, y: Labels) -> None:
        """Fit to checked rows, of which every class has one."""

    @abstractmethod
    def _transform(self, P: Array) -> Array:
        """Calibrate rows into a new array."""


class OneVersusRest(Calibration):
    """A method for two classes, applied to each class against the rest.

    Results are normalised by their sum over classes, as by Guo et al. (section 4.2).
    """

    def _fit(self, P: Array, y: Labels) -> None:
        self._maps = [self._fit_one(P[:, k], y == k) for k in range(P.shape[1])]

    def _transform(self, P: Array) -> Array:
        columns = [self._map(class_map, P[:, k]) for k, class_map in enumerate(self._maps)]
        return rows_to_one(np.stack(columns, axis=1))

    def _dump(self) -> dict[str, NDArray[Any]]:
        pairs = (
            (f"{k}.{i}", x)
            for k, class_map in enumerate(self._maps)
            for i, x in enumerate(class_map)
        )
        return dict(pairs)

    def _load(self, arrays: dict[str, NDArray[Any]], k: int) -> None:
        self._maps = [(arrays[f"{i}.0"], arrays[f"{i}.1"]) for i in range(k)]
        for i, (x, y) in enumerate(self._maps):
            _require(x.ndim == y.ndim == 1 and self._fits(x, y), f"the map of class {i}")

    @abstractmethod
    def _fits(self, x: Array, y: Array) -> bool:
        """Whether two arrays, shape (a,) and (b,), can define a map."""

    @abstractmethod
    def _fit_one(self, p: Array, hit: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Fit the map of a class's probabilities, shape (n,): two arrays."""

    @abstractmethod
    def _map(self, class_map: tuple[Array, Array], p: Array) -> Array:
        """Calibrated probabilities of a class, shape (n,)."""


def _methods(base: type[Calibration]) -> dict[str, type[Any]]:
    """A class and its subclasses by name."""
    by_name = {base.__name__: base} if not base.__abstractmethods__ else {}
    for subclass in base.__subclasses__():
        by_name |= _methods(subclass)
    return by_name


def _require(condition: Any, name: str) -> None:
    if not condition:
        raise ValueError(f"{name} cannot be used")


def rows_to_one(P: Array) -> Array:
    """Normalise rows; a row of zeros becomes uniform."""
    total = P.sum(axis=1, keepdims=True)
    uniform = np.full_like(P, 1 / P.shape[1])
    return np.asarray(np.divide(P, total, out=uniform, where=total > 0))
