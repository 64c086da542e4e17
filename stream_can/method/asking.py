"""Which labels to ask for: half of a budget at random, half where the corrected row is torn."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.method.uncertainty import margin

__all__ = ["LabelRequest", "LabelRequests"]

ROWS = 1000
"""The budget holds over any so many rows."""
PACE = 9.0
"""How eagerly what is left of the budget is spent: a tenth of it stays for what comes."""
GAIN, MEMORY = 0.2, 0.99
"""How far the threshold moves, in mean distances of scores from it; and how long these count."""

Share = Annotated[float, Meta(ge=0, le=1)]


class LabelRequest(NamedTuple):
    """Why a label is asked for."""

    reason: Literal["random", "margin"]
    probability: float
    """With which a row was asked for at that moment, whatever was in it; 1 by margin."""


class AskingHead(msgspec.Struct):
    """What a snapshot says beside the requests of the window."""

    label_requests: Annotated[int, Meta(ge=1, le=1)]
    budget: Annotated[float, Meta(gt=0, le=1)]
    random_share: Share
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    rows: Annotated[int, Meta(ge=0)]
    threshold: Annotated[float, Meta(ge=-1e6, le=1e6)] | None
    distance: Annotated[float, Meta(ge=0, le=1e6)]


class LabelRequests:
    r"""Decides, row by row, whether to ask for the label of a prediction.

    Half of the budget goes to rows drawn at random, half to those whose corrected row has the
    smallest margin between the best and the second best class [1]_. The random half keeps the
    labels a sample that scores can be taken from; do not score by the others.

    With c requests allowed in N rows and f of them still free, a row is asked for at random with
    probability 9 f / N. It is asked for by margin where $s = 1 - (best - second best)$ reaches a
    threshold T that follows the 1 - 9 f / N quantile of s. So a half never asks for more than c in
    any N rows, begins faster and stays below its part of the budget by about a tenth.

    Parameters
    ----------
    budget
        Share of the rows to ask for, above 0 and at most 1. Holds over any 1,000 rows, rounded up
        to whole requests of each half (over as many more rows as one request takes, below 1 in
        1,000).
    random_share
        The part of the budget that is spent at random, in [0, 1].
    seed
        Another seed draws other rows. The draw is a hash of it and of the prediction's id.

    Raises
    ------
    ValueError
        Where an argument is out of range; the message names it.

    References
    ----------
    .. [1] Joshi, Porikli, Papanikolopoulos: Multi-class active learning for image classification.
       CVPR 2009.

    Examples
    --------
    >>> requests = LabelRequests(0.02)
    >>> requests.ask_one("order-17", [0.5, 0.4, 0.1])
    LabelRequest(reason='margin', probability=1.0)
    >>> requests.ask_one("order-18", [0.96, 0.03, 0.01]) is None
    True
    """

    def __init__(self, budget: float, random_share: float = 0.5, *, seed: int = 0) -> None:
        if not 0 < budget <= 1:
            raise ValueError(f"budget: {budget}, expected a share of the rows, above 0, at most 1")
        if not 0 <= random_share <= 1:
            raise ValueError(f"random_share: {random_share}, expected a share in [0, 1]")
        if not -(2**63) <= seed < 2**63:
            raise ValueError(f"seed: {seed}, expected an integer of 64 bits")
        self.budget, self.random_share, self.seed = float(budget), float(random_share), int(seed)
        self._key = self.seed.to_bytes(8, "little", signed=True)
        self._random = _Part(self.budget * self.random_share)
        self._margin = _Part(self.budget * (1 - self.random_share))
        self._rows, self._threshold, self._distance = 0, math.nan, 0.0

    def ask_one(self, id: str | int | bytes, row: ArrayLike) -> LabelRequest | None:
        """Whether to ask for the label of a prediction that just went by.

        Parameters
        ----------
        id
            Of the prediction, not of what it is about: where an id comes again, its draw is the
            same, and it is not asked for twice in 1,000 rows.
        row
            The corrected row, shape (m,).

        Returns
        -------
        Why it is asked for; None where it is not.

        Raises
        ------
        InvalidPrediction
            Where ``row`` is no probability vector; it was not counted.
        """
        return self.ask_many([id], np.asarray(row)[None])[0]

    def ask_many(
        self, ids: Iterable[str | int | bytes], rows: ArrayLike
    ) -> list[LabelRequest | None]:
        """:meth:`ask_one` for each id and row of ``rows``, shape (n, m), in order.

        All rows are checked before the first is counted.
        """
        rows, ids = np.asarray(rows), list(ids)
        scores = margin(rows).tolist() if len(rows) else []
        if len(ids) != len(scores):
            raise ValueError(f"ids: {len(ids)} for {len(scores)} rows")
        return [self._ask(_digest(id, self._key), s) for id, s in zip(ids, scores, strict=True)]

    def _ask(self, digest: int, score: float) -> LabelRequest | None:
        """Whether to ask for the label of one row, at random or because it is torn.

        The threshold of "torn" follows the scores, so that the share of rows at or above it comes
        to what is wanted. It moves with every row, also with one that is not asked for.
        """
        self._rows += 1
        now = self._rows
        drawn, wanted = self._random.rate(now), self._margin.rate(now)
        if self._threshold != self._threshold:
            self._threshold = score
        torn = score >= self._threshold
        distance = abs(score - self._threshold)
        self._distance = MEMORY * self._distance + (1 - MEMORY) * distance
        self._threshold += GAIN * max(1e-6, self._distance) * (torn - wanted)
        if (digest + 2**63) / 2**64 < drawn:
            part, request = self._random, LabelRequest("random", drawn)
        elif torn and wanted:
            part, request = self._margin, LabelRequest("margin", 1.0)
        else:
            return None
        if self._random.has(digest) or self._margin.has(digest):
            return None
        part.asked.append((now, digest))
        return request

    # ---- the whole state

    def to_bytes(self) -> bytes:
        """The whole state with its settings, versioned and checksummed."""
        head = {
            "label_requests": 1,
            "budget": self.budget,
            "random_share": self.random_share,
            "seed": self.seed,
            "rows": self._rows,
            "threshold": None if math.isnan(self._threshold) else self._threshold,
            "distance": self._distance,
        }
        parts = {"random": self._random.dump(), "margin": self._margin.dump()}
        return snapshot.encode(head, parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What :meth:`to_bytes` wrote; it goes on as if it had never stopped.

        Raises
        ------
        SnapshotMismatch
            Where the bytes are truncated, corrupt, of a newer version or none of label requests.
        """
        content, arrays, _ = snapshot.decode(data)
        if "label_requests" not in content:
            raise SnapshotMismatch("snapshot: holds no label requests")
        head = snapshot.typed(content, AskingHead)
        self = cls(head.budget, head.random_share, seed=head.seed)
        self._rows, self._distance = head.rows, head.distance
        self._threshold = math.nan if head.threshold is None else head.threshold
        self._random.load(arrays.get("random"), head.rows)
        self._margin.load(arrays.get("margin"), head.rows)
        return self

    def resumed(self, data: bytes) -> Self:
        """What :meth:`to_bytes` wrote, where it has these settings; else ``self``."""
        other = type(self).from_bytes(data)
        return other if repr(other) == repr(self) else self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"LabelRequests({self.budget}, random_share={self.random_share}, seed={self.seed})"


class _Part:
    """A part of the budget: never more than ``most`` requests in any ``window`` rows."""

    def __init__(self, share: float) -> None:
        # 1e-9: 1000 x 0.05 x 0.1 is more than 5 by an ulp.
        self.most = math.ceil(ROWS * share - 1e-9) if share else 0
        self.window = math.ceil(self.most / share - 1e-9) if share else 1
        self.asked: deque[tuple[int, int]] = deque()
        """Row and id's digest of each request of the window."""

    def rate(self, now: int) -> float:
        """At which to ask now; 0 where nothing is left."""
        asked = self.asked
        while asked and asked[0][0] <= now - self.window:
            asked.popleft()
        return min(1.0, PACE * (self.most - len(asked)) / self.window)

    def has(self, digest: int) -> bool:
        return any(digest == other for _, other in self.asked)

    def dump(self) -> NDArray[np.int64]:
        return np.array(self.asked, np.int64).reshape(-1, 2)

    def load(self, asked: NDArray[Any] | None, now: int) -> None:
        if asked is None or asked.dtype != np.int64 or asked.ndim != 2 or asked.shape[1] != 2:
            raise SnapshotMismatch("snapshot: label requests are no pairs of row and id")
        rows = asked[:, 0]
        if len(rows) and not (rows[0] > 0 and (np.diff(rows) > 0).all() and rows[-1] <= now):
            raise SnapshotMismatch("snapshot: label requests are not in the order of their rows")
        if len(rows) > self.most:
            raise SnapshotMismatch(f"snapshot: {len(rows)} label requests, at most {self.most}")
        self.asked.extend(map(tuple, asked.tolist()))


def _digest(id: str | int | bytes, key: bytes) -> int:
    """64 bits of an id, the same in every process and on every machine."""
    data = id if isinstance(id, bytes) else str(id).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, key=key).digest(), "little", signed=True)
