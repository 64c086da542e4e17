"""Service: the interface behind HTTP; corrects predictions and takes labels."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain, islice
from typing import ClassVar, NamedTuple

from stream_can.app.counts import Handled
from stream_can.app.health import Health
from stream_can.app.labelling.requests import OpenRequests
from stream_can.app.letters import KEPT, Letter, without_payload
from stream_can.app.metrics import Metrics
from stream_can.app.model_messages import Bad
from stream_can.app.start import Start
from stream_can.app.status_report import StatusReport
from stream_can.app.tally import Tally
from stream_can.errors import StreamCANError
from stream_can.method.state import FEW_ROWS, rows_at_once
from stream_can.serve.settings import LABELS, ServeSettings

MOST_MESSAGES = 10_000
"""Maximum number of messages in a request."""
MOST_SHOWN, LONGEST_REASON = 10, 1000
"""Number of messages that a refusal names, and of characters that it says of each."""

Status = str
"""Outcome of a label."""


class Refused(StreamCANError):
    """A request was rejected as a whole; the message names its unreadable messages."""


class TooMany(StreamCANError):
    """A request has more rows than are read at once."""


class Unavailable(StreamCANError):
    """A request was rejected as a whole because it cannot be served now."""


class NoBrokers(StreamCANError):
    """No broker has answered within the time limit."""


class Answers(NamedTuple):
    """Response to predictions."""

    messages: list[bytes]
    header: tuple[bytes, bytes]
    """Header that names the state by which they were corrected."""


class Service(ABC):
    """Answers requests in a single thread, that of the event loop."""

    statuses: ClassVar[tuple[Status, ...]]
    """Possible outcomes of labels."""
    settings: ServeSettings
    start: Start
    health: Health
    metrics: Metrics
    tally: Tally
    status_report: StatusReport

    def __init__(self) -> None:
        self._together: list[tuple[Sequence[bytes], asyncio.Future[Answers]]] = []
        self._tries = False
        """Whether a batch of several requests is being tried: if a message is bad, each request is
        retried, and counted, alone."""

    @abstractmethod
    def correct(self, messages: Sequence[bytes]) -> Answers:
        """Correct all messages or none.

        Raises
        ------
        Refused
            A message cannot be read.
        Unavailable
            There is no state to correct them by.
        """

    @abstractmethod
    async def labels(self, messages: Sequence[bytes]) -> list[Status]:
        """Take all labels or none, durably; return the outcome of each.

        Raises
        ------
        Refused
            A label cannot be read.
        Unavailable
            They cannot be stored now.
        """

    @abstractmethod
    async def written(self) -> None:
        """Wait until everything taken so far is stored; Unavailable where that is impossible
        now."""

    @abstractmethod
    async def run(self) -> None:
        """Store what is taken, until :meth:`end`."""

    @abstractmethod
    async def end(self, running: asyncio.Task[None]) -> None:
        """Store the rest and close the storage."""

    @abstractmethod
    def close(self) -> None:
        """Close the storage; nothing was taken."""

    @abstractmethod
    def requests_for(self, loop: asyncio.AbstractEventLoop) -> OpenRequests:
        """Label requests for the labelling page, which runs in other threads."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where things are stored, for display."""

    @property
    @abstractmethod
    def _widest(self) -> int:
        """Largest number of classes of a model."""

    @abstractmethod
    def _counted(self) -> None:
        """Note that counts have changed without other events."""

    @property
    def most(self) -> int:
        """Maximum number of messages processed together."""
        return min(MOST_MESSAGES, rows_at_once(self._widest))

    def require_few(self, rows: int) -> None:
        """Raise TooMany where so many rows are not processed together."""
        if rows > FEW_ROWS and rows > self.most:
            raise TooMany(
                f"{rows} messages; with this many classes a request has {self.most} at most"
            )

    async def correct_together(self, messages: Sequence[bytes]) -> Answers:
        """:meth:`correct`, batched with requests of the same turn of the loop."""
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        if not self._together:
            asyncio.get_running_loop().call_soon(self._correct_all)
        self._together.append((messages, future))
        return await future

    def _correct_all(self) -> None:
        """Answer a batch; where a message is bad, each request alone."""
        requests, self._together = self._together, []
        batch: list[tuple[Sequence[bytes], asyncio.Future[Answers]]] = []
        size, most = 0, self.most
        for request in requests:
            if batch and size + len(request[0]) > most:
                self._correct_these(batch)
                batch, size = [], 0
            batch.append(request)
            size += len(request[0])
        self._correct_these(batch)

    def _correct_these(
        self, batch: Sequence[tuple[Sequence[bytes], asyncio.Future[Answers]]]
    ) -> None:
        self._tries = len(batch) > 1
        try:
            corrected, header = self.correct([*chain.from_iterable(part for part, _ in batch)])
        except Exception as error:  # otherwise requests would wait for ever
            self._tries = False
            if isinstance(error, Refused) and len(batch) > 1:
                for request in batch:
                    self._correct_these([request])
                return
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        self._tries = False
        remaining = iter(corrected)
        for messages, future in batch:
            outputs = list(islice(remaining, len(messages)))
            if not future.done():
                future.set_result(Answers(outputs, header))

    def _refuse(self, bad: Bad, n: int, source: str) -> Refused:
        """Build and count the refusal of a request with n messages."""
        if self._tries:
            return Refused("")
        now, field_names = time.time(), self.settings.field_names
        letters = [
            Letter(now, source, 0, i, type(why).__name__,
                   without_payload(type(why).__name__, str(why), field_names))
            for i, why in bad[-KEPT:]
        ]  # fmt: skip
        self.tally.refuse(len(bad), labels=source == LABELS)
        self.metrics.handled(Handled(letters=letters))
        self._counted()
        return Refused(_refusal(bad, n))


def _refusal(bad: Sequence[tuple[int, object]], n: int) -> str:
    """Describe the bad messages of a request, counted from 1 as rows of files are."""
    if n == 1:
        return str(bad[0][1])[:LONGEST_REASON]
    shown = "; ".join(
        f"message {i + 1}: {str(why)[:LONGEST_REASON]}" for i, why in bad[:MOST_SHOWN]
    )
    omitted = f"; and {len(bad) - MOST_SHOWN} more" if len(bad) > MOST_SHOWN else ""
    return f"{shown}{omitted}"
