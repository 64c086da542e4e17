"""One Spark session for all tests; without pyspark or Java these tests fail."""

import pytest

from tests.spark.session import session


def pytest_addoption(parser):
    parser.addoption("--spark-kills", type=int, default=1, help="how often everything is killed")


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--spark-kills")))


@pytest.fixture(scope="session")
def spark():
    spark = session()
    yield spark
    spark.stop()
