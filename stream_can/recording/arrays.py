"""Recordings of arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.method.checks import bad_rows
from stream_can.method.rows import as_float64
from stream_can.method.segments import column_names, texts_of
from stream_can.recording.recording import CHUNK, Chunk, Segments


def from_arrays(
    P: ArrayLike,
    y: ArrayLike,
    time: ArrayLike | None = None,
    label_time: ArrayLike | None = None,
    segments: Mapping[str, Sequence[Any]] | None = None,
) -> Iterator[Chunk]:
    """Build chunks from arrays in memory, for :func:`stream_can.replay.steps`.

    Parameters
    ----------
    P
        Probabilities, shape (n, m).
    y
        Index of each row's class, shape (n,), -1 without a label.
    time, label_time
        Time of each prediction (ascending) and of each label, shape (n,); both or neither.
    segments
        {column: n values} of the columns.

    Raises
    ------
    InvalidPrediction, UnknownClass, ValueError
        P, y or a column value is anything else; the message names the row.
    """
    probs, labels = as_float64(P), np.asarray(y)
    if probs.ndim != 2:
        raise InvalidPrediction(f"predictions have shape {probs.shape}, expected (n, m)")
    for row, why in bad_rows(probs).items():
        raise InvalidPrediction(f"row {row}: {why}")
    if labels.shape != (len(probs),) or labels.dtype.kind not in "iu":
        raise UnknownClass(
            f"labels are {labels.dtype} of shape {labels.shape}, expected {len(probs)} indices of"
            " classes, -1 where there is none"
        )
    wrong = (labels < -1) | (labels >= probs.shape[1])
    if wrong.any():
        row = int(wrong.argmax())
        raise UnknownClass(
            f"row {row}: label {labels[row]} is not in [0, {probs.shape[1]}), nor -1 for none"
        )
    by_name: Segments | None = None
    if segments is not None:
        names = column_names(segments)
        texts = texts_of(names, segments, many=True)
        by_name = {
            name: np.array(column, object) for name, column in zip(names, texts, strict=True)
        }
        if odd := [name for name, column in by_name.items() if column.shape != labels.shape]:
            raise ValueError(f"segments: {odd[0]!r}: expected {len(labels)} values")
    return _cut(probs, labels.astype(np.int64), time, label_time, by_name)


def _cut(
    probs: NDArray[np.float64],
    labels: NDArray[np.int64],
    time: ArrayLike | None,
    label_time: ArrayLike | None,
    segments: Segments | None,
) -> Iterator[Chunk]:
    times = [None if t is None else np.asarray(t) for t in (time, label_time)]
    for first in range(0, len(probs), CHUNK):
        cut = slice(first, first + CHUNK)
        predicted_at, known_at = (None if t is None else t[cut] for t in times)
        arrives = labels[cut] >= 0
        if known_at is not None and known_at.dtype.kind in "fM":
            arrives &= ~np.isnan(known_at)
        chunk_segments = (
            None if segments is None else {name: values[cut] for name, values in segments.items()}
        )
        yield Chunk(first, probs[cut], labels[cut], arrives, predicted_at, known_at, chunk_segments)
