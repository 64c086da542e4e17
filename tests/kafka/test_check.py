"""What stops a start: addresses, TLS, SASL, rights, topics, sizes. Each names the way out."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from stream_can.kafka import Settings, Worker
from stream_can.kafka.client.admin import Admin
from stream_can.kafka.client.client import Client
from stream_can.kafka.client.guards import DeniedError, RetryError
from stream_can.kafka.topics import topics_of
from tests.kafka.broker.broker import CACHE, Broker
from tests.kafka.topics import create, unique
from tests.kafka.users import sasl


def client(servers: str, name: str = "app", **options: Any) -> Client:
    return Client([servers], name, "0", input=f"{name}-in", options=options)


def check(client: Client, state_bytes: int = 3000, create: bool = False) -> int:
    name = client.group
    settings = Settings(
        bootstrap_servers=["a:1"], application_id=name, input=f"{name}-in", output=f"{name}-out",
        classes=["a", "b"],
    )  # fmt: skip
    own = topics_of(settings, corrects=True, learns=True, state_bytes=state_bytes)
    return min(client.check_topics({}, own, create=create).values())


APPENDED = {"message.timestamp.type": "LogAppendTime"}
STATE = {"cleanup.policy": "compact", "partitions": 2} | APPENDED


def topics(name: str, **changes: dict[str, Any]) -> dict[str, Any]:
    kinds: dict[str, Any] = {"in": {}, "out": {}, "dead-letters": {}, "sent": APPENDED}
    return {f"{name}-{kind}": one for kind, one in (kinds | {"state": STATE} | changes).items()}


@pytest.fixture
def name(broker: Broker) -> str:
    name = unique("check")
    create(broker.bootstrap_servers, topics(name))
    return name


def test_settings_of_a_new_topic_that_a_broker_does_not_know_yet(
    broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is as empty as where they may not be read; a start with three loaded brokers
    ended with "rights missing: DESCRIBE_CONFIGS" right after it had made the topics."""
    ask, asked = Admin.ask, []

    def not_yet(self: Admin, seconds: float, what: str, *args: Any) -> Any:
        found = ask(self, seconds, what, *args)
        if what == "describe_configs":
            asked.append(what)
            if len(asked) < 3:
                found["topic"].update({f"{name}-state": {}, f"{name}-out": {}})
        return found

    monkeypatch.setattr(Admin, "ask", not_yet)
    assert check(client(broker.bootstrap_servers, name)) == 2
    assert len(asked) == 3


def test_all_is_well(broker: Broker, name: str) -> None:
    c = client(broker.bootstrap_servers, name)
    assert check(c) == 2
    kinds = ("out", "state", "sent", "dead-letters")
    assert c.transaction.max_bytes == {f"{name}-{kind}": 1_048_588 for kind in kinds}


def test_no_broker_is_worth_a_retry() -> None:
    with pytest.raises(RetryError, match=r"no answer from 127\.0\.0\.1:9 \(Connection refused\)"):
        check(client("127.0.0.1:9", bootstrap_timeout_ms=1_000))


def test_missing_topics_are_named_and_not_created(broker: Broker) -> None:
    name = unique("missing")
    c = client(broker.bootstrap_servers, name)
    with pytest.raises(DeniedError, match=f"input topic '{name}-in' does not exist"):
        check(c)
    create(broker.bootstrap_servers, {f"{name}-in": {"partitions": 3}})
    with pytest.raises(DeniedError, match=f"missing topics: {name}-dead-letters .*{name}-state"):
        check(c)
    assert check(c, create=True) == 3
    assert check(c) == 3


def test_all_missing_topics_of_an_application_are_named_at_once(broker: Broker) -> None:
    """That of labels was named once the others were there."""
    name = unique("missing")
    create(broker.bootstrap_servers, {f"{name}-in": {}})
    settings = Settings(
        bootstrap_servers=[broker.bootstrap_servers], application_id=name, input=f"{name}-in",
        output=f"{name}-out", labels=f"{name}-labels", classes=["a", "b"],
    )  # fmt: skip
    with pytest.raises(DeniedError) as refused:
        Worker(settings).check()
    for kind in ("dead-letters", "labels", "out", "sent", "state"):
        assert f"{name}-{kind} (" in str(refused.value)


def test_a_large_state_gets_a_topic_that_takes_it(broker: Broker) -> None:
    name = unique("large")
    create(broker.bootstrap_servers, {f"{name}-in": {}})
    c = client(broker.bootstrap_servers, name)
    check(c, state_bytes=3_000_000, create=True)
    assert c.transaction.max_bytes[f"{name}-state"] == 6_000_000


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sent": APPENDED | {"partitions": 4}}, "-sent' has 4 partitions, input .* has 2"),
        ({"out": {"partitions": 1}}, "-out' has 1 partitions, input .* has 2"),
        ({"state": STATE | {"partitions": 4}}, "-state' has 4 partitions, and needs 2"),
        ({"state": APPENDED}, r"-state' has cleanup\.policy=delete; set it to compact"),
        (
            {"sent": APPENDED | {"cleanup.policy": "compact"}},
            r"-sent' has cleanup\.policy=compact; set it to delete",
        ),
        ({"sent": {}}, r"-sent' has message\.timestamp\.type=CreateTime; set it to LogAppendTime"),
        ({"dead-letters": {"cleanup.policy": "compact"}}, "-dead-letters' has cleanup.policy=comp"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_topics_that_are_not_as_they_have_to_be(
    broker: Broker, changes: dict[str, Any], why: str
) -> None:
    name = unique("counts")
    create(broker.bootstrap_servers, topics(name, **changes))
    with pytest.raises(DeniedError, match=f"'{name}{why}"):
        check(client(broker.bootstrap_servers, name))


def test_a_snapshot_must_fit_the_state_topic(broker: Broker, name: str) -> None:
    with pytest.raises(DeniedError, match=r"takes 1048000 bytes.*max\.message\.bytes=1048588"):
        check(client(broker.bootstrap_servers, name), state_bytes=1_048_000)


def test_options_that_the_guarantees_rest_on_are_refused() -> None:
    for option in ("isolation_level", "acks", "group_id", "no_such_thing"):
        with pytest.raises(DeniedError, match=option):
            client("127.0.0.1:9", **{option: "x"})


class TestSecurity:
    """On our broker's other listeners. Trap: kafka-python says "Unable to bootstrap" to all."""

    def test_a_wrong_password_is_fatal_at_once(self, our_broker: Broker) -> None:
        c = client(our_broker.sasl_servers, **sasl("alice", "wrong"))
        with pytest.raises(
            DeniedError, match=r"SaslAuthenticationFailed|are user .* and password right"
        ):
            check(c)

    def test_an_unknown_certificate_is_fatal_at_once(self, our_broker: Broker) -> None:
        with pytest.raises(DeniedError, match=r"(?i)certificate.verify.failed"):
            check(
                client(our_broker.tls_servers, security_protocol="SSL", bootstrap_timeout_ms=1_000)
            )

    @pytest.mark.parametrize(
        ("listener", "options", "says"),
        [
            ("plain", {"security_protocol": "SSL"}, "without TLS, so security_protocol=PLAINTEXT"),
            ("plain", {"security_protocol": "SASL_SSL"}, "without TLS.*=SASL_PLAINTEXT and not"),
            ("plain", sasl("alice", "x"), "takes no SASL, so security_protocol=PLAINTEXT"),
            ("tls", {}, "with TLS, so security_protocol=SSL and not PLAINTEXT"),
            ("tls", sasl("alice", "x"), "with TLS, so security_protocol=SASL_SSL and not"),
            ("sasl", {}, r"wants SASL \(PLAIN\), so security_protocol=SASL_PLAINTEXT"),
            ("sasl", sasl("alice", "x") | {"sasl_mechanism": "SCRAM-SHA-256"},
             "offers sasl_mechanism PLAIN and not SCRAM-SHA-256"),
        ],
    )  # fmt: skip
    def test_a_wrong_protocol_or_mechanism_is_named_at_once(
        self, our_broker: Broker, listener: str, options: dict[str, Any], says: str
    ) -> None:
        servers = {"plain": our_broker.bootstrap_servers, "tls": our_broker.tls_servers,
                   "sasl": our_broker.sasl_servers}[listener]  # fmt: skip
        with pytest.raises(DeniedError, match=f"{servers} .*{says}"):
            check(client(servers, bootstrap_timeout_ms=1_000, **options))

    def test_a_wrong_mechanism_is_named_also_where_kafka_python_hears_of_it(
        self, our_broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def heard(**_: Any) -> None:  # by chance, before the broker has closed the connection
            reason = "Bootstrap connection to bootstrap-0 failed: UnsupportedSaslMechanismError"
            logging.getLogger("kafka").warning(reason)
            raise KafkaConnectionError("unable to bootstrap")

        monkeypatch.setattr("stream_can.kafka.client.connecting.KafkaAdminClient", heard)
        options = sasl("alice", "x") | {"sasl_mechanism": "SCRAM-SHA-256"}
        with pytest.raises(DeniedError, match="offers sasl_mechanism PLAIN and not SCRAM-SHA-256"):
            check(client(our_broker.sasl_servers, **options))

    @pytest.mark.parametrize("name", ["ssl_cafile", "ssl_crlfile", "ssl_certfile"])
    def test_a_file_that_is_not_pem_is_named(
        self, our_broker: Broker, tmp_path: Path, name: str
    ) -> None:
        path = tmp_path / "file.der"
        path.write_bytes(b"0\x82\x01")
        with pytest.raises(DeniedError, match=rf"{name}:? {path}.* PEM"):
            check(client(our_broker.tls_servers, security_protocol="SSL", **{name: str(path)}))

    def test_a_missing_file_is_named(self, our_broker: Broker) -> None:
        options = {"security_protocol": "SSL", "ssl_cafile": "/nowhere/ca.pem"}
        with pytest.raises(DeniedError, match=r"ssl_cafile: cannot read /nowhere/ca\.pem"):
            check(client(our_broker.tls_servers, **options))

    def test_a_known_certificate_connects(self, our_broker: Broker) -> None:
        options = {"security_protocol": "SSL", "ssl_cafile": str(CACHE / "broker.pem")}
        with pytest.raises(DeniedError, match="input topic 'app-in' does not exist"):
            check(client(our_broker.tls_servers, **options))
