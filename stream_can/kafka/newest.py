"""The newest snapshot of every partition in a state topic, without being in its group."""

from __future__ import annotations

from typing import Any

import msgspec

from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.stream.task import Task

NEAR = (100, 2_000)
"""So many offsets from the end are looked through first; only then the whole partition."""


def newest(
    topic: str, bootstrap_servers: list[str], options: dict[str, Any] | None = None
) -> dict[str, tuple[Corrector, dict[str, Any]]]:
    """What the newest committed snapshot of every partition has learned.

    Parameters
    ----------
    topic
        A state topic; ``application_id-state`` where settings do not name it.
    bootstrap_servers
        Brokers to ask first.
    options
        Options of kafka-python (security); ``Settings.client``.

    Returns
    -------
    Key of the snapshot (``input topic-partition``) -> its Corrector and, as
    :func:`stream_can.cli.inspection.read_snapshot` has it, positions and counts; by partition. A
    partition that nothing was committed for is not there.

    Raises
    ------
    SnapshotMismatch
        A record is no snapshot; the message names topic, partition and offset.
    DeniedError, RetryError
        The topic cannot be read; no broker answers.
    """
    readers = Readers(Options(bootstrap_servers, options))
    try:
        found = {}
        for partition, (begin, end) in readers.spans(topic).items():
            for record in _last_of_each_key(readers, topic, partition, begin, end):
                try:
                    task = Task.from_bytes(record.value)
                except SnapshotMismatch as error:
                    where = f"{topic}-{partition} offset {record.offset}"
                    raise SnapshotMismatch(f"{where}: {error}") from None
                found[record.key.decode(errors="replace")] = (
                    task.corrector,
                    {
                        "next_prediction": task.next_prediction,
                        "next_label": task.next_label,
                        "counts": msgspec.to_builtins(task.counts),
                    },
                )
        return found
    finally:
        readers.close()


def _last_of_each_key(
    readers: Readers, topic: str, partition: int, begin: int, end: int
) -> list[Any]:
    """The newest record of each key; a state topic has one key a partition, so mostly the first
    look is enough."""
    for start in (*(max(begin, end - near) for near in NEAR), begin):
        found = {
            record.key: record
            for record in readers.read(topic, partition, start, end)
            if record.key is not None
        }
        if found:
            return [record for record in found.values() if record.value is not None]
    return []
