"""LearnerCounts: counts of what the learner of an application did, for /metrics and the page."""

from __future__ import annotations

import math
import time

from stream_can.app.counts import Handled
from stream_can.app.letters import KEPT, letter
from stream_can.app.metrics import LEARNER, Metrics
from stream_can.app.start import Start
from stream_can.app.tally import Tally
from stream_can.kafka.played_records import PlayedRecords
from stream_can.kafka.settings import Settings
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.messages.records import Output, dead_letter_of

__all__ = ["LearnerCounts"]


class LearnerCounts:
    """Counts for one learner, from when it took over.

    Parameters
    ----------
    settings, start
        What is counted apart.
    metrics
        Receives the counts.
    learning
        The learner.
    """

    def __init__(
        self, settings: Settings, start: Start, metrics: Metrics, learning: TopicLearner
    ) -> None:
        self._settings, self._metrics, self._learning = settings, metrics, learning
        self._tally = Tally(
            start.segments, lambda name: len(learning.models.classes().get(name, start.classes)),
            named=settings.has_lanes, sets=settings.sets is not None, rows=settings.rows,
        )  # fmt: skip
        self._tally.held = learning.learner.held
        self._count_requests()
        metrics.learns(self._tally)

    def count(self, played: PlayedRecords) -> None:
        """Count what was learned."""
        tally, corrected, batch = self._tally, played.corrected, played.sent
        learner, names = self._learning.learner, None
        if self._settings.has_lanes:
            names = [batch.versions[k].name for k in batch.of.tolist()]
        in_sets = 0 if self._settings.sets is None else learner.classes_in_sets(batch)
        tally.observed(len(batch), names, batch.segments or None, in_sets, corrected.rows)
        tally.labelled(corrected.outcomes, corrected.taught, learner.held)
        tally.not_learned(*played.not_learned)
        tally.counts["early"] = learner.early_labels
        tally.refuse(len(played.bad), labels=True)
        answers, refused = played.answers.values(), list[Output]()
        for answer in answers:
            tally.answered(*answer.counts)
            refused += answer.dead_letters
            lonely = answer.without_id if self._settings.labels is not None else ()
            self._metrics.tell(answer.faults, lonely)
        delays, answered = list[int](), 0
        for label in corrected.taught:
            answered += label.prediction.asked is not None
            if label.time is not None and not math.isnan(label.prediction.time):
                delays.append(round(1000 * (label.time - label.prediction.time)))
        self._count_requests()
        now, field_names = time.time(), self._settings.field_names
        letters = [
            letter(dead_letter_of(record, error), now, field_names)
            for record, error in played.bad[-KEPT:]
        ] + [letter(output, now, field_names) for output in refused[-KEPT:]]
        self._metrics.tell(letters=letters)
        self._metrics.handled(
            Handled(
                sum(len(answer.outputs) for answer in answers),
                sum(answer.normalised for answer in answers),
                sum(len(answer.faults) for answer in answers),
                delays=delays,
                requested=[reason for reason in corrected.asked if reason is not None],
                answered=answered,
                letters=letters,
            ),
            LEARNER,
        )

    def _count_requests(self) -> None:
        if self._settings.ask is not None:
            n, oldest = self._learning.learner.open_requests
            self._tally.requests = n, None if oldest is None else int(1000 * oldest)

    def committed(self, seconds: float, size: int) -> None:
        """Publish the counts, with how long a commit took and the bytes that it wrote."""
        self._metrics.committed({LEARNER: self._tally}, seconds, size)
