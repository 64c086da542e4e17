"""Label requests: half of a budget at random, half for rows with a small margin."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.method.uncertainty import margin

ROWS = 1000
"""Number of rows in which no id is requested twice."""
SPAN, LEAST = 500, 3
"""Minimum number of rows over which a part of the budget is kept, and minimum of requests."""
PACE = 19.0
"""Gain of spending: the rest of the budget settles at a twentieth."""
GAIN, MEMORY = 0.2, 0.99
"""Step of the threshold in mean distances of scores from it, and the horizon of that mean."""

Share = Annotated[float, Meta(ge=0, le=1)]


class LabelRequest(NamedTuple):
    """A label request with its reason."""

    reason: Literal["random", "margin"]
    probability: float
    """Probability of a request at that moment, whatever the row; 1 for margin."""


class AskingHead(msgspec.Struct):
    """Head of a snapshot: everything but its arrays."""

    label_requests: Literal[2]
    """The format."""
    budget: Annotated[float, Meta(gt=0, le=1)]
    random_share: Share
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    rows: Annotated[int, Meta(ge=0)]
    threshold: Annotated[float, Meta(ge=-1e6, le=1e6)] | None
    distance: Annotated[float, Meta(ge=0, le=1e6)]


class LabelRequests:
    r"""Decides row by row whether to request the label of a prediction.

    Half of the budget goes to random rows, half to those whose corrected row has the smallest
    margin between the best and second best class [1]_. The random half keeps the labels a fair
    sample for scores; do not score by the others.

    Each half is a leaky bucket. Let s be its share of the rows and N = max(500, 3/s). A request
    adds 1 to its level; every row removes 1/N:

    $$ u \leftarrow (1 - 1/N)\, u, \qquad r = \min(1, \max(0, 19 (s - u/N))) $$

    A row is requested at random with probability r. It is requested by margin if $1 - (best -
    second best)$ reaches a threshold that follows its 1 - r quantile. So each half starts faster,
    then settles at 95 % of its share; it never requests more than (s + 1/N)(T + N) of any T rows.

    Parameters
    ----------
    budget
        Share of the rows to request, above 0 and at most 1.
    random_share
        Part of the budget spent at random, in [0, 1].
    seed
        Seed of the random draw, which is a hash of it and the prediction's id.

    Raises
    ------
    ValueError
        An argument is out of range; the message names it.

    References
    ----------
    .. [1] Joshi, Porikli, Papanikolopoulos: Multi-class active learning for image classification.
       CVPR 2009.

    Examples
    --------
    >>> requests = LabelRequests(0.02)
    >>> requests.ask_one("order-23", [0.5, 0.4, 0.1])
    LabelRequest(reason='margin', probability=1.0)
    >>> requests.ask_one("order-24", [0.96, 0.03, 0.01]) is None
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
        self._asked: OrderedDict[int, int] = OrderedDict()
        """Digest of each recently requested id -> its row; oldest first."""

    def ask_one(self, id: str | int | bytes, row: ArrayLike) -> LabelRequest | None:
        """Decide whether to request the label of the latest prediction.

        Parameters
        ----------
        id
            Id of the prediction, not of its subject: a repeated id has the same draw, and is not
            requested twice within 1,000 rows.
        row
            The corrected row, shape (m,).

        Returns
        -------
        The request; None for no request.

        Raises
        ------
        InvalidPrediction
            ``row`` is not a probability vector; it was not counted.
        """
        return self.ask_many([id], np.asarray(row)[None])[0]

    def ask_many(
        self, ids: Iterable[str | int | bytes], rows: ArrayLike
    ) -> list[LabelRequest | None]:
        """Run :meth:`ask_one` on each id and row of ``rows``, shape (n, m), in order.

        All rows are checked before the first is counted.
        """
        rows = np.asarray(rows)
        return self.ask_scored(ids, margin(rows).tolist() if len(rows) else [])

    def ask_scored(
        self, ids: Iterable[str | int | bytes], scores: Sequence[float]
    ) -> list[LabelRequest | None]:
        """Run :meth:`ask_one` on ids and uncertainties of their rows, each in [0, 1], in order.

        For rows that are no probability vectors: by the uncertainty of your choice, 0 is certain.
        """
        ids = list(ids)
        if len(ids) != len(scores):
            raise ValueError(f"ids: {len(ids)} for {len(scores)} rows")
        if not all(0 <= score <= 1 for score in scores):
            raise ValueError("scores: expected numbers in [0, 1]")
        return [self._ask(_digest(id, self._key), s) for id, s in zip(ids, scores, strict=True)]

    def _ask(self, digest: int, score: float) -> LabelRequest | None:
        """Decide on a request at random or by margin.

        The threshold follows the scores so that the share of rows at or above it is as wanted. It
        moves with every row, requested or not.
        """
        self._rows += 1
        at_random, by_margin = self._random.next_rate(), self._margin.next_rate()
        if self._threshold != self._threshold:
            self._threshold = score
        is_uncertain = score >= self._threshold
        distance = abs(score - self._threshold)
        self._distance = MEMORY * self._distance + (1 - MEMORY) * distance
        self._threshold += GAIN * max(1e-6, self._distance) * (is_uncertain - by_margin)
        if (digest + 2**63) / 2**64 < at_random:
            part, request = self._random, LabelRequest("random", at_random)
        elif is_uncertain and by_margin:
            part, request = self._margin, LabelRequest("margin", 1.0)
        else:
            return None
        self._forget()
        if digest in self._asked:
            return None
        self._asked[digest] = self._rows
        part.used += 1
        return request

    def _forget(self) -> None:
        """Forget requests before the last ``ROWS`` rows."""
        requests, last = self._asked, self._rows - ROWS
        while requests and next(iter(requests.values())) <= last:
            requests.popitem(last=False)

    # ---- snapshots

    def to_bytes(self) -> bytes:
        """Serialise the state with its settings, versioned and checksummed."""
        self._forget()
        head = {
            "label_requests": 2,
            "budget": self.budget,
            "random_share": self.random_share,
            "seed": self.seed,
            "rows": self._rows,
            "threshold": None if math.isnan(self._threshold) else self._threshold,
            "distance": self._distance,
        }
        arrays: dict[str, NDArray[Any]] = {
            "used": np.array([self._random.used, self._margin.used]),
            "asked": np.array([(r, d) for d, r in self._asked.items()], np.int64).reshape(-1, 2),
        }
        return snapshot.encode(head, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Load :meth:`to_bytes`; it continues as if it had never stopped.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, or of another version or kind.
        """
        head, arrays = snapshot.of_kind(data, "label_requests", "label requests", AskingHead)
        self = cls(head.budget, head.random_share, seed=head.seed)
        self._rows, self._distance = head.rows, head.distance
        self._threshold = math.nan if head.threshold is None else head.threshold
        requests = _pairs(arrays.get("asked"), max(0, head.rows - ROWS), head.rows)
        used = arrays.get("used")
        if used is None or used.dtype != np.float64 or used.shape != (2,):
            raise SnapshotMismatch("snapshot: label requests say not what is used of each half")
        self._random.use(float(used[0]))
        self._margin.use(float(used[1]))
        self._asked.update((digest, row) for row, digest in requests.tolist())
        if len(self._asked) < len(requests):
            raise SnapshotMismatch("snapshot: label requests name an id twice")
        self._forget()
        return self

    def resumed(self, data: bytes) -> Self:
        """Load :meth:`to_bytes` if it has the same settings; otherwise return ``self``."""
        other = type(self).from_bytes(data)
        return other if repr(other) == repr(self) else self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"LabelRequests({self.budget}, random_share={self.random_share}, seed={self.seed})"


class _Part:
    """A part of the budget, as a leaky bucket."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.leak = min(1 / SPAN, share / LEAST)
        """1/N of :class:`LabelRequests`."""
        self.used = 0.0

    def next_rate(self) -> float:
        """Rate at which to request the present row; 0 where nothing is left."""
        self.used *= 1 - self.leak
        rate = PACE * (self.share - self.leak * self.used)
        return 0.0 if rate < 0 else min(rate, 1.0)

    def use(self, used: float) -> None:
        """Restore the level from a snapshot.

        Requests are made below c = s N, so the level never exceeds c + 1.
        """
        most = self.share / self.leak + 1 if self.leak else 0
        if not 0 <= used <= most:
            raise SnapshotMismatch(f"snapshot: {used} label requests used of {self.share}")
        self.used = used


def _pairs(requests: NDArray[Any] | None, after_row: int, last_row: int) -> NDArray[np.int64]:
    """Check rows above ``after_row``, at most ``last_row``, with digests of ids, shape (n, 2)."""
    if (
        requests is None
        or requests.dtype != np.int64
        or requests.ndim != 2
        or requests.shape[1] != 2
    ):
        raise SnapshotMismatch("snapshot: label requests are no pairs of row and id")
    rows = requests[:, 0]
    if len(rows) and not (
        after_row < rows[0] and (rows[:-1] < rows[1:]).all() and rows[-1] <= last_row
    ):
        raise SnapshotMismatch("snapshot: label requests are not in the order of their rows")
    return requests


def _digest(id: str | int | bytes, key: bytes) -> int:
    """64 bits of an id, equal in all processes and on all machines."""
    data = id if isinstance(id, bytes) else str(id).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, key=key).digest(), "little", signed=True)
