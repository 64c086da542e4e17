"""What docs/security.md says, done: its settings connect, and its rights are those that are
needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.kafka.broker.broker import CACHE, USERS, Broker
from tests.kafka.streams import COMMAND, App, write_config
from tests.kafka.users import allow, better, rights
from tests.programs import PATIENCE

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
RIGHTS = {"Read": "READ", "Write": "WRITE", "DescribeConfigs": "DESCRIBE_CONFIGS"}
KINDS = {"topic": "TOPIC", "group": "GROUP", "transactional-id": "TRANSACTIONAL_ID"}


def commands(app: App) -> list[tuple[str, str, str]]:
    """The rights that the commands give, in the names of an application."""
    found = re.findall(r"^acl --operation (\w+) --([\w-]+) (\S+)$", PAGE, re.M)
    names = {"predictions": app.given["input"], "corrected": app.given["output"],
             "labels": app.given["labels"]}  # fmt: skip
    return [
        (KINDS[kind], names.get(name, re.sub("^fraud", app.id, name).replace("/worker-1", "/0")),
         RIGHTS[right])
        for right, kind, name in found
    ]  # fmt: skip


def test_the_rights_are_those_that_are_needed(our_broker: Broker) -> None:
    app = App(our_broker.bootstrap_servers)
    assert sorted(commands(app)) == sorted([*rights(app), *better(app)])


@pytest.mark.parametrize(
    ("protocol", "listener"), [("SSL", "tls"), ("SASL_SSL", "scram"), ("SASL_PLAINTEXT", "sasl")]
)
def test_the_settings_connect(
    our_broker: Broker, tmp_path: Path, protocol: str, listener: str
) -> None:
    """As ``--check`` tries them, with the rights of the page."""
    (block,) = [
        text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.S) if f'"{protocol}"' in text
    ]
    (tmp_path / "password").write_text(USERS["mallory"] + "\n")
    block = block.replace("/etc/kafka/ca.pem", str(CACHE / "broker.pem"))
    block = block.replace("/run/secrets/kafka", str(tmp_path / "password"))
    block = block.replace('"stream-can"', '"mallory"')
    app = App(our_broker.bootstrap_servers)
    for right in commands(app):
        allow(app.servers, "mallory", *right)
    app.given |= {"bootstrap_servers": [our_broker.listeners[listener]], "client": {}}
    config = Path(write_config(app, tmp_path))
    config.write_text(config.read_text().replace("[client]\n", block))
    done = subprocess.run(
        [*COMMAND, str(config), "--check"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert "all is well" in done.stderr
    assert "may not be read" not in done.stderr
