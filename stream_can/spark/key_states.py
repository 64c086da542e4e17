"""KeyStates: states of a group's keys in Spark's state store."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import msgspec
from pyspark.sql.streaming import StatefulProcessorHandle

_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(dict[str, bytes])

PAGE = 32
"""Number of keys above which the pages of a group double."""


class KeyStates:
    """A hash table of pages.

    A page is one value, which costs a round trip of .25 ms however many keys it has; what a batch
    does not touch is neither read nor written.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._n, self._n_keys = 1, 0
        self._read: dict[int, dict[str, bytes]] = {}
        self._size = handle.getValueState("size", "pages int, keys int")
        self._pages = handle.getMapState("pages", "page int", "states binary")

    def states_of(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The states of keys of the current group; those of new keys are missing."""
        self._n, self._n_keys = self._size.get() or (1, 0)
        self._read = {}
        states = {}
        for key in keys:
            page = self._page(self._place(key))
            if key in page:
                states[key] = page[key]
        return states

    def write(self, states: dict[str, bytes]) -> None:
        """Replace the states of the keys that were read."""
        n_before = sum(map(len, self._read.values()))
        for key, state in states.items():
            self._page(self._place(key))[key] = state
        if new := sum(map(len, self._read.values())) - n_before:
            self._grow(self._n_keys + new)
        for place, page in self._read.items():
            self._pages.updateValue((place,), (_ENCODER.encode(page),))

    def _grow(self, n_keys: int) -> None:
        """Double the pages until a page has few keys."""
        n = self._n
        while n_keys > PAGE * n:
            n *= 2
        if n > self._n:
            pages = [self._page(place) for place in range(self._n)]
            self._n, self._read = n, {place: {} for place in range(n)}
            for page in pages:
                for key, state in page.items():
                    self._read[self._place(key)][key] = state
        self._size.update((n, n_keys))

    def _place(self, key: str) -> int:
        return zlib.crc32(key.encode()) % self._n

    def _page(self, place: int) -> dict[str, bytes]:
        if place not in self._read:
            encoded = self._pages.getValue((place,))
            self._read[place] = {} if encoded is None else _DECODER.decode(bytes(encoded[0]))
        return self._read[place]
