"""RecordTimes: the times of records, of a field where settings name one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.kafka.deferred import times_of
from stream_can.kafka.settings import Settings
from stream_can.messages.codecs.codec import Codec
from stream_can.messages.columns import header_bytes
from stream_can.messages.fields import HEADER
from stream_can.messages.formats import Formats
from stream_can.messages.probability_formats import BadMessage
from stream_can.messages.times import seconds_of

__all__ = ["RecordTimes"]

log = logging.getLogger(__name__)

MOST_TOLD = 3
"""Records of a topic that are named in the log because their field has no time."""


class RecordTimes:
    """The times that count of records of the input and of labels.

    Parameters
    ----------
    settings
        They name the fields.
    formats
        Formats of the messages.
    """

    def __init__(self, settings: Settings, formats: Formats) -> None:
        self._fields: dict[str, tuple[str, Codec]] = {}
        """For each topic with such a field its place, and what opens a message."""
        if settings.time is not None:
            self._fields[settings.input] = settings.time, formats.predictions
        for topic, fields in settings.label_fields.items():
            if fields.time is not None:
                self._fields[topic] = fields.time, formats.of_labels(topic).labels
        self._told = dict.fromkeys(self._fields, 0)

    def in_seconds(self, records: Sequence[Any]) -> NDArray[np.float64]:
        """Times of records of one topic, in seconds, NaN where unknown: that of the field where it
        has one, else the record's own."""
        times = times_of(records)
        field = self._fields.get(records[0].topic) if records else None
        if field is not None:
            for i, record in enumerate(records):
                if (field_time := self._own(record, *field)) is not None:
                    times[i] = field_time
        return times

    def _own(self, record: Any, place: str, codec: Codec) -> float | None:
        """Time in a record; None where it has none."""
        if record.value is None:
            return None
        try:
            text = time_text(codec, record, place)
        except BadMessage:
            return None  # it will be a dead letter
        try:
            if text is not None:
                return seconds_of(text)
            why = f"no {place!r}"
        except BadMessage as error:
            why = f"{place}: {error}"
        if self._told[record.topic] < MOST_TOLD:
            self._told[record.topic] += 1
            log.warning(
                "%s-%d offset %d: %s; the record's own time counts (at most %d are named)",
                record.topic, record.partition, record.offset, why, MOST_TOLD,
            )  # fmt: skip
        return None


def time_text(codec: Codec, record: Any, place: str) -> bytes | None:
    """Text of a time in a record, by its field or ``header:NAME``; None where it is missing.

    Raises
    ------
    BadMessage
        The message cannot be opened.
    """
    if place.startswith(HEADER):
        return header_bytes(record.headers, place.removeprefix(HEADER))
    text = codec.find(codec.open(record.value, record.headers), place.split("."))
    return None if text is None or bytes(text) == b"null" else bytes(text)
