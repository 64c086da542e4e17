"""Alarm: whether the classifier has become worse, since when, and what correction makes up for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray

from stream_can import snapshot
from stream_can.errors import InvalidPrediction, SnapshotMismatch
from stream_can.method.checks import bad_rows
from stream_can.method.rows import as_float64
from stream_can.scores import RowScores, score_rows
from stream_can.trust import evidence
from stream_can.trust.locking import Locked, one_at_a_time

__all__ = ["Alarm", "Episode"]

REFERENCE = 1000
"""Number of labels in the reference of log losses."""
MOST_LOSS = 6.0
"""Log losses are clipped at this many nats for the test."""
BETS = 2.0 ** -np.arange(1.0, 7.0)
EVERY, MOST_EVERY = 10, 250
"""Labels between two tests: ten; beyond 2000 a hundredth of them, at most 250."""
PER_OCTAVE = 16
"""Minimum number of starts kept per doubling of their age."""
STAYS = 10_000
"""Labels after which a worse level becomes the new normal."""
MOST_EPISODES = 20
SIDES = ("raw", "sent")
TESTS = tuple(f"{side} {score}" for side in SIDES for score in ("accuracy", "log loss"))
SUMS = 4 + 2 * len(BETS)

Array = NDArray[np.float64]


class Episode(msgspec.Struct, kw_only=True):
    """A period in which the classifier, or the output, is worse than before."""

    since: int
    """Number of its first label, from 0, as the test locates it."""
    time: int | None
    """Time of that label, where known."""
    noticed: int
    """Number of labels when it was noticed."""
    by: list[str]
    """The tests that noticed it: "raw accuracy", "sent log loss"."""
    side: Annotated[int, Meta(ge=0, le=1)] = 0
    """0 where the raw rows became worse, 1 where only the sent ones did: noticed by tests of these
    alone, and the raw score changed less than half as much."""
    before: list[float]
    """Means before: accuracy and log loss in nats of the raw rows, then of the sent rows."""
    after: list[float]
    """The same since it began."""
    holds: float | None = None
    """1 - rise of the sent log loss / rise of the raw log loss, over the last quarter; None where
    the raw log loss has not risen."""
    until: int | None = None
    """Number of labels when it ended; None while it lasts."""
    stays: bool = False
    """Whether it ended because it lasted so long that it is the new normal."""

    def text(self, of: str = "") -> str:
        """Describe the episode: since when, and how much; ``of`` names the model, if any."""
        side = 2 * self.side
        since = "" if self.time is None else f" since {_minute(self.time)}"
        accuracy = f"{100 * self.after[side]:.1f} % instead of {100 * self.before[side]:.1f}"
        loss = f"{self.after[side + 1]:.3f} instead of {self.before[side + 1]:.3f}"
        held = ""
        corrected = self.after[:2] != self.after[2:]
        if self.side == 0 and self.holds is not None and corrected:
            held = f" The correction holds {100 * min(max(self.holds, 0), 1):.0f} % of that."
        who = "What is sent" if self.side else "The classifier itself"
        who += f" ({of})" if of else ""
        return f"{who} is worse than before{since}: right in {accuracy}, log loss {loss}.{held}"


def _minute(time: int) -> str:
    """A time in milliseconds as text."""
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


class AlarmHead(msgspec.Struct):
    """Head of a snapshot: everything but its arrays."""

    alarm: Annotated[int, Meta(ge=1, le=1)]
    level: Annotated[float, Meta(gt=0, lt=1)]
    n: Annotated[int, Meta(ge=0, le=2**53)]
    restarted: Annotated[int, Meta(ge=0, le=2**53)]
    looked: Annotated[int, Meta(ge=0, le=2**53)]
    episodes: list[Episode]


class Alarm(Locked):
    r"""Detects that a classifier has become worse, with a guaranteed rate of false alarms.

    Raw rows and sent rows have two tests each, at a quarter of ``level``. Both may be evaluated
    after every label, for ever.

    - **Accuracy**, by universal inference [1]_: for every start i the probability that the
      Krichevsky-Trofimov estimator [2]_ gives the labels before i times that of those behind it,
      with weight 1/(i(i+1)), over the probability under the best constant accuracy. Starts count
      behind which the accuracy is lower. No reference is needed.
    - **Log loss**, by bets [3]_: x is the loss, clipped at 6 nats and divided by 6, $\mu$ an upper
      bound of its mean over the first 1000 labels. From every start j on, wealth grows by
      $1 + \lambda (x - \mu)$, $\lambda = c/\mu$ for six c from 1/2 to 1/64; starts weigh
      1/(j(j+1)) [4]_.

    Each is an e-process while nothing changes: it passes 1/a with probability a at most (Ville).
    Starts that are not kept are left out of the sums, which makes them smaller.

    What it notices is an *episode*. It ends when bets that accuracy, or log loss, is on the worse
    side of the middle between before and since are lost at a quarter of ``level``, or after 10,000
    labels, when it is what is usual. Then all starts over. Seasons and storms are episodes too:
    nobody has to retrain because of one.

    Parameters
    ----------
    level
        Probability of a false alarm in a stationary stream, however long.

    Raises
    ------
    ValueError
        ``level`` is not in (0, 1).

    References
    ----------
    .. [1] Wasserman, Ramdas and Balakrishnan: Universal inference. PNAS 2020.
    .. [2] Krichevsky and Trofimov: The performance of universal encoding. IEEE Trans. Information
       Theory 1981.
    .. [3] Waudby-Smith and Ramdas: Estimating means of bounded random variables by betting. JRSS B
       2024.
    .. [4] Shin, Ramdas and Rinaldo: E-detectors: a nonparametric framework for sequential change
       detection. NEJSDS 2024.

    Examples
    --------
    >>> alarm = Alarm()
    >>> for i in range(3000):
    ...     alarm.learn_one([0.9, 0.1], [0.8, 0.2], 0 if i < 1500 else i % 2)
    >>> 1450 < alarm.episode.since < 1550
    True
    """

    _rank = 1

    def __init__(self, level: float = 0.01) -> None:
        if not 0 < level < 1:
            raise ValueError(f"level: {level}, expected a share above 0 and below 1")
        super().__init__()
        self.level = float(level)
        self.n = 0
        """Number of labels."""
        self.episodes: list[Episode] = []
        """The last 20 episodes, oldest first; the last may be open."""
        self._begin()

    def _begin(self) -> None:
        """Start over without knowledge."""
        self._restarted = self._looked = self.n
        # Since then: errors and losses of both sides, and log wealths of two tests: of the losses
        # of both sides, or during an episode of accuracy and loss of one side.
        self._sums = np.zeros(SUMS)
        self._starts = np.zeros(0, np.int64)
        """Number of labels before each kept start, since then."""
        self._before = np.zeros((0, SUMS))
        """The sums before each start."""
        self._times = np.zeros(0)
        self._fresh: list[tuple[NDArray[np.int64], Array, Array]] = []
        """The same for starts since the last test."""
        self._reference = np.zeros((2, 2))
        """Sums of x and its square over the first 1000 labels, for each side."""
        self._bounds = np.full(2, np.nan)
        """Bounds of means: of the losses of both sides; during an episode of accuracy, and of 1 - x
        of the loss, half way to the level before."""
        self._worse = np.zeros(5)
        """Labels, errors and losses of an episode before it was noticed."""

    @property
    def episode(self) -> Episode | None:
        """The open episode, if any."""
        last = self.episodes[-1] if self.episodes else None
        return last if last is not None and last.until is None else None

    # ---- labels

    def learn_one(
        self, raw: ArrayLike, sent: ArrayLike, label: int, time: int | None = None
    ) -> None:
        """Learn the label of a row.

        Parameters
        ----------
        raw, sent
            The raw and the sent row, shape (m,).
        label
            Index of its class.
        time
            Time of the row in milliseconds, to date episodes.

        Raises
        ------
        InvalidPrediction, ValueError
            An argument is invalid; nothing was learned.
        """
        times = None if time is None else [time]
        self.learn_many(np.asarray(raw)[None], np.asarray(sent)[None], [label], times)

    def learn_many(
        self,
        raw: ArrayLike,
        sent: ArrayLike,
        labels: ArrayLike,
        times: Sequence[int] | None = None,
    ) -> None:
        """Run :meth:`learn_one` on each row, shape (n, m), in order; the same bits."""
        ys = np.asarray(labels)
        if ys.ndim != 1 or (len(ys) and ys.dtype.kind not in "iu"):
            raise ValueError(f"labels: {ys.dtype} of shape {ys.shape}, expected integers, (n,)")
        rows = []
        for name, given in (("raw", raw), ("sent", sent)):
            P = np.atleast_2d(as_float64(given))
            if P.ndim != 2 or len(P) != len(ys):
                raise InvalidPrediction(f"{name}: shape {P.shape}, expected ({len(ys)}, m)")
            if bad := bad_rows(P):
                number, why = next(iter(bad.items()))
                raise InvalidPrediction(f"{name}: row {number}: {why}")
            rows.append(P)
        m = rows[0].shape[1]
        if rows[1].shape[1] != m or not ((ys >= 0) & (ys < m)).all():
            raise ValueError(f"labels and rows: expected classes 0 to {m - 1} of both")
        if times is not None and len(times) != len(ys):
            raise ValueError(f"times: {len(times)}, expected {len(ys)}")
        if not len(ys):
            return
        when = None if times is None else np.asarray(times, np.float64)
        self.learn_scored(score_rows(rows[0], ys), score_rows(rows[1], ys), when)

    @one_at_a_time
    def learn_scored(self, raw: RowScores, sent: RowScores, when: Array | None = None) -> None:
        """Run :meth:`learn_many` on rows that have been scored.

        Parameters
        ----------
        raw, sent
            Scores of the raw and the sent rows.
        when
            Times in milliseconds, or NaN, shape (n,).
        """
        wrong = np.stack([~raw.hits, ~sent.hits], axis=1).astype(np.float64)
        loss = np.stack([raw.losses, sent.losses], axis=1)
        when = np.full(len(wrong), np.nan) if when is None else when
        start = 0
        while start < len(when):
            # Up to the next test, or to the end of the reference.
            n = self.n - self._restarted
            due = self._looked - self._restarted + min(max(EVERY, n // 1000 * 10), MOST_EVERY)
            end = min(len(when), start + max(due - n, 1))
            if n < REFERENCE:
                end = min(end, start + REFERENCE - n)
            cut = slice(start, end)
            self._learn(wrong[cut], loss[cut], when[cut])
            if self.n - self._restarted >= due:
                self._looked = self.n
                self._gather()
                self._look()
                self._thin()
            start = end

    def _learn(self, wrong: Array, loss: Array, times: Array) -> None:
        """Learn labels of which at most the last is followed by a test."""
        n, k = self.n - self._restarted, len(wrong)
        more = np.zeros((k + 1, SUMS))
        more[0] = self._sums
        more[1:, :2], more[1:, 2:4] = wrong, loss
        x = np.minimum(loss, MOST_LOSS) / MOST_LOSS
        episode = self.episode
        if episode is not None:
            side = episode.side
            better = np.stack([1 - wrong[:, side], 1 - x[:, side]], 1)
            more[1:, 4:] = self._wealth(better)
        elif n >= REFERENCE:
            more[1:, 4:] = self._wealth(x)
        else:
            sums = np.concatenate([self._reference.T[None], np.stack([x, x * x], 1)])
            self._reference = sums.cumsum(axis=0)[-1].T.copy()
            if n + k == REFERENCE:
                self._bounds = self._bound()
        sums = more.cumsum(axis=0)
        self._fresh.append((np.arange(n, n + k), sums[:-1], times))
        self._sums = sums[-1].copy()
        self.n += k

    def _wealth(self, x: Array) -> Array:
        """Growth of the log wealths of bets that each of two numbers, (k, 2), exceeds its bound."""
        shares = BETS / self._bounds[:, None]
        growth: Array = np.log1p(shares * (x - self._bounds)[:, :, None])
        return growth.reshape(len(x), -1)

    def _gather(self) -> None:
        """Merge the starts since the last test into the others."""
        if self._fresh:
            starts, before, times = zip(*self._fresh, strict=True)
            self._starts = np.concatenate([self._starts, *starts])
            self._before = np.concatenate([self._before, *before])
            self._times = np.concatenate([self._times, *times])
            self._fresh = []

    def _bound(self) -> Array:
        """An upper bound of the mean of each side (Maurer and Pontil 2009), at level / 8."""
        mean = self._reference[:, 0] / REFERENCE
        squares = self._reference[:, 1] - REFERENCE * mean**2
        variance = np.maximum(squares, 0) / (REFERENCE - 1)
        term = math.log(2 / (self.level / 8))
        found = mean + np.sqrt(2 * variance * term / REFERENCE) + 7 * term / (3 * (REFERENCE - 1))
        return np.minimum(found, 1.0)

    def _thin(self) -> None:
        """Keep all young starts, and of older ones every second, fourth and so on."""
        ages = self.n - self._restarted - self._starts
        step = 2 ** np.maximum(np.frexp(ages / PER_OCTAVE)[1] - 1, 0).astype(np.int64)
        keep = self._starts % step == 0
        if not keep.all():
            self._starts, self._times = self._starts[keep], self._times[keep]
            self._before = self._before[keep]

    # ---- tests

    def _look(self) -> None:
        episode = self.episode
        if episode is not None:
            self._tell(episode)
            return
        found = {}
        for k, name in enumerate(TESTS):
            side, of_loss = divmod(k, 2)
            e, start = self._bets(side, REFERENCE) if of_loss else self._errors(side)
            if e >= math.log((8 if of_loss else 4) / self.level):
                found[name] = start
        if found:
            self._notice(found)

    def _notice(self, found: dict[str, int]) -> None:
        """Open an episode, at the start located by the first of the tests."""
        at = next(iter(found.values()))
        time, number, n = self._times[at], int(self._starts[at]), self.n - self._restarted
        before, since = self._before[at, :4], self._sums[:4] - self._before[at, :4]
        episode = Episode(
            since=self._restarted + number,
            time=None if math.isnan(time) else int(time),
            noticed=self.n,
            by=list(found),
            before=_means(before, number),
            after=_means(since, n - number),
        )
        if not any(name.startswith("raw") for name in found):
            score = TESTS.index(episode.by[0]) % 2
            raw, sent = (
                (2 * score - 1) * (episode.after[k] - episode.before[k]) for k in (score, score + 2)
            )
            episode.side = int(raw < sent / 2)
        self.episodes.append(episode)
        del self.episodes[:-MOST_EPISODES]
        self._begin()
        self._worse[:] = n - number, *since
        side = 2 * episode.side
        accuracy, loss = (
            (episode.before[side + k] + episode.after[side + k]) / 2 for k in range(2)
        )
        least = 1 / (2 * REFERENCE)
        self._bounds[:] = max(accuracy, least), max(1 - loss / MOST_LOSS, least)

    def _tell(self, episode: Episode) -> None:
        """Update an episode, and end it where due."""
        n, worse = self.n - self._restarted, self._worse
        length = worse[0] + n
        episode.after = _means(worse[1:] + self._sums[:4], length)
        quarter = int(0.75 * length - worse[0])
        at = int(np.searchsorted(self._starts, max(quarter, 0)))
        late = self._sums[:4] - self._before[at, :4]
        if quarter < 0:
            late, n = late + worse[1:], int(length)
        else:
            n -= int(self._starts[at])
        raw, sent = (
            loss / n - was for loss, was in zip(late[2:], episode.before[1::2], strict=True)
        )
        episode.holds = None if raw <= 0 else 1 - float(sent / raw)
        better = any(
            was != now and self._bets(k, 0)[0] >= math.log(8 / self.level)
            for k, (was, now) in enumerate(self._halves(episode))
        )
        if better or self.n - episode.noticed >= STAYS:
            episode.until, episode.stays = self.n, not better
            self._begin()

    def _halves(self, episode: Episode) -> list[tuple[float, float]]:
        """Levels before and half way back, of scores that became worse; otherwise twice the
        same."""
        side = 2 * episode.side
        accuracy, loss = episode.before[side : side + 2]
        half, least = float(self._bounds[0]), float(self._bounds[1])
        lost = accuracy > half, 1 - loss / MOST_LOSS > least
        return [(1.0, 0.0) if one else (0.0, 0.0) for one in lost]

    def _errors(self, side: int) -> tuple[float, int]:
        """Log of the e-value that errors of a side have increased, and the likeliest start."""
        n = self.n - self._restarted
        return evidence.more_errors(self._starts, self._before, side, self._sums[side], n)

    def _bets(self, k: int, first: int) -> tuple[float, int]:
        """Log of the e-value that the k-th tested number has exceeded its bound since some start,
        from ``first`` on, and the likeliest start."""
        column = 4 + k * len(BETS)
        return evidence.wealth(self._starts, self._before, self._sums, column, len(BETS), first)

    # ---- snapshots

    @one_at_a_time
    def to_bytes(self) -> bytes:
        """Serialise the state, versioned and checksummed."""
        head = AlarmHead(1, self.level, self.n, self._restarted, self._looked, self.episodes)
        fresh = [np.column_stack(one) for one in self._fresh]
        arrays = self._arrays() | {"fresh": np.concatenate([np.zeros((0, SUMS + 2)), *fresh])}
        return snapshot.encode(msgspec.to_builtins(head), arrays)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "sums": self._sums, "starts": self._starts, "before": self._before,
            "times": self._times, "reference": self._reference, "bounds": self._bounds,
            "worse": self._worse,
        }  # fmt: skip

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Load :meth:`to_bytes`; the alarm continues as if it had never stopped.

        Raises
        ------
        SnapshotMismatch
            The bytes are truncated, corrupt, or of another version or kind.
        """
        head, arrays = snapshot.of_kind(data, "alarm", "alarm", AlarmHead)
        self = cls(head.level)
        self.n, self._restarted, self._looked = head.n, head.restarted, head.looked
        if not head.restarted <= head.looked <= head.n or len(head.episodes) > MOST_EPISODES:
            raise SnapshotMismatch("snapshot: an alarm's numbers of labels")
        if any(len(one.before) != 4 or len(one.after) != 4 for one in head.episodes):
            raise SnapshotMismatch("snapshot: an alarm's episodes")
        self.episodes = head.episodes
        starts = len(arrays.get("starts", ()))
        shapes = {"starts": (starts,), "before": (starts, SUMS), "times": (starts,)}
        for name, own in self._arrays().items():
            found = arrays.get(name)
            if (
                found is None
                or found.dtype != own.dtype
                or found.shape != shapes.get(name, own.shape)
            ):
                raise SnapshotMismatch(f"snapshot: an alarm without its {name}")
            if name not in ("times", "bounds") and not np.isfinite(found).all():
                raise SnapshotMismatch(f"snapshot: {name} of an alarm out of range")
            setattr(self, f"_{name}", found.copy())
        fresh = arrays.get("fresh")
        if fresh is None or fresh.dtype != np.float64 or fresh.shape[1:] != (SUMS + 2,):
            raise SnapshotMismatch("snapshot: an alarm without its fresh starts")
        if not np.isfinite(fresh[:, :-1]).all() or not (abs(fresh[:, 0]) < 2.0**53).all():
            raise SnapshotMismatch("snapshot: fresh starts of an alarm out of range")
        if len(fresh):
            numbers = fresh[:, 0].astype(np.int64)
            self._fresh = [(numbers, fresh[:, 1:-1].copy(), fresh[:, -1].copy())]
        every = np.append(self._starts, fresh[:, 0])
        if not (np.diff(every) > 0).all() or not ((every >= 0) & (every < head.n + 1)).all():
            raise SnapshotMismatch("snapshot: starts of an alarm")
        errors = np.concatenate([self._before[:, :2], fresh[:, 1:3], self._sums[None, :2]])
        labels = np.append(every, self.n - self._restarted)
        more, most = np.diff(errors, axis=0, prepend=0), np.diff(labels, prepend=0)
        if not ((more >= 0) & (more <= most[:, None])).all():
            raise SnapshotMismatch("snapshot: more errors of an alarm than labels")
        return self

    @one_at_a_time
    def copy(self) -> Self:
        """Create an independent copy."""
        copied = type(self)(self.level)
        copied.n, copied._restarted, copied._looked = self.n, self._restarted, self._looked
        copied.episodes = [msgspec.structs.replace(episode) for episode in self.episodes]
        for name, array in self._arrays().items():
            setattr(copied, f"_{name}", array.copy())
        copied._fresh = [*self._fresh]  # its arrays are never written again
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


def _means(sums: Array, n: float) -> list[float]:
    """Accuracy and log loss, raw and sent, from errors and losses."""
    wrong, also, loss, too = (sums / max(n, 1)).tolist()
    return [1 - wrong, loss, 1 - also, too]
