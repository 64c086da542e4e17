"""What the newest records of a state topic say, read from outside the group."""

from __future__ import annotations

from typing import Any

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.kafka import shared
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.shared import is_shared
from stream_can.stream.head import read_head


def newest(
    topic: str, bootstrap_servers: list[str], options: dict[str, Any] | None = None
) -> dict[str, tuple[Corrector, dict[str, Any]]]:
    """What was learned up to the newest committed shared records, and where the partitions are.

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
    Key of the shared record ("shared", or "shared/3" where partitions learn apart) -> its
    Corrector, and the offset of the learned log up to which it is folded with positions and counts
    of its partitions; and of each lane, ``shared/0/model/version`` with percent-encoded names, its
    Corrector, and where in the log it began and what it went on from. From a release in which each
    partition learned alone: key of the partition's snapshot (``input topic-partition``) -> the same
    of it alone. Partitions without a commit are
    not in it.

    Raises
    ------
    SnapshotMismatch
        A record is none of these; the message names topic, partition and offset.
    DeniedError, RetryError
        The topic cannot be read; no broker answers.
    """
    readers = Readers(Options(bootstrap_servers, options))
    found: dict[str, tuple[Corrector, dict[str, Any]]] = {}
    streams: dict[int, dict[str, Any]] = {}
    try:
        for partition, (begin, end) in readers.spans(topic).items():
            together = "shared" in found
            for record in _last_of_each_key(readers, topic, partition, begin, end, together):
                name = record.key.decode(errors="replace")
                try:
                    head_of = snapshot.decode(record.value).head
                    if "lane" in head_of:
                        continue  # read with the shared record that names it
                    if "shared" in head_of:
                        replica = shared.stored(readers, topic, partition, record.value)
                        streams[partition] = {}
                        found[name] = (
                            replica.corrector,
                            {"learned": replica.offset, "partitions": streams[partition]},
                        )
                        for lane, one in replica.lanes.items():
                            found[shared.lane_key(partition, lane).decode()] = (
                                one.corrector,
                                {
                                    "model": lane.model,
                                    "version": lane.version,
                                    "learned": replica.offset,
                                    "begun": one.begun,
                                    "last": one.last,
                                    "successor_of": one.after,
                                },
                            )
                        continue
                    head = read_head(record.value)
                    if head.corrector is not None:
                        found[name] = Corrector.from_bytes(head.corrector), head.stream
                        continue
                except SnapshotMismatch as error:
                    where = f"{topic}-{partition} offset {record.offset}"
                    raise SnapshotMismatch(f"{where}: {error}") from None
                of = streams.get(0 if "shared" in found else partition)
                if of is not None:
                    of[name] = head.stream | {"learned": head.folded_to}
        return found
    finally:
        readers.close()


def _last_of_each_key(
    readers: Readers, topic: str, partition: int, begin: int, end: int, together: bool
) -> list[Any]:
    """The newest record of each key, shared records first.

    It looks at the end of the partition first, and further back each time, until it meets a shared
    record, or any record with ``together``, where another partition holds the shared one.
    """
    for start in shared.nearest_first(begin, end):
        found = {
            record.key: record
            for record in readers.read(topic, partition, start, end)
            if record.key is not None
        }
        if found and (together or any(map(is_shared, found)) or start == begin):
            kept = [record for record in found.values() if record.value is not None]
            return sorted(kept, key=lambda record: not is_shared(record.key))
    return []
