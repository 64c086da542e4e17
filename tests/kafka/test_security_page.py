"""What docs/security.md says, done: its settings connect, and its rights are those that are
needed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)

from tests.kafka.broker.broker import CACHE, STORE_PASSWORD, USERS, Broker, keystore
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


TOKENS = """\
import base64, json, time
from kafka.net.sasl.oauth import AbstractTokenProvider

def encoded(says):
    return base64.urlsafe_b64encode(json.dumps(says).encode()).decode().rstrip("=")

class Provider(AbstractTokenProvider):
    def token(self):
        claims = {"sub": "mallory", "iat": time.time() - 60, "exp": time.time() + 600}
        return encoded({"alg": "none"}) + "." + encoded(claims) + "."
"""
BLOCKS = dict(
    zip(
        ("tls", "mutual", "scram", "sasl", "oauth"),
        re.findall(r"```toml\n(.*?)```", PAGE, re.S),
        strict=True,
    )
)


def write_secrets(folder: Path) -> None:
    """What the settings of the page name: a password, the tokens' class, and a certificate of
    ours, which the listener trusts, with its key."""
    (folder / "password").write_text(USERS["mallory"] + "\n")
    (folder / "my_tokens.py").write_text(TOKENS)
    (folder / "secret").write_text("of the key\n")
    key, _, _ = pkcs12.load_key_and_certificates(keystore().read_bytes(), STORE_PASSWORD.encode())
    assert key is not None
    (folder / "me.key").write_bytes(key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"of the key")
    ))  # fmt: skip


@pytest.mark.parametrize("listener", BLOCKS)
def test_the_settings_connect(
    our_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: str
) -> None:
    """As ``--check`` tries them, with the rights of the page."""
    write_secrets(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    block = BLOCKS[listener].replace('"stream-can"', '"mallory"')
    for name, here in {
        "/etc/kafka/ca.pem": CACHE / "broker.pem", "/etc/kafka/me.pem": CACHE / "broker.pem",
        "/etc/kafka/me.key": tmp_path / "me.key", "/run/secrets/kafka": tmp_path / "password",
        "/run/secrets/key": tmp_path / "secret",
    }.items():  # fmt: skip
        block = block.replace(name, str(here))
    app = App(our_broker.bootstrap_servers)
    user = "CN=broker" if listener == "mutual" else "mallory"
    for right in commands(app):
        allow(app.servers, user, *right)
    app.given |= {"bootstrap_servers": [our_broker.listeners[listener]], "client": {}}
    config = Path(write_config(app, tmp_path))
    config.write_text(config.read_text().replace("[client]\n", block))
    done = subprocess.run(
        [*COMMAND, str(config), "--check"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert "all is well" in done.stderr
    assert "no right to read" not in done.stderr
