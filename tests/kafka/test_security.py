"""TLS and SCRAM with exactly the documented rights; what is missing or wrong is named."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
    ResourceType,
)

from stream_can.kafka import DeniedError, Worker
from tests.kafka.broker.broker import CACHE, USERS, Broker
from tests.kafka.streams import COMMAND, App, fill, write_config
from tests.kafka.users import allow
from tests.programs import PATIENCE, wait

SCRAM = {
    "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256",
    "ssl_cafile": str(CACHE / "broker.pem"),
    "sasl_plain_username": "mallory", "sasl_plain_password": USERS["mallory"],
}  # fmt: skip


def rights(app: App) -> list[tuple[str, str, str]]:
    """Those of docs/operations.md."""
    topics = [("in", "READ"), ("labels", "READ"), ("out", "WRITE"), ("dead-letters", "WRITE"),
              ("state", "READ"), ("state", "WRITE"), ("state", "DESCRIBE_CONFIGS"),
              ("learned", "READ"), ("learned", "WRITE")]  # fmt: skip
    others = [("GROUP", app.id, "READ"), ("TRANSACTIONAL_ID", f"{app.id}-0", "WRITE")]
    return [("TOPIC", f"{app.id}-{kind}", right) for kind, right in topics] + others


def take_away(servers: str, kind: str, name: str, right: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.delete_acls([
        ACLFilter(
            principal="User:mallory", host="*", operation=ACLOperation[right],
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePatternFilter(
                ResourceType[kind], name, ACLResourcePatternType.LITERAL
            ),
        )
    ])  # fmt: skip
    admin.close()


def test_who_has_no_rights_is_told_so(own_broker: Broker) -> None:
    app = App(own_broker.bootstrap_servers)
    secured = {"client": SCRAM, "bootstrap_servers": [own_broker.listeners["scram"]]}
    said = refused(app, **secured)
    assert said.startswith(f"rights missing: READ on topic {app.id}-in, READ on topic {app.id}-la")


def refused(app: App, **changes: Any) -> str:
    """What ``--check`` says against it; empty where it finds nothing."""
    worker = Worker(app.settings(**changes))
    try:
        worker.check()
        worker.client.look()
    except DeniedError as error:
        return str(error)
    finally:
        worker.client.close(leave=False)
    return ""


def test_each_right_is_needed_and_named_and_together_they_are_enough(
    own_broker: Broker, tmp_path: Path
) -> None:
    app = App(own_broker.bootstrap_servers)
    secured = {"client": SCRAM, "bootstrap_servers": [own_broker.listeners["scram"]]}
    fill(app, 100)
    for right in rights(app):
        allow(app.servers, "mallory", *right)
    wait("all rights", lambda: not refused(app, **secured))
    for kind, name, right in rights(app):
        take_away(app.servers, kind, name, right)
        said = wait(f"{right} is missed", lambda: refused(app, **secured))
        what = {"TOPIC": "topic", "GROUP": "group", "TRANSACTIONAL_ID": "transactional id"}[kind]
        assert said == f"rights missing: {right} on {what} {name}"
        allow(app.servers, "mallory", kind, name, right)
        wait("all rights", lambda: not refused(app, **secured))
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


WRONG = {
    "password": ("scram", {"sasl_plain_password": "wrong"}, "are user and password right"),
    "CA": ("scram", {"ssl_cafile": str(CACHE / "elsewhere.pem")}, "certificate verify failed"),
    "date": ("expired", {"ssl_cafile": str(CACHE / "expired.pem")}, "certificate has expired"),
    "host": ("elsewhere", {"ssl_cafile": str(CACHE / "elsewhere.pem")}, "IP address mismatch"),
}


def test_what_is_wrong_is_named(own_broker: Broker, tmp_path: Path) -> None:
    app = App(own_broker.bootstrap_servers)
    running = {}
    for what, (listener, changes, _) in WRONG.items():
        given = SCRAM if listener == "scram" else {"security_protocol": "SSL"}
        servers = [own_broker.listeners[listener]]
        app.given |= {"bootstrap_servers": servers, "client": given | changes}
        command = [*COMMAND, write_config(app, tmp_path, what), "--check"]
        running[what] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for what, process in running.items():
        _, log = process.communicate(timeout=PATIENCE)
        listener, _, says = WRONG[what]
        assert process.returncode == 3, log
        assert says in log
        assert own_broker.listeners[listener] in log
