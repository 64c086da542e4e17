"""Data frames for river classifiers, of any kind supported by narwhals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from river.utils import dataframe

from stream_can.method.weights import weight_of_label

Array = NDArray[np.float64]


def into_rows(X: Any) -> Any:
    """Convert to a narwhals frame, or a series for pipelines that begin with text."""
    return nw.from_native(X, eager_only=True, allow_series=True)


def records(frame: Any) -> Iterator[Any]:
    """The rows as arguments of ``*_one``."""
    return iter(frame.to_list()) if isinstance(frame, nw.Series) else frame.iter_rows(named=True)


def into_labels(y: Any, n: int) -> list[Any]:
    """One label per row; None where null, or without labels."""
    if y is None:
        return [None] * n
    series = dataframe.into_series(y)
    if len(series) != n:
        raise ValueError(f"learn_many: {n} rows but {len(series)} labels; null is for no label")
    nulls = series.is_null().to_list()
    return [None if null else y for y, null in zip(series.to_list(), nulls, strict=True)]


def into_weights(w: Any, labels: list[Any]) -> list[float | None]:
    """The weight of each label; None for all without weights, and for rows without a label."""
    w = nw.from_native(w, series_only=True, pass_through=True)
    weights = w.to_list() if isinstance(w, nw.Series) else [w] * len(labels)
    if len(weights) != len(labels):
        raise ValueError(f"learn_many: {len(labels)} rows but {len(weights)} weights w")
    return [
        None if w is None or y is None else weight_of_label(weight)
        for weight, y in zip(weights, labels, strict=True)
    ]


def into_frame(P: Array, classes: Sequence[Any], like: Any) -> Any:
    """Probabilities, shape (n, m), as a frame of the kind of ``like`` with a column per class."""
    if not classes:
        return (like.to_frame() if isinstance(like, nw.Series) else like).select([]).to_native()
    columns = {name: P[:, i] for i, name in enumerate(classes)}
    return dataframe.to_native_frame(columns, like=like)


def into_series(values: Sequence[Any], like: Any) -> Any:
    """Values as a series of the kind of ``like``."""
    return dataframe.to_native_series(values, name=None, like=like)


def takes_frames(classifier: Any, method: str) -> bool:
    """Whether a classifier has ``method``; a pipeline only where all of its steps support it.

    Some naive Bayes classifiers of river mix up the rows of a batch; they declare that by a skipped
    check.
    """
    *transformers, last = getattr(classifier, "steps", {"": classifier}).values()
    mixes = "check_predict_proba_many_matches_predict_proba_one"
    if not hasattr(last, method) or (
        method == "predict_proba_many" and mixes in getattr(last, "_unit_test_skips", set)()
    ):
        return False
    return all(hasattr(step, "transform_many") for step in transformers)


def predict(
    classifier: Any, predict_one: Callable[[Any], dict[Any, float]], frame: Any, **kwargs: Any
) -> tuple[list[Any], Array]:
    """Predict with the classifier.

    Parameters
    ----------
    classifier
        Called once for all rows where possible.
    predict_one
        Otherwise called for each row.
    frame
        Result of :func:`into_rows`.
    **kwargs
        Passed to ``classifier.predict_proba_many``.

    Returns
    -------
    The classes named by the classifier, and its probabilities, shape (n, classes).
    """
    rows = records(frame)
    x = next(rows, None)
    if x is None:
        return [], np.empty((0, 0))
    first = predict_one(x)
    # Before the first class a polars frame would come back without its rows, or fail.
    if first and takes_frames(classifier, "predict_proba_many"):
        # In river 0.26.1 SKL2RiverClassifier fails on a pandas frame where classes are not strings.
        # Predicting changes nothing, so the rows are predicted one by one; if the rows are at
        # fault, that raises again.
        with contextlib.suppress(TypeError):
            P = dataframe.into_frame(classifier.predict_proba_many(frame.to_native(), **kwargs))
            # Only pandas has names other than strings; a single row tells what they mean.
            spelled = {str(name): name for name in first}
            return [spelled.get(str(name), name) for name in P.columns], dataframe.to_numpy(P)
    predictions = [first, *map(predict_one, rows)]
    names = list(dict.fromkeys(name for p in predictions for name in p))
    return names, np.array([[p.get(name, 0.0) for name in names] for p in predictions], np.float64)


def learning_method(classifier: Any) -> Any:
    """The method that `learn` calls."""
    many = takes_frames(classifier, "learn_many")
    return classifier.learn_many if many else classifier.learn_one


def learn(classifier: Any, frame: Any, y: Any, labels: list[Any], **kwargs: Any) -> None:
    """Teach the classifier the labelled rows, at once if possible, else one by one."""
    seen = [label is not None for label in labels]
    if not any(seen):
        return
    if not takes_frames(classifier, "learn_many"):
        for x, label in zip(records(frame), labels, strict=True):
            if label is not None:
                classifier.learn_one(x, label, **kwargs)
        return
    if not all(seen):
        frame, y = frame.filter(seen), dataframe.into_series(y).filter(seen).to_native()
        kwargs = {name: only(value, seen) for name, value in kwargs.items()}
    classifier.learn_many(frame.to_native(), y, **kwargs)


def only(value: Any, seen: list[bool]) -> Any:
    """Entries of a series of weights that belong to labelled rows; a number applies to all."""
    value = nw.from_native(value, series_only=True, pass_through=True)
    return value.filter(seen).to_native() if isinstance(value, nw.Series) else value
