"""The open label requests of a server, for the labelling page, which has threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from stream_can.app.labelling.requests import NotWritten, Pending
from stream_can.messages.messages import Messages
from stream_can.serve.service import Unavailable

__all__ = ["Requests"]

SECONDS = 20.0
T = TypeVar("T")


class Requests:
    """Source of the labelling page, answered by the thread of the service.

    Parameters
    ----------
    loop
        Of its thread.
    requests
        The open ones, by their numbers.
    answer
        Takes the label of one, by its number and the column of the class.
    classes, messages
        The classes, and what reads the messages.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        requests: Mapping[int, Pending],
        answer: Callable[[int, int], Coroutine[Any, Any, None]],
        classes: Sequence[Any],
        messages: Messages,
    ) -> None:
        self._loop, self._requests, self._answer = loop, requests, answer
        self.classes = classes
        self.probs_path, self.raw_path = messages.probs_path, messages.raw_path

    def _there(self, what: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run_coroutine_threadsafe(what, self._loop).result(SECONDS)
        except TimeoutError:
            raise NotWritten(f"not answered within {SECONDS:.0f} s") from None

    def _look(self, look: Callable[[], T]) -> T:
        async def now() -> T:
            return look()

        return self._there(now())

    def classes_of(self, one: Pending) -> Sequence[Any]:
        """The names of a request's classes, in the order of its columns."""
        return self.classes if one.says.classes is None else one.says.classes

    def first(
        self, n: int, *, oldest: bool = False, without: Container[tuple[int, int]] = ()
    ) -> tuple[int, list[Pending]]:
        """How many requests are open, and the n newest, or those that have waited longest."""

        def look() -> tuple[int, list[Pending]]:
            every = [*self._requests.values()]
            wanted = [one for one in every if (one.partition, one.offset) not in without]
            return len(every), (wanted if oldest else wanted[::-1])[:n]

        return self._look(look)

    def still_open(self, places: Container[tuple[int, int]]) -> list[tuple[int, int]]:
        """Which requests of these partitions and offsets are open."""
        return self._look(lambda: [(0, n) for n in self._requests if (0, n) in places])

    def answer(self, partition: int, offset: int, column: int) -> None:
        """Learn the label of an open request; returns when it is on the disk.

        Raises
        ------
        NotOpen, UnknownClass
            See :meth:`stream_can.serve.local.LocalService.answer`.
        NotWritten
            It cannot be written.
        """

        try:
            self._there(self._answer(offset, column))
        except Unavailable as error:
            raise NotWritten(str(error)) from None
