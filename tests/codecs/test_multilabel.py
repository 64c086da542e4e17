"""Rows of several labels in Avro, Protobuf and JSON Schema: others' libraries write and read."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from stream_can import UnknownClass
from stream_can.messages.codecs.avro import AvroCodec
from stream_can.messages.codecs.json_schema import JsonSchemaCodec
from stream_can.messages.codecs.protobuf import ProtobufCodec
from stream_can.messages.fields import fields_of
from stream_can.messages.messages import BadMessage, Formats, Messages, messages_of
from tests.codecs.schemas import InMemory, decoded, encoded
from tests.codecs.test_avro import CLASSES, SHAPES, field, record_of, same
from tests.codecs.test_protobuf import (
    REPEATED,
    STRING,
    F,
    add,
    add_map,
    file_of,
    set_of,
    types_of,
)
from tests.codecs.test_protobuf import SHAPES as PROTO_SHAPES
from tests.codecs.test_protobuf import values_of as proto_values

pytestmark = pytest.mark.fast

ROW, NEW = [0.25, 0.5, 0.75], [0.125, 0.75, 0.875]  # no sum of 1


def messages(codec: Any, classes: Any = CLASSES, **named: str) -> Messages:
    fields = fields_of("multilabel", id="id", **named)
    return messages_of("multilabel", classes, fields, formats=Formats(codec, codec))


# ---- Avro


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_in_avro(shape: str) -> None:
    type_, of = SHAPES[shape]
    schema, schemas = record_of(field("id", "long"), field("scores", type_)), InMemory()
    reads = messages(AvroCodec(schemas, "scores", "scores_raw", sets=True))
    prediction = reads.read(schemas.add(schema) + encoded(schema, {"id": 7, "scores": of(ROW)}))
    assert prediction.row.tolist() == ROW
    for names in (["fish", "dog"], []):  # decided on; of a row none may be
        prediction.set = names
        answer = reads.write(prediction, np.array(NEW))
        found = decoded(schemas.text(answer), answer[5:])
        assert same(found["scores"], NEW)
        assert same(found["scores_raw"], ROW)
        assert (found["id"], found["set"]) == (7, names)
        assert same(decoded(schemas.text(answer), answer[5:], schema)["scores"], NEW)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize(
    ("type_", "value", "want"),
    [
        ("string", ["dog", "cat"], ["dog", "cat"]),
        ("string", [], []),
        ({"type": "enum", "name": "L", "symbols": ["cow", *CLASSES]}, ["fish"], ["fish"]),
        (None, {"dog": True, "cat": False}, {"dog": True, "cat": False}),
        (None, {}, {}),
    ],
)
def test_labels_in_avro(type_: Any, value: Any, want: Any, nullable: bool) -> None:
    of: Any = {"type": "map", "values": "boolean"}
    if type_ is not None:
        of = {"type": "array", "items": type_}
    schema = record_of(field("labels", ["null", of] if nullable else of), field("id", "string"))
    schemas = InMemory()
    reads = messages(AvroCodec(schemas, "scores", "scores_raw"))
    label = reads.read_label(schemas.add(schema) + encoded(schema, {"labels": value, "id": "x"}))
    assert (label.index, label.id) == (want, b"x")
    if type_ is not None:  # as the labelling page writes them
        written = reads.labels.write_label({"labels": value, "id": "x"})
        assert decoded(schemas.text(written), written[5:]) == {"labels": value, "id": "x"}


def test_integers_as_labels_and_blocks_in_avro() -> None:
    schemas = InMemory()
    schema = record_of(field("labels", {"type": "array", "items": "long"}))
    reads = messages(AvroCodec(schemas, "scores", "scores_raw"), [1, -70, 300])
    head = schemas.add(schema)
    value = head + encoded(schema, {"labels": [300, -70]})
    assert reads.read_label(value).index == [300, -70]
    # As other writers make them: two blocks, the second says that it has one byte.
    assert reads.read_label(head + b"\x02\xd8\x04\x01\x02\x02\x00").index == [300, 1]


def test_what_are_no_labels_in_avro() -> None:
    schemas = InMemory()
    reads = messages(AvroCodec(schemas, "scores", "scores_raw"))
    for type_, value, error, says in (
        ({"type": "array", "items": "string"}, ["cow"], UnknownClass, "labels: 'cow' is none"),
        ("string", "dog", BadMessage, "labels: str, expected a list of labels"),
        (["null", "string"], None, BadMessage, "labels: null, expected a list of labels"),
    ):
        schema = record_of(field("labels", type_))
        with pytest.raises(error, match=says):
            reads.read_label(schemas.add(schema) + encoded(schema, {"labels": value}))
    schema = record_of(field("scores", "double"))
    with pytest.raises(BadMessage, match="scores: one number, but there are 3 labels"):
        reads.read(schemas.add(schema) + encoded(schema, {"scores": 0.5}))
    names = record_of(field("scores", {"type": "array", "items": "string"}))
    with pytest.raises(BadMessage, match="scores: an array of string, expected an array or map"):
        reads.read(schemas.add(names) + encoded(names, {"scores": ["dog"]}))


# ---- Protobuf


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@pytest.mark.parametrize("shape", PROTO_SHAPES)
def test_scores_in_protobuf(shape: str, syntax: str) -> None:
    file, of = file_of(syntax), PROTO_SHAPES[shape][1]
    message = file.message_type.add(name="M")
    PROTO_SHAPES[shape][0](message, "p.M")
    codec = ProtobufCodec(None, set_of(file), "p.M", "probs", "scores_raw", sets=True)
    reads = messages(codec, probs="probs")
    make = types_of(file)("p.M")
    prediction = reads.read(make(probs=of(ROW)).SerializeToString())
    assert prediction.row.tolist() == ROW
    prediction.set = ["fish", "dog"]
    answer = codec._make.FromString(reads.write(prediction, np.array(NEW)))
    assert sorted(map(str, proto_values(answer.probs))) == sorted(map(str, proto_values(of(NEW))))
    assert proto_values(answer.scores_raw) == of(ROW)
    assert list(answer.set) == ["fish", "dog"]


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_labels_in_protobuf(syntax: str) -> None:
    file = file_of(syntax)
    message = file.message_type.add(name="M")
    add(message, "labels", 1, STRING, REPEATED)
    add(message, "id", 2, STRING)
    add_map(message, "p.M", "said", 3, F.TYPE_BOOL)
    codec = ProtobufCodec(None, set_of(file), "p.M", "scores", "")
    reads, make = messages(codec), types_of(file)("p.M")
    for names in (["dog", "cat"], []):  # no repeated labels: the row has none of them
        label = reads.read_label(make(labels=names, id="x").SerializeToString())
        assert (label.index, label.id) == (names, b"x")
        written = codec.write_label({"labels": names, "id": "x"})
        assert make.FromString(written) == make(labels=names, id="x")
    with pytest.raises(UnknownClass, match="labels: 'cow' is none of the 3 labels"):
        reads.read_label(make(labels=["cow"]).SerializeToString())
    by_name = messages(codec, label="said")
    says = {"dog": True, "cat": False}
    assert by_name.read_label(make(said=says).SerializeToString()).index == says
    with pytest.raises(BadMessage, match="no field 'said'"):
        by_name.read_label(make(id="x").SerializeToString())
    numbers = messages(codec, [7, 8, 9])
    assert numbers.read_label(codec.write_label({"labels": [9, 7]})).index == [9, 7]
    if syntax == "proto2":
        wrong = b"\x0a\x02\xff\xfe" + b"\x1a\x06\x0a\x02\xff\xfe\x10\x01"
        for one in (reads, by_name):
            with pytest.raises((BadMessage, UnknownClass)):
                one.read_label(wrong)


# ---- JSON Schema


def test_json_schema() -> None:
    schemas = InMemory()
    codec = JsonSchemaCodec(schemas, "scores", "scores_raw", sets=True)
    numbers = {"type": "array", "items": {"type": "number"}}
    schema = {"additionalProperties": False, "properties": {"scores": numbers}}
    reads = messages(codec)
    prediction = reads.read(schemas.add(schema, "JSON") + json.dumps({"scores": ROW}).encode())
    prediction.set = ["fish"]
    answer = reads.write(prediction, np.array(NEW))
    found = json.loads(bytes(codec.show(answer)))
    assert found == {"scores": NEW, "scores_raw": ROW, "set": ["fish"]}
    jsonschema.validate(found, json.loads(schemas.text(answer)))
    label = schemas.add({}, "JSON") + b'{"labels": {"dog": true}}'
    assert reads.read_label(label).index == {"dog": True}
