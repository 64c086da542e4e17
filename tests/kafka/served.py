"""What a worker serves over HTTP, and when it is ready to."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from stream_can.app.port import Port
from tests.kafka.streams import Running
from tests.programs import wait


def answer(
    port: Port | int, path: str, method: str = "GET", accept: str = ""
) -> tuple[int, Any, str]:
    """Status, headers and text of the answer to a request."""
    number = port if isinstance(port, int) else port.number
    url, headers = f"http://127.0.0.1:{number}{path}", {"Accept": accept}
    request = urllib.request.Request(url, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=280) as found:
            return found.status, found.headers, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def get(port: Port | int, path: str, accept: str = "") -> tuple[int, str]:
    """Status and text alone."""
    status, _, text = answer(port, path, accept=accept)
    return status, text


def scrape(port: Port | int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels."""
    code, text = get(port, "/metrics")
    assert code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def text_at(url: str) -> str | None:
    """The text at an address; None while nobody answers, or with an error."""
    try:
        with urllib.request.urlopen(url, timeout=280) as found:
            return str(found.read().decode())
    except OSError:
        return None


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
