"""HTTP port of a worker: liveness, readiness, metrics, and a status page.

============ ==========================================================================
/livez       200 while the loop turns; 503 where it hangs: restart the process
/readyz      200 once the assigned partitions are ready, else 503
/metrics     for Prometheus
/            the status page, updated from
/status.json which is documented in docs/live.md
============ ==========================================================================

Waiting for brokers counts as live (a restart would not help) and not as ready.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stream_can.app.health import Health
from stream_can.app.live import live_page
from stream_can.app.server import Handler, NoPort, Server

log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0


class Port:
    """An HTTP server in its own thread, until ``close``.

    Parameters
    ----------
    host, port
        Address; port 0 takes a free one, see `number`.
    health
        Source of /livez and /readyz.
    registry
        Source of /metrics.
    status
        Source of /status.json; without it there is no page.

    Raises
    ------
    NoPort
        The port is not available.
    """

    def __init__(
        self,
        host: str,
        port: int,
        health: Health,
        registry: CollectorRegistry,
        status: Callable[[], bytes] | None = None,
    ) -> None:
        shown, policy = pages(health, registry, status)
        try:
            self._server = Server(
                host, port, _handler(shown, policy), request_seconds=REQUEST_SECONDS
            )
        except (OSError, OverflowError) as error:
            raise NoPort(f"http_port {port} on {host!r}: {error}") from error
        self.number = self._server.number
        at = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
        at = f"[{at}]" if ":" in at else at
        log.info("status page http://%s:%d/, with /livez, /readyz and /metrics", at, self.number)

    def close(self) -> None:
        """Stop listening."""
        self._server.close()


Page = Callable[[str], tuple[int, str, bytes]]
"""From the Accept header to status, Content-Type and body."""


def pages(
    health: Health, registry: CollectorRegistry, status: Callable[[], bytes] | None = None
) -> tuple[dict[str, Page], str]:
    """Pages by path, and their Content-Security-Policy; thread-safe."""
    page = live_page()
    by_path: dict[str, Page] = {
        "/livez": lambda _: _state(health.live, f"last loop turn {health.silence:.1f} s ago"),
        "/readyz": lambda _: _state(_readiness(health) == "ready", _readiness(health)),
        "/metrics": lambda accept: _metrics(registry, accept),
    }
    if status is not None:
        by_path["/"] = lambda _: (200, "text/html; charset=utf-8", page.body)
        by_path["/status.json"] = lambda _: (200, "application/json", status())
    return by_path, page.policy


def _readiness(health: Health) -> str:
    if not health.ready:
        return "not restored"
    if health.away:
        return f"no broker has answered for {health.away:.0f} s"
    return f"records wait: {health.waits_for}" if health.waits_for else "ready"


def _state(good: bool, text: str) -> tuple[int, str, bytes]:
    return (200 if good else 503), "text/plain; charset=utf-8", f"{text}\n".encode()


def _metrics(registry: CollectorRegistry, accept: str) -> tuple[int, str, bytes]:
    try:
        encode, content_type = choose_encoder(accept)
    except TypeError:  # prometheus-client 0.26, given an invalid version
        encode, content_type = choose_encoder("")
    return 200, content_type, encode(registry)


def _handler(pages: dict[str, Page], policy: str) -> type[Handler]:
    class ViewHandler(Handler):
        def do_GET(self) -> None:  # noqa: N802
            page = pages.get(self.path.partition("?")[0])
            accept = self.headers.get("Accept", "")
            code, kind, body = page(accept) if page else (404, "text/plain", b"not found\n")
            self.respond(code, kind, body, policy)

        do_HEAD = do_GET  # noqa: N815

    return ViewHandler
