"""An HTTP server in a thread of its own, which neither slow clients nor many hold up."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from stream_can.errors import StreamCANError

__all__ = ["MOST_CONNECTIONS", "Handler", "NoPort", "Server"]

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 64
"""The oldest is closed for one more: an honest request takes milliseconds."""


class NoPort(StreamCANError):
    """A port cannot be had."""


class Server(ThreadingHTTPServer):
    """Serves until ``close``.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one, which `number` names.
    handler
        What answers.
    request_seconds
        From the first byte of a request to the last of its answer.

    Raises
    ------
    OSError, OverflowError
        The port cannot be had.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, handler: type[Handler], *, request_seconds: float
    ) -> None:
        self._request_seconds = request_seconds
        self._open: dict[Any, float] = {}  # connection -> since when, the oldest first
        super().__init__((host, port), handler)
        self.number: int = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True, name="stream-can-http").start()

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open[request] = time.monotonic()
        for oldest in list(self._open)[: len(self._open) - MOST_CONNECTIONS]:
            self._hang_up(oldest)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        for request, since in list(self._open.items()):
            if time.monotonic() - since > self._request_seconds:
                self._hang_up(request)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def _hang_up(self, request: Any) -> None:
        """Its thread reads the end, and closes it."""
        self._open.pop(request, None)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # that is somebody who went away
            log.exception("the HTTP port")


class Handler(BaseHTTPRequestHandler):
    """Answers one request; a subclass has a ``do_`` method for each verb."""

    def answer(self, code: int, kind: str, body: bytes, policy: str) -> None:
        """Send everything: `kind` is the Content-Type, `policy` the Content-Security-Policy."""
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """A request is worth no line, and its address may have a secret."""
