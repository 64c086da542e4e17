"""What a process that learns says of how far behind it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stream_can.app.metrics import Metrics
from stream_can.kafka import learner_lag
from stream_can.kafka.learner_lag import LearnerLag
from stream_can.kafka.learner_log import LearnerLog

pytestmark = pytest.mark.fast

SENT, LABELS = ("sent", 0), ("labels", 0)


class Course:
    """A learner's lag and log, as a clock goes on and reads and writes go on with it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(learner_lag.time, "monotonic", lambda: self.now)
        self.metrics = Metrics()
        settings: Any = SimpleNamespace(sent_topic="sent", input="")
        self.lag, self.log = LearnerLag(settings, None, self.metrics), LearnerLog()  # type: ignore[arg-type]
        self.at, self.end = {SENT: 0, LABELS: 0}, {SENT: 0, LABELS: 0}

    def go_on(self, seconds: int, *, learned: int, came: int) -> None:
        """So many are learned of each partition in a second, where there are so many, and come."""
        for _ in range(seconds):
            self.now += 1
            for place in self.at:
                self.end[place] += came
                self.at[place] = min(self.at[place] + learned, self.end[place])
            spans = {place: (self.at[place], self.end[place]) for place in self.at}
            unplayed: Any = SimpleNamespace(spans=lambda spans=spans: spans, queues=spans)
            self.lag.look(None, unplayed)  # type: ignore[arg-type]
            self.log.tell_of_lag(self.metrics.unlearned_batches)


def test_it_is_behind_where_it_has_not_learned_what_was_there_ten_seconds_ago(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Outputs were corrected by ever older states, and neither log nor page said so."""
    caplog.set_level("INFO")
    course = Course(monkeypatch)
    course.go_on(100, learned=50, came=40)
    course.end[LABELS] += 300  # many at once
    course.go_on(20, learned=50, came=20)
    assert course.metrics.unlearned_batches is None
    assert not caplog.messages
    course.go_on(60, learned=30, came=50)
    assert course.metrics.unlearned_batches is not None
    assert course.metrics.unlearned_batches.grows
    course.go_on(20, learned=70, came=50)
    left = 60 * 20 - 20 * 20
    assert left <= course.metrics.unlearned_batches.waiting <= left + 5 * 20  # as of the last look
    course.go_on(80, learned=70, came=50)
    assert course.metrics.unlearned_batches is None
    *said, last = caplog.messages
    assert len(said) == 3  # every half minute
    for message in said:
        assert message.startswith("learning is behind: ")
        assert message.endswith("come, so it does not catch up")  # over the last minute
    assert last == "learning has caught up"
    course.end[SENT] += 10_000
    course.go_on(30, learned=50, came=0)
    course.log.drop()  # another one learns
    course.log.tell_of_lag(None)
    assert caplog.messages[-1].startswith("learning is behind: ")


def test_lag_is_known_as_soon_as_the_ends_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """It came with the second look, five seconds after a start."""
    course = Course(monkeypatch)
    unknown: Any = SimpleNamespace(spans=dict, queues={SENT: None})
    course.lag.look(None, unknown)  # type: ignore[arg-type]
    course.end[SENT] = 70
    course.go_on(1, learned=30, came=0)
    assert course.metrics.lag[("sent", 0)] == 40
