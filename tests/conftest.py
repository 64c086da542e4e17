"""Settings of the test session."""

import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.chromium import Browser
from tests.examples import examples
from tests.kafka.brokers import Own, Shared, remove_all
from tests.litter import Litter
from tests.programs import require

BROKERS = pytest.StashKey[Path]()
"""The folder of all brokers of a run, shared or of one process: `tests/kafka/brokers.py`."""
SHARED, OWN = pytest.StashKey[Shared](), pytest.StashKey[Own]()
LITTER = pytest.StashKey[Litter]()

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=examples(20), print_blob=True
)
settings.register_profile("random", deadline=None, max_examples=examples(20))
settings.load_profile("ci")  # the same examples every time; --hypothesis-profile=random for others


def pytest_addoption(parser):
    parser.addoption("--adversarial-rows", type=int, default=20_000, help="rows of each stream")
    parser.addoption("--number-examples", type=int, default=1000, help="of texts and numbers each")
    parser.addoption("--kills", type=int, default=8, help="of a server, and of a pipe, at random")


def pytest_configure(config):
    # Before anything imports numpy: the cores are shared by several processes already, and threads
    # that wait for one spin.
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(threads, "1")
    told = getattr(config, "workerinput", None)  # by the process that began the run
    config.stash[BROKERS] = Path(told["brokers"] if told else tempfile.mkdtemp(prefix="brokers-"))
    config.stash[SHARED] = Shared(config.stash[BROKERS] / "shared")
    config.stash[OWN] = Own(config.stash[BROKERS] / str(os.getpid()))
    config.stash[LITTER] = Litter()
    if not told:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in order, with its brokers
        # Ignored where the run is in the background; what tests start would not hear Ctrl-C either.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["brokers"] = str(node.config.stash[BROKERS])


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        remove_all(config.stash[BROKERS])


def pytest_collection_modifyitems(items):
    # No long one is left alone at the end, and a process uses brokers of its own for one while.
    items.sort(key=lambda item: ("long" not in item.keywords, "own" not in item.fixturenames))


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            require(name)


@pytest.fixture(autouse=True)
def _no_litter(pytestconfig):
    """What a test writes, it writes into its own folder: the next run would find it."""
    litter = pytestconfig.stash[LITTER]
    litter.new()
    yield
    left = litter.new()
    assert not left, f"new files in the repository, of this test or of one beside it: {left}"


@pytest.fixture
def adversarial_rows_per_stream(request):
    """20,000, or with --adversarial-rows=1000000 the long run."""
    return request.config.getoption("--adversarial-rows")


@pytest.fixture
def number_examples(request):
    """1000, or with --number-examples=1000000 --timeout=0 the long run."""
    return request.config.getoption("--number-examples")


@pytest.fixture
def kills(request):
    """8, or with --kills=50 the long run."""
    return request.config.getoption("--kills")


@pytest.fixture
def browser(tmp_path):
    """A real one, with one page."""
    with Browser(tmp_path) as browser:
        yield browser
