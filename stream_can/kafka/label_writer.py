"""LabelWriter: answers to label requests, written into the topic of labels."""

from __future__ import annotations

import threading
from typing import Any

from stream_can.app.labelling.request_message import RequestMessage
from stream_can.app.labelling.requests import Pending
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.producer import Appended, Producer
from stream_can.messages.codecs.codec import Codec
from stream_can.messages.fields import HEADER, put
from stream_can.messages.messages import BadMessage, Messages
from stream_can.messages.records import Header

__all__ = ["LabelWriter"]

ANSWER_SECONDS = 20.0
"""How long to try to write a label."""


class LabelWriter:
    """Writes labels as messages of their topic; may be called from any thread.

    Parameters
    ----------
    options
        Brokers and client options.
    topic, messages, codec
        The topic of labels, its fields and its format.
    key_is_id
        Whether the key of a prediction is its id.
    sparse
        Whether a prediction has its probabilities by the names of classes.
    """

    def __init__(
        self,
        options: Options,
        topic: str,
        messages: Messages,
        codec: Codec,
        *,
        key_is_id: bool,
        sparse: bool,
    ) -> None:
        self._topic, self._messages, self._codec = topic, messages, codec
        self._id_is_key, self._sparse = key_is_id, sparse
        self._producer, self._sending = Producer(options), threading.Lock()

    def append_label(self, pending: Pending, label: Any) -> None:
        """Write the label of a request; return once the brokers have it."""
        value, headers = self._message(pending, label)
        key = pending.key
        if self._messages.fields.id is None and not self._id_is_key:
            key = pending.says.id.encode()
        with self._sending:
            self._producer.append(
                [Appended(self._topic, None, key, value, headers)], ANSWER_SECONDS
            )

    def _message(self, pending: Pending, label: Any) -> tuple[bytes, list[Header]]:
        """Value and headers of the label, with its id and raw prediction, which a worker may have
        dropped by then."""
        message: dict[str, Any] = {}
        headers: list[Header] = []
        put(message, self._messages.label_path, label)
        id = self._messages.fields.id
        if id is not None and id.startswith(HEADER):
            headers.append((id.removeprefix(HEADER), pending.says.id.encode()))
        elif id is not None:
            put(message, id.split("."), pending.says.id)
        if self._messages.echo_path is not None:
            put(message, self._messages.echo_path, self._row_of(pending.says))
        try:
            return self._codec.write_label(message), headers
        except BadMessage as error:
            raise DeniedError(f"topic {self._topic!r}: {error}") from None

    def _row_of(self, says: RequestMessage) -> Any:
        """The raw prediction as a label carries it, of sparse rows by name."""
        if not self._sparse or says.classes is None:
            return says.probs_raw
        return {str(k): p for k, p in zip(says.classes, says.probs_raw, strict=False)}

    def close(self) -> None:
        """Close the producer."""
        self._producer.close()
