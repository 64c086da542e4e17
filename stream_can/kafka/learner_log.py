"""LearnerLog: what the log says of a lag, of a backlog, and of models that become worse."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from stream_can.app.status import Backlog
from stream_can.app.tally import lane_name
from stream_can.kafka.played_records import PlayedRecords
from stream_can.learner.model_name import Name
from stream_can.messages.naming import LaneName
from stream_can.trust.episode import Episode

__all__ = ["LearnerLog"]

log = logging.getLogger(__name__)


TELL_SECONDS = 30.0
"""Seconds between two log lines that say how far behind it is."""


class LearnerLog:
    """Says in the log when something begins, and when it is over."""

    def __init__(self) -> None:
        self.answered = 0
        """Number of deferred records answered in the backlog that is open."""
        self._tell_at: float | None = None
        """When to say next how far behind it is; None where it is not."""
        self._worse: set[LaneName] = set()
        """Models and versions that are worse than before, as the log has said."""

    def drop(self) -> None:
        """Forget how far it was: what is not in a state is read again."""
        self.answered, self._tell_at = 0, None

    def tell_of_lag(self, behind: Backlog | None) -> None:
        """Say when it is behind, every 30 s how far, and when it has caught up."""
        now, tell_at = time.monotonic(), self._tell_at
        if behind is None:
            if tell_at is not None:
                log.info("learning has caught up")
            self._tell_at = None
            return
        if tell_at is not None and now < tell_at:
            return
        self._tell_at = now + TELL_SECONDS
        says = f"learning is behind: {behind.waiting:,} batches of predictions wait"
        if behind.done is not None and behind.came is not None:
            says += f", {behind.done:,.0f} are learned a second, and {behind.came:,.0f} come"
        if behind.grows:
            log.warning("%s, so it does not catch up", says)
        else:
            log.info("%s", says)

    def tell_of_backlog(self, played: PlayedRecords, has_deferred: bool) -> None:
        """Say when deferred records begin to be answered, and when none is left."""
        answers = played.answers.values()
        n = sum(len(answer.outputs) + len(answer.dead_letters) for answer in answers)
        if n and not self.answered:
            log.info("workers are behind: correcting what they hand over")
        self.answered += n
        if self.answered and not has_deferred:
            log.info("corrected %d records that workers handed over", self.answered)
            self.answered = 0

    def tell_of_alarms(self, episodes: Mapping[Name, Episode]) -> None:
        """Say when a model or version becomes worse than before, and when it is not any more."""
        worse = {lane_name(name): episode for name, episode in episodes.items()}
        for lane in worse.keys() - self._worse:
            log.warning("%s", worse[lane].text(str(lane)))
        for lane in self._worse - worse.keys():
            log.info("the alarm is over: it is as before again, or has been so for long that it is"
                     " the new normal%s", f": {lane}" if str(lane) else "")  # fmt: skip
        self._worse = {*worse}
