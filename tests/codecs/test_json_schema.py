"""JSON objects behind the number of a schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from stream_can import Corrector
from stream_can.messages.codecs.framing import AnswerFields, SchemaText
from stream_can.messages.codecs.json_schema import JsonSchemaCodec, output_schema
from stream_can.messages.fields import fields_of
from stream_can.messages.formats import Formats
from stream_can.messages.kinds import messages_of
from stream_can.messages.messages import BadMessage, Fields, Messages
from stream_can.messages.records import Record
from tests.codecs.schemas import InMemory
from tests.messages.stream import corrected

pytestmark = pytest.mark.fast

NUMBERS = {"type": "array", "items": {"type": "number"}}
CLOSED = {"type": "object", "additionalProperties": False}


def made(schema: Any, probs: str = "probs", raw: str = "probs_raw", **added: bool) -> Any:
    text = SchemaText("JSON", json.dumps(schema))
    return json.loads(output_schema(text, AnswerFields(probs.split("."), raw, **added)).text)


def test_the_added_fields_are_properties_of_the_answer() -> None:
    schema = CLOSED | {"properties": {"id": {"type": "integer"}, "probs": NUMBERS}}
    names = {"type": "array", "items": {"type": ["string", "number"]}}
    more = {"probs_raw": NUMBERS, "ask": {"type": "string"}, "set": names}
    want = schema | {"properties": schema["properties"] | more}
    assert made(schema, asks=True, sets=True) == want
    assert made(schema, raw="") == schema
    inner = CLOSED | {"properties": {"probs": NUMBERS}}
    nested = CLOSED | {"properties": {"model": inner}}
    want = inner | {"properties": {"probs": NUMBERS, "was": NUMBERS}}
    assert made(nested, "model.probs", "was") == nested | {"properties": {"model": want}}
    referred = {
        "properties": {"model": {"$ref": "#/definitions/a~1b"}},
        "definitions": {"a/b": inner},
    }
    assert made(referred, "model.probs", "was")["definitions"]["a/b"] == want


def test_decisions_are_texts() -> None:
    schema = CLOSED | {"properties": {"probs": NUMBERS}}
    added = {"probs_raw": NUMBERS, "decision": {"type": "string"}}
    want = schema | {"properties": schema["properties"] | added}
    assert made(schema, decides=True) == want


@pytest.mark.parametrize(
    "schema",
    [True, {}, {"type": "object"}, {"properties": 7}, {"$ref": "#"}, {"$ref": "http://x/y"},
     {"$ref": "#/no/where"}, {"properties": {"probs": True}}],
)  # fmt: skip
def test_a_schema_that_says_nothing_of_the_probabilities(schema: Any) -> None:
    assert "ask" not in json.dumps(made(schema, "model.probs"))


def test_sets_are_only_in_answers_whose_schema_has_them() -> None:
    schemas = InMemory()
    schema = CLOSED | {"properties": {"probs": NUMBERS}}
    for sets in (True, False):
        codec = JsonSchemaCodec(schemas, sets=sets)
        messages = Messages(["a", 2], formats=Formats(codec, codec))
        prediction = messages.read(schemas.add(schema, "JSON") + b'{"probs": [0.4, 0.6]}')
        prediction.set = [2, "a"]
        answer = messages.write(prediction, np.array([0.25, 0.75]))
        found = json.loads(bytes(codec.show(answer)))
        jsonschema.validate(found, json.loads(schemas.text(answer)))
        assert found.get("set") == ([2, "a"] if sets else None)


def test_messages() -> None:
    schemas = InMemory()
    codec = JsonSchemaCodec(schemas)
    schema = CLOSED | {"properties": {"id": {"type": "integer"}, "probs": NUMBERS}}
    head = schemas.add(schema, "JSON")
    messages = Messages(["a", "b"], Fields(id="id"), formats=Formats(codec, codec))
    body = b'{"id": 7, "note":  "\\u00fc", "probs": [0.4, 0.6]}'
    answer = messages.write(messages.read(head + body), np.array([0.25, 0.75]))
    assert answer[5:] == (b'{"id":7,"note":"\\u00fc","probs":[0.25,0.75],"probs_raw":[0.4, 0.6]}')
    assert "probs_raw" in schemas.text(answer)
    assert json.loads(bytes(codec.show(answer)))["id"] == 7
    sent = messages.read(answer)
    assert (messages.id_of(sent.message, None), sent.row.tolist()) == (b"7", [0.25, 0.75])
    label = schemas.add({"properties": {"label": {"type": "string"}}}, "JSON")
    assert messages.read_label(label + b'{"label": "b", "id": 7}').index == 1
    value = codec.write_label({"label": "b", "id": 7})
    assert messages.read_label(value).id == b"7"
    with pytest.raises(BadMessage, match="no schema is named: it looks like JSON, which format"):
        messages.read(body)
    with pytest.raises(BadMessage, match="not a JSON object"):
        messages.read(head + b"[")
    avro = schemas.add({"type": "string"}, "AVRO")
    with pytest.raises(BadMessage, match="schema 4: of kind AVRO, expected JSON"):
        messages.read(avro + body)
    broken = schemas.head(SchemaText("JSON", "{"))
    with pytest.raises(BadMessage, match="schema 5: "):
        messages.read(broken + body)


def test_mutated_messages_are_answered_or_refused() -> None:
    schemas = InMemory()
    codec = JsonSchemaCodec(schemas)
    head = schemas.add(CLOSED | {"properties": {"probs": NUMBERS}}, "JSON")
    value = head + b'{"probs": [0.25, 0.75], "x": {"y": [1, "\xc3\xbc"]}}'
    rng, values = np.random.default_rng(0), []
    for _ in range(20_000):
        data = bytearray(value)
        for _ in range(rng.integers(1, 3)):
            data[int(rng.integers(len(data)))] = rng.integers(256)
        values.append(bytes(data[: int(rng.integers(1, len(data) + 20))]))
    records = [Record("in", 0, i, 0, None, v) for i, v in enumerate(values)]
    result = corrected(Corrector(["a", "b"]), records, formats=Formats(codec, codec))
    assert len(result.outputs) + len(result.dead_letters) == len(values)
    assert len(result.outputs) > 50
    for one in result.outputs:
        json.loads(bytes(codec.show(one.value or b"")))


def test_rows_of_several_labels() -> None:
    schemas = InMemory()
    codec = JsonSchemaCodec(schemas, "scores", "scores_raw", sets=True)
    numbers = {"type": "array", "items": {"type": "number"}}
    schema = {"additionalProperties": False, "properties": {"scores": numbers}}
    fields = fields_of("multilabel")
    reads = messages_of("multilabel", ["cat", "dog", "fish"], fields, formats=Formats(codec, codec))
    prediction = reads.read(
        schemas.add(schema, "JSON") + json.dumps({"scores": [0.25, 0.5, 0.75]}).encode()
    )
    prediction.set = ["fish"]
    answer = reads.write(prediction, np.array([0.125, 0.75, 0.875]))
    found = json.loads(bytes(codec.show(answer)))
    assert found == {
        "scores": [0.125, 0.75, 0.875],
        "scores_raw": [0.25, 0.5, 0.75],
        "set": ["fish"],
    }
    jsonschema.validate(found, json.loads(schemas.text(answer)))
    label = schemas.add({}, "JSON") + b'{"labels": {"dog": true}}'
    assert reads.read_label(label).index == {"dog": True}
