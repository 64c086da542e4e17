"""A TOML file, each setting also an option and an environment variable; errors name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_can.app.loading import injected
from stream_can.kafka import SettingsError, Worker, load, options
from stream_can.kafka.backfill import backfill
from stream_can.kafka.loading import client_options
from stream_can.kafka.start import start_of

pytestmark = pytest.mark.fast

TOML = """
bootstrap_servers = ["a:9092", "b:9092"]
application_id = "app"
input = "in"
output = "out"
classes = ["x", "y"]
half_life = 100

[client]
session_timeout_ms = 6000
"""

AVRO = {"format": "avro", "schema_registry": "http://registry:8081"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "app.toml"
    path.write_text(TOML)
    return path


def test_file_then_environment_then_options(path: Path) -> None:
    env = {"STREAM_CAN_HALF_LIFE": "200", "STREAM_CAN_INPUT": "other", "PATH": "/bin"}
    settings = load(path, {"half_life": "inf", "k": None}, env)
    assert settings.half_life == float("inf")
    assert settings.input == "other"
    assert (settings.state_topic, settings.dead_letters) == ("app-state", "app-dead-letters")
    assert settings.corrector == {"half_life": float("inf")}


def test_everything_without_a_file() -> None:
    env = {
        "STREAM_CAN_BOOTSTRAP_SERVERS": "a:1, b:2",
        "STREAM_CAN_APPLICATION_ID": "app",
        "STREAM_CAN_INPUT": "in",
        "STREAM_CAN_CLASSES": "x,y",
        "STREAM_CAN_TRAIN_COUNTS": "10,90",
        "STREAM_CAN_CREATE_TOPICS": "true",
        "STREAM_CAN_CLIENT_MAX_POLL_RECORDS": "7",
    }
    settings = load(None, {"output": "out", "client": ["security_protocol=SSL"]}, env)
    assert settings.bootstrap_servers == ["a:1", "b:2"]
    assert settings.classes == ["x", "y"]
    assert settings.train_counts == [10, 90]
    assert settings.create_topics is True
    assert settings.client == {"max_poll_records": 7, "security_protocol": "SSL"}


@pytest.mark.parametrize(
    ("overrides", "env", "message"),
    [
        ({"inptu": "x"}, {}, "unknown setting 'inptu'; did you mean input"),
        (
            {"rows": "sparse"},
            {},
            "classes: not of sparse rows; leave it out",
        ),
        ({}, {"STREAM_CAN_ROWS": "multilabel", "STREAM_CAN_SETS": "0.9"}, "sets: not of"),
        ({}, {"STREAM_CAN_OUTPT": "x"}, "STREAM_CAN_OUTPT: unknown setting 'outpt'.*mean output"),
        ({"client": {"sesion_timeout": 1}}, {}, "client: unknown setting.*mean session_timeout_ms"),
        ({"client": ["acks=0"]}, {}, "client.acks: stream_can sets it itself"),
        ({"client": ["nonsense"]}, {}, "expected NAME=VALUE"),
        ({"k": "three"}, {}, "k: text, expected an integer"),
        ({"start": "now"}, {}, "'now' - at `start`"),
        ({"output": "in"}, {}, "topics must differ"),
        (
            {"ask": "0.1", "labels": "app-label-requests"},
            {},
            "topics must differ: in, out, app-label-requests, .*, app-label-requests",
        ),
        ({"classes_from_file": "x"}, {}, "classes, classes_from_file: give one of them, not both"),
        ({"instance": "a b"}, {}, "instance: 'a b' may only hold"),
        ({"digits": "0"}, {}, "digits: 0, expected 1 to 17"),
        ({"commit_every": "0"}, {}, "commit_every"),
        (
            {"commit_interval_ms": "8000"},
            {},
            "commit_interval_ms: 8000.*transaction_timeout_ms, 15",
        ),
        (
            {"client": ["session_timeout_ms=soon"]},
            {},
            "client.session_timeout_ms: 'soon', expected an integer",
        ),
        ({"models": {"a": {}}}, {}, "models: needs model, the field that names the model"),
        ({"only_listed_models": "true"}, {}, "only_listed_models: needs model"),
        ({"model": "m", "models": {"a": {"class": []}}}, {}, "unknown field `class`"),
        ({"model": "m", "models": {"a": {"k": 0}}}, {}, r"models\.a: k: 0"),
        ({"model": "m", "version": "m"}, {}, "version: 'm' is the place of the model"),
        ({"model": "probs"}, {}, "'probs' is two things at once"),
        ({"model": "m", "max_lanes": "0"}, {}, "max_lanes"),
        ({"format": "xml"}, {}, "'xml' - at `format`"),
        ({"format": "avro"}, {}, "format avro: needs schema_registry or, without one, avro_schema"),
        ({"labels_format": "avro"}, {}, "format avro: needs schema_registry"),
        ({"format": "json-schema"}, {}, "format json-schema: needs schema_registry"),
        (
            {"format": "protobuf", "protobuf_message": "p.M"},
            {},
            "format protobuf: needs protobuf_descriptor and protobuf_message",
        ),
        ({"schema_registry": "http://r"}, {}, "schema_registry: needs format avro or protobuf or"),
        ({"avro_schema": "a.avsc"}, {}, "avro_schema: needs format avro"),
        (AVRO | {"avro_schema": "a.avsc"}, {}, "avro_schema: not with schema_registry, which"),
        (AVRO | {"protobuf_message": "p.M"}, {}, "protobuf_message: needs format protobuf"),
        (AVRO | {"protobuf_descriptor": "p"}, {}, "protobuf_descriptor: needs format protobuf"),
        (AVRO | {"protobuf_first_field": "19500"}, {}, "protobuf_first_field: 19000 to 19999"),
        (AVRO | {"protobuf_first_field": "0"}, {}, "protobuf_first_field"),
        ({"output_subject": "x"}, {}, "output_subject: needs schema_registry"),
        ({"schema_registry_ca": "x"}, {}, "schema_registry_ca: needs schema_registry"),
        ({"schema_registry_user": "x"}, {}, "schema_registry_user: needs schema_registry"),
        (
            AVRO,
            {"STREAM_CAN_SCHEMA_REGISTRY_PASSWORD": "x"},
            "schema_registry_password: needs schema_registry_user",
        ),
        (
            AVRO | {"schema_registry": "https://a, registry:8081"},
            {},
            r"schema_registry: address 2: expected http\[s\]://host",
        ),
        ({"client": {"sasl_plain_password": 31415}}, {}, r"sasl_plain_password: not text; write"),
        ({"start": "latests"}, {}, r"at `start`; expected one of 'earliest', 'latest'$"),
        ({"client": {"ssl_cafile": True}}, {}, r"ssl_cafile: not text; write it in quotes"),
    ],
)
def test_errors_name_the_setting(
    path: Path, overrides: dict[str, Any], env: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        load(path, overrides, env)


def test_who_reads_predictions_needs_their_topic(path: Path) -> None:
    """Before any broker is asked; servers alone need none, nor does the learner behind them."""
    lines = TOML.splitlines(keepends=True)
    path.write_text("".join(x for x in lines if not x.startswith(("input", "output"))))
    settings = load(path, {}, {})
    for begin in (Worker, backfill):
        with pytest.raises(SettingsError, match=r"^input: name the topic of predictions"):
            begin(settings)
    assert Worker(settings, corrects=False).settings.id == "id"


def test_broken_files(path: Path) -> None:
    path.write_text(TOML + "\nresidue = 1\n[client]\n")
    with pytest.raises(SettingsError, match=r"app\.toml: "):
        load(path, {}, {})
    path.write_text("bootstrap_server = []")
    with pytest.raises(SettingsError, match="'bootstrap_server'; did you mean bootstrap_servers"):
        load(path, {}, {})
    with pytest.raises(SettingsError, match="missing required field"):
        load(None, {}, {})
    with pytest.raises(SettingsError, match=r"^/.*/nowhere\.toml: No such file or directory$"):
        load(path.parent / "nowhere.toml", {}, {})


def test_secrets_from_files(path: Path) -> None:
    secret = path.parent / "secret"
    secret.write_text("hush\n")
    env = {"STREAM_CAN_CLIENT_SASL_PLAIN_PASSWORD_FROM_FILE": str(secret)}
    assert load(path, {}, env).client["sasl_plain_password"] == "hush"
    env = {"STREAM_CAN_CLIENT_SSL_PASSWORD_FROM_FILE": "/nowhere/secret"}
    (path.parent / "bytes").write_bytes(b"\xff\xfe secret")
    with pytest.raises(SettingsError, match=r"ssl_password_from_file: .*bytes: not UTF-8$"):
        load(path, {"client": {"ssl_password_from_file": str(path.parent / "bytes")}}, {})
    with pytest.raises(SettingsError, match="ssl_password_from_file"):
        load(path, {}, env)


def test_the_registry_s_secrets(path: Path) -> None:
    """From the environment, a file or the address: no log and no error shows them."""
    secret = path.parent / "secret"
    secret.write_text("hush\n")
    user = AVRO | {"schema_registry_user": "me"}
    env = {"STREAM_CAN_SCHEMA_REGISTRY_PASSWORD": "hush"}
    from_file = {"STREAM_CAN_SCHEMA_REGISTRY_PASSWORD_FROM_FILE": str(secret)}
    for given in (env, from_file):
        settings = load(path, user, given)
        assert settings.schema_registry_password == "hush"
        assert settings.secrets == ["hush"]
    url = "https://me:a%2Fb@r:1/x,http://you:c@s"
    assert load(path, AVRO | {"schema_registry": url}, {}).secrets == ["a%2Fb", "a/b", "c"]
    gone = {"STREAM_CAN_SCHEMA_REGISTRY_PASSWORD_FROM_FILE": "/nowhere/secret"}
    with pytest.raises(SettingsError, match="schema_registry_password_from_file: /nowhere/secret"):
        load(path, user, gone)
    for wrong in ("ftp://me:hush@r", "https://me:hush@r:x"):
        with pytest.raises(SettingsError, match="schema_registry: address 1") as caught:
            load(path, AVRO | {"schema_registry": wrong}, {})
        assert "hush" not in str(caught.value)


def test_formats(path: Path) -> None:
    settings = load(path, {}, {})
    assert (settings.formats, settings.subject) == (("json", "json"), "out-value")
    settings = load(path, AVRO | {"labels_format": "json", "output_subject": "mine"}, {})
    assert (settings.formats, settings.subject) == (("avro", "json"), "mine")
    types = {"protobuf_descriptor": "fraud.desc", "protobuf_message": "p.Fraud"}
    settings = load(path, types, {"STREAM_CAN_LABELS_FORMAT": "protobuf"})
    assert settings.formats == ("json", "protobuf")
    assert settings.protobuf_first_field == 20001


def test_files_are_beside_the_settings(path: Path) -> None:
    more = 'format = "avro"\navro_schema = "fraud.avsc"\n[client]'
    path.write_text(TOML.replace("[client]", more))
    assert load(path, {}, {}).avro_schema == str(path.parent / "fraud.avsc")
    assert load(path, {"avro_schema": "other.avsc"}, {}).avro_schema == "other.avsc"
    more = 'format = "avro"\nschema_registry = "https://r"\nschema_registry_ca = "ca.pem"\n'
    path.write_text(TOML.replace("[client]", f"{more}[client]"))
    assert load(path, {}, {}).schema_registry_ca == str(path.parent / "ca.pem")


def test_the_classes_file_is_beside_the_settings(path: Path) -> None:
    path.write_text(TOML.replace('classes = ["x", "y"]', 'classes_from_file = "classes.json"'))
    assert load(path, {}, {}).classes_from_file == str(path.parent / "classes.json")


def test_models_have_tables(path: Path) -> None:
    """With a model the classes may come from them or from messages."""
    text = TOML.replace('classes = ["x", "y"]', 'model = "model"')
    tables = '[models.fraud-eu]\nclasses = ["a", "b"]\ntrain_counts = [1, 9]\nhalf_life = 50\n'
    path.write_text(text.replace("[client]", f"{tables}\n[client]"))
    settings = load(path, {"only_listed_models": "true", "version": "header:v"}, {})
    own = settings.models["fraud-eu"]
    assert (own.classes, own.train_counts, own.corrector) == (["a", "b"], [1, 9], {"half_life": 50})
    assert settings.fields.version == "header:v"
    start = start_of(settings)
    begun = start.of_model("fraud-eu")
    assert begun is not None
    assert (begun.classes, begun.settings["half_life"]) == (("a", "b"), 50)
    path.write_text(path.read_text().replace("[1, 9]", "[1, 9, 8]"))
    with pytest.raises(SettingsError, match=r"models\.fraud-eu: .*train_counts"):
        start_of(load(path, {}, {}))


def test_options_are_all_settings() -> None:
    found = {option.name: option for option in options()}
    assert found["input"].kind is str
    assert found["check"].kind is bool
    assert found["client"].kind is dict
    assert all(option.help for option in found.values())


def test_what_kubernetes_injects_for_a_service_is_no_setting(path: Path) -> None:
    """As seen in a pod beside the Services stream-can and stream-can-http."""
    address = "tcp://10.96.14.7:9100"
    env = {
        "STREAM_CAN_SERVICE_HOST": "10.96.14.7",
        "STREAM_CAN_SERVICE_PORT": "9100",
        "STREAM_CAN_SERVICE_PORT_METRICS": "9100",
        "STREAM_CAN_PORT": address,
        "STREAM_CAN_PORT_9100_TCP": address,
        "STREAM_CAN_PORT_9100_TCP_PROTO": "tcp",
        "STREAM_CAN_PORT_9100_TCP_PORT": "9100",
        "STREAM_CAN_PORT_9100_TCP_ADDR": "10.96.14.7",
        "STREAM_CAN_HTTP_SERVICE_HOST": "10.96.14.8",
        "STREAM_CAN_HTTP_PORT": address,
        "STREAM_CAN_CLIENT_SERVICE_PORT": "80",
    }
    assert load(path, {}, env) == load(path, {}, {})
    assert injected(env) == sorted(env)
    ours = {"STREAM_CAN_HTTP_PORT": "9100", "PATH": "/bin"}
    assert load(path, {}, ours).http_port == 9100
    assert injected(ours) == []
    with pytest.raises(SettingsError, match="STREAM_CAN_HTP_PORT: unknown setting"):
        load(path, {}, {"STREAM_CAN_HTP_PORT": "9100"})


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("nowhere:Tokens", "ModuleNotFoundError: No module named 'nowhere'"),
        ("collections:Tokens", "AttributeError.*expected package.module:Class"),
        ("collections:Counter", "is no kafka.net.sasl.oauth.AbstractTokenProvider"),
    ],
)
def test_what_provides_no_tokens_is_named(where: str, says: str) -> None:
    with pytest.raises(SettingsError, match=rf"client\.sasl_oauth_token_provider: .*{says}"):
        client_options({"sasl_oauth_token_provider": where})


def test_a_word_that_stands_for_no_class_is_refused(path: Path) -> None:
    for topics in ({}, {"label_topics": {"more": {"label_map": {"yes": "z"}}}}):
        given = {"labels": "labels", **topics} | ({} if topics else {"label_map": {"yes": "z"}})
        with pytest.raises(SettingsError, match="label_map: 'yes' stands for 'z', which is no cl"):
            load(path, given, {})
    load(path, {"labels": "labels", "label_map": {"yes": "x", "unsure": ""}}, {})
