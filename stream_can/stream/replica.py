"""What processes learn together, as one of them holds it: the fold of a log up to an offset."""

from __future__ import annotations

from typing import NamedTuple

from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.stream import entry
from stream_can.stream.records import Source, place
from stream_can.stream.terms import Terms
from stream_can.version import __version__

__all__ = ["BegunAnew", "LeftOut", "Replica"]


class BegunAnew(StreamCANError):
    """The log of a task began anew: what the task holds belongs to a corrector that is gone."""


class LeftOut(NamedTuple):
    """Why an entry taught nothing."""

    reason: str
    """With its place."""
    foreign: bool
    """Whether it cannot have come from this application, or is none at all."""


class Replica:
    """A corrector that learns by the entries of a log alone, so that equal offsets are equal bits.

    All but the corrector, too, is a function of the entries below the offset.

    Parameters
    ----------
    corrector
        What the entries below an offset have made; None where the log has not started.
    offset
        That offset.
    terms
        What else they have said.
    """

    def __init__(
        self, corrector: Corrector | None = None, offset: int = 0, terms: Terms | None = None
    ) -> None:
        self._corrector = corrector
        self.offset = offset
        """All entries below it are folded, and none from it on."""
        self.terms = terms or Terms.of(corrector)
        self.newest: int | None = None
        """The timestamp of the newest entry folded here, in milliseconds."""
        self.foreign = 0
        """Records that were none of ours, of those that were folded here."""

    @property
    def started(self) -> bool:
        """Whether there is a corrector."""
        return self._corrector is not None

    @property
    def corrector(self) -> Corrector:
        """What was learned so far; another object once a log has begun anew or changed settings."""
        assert self._corrector is not None, "the log has not started"
        return self._corrector

    @property
    def epoch(self) -> int:
        """The offset behind the entry with which the log last began anew; 0 where it never did.

        Whoever holds something that was made with the corrector (rows under way, sums, receipts)
        compares it with that of then: another one means that all of it belongs to a corrector that
        is gone, perhaps of other classes. A changed setting is no new epoch.
        """
        return self.terms.epoch

    def fold(self, record: Source) -> LeftOut | None:
        """Learn the next entry of the log.

        Returns
        -------
        Why it was left out, or None where it counts. What was made with a corrector that has been
        replaced before it was committed teaches its successor nothing: its columns may be those of
        other classes. What is no entry of this application teaches nobody anything.

        Raises
        ------
        NewerEntry
            It needs a newer release; the message says where it lies.
        """
        left = None
        try:
            one = entry.read(record.value, self.terms.app, self.terms.identity)
            if one.parts and one.folded_to < self.epoch:
                left = LeftOut(f"{place(record)}: of before the log began anew", False)
            else:
                self._learn(one, record)
        except entry.BadEntry as error:
            left = LeftOut(f"{place(record)}: {error}", True)
            self.foreign += 1
        except entry.NewerEntry as error:
            raise entry.NewerEntry(f"{place(record)}: {error}") from None
        self.offset = record.offset + 1
        if left is None or not left.foreign:
            self.newest = record.timestamp
        return left

    def _learn(self, one: entry.LogEntry, record: Source) -> None:
        terms = self.terms
        if terms.app is not None and one.app is None and not terms.overlaps(one, record):
            raise entry.BadEntry("an entry that does not say whose it is")
        try:
            corrector = entry.fold(self._corrector, one)
        except entry.BadEntry as error:
            if one.app is None or one.release == __version__:
                raise
            raise entry.newer(one.release, str(error)) from None
        if corrector is not None and terms.app is None and one.start is None and one.identity:
            corrector = corrector.judged_anew()
        self._corrector, self.terms = corrector, terms.after(one, record, corrector)

    def advance(self, offset: int) -> None:
        """No entry lies before this offset: what lay there ended transactions, or was given up."""
        self.offset = max(self.offset, offset)
