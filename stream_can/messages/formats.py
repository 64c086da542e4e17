"""Formats: the codecs of an application's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stream_can.messages.codecs.codec import Codec
from stream_can.messages.codecs.json import JsonCodec

__all__ = ["JSON", "Formats"]


class Formats(NamedTuple):
    """Codecs of predictions, whose answers they write too, and of labels."""

    predictions: Codec = JsonCodec()
    labels: Codec = JsonCodec()
    by_topic: Mapping[str, Codec] = {}
    """Those of labels in further topics."""

    def of_labels(self, topic: str) -> Formats:
        """Those with the labels of a topic."""
        return self._replace(labels=self.by_topic.get(topic, self.labels))

    @property
    def codecs(self) -> list[Codec]:
        """All of them."""
        return [self.predictions, self.labels, *self.by_topic.values()]


JSON = Formats()
"""JSON for predictions and labels."""
