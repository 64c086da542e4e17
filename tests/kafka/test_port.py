"""The HTTP port under clients that mean no good."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from stream_can.kafka.watch import port as port_module
from stream_can.kafka.watch.health import Health
from stream_can.kafka.watch.port import MOST_CONNECTIONS, Port
from tests.programs import PATIENCE

pytestmark = pytest.mark.fast
SLOW = 1_500


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port("127.0.0.1", 0, Health(PATIENCE), CollectorRegistry())
    yield port
    port.close()


def livez(port: Port) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port.number}/livez", timeout=60) as answer:
        return str(answer.read().decode())


def slow(port: Port) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port.number), timeout=60)
    stream.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
    return stream


def test_livez_answers_under_1500_slow_connections(port: Port) -> None:
    threads = threading.active_count()
    streams = []
    try:
        for i in range(SLOW):
            streams.append(slow(port))
            if i % 100 == 99:
                assert livez(port).startswith("the loop came round")
        assert livez(port).startswith("the loop came round")
        assert len(port._server._open) <= MOST_CONNECTIONS + 1
        assert threading.active_count() - threads <= 2 * MOST_CONNECTIONS
    finally:
        for stream in streams:
            stream.close()


def test_a_request_has_one_deadline(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many bytes come in drips."""
    monkeypatch.setattr(port_module, "REQUEST_SECONDS", 1.0)
    stream = slow(port)
    deadline = time.monotonic() + PATIENCE

    def drip() -> bool:
        try:
            stream.sendall(b"x")
            stream.settimeout(0.1)
            return stream.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    while not drip():
        assert time.monotonic() < deadline, "the connection is kept"
    stream.close()
    assert livez(port).startswith("the loop came round")
