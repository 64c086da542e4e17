"""Follower: the newest state for processes that correct, read in a background thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from stream_can.app.models import DeclaredCorrector
from stream_can.errors import SnapshotMismatch
from stream_can.kafka.client.guards import DeniedError, RebuildError
from stream_can.kafka.client.log import LogReader
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.readers import Readers
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.state import CORRECTORS, INDEX, Index, read_index
from stream_can.kafka.state_correctors import corrector_of
from stream_can.learner.switch import ON, CorrectionSwitch

__all__ = ["Follower"]

log = logging.getLogger(__name__)


class Follower:
    """Reads the topic of states.

    Parameters
    ----------
    options, topic
        Client options, and the topic of states.
    require
        Called with each index; raises DeniedError where it belongs to another application.
    switch
        As for `CurrentState`.
    """

    def __init__(
        self,
        options: Options,
        topic: str,
        require: Callable[[Index], None],
        switch: CorrectionSwitch = ON,
    ) -> None:
        self._topic, self._require, self._switch = topic, require, switch
        self._log, self._readers = LogReader(options, topic), Readers(options)
        self._by_offset: dict[int, DeclaredCorrector] = {}
        self._began = False
        self.state: CurrentState | None = None
        """The newest state read so far."""
        self.at = 0.0
        """When it was read, by `time.monotonic`."""
        self.written = 0.0
        """When one that was written meanwhile was last read; 0 before."""

    def look(self) -> CurrentState | None:
        """Take newly read records; return the newest state, or None before the first.

        Raises
        ------
        RebuildError
            The topic was deleted.
        DeniedError
            It may not be read, or belongs to another application.
        """
        if not self._began:
            self._begin()
        values: dict[int, bytes] = {}
        index: Any = None
        for _, fetched in self._log.take().items():
            for record in fetched.records:
                if record.key == INDEX:
                    index = record
                elif record.value is not None:
                    values[record.offset] = record.value
        if index is not None:
            self._assemble(index, values)
            self.written = self.at
        return self.state

    def _begin(self) -> None:
        """Read the newest state and start following from it."""
        record = self._readers.last(self._topic, CORRECTORS, INDEX)
        if record is not None:
            self._assemble(record, {})
        at = self._readers.span(self._topic, CORRECTORS)[0] if record is None else record.offset + 1
        self._log.start({CORRECTORS: at})
        self._began = True

    def _assemble(self, record: Any, values: dict[int, bytes]) -> None:
        """Assemble a state from its index and the correctors read before it."""
        where = f"offset {record.offset} of {self._topic}-{CORRECTORS}"
        try:
            index = read_index(record.value or b"")
            self._require(index)
            offsets = {place.offset for place in index.lanes} | {
                begin.offset for begin in index.begins
            }
            known = {at: corrector for at, corrector in self._by_offset.items() if at in offsets}
            for at in offsets - known.keys():
                if at in values:
                    known[at] = corrector_of(values[at])
            missing = offsets - known.keys()
            fetched = self._readers.read_all_at(self._topic, CORRECTORS, missing)
            if len(fetched) < len(missing):  # superseded: its index follows
                if self.state is None:
                    raise RebuildError(f"{where}: correctors of a state are gone; reading again")
                return
            for at, corrector_record in fetched.items():
                known[at] = corrector_of(corrector_record.value)
        except SnapshotMismatch as error:
            raise DeniedError(f"{where}: {error}") from None
        self._by_offset = known
        lanes = {place.name: known[place.offset] for place in index.lanes}
        begins = {begin.model: known[begin.offset] for begin in index.begins}
        self.state = CurrentState(record.offset, index, lanes, begins, self._switch)
        self.at = time.monotonic()

    def close(self) -> None:
        """Stop the thread."""
        self._log.close()
        self._readers.close()
