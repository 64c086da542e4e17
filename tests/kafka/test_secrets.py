"""What a worker with secrets prints, at every level, and serves: none of them."""

from __future__ import annotations

import base64
import json
import logging
import random
import subprocess
from pathlib import Path

import pytest

from stream_can.app.logs import JsonLines, Redacted
from tests.kafka.broker.broker import USERS, Broker, free_ports
from tests.kafka.streams import COMMAND, App, prediction, write_config
from tests.kafka.topics import produce
from tests.kafka.users import allow, sasl
from tests.programs import PATIENCE, text_at, wait

SECRET = USERS["alice"]


def grep(text: str, *secrets: str) -> None:
    for secret in secrets:
        assert secret not in text
        assert base64.b64encode(secret.encode()).decode() not in text


def test_nothing_that_a_worker_prints_or_serves(our_broker: Broker, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    app = App(our_broker.bootstrap_servers, labels=False, http_port=port, http_host="127.0.0.1")
    for kind in ("in", "out", "state", "sent", "dead-letters"):
        allow(app.servers, "alice", "TOPIC", f"{app.id}-{kind}", "ALL")
    for name in (app.id, f"{app.id}/0", f"{app.id}-learner"):
        for what in ("GROUP", "TRANSACTIONAL_ID"):
            allow(app.servers, "alice", what, name, "ALL")
    key, value, _ = prediction(random.Random(0), 0)
    produce(
        app.servers, [(app.given["input"], p, key, text) for p in (0, 1) for text in (value, b"{")]
    )
    plain = app.given["bootstrap_servers"]
    app.given["bootstrap_servers"] = [our_broker.sasl_servers]
    app.given["client"] |= sasl("alice", SECRET) | {"ssl_password": "of-a-key"}
    config = write_config(app, tmp_path)
    app.given["bootstrap_servers"] = plain
    ready, metrics = (f"http://127.0.0.1:{port}/{name}" for name in ("readyz", "metrics"))
    levels = {"DEBUG": "json", "INFO": "text", "WARNING": "json", "ERROR": "text"}
    for level, form in levels.items():
        log = tmp_path / f"{level}.log"
        with open(log, "wb") as file:
            command = [*COMMAND, config, "--log-level", level, "--log-format", form]
            process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            wait("ready", lambda process=process: process.poll() is not None or text_at(ready))
            served = text_at(metrics) or ""
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0, log.read_text()[-2000:]
        assert "stream_can_build_info" in served
        grep(log.read_text() + served, SECRET, "of-a-key")
        if level == "DEBUG":
            assert "sasl_plain_password" in log.read_text()  # it is looked at in earnest
    bad = "wrong-secret"
    done = subprocess.run(
        [*COMMAND, config, "--log-level", "DEBUG", "--client", f"sasl_plain_password={bad}"],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 3
    grep(done.stdout + done.stderr, bad, "of-a-key")


@pytest.mark.fast
@pytest.mark.parametrize(
    "secret", ["p", "pass'word", 'pass"word', "b\\a", "pässwörd", "two\nlines"]
)
def test_however_it_is_escaped(secret: str) -> None:
    said = [secret, repr(secret), {"password": secret}, repr(secret.encode()), json.dumps(secret),
            base64.b64encode(secret.encode()).decode()]  # fmt: skip
    for formatter in (logging.Formatter("%(message)s"), JsonLines()):
        for text in said:
            record = logging.makeLogRecord({"msg": "%s", "args": (text,)})
            line = Redacted(formatter, [secret]).format(record)
            assert "***" in line
            assert secret not in line.replace("***", "")
