"""Which classes can it be, with 90 % certainty? Sets that keep what they promise while labels are
late and the stream drifts."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import InvalidPrediction, SnapshotMismatch
from stream_can.method.checks import bad_rows
from stream_can.method.classes import ClassIndex, class_names
from stream_can.method.rows import as_float64
from stream_can.trust.histogram import (
    believe,
    learn_label,
    score,
    sets_now,
    sets_of,
)
from stream_can.trust.locking import one_at_a_time

__all__ = ["Belief", "PredictionSets", "Ticket"]

BINS = 560
ROWS_GROWTH = 2 ** (1 / 1000)
"""Of the weight of rows: the belief of one counts half 1000 rows later."""
MOST_ROWS = 100_000
"""Whose weight grows at a time: by 1e30."""
MOST_WEIGHT = 1e100
MEMORY = 0.01
"""Weight of a label in the mean number of those that are on their way."""
STEP, SLOW = 0.5, 100.0
"""gamma = STEP / (D + SLOW)."""

Array = NDArray[np.float64]


class Ticket(NamedTuple):
    """What a set was made with; keep it until the label of its row comes."""

    theta: float
    row: int
    """Its number."""

    def missed(self, p: float) -> bool:
        """Whether theta missed a class that the row gave so much."""
        return score(p) > self.theta


class Belief:
    """What rows themselves believe in, gathered for :meth:`PredictionSets.observe`.

    Attributes
    ----------
    rows
        How many.
    sums
        Of each of 560 scores what they give it, (560,); the last row weighs 1.
    """

    def __init__(self) -> None:
        self.rows, self.sums = 0, np.zeros(BINS)

    def add(self, rows: Array) -> None:
        """More rows, shape (n, m), checked."""
        believe(np.ascontiguousarray(rows), self.sums, ROWS_GROWTH)
        self.rows += len(rows)

    def merge(self, other: Belief) -> None:
        """The rows of another one, as if they came behind."""
        self.sums *= ROWS_GROWTH**-other.rows
        self.sums += other.sums
        self.rows += other.rows


class SetsHead(msgspec.Struct):
    """What a snapshot says beside its arrays."""

    prediction_sets: Annotated[int, Meta(ge=1, le=1)]
    classes: list[Any]
    miss: Annotated[float, Meta(gt=0, lt=1)]
    half_life: Annotated[float, Meta(gt=0)]
    per_class: bool
    rows: Annotated[int, Meta(ge=0, le=2**53)]
    learned: Annotated[int, Meta(ge=0, le=2**53)]
    mean_delay: Annotated[float, Meta(ge=0)]


class PredictionSets:
    r"""Sets of classes that hold the true one in a promised share of the labelled rows.

    Online conformal prediction [1]_ on rows as they were sent, for labels that come late. A class
    is in the set where its score $s_k = -logit(p_k)$ is at most $\theta + d_k$; the likeliest
    always is. $\theta$ is the quantile $1 - \lambda$ of the scores of labels, half as heavy every
    ``half_life`` labels, and of pseudo-labels of total weight 1/miss which rows themselves believe
    in. The level moves with each label of a row that was sent with $\theta$:

    $$ logit(\lambda) = logit(miss) + i, \qquad i \leftarrow i + \frac{1/2}{D + 100} \cdot
       \frac{miss - [s_y > \theta + d_y]}{miss (1 - miss)} $$

    where D is the mean number of labels that are on their way when one comes: of the rows since its
    own the share that is labelled. Where $\lambda$ is below $10^{-4}$ all classes are sent. What is
    counted as missed is the set without the rule that the likeliest class is in it.

    What is promised: whatever the rows, the labels and their delays, the share of **labelled** rows
    whose set misses tends to ``miss``, since i stays bounded. Nothing is promised of rows without
    labels (label a random share of all), of single classes or of short windows.

    Parameters
    ----------
    classes
        The names of the classes in the order of the columns, or their number.
    miss
        The share of rows whose set may miss, in (0, 1).
    half_life
        After so many labels one counts half.
    per_class
        Learn a shift $d_k$ of each class too, $d_y \leftarrow d_y + ([missed] - miss)/\sqrt{n_y +
        1}$: the worst covered class is covered better, and sets are larger.

    Raises
    ------
    ValueError
        An argument is out of range; the message names it.

    References
    ----------
    .. [1] Gibbs and Candes: Adaptive conformal inference under distribution shift. NeurIPS 2021.

    Examples
    --------
    >>> sets = PredictionSets(["cat", "dog", "fish"], miss=0.1)
    >>> found, ticket = sets.set_one([0.7, 0.2, 0.1])
    >>> found[0]
    'cat'
    >>> sets.learn_one([0.7, 0.2, 0.1], "dog", ticket)
    """

    def __init__(
        self,
        classes: int | Iterable[Hashable],
        miss: float = 0.1,
        *,
        half_life: float = 5000.0,
        per_class: bool = False,
    ) -> None:
        if not 0 < miss < 1:
            raise ValueError(f"miss: {miss}, expected a share above 0 and below 1")
        if not half_life > 0:
            raise ValueError(f"half_life: {half_life}, expected a number of labels above 0")
        self._lock = threading.RLock()
        self.classes = class_names(classes)
        self.miss, self.half_life, self.per_class = float(miss), float(half_life), bool(per_class)
        self._index = ClassIndex(self.classes)
        m = len(self.classes)
        self._labels, self._belief = np.zeros(BINS), np.zeros(BINS)
        self._state = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
        """Weight of the next label, of the next row, sum of the belief, i, sum of the labels."""
        self._shifts, self._counts = np.zeros(m), np.zeros(m)
        self._rows, self._learned, self._mean_delay = 0, 0, 0.0

    @property
    def level(self) -> float:
        """The share that sets aim to miss now, so that labels are missed as promised."""
        z = math.log(self.miss / (1 - self.miss)) + float(self._state[3])
        return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))

    def set_one(self, row: ArrayLike) -> tuple[list[Any], Ticket]:
        """The set of a row, shape (m,), as it is sent, and what :meth:`learn_one` needs of it.

        Returns
        -------
        The names of its classes, the likeliest first.

        Raises
        ------
        InvalidPrediction
            The row is no probability vector; it was not counted.
        """
        inside, tickets = self.set_many(np.asarray(row)[None])
        order = np.argsort(-np.asarray(row, np.float64), kind="stable")
        return [self.classes[k] for k in order if inside[0, k]], tickets[0]

    def set_many(self, rows: ArrayLike) -> tuple[NDArray[np.bool_], list[Ticket]]:
        """:meth:`set_one` for each of ``rows``, shape (n, m), in order; the same bits.

        Returns
        -------
        Whether each class is in the set of each row, shape (n, m), and the tickets. All rows are
        checked before the first is counted.
        """
        return self.set_checked(self._checked(rows))

    @one_at_a_time
    def set_checked(self, rows: Array) -> tuple[NDArray[np.bool_], list[Ticket]]:
        """:meth:`set_many` of rows that were checked before they were rounded as they are sent."""
        P = np.ascontiguousarray(rows)
        inside, thetas = np.zeros(P.shape, np.uint8), np.empty(len(P))
        first = self._rows
        self._rows += len(P)
        sets_of(
            P, self._labels, self._belief, self._state, self._shifts, self.miss, ROWS_GROWTH,
            inside, thetas, np.empty(P.shape[1]),
        )  # fmt: skip
        return inside.view(np.bool_), [
            Ticket(theta, first + i) for i, theta in enumerate(thetas.tolist())
        ]

    def learn_one(self, row: ArrayLike, label: Hashable, ticket: Ticket) -> None:
        """Learn the label of a row that was sent with the set of a ticket.

        Raises
        ------
        InvalidPrediction, UnknownClass, ValueError
            The row, the label or the ticket is none of these sets'; nothing was learned.
        """
        self.learn_many(np.asarray(row)[None], [label], [ticket])

    @one_at_a_time
    def learn_many(
        self, rows: ArrayLike, labels: Sequence[Hashable], tickets: Sequence[Ticket]
    ) -> None:
        """:meth:`learn_one` for each row, label and ticket, in order; all are checked first."""
        P = self._checked(rows)
        ys = [self._index[label] for label in labels]
        if not len(P) == len(ys) == len(tickets):
            raise ValueError(f"{len(P)} rows, {len(ys)} labels and {len(tickets)} tickets")
        given = [Ticket(*ticket) for ticket in tickets]  # from JSON they come as lists
        for theta, at in given:
            if math.isnan(theta) or not 0 <= at < self._rows:
                raise ValueError(f"ticket: {(theta, at)} is none that these sets gave")
        for p, y, ticket in zip(P[np.arange(len(P)), ys].tolist(), ys, given, strict=True):
            self._learn(p, y, ticket)

    def _learn(self, p: float, y: int, ticket: Ticket) -> None:
        self._learned += 1
        under_way = (self._rows - ticket.row) * self._learned / (ticket.row + 1)
        weight = max(1 / self._learned, MEMORY)
        self._mean_delay += weight * (under_way - self._mean_delay)
        gamma = STEP / (self._mean_delay + SLOW)
        learn_label(
            p, y, ticket.theta, self._labels, self._state, self._shifts, self._counts, self.miss,
            gamma, 2 ** (1 / self.half_life), self.per_class,
        )  # fmt: skip

    # ---- where several learn from one stream

    @property
    def rows(self) -> int:
        """The rows that were counted."""
        return self._rows

    @one_at_a_time
    def now(self, rows: Array) -> tuple[NDArray[np.bool_], Array]:
        """The sets of checked rows, shape (n, m), by what is known now, and theta of each, (n,);
        nothing is counted. Before anything is known a row has the set that it would have as the
        first one. Not ``per_class``."""
        P = np.ascontiguousarray(rows)
        inside, thetas = np.zeros(P.shape, np.uint8), np.empty(len(P))
        if self._state[2] > 0:
            thetas[:] = sets_now(P, self._labels, self._belief, self._state, self.miss, inside)
        else:
            for i in range(len(P)):
                sets_of(
                    P[i : i + 1], self._labels, np.zeros(BINS), self._state.copy(), self._shifts,
                    self.miss, ROWS_GROWTH, inside[i : i + 1], thetas[i : i + 1],
                    np.empty(P.shape[1]),
                )  # fmt: skip
        return inside.view(np.bool_), thetas

    @one_at_a_time
    def observe(self, belief: Belief) -> None:
        """Count rows whose belief was gathered."""
        state, n = self._state, belief.rows
        for _ in range(0, n, MOST_ROWS):
            state[1] *= ROWS_GROWTH ** min(n, MOST_ROWS)
            n -= MOST_ROWS
            if state[1] > MOST_WEIGHT:
                self._belief /= state[1]
                state[2] /= state[1]
                state[1] = 1.0
        self._belief += state[1] * belief.sums
        state[2] += state[1] * belief.sums.sum()
        self._rows += belief.rows

    @one_at_a_time
    def learn_known(self, p: float, missed: bool, row: int) -> None:
        """Learn a label of which this is known: what its row gave it, as sent; whether theta of
        that row's set missed it; and how many rows had been counted before. Not ``per_class``."""
        theta = -math.inf if missed else math.inf
        self._learn(p, 0, Ticket(theta, min(row, self._rows)))

    def _checked(self, rows: ArrayLike) -> Array:
        P = np.atleast_2d(as_float64(rows))
        if P.ndim != 2 or P.shape[1] != len(self.classes):
            raise InvalidPrediction(f"rows of shape {P.shape}, expected (n, {len(self.classes)})")
        if bad := bad_rows(P):
            number, why = next(iter(bad.items()))
            raise InvalidPrediction(f"row {number}: {why}")
        return P

    # ---- the whole state

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """The whole state with its settings, versioned and checksummed."""
        head = {
            "prediction_sets": 1,
            "classes": list(self.classes),
            "miss": self.miss,
            "half_life": self.half_life,
            "per_class": self.per_class,
            "rows": self._rows,
            "learned": self._learned,
            "mean_delay": self._mean_delay,
        }
        return snapshot.encode(head, self._arrays())

    def _arrays(self) -> dict[str, Array]:
        return {
            "labels": self._labels, "belief": self._belief, "state": self._state,
            "shifts": self._shifts, "counts": self._counts,
        }  # fmt: skip

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What :meth:`to_bytes` wrote; it goes on as if it had never stopped.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, of another version or none of prediction sets.
        """
        head, arrays = snapshot.of_kind(data, "prediction_sets", "prediction sets", SetsHead)
        try:
            self = cls(head.classes, head.miss, half_life=head.half_life, per_class=head.per_class)
        except (ValueError, TypeError) as error:
            raise SnapshotMismatch(f"snapshot: {error}") from None
        for name, own in self._arrays().items():
            found = arrays.get(name)
            if found is None or found.dtype != np.float64 or found.shape != own.shape:
                raise SnapshotMismatch(f"snapshot: prediction sets without their {name}")
            signed = name in ("shifts", "state")
            if not np.isfinite(found).all() or (not signed and (found < 0).any()):
                raise SnapshotMismatch(f"snapshot: {name} of prediction sets out of range")
            own[:] = found
        least, most = (
            np.array([1.0, 1.0, 0.0, -1e6, 0.0]),
            np.array([1e201, 1e201, 1e205, 1e6, 1e209]),
        )
        in_range = ((least <= self._state) & (self._state <= most)).all()
        if not in_range or not math.isfinite(head.mean_delay):
            raise SnapshotMismatch("snapshot: state of prediction sets out of range")
        self._rows, self._learned, self._mean_delay = head.rows, head.learned, head.mean_delay
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        more = ", per_class=True" if self.per_class else ""
        return f"PredictionSets({len(self.classes)} classes, miss={self.miss}{more})"
