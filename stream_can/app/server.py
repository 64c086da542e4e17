"""An HTTP server in its own thread that slow or many clients cannot block."""

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

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 64
"""Maximum number of connections; the oldest is closed for a new one."""


class NoPort(StreamCANError):
    """A port is not available."""


class Server(ThreadingHTTPServer):
    """Serves until ``close``.

    Parameters
    ----------
    host, port
        Address; port 0 takes a free one, see `number`.
    handler
        The request handler.
    request_seconds
        Time limit from the first byte of a request to the last of its answer.

    Raises
    ------
    OSError, OverflowError
        The port is not available.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, handler: type[Handler], *, request_seconds: float
    ) -> None:
        self._request_seconds = request_seconds
        self._open: dict[Any, float] = {}  # connection -> start, oldest first
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
        """Close a connection; its thread then reads the end."""
        self._open.pop(request, None)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # otherwise the client disconnected
            log.exception("the HTTP port")


class Handler(BaseHTTPRequestHandler):
    """Answers one request; subclasses have a ``do_`` method for each verb."""

    def respond(self, code: int, kind: str, body: bytes, policy: str) -> None:
        """Send a response: `kind` is the Content-Type, `policy` the Content-Security-Policy."""
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
        """Do not log requests: their addresses may contain a secret."""
