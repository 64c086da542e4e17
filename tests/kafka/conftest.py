"""Real brokers for the tests: started once a run, never a stand-in, never skipped."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

with warnings.catch_warnings():  # kafka-python 3.0.12 reads its schemas with importlib's old call
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

from tests.conftest import OWN, SHARED
from tests.kafka.broker.broker import VERSIONS, Broker, Served
from tests.kafka.broker.registry import Apicurio
from tests.kafka.brokers import REGISTRY, Own, Shared
from tests.kafka.streams import App, Running

HERE = Path(__file__).parent
EACH = (VERSIONS[0], pytest.param(VERSIONS[1], marks=pytest.mark.release))


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python 3.0.12 leaves the socket of a refused connection or a failed handshake to the
    # garbage collector, which may run in any test.
    config.addinivalue_line("filterwarnings", r"ignore:unclosed <(socket|ssl)\.:ResourceWarning")


def pytest_sessionfinish() -> None:
    gc.collect()  # those sockets, while that filter holds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "fast" not in item.keywords:
            item.add_marker("kafka")


@pytest.fixture(scope="session")
def shared(pytestconfig: pytest.Config) -> Shared:
    """The brokers of all processes of this run."""
    return pytestconfig.stash[SHARED]


@pytest.fixture(scope="session")
def own(pytestconfig: pytest.Config) -> Own:
    """The brokers of this process alone."""
    return pytestconfig.stash[OWN]


@pytest.hookimpl(trylast=True)  # when the test's own fixtures are down
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A broker that nobody uses costs a thirtieth of a processor all the same."""
    if "own" not in getattr(nextitem, "fixturenames", ()):
        item.config.stash[OWN].remove()


@pytest.fixture(autouse=True)
def _close_apps() -> Iterator[None]:
    yield
    Running.end_all()
    while App.opened:
        App.opened.pop().close()


@pytest.fixture
def broker(shared: Shared) -> Served:
    """4.4.0, or whatever STREAM_CAN_BOOTSTRAP_SERVERS names."""
    if servers := os.environ.get("STREAM_CAN_BOOTSTRAP_SERVERS"):
        return Served("external", Path(), {"plain": servers})
    return shared[VERSIONS[0]]


@pytest.fixture
def our_broker(shared: Shared) -> Served:
    """Our 4.4.0, for tests that use its other listeners, its files or names of their own."""
    return shared[VERSIONS[0]]


@pytest.fixture
def own_broker(own: Own) -> Broker:
    """A 4.4.0 for tests that stop it or change its settings; leave it running."""
    return own[VERSIONS[0]]


@pytest.fixture(params=EACH)
def each_broker(request: pytest.FixtureRequest, shared: Shared) -> Served:
    """Both versions, for what can differ between them."""
    return shared[request.param]


@pytest.fixture(params=EACH)
def each_own_broker(request: pytest.FixtureRequest, own: Own) -> Broker:
    """Both versions, for tests that stop them; leave them running."""
    return own[request.param]


@pytest.fixture
def registry(shared: Shared) -> Served:
    """A schema registry of all processes of the run: subjects of your own, ids of everybody."""
    return shared[REGISTRY]


@pytest.fixture
def own_registry(own: Own) -> Apicurio:
    """A schema registry for tests that stop it or set its rules; leave it running."""
    return own[REGISTRY]
