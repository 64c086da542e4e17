"""OpenTransaction: what an open transaction will have counted when it commits."""

from __future__ import annotations

from collections import Counter as Tally
from collections import deque

from stream_can.app.counts import Handled
from stream_can.app.letters import KEPT, Letter


class OpenTransaction:
    """Counts of the batches of an open transaction."""

    def __init__(self) -> None:
        self.outputs = self.divided = self.faults = self.answers = 0
        self.delays: list[int] = []
        self.requested: Tally[str] = Tally()
        self.letters: deque[Letter] = deque(maxlen=KEPT)

    def include(self, batch: Handled) -> None:
        """Add a batch."""
        self.outputs += batch.outputs
        self.delays += batch.delays
        self.divided += batch.normalised
        self.faults += batch.faults
        self.answers += batch.answered
        self.requested.update(batch.requested)
        self.letters += batch.letters
