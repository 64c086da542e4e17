"""Limits of HTTP connections: time, size of a request's head, number."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["MOST_CONNECTIONS", "Bounded"]

RECEIVE_SECONDS = 10.0
"""Time limit for receiving a request's head, and again for its body."""
LARGEST_HEAD = 64 << 10
"""Maximum size of a request's head."""
READ_SECONDS = 10.0
"""Time limit for reading an answer, or a part of it."""
MOST_CONNECTIONS = 2000
END = b"\r\n\r\n"
UPGRADE = re.compile(rb"\r\nUpgrade:", re.IGNORECASE)
"""Header by which Java and curl offer HTTP/2."""


class Joining:
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
        self._transport.write(data)

    def flush(self) -> None:
        """Write what is held back: nothing follows it."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Close once everything is written."""
        self.flush()
        self._transport.close()


class Bounded(HttpToolsProtocol):
    """A connection with limits on time and size of request heads and on slow reading; one beyond
    the maximum number is refused."""

    transport: Any

    unread: ClassVar[int] = 0
    """Bytes of unread answers of all slow connections."""
    _timer: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _unread = 0
    _in_head, _head, _tail = True, 0, b""
    _whole = False
    """Whether nothing of a request is to come: only a request in pieces takes a timer."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = Joining(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._say(503, "too many connections", "Retry-After: 1\r\n")
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head and UPGRADE.search(data):  # which would end the request after its head
            end = data.find(END)
            head = data if end < 0 else data[:end]
            data = UPGRADE.sub(b"\r\nX-Asked:", head) + data[len(head) :]
        if self._in_head and not self._fits(data):
            self._stop()
            self._say(431, f"the head of a request has {LARGEST_HEAD} bytes at most")
            return
        self._whole = False
        super().data_received(data)
        if not self._whole and self._timer is None:
            self._wait()

    def _fits(self, data: bytes) -> bool:
        """Whether the head, with these bytes, stays within the limit."""
        end = (self._tail + data).find(END)
        self._head += len(data) if end < 0 else max(0, end - len(self._tail))
        self._tail = data[-3:]
        return self._head <= LARGEST_HEAD

    def on_message_begin(self) -> None:
        self._whole = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop()
        self._in_head, self._head, self._tail = False, 0, b""
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop()
        self._in_head = self._whole = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.transport.flush()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self._say(400, msg)

    def pause_writing(self) -> None:
        """Note that the client has not read what was sent."""
        super().pause_writing()
        self._unread = self.transport.get_write_buffer_size()
        Bounded.unread += self._unread
        self._reader = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the client has read what was sent."""
        self._read()
        super().resume_writing()

    def _read(self) -> None:
        Bounded.unread -= self._unread
        self._unread = 0
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None

    def _wait(self) -> None:
        self._timer = self.loop.call_later(RECEIVE_SECONDS, self._too_slow)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.pipeline:  # not read on purpose: the request before is being answered
            self._wait()
            return
        if not self._in_head and self.cycle.response_complete:
            self.transport.close()
            return
        what = "head of the request" if self._in_head else "body"
        self._say(408, f"the {what} took over {RECEIVE_SECONDS:.0f} s")

    def _say(self, code: int, why: str, headers: str = "") -> None:
        """Send a response outside of any request, and close."""
        body = json.dumps({"error": why})
        text = (
            f"HTTP/1.1 {code} \r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        )
        if not self.transport.is_closing():
            self.transport.write(text.encode())
            self.transport.close()
