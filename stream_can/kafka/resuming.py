"""Where a worker reads an assigned partition on."""

from __future__ import annotations

import logging
from typing import NamedTuple

from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.settings import Settings
from stream_can.kafka.state import Index

__all__ = ["ResumePoint", "resume_point"]

log = logging.getLogger(__name__)


class ResumePoint(NamedTuple):
    """Where a partition is read on."""

    offset: int
    note: str = ""
    """The note beside the committed offset."""
    is_reset: bool = False
    """Whether the partition may have been learned further, or in another topic of the name."""


def resume_point(
    settings: Settings,
    partition: int,
    committed: tuple[int | None, str],
    span: tuple[int, int],
    index: Index,
    *,
    made_again: bool = False,
) -> ResumePoint:
    """Where to read a partition on: at the committed offset, or as the settings say.

    Parameters
    ----------
    committed
        Next offset of the group, None without one, and the note beside it.
    span
        Offsets of the partition: the first, and the one behind the last.
    index
        Of the newest state.
    made_again
        Whether the input was deleted and made again.

    Raises
    ------
    DeniedError
        Neither the group's offset nor the settings say where.
    """
    (at, note), (begin, end) = committed, span
    learned, where = index.inputs.get(partition, 0), f"partition {partition} of {settings.input}"
    from_begin = settings.start == "earliest"
    if at is None and not learned:
        return ResumePoint(begin if from_begin else end)
    if at is None:
        wrong = f"the group has no offset there, though {learned} were learned"
        if not made_again:
            wrong += ": it has expired, or the topic was deleted and made again"
    elif at > end:
        wrong = f"the group is at {at}, and the topic ends at {end}"
    elif at < begin:
        wrong = f"records from {at} to {begin - 1} are gone"
    else:
        return ResumePoint(at, note, learned > at or partition in index.moved)
    if made_again:
        wrong = f"the topic was deleted and made again: {wrong}"
    if not settings.reset_offsets:
        raise DeniedError(
            f"{where}: {wrong}; --reset-offsets goes on"
            f" {'at its beginning' if from_begin else 'at its end'}"
        )
    log.warning("%s: %s; going on", where, wrong)
    if at is not None and at < begin:
        return ResumePoint(begin, note)
    return ResumePoint(begin if from_begin else end, is_reset=True)
