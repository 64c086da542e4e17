"""TLS and SCRAM with exactly the documented rights; what is missing or wrong is named."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stream_can.kafka import DeniedError, Worker
from stream_can.kafka.client.admin import Admin
from tests.kafka.broker.broker import CACHE, Broker
from tests.kafka.streams import (
    COMMAND,
    App,
    caught_up,
    fill,
    write_config,
)
from tests.kafka.topics import produce
from tests.kafka.users import SCRAM, allow, lacks, learners, needed_to_start, rights, take_away
from tests.programs import PATIENCE, wait


def test_who_has_no_rights_is_told_so(our_broker: Broker) -> None:
    app = App(our_broker.bootstrap_servers)
    secured = {"client": SCRAM, "bootstrap_servers": [our_broker.listeners["scram"]]}
    said = refused(app, **secured)
    assert said.startswith(f"rights missing: READ on topic {app.id}-in, ")
    assert said.endswith(f", READ on group {app.id}-learner")


def refused(app: App, **changes: Any) -> str:
    """What ``--check`` says against it; empty where it finds nothing."""
    worker = Worker(app.settings(**changes))
    try:
        worker.check()
    except DeniedError as error:
        return str(error)
    finally:
        for role in (worker.work, worker.learns):
            assert role is not None
            role.close()
            role.client.close(leave=False)
    return ""


def test_each_right_is_needed_and_named_and_together_they_are_enough(
    our_broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(our_broker.bootstrap_servers)
    secured = {"client": SCRAM, "bootstrap_servers": [our_broker.listeners["scram"]]}
    fill(app, 100)
    for right in rights(app):
        allow(app.servers, "mallory", *right)
    wait("all rights", lambda: not refused(app, **secured))
    for kind, name, right in rights(app):
        take_away(app.servers, "mallory", kind, name, right)
        said = wait(f"{right} is missed", lambda: refused(app, **secured))
        assert said == lacks(kind, name, right)
        allow(app.servers, "mallory", kind, name, right)
        wait("all rights", lambda: not refused(app, **secured))
    taken = f"topic '{app.id}-out': no right to read its settings (DESCRIBE_CONFIGS); assuming"
    taken += " deletion by time, no bounds on timestamps and records up to 1048588 bytes"
    assert taken in caplog.text
    plain, app.given = app.given, app.given | secured
    process = app.process(tmp_path)
    try:
        wait("all committed", lambda: process.poll() is not None or app.lag() == 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, (tmp_path / "0.log").read_text()
    finally:
        process.kill()
    app.given = plain
    assert app.verify() == 100


@pytest.mark.release
@pytest.mark.long
def test_a_right_that_is_revoked_while_a_worker_runs_is_named(own_broker: Broker) -> None:
    """Where learning alone needs it, correcting goes on."""
    app = App(own_broker.bootstrap_servers, ask=0.2)
    secured = {"client": SCRAM, "bootstrap_servers": [own_broker.listeners["scram"]]}
    for right in rights(app):
        allow(app.servers, "mallory", *right)
    order = [right for right in rights(app) if right not in needed_to_start(app)]
    for seed, (kind, name, right) in enumerate(order):
        wait("all rights", lambda: not refused(app, **secured))
        running = app.worker(**secured)
        fill(app, 5, first=200 * seed)
        caught_up(app, running)
        take_away(app.servers, "mallory", kind, name, right)
        fill(app, 100, first=200 * seed + 100)
        produce(app.servers, [(app.given["input"], 0, b"k", b"{")])
        said = lacks(kind, name, right)
        if (kind, name, right) in learners(app):
            wait(said, lambda: said in (running.worker.health.cannot_learn or ""))  # noqa: B023
            running.stop()
        else:
            with pytest.raises(DeniedError, match=f"^{said}$"):
                running.join()
        allow(app.servers, "mallory", kind, name, right)


@pytest.mark.parametrize("runs", [True, False])
def test_a_broker_that_has_not_heard_of_it_yet(
    our_broker: Broker, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    """Rights are asked for again, while running and at a start. Before, the refusal was reported
    under whatever name it had."""
    app = App(our_broker.bootstrap_servers)
    secured = {"client": SCRAM, "bootstrap_servers": [our_broker.listeners["scram"]]}
    for right in rights(app):
        allow(app.servers, "mallory", *right)
    wait("all rights", lambda: not refused(app, **secured))
    running = app.worker(**secured)
    fill(app, 50)
    caught_up(app, running)
    if not runs:
        running.stop()
    refuse, asked = Admin._refuse_lacking, []

    def late(self: Admin, *given: Any) -> None:
        asked.append(given)
        if len(asked) > 2:  # one look at the topics asks twice
            refuse(self, *given)

    monkeypatch.setattr(Admin, "_refuse_lacking", late)
    right = ("TOPIC", f"{app.id}-sent", "WRITE")
    take_away(app.servers, "mallory", *right)
    fill(app, 50, seed=1)
    if not runs:
        running = app.worker(**secured)
    with pytest.raises(DeniedError, match=f"^{lacks(*right)}$"):
        running.join()


WRONG = {
    "password": (
        "scram",
        {"sasl_plain_password": "wrong"},
        "are user 'mallory' and password right",
    ),
    "CA": ("scram", {"ssl_cafile": str(CACHE / "elsewhere.pem")}, "certificate verify failed"),
    "date": ("expired", {"ssl_cafile": str(CACHE / "expired.pem")}, "certificate has expired"),
    "host": ("elsewhere", {"ssl_cafile": str(CACHE / "elsewhere.pem")}, "IP address mismatch"),
}


def test_what_is_wrong_is_named(our_broker: Broker, tmp_path: Path) -> None:
    app = App(our_broker.bootstrap_servers)
    running = {}
    for what, (listener, changes, _) in WRONG.items():
        given = SCRAM if listener == "scram" else {"security_protocol": "SSL"}
        servers = [our_broker.listeners[listener]]
        app.given |= {"bootstrap_servers": servers, "client": given | changes}
        command = [*COMMAND, write_config(app, tmp_path, what), "--check"]
        running[what] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for what, process in running.items():
        _, log = process.communicate(timeout=PATIENCE)
        listener, _, says = WRONG[what]
        assert process.returncode == 3, log
        assert says in log
        assert our_broker.listeners[listener] in log
