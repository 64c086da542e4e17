"""What ``run --check`` finds in the topics: the newest records, and how much history there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stream_can.app.prediction_reader import PredictionReader
from stream_can.app.start import Start
from stream_can.errors import StreamCANError
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.resuming import resume_point
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Index
from stream_can.kafka.topic_learner import TopicLearner
from stream_can.messages.codecs.codec import Codec
from stream_can.messages.records import place

__all__ = ["found_in_topics"]

LAST = 5
"""Offsets that are read of each partition: the last may hold the end of a transaction."""
MOST_FIELDS = 12
NO_JOIN = "nothing joins it"


class SaidOfTopic(NamedTuple):
    """What is said of a topic."""

    says: str
    looks_right: bool = True
    """False where its newest record cannot be read, or nothing can join it."""


def found_in_topics(
    settings: Settings,
    start: Start,
    readers: Readers,
    committed: Mapping[int, int] | None,
    index: Index | None,
) -> Iterator[SaidOfTopic]:
    """Say line by line what the newest prediction and the newest label of each topic are read as,
    and what happens to the records that the input holds.

    Parameters
    ----------
    committed
        Next offset of each partition of the input that the group has committed; None where the
        input is not read.
    index
        Of the newest state, if any.

    Raises
    ------
    DeniedError
        A partition of the input cannot be read on: see `resume_point`.
    """
    learning = TopicLearner.begin(settings, start, {}, {})
    input_spans = {} if committed is None else readers.spans(settings.input)
    if committed is not None:
        newest = _newest(readers, settings.input, input_spans)
        yield _with_newest(
            settings.input, "predictions", input_spans, newest,
            partial(_prediction, learning, newest), start.formats.predictions,
        )  # fmt: skip
        yield SaidOfTopic(_history(settings, input_spans, committed))
    for topic in settings.topics_of_labels:
        spans = readers.spans(topic)
        record = _newest(readers, topic, spans)
        yield _with_newest(
            topic, "labels", spans, record,
            partial(_label, learning, topic, record),
            start.formats.of_labels(topic).labels,
        )  # fmt: skip
    if committed is not None and index is not None:
        for p, span in input_spans.items():
            resume_point(settings, p, (committed.get(p), ""), span, index)


def _newest(readers: Readers, topic: str, spans: Mapping[int, tuple[int, int]]) -> Any | None:
    """The record with the latest timestamp among the last of all partitions; None without any."""
    last = (
        record
        for p, (begin, end) in spans.items()
        for record in readers.read_span(topic, p, max(begin, end - LAST), end)
        if record.value is not None
    )
    return max(last, key=lambda record: record.timestamp, default=None)


def _with_newest(
    topic: str, kind: str, spans: Mapping[int, tuple[int, int]], record: Any,
    read: Callable[[], str], codec: Codec,
) -> SaidOfTopic:  # fmt: skip
    n = sum(end - begin for begin, end in spans.values())
    if record is None:
        return SaidOfTopic(f"{kind}: topic {topic!r} holds none that can be shown ({n:,} offsets)")
    head = f"{kind}: topic {topic!r}, {n:,} records; the newest, {place(record)}, "
    try:
        says = read()
    except StreamCANError as error:
        return SaidOfTopic(f"{head}cannot be read: {error}{_fields(codec, record)}", False)
    return SaidOfTopic(head + says, NO_JOIN not in says)


def _fields(codec: Codec, record: Any) -> str:
    """The fields that a message has, as far as it can be opened and says so."""
    try:
        message = codec.open(record.value, record.headers)
    except StreamCANError:
        return ""
    names = [*message][:MOST_FIELDS] if isinstance(message, Mapping) else []
    return f"; its fields are {', '.join(map(repr, names))}" if names else ""


def _prediction(learning: TopicLearner, record: Any) -> str:
    reader = PredictionReader(learning.messages, learning.output_bytes)
    groups, bad = reader.parse([record])
    for _, error in bad:
        raise error
    group = next(group for group in groups if group.ids)
    parts = [_id(group.ids[0], learning.settings.id)]
    if group.names and (name := " ".join(filter(None, group.names[0]))):
        parts.append(f"model {name!r}")
    row = group.rows[0]
    if isinstance(row, np.ndarray) and row.dtype.kind == "f" and len(row) == group.messages.widest:
        k = int(np.argmax(row))
        likeliest = f"likeliest {group.messages.classes[k]!r} with {row[k]:.3g}"
        parts.append(f"{len(row)} classes, {likeliest}")
    return ", ".join([*parts, _time(learning, record)])


def _label(learning: TopicLearner, topic: str, record: Any) -> str:
    labels = learning.label_readers.of_topics[topic].parse([record])
    for _, error in labels.bad:
        raise error
    if not labels.labels:
        why = "says that there is no label" if labels.without else "is of no model in use"
        return f"{why}, {_time(learning, record)}"
    (late,) = labels.labels
    field = learning.settings.label_fields[topic].id
    return f"{_id(late.id, field)}, label {late.label!r}, {_time(learning, record)}"


def _id(id: Any, field: str | None) -> str:
    where = "key" if field is None else repr(field)
    if id is None:
        return f"no id in {where}: {NO_JOIN}"
    return f"id {id.decode(errors='replace')!r} in {where}"


def _time(learning: TopicLearner, record: Any) -> str:
    (seconds,) = learning.record_times.in_seconds([record]).tolist()
    if np.isnan(seconds):
        return "no time"
    return f"time {datetime.fromtimestamp(seconds, UTC).isoformat(timespec='seconds')}"


def _history(
    settings: Settings, spans: Mapping[int, tuple[int, int]], committed: Mapping[int, int]
) -> str:
    """What happens to the records that the input holds."""
    if committed:
        n = sum(max(0, end - max(begin, committed.get(p, begin)))
                for p, (begin, end) in spans.items())  # fmt: skip
        return f"history: the group goes on where it was, {n:,} records behind"
    n = sum(end - begin for begin, end in spans.values())
    if settings.start == "latest":
        return f'history: start = "latest", so {n:,} records are left as they are'
    how = "by the learner, in the order of their times"
    if settings.backlog == "lagging":
        how = "by the newest state there is"
    return f'history: start = "earliest", so {n:,} records are corrected first, {how}'
