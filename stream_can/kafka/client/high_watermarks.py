"""High watermarks of partitions, from the answers to fetches: asking costs a request and a wait.

A response names the last stable offset of its partitions, up to which `read_committed` reads, and
leaves out partitions without news. This module uses private parts of kafka-python.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka import TopicPartition

from stream_can.kafka.client.guards import unsupported

STALE_SECONDS = 5.0
"""Age beyond which an end is ignored: fetches are answered within ``fetch_max_wait_ms``."""


class HighWatermark(NamedTuple):
    """End offset of a partition at some time."""

    offset: int
    at: float
    """Time of the request: the partition ended there then, or later."""


class HighWatermarks:
    """End offsets of the partitions that a consumer fetches.

    Parameters
    ----------
    consumer
        A kafka-python consumer that has not fetched yet.
    """

    def __init__(self, consumer: Any) -> None:
        # Written only by the client's I/O thread.
        self._newest: dict[TopicPartition, HighWatermark] = {}
        self._forgotten: dict[TopicPartition, float] = {}
        try:
            handle = consumer._fetcher._handle_fetch_response
        except AttributeError as error:
            raise unsupported("consumer", error) from error

        def note_and_handle(node: Any, fetched: Any, sent: float, response: Any) -> None:
            # The end before the records, so that no position exceeds the known end.
            self._note(fetched, sent, response)
            handle(node, fetched, sent, response)

        consumer._fetcher._handle_fetch_response = note_and_handle

    def _note(self, fetched: Mapping[TopicPartition, int], sent: float, response: Any) -> None:
        """Record the ends in the response to a fetch sent at some time.

        A fetched partition that the response leaves out still ends where it did. A response with an
        error, or a throttled one, is ignored.
        """
        if not response.error_code and not response.throttle_time_ms:
            for tp in fetched:
                if tp in self._newest:  # and left out below: no news
                    self._newest[tp] = HighWatermark(self._newest[tp].offset, sent)
        for topic in response.responses:
            for part in topic.partitions:
                tp = TopicPartition(topic.topic, part.partition_index)
                if part.error_code or part.last_stable_offset < 0:
                    self._newest.pop(tp, None)
                else:
                    self._newest[tp] = HighWatermark(part.last_stable_offset, sent)

    def forget(self, tp: TopicPartition) -> None:
        """Discard the known end of a partition that was not fetched for a while."""
        self._forgotten[tp] = time.monotonic()

    def last_of(self, tp: TopicPartition) -> int | None:
        """Last known end offset of a partition, however old; None where there is none."""
        end = self._newest.get(tp)
        return None if end is None else end.offset

    def end_of(self, tp: TopicPartition) -> int | None:
        """End offset of a partition; None where unknown or too old."""
        oldest = max(time.monotonic() - STALE_SECONDS, self._forgotten.get(tp, 0.0))
        end = self._newest.get(tp)
        return end.offset if end is not None and end.at > oldest else None
