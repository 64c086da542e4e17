"""JoiningTransport: sends the head of an answer with its body."""

from __future__ import annotations

import asyncio
from typing import Any


class JoiningTransport:
    """A transport that holds back the head of an answer until its body comes: one write, of one
    packet, instead of two."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        self.flush()
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, with what was held back before; or hold back a head."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1"):
            self._head = data
            return
        if not self.is_closing():  # to a closed one asyncio writes nothing, uvloop an error
            self._transport.write(data)

    def flush(self) -> None:
        """Write what is held back: nothing follows it."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Close once everything is written."""
        self.flush()
        self._transport.close()
