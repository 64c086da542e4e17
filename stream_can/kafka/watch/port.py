"""One small HTTP port: is the worker alive, is it ready, its metrics, and a page for people.

============ ==========================================================================
/livez       200 while the loop comes round; 503 where it has hung: restart the process
/readyz      200 once the assigned partitions are restored, else 503
/metrics     for Prometheus
/            a page to look at, which updates itself from
/status.json which is documented in docs/live.md
============ ==========================================================================

Waiting for brokers is alive (a restart would not bring them back) and not ready.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.watch.health import Health
from stream_can.kafka.watch.page import live_page

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 64
"""The oldest is closed for one more: an honest request takes milliseconds."""
REQUEST_SECONDS = 10.0
"""From the first byte of a request to the last of its answer."""


class Port:
    """The server, in a thread of its own, until ``close``.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one, which `number` names.
    health
        What /livez and /readyz say.
    registry
        What /metrics shows.
    status
        What /status.json shows; without it there is no page either.

    Raises
    ------
    DeniedError
        The port cannot be had.
    """

    def __init__(
        self,
        host: str,
        port: int,
        health: Health,
        registry: CollectorRegistry,
        status: Callable[[], bytes] | None = None,
    ) -> None:
        page = live_page()
        pages: dict[str, Page] = {
            "/livez": lambda _: _state(
                health.live, f"the loop came round {health.silence:.1f} s ago"
            ),
            "/readyz": lambda _: _state(health.ready, "ready" if health.ready else "not restored"),
            "/metrics": lambda accept: _metrics(registry, accept),
        }
        if status is not None:
            pages["/"] = lambda _: (200, "text/html; charset=utf-8", page.body)
            pages["/status.json"] = lambda _: (200, "application/json", status())
        try:
            self._server = _Server((host, port), _handler(pages, page.policy))
        except (OSError, OverflowError) as error:
            raise DeniedError(f"http_port {port} on {host!r}: {error}") from error
        self.number: int = self._server.server_address[1]
        serve = threading.Thread(
            target=self._server.serve_forever, daemon=True, name="stream-can-http"
        )
        serve.start()
        log.info("/, /livez, /readyz and /metrics on %s:%d", host, self.number)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._open: dict[Any, float] = {}  # connection -> since when, the oldest first
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open[request] = time.monotonic()
        for oldest in list(self._open)[: len(self._open) - MOST_CONNECTIONS]:
            self._hang_up(oldest)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        for request, since in list(self._open.items()):
            if time.monotonic() - since > REQUEST_SECONDS:
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


Page = Callable[[str], tuple[int, str, bytes]]


def _state(good: bool, text: str) -> tuple[int, str, bytes]:
    return (200 if good else 503), "text/plain; charset=utf-8", f"{text}\n".encode()


def _metrics(registry: CollectorRegistry, accept: str) -> tuple[int, str, bytes]:
    encode, content_type = choose_encoder(accept)
    return 200, content_type, encode(registry)


def _handler(pages: dict[str, Page], policy: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            accept = self.headers.get("Accept", "")
            code, kind, body = page(accept) if page else (404, "text/plain", b"not found\n")
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", policy)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """A probe every few seconds is not worth a line."""

    return Handler
