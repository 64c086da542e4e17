"""In which order a partition's predictions and labels are taken: by timestamp.

As in Kafka Streams, each side waits for the other only while the other still has records to read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any


class Order:
    """The records of one partition that were read and not yet taken."""

    def __init__(self, labels_topic: str | None) -> None:
        self._labels_topic = labels_topic
        self.predictions: deque[Any] = deque()
        self.labels: deque[Any] = deque()

    def add(self, topic: str, records: Iterable[Any]) -> None:
        """What a poll brought."""
        (self.labels if topic == self._labels_topic else self.predictions).extend(records)

    def __len__(self) -> int:
        return len(self.predictions) + len(self.labels)

    def waits_for(self) -> str | None:
        """Which side, "labels" or "predictions", has to be asked whether there is more of it."""
        if self._labels_topic is None or bool(self.predictions) == bool(self.labels):
            return None
        return "labels" if self.predictions else "predictions"

    def take(self, most: int, *, exhausted: bool) -> list[Any]:
        """The next records by timestamp, at most so many.

        Where one side is empty, the other side's records are taken only if the empty one is
        ``exhausted``: otherwise an earlier record of it may still come.
        """
        predictions, labels = self.predictions, self.labels
        if not labels and len(predictions) <= most and (exhausted or self._labels_topic is None):
            self.predictions = deque()
            return list(predictions)
        taken: list[Any] = []
        while len(taken) < most and (predictions or labels):
            if predictions and labels:
                # Equal timestamps: the prediction first, so that its label finds it.
                side = labels if labels[0].timestamp < predictions[0].timestamp else predictions
            elif self._labels_topic is None or exhausted:
                side = predictions or labels
            else:
                break
            taken.append(side.popleft())
        return taken

    def put_back(self, records: Sequence[Any]) -> None:
        """These, taken last, are not taken after all."""
        for record in reversed(records):
            is_label = record.topic == self._labels_topic
            (self.labels if is_label else self.predictions).appendleft(record)
