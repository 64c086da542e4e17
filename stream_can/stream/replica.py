"""What processes learn together, as one of them holds it: the fold of a log up to an offset."""

from __future__ import annotations

from stream_can.corrector import Corrector
from stream_can.stream import entry
from stream_can.stream.records import Source, place

__all__ = ["Replica"]


class Replica:
    """A corrector that learns by the entries of a log alone, so that equal offsets are equal bits.

    Parameters
    ----------
    corrector
        What the entries below an offset have made; None where the log has not started.
    offset
        That offset.
    """

    def __init__(self, corrector: Corrector | None = None, offset: int = 0) -> None:
        self._corrector = corrector
        self.offset = offset
        """All entries below it are folded, and none from it on."""
        self.newest: int | None = None
        """The timestamp of the newest entry folded here, in milliseconds."""

    @property
    def started(self) -> bool:
        """Whether there is a corrector."""
        return self._corrector is not None

    @property
    def corrector(self) -> Corrector:
        """What was learned so far; another object once a log has begun anew or changed settings."""
        assert self._corrector is not None, "the log has not started"
        return self._corrector

    def fold(self, record: Source) -> None:
        """Learn the next entry of the log.

        Raises
        ------
        BadEntry
            It cannot be folded; the message says where it lies.
        """
        try:
            self._corrector = entry.fold(self._corrector, entry.read(record.value))
        except entry.BadEntry as error:
            raise entry.BadEntry(f"{place(record)}: {error}") from None
        self.offset = record.offset + 1
        self.newest = record.timestamp

    def advance(self, offset: int) -> None:
        """No entry lies before this offset: what lay there ended transactions, or was given up."""
        self.offset = max(self.offset, offset)
