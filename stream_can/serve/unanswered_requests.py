"""UnansweredRequests: label requests of a server whose predictions have no label yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import msgspec

from stream_can.app.labelling.request_message import RequestMessage
from stream_can.app.labelling.requests import Pending
from stream_can.app.tally import Tally
from stream_can.learner.learner import Learner

MOST_REQUESTS = 10_000
"""Maximum number of open label requests; beyond it the oldest are dropped."""


class UnansweredRequests:
    """Requests by the number of their prediction, the oldest first.

    Parameters
    ----------
    learner
        Its predictions are the ones that can still be labelled.
    tally
        Has their number and the time of the oldest.
    notes
        Requests of a file, by number; those that the learner has not requested are left out.
    """

    def __init__(
        self, learner: Learner, tally: Tally, notes: Sequence[tuple[int, bytes]] = ()
    ) -> None:
        self._learner, self._tally = learner, tally
        self._pending: OrderedDict[int, Pending] = OrderedDict()
        if learner.ask is not None:
            requested = learner.requested
            for number, note in notes:
                if number in requested:
                    self.append(number, msgspec.json.decode(note, type=RequestMessage))
        self.count()

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._pending.values())

    def append(self, number: int, message: RequestMessage) -> None:
        """Note a request; the oldest goes where there are too many."""
        self._pending[number] = Pending(0, number, None, message)
        while len(self._pending) > MOST_REQUESTS:
            self._pending.popitem(last=False)

    def get(self, number: int) -> Pending | None:
        """The request for a prediction; None where it is not open."""
        return self._pending.get(number)

    def close(self, number: int) -> bool:
        """Remove a request; return whether it was open."""
        return self._pending.pop(number, None) is not None

    def count(self) -> None:
        """Drop requests whose prediction is no longer kept, and count the rest."""
        if self._learner.ask is None:
            return
        pending, oldest = self._pending, self._learner.oldest
        while pending and (first := next(iter(pending))) < oldest:
            del pending[first]
        since = next(iter(pending.values())).says.time if pending else None
        self._tally.requests = len(pending), since

    def notes(self) -> list[tuple[int, bytes]]:
        """The requests as notes of a file."""
        return [
            (number, msgspec.json.encode(pending.says)) for number, pending in self._pending.items()
        ]
