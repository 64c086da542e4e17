"""Held-out predictions: those of each split of cross-validation, on rows it was not trained on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import (
    _safe_indexing,
)
from sklearn.utils.validation import _check_method_params

Array = NDArray[np.float64]


def held_out(
    estimator: Any, cv: Any, classes: NDArray[Any], X: Any, y: NDArray[Any], routed: Any
) -> tuple[Array, NDArray[np.intp]]:
    """Predictions of each split's test rows, and the indices of those rows."""
    if len(classes) < 2:
        raise ValueError(
            f"fit: {len(y)} rows hold only {len(classes)} class, expected 2 or more; "
            "one class needs no classifier"
        )
    check_weights(routed.estimator.fit, len(y))
    splitter = check_cv(cv, y, classifier=True)
    parts, rows = [], []
    unseen: list[Any] = []
    for train, test in splitter.split(X, y, **routed.splitter.split):
        fit_params = _check_method_params(X, params=routed.estimator.fit, indices=train)
        model = clone(estimator).fit(_safe_indexing(X, train), y[train], **fit_params)
        P = probabilities(model, _safe_indexing(X, test))
        if y.ndim == 1:
            of_split, P = P, np.zeros((len(test), len(classes)))
            P[:, np.searchsorted(classes, model.classes_)] = of_split
            unseen += y[test][~np.isin(y[test], y[train])].tolist()
        parts.append(P)
        rows.append(test)
    if unseen:
        warn_of_unseen(len(unseen), sum(map(len, rows)), unseen[0])
    return np.concatenate(parts), np.concatenate(rows)


def check_weights(params: Mapping[str, Any], n: int) -> None:
    """Refuse weights of a wrong length here; later the error would name a split's length."""
    weights = params.get("sample_weight")
    if isinstance(weights, Sized) and len(weights) != n:
        raise ValueError(
            f"fit: sample_weight has {len(weights)} weights for {n} rows; give one for each row"
        )


def warn_of_unseen(unseen: int, rows: int, first: Any) -> None:
    """Warn of held-out rows whose class their split's classifier was not trained on."""
    warnings.warn(
        f"fit: {unseen} of {rows} held-out rows are of a class that their split did not train on, "
        f"the first of class {first!r}; where y is sorted, shuffle: cv=StratifiedKFold(5, "
        "shuffle=True), or KFold(5, shuffle=True)",
        UserWarning,
        stacklevel=4,
    )


def probabilities(model: Any, X: Any) -> Array:
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"{type(model).__name__} has no predict_proba; scikit-learn's CalibratedClassifierCV "
            "around it gives it one"
        )
    P = model.predict_proba(X)
    if isinstance(P, list):  # one array per label, with a column for each of its values
        P = np.transpose(
            [
                column_of(1, of_label, values)
                for of_label, values in zip(P, model.classes_, strict=True)
            ]
        )
    return np.asarray(P, np.float64)


def column_of(value: int, P: Array, values: NDArray[Any]) -> Array:
    (k,) = np.nonzero(values == value)
    return P[:, k[0]] if k.size else np.zeros(len(P))
