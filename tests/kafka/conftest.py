"""Real brokers for the tests: started once a session, never a stand-in, never skipped."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

with warnings.catch_warnings():  # kafka-python 3.0.12 reads its schemas with importlib's old call
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

from tests.kafka.broker.broker import VERSIONS, Broker
from tests.kafka.brokers import Brokers
from tests.kafka.streams import App

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python 3.0.12 leaves the socket of a refused connection or a failed handshake to the
    # garbage collector, which may run in any test.
    config.addinivalue_line("filterwarnings", r"ignore:unclosed <(socket|ssl)\.:ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "fast" not in item.keywords:
            item.add_marker("kafka")


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    brokers = Brokers(tmp_path_factory.mktemp("brokers"))
    yield brokers
    brokers.remove()


@pytest.fixture(autouse=True)
def _close_apps() -> Iterator[None]:
    yield
    while App.opened:
        App.opened.pop().close()


@pytest.fixture
def own_broker(brokers: Brokers) -> Broker:
    """Our 4.4.0, for tests that stop it or use its other listeners; leave it running."""
    return brokers[VERSIONS[0]]


@pytest.fixture
def broker(brokers: Brokers) -> Broker | SimpleNamespace:
    """4.4.0, or whatever STREAM_CAN_BOOTSTRAP_SERVERS names."""
    if servers := os.environ.get("STREAM_CAN_BOOTSTRAP_SERVERS"):
        return SimpleNamespace(version="external", bootstrap_servers=servers)
    return brokers[VERSIONS[0]]


@pytest.fixture(params=VERSIONS)
def each_broker(request: pytest.FixtureRequest, brokers: Brokers) -> Broker:
    """Both versions, for what can differ between them."""
    return brokers[request.param]
