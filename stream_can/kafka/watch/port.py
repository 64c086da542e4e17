"""One small HTTP port: is the worker alive, is it ready, and its metrics.

========= ==========================================================================
/livez    200 while the loop comes round; 503 where it has hung: restart the process
/readyz   200 once the assigned partitions are restored, else 503
/metrics  for Prometheus
========= ==========================================================================

Waiting for brokers is alive (a restart would not bring them back) and not ready.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_can.kafka.client.guards import DeniedError
from stream_can.kafka.watch.health import Health

log = logging.getLogger(__name__)


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

    Raises
    ------
    DeniedError
        The port cannot be had.
    """

    def __init__(self, host: str, port: int, health: Health, registry: CollectorRegistry) -> None:
        pages = {
            "/livez": lambda _: _state(
                health.live, f"the loop came round {health.silence:.1f} s ago"
            ),
            "/readyz": lambda _: _state(health.ready, "ready" if health.ready else "not restored"),
            "/metrics": lambda accept: _metrics(registry, accept),
        }
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(pages))
        except (OSError, OverflowError) as error:
            raise DeniedError(f"http_port {port} on {host!r}: {error}") from error
        self._server.daemon_threads = True
        self.number: int = self._server.server_address[1]
        serve = threading.Thread(
            target=self._server.serve_forever, daemon=True, name="stream-can-http"
        )
        serve.start()
        log.info("/livez, /readyz and /metrics on %s:%d", host, self.number)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


Page = Callable[[str], tuple[int, str, bytes]]


def _state(good: bool, text: str) -> tuple[int, str, bytes]:
    return (200 if good else 503), "text/plain; charset=utf-8", f"{text}\n".encode()


def _metrics(registry: CollectorRegistry, accept: str) -> tuple[int, str, bytes]:
    encode, content_type = choose_encoder(accept)
    return 200, content_type, encode(registry)


def _handler(pages: dict[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # a client that opens a connection and says nothing must not keep a thread

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            accept = self.headers.get("Accept", "")
            code, kind, body = page(accept) if page else (404, "text/plain", b"not found\n")
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """A probe every few seconds is not worth a line."""

    return Handler
