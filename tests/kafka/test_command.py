"""``run`` as a process sees it: exit codes, log lines, and nothing written by --check."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stream_can.kafka import EXIT_CODES
from tests.kafka.broker.broker import VERSIONS, Broker
from tests.kafka.streams import COMMAND, App, fill, prediction, write_config
from tests.kafka.topics import create, produce, read, unique
from tests.programs import PATIENCE, OnTerminal, wait


def run(app: App, **env: str) -> tuple[int, str]:
    """Exit code and log of the command whose settings come from the environment alone."""
    given = {name: value for name, value in app.given.items() if value and name != "client"}
    variables = {
        f"STREAM_CAN_{name.upper()}": ",".join(value) if isinstance(value, list) else str(value)
        for name, value in given.items()
    }
    done = subprocess.run(
        COMMAND, env={**os.environ, **variables, **env}, text=True, capture_output=True,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode in EXIT_CODES
    return done.returncode, done.stderr


def test_check(broker: Broker) -> None:
    app = App(broker.bootstrap_servers)
    service = {"STREAM_CAN_SERVICE_HOST": "10.96.14.7", "STREAM_CAN_PORT": "tcp://10.96.14.7:80"}
    code, log = run(app, STREAM_CAN_CHECK="true", STREAM_CAN_LOG_FORMAT="json", **service)
    assert code == 0, log
    assert "made them for a Service: STREAM_CAN_PORT, STREAM_CAN_SERVICE_HOST" in log
    about = [json.loads(line) for line in log.splitlines()][-1]
    assert about["level"] == "INFO"
    assert about["message"] == "all is well: 2 partitions, 4 classes"
    assert read(app.servers, f"{app.id}-state", 0) == []


def test_check_shows_what_it_reads_the_newest_records_as(broker: Broker) -> None:
    """So a typo is seen before the start."""
    app = App(broker.bootstrap_servers, id="id")
    fill(app, 40)
    code, log = run(app, STREAM_CAN_CHECK="true")
    assert code == 6, log
    assert "the newest record of 1 topics is not what the settings expect" in log
    topic, labels = app.given["input"], app.given["labels"]
    newest = rf"predictions: topic '{topic}', 40 records; the newest, {topic}-1 offset 19, "
    assert re.search(
        newest + r"id '39' in 'id', 4 classes, likeliest '[abcd]' with 0\.\d+, time 20\S+\n", log
    )
    assert 'start = "earliest", so 40 records are corrected first, by the learner' in log
    says = rf"labels: topic '{labels}', 40 records; the newest, {labels}-1 offset \d+, "
    assert re.search(says + "cannot be read: no field 'label'|" + says + "no id in 'id'", log)
    code, log = run(
        app, STREAM_CAN_CHECK="true", STREAM_CAN_PROBS="probabilities", STREAM_CAN_START="latest",
        STREAM_CAN_LABEL_ID="key:",
    )  # fmt: skip
    assert code == 6, log
    assert "cannot be read: no field 'probabilities'; its fields are 'id', 'probs', 'note'" in log
    assert "40 records are left as they are" in log
    assert re.search(says + r"id 'k39' in key, label '[abcd]', time 20\S+\n", log)


def test_check_says_at_once_what_each_address_says(broker: Broker) -> None:
    """Before, it asked again for `connect_seconds`, 5 minutes."""
    app = App(broker.bootstrap_servers)
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = f"127.0.0.1:{server.getsockname()[1]}"
        servers = f"127.0.0.1:9,{silent},no-such-host.invalid:9092"
        code, log = run(app, STREAM_CAN_BOOTSTRAP_SERVERS=servers, STREAM_CAN_CHECK="true",
                        STREAM_CAN_CONNECT_SECONDS="100000")  # fmt: skip
    assert code == 4, log
    (line,) = log.splitlines()  # it has asked once
    assert "no answer from 127.0.0.1:9 (Connection refused), " in line
    assert f" {silent} (says nothing within 2 s), " in line
    assert " no-such-host.invalid:9092 (no such host" in line


@pytest.mark.long
def test_a_healthy_first_start_warns_of_nothing(tmp_path: Path) -> None:
    """On a cluster that has never had a group, whose coordinator is made as it is asked for."""
    broker = Broker(VERSIONS[0], tmp_path / "broker")
    try:
        broker.start()
        name = unique("first")
        create(broker.bootstrap_servers, {f"{name}-in": {}, f"{name}-labels": {}})
        settings = {"BOOTSTRAP_SERVERS": broker.bootstrap_servers, "APPLICATION_ID": name,
                    "INPUT": f"{name}-in", "OUTPUT": f"{name}-out", "LABELS": f"{name}-labels",
                    "CLASSES": "a,b", "CREATE_TOPICS": "true"}  # fmt: skip
        env = {**os.environ, **{f"STREAM_CAN_{k}": v for k, v in settings.items()}}
        log = tmp_path / "log"
        with open(log, "wb") as file:
            process = subprocess.Popen(COMMAND, env=env, stderr=file)
        try:
            wait("restored", lambda: process.poll() is not None or "by state" in log.read_text())
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        broker.remove()
    assert [line for line in log.read_text().splitlines() if " INFO " not in line] == []


def test_exit_codes(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    code, log = run(app, STREAM_CAN_K="1")
    told = "stream-can run: settings: k: 1, expected an integer >= 2"
    assert (code, told in log) == (2, True), log
    code, log = run(app, STREAM_CAN_OUTPUT="no-such-topic")
    assert (code, "missing topics: no-such-topic" in log) == (3, True), log
    code, log = run(app, STREAM_CAN_BOOTSTRAP_SERVERS="127.0.0.1:9", STREAM_CAN_CONNECT_SECONDS="1",
                    STREAM_CAN_CLIENT_BOOTSTRAP_TIMEOUT_MS="1000")  # fmt: skip
    assert (code, "no answer from 127.0.0.1:9" in log) == (4, True), log
    key, value, _ = prediction(random.Random(0), 0)
    produce(app.servers, [(app.given["input"], 0, key, value[:-5])])
    code, log = run(app, STREAM_CAN_ERRORS="fail")
    assert (code, f"offset 0 of {app.given['input']}-0: not a JSON object" in log) == (6, True), log


def test_a_bug_is_told_with_its_traceback(broker: Broker, tmp_path: Path) -> None:
    """Whoever calls `run`, the command line included, which says other ValueErrors in a line."""
    app = App(broker.bootstrap_servers, partitions=1, labels=False)
    plant = "import kafka; kafka.KafkaConsumer.poll = lambda *_: int('a bug'); "
    code = plant + "import sys; from stream_can.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-W", "ignore", "-c", code, "run", write_config(app, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1, done.stderr
    assert "Traceback" in done.stderr
    assert "ValueError: invalid literal for int() with base 10: 'a bug'" in done.stderr


def test_on_a_terminal_a_line_says_how_far_it_is(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers)
    config = write_config(app, tmp_path)
    with OnTerminal([*COMMAND, config]) as running:
        fill(app, 200)
        produce(app.servers, [(app.given["input"], 0, b"k", b"{")])
        said = r"201 records, \d+/s, lag 0, 1 dead letters, accuracy \S+% -> \S+% over 200 labels"
        wait("the line", lambda: re.search(said, running.text))
        running.process.terminate()
        assert running.process.wait(PATIENCE) == 0
