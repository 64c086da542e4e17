"""LearnerLag: how far the learner is behind, and records of the input that nobody corrects."""

from __future__ import annotations

import time
from collections import Counter

from stream_can.app.metrics import LEARNER, Metrics
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.settings import Settings
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.kafka.unplayed import UnplayedRecords

__all__ = ["LearnerLag"]

LAG_SECONDS = 5.0
"""Maximum age in seconds of the lag in /metrics."""
UNOWNED_SECONDS = 60.0
"""After so long without a record from it an input partition that has some counts as nobody's."""


class LearnerLag:
    """Publishes the lag for /metrics and the page.

    Parameters
    ----------
    settings, readers
        Topics, and what reads their ends.
    metrics
        Receives the lag.
    """

    def __init__(self, settings: Settings, readers: Readers, metrics: Metrics) -> None:
        self._settings, self._readers, self._metrics = settings, readers, metrics
        self._asked = 0.0
        self._stands: dict[int, tuple[int, float]] = {}
        """For each input partition the next offset of what workers sent, and since when."""

    def look(self, learning: TopicLearner, unplayed: UnplayedRecords) -> None:
        """Publish the lag, if due."""
        if time.monotonic() - self._asked < LAG_SECONDS:
            return
        self._asked = time.monotonic()
        lag = Counter[tuple[str, int]]()
        for (topic, p), n in unplayed.lag().items():
            lag["sent" if topic == self._settings.sent_topic else "labels", p] += n
        lag.update({("unowned", p): n for p, n in self._unowned(learning, unplayed).items()})
        self._metrics.lags(lag, LEARNER)

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
