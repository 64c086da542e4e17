"""Labels of scikit-learn: one class of each row, or several labels as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import (
    assert_all_finite,
    column_or_1d,
    indexable,
)
from sklearn.utils.multiclass import check_classification_targets


def rows_and_labels(X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """Rows, and labels of shape (n,), or with multilabel rows (n, m)."""
    y = y.toarray() if issparse(y) else y
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] > 1:
        y = array.astype(int) if array.dtype == bool else array
    else:
        y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    if y.ndim == 1:
        check_classification_targets(y)
    X, y = indexable(X, y)
    return X, y


def classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Classes, or labels, of training rows, and the number of rows of each."""
    if y.ndim == 1:
        return np.unique(y, return_counts=True)
    bad = np.argwhere((y != 0) & (y != 1))
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"fit: row {row}: label {column} is {y[row, column]}, expected 1 or 0, as the"
            " classifier needs each; what is known in part is for partial_fit"
        )
    return np.arange(y.shape[1]), y.sum(axis=0)


def check_classes(
    classes: ArrayLike | None, y: NDArray[Any], known: NDArray[Any], whose: str
) -> None:
    if y.ndim == 2:
        known, whose = np.arange(2), "each label of multilabel rows has"
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(
            f"partial_fit: classes are {np.unique(classes).tolist()}, but {whose} "
            f"{known.tolist()}; a class that is not known needs a fit with rows of it"
        )
