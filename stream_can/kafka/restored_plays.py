"""The plays of a memory, restored from the sent batches of their topic."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stream_can.kafka.sent_record import SentRecord
from stream_can.kafka.state import Memory, Play
from stream_can.learner import in_order
from stream_can.learner.sent import SentBatch

__all__ = ["RestoredPlays", "restored_plays"]

log = logging.getLogger(__name__)


class RestoredPlays(NamedTuple):
    """Plays of a memory whose rows are there."""

    plays: list[Play]
    play_starts: dict[int, int]
    """As :attr:`Memory.play_starts`, of these."""
    batches: list[SentBatch]
    """Their rows, in order."""


def restored_plays(
    memory: Memory,
    batches: Mapping[int, Sequence[SentRecord]],
    first: Mapping[int, int],
    played: Mapping[tuple[int, int], SentBatch],
) -> RestoredPlays:
    """Restore the plays of a memory, with the batches in their original order."""
    plays, last = list(memory.plays), dict(memory.play_starts)
    spans = []
    for play in plays:
        spans.append({p: (last.get(p, 0), end) for p, end in play.ends.items()})
        last.update(play.ends)
    missing = [
        i for i, span in enumerate(spans)
        if (
            any(place not in played for place in plays[i].played) if plays[i].played
            else any(start < first.get(p, 0) for p, (start, _) in span.items())
        )
    ]  # fmt: skip
    at = missing[-1] + 1 if missing else 0
    play_starts = dict(memory.play_starts)
    number = memory.number - sum(play.rows for play in plays[at:])
    queues = {p: deque(records) for p, records in batches.items()}
    restored = list[SentBatch]()
    for i in range(at, len(plays)):
        play, span = plays[i], spans[i]
        of_partitions: dict[int, list[SentBatch]] = {}
        for p, (start, end) in span.items():
            queue = queues.get(p, deque())
            while queue and queue[0].offset < end:
                record = queue.popleft()
                if record.offset >= start and isinstance(record.batch, SentBatch):
                    of_partitions.setdefault(p, []).append(record.batch)
        number += play.rows
        if play.played:
            restored += [played[place] for place in play.played]
            continue
        merged = in_order(of_partitions, {}, number - play.rows).sent
        restored.append(merged)
        if len(merged) != play.rows:  # brokers lost some, or hold them twice
            log.error(
                "sent batches of offsets %s hold %d rows, the memory says %d: labels of these and"
                " of earlier predictions will find none", span, len(merged), play.rows
            )  # fmt: skip
            restored, at = [], i + 1
    for play in plays[:at]:
        play_starts.update(play.ends)
    return RestoredPlays(plays[at:], play_starts, restored)
