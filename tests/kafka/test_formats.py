"""Topics in the formats of a schema registry: real brokers and registry, others' serializers."""

from __future__ import annotations

import datetime
import json
import random
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream_can.app.health import Health
from stream_can.kafka import Settings, SettingsError, Worker
from stream_can.kafka.backfill import backfill
from stream_can.kafka.client.registry import Registry
from stream_can.kafka.loop import Loop
from stream_can.kafka.pending import PendingRequests
from stream_can.kafka.schema_lookups import RegistryAway
from tests.kafka import formats
from tests.kafka.broker.broker import Served, free_ports
from tests.kafka.broker.registry import Apicurio, set_rule
from tests.kafka.formats import (
    AT,
    FRAUD,
    JSON_FRAUD,
    JSON_LABEL,
    JSON_LABELS,
    LABEL,
    LABELS,
    serializer,
)  # fmt: skip
from tests.kafka.streams import (
    COMMAND,
    STAMP,
    App,
    caught_up,
    correctors_of,
    prediction,
    run_once,
)
from tests.kafka.topics import produce, read
from tests.programs import wait


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    formats.close()


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def app_of(broker: Served, url: str, kind: str = "avro", **settings: Any) -> App:
    return App(broker.bootstrap_servers, format=kind, schema_registry=url, **AT, **settings)


def letters(app: App) -> list[Any]:
    return [
        record
        for p in range(app.partitions)
        for record in read(app.servers, app.given.get("dead_letters", f"{app.id}-dead-letters"), p)
    ]


def why(letter: Any) -> str:
    return dict(letter.headers)["__connect.errors.exception.message"].decode()


@pytest.mark.parametrize(
    ("kind", "schemas"),
    [("avro", (FRAUD, LABEL)), ("json-schema", (JSON_FRAUD, JSON_LABEL))],
)
def test_what_others_write_is_corrected_and_read_by_others(
    broker: Served, registry: Served, kind: str, schemas: Any
) -> None:
    """Predictions and labels by Confluent's serializers; the output, with prediction sets, by its
    deserializers."""
    app = app_of(broker, registry.url, kind, sets=0.8)
    writers = [
        serializer(kind, registry.url, app.given[topic], schema)
        for topic, schema in zip(("input", "labels"), schemas, strict=True)
    ]
    made = formats.fill(app, 600, *writers)
    run_once(app, learned=600)
    assert app.verify(**formats.reading(app, kind)) == 600
    assert letters(app) == []
    assert app.checked.labels["learned"] + app.checked.labels["learned late"] == 600
    decode, changed = formats.deserializer(kind, registry.url, app.given["output"]), 0
    for record in (one for p in range(app.partitions) for one in app.outputs(p)):
        got = decode(record.value)
        given = made[got["id"]]
        if kind == "avro":
            got["at"] = round((got["at"] - EPOCH).total_seconds() * 1000)
            raw = got.pop("probs_raw")
        else:
            raw = got["model"].pop("probs_raw")
        assert raw == given["model"]["probs"]
        probs = got["model"]["probs"]
        assert abs(sum(probs) - 1) < 1e-9
        assert got.pop("set")[0] == app.given["classes"][probs.index(max(probs))]
        changed += probs != raw
        got["model"]["probs"] = raw
        assert got == given
    assert changed > 500
    assert dict(record.headers)["h"] == b"1"


@pytest.mark.parametrize("kind", ["avro", "json-schema", "protobuf"])
def test_rows_of_several_labels(
    broker: Served, registry: Served, tmp_path: Path, kind: str
) -> None:
    """Written by Confluent's serializers, and read by its deserializers."""
    url, given = registry.url, {"rows": "multilabel"}
    if kind == "protobuf":
        path = tmp_path / "fraud.desc"
        path.write_bytes(formats.proto().SerializeToString())
        given |= {
            "protobuf_descriptor": str(path), "protobuf_message": "com.example.Fraud",
            "protobuf_label_message": "com.example.Labels",
        }  # fmt: skip
    app = app_of(broker, url, kind, **given)
    topics = app.given["input"], app.given["labels"]
    if kind == "protobuf":
        writers = [
            formats.proto_serializer(url, topic, name)
            for topic, name in zip(topics, ("Fraud", "Labels"), strict=True)
        ]
        decode = formats.proto_deserializer(app.given["output"])
    else:
        schemas = (FRAUD, LABELS) if kind == "avro" else (JSON_FRAUD, JSON_LABELS)
        pairs = zip(topics, schemas, strict=True)
        writers = [serializer(kind, url, topic, schema) for topic, schema in pairs]
        decode = formats.deserializer(kind, url, app.given["output"])
    made = formats.fill(app, 300, *writers)
    run_once(app, learned=300)
    if kind != "protobuf":  # of which the judge knows no names
        assert app.verify(**formats.reading(app, kind)) == 300
    assert letters(app) == []
    outputs, changed, sizes = [r for p in range(2) for r in app.outputs(p)], 0, set()
    for record in outputs:
        got = decode(record.value)
        scores, was = got["model"]["probs"], made[int(got["id"])]["model"]["probs"]
        changed += scores != was
        by_name = dict(zip(app.given["classes"], scores, strict=True))
        assert got["set"] == sorted(got["set"], key=by_name.__getitem__, reverse=True)
        sizes.add(len(got["set"]))
    assert (len(outputs), changed > 200, len(sizes) > 2) == (300, True, True)


def test_the_output_s_schema_stays_backward_compatible(broker: Served, registry: Served) -> None:
    """A field is added, then a type promoted, while the worker runs; each is registered once."""
    app = app_of(broker, registry.url, partitions=1)
    ours = Registry(registry.url)
    narrow = json.loads(json.dumps(FRAUD))
    narrow["fields"][2]["type"]["fields"][1]["type"]["items"] = "float"
    wider = json.loads(json.dumps(FRAUD))
    wider["fields"].append({"name": "country", "type": "string", "default": ""})
    renamed = json.loads(json.dumps(wider))
    renamed["fields"][2]["type"]["fields"][1] |= {"name": "scores", "aliases": ["probs"]}
    label = serializer("avro", registry.url, app.given["labels"], LABEL)
    running = app.worker()
    for seed, schema in enumerate((narrow, FRAUD, wider, renamed)):
        write = serializer("avro", registry.url, app.given["input"], schema)

        def fit(value: dict[str, Any], schema: Any = schema, write: Any = write) -> bytes:
            if schema is renamed:
                value = value | {"model": {"name": "x", "scores": value["model"]["probs"]}}
            return write(value | {"country": "DE"})  # type: ignore[no-any-return]

        formats.fill(app, 50, fit, label, seed)
        caught_up(app, running)
        if not seed:
            set_rule(registry.url, "BACKWARD", app.settings().subject)
    running.stop()
    assert sum(len(app.outputs(p)) for p in range(app.partitions)) == 200
    assert letters(app) == []
    versions = json.loads(
        urllib.request.urlopen(
            f"{registry.url}/subjects/{app.given['output']}-value/versions"
        ).read()
    )
    assert versions == [1, 2, 3, 4]
    assert "probs_raw" in ours.latest(app.settings().subject)[1].text


def test_what_the_registry_refuses(broker: Served, registry: Served, tmp_path: Path) -> None:
    """At the start and by --check it is exit 3; while running dead letters, and others go on."""
    app = app_of(broker, registry.url, partitions=1)
    subject = app.settings().subject
    ours = Registry(registry.url)
    other = json.loads(json.dumps(FRAUD))
    other["fields"].append({"name": "needed", "type": "string"})
    label = serializer("avro", registry.url, app.given["labels"], LABEL)
    formats.fill(app, 20, serializer("avro", registry.url, app.given["input"], FRAUD), label)
    running = app.worker()
    caught_up(app, running)
    set_rule(registry.url, "BACKWARD", subject)
    write = serializer("avro", registry.url, app.given["input"], other)
    formats.fill(app, 20, lambda value: write(value | {"needed": "x"}), label, 1)
    caught_up(app, running)
    formats.fill(app, 20, serializer("avro", registry.url, app.given["input"], FRAUD), label, 2)
    caught_up(app, running)
    running.stop()
    assert app.verify(**formats.reading(app, "avro")) == 60
    found = letters(app)
    assert len(found) == 20
    assert f"the schema registry refuses a schema for the subject '{subject}'" in why(found[0])
    assert "needed" in why(found[0])
    assert ours.schema(int.from_bytes(found[0].value[1:5], "big")).text.count("needed") == 1
    for more in ([], ["--check"]):  # now the newest schema of the input is that one
        process = app.process(tmp_path, command=[*COMMAND, *more])
        assert process.wait(280) == 3
        said = (tmp_path / "0.log").read_text()
        assert f"output_subject '{subject}': the schema registry would refuse the schema" in said
        assert "needed" in said


def test_a_registry_that_is_down_is_waited_for(
    broker: Served, own_registry: Apicurio, tmp_path: Path
) -> None:
    """Known schemas go on from memory; a new one waits, and is no dead letter."""
    (port,) = free_ports(1)
    app = app_of(broker, own_registry.url, http_port=port, http_host="127.0.0.1")
    label = serializer("avro", own_registry.url, app.given["labels"], LABEL)
    write = serializer("avro", own_registry.url, app.given["input"], FRAUD)
    other = json.loads(json.dumps(FRAUD))
    other["fields"].append({"name": "country", "type": "string", "default": ""})
    write_other = serializer("avro", own_registry.url, app.given["input"], other)
    write_other(formats.fraud(0, {"probs": [1, 0, 0, 0], "note": ""}, 0) | {"country": "DE"})
    running = app.worker()
    formats.fill(app, 400, write, label)  # so many that the learner reads some, too
    caught_up(app, running)

    def ready() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    assert ready()[0] == 200
    own_registry.stop()
    try:
        formats.fill(app, 40, write, label, 1)
        caught_up(app, running)  # all in memory
        formats.fill(app, 40, lambda v: write_other(v | {"country": "DE"}), label, 2)
        wait("it is seen", lambda: ready()[0] == 503)
        assert "records wait: no schema registry answers" in ready()[1]
        assert app.lag() > 0
        page = json.loads(urllib.request.urlopen(f"http://127.0.0.1:{port}/status.json").read())
        assert page["problems"][0]["what"].startswith("Records wait for the schema registry")
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
        assert "stream_can_registry_away 1.0" in metrics
    finally:
        own_registry.start()
    caught_up(app, running)
    wait("ready again", lambda: ready()[0] == 200)
    running.stop()
    assert app.verify(**formats.reading(app, "avro")) == 480
    assert letters(app) == []


@pytest.mark.fast
def test_a_registry_that_stays_away_ends_the_loop() -> None:
    """Before, it went on without what it had read, for as long again."""
    client = SimpleNamespace(
        open=lambda: None, rejoin=lambda: None, close=lambda leave: None,
        require_identity=lambda: None,
    )  # fmt: skip
    nothing, steps = lambda: None, list[int]()

    def step(wait_ms: int) -> None:
        steps.append(wait_ms)
        raise RegistryAway("no answer (for 300 s)")

    role = SimpleNamespace(
        client=client, committed=0, check=nothing, drop=nothing, commit=nothing, close=nothing,
        step=step,
    )  # fmt: skip
    settings = SimpleNamespace(connect_seconds=300.0, name="0")
    with pytest.raises(RegistryAway, match="300 s"):
        Loop(role, settings, Health(60)).run()  # type: ignore[arg-type]
    assert len(steps) == 1


def test_nobody_waits_for_ever(broker: Served, registry: Served, tmp_path: Path) -> None:
    """Without a registry a worker ends with 4 after connect_seconds; refused by it with 3."""
    (port,) = free_ports(1)
    app = app_of(broker, f"http://127.0.0.1:{port}", connect_seconds=3)
    process = app.process(tmp_path)
    assert process.wait(280) == 4
    assert "no schema registry answers" in (tmp_path / "0.log").read_text()

    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://ops:hush@127.0.0.1:{server.server_address[1]}"
        app = app_of(broker, url)
        process = app.process(tmp_path, "1")
        assert process.wait(280) == 3
        server.shutdown()
    said = (tmp_path / "1.log").read_text()
    assert "refuses us: 401" in said
    assert "hush" not in said


def test_a_restart_and_backfill_read_it(broker: Served, registry: Served) -> None:
    """What was sent is learned after a restart; so is all by backfill."""
    app = app_of(broker, registry.url, partitions=1)
    label = serializer("avro", registry.url, app.given["labels"], LABEL)
    write = serializer("avro", registry.url, app.given["input"], FRAUD)
    formats.fill(app, 300, write, label, delay=100)
    first = app.worker(commit_every=150)
    wait("something is committed", lambda: app.outputs(0) or first.error)
    first.stop()
    run_once(app, learned=300)
    assert app.verify(**formats.reading(app, "avro")) == 300
    found = backfill(app.settings(application_id=f"{app.id}-anew", create_topics=True))
    assert found.corrector.n_labels == 300
    assert (found.tally.counts["matched"], found.tally.counts["dead_letters"]) == (300, 0)


def test_label_requests_are_answered_in_the_labels_format(broker: Served, registry: Served) -> None:
    """The labelling page shows Avro as JSON, and writes labels of the newest schema."""
    app = app_of(broker, registry.url, partitions=1, ask=0.5)
    label = serializer("avro", registry.url, app.given["labels"], LABEL)
    write = serializer("avro", registry.url, app.given["input"], FRAUD)
    formats.fill(app, 40, write, label)
    running = app.worker()
    caught_up(app, running)
    made = formats.fill(app, 40, write, lambda _: label({"id": -1, "label": "a"}), 1)
    caught_up(app, running)
    pending = PendingRequests(app.settings())
    stop = threading.Event()
    reader = threading.Thread(target=pending.follow, args=(stop.is_set,), daemon=True)
    reader.start()

    def asked():
        """For labels of the second ones: labels and requests are read in any order."""
        every = [(json.loads(bytes(one.says.message)), one) for one in pending.first(100)[1]]
        return [(message, one) for message, one in every if message["id"] in made]

    wait("requests", lambda: len(asked()) > 5)
    message, one = asked()[0]
    record = made[message["id"]]
    assert message["model"]["name"] == "forest"
    assert message["model"]["probs"] == record["model"]["probs"]
    before = running.corrector().n_labels
    pending.answer(one.partition, one.offset, 2)
    wait("it is learned", lambda: running.corrector().n_labels == before + 1)
    sent = read(app.servers, app.given["labels"], 0)[-1].value
    says = formats.deserializer("avro", registry.url, app.given["labels"])(sent)
    assert says == {"id": message["id"], "label": "c"}
    stop.set()
    reader.join(280)
    pending.close()
    running.stop()
    assert letters(app) == []


def test_cloud_events_binary_and_structured(broker: Served, registry: Served) -> None:
    """Ids and models in headers beside Avro, and whole events as JSON."""
    app = App(
        broker.bootstrap_servers, partitions=1, format="avro", schema_registry=registry.url,
        probs="model.probs", id="header:ce_id", model="header:ce_source",
    )  # fmt: skip
    write = serializer("avro", registry.url, app.given["input"], FRAUD)
    label = serializer("avro", registry.url, app.given["labels"], LABEL)
    rng = random.Random(0)
    predictions, labels = [], []
    for i in range(60):
        _, text, truth = prediction(rng, i)
        record = write(formats.fraud(i, json.loads(text), STAMP))
        headers = [("ce_id", b"e%d" % i), ("ce_source", b"/m%d" % (i % 2)), ("ce_type", b"x")]
        predictions.append((app.given["input"], 0, None, record, headers, STAMP + i))
        # A label is an event of its own kind, about the prediction whose id it has.
        value = label({"id": i, "label": truth})
        labels.append((app.given["labels"], 0, None, value, headers[:1], STAMP + i + 100))
    produce(app.servers, predictions, labels)
    run_once(app)
    assert (len(app.outputs(0)), letters(app)) == (60, [])
    correctors = correctors_of(app)
    assert {name: one.n_labels for name, one in correctors.items()} == {
        ("/m0", None): 30, ("/m1", None): 30
    }  # fmt: skip

    app = App(broker.bootstrap_servers, partitions=1, probs="data.probs", id="id",
              label="data.label", model="source")  # fmt: skip
    predictions, labels = [], []
    for i in range(20):
        _, text, truth = prediction(rng, i)
        event = {"specversion": "1.0", "type": "x", "source": "/m", "id": f"e{i}"}
        value = json.dumps(event | {"data": {"probs": json.loads(text)["probs"]}}).encode()
        predictions.append((app.given["input"], 0, None, value, [], STAMP + i))
        value = json.dumps(event | {"data": {"label": truth}}).encode()
        labels.append((app.given["labels"], 0, None, value, [], STAMP + i + 100))
    produce(app.servers, predictions, labels)
    run_once(app)
    assert (len(app.outputs(0)), letters(app)) == (20, [])
    (one,) = correctors_of(app).values()
    assert one.n_labels == 20
    out = json.loads(app.outputs(0)[-1].value)
    assert out["data"].keys() == {"probs", "probs_raw"}


def test_protobuf_of_others_is_corrected_and_read_by_others(
    broker: Served, registry: Served, tmp_path: Path
) -> None:
    """Predictions and labels are of two types; the types come from a descriptor set. The output
    has prediction sets."""
    path = tmp_path / "fraud.desc"
    path.write_bytes(formats.proto().SerializeToString())
    app = app_of(
        broker, registry.url, "protobuf", protobuf_descriptor=str(path),
        protobuf_message="com.example.Fraud", protobuf_label_message="com.example.Outcome",
        sets=0.8,
    )  # fmt: skip
    made = formats.fill(
        app, 300,
        formats.proto_serializer(registry.url, app.given["input"], "Fraud"),
        formats.proto_serializer(registry.url, app.given["labels"], "Outcome"),
    )  # fmt: skip
    run_once(app, learned=300)
    assert sum(len(app.outputs(p)) for p in range(app.partitions)) == 300
    assert letters(app) == []
    decode, changed = formats.proto_deserializer(app.given["output"]), 0
    for record in (one for p in range(app.partitions) for one in app.outputs(p)):
        got = decode(record.value)
        given = made[int(got["id"])]
        assert got.pop("probs_raw") == given["model"]["probs"]
        probs = got["model"]["probs"]
        assert got.pop("set")[0] == app.given["classes"][probs.index(max(probs))]
        changed += got["model"]["probs"] != given["model"]["probs"]
        got["model"]["probs"] = given["model"]["probs"]
        assert got == given | {"id": str(given["id"]), "at": str(given["at"])}
    assert changed > 200
    subject = app.settings().subject
    assert Registry(registry.url).latest(subject)[1].kind == "PROTOBUF"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"protobuf_message": "com.example.Nothing"}, "com.example.Nothing"),
        ({"protobuf_descriptor": "nowhere.desc"}, "nowhere.desc"),
        ({"protobuf_first_field": 2}, "protobuf_first_field"),
        ({"probs": "model.name"}, "model.name"),
    ],
)
def test_types_that_do_not_fit_are_named_at_once(
    broker: Served, registry: Served, tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    path = tmp_path / "fraud.desc"
    path.write_bytes(formats.proto().SerializeToString())
    given = {"protobuf_descriptor": str(path), "protobuf_message": "com.example.Fraud"}
    with pytest.raises((SettingsError, ValueError), match=re.escape(says)):
        Worker(
            Settings(
                bootstrap_servers=broker.bootstrap_servers.split(","), application_id="x",
                input="in", output="out", classes=["a", "b"], format="protobuf",
                schema_registry=registry.url, **(AT | given | changed),
            )
        )  # fmt: skip
