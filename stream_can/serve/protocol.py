"""How long somebody may take, and how many may come: what uvicorn leaves to others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["MOST_CONNECTIONS", "Bounded"]

HEAD_SECONDS = 10.0
"""Until a request's head is there."""
MOST_CONNECTIONS = 2000


class Bounded(HttpToolsProtocol):
    """A connection whose requests begin in time; one of too many is sent away."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._say(503, "too many connections", "Retry-After: 1\r\n")
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._wait()

    def on_headers_complete(self) -> None:
        self._stop()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._say(400, msg)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        self._say(408, f"the head of the request took over {HEAD_SECONDS:.0f} s")

    def _say(self, code: int, why: str, headers: str = "") -> None:
        """Answer outside of any request, and hang up."""
        body = json.dumps({"error": why})
        text = (
            f"HTTP/1.1 {code} \r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        )
        if not self.transport.is_closing():
            self.transport.write(text.encode())
            self.transport.close()
