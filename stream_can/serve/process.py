"""Run one process of ``stream-can serve``: socket, signals, exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn

from stream_can.app.labelling.server import LabellingServer
from stream_can.app.logs import set_up_logging
from stream_can.errors import StreamCANError
from stream_can.serve.app import App
from stream_can.serve.bounded_connection import BoundedConnection
from stream_can.serve.database import StateError
from stream_can.serve.local import LocalService
from stream_can.serve.service import NoBrokers, Service
from stream_can.serve.settings import BrokerSettings, ServeSettings

log = logging.getLogger(__name__)

STOP_SECONDS = 8
"""Time limit for open requests after a stop signal."""
IDLE_SECONDS = 60
"""Time limit between two requests of a connection."""
EXIT_CODES = {0: "stopped by a signal",
              1: "a bug, with its traceback",
              2: "settings are wrong",
              3: "refused: port, state file, topics or rights cannot be used",
              4: "no broker within connect_seconds"}  # fmt: skip
"""Exit codes of ``stream-can serve``."""


class HttpServer(uvicorn.Server):
    """Stops gracefully at the first signal and does not re-raise it."""

    def heed_signals(self) -> None:
        """Install signal handlers, before the first answer."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def _stop(self, number: signal.Signals) -> None:
        log.info("%s: stopping", signal.Signals(number).name)
        self.handle_exit(number, None)


def serve(settings: ServeSettings) -> int:
    """Run ``stream-can serve``: set up logging, serve until SIGTERM or SIGINT.

    Returns
    -------
    One of `EXIT_CODES`.
    """
    set_up_logging(settings.log_format, settings.log_level, settings.secrets)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    try:  # before the service, which creates the state's file
        bound = _bound(settings.http_host, settings.http_port)
    except (OSError, OverflowError) as error:
        return _fail(3, _no_port(settings, error))
    try:
        if settings.label_port is not None:
            _bound("127.0.0.1", settings.label_port).close()
    except (OSError, OverflowError) as error:
        bound.close()
        return _fail(3, f"label_port {settings.label_port}: {error}")
    try:
        service = _service(settings)
    except (StreamCANError, ValueError) as error:
        bound.close()
        return _fail(3 if isinstance(error, StateError) else 2, error)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_run(service, bound))
    except StreamCANError as error:
        return _fail(4 if isinstance(error, NoBrokers) else 3, error)
    except Exception:
        log.exception("this is a bug; acknowledged labels are stored: start again")
        return 1


def _service(settings: ServeSettings) -> Service:
    if not isinstance(settings, BrokerSettings):
        return LocalService(settings)
    from stream_can.serve.brokers import BrokerService  # kafka-python is optional

    return BrokerService(settings, settings.application)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Of uvloop, which takes a fifth less of a request's time; on Windows, where it is missing, of
    asyncio."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return new_event_loop


def _no_port(settings: ServeSettings, error: Exception) -> str:
    return f"http_port {settings.http_port} on {settings.http_host!r}: {error}"


def _bound(host: str, port: int) -> socket.socket:
    """Bind a socket; OSError or OverflowError where that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # An explicit protocol makes asyncio disable Nagle's algorithm; otherwise answers wait 40 ms for
    # the acknowledgement of their headers.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


async def _run(service: Service, bound: socket.socket) -> int:
    """Serve and commit until a signal."""
    running = asyncio.create_task(service.run())
    settings = service.settings
    labelling = None
    try:
        if settings.label_port is not None:
            requests = service.requests_for(asyncio.get_running_loop())
            labelling = LabellingServer(requests, settings.label_port)
            log.info("give labels on %s", labelling.address)
        app = App(service)
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            proxy_headers=False,
        )
        server = HttpServer(config)
        server.heed_signals()
        try:
            bound.listen(1024)
        except OSError as error:
            return _fail(3, _no_port(settings, error))
        host, port = bound.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        log.info("http://%s:%d/ shows what it does; %s", host, port, service.place)
        app.connections = server.server_state.connections
        running.add_done_callback(lambda _: setattr(server, "should_exit", True))
        await server.serve(sockets=[bound])
    finally:
        if labelling is not None:
            labelling.close()
        await service.end(running)
    return 0


def _fail(code: int, error: object) -> int:
    log.error("%s", error)
    sys.stderr.flush()
    return code
