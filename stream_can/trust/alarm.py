"""Alarm: whether the classifier has become worse, since when, and what correction makes up for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_can.errors import InvalidPrediction
from stream_can.method.checks import bad_rows
from stream_can.method.rows import as_float64
from stream_can.scores import RowScores, score_rows
from stream_can.trust.alarm_persistence import MOST_EPISODES, AlarmPersistence
from stream_can.trust.change_tests import REFERENCE
from stream_can.trust.episode import Episode
from stream_can.trust.locking import one_at_a_time

EVERY, MOST_EVERY = 10, 250
"""Labels between two tests: ten; beyond 2000 a hundredth of them, at most 250."""
STAYS = 10_000
"""Labels after which a worse level becomes the new normal."""
TESTS = tuple(f"{side} {score}" for side in ("raw", "sent") for score in ("accuracy", "log loss"))

Array = NDArray[np.float64]


class Alarm(AlarmPersistence):
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

    What it notices is an *episode*. It ends when bets that accuracy, or the clipped log loss, is on
    the worse side of the middle between before and since are lost at a quarter of ``level``, or
    after 10,000 labels, when it is what is usual. Then all starts over. Seasons and storms are
    episodes too: nobody has to retrain because of one.

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
        super().__init__(float(level))
        self.n = 0
        self.episodes = []
        self._begin()

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
        for name, probabilities in (("raw", raw), ("sent", sent)):
            P = np.atleast_2d(as_float64(probabilities))
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

    def _look(self) -> None:
        if self.episode is not None:
            self._tell(self.episode)
            return
        starts = {}
        for k, name in enumerate(TESTS):
            side, of_loss = divmod(k, 2)
            e, start = self._bets(side, REFERENCE) if of_loss else self._errors(side)
            if e >= math.log((8 if of_loss else 4) / self.level):
                starts[name] = start
        if starts:
            self._notice(starts)

    def _notice(self, starts: dict[str, int]) -> None:
        """Open an episode, at the start located by the first of the tests."""
        at = next(iter(starts.values()))
        time, number, n = self._times[at], int(self._starts[at]), self.n - self._restarted
        sums_before, sums_since = self._before[at], self._sums - self._before[at]
        episode = Episode(
            since=self._restarted + number,
            time=None if math.isnan(time) else int(time),
            noticed=self.n,
            by=list(starts),
            before=_means(sums_before[:4], number),
            after=_means(sums_since[:4], n - number),
        )
        if not any(name.startswith("raw") for name in starts):
            score = TESTS.index(episode.by[0]) % 2
            raw, sent = (
                (2 * score - 1) * (episode.after[k] - episode.before[k]) for k in (score, score + 2)
            )
            episode.side = int(raw < sent / 2)
        self.episodes.append(episode)
        del self.episodes[:-MOST_EPISODES]
        self._begin()
        self._worse[:] = n - number, *sums_since[:4]
        tested = [episode.side, 4 + episode.side]
        before, since = 1 - sums_before[tested] / number, 1 - sums_since[tested] / (n - number)
        half = np.maximum((before + since) / 2, 1 / (2 * REFERENCE))
        self._bounds = np.where(before > half, half, 1.0)

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
        raw, sent = late[2:] / n - episode.before[1::2]
        episode.holds = None if raw <= 0 else 1 - float(sent / raw)
        better = any(self._bets(k, 0)[0] >= math.log(8 / self.level) for k in (0, 1))
        if better or self.n - episode.noticed >= STAYS:
            episode.until, episode.stays = self.n, not better
            self._begin()


def _means(sums: Array, n: float) -> list[float]:
    """Accuracy and log loss, raw and sent, from errors and losses."""
    wrong, also, loss, too = (sums / max(n, 1)).tolist()
    return [1 - wrong, loss, 1 - also, too]
