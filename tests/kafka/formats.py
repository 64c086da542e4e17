"""The stream of `streams`, in the formats of a schema registry, as confluent-kafka's serializers
write them and its deserializers read them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.kafka.judge import Label
from tests.kafka.streams import STAMP, App
from tests.kafka.topics import produce

Write = Callable[[Any], bytes]

ARRAY = {"type": "array", "items": "double"}
FRAUD: dict[str, Any] = {
    "type": "record", "name": "Fraud", "namespace": "com.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "model", "type": {"type": "record", "name": "Model", "fields": [
            {"name": "name", "type": "string"},
            {"name": "probs", "type": ARRAY}]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
LABEL: dict[str, Any] = {
    "type": "record", "name": "Label", "namespace": "com.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "label", "type": {"type": "enum", "name": "Class", "symbols": list("abcdz")}},
    ],
}  # fmt: skip
JSON_FRAUD: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Fraud", "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "model": {"type": "object", "properties": {
            "name": {"type": "string"},
            "probs": {"type": "array", "items": {"type": "number"}}},
            "additionalProperties": False},
        "at": {"type": "integer"},
    },
    "additionalProperties": False,
}  # fmt: skip
JSON_LABEL: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Label", "type": "object",
    "properties": {"id": {"type": "integer"}, "label": {"type": "string"}},
}  # fmt: skip

LABELS: dict[str, Any] = LABEL | {"fields": [
    LABEL["fields"][0],
    {"name": "labels", "type": ["null", {"type": "array", "items": "string"}], "default": None},
]}  # fmt: skip
JSON_LABELS: dict[str, Any] = JSON_LABEL | {"properties": {
    "id": {"type": "integer"}, "labels": {"type": "array", "items": {"type": "string"}}
}}  # fmt: skip


def proto(*, answered: bool = False) -> Any:
    """The types of predictions and labels, in two files; with what is added to answers."""
    kind = descriptor_pb2.FieldDescriptorProto
    model = descriptor_pb2.FileDescriptorProto(
        name="model.proto", package="com.example", syntax="proto3"
    )
    fraud = descriptor_pb2.FileDescriptorProto(
        name="fraud.proto", package="com.example", syntax="proto3", dependency=["model.proto"]
    )

    def add(file: Any, name: str, *fields: tuple[str, int, int, bool]) -> Any:
        message = file.message_type.add(name=name)
        for field, number, type_, many in fields:
            label = kind.LABEL_REPEATED if many else kind.LABEL_OPTIONAL
            message.field.add(name=field, number=number, type=type_, label=label)
        return message

    add(model, "Model", ("name", 1, kind.TYPE_STRING, False), ("probs", 2, kind.TYPE_DOUBLE, True))
    one = add(
        fraud, "Fraud", ("id", 1, kind.TYPE_INT64, False), ("note", 2, kind.TYPE_STRING, False),
        ("model", 3, kind.TYPE_MESSAGE, False), ("at", 4, kind.TYPE_INT64, False),
        *[
            ("probs_raw", 20001, kind.TYPE_DOUBLE, True), ("set", 20003, kind.TYPE_STRING, True),
        ] * answered,
    )  # fmt: skip
    one.field[2].type_name = ".com.example.Model"
    add(fraud, "Outcome", ("id", 1, kind.TYPE_INT64, False), ("label", 2, kind.TYPE_STRING, False))
    add(fraud, "Labels", ("id", 1, kind.TYPE_INT64, False), ("labels", 2, kind.TYPE_STRING, True))
    return descriptor_pb2.FileDescriptorSet(file=[model, fraud])


def proto_class(files: Any, name: str) -> Any:
    """The class of a message."""
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"com.example.{name}"))


def proto_serializer(url: str, topic: str, name: str) -> Write:
    """Confluent's, of dictionaries."""
    made = proto_class(proto(), name)
    write = ProtobufSerializer(made, client(url), {"use.deprecated.format": False})
    context = SerializationContext(topic, MessageField.VALUE)
    return lambda value: write(ParseDict(value, made()), context)  # type: ignore[no-any-return]


def proto_deserializer(topic: str) -> Callable[[bytes], Any]:
    """Confluent's, of answers; with all fields as dictionaries."""
    read = ProtobufDeserializer(
        proto_class(proto(answered=True), "Fraud"), {"use.deprecated.format": False}
    )
    context = SerializationContext(topic, MessageField.VALUE)
    return lambda value: MessageToDict(
        read(value, context),
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )


AT = {"id": "id", "probs": "model.probs"}
"""The settings that say where everything is."""


CLIENTS: dict[str, SchemaRegistryClient] = {}


def client(url: str) -> SchemaRegistryClient:
    if url not in CLIENTS:
        CLIENTS[url] = SchemaRegistryClient({"url": url})
    return CLIENTS[url]


def close() -> None:
    """Close the connections to registries, which confluent-kafka leaves to the collector."""
    while CLIENTS:
        CLIENTS.popitem()[1]._rest_client.session.close()


def serializer(kind: str, url: str, topic: str, schema: dict[str, Any]) -> Write:
    """Confluent's, for the values of a topic."""
    make = {"avro": AvroSerializer, "json-schema": JSONSerializer}[kind]
    text = json.dumps(schema)
    write = make(client(url), text) if kind == "avro" else make(text, client(url))
    context = SerializationContext(topic, MessageField.VALUE)
    return lambda value: write(value, context)  # type: ignore[no-any-return]


def deserializer(kind: str, url: str, topic: str) -> Callable[[bytes], Any]:
    """Confluent's, by the schema that each value names."""
    context = SerializationContext(topic, MessageField.VALUE)
    if kind == "avro":
        read: Any = AvroDeserializer(client(url))
    else:
        read = JSONDeserializer(None, schema_registry_client=client(url))
    return lambda value: read(value, context)


def fraud(number: int, message: dict[str, Any], stamp: int) -> dict[str, Any]:
    """A prediction of `streams` as a record of Fraud; scores of labels are its probabilities."""
    model = {"name": "forest", "probs": message.get("probs", message.get("scores"))}
    return {"id": number, "note": message["note"], "model": model, "at": stamp}


def fill(
    app: App, n: int, write: Write, write_label: Write, seed: int = 0, *, delay: int = 40
) -> dict[int, dict[str, Any]]:
    """n predictions and their labels, as `streams.fill`; the records of predictions by id."""
    rng = random.Random(seed)
    predictions, labels, made = [], [], {}
    for i in range(n):
        key, text, truth = app.predict(rng, i)
        partition, stamp = i % app.partitions, STAMP + seed * 1_000_000 + i
        number = 1_000_000 * seed + i
        made[number] = fraud(number, json.loads(text), stamp)
        name = "label" if isinstance(truth, str) else "labels"
        value, label = write(made[number]), write_label({"id": number, name: truth})
        predictions.append((app.given["input"], partition, key, value, [("h", b"1")], stamp))
        labels.append((app.given["labels"], partition, key, label, [], stamp + delay))
    produce(app.servers, predictions, labels)
    return made


def reading(app: App, kind: str) -> dict[str, Any]:
    """How `App.verify` reads messages of a registry's format."""
    url, s = app.given["schema_registry"], app.given
    labels = deserializer(kind, url, s["labels"])

    def read_label(record: Any) -> Label | None:
        says = labels(record.value)
        id = str(says["id"]).encode()
        if "labels" in says:
            has = {name: name in says["labels"] for name in s["classes"]}
            return Label(id, has, None, None, record.timestamp / 1000)
        known = says["label"] in s["classes"]
        return Label(id, says["label"], None, None, record.timestamp / 1000) if known else None

    return {"read_label": read_label, "parse": deserializer(kind, url, s["input"])}
