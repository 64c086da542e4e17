"""Outputs that their topic would refuse for good become dead letters before they are sent.

Sent, such a record would end its transaction, and again after each restore. What the task has
learned of the prediction stays: whether a timestamp is too far ahead depends on when it is looked
at, and what is learned must not. Its counts say what was sent: a dead letter, not an output.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from stream_can.errors import StreamCANError
from stream_can.kafka.client.accepts import Accepts
from stream_can.kafka.client.guards import DeniedError
from stream_can.messages.records import (
    Counts,
    Output,
    Result,
    error_headers,
    headers_of,
    place,
)

log = logging.getLogger(__name__)

TIMESTAMP_HEADER = "stream-can-timestamp"
"""What a dead letter's own time was, where the topic of dead letters does not take it."""


class RefusedOutput(StreamCANError):
    """The output topic would not take what is made of a record."""

    full_name = "stream_can.kafka.RefusedOutput"


def divert(result: Result, counts: Counts, output: Accepts, now: int, *, fail: bool) -> None:
    """Move what ``output`` refuses from the outputs to the dead letters.

    Parameters
    ----------
    result
        What a task made.
    counts
        The task's, corrected with it.
    now
        The brokers' time, in milliseconds.
    fail
        ``errors="fail"``: stop there instead.

    Raises
    ------
    DeniedError
        With ``fail``.
    """
    first, last = output.times(now)
    keyed, outputs = output.compacted, result.outputs
    suspects = {  # a prediction's size was looked at before it was taken
        n: why
        for n, out in enumerate(outputs)
        if (out.value is None or not first <= out.timestamp <= last or (keyed and out.key is None))
        and (why := output.refuses(out, now))
    }
    if not suspects:
        return
    for n, why in suspects.items():
        record = outputs[n].source
        assert record is not None
        if fail:
            raise DeniedError(f"{place(record)}: the output topic refuses it: {why}")
        error = RefusedOutput(f"the output topic refuses it: {why}")
        headers = headers_of(record) + error_headers(record, error)
        letter = Output(record.key, record.value, headers, record.timestamp, record)
        result.dead_letters.append(letter)
        counts.corrected -= outputs[n].value is not None
        counts.dead_letters += 1
    result.outputs = [out for n, out in enumerate(outputs) if n not in suspects]


def accepted(requests: Sequence[Output], name: str, topic: Accepts, now: int) -> list[Output]:
    """Without the label requests that their topic refuses, of which a warning tells."""
    taken = []
    for request in requests:
        if why := topic.refuses(request, now):
            log.warning("a label request is left out: %s refuses it: %s", name, why)
        else:
            taken.append(request)
    return taken


def date(letters: Sequence[Output], topic: Accepts, now: int) -> None:
    """Give dead letters whose time their topic refuses that of now, and their own as a header."""
    first, last = topic.times(now)
    for letter in letters:
        if not first <= letter.timestamp <= last:
            letter.headers = [*letter.headers, (TIMESTAMP_HEADER, b"%d" % letter.timestamp)]
            letter.timestamp = now
