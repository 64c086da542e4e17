"""What a partition sent before a restart, read back: to score it, and for its open label requests.

The outputs hold it, so nothing of it is stored. Where they may not be read, or are gone, labels of
what was sent before teach as ever and are not scored.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from stream_can.kafka.client.readers import Readers
from stream_can.stream.task import Task

CHUNK = 1000
FOR_EACH, BESIDES = 4, 10_000
"""So many offsets are looked at for each prediction kept: its output, the marker of a transaction,
and as much again for what was aborted; and so many besides."""


def recall(
    readers: Readers,
    task: Task,
    partition: int,
    output: str,
    labels: str | None,
    beat: Callable[[], None],
) -> None:
    """Let a restored task know what was sent of its recent predictions, and what is still asked.

    Parameters
    ----------
    output, labels
        The topics.
    beat
        Called now and then while they are read.

    Raises
    ------
    DeniedError
        The output may not be read.
    """
    lanes = task.lanes
    earliest = lanes.earliest
    if labels is None or earliest is None:
        return
    most = FOR_EACH * (task.next_prediction - task.oldest) + BESIDES

    def chunks(topic: str, since: int, end: int, take: Callable[..., None]) -> None:
        """Hand over the records before an offset that are not older than a timestamp."""
        start = end - most  # one old timestamp is no reason to read all
        if since >= 0:
            at = readers.offset_at(topic, partition, since)
            start = end if at is None else max(start, at)
        records = readers.read(topic, partition, max(start, 0), end)
        while batch := list(islice(records, CHUNK)):
            take(batch)
            beat()

    chunks(output, earliest, readers.span(output, partition)[1], lanes.recall)
    oldest = lanes.open_requests[1]
    if oldest is not None:
        chunks(labels, oldest, task.next_label, lanes.recall_labels)
