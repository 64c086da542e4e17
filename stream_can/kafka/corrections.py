"""What becomes of records that are corrected: outputs, dead letters, a sent batch, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stream_can.app.model_messages import Bad
from stream_can.app.prediction_reader import ReadPredictions
from stream_can.errors import StreamCANError
from stream_can.kafka.headers import STATE_HEADER
from stream_can.learner.model_name import ONLY
from stream_can.learner.sent import SentBatch
from stream_can.learner.switch import CorrectionSwitch
from stream_can.messages.records import Header, Output, Source, dead_letter_of, headers_of
from stream_can.version import __version__

__all__ = [
    "OFF_HEADER", "VERSION_HEADER", "Corrections", "OutputWriter", "UnreadableRecord", "unreadable",
]  # fmt: skip

VERSION_HEADER: Header = ("stream-can-version", __version__.encode())
OFF_HEADER: Header = ("stream-can-corrected", b"false")
"""Header of an output that is its prediction as it came, because correction is switched off."""


class UnreadableRecord(StreamCANError):
    """A record cannot be read, and ``errors="fail"`` says to stop at it."""


def unreadable(record: Source, reason: object) -> UnreadableRecord:
    """The error for a record; its text begins with the record's position."""
    where = f"offset {record.offset} of {record.topic}-{record.partition}"
    return UnreadableRecord(f"{where}: {reason}")


@dataclass
class Corrections:
    """Results of the records of a partition."""

    outputs: list[Output] = field(default_factory=list)
    dead_letters: list[Output] = field(default_factory=list)
    sent: SentBatch | None = None
    """Sent batch for the learner; None without rows."""
    stopped: tuple[Source, StreamCANError] | None = None
    """The first unreadable record where processing is to stop; those before it are included."""
    corrected: int = 0
    without_id: list[Source] = field(default_factory=list)
    """Predictions that no label can find."""
    normalised: int = 0
    """Rows whose sum deviated from 1 and that were divided by it."""
    faults: list[tuple[Source, str]] = field(default_factory=list)
    """Predictions with an invalid column value (treated as missing), with the reason."""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Arguments of :meth:`Tally.answered`."""
        return len(self.outputs), self.corrected, len(self.dead_letters), len(self.without_id)


class OutputWriter:
    """Writes the outputs of records of a partition, in their order.

    Parameters
    ----------
    records
        The records.
    state
        Number of the state by which they are corrected.
    switch
        Whether models are corrected.
    corrections
        Receives what becomes of the records.
    """

    def __init__(
        self,
        records: Sequence[Source],
        state: int,
        switch: CorrectionSwitch,
        corrections: Corrections,
    ) -> None:
        self._records, self._switch, self._corrections = records, switch, corrections
        self._headers = [VERSION_HEADER, (STATE_HEADER, b"%d" % state)]
        self._outputs: list[Output | None] = [None] * len(records)

    def write_empty(self, group: ReadPredictions) -> None:
        """Write the outputs of a group's records without a value."""
        for i in group.empty:
            self._write(i, None, self._headers, group)

    def write(self, group: ReadPredictions, rows: Any, sets: Sequence[list[Any]] | None) -> None:
        """Write the output of each prediction of a group, from the corrected rows and their
        sets."""
        values = group.write(rows, None, sets)
        names = group.names or [ONLY] * len(values)
        off_headers, corrections = [*self._headers, OFF_HEADER], self._corrections
        for i, value, (model, _) in zip(group.places, values, names, strict=True):
            on = self._switch.is_on(model)
            self._write(i, value, self._headers if on else off_headers, group)
            corrections.corrected += on
        lonely = zip(group.places, group.ids, strict=True)
        corrections.without_id += [self._records[i] for i, id in lonely if id is None]
        corrections.faults += [(self._records[i], fault) for i, fault in group.faults]
        corrections.normalised += group.off

    def _write(
        self, i: int, value: bytes | None, headers: list[Header], group: ReadPredictions
    ) -> None:
        record = self._records[i]
        if record.headers:
            own_headers = headers_of(record)
            if dropped := group.messages.predictions.dropped:
                own_headers = [header for header in own_headers if header[0] not in dropped]
            headers = own_headers + headers
        self._outputs[i] = Output(record.key, value, headers, record.timestamp, record)

    def finish(self, bad: Bad) -> None:
        """Add the outputs, and the dead letters of unreadable records."""
        self._corrections.outputs += [output for output in self._outputs if output is not None]
        letters = [dead_letter_of(self._records[i], error) for i, error in bad]
        self._corrections.dead_letters += letters
