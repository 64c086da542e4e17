"""The open label requests of a server, for the labelling page, which has threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Sequence
from typing import Any, TypeVar

from stream_can.app.labelling.requests import NotWritten, Pending
from stream_can.serve.commits import Unavailable
from stream_can.serve.service import Service

__all__ = ["Requests"]

SECONDS = 20.0
T = TypeVar("T")


class Requests:
    """What the page asks for, answered by the thread of the service.

    Parameters
    ----------
    service
        Has the requests.
    loop
        Of its thread.
    """

    def __init__(self, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        self._service, self._loop = service, loop
        messages = service.reader.first
        self.classes = service.start.classes
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
            every = [*self._service.requests.values()]
            wanted = [one for one in every if (one.partition, one.offset) not in without]
            return len(every), (wanted if oldest else wanted[::-1])[:n]

        return self._look(look)

    def still_open(self, places: Container[tuple[int, int]]) -> list[tuple[int, int]]:
        """Which requests of these partitions and offsets are open."""
        return self._look(lambda: [(0, n) for n in self._service.requests if (0, n) in places])

    def answer(self, partition: int, offset: int, column: int) -> None:
        """Learn the label of an open request; returns when it is on the disk.

        Raises
        ------
        NotOpen, UnknownClass
            See :meth:`Service.answer`.
        NotWritten
            It cannot be written.
        """

        try:
            self._there(self._service.answer(offset, column))
        except Unavailable as error:
            raise NotWritten(str(error)) from None
