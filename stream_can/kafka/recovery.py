"""Recovery: the learner that goes on from the newest state, at positions that the topics hold."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Literal

from stream_can.app.metrics import Metrics
from stream_can.app.start import Start
from stream_can.errors import SnapshotMismatch
from stream_can.kafka.batch_reader import BatchReader
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.headers import DEFERRED_HEADER, MARK_HEADER, header_of
from stream_can.kafka.identity import require_identity
from stream_can.kafka.sent_record import SentRecord
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Memory
from stream_can.kafka.stored import StoredState, newest_index, newest_state
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner import read_sent
from stream_can.learner.sent import SentBatch

__all__ = ["Recovery"]

log = logging.getLogger(__name__)


class Recovery:
    """Restores the learner of an application, or begins one.

    Parameters
    ----------
    settings, start
        Topics and rules, and the source of initial correctors.
    readers
        Read topics.
    batch_reader
        Reads sent batches.
    metrics
        Counts offsets of sent batches and labels that retention deleted before they were learned.
    """

    def __init__(
        self,
        settings: Settings,
        start: Start,
        readers: Readers,
        batch_reader: BatchReader,
        metrics: Metrics,
    ) -> None:
        self._settings, self._start, self._readers = settings, start, readers
        self._batch_reader, self._metrics = batch_reader, metrics

    def has_state(self) -> bool:
        """Whether the application has a state."""
        return newest_index(self._readers, self._settings.state_topic) is not None

    def restore(self, ids: Mapping[str, str]) -> tuple[TopicLearner, StoredState | None]:
        """Return the learner that goes on from the newest state, and this; a new learner before
        the first.

        Parameters
        ----------
        ids
            Ids of topics.

        Raises
        ------
        DeniedError
            The state cannot be read, or is of other settings.
        """
        readers, s = self._readers, self._settings
        stored = newest_state(readers, s.state_topic)
        if stored is None:
            return self.new(s.start), None
        require_identity(stored.index, s, self._start)
        spans, memory = readers.spans(s.sent_topic), stored.memory
        first = {p: begin for p, (begin, _) in spans.items()}
        batches = defaultdict[int, list[SentRecord]](list)
        id = ids.get(s.sent_topic, "")
        if memory.topics.get(s.sent_topic, id) != id:  # another topic: none of those batches
            first = dict(memory.sent)
        to_read = {
            p: (memory.play_starts.get(p, 0), end)
            for p, end in memory.sent.items() if p in spans and first[p] < end
        }  # fmt: skip
        for record in readers.read_spans(s.sent_topic, to_read):
            if header_of(record.headers, DEFERRED_HEADER) is None:
                ours = header_of(record.headers, MARK_HEADER) == stored.index.mark
                batch = self._batch_reader.read(record, deferred=False) if ours else None
                if batch is not None:
                    batches[record.partition].append(SentRecord(record.offset, batch))
        played = self._played(memory, first)
        try:
            learning = TopicLearner.restored(s, self._start, stored, batches, first, played)
        except SnapshotMismatch as error:
            raise DeniedError(f"state {stored.number} of {s.state_topic!r}: {error}") from None
        return learning, stored

    def _played(self, memory: Memory, first: Mapping[int, int]) -> dict[tuple[int, int], SentBatch]:
        """The batches that the plays of a memory name as played, as far as they are there."""
        topic, batches = self._settings.sent_topic, dict[tuple[int, int], SentBatch]()
        places = [place for play in memory.plays for place in play.played]
        for p in {p for p, _ in places}:
            offsets = {at for of, at in places if of == p and at >= first.get(p, 0)}
            records = self._readers.read_all_at(topic, p, offsets)
            batches |= {(p, at): read_sent(record.value or b"") for at, record in records.items()}
        return batches

    def new(self, start: Literal["earliest", "latest"]) -> TopicLearner:
        """A learner without knowledge, at the ends of the topics."""
        s, readers = self._settings, self._readers
        sent = {p: end for p, (_, end) in readers.spans(s.sent_topic).items()}
        bound = 0 if start == "earliest" else 1
        labels = {
            topic: {p: span[bound] for p, span in readers.spans(topic).items()}
            for topic in s.topics_of_labels
        }
        return TopicLearner.begin(s, self._start, sent, labels)

    def go_on_within_topics(self, learning: TopicLearner, ids: Mapping[str, str]) -> bool:
        """Move positions to what the topics hold; return whether any moved.

        Retention may have deleted what nobody has learned, while no learner ran; or a topic was
        deleted and made again. The workers must not wait for what cannot be learned any more.
        """
        s, readers = self._settings, self._readers
        positions, any_moved = learning.positions, False
        for topic, at in positions.of_topics():
            if topic not in ids:  # the reader says that it does not exist
                continue
            made_again = positions.topics.get(topic, ids[topic]) != ids[topic]
            why = "of the topic before, which was made again" if made_again else "not there"
            moved = positions.go_on_within(topic, ids[topic], at, readers.spans(topic))
            for p, was in moved.items():
                any_moved = True
                if p in at and at[p] > was:
                    self._metrics.lost(at[p] - was)
                log.warning(
                    "%s-%d: offset %d, at which learning was, is %s; it goes on at %s",
                    topic, p, was, why, at.get(p, "no offset: the partition is gone"),
                )  # fmt: skip
            if moved and at is positions.sent and s.input:
                positions.inputs |= readers.ends(s.input, [p for p in moved if p in at])
                positions.moved |= {p for p in moved if p in at}
        return any_moved
