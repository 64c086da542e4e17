"""A server's place among those that learn with it.

What a replica has to teach lies in its file before it is sent, and stays there until it is seen in
the log. Whoever reads the log takes each entry once; see :mod:`stream_can.stream.writers`. Labels
come to all; whoever has the prediction of one teaches it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

from stream_can.kafka.start import Start
from stream_can.messages.records import Record
from stream_can.serve.journal import Away, Journal, Shared, StateError
from stream_can.serve.replicas import Topics
from stream_can.serve.settings import LABELS, ServeSettings
from stream_can.stream.replica import Replica
from stream_can.stream.task import Task

__all__ = ["Together"]

MOST_UNSEEN = 100
"""With so many entries on their way to the log nothing is added to them."""
MOST_LABELS = 1000
"""Of the labels' topic, taken at once."""
LOOK_SECONDS = 0.1
"""Between two looks at the labels that wait."""


class Together:
    """Which entries of the log are ours, and which labels wait for whoever has their prediction.

    Parameters
    ----------
    settings, start, beat
        As of :class:`stream_can.serve.replicas.Topics`.
    """

    def __init__(self, settings: ServeSettings, start: Start, beat: Callable[[], None]) -> None:
        self.settings = settings
        self._topics = Topics(settings, start, beat)
        self.pass_on = self._topics.pass_on
        self._waits: dict[int, tuple[float, bytes, Record]] = {}
        """Labels without a prediction here, by offset: until when, and the id."""
        self._looked = 0.0
        self._offsets: dict[int, int] = {}
        """Of labels that the task has taken, by its numbers: their offsets in their topic."""
        self._writer, self._next, self._seen = b"", 0, -1

    def open(self, replica: Replica, journal: Journal, stored: Shared) -> Replica:
        """Fold the log that others learn in too, and take up what was on its way there.

        Raises
        ------
        StateError, ClientError, NewerEntry
            It cannot be taken up.
        """
        topics = self._topics
        replica = topics.open(replica, stored.labels_from)
        last = replica.writers.last(stored.writer)
        if last is None and stored.next > len(stored.sends):
            stored, last = journal.rename(), None
        self._writer, self._next = stored.writer, stored.next
        self._note(last)
        topics.outbox.put(one for one in stored.sends if one[0] > self._seen)
        return replica

    def begin(self, replica: Replica) -> None:
        """Tell the settings, and begin to send."""
        self._topics.tell_settings(replica)
        self._topics.outbox.start()

    def _note(self, last: int | None) -> None:
        """The log has our entries up to this one."""
        if last is None or last <= self._seen:
            return
        if last >= self._next:
            raise StateError(
                f"state {self.settings.state}: another process writes under the name in it: is it a"
                " copy? Each server needs a file of its own; move it away to begin with what all"
                " have learned"
            )
        self._seen = last
        self._topics.outbox.seen(last)

    # -- the log ---------------------------------------------------------------------------------

    @property
    def behind(self) -> bool:
        """Whether there is more to fold or to learn at once."""
        return self._topics.behind

    @property
    def full(self) -> bool:
        """Whether so much is on its way that nothing is added."""
        return len(self._topics.outbox) >= MOST_UNSEEN

    def advance(self, task: Task, replica: Replica) -> None:
        """Fold what the log has brought, for a moment; never waits.

        Raises
        ------
        ClientError, NewerEntry, StateError
            It cannot go on.
        """
        self._topics.advance(replica)
        if task.stale:
            raise StateError(f"topic {self._topics.learned!r} began anew; start again")
        self._note(replica.writers.last(self._writer))
        self._topics.leave_for_others(replica)

    @property
    def writer(self) -> tuple[bytes, int]:
        """Our name, and the number of our next entry."""
        return self._writer, self._next

    def number(self, entries: Sequence[bytes]) -> list[tuple[int, bytes]]:
        """Our next entries, with their numbers."""
        first, self._next = self._next, self._next + len(entries)
        return list(enumerate(entries, first))

    def away(self, sends: list[tuple[int, bytes]]) -> Away:
        """What a commit keeps of the log, with entries that are to be sent once it is written."""
        return Away(sends, self._seen, min(self._waits, default=self._topics.labels_next))

    def send(self, away: Away) -> None:
        """A commit is written: its entries may go."""
        self._topics.outbox.put(away.sends)

    # -- labels ----------------------------------------------------------------------------------

    def labels_came(self) -> list[Record]:
        """Labels for all, in their order; none while too much is on its way."""
        return [] if self.full else self._topics.take_labels(MOST_LABELS)

    def wait(self, record: Record, id: bytes) -> None:
        """A label without a prediction here waits for whoever has it, for about ``label_wait``."""
        seconds = self.settings.label_wait * random.uniform(1, 1.25)
        self._waits[record.offset] = time.monotonic() + seconds, id, record

    def waited(self, replica: Replica) -> Iterator[tuple[bytes, Record | None]]:
        """The ids that wait no longer, each with its label if nobody has taught it."""
        now = time.monotonic()
        if now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        for offset, (until, id, record) in list(self._waits.items()):
            taught = replica.writers.settled_anywhere(offset)
            if taught or now > until:
                del self._waits[offset]
                yield id, None if taught else record

    def take(self, labels: Sequence[Record], first: int) -> list[Record]:
        """Labels of the topic under the task's next numbers."""
        self._offsets |= {first + i: one.offset for i, one in enumerate(labels)}
        return [
            Record(LABELS, 0, first + i, one.timestamp, None, one.value)
            for i, one in enumerate(labels)
        ]

    def offsets(self, numbers: Sequence[int]) -> list[int]:
        """The offsets in the topic of labels that the task has under these numbers."""
        return [self._offsets.pop(n, n) for n in numbers]

    def close(self, replica: Replica | None = None) -> None:
        """Send what is left, with what new replicas begin with, and let go of the brokers."""
        if replica is None:
            self._topics.close(0)
            return
        self._topics.leave_for_others(replica, last=True)
        self._topics.close()
