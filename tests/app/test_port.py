"""The HTTP ports, of the worker and of the labelling page, under clients that mean no good."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry, Histogram

from stream_can.app.health import Health
from stream_can.app.labelling.server import LabellingServer
from stream_can.app.metrics import Metrics
from stream_can.app.port import Port
from stream_can.app.server import MOST_CONNECTIONS, NoPort, Server
from stream_can.app.table import COMMITTED
from stream_can.kafka.pending import PendingRequests
from stream_can.kafka.settings import Settings
from tests.programs import PATIENCE, get

SLOW = 1_500


class Honest(NamedTuple):
    """A server, and what an honest client asks it for and gets."""

    server: Server
    address: str
    begins: str

    def ask(self) -> None:
        with urllib.request.urlopen(self.address, timeout=PATIENCE) as answer:
            assert answer.read().decode().startswith(self.begins)


@pytest.fixture
def worker() -> Iterator[Honest]:
    port = Port("127.0.0.1", 0, Health(PATIENCE), CollectorRegistry())
    address = f"http://127.0.0.1:{port.number}/livez"
    yield Honest(port._server, address, "last loop turn")
    port.close()


@pytest.fixture
def labelling() -> Iterator[Honest]:
    settings = Settings(
        bootstrap_servers=["127.0.0.1:1"], application_id="app", input="in", output="out",
        labels="labels", classes=["x", "y"],
    )  # fmt: skip
    page = LabellingServer(PendingRequests(settings))
    yield Honest(page._server, f"{page.address}requests", '{"open": 0, ')
    page.close()


@pytest.fixture(params=["worker", "labelling"])
def honest(request: pytest.FixtureRequest) -> Honest:
    found: Honest = request.getfixturevalue(request.param)
    return found


def slow(server: Server) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", server.number), timeout=PATIENCE)
    stream.sendall(b"GET /livez HTTP/1.1\r\nX-Slow: ")
    return stream


def test_an_honest_client_is_answered_under_1500_slow_connections(honest: Honest) -> None:
    threads = threading.active_count()
    streams = []
    try:
        for i in range(SLOW):
            streams.append(slow(honest.server))
            if i % 100 == 99:
                honest.ask()
        honest.ask()
        assert len(honest.server._open) <= MOST_CONNECTIONS + 1
        assert threading.active_count() - threads <= 2 * MOST_CONNECTIONS
    finally:
        for stream in streams:
            stream.close()


def test_a_request_has_one_deadline(honest: Honest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many bytes come in drips."""
    monkeypatch.setattr(honest.server, "_request_seconds", 1.0)
    stream = slow(honest.server)
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
    honest.ask()


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text; version=\xb2", "text/plain;version=x"]
)
def test_metrics_for_a_client_that_asks_for_no_version(worker: Honest, accept: str) -> None:
    request = urllib.request.Request(
        worker.address.replace("livez", "metrics"), headers={"Accept": accept}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain")


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port("127.0.0.1", 0, Health(60), Metrics().registry)
    yield port
    port.close()


SERIES = {
    "predictions": ("result", ["corrected", "tombstone", "dead_letter"]),
    "labels": ("result", ["matched", "unmatched", "repeated", "tombstone", "dead_letter"]),
    "label_requests": ("reason", ["random", "margin"]),
    "transactions": ("outcome", ["committed", "aborted", "unknown"]),
    "hits": ("stage", ["before", "after"]),
    "log_loss": ("stage", ["before", "after"]),
}
"""Counters with a label, and the values that it takes; rate() misses the first of one that begins
later."""


def test_every_counter_is_there_before_the_first_record(port: Port) -> None:
    code, text = get(port, "/metrics")
    assert code == 200
    for row in COMMITTED:
        label, values = SERIES.get(row.name, (None, []))
        assert row.labels == ((label,) if label else ())
        series = [f'{{{label}="{value}"}}' for value in values] if label else [""]
        ending = "_count" if row.kind is Histogram else "_total"
        for one in series:
            assert f"\nstream_can_{row.name}{ending}{one} 0.0\n" in text
    _, text = get(port, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")


def test_only_the_three_pages(port: Port) -> None:
    assert get(port, "/")[0] == get(port, "/metrics/x")[0] == 404
    assert get(port, "/livez?verbose")[0] == 200
    with socket.create_connection(("127.0.0.1", port.number), timeout=280) as raw:
        raw.sendall(b"\xff\xfe garbage\r\n\r\n")
        assert raw.recv(1000)  # an answer, whatever it is, and the next request works
    assert get(port, "/readyz")[0] == 503


def test_a_port_in_use_is_named(port: Port) -> None:
    with pytest.raises(NoPort, match=f"http_port {port.number} on '127.0.0.1'"):
        Port("127.0.0.1", port.number, Health(60), Metrics().registry)
