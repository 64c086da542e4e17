"""RequestsForPage: label requests of a server for the labelling page, which has other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Sequence
from typing import Any, TypeVar

from stream_can.app.labelling.requests import Chosen, NotWritten, Pending
from stream_can.messages.messages import Messages
from stream_can.serve.service import Unavailable
from stream_can.serve.unanswered_requests import UnansweredRequests

SECONDS = 20.0
T = TypeVar("T")


class RequestsForPage:
    """Source of the labelling page; labels are learned in the service's thread.

    Parameters
    ----------
    loop
        Event loop of that thread.
    requests
        The unanswered requests.
    answer
        Learns a label, given the request's number and the answer.
    knows
        Whether there is a class of a name.
    rows, classes, messages
        Kind of the rows, names of the classes, and the parser of messages.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        requests: UnansweredRequests,
        answer: Callable[[int, Chosen], Coroutine[Any, Any, None]],
        knows: Callable[[str], bool],
        rows: str,
        classes: Sequence[Any],
        messages: Messages,
    ) -> None:
        self._loop, self._requests, self._answer = loop, requests, answer
        self._knows = knows
        self.rows, self.classes = rows, classes
        self.probs_path, self.raw_path = messages.probs_path, messages.raw_path

    def _run_in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)
        except TimeoutError:
            raise NotWritten(f"not answered within {SECONDS:.0f} s") from None

    def _read_in_loop(self, read: Callable[[], T]) -> T:
        async def now() -> T:
            return read()

        return self._run_in_loop(now())

    def classes_of(self, request: Pending) -> Sequence[Any]:
        """Names of a request's classes, in column order."""
        return self.classes if request.says.classes is None else request.says.classes

    def first(
        self, n: int, *, oldest: bool = False, without: Container[tuple[int, int]] = ()
    ) -> tuple[int, list[Pending]]:
        """Return the number of open requests, and the n newest or the n oldest."""

        def read() -> tuple[int, list[Pending]]:
            requests = [*self._requests]
            shown = [each for each in requests if (each.partition, each.offset) not in without]
            return len(requests), (shown if oldest else shown[::-1])[:n]

        return self._read_in_loop(read)

    def still_open(self, places: Container[tuple[int, int]]) -> list[tuple[int, int]]:
        """Which of these partitions and offsets are open requests."""
        return self._read_in_loop(
            lambda: [
                place for request in self._requests if (place := (0, request.offset)) in places
            ]
        )

    def knows(self, name: str) -> bool:
        """Whether there is a class of this name."""
        return self._read_in_loop(lambda: self._knows(name))

    def answer(self, partition: int, offset: int, chosen: Chosen) -> None:
        """Learn the label of an open request; return once it is on disk.

        Raises
        ------
        NotOpen, UnknownClass
            See :meth:`stream_can.serve.local.LocalService.learn_answer`.
        NotWritten
            It cannot be written.
        """

        try:
            self._run_in_loop(self._answer(offset, chosen))
        except Unavailable as error:
            raise NotWritten(str(error)) from None
