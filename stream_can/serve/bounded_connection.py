"""BoundedConnection: limits of an HTTP connection on time, size and unanswered requests."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from stream_can.serve.joining_transport import JoiningTransport

RECEIVE_SECONDS = 10.0
"""Time limit for receiving a request's head, and again for its body."""
LARGEST_HEAD = 64 << 10
"""Maximum size of a request's head, and of what is no content in its body."""
MOST_HEADERS = 100
"""Maximum number of a request's headers: each takes some 200 bytes of memory besides its own."""
MOST_HEADS = 32 << 20
"""Maximum bytes of all heads being received and of requests that wait behind another."""
MOST_WAITING = 100
"""Maximum number of requests that wait on a connection behind the one being answered."""
OF_A_REQUEST = 4 << 10
"""Bytes that a request takes while it waits, besides what was received."""
SMALL_CHUNK = 8
"""Bytes of framing that go with a byte of a chunked body, at most."""
READ_SECONDS = 10.0
"""Time limit for reading an answer, or a part of it."""
MOST_CONNECTIONS = 2000
END = b"\r\n\r\n"
UPGRADE = re.compile(rb"\r\nUpgrade:", re.IGNORECASE)
"""Header by which Java and curl offer HTTP/2."""


class Refusal(Exception):
    """What ends the parser."""


class BoundedConnection(HttpToolsProtocol):
    """A connection with limits on time and size of request heads and on slow reading; one beyond
    the maximum number is refused."""

    transport: Any

    unread: ClassVar[int] = 0
    """Bytes of unread answers of all slow connections."""
    held: ClassVar[int] = 0
    """Bytes of heads being received and of requests that wait, of all connections."""
    _timer: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _unread = _held = 0
    _in_head, _head, _tail = True, 0, b""
    _begun = _behind = 0
    """Bytes of the read in which a head began behind another request; of requests that wait."""
    _content = _framing = 0
    """Content of a read; bytes of a body that are not content, beyond what small chunks need."""
    _new = False
    """Whether a head was complete in a read."""
    _whole = False
    """Whether nothing of a request is to come: only a request in pieces takes a timer."""
    _unanswered = 0
    """Number of requests whose heads have come, and no answer."""
    _last: tuple[int, str] | None = None
    """Response after which the connection is closed: nothing more is read."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transport = JoiningTransport(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._respond(503, "too many connections", "Retry-After: 1\r\n")
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._count_as_read()
        self._hold(0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._last is not None:
            return
        if self._in_head and UPGRADE.search(data):  # which would end the request after its head
            end = data.find(END)
            head = data if end < 0 else data[:end]
            data = UPGRADE.sub(b"\r\nX-Asked:", head) + data[len(head) :]
        if self._in_head and not self._fits(data):
            self._end(431, f"the head of a request has {LARGEST_HEAD} bytes at most")
            return
        self._whole = self._new = False
        self._content = 0
        super().data_received(data)
        if self._last is None:
            self._require_little(len(data))
        if self._last is None and not self._whole and self._timer is None:
            self._wait()

    def _require_little(self, size: int) -> None:
        """End the connection where, after a read of this size, too much of it is held."""
        if not self._in_head and not self._new:  # a body goes on
            self._framing = max(0, self._framing + size - (1 + SMALL_CHUNK) * self._content)
            if self._framing > LARGEST_HEAD:
                self._end(431, f"{LARGEST_HEAD} bytes of trailers and chunk sizes at most")
                return
        if self._in_head and not self._whole and not self._head:
            self._begun = size
        if self.pipeline:
            self._behind += size
        waiting = self._behind + len(self.pipeline) * OF_A_REQUEST
        self._hold(self._head + self._begun + waiting)
        if BoundedConnection.held > MOST_HEADS:
            self._end(503, "too many requests are being received")

    def _hold(self, size: int) -> None:
        """Note how many bytes are held of heads and of requests that wait."""
        BoundedConnection.held += size - self._held
        self._held = size

    def _fits(self, data: bytes) -> bool:
        """Whether the head, with these bytes, stays within the limit."""
        end = (self._tail + data).find(END)
        self._head += len(data) if end < 0 else max(0, end - len(self._tail))
        self._tail = data[-3:]
        return self._head <= LARGEST_HEAD

    def on_message_begin(self) -> None:
        self._whole = False
        if len(self.pipeline) >= MOST_WAITING:
            self._refuse(503, f"{MOST_WAITING} requests wait on a connection at most")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer
            return
        if len(self.headers) >= MOST_HEADERS:
            self._refuse(431, f"a request has {MOST_HEADERS} headers at most")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop()
        if self.parser.should_upgrade():  # after it comes another protocol, and no body
            self._refuse(400, "no other protocol is spoken here")
        self._in_head, self._new, self._head, self._tail = False, True, 0, b""
        self._begun = self._framing = 0
        self._unanswered += 1
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._content += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop()
        self._in_head = self._whole = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.transport.flush()
        self._unanswered -= 1
        super().on_response_complete()
        if not self.pipeline and self._behind:
            self._behind = 0
            self._hold(self._head + self._begun)
        if self._last is not None and not self._unanswered:
            self._respond(*self._last)

    def _refuse(self, code: int, why: str) -> None:
        """Stop the parser; the connection ends as by `_end`."""
        self._last = code, why
        raise Refusal

    def _end(self, code: int, why: str) -> None:
        """Respond after the requests before it are answered, and close."""
        self._last = code, why
        self._stop()
        if not self._in_head and self.pipeline:  # its body goes on, and it waits
            self.pipeline.popleft()
            self._unanswered -= 1
        elif not self._in_head or not self._unanswered:
            self._respond(code, why)
            return
        self.flow.pause_reading()

    def send_400_response(self, msg: str) -> None:
        self._end(*(self._last or (400, msg)))

    def pause_writing(self) -> None:
        """Note that the client has not read what was sent."""
        super().pause_writing()
        self._unread = self.transport.get_write_buffer_size()
        BoundedConnection.unread += self._unread
        self._reader = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the client has read what was sent."""
        self._count_as_read()
        super().resume_writing()

    def _count_as_read(self) -> None:
        BoundedConnection.unread -= self._unread
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
        part = "head of the request" if self._in_head else "body"
        self._respond(408, f"the {part} took over {RECEIVE_SECONDS:.0f} s")

    def _respond(self, code: int, why: str, headers: str = "") -> None:
        """Send a response outside of any request, and close."""
        body = json.dumps({"error": why})
        text = (
            f"HTTP/1.1 {code} \r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        )
        if not self.transport.is_closing():
            self.transport.write(text.encode())
            self.transport.close()
