"""Selector: of sockets, which does not describe one that is not registered."""

from __future__ import annotations

import selectors
from typing import Any

__all__ = ["Selector"]


class Selector(selectors.DefaultSelector):
    """The system's selector, with its keys by socket.

    Trap: kafka-python 3.0.12 asks for the key of a socket before each wait, mostly in vain. The
    standard library's error has the socket's addresses in its text, for two calls of the system:
    some 3 % of a worker's time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = super().register(fileobj, events, data)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._keys[fileobj] = super().modify(fileobj, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        self._keys.pop(fileobj, None)
        return super().unregister(fileobj)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj]
