"""StateWriter: writes states and what was played, each in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_can.kafka.client.client import Client
from stream_can.kafka.client.topic_limits import OVERHEAD_BYTES
from stream_can.kafka.headers import MARK_HEADER, PLAYED_HEADER
from stream_can.kafka.played_records import PlayedRecords
from stream_can.kafka.played_sender import PlayedSender
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import (
    CORRECTORS,
    INDEX,
    MEMORY,
    begin_key,
    corrector_key,
    memory_key,
)
from stream_can.kafka.stored import StoredState
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner.sent import SentBatch
from stream_can.messages.records import Header

__all__ = ["StateWriter"]


class StateWriter:
    """Writes the states of a learner.

    Parameters
    ----------
    settings, client
        Topics, and the transaction.
    sender
        Sends the results of a play beside its state.
    """

    def __init__(self, settings: Settings, client: Client, sender: PlayedSender) -> None:
        self._state_topic, self._sent_topic = settings.state_topic, settings.sent_topic
        self._client, self._sender = client, sender
        self.committed = 0
        """Number of states written by this process."""
        self.number = -1
        """Number of the last state."""
        self.pieces = 0
        """Number of records that its memory takes."""
        self.ids: dict[str, str] = {}
        """Ids of the topics that are being read: no state is committed where one is another's."""

    def go_on_from(self, stored: StoredState | None) -> None:
        """Write the states after this one."""
        self.number = -1 if stored is None else stored.number
        if stored is not None:
            self.pieces = len(stored.index.memory)

    def write_state(self, learning: TopicLearner, played: PlayedRecords | None) -> tuple[int, int]:
        """Write a state and the other results of playing, in one transaction.

        Returns
        -------
        Number of bytes of the state, and of the rows that were played with deferred ones.
        """
        transaction, told_bytes = self._client.transaction, 0
        if played is not None:
            self._sender.send_answers(played)
            told_bytes = self._tell(learning, played)
        size, places, begins = self._send_correctors(learning)
        memory = learning.memory()
        pieces = self._send_memory(memory)
        if played is not None:
            self._sender.send_letters(played)
            self._sender.send_requests(learning, played)
        transaction.deliver()
        index = learning.index(
            _offsets(places), _offsets(begins), [future.value.offset for future in pieces]
        )
        written = transaction.send(self._state_topic, CORRECTORS, INDEX, index)
        transaction.deliver()
        self._client.require_same(self.ids)
        transaction.commit({}, None)
        self.number, self.pieces = written.value.offset, len(pieces)
        self.committed += 1
        return size + len(memory), told_bytes

    def _send_correctors(
        self, learning: TopicLearner
    ) -> tuple[int, dict[Any, Any], dict[Any, Any]]:
        """Send correctors and initial correctors that changed; return the bytes of the first, and
        futures of both."""
        transaction, topic = self._client.transaction, self._state_topic
        lanes, starts = learning.written.changed()
        places = {
            name: transaction.send(topic, CORRECTORS, corrector_key(name), data)
            for name, data in lanes
        }
        begins = {
            model: transaction.send(topic, CORRECTORS, begin_key(model), data)
            for model, data in starts
        }
        for name in learning.written.gone():
            transaction.send(topic, CORRECTORS, corrector_key(name), None)
        return sum(len(data) for _, data in lanes), places, begins

    def _send_memory(self, memory: bytes) -> list[Any]:
        """Send the memory in pieces that its topic takes; return their futures."""
        transaction, topic = self._client.transaction, self._state_topic
        most = transaction.max_bytes[topic] - OVERHEAD_BYTES
        pieces = [memory[at : at + most] for at in range(0, len(memory), most)]
        futures = []
        for k, piece in enumerate(pieces):
            if k:  # Trap: the producer would put several into one batch, larger than a topic takes
                transaction.deliver()
            futures.append(transaction.send(topic, MEMORY, memory_key(k), piece))
        for k in range(len(pieces), self.pieces):
            transaction.send(topic, MEMORY, memory_key(k), None)
        return futures

    def _tell(self, learning: TopicLearner, played: PlayedRecords) -> int:
        """Tell of all rows that were played with deferred ones, for a restart; return the bytes of
        these."""
        if not played.played:
            return 0
        p = self.committed % self._sender.partitions(self._sent_topic)
        learning.positions.tell(self.send_played(learning, p, played.sent))
        return sum(len(lane.rows) * lane.rows.shape[1] * 4 for lane in played.sent.versions)

    def send_played(
        self, learning: TopicLearner, p: int, batch: SentBatch
    ) -> list[tuple[int, int]]:
        """Send rows that were played with the records that they answer; return where they lie."""
        transaction, topic = self._client.transaction, self._sent_topic
        headers: list[Header] = [
            (MARK_HEADER, learning.mark.encode()), (PLAYED_HEADER, b"%d" % self.number)
        ]  # fmt: skip
        pieces = batch.pieces(transaction.max_bytes[topic] - OVERHEAD_BYTES)
        futures = [transaction.send(topic, p, None, data, headers) for data, _ in pieces]
        transaction.deliver()
        return [(p, future.value.offset) for future in futures]


def _offsets(futures: Mapping[Any, Any]) -> dict[Any, int]:
    """Offsets of sent records."""
    return {key: future.value.offset for key, future in futures.items()}
