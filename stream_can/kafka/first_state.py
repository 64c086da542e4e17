"""FirstState: states with which an application begins, or begins anew."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, FencedError, RebuildError
from stream_can.kafka.headers import DEFERRED_HEADER, header_of
from stream_can.kafka.recovery import Recovery
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Play
from stream_can.kafka.state_writer import StateWriter
from stream_can.kafka.stored import newest_index, newest_state
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner.sent import SentBatch

__all__ = ["FirstState"]

log = logging.getLogger(__name__)

TURNS = 10
"""How often a start from nothing takes over, where the current learner does so in between."""
MOST_FORMER = 5
"""Times it was started over whose marks are known: nobody warns of what workers sent under them."""


class FirstState:
    """Writes a first state, after it has taken over from the current learner.

    Parameters
    ----------
    settings, client
        Topics and the transaction.
    recovery
        Begins learners.
    writer
        Writes the state.
    """

    def __init__(
        self, settings: Settings, client: Client, recovery: Recovery, writer: StateWriter
    ) -> None:
        self._settings, self._client = settings, client
        self._recovery, self._writer = recovery, writer

    def begin_anew(self) -> None:
        """Forget what was learned: write a first state, at the ends of all topics.

        The current learner is fenced and continues from it, as workers do; earlier sent batches are
        skipped.
        """
        for tries_left in reversed(range(TURNS)):
            try:
                self._begin_anew()
                return
            except FencedError as error:  # by the current learner, which took its id back
                self._client.transaction.close()
                if not tries_left:
                    raise FencedError(
                        f"{error}. A process that learns did so {TURNS} times, before a first state"
                        " was written: stop it, and start over again"
                    ) from error

    def _begin_anew(self) -> None:
        s = self._settings
        self._client.transaction.take_over()  # from now on nobody else answers what was handed over
        newest = newest_index(self._client.readers, s.state_topic)
        if newest is None:
            return
        learning = self._recovery.new("latest")
        self._keep_deferred(learning)
        to_remove = {place.name: place.offset for place in newest[1].lanes}
        learning.written.places = to_remove
        learning.former = [*newest[1].former, newest[1].mark][-MOST_FORMER:]
        self._writer.pieces = len(newest[1].memory)
        self._writer.write_state(learning, None)
        knows = f"is {s.classes_from_file}" if s.classes_from_file else "knows nothing"
        log.info("started over: state %d %s", self._writer.number, knows)

    def _keep_deferred(self, learning: TopicLearner) -> None:
        """Begin where what was handed over is still to be answered, if anything is."""
        readers, topic = self._client.readers, self._settings.sent_topic
        positions = learning.positions
        with suppress(DeniedError, RebuildError):  # of a state that cannot be read nothing is known
            stored = newest_state(readers, self._settings.state_topic)
            if stored is None:
                return
            positions.inputs = dict(stored.index.inputs)
            for p, at in stored.memory.sent.items():
                end = positions.sent.get(p, 0)
                if any(
                    header_of(record.headers, DEFERRED_HEADER) is not None
                    for record in readers.read_span(topic, p, at, end)
                ):
                    positions.sent[p] = at
                    if p in stored.memory.within:
                        positions.within[p] = stored.memory.within[p]
            positions.play_starts = dict(positions.sent)

    def begin_with(self, learning: TopicLearner, played: Mapping[int, SentBatch]) -> None:
        """Store knowledge from elsewhere as the first state, with the rows of its plays, by the
        numbers by which it names them."""
        self._client.transaction.take_over()
        positions, plays = learning.positions, deque[Play]()
        for play in positions.plays:
            places = [
                place for _, number in play.played
                for place in self._writer.send_played(learning, 0, played[number])
            ]  # fmt: skip
            plays.append(Play(play.rows, {0: places[-1][1] + 1}, tuple(places)))
        positions.plays = plays
        spans = self._client.readers.spans(self._settings.sent_topic)
        positions.sent = {p: end for p, (_, end) in spans.items()}
        positions.play_starts = dict(positions.sent)
        if plays:
            positions.sent[0] = plays[-1].ends[0]
            positions.play_starts[0] = plays[0].played[0][1]
        self._writer.write_state(learning, None)
