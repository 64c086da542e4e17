"""What a worker serves over HTTP, and when it is ready to."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from stream_can.app.port import Port
from tests.kafka.streams import Running
from tests.programs import get, wait


def scrape(port: Port | int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels."""
    code, text = get(port, "/metrics")
    assert code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


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
