"""Settings of the test session."""

import os

import pytest
from hypothesis import settings

from tests.chromium import Browser

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=60, print_blob=True)
settings.register_profile("dev", deadline=None, max_examples=60)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser):
    parser.addoption("--adversarial-rows", type=int, default=20_000, help="rows of each stream")
    parser.addoption("--number-examples", type=int, default=2000, help="of texts and numbers each")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: "long" not in item.keywords)  # none is left alone at the end


@pytest.fixture
def adversarial_rows_per_stream(request):
    """20,000, or with --adversarial-rows=1000000 the long run."""
    return request.config.getoption("--adversarial-rows")


@pytest.fixture
def number_examples(request):
    """2000, or with --number-examples=1000000 --timeout=0 the long run."""
    return request.config.getoption("--number-examples")


@pytest.fixture
def browser(tmp_path):
    """A real one, with one page."""
    with Browser(tmp_path) as browser:
        yield browser
