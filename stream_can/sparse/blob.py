"""SparseBlob: a sparse row, the row that was sent and its receipt, as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.method.receipt_checks import require_probabilities, require_size
from stream_can.method.rows import TOLERANCE
from stream_can.sparse.loop import MOST_LISTED
from stream_can.sparse.rows import NumberedRows

PROMOTED = 5
"""Maximum number of classes a corrected row has beyond its own."""


class SparseBlob:
    """A row, the sent row and the receipt, to and from bytes.

    Words of 4 bytes: k, the k classes and their probabilities (float64); the number of classes
    sent, those classes, their probabilities and the rest (float64); 3 (k + 1) numbers of the
    receipt (float32).
    """

    def __init__(self, data: bytes) -> None:
        words = np.frombuffer(data, "<i4")
        k = int(words[0])
        self.ids, self.P = words[1 : 1 + k], _float64(words, 1 + k, k)
        self.raw_words = at = 1 + 3 * k
        if len(words) > at:
            n = int(words[at])
            self.sent_ids = words[at + 1 : at + 1 + n]
            *sent, self.rest = _float64(words, at + 1 + n, n + 1).tolist()
            self.sent_P = np.array(sent)
            at += 3 + 3 * n
            self.receipt = words[at : at + 3 * (k + 1)].view("<f4").reshape(3, k + 1)

    @staticmethod
    def raw(rows: NumberedRows, i: int) -> bytes:
        """Encode the first part for a row of a call."""
        k = int(rows.ks[i])
        return encoded(rows.ids[i, :k], rows.P[i, :k])

    @staticmethod
    def sent(ids: Any, P: Any, rest: float, receipt: NDArray[np.float32]) -> bytes:
        """Encode what is behind the first part: the row that was sent, and its receipt."""
        return encoded(ids, P) + np.array(rest, "<f8").tobytes() + receipt.astype("<f4").tobytes()


def encoded(ids: Any, P: Any) -> bytes:
    """Number of classes, the classes, and their probabilities."""
    return (
        len(ids).to_bytes(4, "little") + np.asarray(ids, "<i4").tobytes()
        + np.asarray(P, "<f8").tobytes()
    )  # fmt: skip


def _float64(words: NDArray[np.int32], at: int, n: int) -> NDArray[np.float64]:
    return np.frombuffer(words[at : at + 2 * n].tobytes(), "<f8")


def checked_blobs(data: NDArray[Any], known: int) -> Iterator[bytes]:
    """Check and cut blobs, padded to the widest: float32 of shape (n, words).

    ValueError where one is invalid, or has a class that is no number below ``known``.
    """
    if data.dtype != np.float32:
        raise ValueError("recent predictions")
    most = data.shape[1]
    for i, row in enumerate(data):
        words = row.view(np.int32)
        k = int(words[0]) if most else 0
        at = 1 + 3 * k
        n = int(words[at]) if 0 < k <= MOST_LISTED and at < most else 0
        begin, length = at + 3 + 3 * n, 3 * (k + 1)
        size = begin + length
        if not 0 < k <= n <= k + PROMOTED or begin > most:
            raise ValueError("the size of recent predictions")
        require_size(row[None, begin:size], (1, length))
        blob = SparseBlob(words[:size].astype("<i4").tobytes())
        require_probabilities(blob.receipt[None], first=i)
        if not (
            _plausible(blob.ids, blob.P, known)
            and _plausible(blob.sent_ids, blob.sent_P, known)
            and 0 <= blob.rest <= 1 + TOLERANCE
        ):
            raise ValueError("recent predictions")
        yield words[:size].astype("<i4").tobytes()


def _plausible(ids: NDArray[np.int32], P: NDArray[np.float64], known: int) -> bool:
    """Whether these may be classes and their probabilities."""
    classes = ((ids >= 0) & (ids < known)).all() and len(np.unique(ids)) == len(ids)
    return bool(classes and (P >= 0).all() and P.sum() <= 1 + TOLERANCE)
