"""The service behind HTTP, whoever learns: it corrects predictions and takes labels."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, NamedTuple

from stream_can.app.health import Health
from stream_can.app.known import Handled
from stream_can.app.labelling.requests import OpenRequests
from stream_can.app.letters import KEPT, Letter, without_payload
from stream_can.app.look import Look
from stream_can.app.metrics import Metrics
from stream_can.app.reader import Bad
from stream_can.app.start import Start
from stream_can.app.tally import Tally
from stream_can.errors import StreamCANError
from stream_can.messages.records import Record
from stream_can.method.state import rows_at_once
from stream_can.serve.settings import LABELS, ServeSettings

__all__ = [
    "MOST_MESSAGES", "Answers", "NoBrokers", "Refused", "Service", "Status", "Unavailable",
    "records",
]  # fmt: skip

MOST_MESSAGES = 10_000
"""Most messages of a request."""
MOST_SHOWN = 10
"""Messages of a request that its refusal names."""

Status = str
"""Outcome of a label."""


class Refused(StreamCANError):
    """Nothing of a request was taken; the message says which of its messages cannot be read."""


class Unavailable(StreamCANError):
    """Nothing of a request was taken: that cannot be done now."""


class NoBrokers(StreamCANError):
    """No broker has answered for as long as one waits for them."""


class Answers(NamedTuple):
    """The answer to predictions."""

    messages: list[bytes]
    header: tuple[bytes, bytes]
    """Header that says by which state they were corrected."""


class Service(ABC):
    """Answers requests; all of it in one thread, that of the event loop."""

    statuses: ClassVar[tuple[Status, ...]]
    """Outcomes that a label may have."""
    settings: ServeSettings
    start: Start
    health: Health
    metrics: Metrics
    tally: Tally
    look: Look

    def __init__(self) -> None:
        self._together: list[tuple[Sequence[bytes], asyncio.Future[Answers]]] = []
        self._tries = False
        """Whether messages of several requests are tried together: where one is bad, each request
        comes again by itself, and is counted then."""

    @abstractmethod
    def correct(self, messages: Sequence[bytes]) -> Answers:
        """Correct the messages of predictions, or none of them.

        Raises
        ------
        Refused
            One of them cannot be read.
        Unavailable
            There is nothing to correct them by.
        """

    @abstractmethod
    async def labels(self, messages: Sequence[bytes]) -> list[Status]:
        """Take labels, or none of them, for good; what became of each.

        Raises
        ------
        Refused
            One of them cannot be read.
        Unavailable
            They cannot be kept now.
        """

    @abstractmethod
    async def written(self) -> None:
        """Wait until all that was taken before is kept, wherever that is; Unavailable where it
        cannot be now."""

    @abstractmethod
    async def run(self) -> None:
        """Keep what is taken, until :meth:`end`."""

    @abstractmethod
    async def end(self, running: asyncio.Task[None]) -> None:
        """Keep what is left, and let go of where it is kept."""

    @abstractmethod
    def close(self) -> None:
        """Let go of where it is kept, where nothing was taken."""

    @abstractmethod
    def requests_for(self, loop: asyncio.AbstractEventLoop) -> OpenRequests:
        """The label requests, for the page, which has threads of its own."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where what is taken is kept, for people."""

    @property
    @abstractmethod
    def _widest(self) -> int:
        """Classes of the model that has most."""

    @abstractmethod
    def _counted(self) -> None:
        """Something was counted and nothing else came."""

    @property
    def most(self) -> int:
        """Messages that are worked on together."""
        return min(MOST_MESSAGES, rows_at_once(self._widest))

    async def correct_together(self, messages: Sequence[bytes]) -> Answers:
        """:meth:`correct`, with what comes in the same turn of the loop: a batch costs less."""
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        if not self._together:
            asyncio.get_running_loop().call_soon(self._correct_all)
        self._together.append((messages, future))
        return await future

    def _correct_all(self) -> None:
        """Answer all that came together; where a message is bad, each request by itself."""
        every, self._together = self._together, []
        waiting: list[tuple[Sequence[bytes], asyncio.Future[Answers]]] = []
        size, most = 0, self.most
        for one in every:
            if waiting and size + len(one[0]) > most:
                self._correct_these(waiting)
                waiting, size = [], 0
            waiting.append(one)
            size += len(one[0])
        self._correct_these(waiting)

    def _correct_these(
        self, waiting: Sequence[tuple[Sequence[bytes], asyncio.Future[Answers]]]
    ) -> None:
        self._tries = len(waiting) > 1
        try:
            every, header = self.correct([one for messages, _ in waiting for one in messages])
        except Exception as error:  # whatever it is, nobody waits for ever
            self._tries = False
            if isinstance(error, Refused) and len(waiting) > 1:
                for one in waiting:
                    self._correct_these([one])
                return
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        self._tries = False
        found = iter(every)
        for messages, future in waiting:
            outputs = list(islice(found, len(messages)))
            if not future.done():
                future.set_result(Answers(outputs, header))

    def _refuse(self, bad: Bad, n: int, what: str) -> Refused:
        """The answer to a request of n messages, once it is counted."""
        if self._tries:
            return Refused("")
        now, ours = time.time(), self.settings.field_names
        letters = [
            Letter(now, what, 0, i, type(why).__name__,
                   without_payload(type(why).__name__, str(why), ours))
            for i, why in bad[-KEPT:]
        ]  # fmt: skip
        self.tally.refuse(len(bad), labels=what == LABELS)
        self.metrics.handled(Handled(letters=letters))
        self._counted()
        return Refused(_refusal(bad, n))


def records(topic: str, messages: Sequence[bytes], time_ms: int = 0) -> list[Record]:
    """Messages as records, numbered from 0."""
    return [Record(topic, 0, i, time_ms, None, one) for i, one in enumerate(messages)]


def _refusal(bad: Sequence[tuple[int, object]], n: int) -> str:
    """Which messages of a request are bad, and why."""
    if n == 1:
        return str(bad[0][1])
    shown = "; ".join(f"message {i}: {why}" for i, why in bad[:MOST_SHOWN])
    more = f"; and {len(bad) - MOST_SHOWN} more" if len(bad) > MOST_SHOWN else ""
    return f"{shown}{more}"
