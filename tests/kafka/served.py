"""What a worker serves over HTTP, and when it is ready to."""

from __future__ import annotations

import urllib.error
import urllib.request

from stream_can.kafka.watch.port import Port
from tests.kafka.streams import Running
from tests.programs import wait


def get(port: Port | int, path: str, accept: str = "") -> tuple[int, str]:
    number = port if isinstance(port, int) else port.number
    request = urllib.request.Request(f"http://127.0.0.1:{number}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ready(running: Running) -> Port:
    """The worker's port, once it has restored its partitions."""

    def port() -> Port | None:
        found = running.worker.port
        return found if found and get(found, "/readyz")[0] == 200 else None

    wait("ready", lambda: running.error or port())
    assert running.error is None, running.error
    found = port()
    assert found is not None
    return found
