"""Turn outputs that their topic would refuse into dead letters before they are sent.

A refused record would abort its transaction, again after every restart. The prediction is learned
nevertheless: whether a timestamp is too far ahead depends on the time of the check, and what is
learned must not.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence

from stream_can.errors import StreamCANError
from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.client.topic_limits import TopicLimits, weight
from stream_can.kafka.client.transaction import Transaction
from stream_can.messages.records import (
    Output,
    Source,
    dead_letter_of,
    place,
)

log = logging.getLogger(__name__)

TIMESTAMP_HEADER = "stream-can-timestamp"
"""Header with a dead letter's own time, where its topic does not accept that time."""


class RefusedOutput(StreamCANError):
    """A topic would not accept what is made of a record."""

    full_name = "stream_can.kafka.RefusedOutput"


@contextlib.contextmanager
def made_of(inputs: Sequence[Sequence[Source]]) -> Iterator[None]:
    """Name the inputs, those of one partition together, from which a refused record was made."""
    try:
        yield
    except DeniedError as error:
        sources = ", ".join(
            f"offsets {min(offsets)} to {max(offsets)} of {records[0].topic}-{records[0].partition}"
            for records in inputs
            if (offsets := [record.offset for record in records])
        )
        raise type(error)(f"{error} (made of {sources})") from error


def divert(
    outputs: list[Output], topic: TopicLimits, now: int, *, fail: bool
) -> tuple[list[Output], list[Output]]:
    """Split outputs into those that a topic accepts, and dead letters of the others.

    Parameters
    ----------
    now
        The brokers' time in milliseconds.
    fail
        ``errors="fail"``: raise instead.

    Raises
    ------
    DeniedError
        With ``fail``.
    """
    first, last = topic.times(now)
    keyed = topic.compacted
    suspects = {  # the size of a prediction has been checked before
        n: why
        for n, out in enumerate(outputs)
        if (out.value is None or not first <= out.timestamp <= last or (keyed and out.key is None))
        and (why := topic.refuses(out, now))
    }
    if not suspects:
        return outputs, []
    letters = []
    for n, why in suspects.items():
        record = outputs[n].source
        assert record is not None
        if fail:
            raise DeniedError(f"{place(record)}: the output topic refuses it: {why}")
        refusal = RefusedOutput(f"the output topic refuses it: {why}")
        letters.append(dead_letter_of(record, refusal))
    return [out for n, out in enumerate(outputs) if n not in suspects], letters


def not_handed_over(
    records: Sequence[Source], topic: str, limit: int, *, fail: bool
) -> list[Output]:
    """Dead letters of records that the topic of sent batches cannot take, to be corrected later.

    Raises
    ------
    DeniedError
        With ``fail``.
    """
    letters = []
    for record in records:
        size = len(record.key or b"") + len(record.value or b"")
        why = (
            f"it takes {size} bytes and waits for others, and {topic!r}, where it would wait,"
            f" takes {limit} (max.message.bytes); raise that to twice the input's"
        )
        if fail:
            raise DeniedError(f"{place(record)}: {why}")
        letters.append(dead_letter_of(record, RefusedOutput(why)))
    return letters


def accepted(
    requests: Sequence[Output], name: str, topics: Mapping[str, TopicLimits], now: int
) -> list[Output]:
    """Filter out label requests that their topic refuses, with a warning."""
    accepted_requests = []
    for request in requests:
        if why := topics[name].refuses(request, now):
            log.warning("a label request is left out: %s refuses it: %s", name, why)
        else:
            accepted_requests.append(request)
    return accepted_requests


def date(letters: Sequence[Output], topic: TopicLimits, now: int) -> None:
    """Set the time of dead letters whose topic refuses it to ``now``; keep their own in a
    header."""
    first, last = topic.times(now)
    for letter in letters:
        if not first <= letter.timestamp <= last:
            letter.headers = [*letter.headers, (TIMESTAMP_HEADER, b"%d" % letter.timestamp)]
            letter.timestamp = now


def require_taken(letters: Sequence[Output], topic: str, transaction: Transaction) -> None:
    """Date dead letters as their topic accepts them; raise where one is too large."""
    date(letters, transaction.topic_limits[topic], transaction.clock.now_ms())
    require_fits(letters, transaction.max_bytes[topic], topic)


def require_fits(letters: Sequence[Output], limit: int, topic: str) -> None:
    """Raise where a dead letter is too large: brokers would refuse it again after every restart."""
    for out in letters:
        if (size := weight(out)) > limit:
            assert out.source is not None
            raise DeniedError(
                f"a dead letter of {size} bytes does not fit {topic!r}"
                f" (max.message.bytes={limit}): offset {out.source.offset} of"
                f" {out.source.topic}-{out.source.partition}; raise the limit"
            )
