"""The registry's client: against a real registry, and against faults that no real one shows."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import ssl
import subprocess
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from stream_can.kafka.client import registry as module
from stream_can.kafka.client.guards import DeniedError, RetryError
from stream_can.kafka.client.registered_schema import Reference, RegisteredSchema
from stream_can.kafka.client.registry import RefusedSchema, Registry, UnknownSchema
from tests.kafka.broker.broker import STORE_PASSWORD, Served, free_ports, keystore
from tests.kafka.broker.registry import Apicurio, set_rule
from tests.programs import wait

SECRET = "hush/hush"
QUOTED = "hush%2Fhush"


def record(*fields: dict[str, Any], name: str = "Fraud") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "x", "fields": [*fields]})


def nullable(name: str) -> dict[str, Any]:
    kind = ["null", {"type": "array", "items": "double"}]
    return {"name": name, "type": kind, "default": None}


ID = {"name": "id", "type": "string"}
PROBS = {"name": "probs", "type": {"type": "array", "items": "double"}}


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}-value"


# Against the real one


def test_what_is_registered_is_read(registry: Served) -> None:
    ours = Registry(registry.url)
    subject, text = unique("fraud"), record(ID, PROBS)
    assert ours.compatible(subject, "AVRO", text) == []
    known = ours.register(subject, "AVRO", text)
    assert ours.schema(known) == RegisteredSchema("AVRO", text)
    assert ours.register(subject, "AVRO", text) == known
    assert Registry(registry.url + "/").register(subject, "AVRO", text) == known
    other = ours.register(subject, "AVRO", record(ID, PROBS, nullable("probs_raw")))
    assert other != known
    assert "probs_raw" in Registry([registry.url]).schema(other).text


def test_workers_that_register_at_once_are_not_refused(registry: Served) -> None:
    """A registry may answer to the second of them that the subject is there already."""
    for _ in range(10):
        subject, text = unique("fraud"), record(ID, PROBS)
        start = threading.Barrier(8)

        def register(_: int, subject: str = subject, start: Any = start, text: str = text) -> int:
            ours = Registry(registry.url)
            start.wait(280)
            return ours.register(subject, "AVRO", text)

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(register, range(8)))) == 1


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("PROTOBUF", 'syntax = "proto3"; package x; message Fraud { repeated double probs = 1; }'),
        ("JSON", '{"type": "object", "properties": {"probs": {"type": "array"}}}'),
    ],
)
def test_other_kinds(registry: Served, kind: module.Kind, text: str) -> None:
    ours = Registry(registry.url)
    known = ours.register(unique("fraud"), kind, text)
    assert ours.schema(known) == RegisteredSchema(kind, text)


def test_what_is_compatible_is_the_registry_s_rule(registry: Served) -> None:
    ours, subject = Registry(registry.url), unique("fraud")
    ours.register(subject, "AVRO", record(ID, PROBS))
    set_rule(registry.url, "BACKWARD", subject)
    added = record(ID, PROBS, nullable("probs_raw"))
    assert ours.compatible(subject, "AVRO", added) == []
    ours.register(subject, "AVRO", added)
    bad = record(ID, {"name": "probs", "type": "string"}, nullable("probs_raw"))
    (reason,) = ours.compatible(subject, "AVRO", bad)
    assert "STRING not compatible with writer type: ARRAY" in reason
    (reason,) = ours.compatible(subject, "AVRO", '{"type": "rec')
    assert reason
    with pytest.raises(RefusedSchema, match=f"'{subject}'.* STRING not compatible with writer"):
        ours.register(subject, "AVRO", bad)
    with pytest.raises(RefusedSchema, match=r"refuses a schema .*\w{3}"):
        ours.register(subject, "AVRO", '{"type": "rec')
    assert ours.register(subject, "AVRO", record(ID, PROBS)) > 0


def test_protobuf_s_rule(registry: Served) -> None:
    """Of .proto files: Apicurio 2 answers 500 where it is to compare descriptors in base64."""
    ours, subject = Registry(registry.url), unique("fraud")
    text = 'syntax = "proto3"; package x; message Fraud { repeated double probs = 1; %s }'
    ours.register(subject, "PROTOBUF", text % "")
    set_rule(registry.url, "BACKWARD", subject)
    added = text % "repeated double probs_raw = 20001;"
    assert ours.compatible(subject, "PROTOBUF", added) == []
    ours.register(subject, "PROTOBUF", added)
    bad = (text % "").replace("double", "string")
    assert "not backward compatible" in " ".join(ours.compatible(subject, "PROTOBUF", bad))
    with pytest.raises(RefusedSchema, match="not backward compatible"):
        ours.register(subject, "PROTOBUF", bad)


def test_asking_registers_nothing(registry: Served) -> None:
    ours, subject = Registry(registry.url), unique("fraud")
    assert ours.compatible(subject, "AVRO", record(ID)) == []
    set_rule(registry.url, "BACKWARD", subject)
    assert ours.compatible(subject, "AVRO", record({"name": "id", "type": "int"})) == []


def test_references_of_references(registry: Served) -> None:
    ours = Registry(registry.url)
    scores, customer, fraud = unique("scores"), unique("customer"), unique("fraud")
    of_scores = record(PROBS, name="Scores")
    of_customer = record(ID, {"name": "last", "type": "x.Scores"}, name="Customer")
    text = record(
        {"name": "customer", "type": "x.Customer"}, {"name": "now", "type": "x.Scores"}
    )  # fmt: skip
    ours.register(scores, "AVRO", of_scores)
    to_scores, to_customer = Reference("x.Scores", scores, 1), Reference("x.Customer", customer, 1)
    ours.register(customer, "AVRO", of_customer, [to_scores])
    known = ours.register(fraud, "AVRO", text, [to_customer, to_scores])
    found = Registry(registry.url).schema(known)
    assert found.text == text
    assert list(found.references.items()) == [("x.Scores", of_scores), ("x.Customer", of_customer)]
    assert found.direct == (to_customer, to_scores)
    with pytest.raises(RefusedSchema):
        ours.register(fraud, "AVRO", text, [Reference("x.Scores", unique("none"), 1)])


def test_what_confluent_s_serializers_register(registry: Served) -> None:
    """An id behind a byte 0; Protobuf's text is a descriptor in base64, not a .proto file."""
    ours, theirs = Registry(registry.url), SchemaRegistryClient({"url": registry.url})
    subject = unique("fraud")
    topic = subject.removesuffix("-value")
    context = SerializationContext(topic, MessageField.VALUE, [])
    value = AvroSerializer(theirs, record(PROBS))({"probs": [0.25, 0.75]}, context)
    assert (value[0], value[5:6]) == (0, b"\x04")  # two items
    assert ours.schema(int.from_bytes(value[1:5])).text == record(PROBS)
    assert ours.register(subject, "AVRO", record(PROBS)) == int.from_bytes(value[1:5])

    context.topic = f"{topic}-json"
    text = '{"title": "x", "type": "object", "properties": {"probs": {"type": "array"}}}'
    value = JSONSerializer(text, theirs)({"probs": [0.25, 0.75]}, context)
    assert (value[0], value[5:6]) == (0, b"{")
    assert ours.schema(int.from_bytes(value[1:5])) == RegisteredSchema("JSON", text)

    context.topic = f"{topic}-protobuf"
    file = FileDescriptorProto(name="fraud.proto", package="x", syntax="proto3")
    file.message_type.add(name="Fraud").field.add(
        name="probs", number=1, type=Field.TYPE_DOUBLE, label=Field.LABEL_REPEATED
    )
    pool = DescriptorPool()
    pool.Add(file)
    message = GetMessageClass(pool.FindMessageTypeByName("x.Fraud"))
    write = ProtobufSerializer(message, theirs, {"use.deprecated.format": False})
    value = write(message(probs=[0.25, 0.75]), context)
    assert (value[0], value[5]) == (0, 0)  # the file's first message
    found = ours.schema(int.from_bytes(value[1:5]))
    assert found.kind == "PROTOBUF"
    described = FileDescriptorProto.FromString(base64.b64decode(found.text))
    assert described.message_type[0].field[0].name == "probs"


def test_an_id_that_it_does_not_know(registry: Served) -> None:
    ours = Registry(registry.url)
    for unknown in (0, 2**31 - 1):
        with pytest.raises(UnknownSchema, match=f"knows no schema id {unknown}: .*{unknown}"):
            ours.schema(unknown)
    for none in (-1, 2**31, 2**32 - 1):
        with pytest.raises(UnknownSchema, match=f"{none} is no id of a schema"):
            ours.schema(none)
    with pytest.raises(UnknownSchema, match="schema GUID 00000000-0000-0000-0000-000000000007"):
        ours.schema_by_guid(uuid.UUID(int=7))


def test_a_path_that_is_none_of_its_api_makes_no_dead_letters(registry: Served) -> None:
    ours = Registry(registry.url.removesuffix("/apis/ccompat/v7"))
    with pytest.raises(RetryError, match=r"answers 404: .*address of a schema registry's API"):
        ours.schema(1)
    with pytest.raises(RetryError, match="answers 404"):
        ours.register("fraud", "AVRO", '"string"')
    with pytest.raises(RetryError, match="answers 404"):
        ours.compatible("fraud", "AVRO", '"string"')


def test_it_is_away_and_comes_back(own_registry: Apicurio) -> None:
    """What is known is known meanwhile; the rest is trouble; and its ids are the same after."""
    ours, subject = Registry(own_registry.url), unique("fraud")
    known = ours.register(subject, "AVRO", record(ID))
    ours.schema(known)
    own_registry.stop()
    assert ours.schema(known).text == record(ID)
    assert ours.register(subject, "AVRO", record(ID)) == known
    with pytest.raises(RetryError, match=f"no schema registry answers: {own_registry.url}: Conn"):
        ours.schema(known + 1)
    with pytest.raises(RetryError, match="Connection refused"):
        ours.compatible(subject, "AVRO", record(ID, PROBS))
    own_registry.start()
    new = ours.register(subject, "AVRO", record(ID, PROBS))
    own_registry.kill()
    own_registry.start()
    fresh = Registry(own_registry.url)
    assert fresh.schema(known).text == record(ID)
    assert fresh.schema(new).text == record(ID, PROBS)


# Faults, by a stand-in


Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        with contextlib.suppress(OSError):  # they went away
            self.server.answer(self)
        self.close_connection = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def say(self, status: int, body: bytes, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class StandIn(ThreadingHTTPServer):
    """A registry that answers as a test tells it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_ports(1)[0]), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answer: Answer = says(200, schema())
        self.ended = threading.Event()


@pytest.fixture
def stand_ins() -> Iterator[Callable[[], StandIn]]:
    made: list[StandIn] = []

    def make() -> StandIn:
        made.append(StandIn())
        threading.Thread(target=made[-1].serve_forever, args=(0.01,), daemon=True).start()
        return made[-1]

    yield make
    for server in made:
        server.ended.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def stand_in(stand_ins: Callable[[], StandIn]) -> StandIn:
    return stand_ins()


def schema(text: str = '"string"', **more: Any) -> bytes:
    return json.dumps({"schema": text, **more}).encode()


def says(status: int, body: bytes, length: int | None = None, **headers: str) -> Answer:
    return lambda handler: handler.say(status, body, length, **headers)


UNKNOWN = says(404, b'{"error_code": 40403, "message": "Schema not found"}')


def hangs(handler: Handler) -> None:
    handler.server.ended.wait(280)


def drips(handler: Handler) -> None:
    """Never long enough without a byte."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.ended.wait(0.05):
        handler.wfile.write(b" ")


def drips_a_header(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not handler.server.ended.wait(0.05):
        handler.wfile.write(b"x")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (hangs, "within 0.5 s"),
        (drips, "within 0.5 s"),
        (drips_a_header, "within 0.5 s"),
        (
            says(500, b'{"error_code": 50001, "message": "Store\\n down"}'),
            "answers 500: Store down",
        ),
        (says(500, b'{"message": "\xff"}'), "answers 500: "),
        (says(500, b"[" * 200_000), "answers 500: "),
        (says(200, b'{"x":' * 200_000), "no answer of a schema registry"),
        (says(503, b""), "answers 503: Service Unavailable"),
        (says(429, b"slow\x1b[2J down"), r"answers 429: slow \[2J down"),
        (says(200, b"<html>a login"), "no answer of a schema registry: <html>a login"),
        (says(200, b"[]"), "no answer of a schema registry"),
        (says(200, b"\xff{}"), "no answer of a schema registry"),
        (says(200, b'{"schema": 1}'), "no answer of a schema registry"),
        (says(200, schema()[:-3], 100), "no answer of a schema registry"),
        (says(404, b"<html>no such page"), "answers 404: <html>no such page; is it the address"),
        (says(404, b'{"error_code": 40403'), "answers 404"),
        (says(204, b""), "answers 204"),
        (lambda handler: None, "closed connection without response"),
        (lambda handler: handler.wfile.write(b"SSH-2.0\r\n"), "SSH-2.0"),
        (says(200, schema("x" * (8 << 20))), "an answer of more than 8 MiB"),
        (says(302, b"", Location="ftp://127.0.0.1/x"), "answers 302"),
    ],
)
def test_trouble_is_waited_for(
    stand_in: StandIn, answer: Answer, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours = Registry(stand_in.url, timeout=0.5 if "within" in words else 280)
    stand_in.answer = answer
    with pytest.raises(RetryError, match=words) as caught:
        ours.schema(7)
    assert stand_in.url in str(caught.value)
    with pytest.raises(RetryError):
        ours.register("fraud", "AVRO", '"int"')
    with pytest.raises(RetryError):
        ours.compatible("fraud", "AVRO", '"int"')
    stand_in.answer = says(200, schema())
    assert ours.schema(7).text == '"string"'  # trouble is not remembered


def test_an_id_is_asked_once_however_many_ask(stand_in: StandIn) -> None:
    ours = Registry(stand_in.url)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ours.schema, [3, 4] * 50))
    assert {one.text for one in found} == {'"string"'}
    assert sorted(path for path, _ in stand_in.asked) == ["/schemas/ids/3", "/schemas/ids/4"]


def test_what_is_known_waits_for_nobody(stand_in: StandIn) -> None:
    ours = Registry(stand_in.url, timeout=120)
    ours.schema(7)
    stand_in.answer = hangs
    with ThreadPoolExecutor() as pool:
        other = pool.submit(ours.schema, 8)
        wait("asked", lambda: len(stand_in.asked) == 2)
        assert ours.schema(7).text == '"string"'
        assert not other.done()
        stand_in.ended.set()
        with pytest.raises(RetryError):
            other.result()


def test_what_failed_is_asked_again_after_a_while(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now, sleep=print))
    ours = Registry(stand_in.url)
    stand_in.answer = UNKNOWN
    for _ in range(3):
        with pytest.raises(UnknownSchema, match="knows no schema id 7: Schema not found"):
            ours.schema(7)
    assert len(stand_in.asked) == 1
    stand_in.answer = says(409, b'{"error_code": 409, "message": "%s"}' % (b"no " * 999))
    for _ in range(3):
        with pytest.raises(RefusedSchema, match=r"'fraud': (no )+\.\.\.$") as refused:
            ours.register("fraud", "AVRO", '"int"')
        assert len(str(refused.value)) < 400
    assert len(stand_in.asked) == 2 + len(module.AT_ONCE_SECONDS)
    now += module.AGAIN_SECONDS
    stand_in.answer = says(200, schema())
    assert ours.schema(7).text == '"string"'
    stand_in.answer = says(200, b'{"id": 9}')
    assert ours.register("fraud", "AVRO", '"int"') == 9


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_refusals(stand_in: StandIn, status: int) -> None:
    stand_in.answer = says(status, b"<html>no")
    ours = Registry(stand_in.url)
    with pytest.raises(RefusedSchema, match=r"'fraud': <html>no$"):
        ours.register("fraud", "AVRO", '"int"')
    assert ours.compatible("fraud", "AVRO", '"int"') == ["<html>no"]
    with pytest.raises(RetryError, match=f"answers {status}"):
        ours.schema(7)


def test_confluent_s_verdict(stand_in: StandIn) -> None:
    stand_in.answer = says(200, b'{"is_compatible": false, "messages": ["one", "two"]}')
    assert Registry(stand_in.url).compatible("a/b c", "JSON", "{}") == ["one", "two"]
    path = "/compatibility/subjects/a%2Fb%20c/versions/latest?verbose=true"
    assert stand_in.asked[0][0] == path


def test_a_guid(stand_in: StandIn) -> None:
    guid = uuid.UUID("89791762-2336-186f-9674-180cb1e6a1b5")
    assert Registry(stand_in.url).schema_by_guid(guid).kind == "AVRO"
    assert stand_in.asked[0][0] == f"/schemas/guids/{guid}"


def refers(*to: tuple[str, str, int]) -> bytes:
    names = ("name", "subject", "version")
    return schema(references=[dict(zip(names, one, strict=True)) for one in to])


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"/ids/7": refers(("a", "A", 1)), "/A/": None}, "no version 1 of 'A', which schema id 7"),
        ({"/ids/7": refers(("a", "A", 1), ("a", "A", 2)), "/A/": schema()}, "'a' is .*1.* and .*2"),
        ({"/ids/7": schema(schemaType="XML")}, "schema id 7 is 'XML'"),
    ],
)
def test_a_schema_that_cannot_be_had_whole(
    stand_in: StandIn, answers: dict[str, bytes | None], words: str
) -> None:
    def answer(handler: Handler) -> None:
        (body,) = [body for part, body in answers.items() if part in handler.path]
        (UNKNOWN if body is None else says(200, body))(handler)

    stand_in.answer = answer
    with pytest.raises(UnknownSchema, match=words):
        Registry(stand_in.url).schema(7)


def test_references_in_a_circle_or_without_end(stand_in: StandIn) -> None:
    stand_in.answer = says(200, refers(("a", "A", 1), ("b", "B", 1)))
    assert list(Registry(stand_in.url).schema(7).references) == ["b", "a"]
    ours = Registry(stand_in.url)
    count = iter(range(10**9))
    stand_in.answer = lambda handler: handler.say(200, refers((f"n{next(count)}", "A", 1)))
    with pytest.raises(UnknownSchema, match=f"schema id 8 refers to more than {module.REFERENCES}"):
        ours.schema(8)


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_are_needed(stand_in: StandIn, status: int) -> None:
    stand_in.answer = says(status, b'{"error_code": %d, "message": "Who?"}' % status)
    with pytest.raises(DeniedError, match=f"{status} Who\\?; give schema_registry_user and"):
        Registry(stand_in.url).schema(7)
    with pytest.raises(DeniedError, match=r"; (check|give) schema_registry_user"):
        Registry(stand_in.url, user="me", password=SECRET).register("fraud", "AVRO", '"int"')


@pytest.mark.parametrize("how", ["given", "in the address"])
def test_no_secret_is_said(stand_in: StandIn, how: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    host = stand_in.url.removeprefix("http://")
    both = base64.b64encode(f"me:{SECRET}".encode()).decode()
    url = stand_in.url if how == "given" else f"http://me:{QUOTED}@{host}/"
    given = {"user": "me", "password": SECRET} if how == "given" else {}
    ours = Registry(url, timeout=0.5, **given)
    texts = [repr(ours), str(ours)]
    echo = f'{{"error_code": 40403, "message": "{SECRET} {QUOTED} {both}"}}'.encode()
    answers = [says(status, echo) for status in (200, 400, 401, 403, 404, 409, 422, 500)]
    for answer in [*answers, hangs, lambda handler: None]:
        stand_in.answer = answer
        for call in (
            lambda: Registry(url, timeout=0.5, **given).schema(7),
            lambda: Registry(url, timeout=0.5, **given).register("fraud", "AVRO", '"int"'),
        ):
            with pytest.raises((RetryError, DeniedError, UnknownSchema, RefusedSchema)) as caught:
                call()
            texts += [*traceback.format_exception(caught.value), repr(caught.value)]
        with contextlib.suppress(RetryError, DeniedError):
            texts += ours.compatible("fraud", "AVRO", '"int"')
    assert {headers["Authorization"] for _, headers in stand_in.asked} == {f"Basic {both}"}
    for secret in (SECRET, QUOTED, both):
        assert secret not in "\n".join(texts) + caplog.text


@pytest.mark.parametrize("elsewhere", [False, True])
def test_credentials_stay_at_their_host(
    stand_in: StandIn, stand_ins: Callable[[], StandIn], elsewhere: bool
) -> None:
    other = stand_ins() if elsewhere else stand_in
    there = says(200, schema())

    def moved(handler: Handler) -> None:
        if handler.path == "/there":
            there(handler)
        else:
            handler.say(301, b"", Location=f"{other.url}/there")

    stand_in.answer = other.answer = moved
    ours = Registry(stand_in.url, user="me", password=SECRET)
    assert ours.schema(7).text == '"string"'
    path, headers = other.asked[-1]
    assert path == "/there"
    assert ("Authorization" in headers) != elsewhere
    with pytest.raises(RetryError, match="answers 301"):  # what is registered goes nowhere else
        ours.register("fraud", "AVRO", '"int"')
    if elsewhere:
        other.answer = says(401, b"")
        with pytest.raises(DeniedError, match=f"redirects to {other.url}, where credentials do n"):
            ours.schema(8)


def test_the_next_address_is_asked(stand_ins: Callable[[], StandIn]) -> None:
    one, two = stand_ins(), stand_ins()
    one.answer = says(500, b"")
    ours = Registry(f"{one.url}, {two.url}/")
    assert ours.schema(7).text == '"string"'
    ours.schema(8)
    assert (len(one.asked), len(two.asked)) == (1, 2)  # it is begun with the one that answers
    two.answer = says(503, b"")
    with pytest.raises(RetryError, match=f"{two.url}: answers 503.*; {one.url}: answers 500"):
        ours.schema(9)


@pytest.mark.fast
@pytest.mark.parametrize(
    "url",
    ["", ",", "registry:8081", "ftp://a", "http://", "http://a:x", "http://a?b=c", "http://a b"],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Registry(url)
    with pytest.raises(ValueError, match="address 2") as caught:
        Registry(["http://a", f"ftp://me:{SECRET}@b"])
    assert SECRET not in str(caught.value)


def certified(stand_in: StandIn, name: str, folder: Path) -> str:
    """The stand-in's address from now on, with a certificate of the brokers'."""
    pem, password = folder / f"{name}.pem", f"pass:{STORE_PASSWORD}"
    subprocess.run(
        ["openssl", "pkcs12", "-in", keystore(name), "-passin", password, "-nodes", "-out", pem],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    stand_in.socket = context.wrap_socket(stand_in.socket, server_side=True)
    return stand_in.url.replace("http", "https")


def test_a_certificate_of_ones_own_authority(stand_in: StandIn, tmp_path: Path) -> None:
    url = certified(stand_in, "broker", tmp_path)
    ours = Registry(url, ca=str(keystore("broker").with_suffix(".pem")), user="me", password="x")
    assert ours.schema(7).text == '"string"'
    with pytest.raises(DeniedError, match=r"self.signed certificate; schema_registry_ca names"):
        Registry(url).schema(7)
    with pytest.raises(RetryError):
        Registry(stand_in.url).schema(7)  # without TLS
    assert len(stand_in.asked) == 1


@pytest.mark.parametrize(
    ("name", "words"), [("expired", "certificate has expired"), ("elsewhere", "not valid for '127")]
)
def test_a_certificate_that_no_authority_helps(
    stand_in: StandIn, tmp_path: Path, name: str, words: str
) -> None:
    url = certified(stand_in, name, tmp_path)
    with pytest.raises(DeniedError, match=f"{url} is not trusted: .*{words}"):
        Registry(url, ca=str(keystore(name).with_suffix(".pem"))).schema(7)


@pytest.mark.fast
def test_an_authority_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DeniedError, match=r"schema_registry_ca: /nowhere\.pem: No such file"):
        Registry("https://a", ca="/nowhere.pem")
    (tmp_path / "ca.pem").write_text("none")
    with pytest.raises(DeniedError, match=r"schema_registry_ca: /.*ca\.pem: .*(?i:certificate)"):
        Registry("https://a", ca=str(tmp_path / "ca.pem"))
