"""Time is kept while brokers stand still: after SIGTERM, and until `connect_seconds` are up."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from stream_can.kafka import RetryError, Worker
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, caught_up, fill, prediction, run_once, write_config
from tests.kafka.topics import produce
from tests.programs import PATIENCE, program, wait


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that takes connections and never says a word, as that of a broker that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_no_broker_answers_at_the_start(broker: Broker, silent: str, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers)
    app.given["bootstrap_servers"] = [silent]
    process = app.process(tmp_path)
    log = tmp_path / "0.log"
    wait("a try", lambda: b"no answer from" in log.read_bytes())
    time.sleep(1)  # in the middle of the next
    process.terminate()
    assert process.wait(PATIENCE) == 0, log.read_text()


@pytest.mark.parametrize(
    "loaded", ["_multiarray_umath", "kernel.cpython", "numbers.cpython", "crc32c"]
)
@pytest.mark.parametrize("command", ["stream-can", "python -m stream_can"])
def test_sigterm_during_the_start(silent: str, tmp_path: Path, command: str, loaded: str) -> None:
    """While modules are loaded, long before there is a worker to stop."""
    given = {"bootstrap_servers": [silent], "application_id": "app", "input": "in", "output": "out",
             "classes": ["a", "b"], "client": {}}  # fmt: skip
    app = SimpleNamespace(given=given)
    name, *module = command.split()
    begin = [program(name), *module, "run"]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([*begin, write_config(app, tmp_path)], stderr=log)
    maps = Path(f"/proc/{process.pid}/maps")
    wait(loaded, lambda: process.poll() is not None or loaded in maps.read_text(), every=0.002)
    process.terminate()
    code = process.wait(PATIENCE)
    assert (code, "Traceback" in (tmp_path / "log").read_text()) == (0, False)


def test_a_broker_that_hangs_in_a_transaction(own_broker: Broker, tmp_path: Path) -> None:
    app = App(own_broker.bootstrap_servers, partitions=1, labels=False)
    fill(app, 100)
    process = app.process(tmp_path)
    caught_up(app)
    key, value, _ = prediction(random.Random(0), 0)
    produce(app.servers, [(app.given["input"], 0, key, value)] * 100)
    assert own_broker.process is not None
    os.kill(own_broker.process.pid, signal.SIGSTOP)
    try:
        time.sleep(1)
        process.terminate()
        assert process.wait(PATIENCE) == 0, (tmp_path / "0.log").read_text()
    finally:
        os.kill(own_broker.process.pid, signal.SIGCONT)
    run_once(app)
    assert app.verify() == 200


def test_connect_seconds_are_kept(silent: str, broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    worker = Worker(app.settings(bootstrap_servers=[silent], connect_seconds=7))
    begin = time.monotonic()
    with pytest.raises(RetryError):
        worker.run()
    assert time.monotonic() - begin >= 7
