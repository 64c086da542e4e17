"""LearnerLag: how far the learner is behind, and records of the input that nobody corrects."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping

from stream_can.app.metrics import LEARNER, Metrics
from stream_can.app.status import Backlog
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.settings import Settings
from stream_can.kafka.throughput import Throughput
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.kafka.unplayed import UnplayedRecords

__all__ = ["LearnerLag"]

LAG_SECONDS = 5.0
"""Maximum age in seconds of the lag in /metrics."""
LATE_SECONDS = 10.0
"""A learner that has not learned what was there so many seconds ago is behind."""
UNOWNED_SECONDS = 60.0
"""After so long without a record from it an input partition that has some counts as nobody's."""


class LearnerLag:
    """Publishes the lag of one learner, from when it took over, for /metrics and the page.

    Parameters
    ----------
    settings, readers
        Topics, and what reads their ends.
    metrics
        Receives the lag.
    """

    def __init__(self, settings: Settings, readers: Readers, metrics: Metrics) -> None:
        self._settings, self._readers, self._metrics = settings, readers, metrics
        self._look_at = 0.0
        self._ends: deque[tuple[float, dict[int, int]]] = deque()
        """Next offset of each partition of sent batches, when looked: the first long enough ago, if
        any is."""
        self._throughput = Throughput()
        self._stands: dict[int, tuple[int, float]] = {}
        """For each input partition the next offset of what workers sent, and since when."""

    def look(self, learning: TopicLearner, unplayed: UnplayedRecords) -> None:
        """Publish the lag, if due."""
        now = time.monotonic()
        if now < self._look_at:
            return
        spans = unplayed.spans()
        # Soon again while not all are known: those of a start.
        self._look_at = now + LAG_SECONDS * (len(spans) == len(unplayed.queues))
        lag = Counter[tuple[str, int]]()
        for (topic, p), (at, end) in spans.items():
            lag["sent" if topic == self._settings.sent_topic else "labels", p] += end - at
        of_sent = {
            p: span for (topic, p), span in spans.items() if topic == self._settings.sent_topic
        }
        self._metrics.unlearned_batches = self._behind(now, of_sent)
        lag.update({("unowned", p): n for p, n in self._unowned(learning, unplayed).items()})
        self._metrics.lags(lag, LEARNER)

    def _behind(self, now: float, spans: Mapping[int, tuple[int, int]]) -> Backlog | None:
        """What is yet to be learned, where that is behind. (Labels need no look of their own: what
        is learned is learned in the order of time, so where they are behind batches are.)"""
        ends = {p: end for p, (_, end) in spans.items()}
        if self._ends and self._ends[-1][1].keys() != ends.keys():
            self._ends.clear()
            self._throughput.clear()
        self._ends.append((now, ends))
        while len(self._ends) > 1 and now - self._ends[1][0] >= LATE_SECONDS:
            self._ends.popleft()
        self._throughput.note(sum(at for at, _ in spans.values()), sum(ends.values()))
        since, old = self._ends[0]
        if now - since < LATE_SECONDS or all(spans[p][0] >= old[p] for p in old):
            return None
        return self._throughput.of(sum(end - at for at, end in spans.values()))

    def _unowned(self, learning: TopicLearner, unplayed: UnplayedRecords) -> dict[int, int]:
        """Records of the input partitions of which nobody has corrected any for a minute."""
        s, now = self._settings, time.monotonic()
        if not s.input:
            return {}
        came = {p: offset for p, (offset, _) in unplayed.came.items()}
        at = unplayed.begun_at | learning.positions.inputs | came
        for p, offset in at.items():
            if self._stands.get(p, (None,))[0] != offset:
                self._stands[p] = offset, now
        idle = [p for p, (_, since) in self._stands.items() if now - since > UNOWNED_SECONDS]
        ends = self._readers.ends(s.input, idle) if idle else {}
        return {p: end - at[p] for p, end in ends.items() if p in at and end > at[p]}
