"""Where partitions end, as the answers to fetches say: asking would take a request and a wait.

Every answer names the last stable offset of its partitions, up to which `read_committed` reads. An
answer leaves out the partitions of which there is nothing new. This module works on private parts
of kafka-python.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors

STALE_SECONDS = 5.0
"""Age from which an end is not believed: each fetch is answered within ``fetch_max_wait_ms``."""


class End(NamedTuple):
    """Where a partition ended when it was looked at."""

    offset: int
    at: float
    """When the request was sent, so the partition ended there at that moment or later."""


class Ends:
    """The ends of the partitions that a consumer fetches.

    Parameters
    ----------
    consumer
        Of kafka-python; it must not have fetched yet.
    """

    def __init__(self, consumer: Any) -> None:
        # Written by the client's I/O thread alone.
        self._told: dict[TopicPartition, End] = {}
        self._forgotten: dict[TopicPartition, float] = {}
        try:
            handle = consumer._fetcher._handle_fetch_response
        except AttributeError as error:
            raise kafka_errors.UnsupportedVersionError(
                f"this kafka-python's consumer is not as 3.0.12's: {error}; install"
                " kafka-python>=3.0.12,<3.1"
            ) from error

        def note_and_handle(node: Any, fetched: Any, sent: float, response: Any) -> None:
            # First the end, then the records, so that no position is past the end that is known.
            self._note(fetched, sent, response)
            handle(node, fetched, sent, response)

        consumer._fetcher._handle_fetch_response = note_and_handle

    def _note(self, fetched: Mapping[TopicPartition, int], sent: float, response: Any) -> None:
        """Take the ends out of an answer to a fetch that was sent at a moment.

        A partition that was fetched and that the answer leaves out still ends where it did. An
        answer with an error, or a throttled one, says nothing.
        """
        if not response.error_code and not response.throttle_time_ms:
            for tp in fetched:
                if tp in self._told:  # and left out below: nothing new
                    self._told[tp] = End(self._told[tp].offset, sent)
        for topic in response.responses:
            for part in topic.partitions:
                tp = TopicPartition(topic.topic, part.partition_index)
                if part.error_code or part.last_stable_offset < 0:
                    self._told.pop(tp, None)
                else:
                    self._told[tp] = End(part.last_stable_offset, sent)

    def forget(self, tp: TopicPartition) -> None:
        """Believe nothing that was heard until now: it was not fetched for a while."""
        self._forgotten[tp] = time.monotonic()

    def of(self, tp: TopicPartition) -> int | None:
        """The end of a partition; None where what is known of it is too old."""
        after = max(time.monotonic() - STALE_SECONDS, self._forgotten.get(tp, 0.0))
        end = self._told.get(tp)
        return end.offset if end is not None and end.at > after else None
