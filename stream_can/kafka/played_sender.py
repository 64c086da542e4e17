"""PlayedSender: sends the results of a play, in the transaction of its state."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from stream_can.app.labelling.request_message import REASON_HEADER, RequestMessage
from stream_can.kafka import dead_letters
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RetryError
from stream_can.kafka.played_records import PlayedRecords
from stream_can.kafka.settings import Settings
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.learner.sent import SentBatch
from stream_can.messages.fields import put
from stream_can.messages.records import Header, Output, dead_letter_of, reason_of
from stream_can.messages.records import place as place_of

__all__ = ["PlayedSender"]


class PlayedSender:
    """Sends outputs of deferred records, dead letters and label requests.

    Parameters
    ----------
    settings, client
        Topics, and the transaction.
    classes
        The declared classes: requests of others name theirs.
    """

    def __init__(self, settings: Settings, client: Client, classes: list[Any]) -> None:
        self._settings, self._client, self._classes = settings, client, classes

    def refuse_answers(self, played: PlayedRecords) -> None:
        """Turn outputs of deferred records that their topic would refuse into dead letters."""
        if not played.answers:
            return
        s, transaction = self._settings, self._client.transaction
        limits, now, fail = transaction.topic_limits, transaction.clock.now_ms(), s.errors == "fail"
        for answer in played.answers.values():
            if fail and answer.dead_letters:
                first = answer.dead_letters[0]
                where = place_of(first.source)  # type: ignore[arg-type]
                raise DeniedError(
                    f'{where}: {reason_of(first)}; errors = "fail" ends learning there'
                )
            answer.outputs, refused = dead_letters.divert(
                answer.outputs, limits[s.output], now, fail=fail
            )
            if refused:
                answer.dead_letters += refused
                answer.corrected = sum(output.value is not None for output in answer.outputs)
            dead_letters.require_taken(answer.dead_letters, s.dead_letters, transaction)

    def send_answers(self, played: PlayedRecords) -> None:
        """Send outputs and dead letters of deferred records."""
        s, transaction, answers = self._settings, self._client.transaction, played.answers.items()
        outputs_of_each = ([*answer.outputs, *answer.dead_letters] for _, answer in answers)
        with dead_letters.made_of(
            [[output.source for output in outputs if output.source] for outputs in outputs_of_each]
        ):
            for p, answer in answers:
                transaction.send_all(s.output, p, answer.outputs)
                transaction.send_all(s.dead_letters, p, answer.dead_letters)
            if answers:
                transaction.deliver()

    def send_letters(self, played: PlayedRecords) -> None:
        """Send dead letters of labels."""
        if not played.bad:
            return
        if self._settings.errors == "fail":
            record, error = played.bad[0]
            raise DeniedError(
                f"label at offset {record.offset} of {record.topic}-{record.partition}: {error};"
                ' errors = "fail" ends learning there'
            )
        topic, transaction = self._settings.dead_letters, self._client.transaction
        of = self.partitions(topic)
        letters = [dead_letter_of(record, error) for record, error in played.bad]
        dead_letters.date(letters, transaction.topic_limits[topic], transaction.clock.now_ms())
        for dead_letter, (record, _) in zip(letters, played.bad, strict=True):
            transaction.send_all(topic, record.partition % of, [dead_letter])

    def send_requests(self, learning: TopicLearner, played: PlayedRecords) -> None:
        """Send label requests, each to the partition of its prediction."""
        s, batch, places = self._settings, played.sent, played.sent.places()
        transaction = self._client.transaction
        now = transaction.clock.now_ms()
        requests: dict[int, list[Output]] = {}
        requested = [
            (i, reason) for i, reason in enumerate(played.corrected.asked) if reason is not None
        ]
        of = self.partitions(s.requests_topic) if requested else 1
        for i, reason in requested:
            lane, (partition, offset) = batch.versions[int(batch.of[i])], played.places[i]
            raw, sent, classes = learning.learner.listed(lane, int(places[i]))
            time_ms = -1 if math.isnan(batch.times[i]) else int(1000 * batch.times[i])
            id = batch.ids[i]
            says = RequestMessage(
                id.decode(errors="replace"), reason, time_ms, raw, sent,
                classes=None if self._classes == classes else classes,
            )  # fmt: skip
            if offset is None:
                says.message = msgspec.Raw(_message(s, batch, i))
            else:
                says.topic, says.partition, says.offset = s.input, partition, offset
            headers: list[Header] = [(REASON_HEADER, reason.encode())]
            requests.setdefault(partition % of, []).append(
                Output(id, msgspec.json.encode(says), headers, now)
            )
        for partition, outputs in requests.items():
            accepted = dead_letters.accepted(
                outputs, s.requests_topic, transaction.topic_limits, now
            )
            transaction.send_all(s.requests_topic, partition, accepted)

    def partitions(self, topic: str) -> int:
        """Number of partitions of a topic."""
        of = self._client.readers.partitions(topic)
        if not of:  # deleted; another error reports it
            raise RetryError(f"topic {topic!r} is not known")
        return of


def _message(settings: Settings, batch: SentBatch, i: int) -> bytes:
    """Encode id and columns of a row as JSON: its message is not available here."""
    message: dict[str, Any] = {}
    for name, texts in batch.segments.items():
        if texts[i] is not None:
            put(message, name.split("."), texts[i])
    put(message, (settings.id or "id").split("."), batch.ids[i].decode(errors="replace"))
    return msgspec.json.encode(message)
