"""SparseState: the state of a `SparseCorrector`, and what it tells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import UnknownClass
from stream_can.sparse.class_numbers import ClassNumbers
from stream_can.sparse.loop import Model

PATHS = ("temperature", "vector", "matrix", "matrix+can")

Ids = NDArray[np.int32]
Array = NDArray[np.float64]


class SparseState:
    """Classes and what was learned of them."""

    _classes: ClassNumbers
    _model: Model
    _half_life: float

    @property
    def m(self) -> int:
        """The number of classes in every formula: ``classes``, or ``max_classes``."""
        return self._model.m

    @property
    def n_classes(self) -> int:
        """Number of classes; with "any", of names that appeared."""
        return self._classes.known

    @property
    def names(self) -> list[str] | None:
        """Names in the order of their numbers; None where classes are numbers."""
        return None if self._classes.names is None else self._classes.names.copy()

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

    def names_of(self, ids: ArrayLike) -> list[Any]:
        """The names of numbers, shape (n,); the numbers themselves where classes have no names."""
        numbers = np.asarray(ids).tolist()
        known = self._classes.known
        for i in numbers:
            if not 0 <= i < known:
                raise UnknownClass(self._classes.unknown(i))
        return self._classes.names_of(numbers)
