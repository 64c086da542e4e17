"""Avro records: fastavro says what they hold, before and after."""

from __future__ import annotations

import itertools
import json
import struct
import threading
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector, InvalidPrediction, UnknownClass
from stream_can.messages.codecs.avro import AvroCodec, output_schema
from stream_can.messages.codecs.framing import AnswerFields, SchemaText
from stream_can.messages.codecs.json import JsonCodec
from stream_can.messages.codecs.single_object import SchemaFile, single
from stream_can.messages.fields import fields_of
from stream_can.messages.formats import JSON, Formats
from stream_can.messages.kinds import messages_of
from stream_can.messages.messages import BadMessage, Fields, Messages
from stream_can.messages.records import Record
from tests.codecs.schemas import InMemory, decoded, encoded, require_alike, rows_in
from tests.examples import examples
from tests.messages.stream import corrected

pytestmark = pytest.mark.fast

CLASSES = ["cat", "dog", "fish"]
ROW, NEW = [0.25, 0.5, 0.25], [0.125, 0.75, 0.125]

ENTRY = {"type": "record", "name": "Entry", "fields": [
    {"name": "label", "type": "string"}, {"name": "score", "type": "double"}]}  # fmt: skip
SWAPPED = {"type": "record", "name": "Entry", "fields": [
    {"name": "score", "type": "float"},
    {"name": "label", "type": {"type": "enum", "name": "L", "symbols": CLASSES}}]}  # fmt: skip
BY_FIELD = {"type": "record", "name": "Scores", "fields": [
    {"name": "fish", "type": "double"}, {"name": "cat", "type": "float"},
    {"name": "dog", "type": "double"}]}  # fmt: skip
SHAPES: dict[str, tuple[Any, Any]] = {
    "doubles": ({"type": "array", "items": "double"}, lambda row: row),
    "floats": ({"type": "array", "items": "float"}, lambda row: row),
    "map": ({"type": "map", "values": "double"}, lambda row: dict(zip(CLASSES, row, strict=True))),
    "float map": (
        {"type": "map", "values": {"type": "float"}},
        lambda row: dict(zip(CLASSES, row, strict=True)),
    ),
    "record": (BY_FIELD, lambda row: dict(zip(CLASSES, row, strict=True))),
    "entries": (
        {"type": "array", "items": ENTRY},
        lambda row: [{"label": n, "score": p} for n, p in zip(CLASSES, row, strict=True)],
    ),
    "swapped entries": (
        {"type": "array", "items": SWAPPED},
        lambda row: [{"label": n, "score": p} for n, p in zip(CLASSES, row, strict=True)],
    ),
}


def record_of(*fields: dict[str, Any], name: str = "Fraud", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def same(found: Any, row: list[float]) -> bool:
    """Whether probabilities, in whatever shape, are those of a row in the order of the classes."""
    if isinstance(found, list) and isinstance(found[0], dict):
        found = {one["label"]: one["score"] for one in found}
    if isinstance(found, dict):
        found = [found[name] for name in CLASSES]
    return bool(found == row)


def opened(schema: Any, datum: Any, fields: Fields | None = None, **options: Any) -> Any:
    """Schemas, messages, the value of a record, and the prediction that it is."""
    fields = fields or Fields(id="id")
    schemas = InMemory()
    value = schemas.add(schema) + encoded(schema, datum)
    codec = AvroCodec(schemas, fields.probs, fields.raw, **options)
    messages = Messages(CLASSES, fields, formats=Formats(codec, codec))
    return schemas, messages, value, messages.read(value)


# ---- shapes


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_is_answered_in_its_shape(shape: str, nested: bool, nullable: bool) -> None:
    type_, of = SHAPES[shape]
    probs = field("probs", ["null", type_] if nullable else type_)
    inside = [field("before", "long"), probs, field("after", "string")]
    values: dict[str, Any] = {"before": -7, "probs": of(ROW), "after": "x"}
    if nested:
        schema = record_of(field("model", [record_of(*inside, name="Model"), "null"]))
        datum: dict[str, Any] = {"model": values}
    else:
        schema, datum = record_of(*inside), values
    fields = Fields(probs="model.probs" if nested else "probs")
    schemas, messages, value, prediction = opened(schema, datum, fields)
    assert prediction.row.tolist() == ROW
    answer = messages.write(prediction, np.array(NEW))
    found = decoded(schemas.text(answer), answer[5:])
    inner = found["model"] if nested else found
    assert same(inner["probs"], NEW)
    assert same(found["probs_raw"], ROW)
    assert (inner["before"], inner["after"]) == (-7, "x")
    # Who knows the input's schema alone reads the answer, and the other way round.
    assert same(
        (decoded(schemas.text(answer), answer[5:], schema).get("model") or found)["probs"], NEW
    )
    assert (
        decoded(json.dumps(schema), value[5:], json.loads(schemas.text(answer)))["probs_raw"]
        is None
    )
    assert rows_in(messages, answer) == (NEW, ROW)
    assert messages.largest(prediction) >= len(answer)


def test_two_classes_are_one_number() -> None:
    schemas = InMemory()
    schema = record_of(field("probs", "float"))
    value = schemas.add(schema) + encoded(schema, {"probs": 0.25})
    codec = AvroCodec(schemas)
    messages = Messages(["no", "yes"], formats=Formats(codec, codec))
    prediction = messages.read(value)
    assert prediction.row.tolist() == [0.75, 0.25]
    answer = messages.write(prediction, np.array([0.5, 0.5]))
    assert decoded(schemas.text(answer), answer[5:]) == {"probs": 0.5, "probs_raw": 0.25}


def test_the_largest_of_a_map_and_of_entries() -> None:
    for name in ("map", "entries"):
        type_, _ = SHAPES[name]
        some = {"dog": 0.9} if name == "map" else [{"label": "dog", "score": 0.9}]
        schemas, messages, _, prediction = opened(record_of(field("probs", type_)), {"probs": some})
        np.testing.assert_allclose(prediction.row, [0.05, 0.9, 0.05])
        answer = messages.write(prediction, np.array([0.7, 0.2, 0.1]))
        found = decoded(schemas.text(answer), answer[5:])
        best = {"cat": 0.7} if name == "map" else [{"label": "cat", "score": 0.7}]
        assert (found["probs"], found["probs_raw"]) == (best, some)


def test_sets_are_arrays_of_names() -> None:
    """Null without one; an application without sets has no field for them."""
    schema = record_of(field("id", "long"), field("probs", SHAPES["doubles"][0]))
    schemas, messages, value, prediction = opened(schema, {"id": 7, "probs": ROW}, sets=True)
    for names, want in ((["dog", 3], ["dog", "3"]), (["é"], ["é"]), ([], []), (None, None)):
        prediction.set = names
        answer = messages.write(prediction, np.array(NEW))
        found = decoded(schemas.text(answer), answer[5:])
        assert found == {"id": 7, "probs": NEW, "probs_raw": ROW, "set": want}
        assert decoded(schemas.text(answer), answer[5:], schema) == {"id": 7, "probs": NEW}
    before = decoded(json.dumps(schema), value[5:], json.loads(schemas.text(answer)))
    assert (before["probs"], before["set"]) == (ROW, None)
    schemas, messages, _, prediction = opened(schema, {"id": 7, "probs": ROW})
    prediction.set = ["dog"]  # by a state of another process that has the setting
    answer = messages.write(prediction, np.array(NEW))
    assert decoded(schemas.text(answer), answer[5:]) == {"id": 7, "probs": NEW, "probs_raw": ROW}
    taken = record_of(field("probs", SHAPES["doubles"][0]), field("set", "string"))
    with pytest.raises(BadMessage, match=r"schema 1: it has a field 'set', which is ours$"):
        opened(taken, {"probs": ROW, "set": "x"}, sets=True)


def test_decisions_are_nullable_texts() -> None:
    schema = record_of(field("id", "long"), field("probs", SHAPES["doubles"][0]))
    schemas, messages, _, prediction = opened(schema, {"id": 7, "probs": ROW}, decides=True)
    for action in ("block", "é", None):
        prediction.decision = action
        answer = messages.write(prediction, np.array(NEW))
        found = decoded(schemas.text(answer), answer[5:])
        assert found == {"id": 7, "probs": NEW, "probs_raw": ROW, "decision": action}
    taken = record_of(field("probs", SHAPES["doubles"][0]), field("decision", "string"))
    with pytest.raises(BadMessage, match=r"schema 1: it has a field 'decision', which is ours$"):
        opened(taken, {"probs": ROW, "decision": "x"}, decides=True)


# ---- everything else of the record

primitives = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=9),
    "bytes": st.binary(max_size=9),
}


@st.composite
def types(draw: st.DrawFn, names: list[str], depth: int = 0) -> tuple[Any, Any]:
    """A type, and the strategy of its values."""
    kinds = [*primitives, "enum", "fixed", "logical"]
    kind = draw(st.sampled_from(kinds + ["record", "array", "map", "union"] * (depth < 3)))
    if kind in primitives:
        return kind, primitives[kind]
    if kind == "logical":
        return {"type": "bytes", "logicalType": "nothing we know"}, primitives["bytes"]
    if kind == "array":
        items, values = draw(types(names, depth + 1))
        return {"type": "array", "items": items}, st.lists(values, max_size=3)
    if kind == "map":
        items, values = draw(types(names, depth + 1))
        return {"type": "map", "values": items}, st.dictionaries(
            st.text(max_size=3), values, max_size=3
        )
    if kind == "union":
        items, values = draw(types(names, depth + 3))
        if items == "null":
            return "null", st.none()
        return ["null", items], st.none() | values
    name = f"N{len(names)}"
    names.append(name)
    if kind == "enum":
        symbols = draw(
            st.lists(st.from_regex(r"[A-Za-z]\w{0,3}", fullmatch=True), min_size=1, unique=True)
        )
        symbols = [s for s in symbols if s.isascii()] or ["A"]
        return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        size = draw(st.integers(0, 5))
        return {"type": "fixed", "name": name, "size": size}, st.binary(
            min_size=size, max_size=size
        )
    inside = [draw(types(names, depth + 1)) for _ in range(draw(st.integers(0, 3)))]
    fields_ = [field(f"f{i}", type_) for i, (type_, _) in enumerate(inside)]
    values = st.fixed_dictionaries({f"f{i}": value for i, (_, value) in enumerate(inside)})
    return record_of(*fields_, name=name), values


@given(st.data())
@settings(max_examples=examples(100), deadline=None)
def test_every_other_byte_is_the_writers(data: st.DataObject) -> None:
    names: list[str] = []
    others = [data.draw(types(names)) for _ in range(data.draw(st.integers(0, 4)))]
    shape = data.draw(st.sampled_from(sorted(SHAPES)))
    at = data.draw(st.integers(0, len(others)))
    fields_ = [field(f"o{i}", type_) for i, (type_, _) in enumerate(others)]
    fields_.insert(at, field("probs", SHAPES[shape][0]))
    datum = {f"o{i}": data.draw(values) for i, (_, values) in enumerate(others)}
    schema = record_of(*fields_, namespace=data.draw(st.sampled_from(["", "com.example"])))
    schemas, messages, value, prediction = opened(schema, datum | {"probs": SHAPES[shape][1](ROW)})
    answer = messages.write(prediction, np.array(NEW))
    before = encoded(record_of(*fields_[:at]), datum)
    behind = encoded(record_of(*fields_[at + 1 :]), datum)
    assert answer[5 : 5 + len(before)] == value[5 : 5 + len(before)] == before
    probs = len(value) - 5 - len(before) - len(behind)
    assert same(decoded(schemas.text(answer), answer[5:])["probs"], NEW)
    tail = answer[5 + len(before) :]
    assert behind + b"\x02" + value[5 + len(before) :][:probs] == tail[-len(behind) - 1 - probs :]


def test_blocks_as_other_writers_make_them() -> None:
    """Several blocks, some of which say how long they are."""
    schemas, messages, _, _ = opened(
        record_of(field("probs", SHAPES["doubles"][0])), {"probs": ROW}
    )
    one = [struct.pack("<d", p) for p in ROW]
    head = schemas.add(record_of(field("probs", SHAPES["doubles"][0])))
    value = head + b"\x02" + one[0] + b"\x03\x20" + one[1] + one[2] + b"\x00"
    prediction = messages.read(value)
    assert prediction.row.tolist() == ROW
    answer = messages.write(prediction, np.array(NEW))
    new = [struct.pack("<d", p) for p in NEW]
    assert answer[5:].startswith(b"\x02" + new[0] + b"\x03\x20" + new[1] + new[2] + b"\x00\x02")
    with pytest.raises(BadMessage, match="a block is not as long as it says"):
        messages.read(head + b"\x05\x1e" + one[0] + one[1] + one[2] + b"\x00")


# ---- ids, labels, columns, models

SAYS = record_of(
    field("probs", SHAPES["doubles"][0]),
    field("id", ["null", "long"]),
    field("who", record_of(field("country", "string"), field("vip", "boolean"), name="Who")),
    field("raw_id", "bytes"),
    field("label", ["null", {"type": "enum", "name": "Label", "symbols": [*CLASSES, "bird"]}]),
)
DATUM = {
    "probs": ROW, "id": 12345678901, "who": {"country": "DE", "vip": True},
    "raw_id": b"\xff\x01a", "label": "dog",
}  # fmt: skip


def test_ids_labels_and_columns() -> None:
    schemas = InMemory()
    codec = AvroCodec(schemas)
    value = schemas.add(SAYS) + encoded(SAYS, DATUM)

    def messages(**fields: Any) -> Messages:
        columns = ["who.country", "who.vip", "id", "nothing"]
        if fields.get("id"):
            columns.remove("id")
        return Messages(CLASSES, Fields(**fields), columns=columns, formats=Formats(codec, codec))

    found = messages()
    prediction = found.read(value)
    assert prediction.segments == ("DE", "true", "12345678901", None)
    assert found.label_in(prediction.message) == 1
    assert found.id_of(prediction.message, b"key") == b"key"
    assert found.read_label(value, b"key").index == 1
    label = messages(id="id").read_label(value)
    assert (label.id, label.row) == (b"12345678901", None)
    assert messages(id="raw_id").read_label(value).id == b"\\xff\x01a"
    assert messages(id="who").read_label(value).id == b"{}"
    assert messages(id="header:ce_id").read_label(value, b"key", [("ce_id", b"7")]).id == b"7"
    assert messages(id="header:ce_id").read_label(value, b"key").id is None
    for datum, error, says in (
        (DATUM | {"label": "bird"}, UnknownClass, 'label: "bird" is none of the 3 classes'),
        (DATUM | {"label": None}, BadMessage, "label: null, expected the name of a class"),
    ):
        with pytest.raises(error, match=says):
            found.read_label(value[:5] + encoded(SAYS, datum))


def test_a_label_may_echo_the_row() -> None:
    """An output, with a label filled in, is a label."""
    _, messages, _, prediction = opened(SAYS, DATUM, Fields(id="id"))
    answer = messages.write(prediction, np.array(NEW))
    label = messages.read_label(answer)
    assert (label.index, label.row and label.row.tolist()) == (1, ROW)


# ---- schemas that change, and those that cannot be answered


def test_a_schema_that_changes_while_running() -> None:
    """A field added, a default, an alias, a promoted type: each is a schema of its own."""
    schemas = InMemory()
    codec = AvroCodec(schemas)
    messages = Messages(CLASSES, Fields(id="id"), formats=Formats(codec, codec))
    probs = field("probs", SHAPES["floats"][0])
    versions = [
        (record_of(field("id", "int"), probs), {"id": 1, "probs": ROW}),
        (record_of(field("id", "int"), probs, field("more", "string", default="")),
         {"id": 2, "probs": ROW, "more": "x"}),
        (record_of(field("id", "long"), field("scores", SHAPES["doubles"][0], aliases=["probs"])),
         {"id": 3, "scores": ROW}),
    ]  # fmt: skip
    for schema, datum in versions:
        prediction = messages.read(schemas.add(schema) + encoded(schema, datum))
        assert messages.id_of(prediction.message, None) == str(datum["id"]).encode()
        answer = messages.write(prediction, np.array(NEW))
        found = decoded(schemas.text(answer), answer[5:])
        assert (found.get("probs") or found["scores"]) == NEW
        assert found["probs_raw"] == ROW
    asked = schemas.asked
    messages.read(schemas.add(versions[0][0]) + encoded(*versions[0]))
    assert schemas.asked == asked  # a schema is asked for once


REFUSED = [
    (record_of(field("other", "int")), {"other": 1}, "no field 'probs'"),
    (record_of(field("probs", "string")), {"probs": "x"}, "probs: string, expected an array or"),
    (record_of(field("probs", {"type": "array", "items": "int"})), {"probs": [1]},
     "probs: an array of int, expected an array or map of float"),
    (record_of(field("probs", ["null", SHAPES["floats"][0]])), {"probs": None}, "probs: null"),
    (record_of(field("probs", [SHAPES["floats"][0], SHAPES["map"][0]])), {"probs": ROW},
     "probs: a union of 2 types, expected one or null"),
    (record_of(field("probs", SHAPES["floats"][0]), field("probs_raw", "int")),
     {"probs": ROW, "probs_raw": 1}, "has a field 'probs_raw', which is ours; give raw another"),
    (record_of(field("probs", SHAPES["floats"][0]), field("x", "int", aliases=["probs_raw"])),
     {"probs": ROW, "x": 1}, "has a field 'probs_raw', which is ours"),
    (record_of(field("probs", SHAPES["floats"][0])), {"probs": [0.5, 0.5]},
     "probs: 2 probabilities for 3 classes"),
    (record_of(field("probs", SHAPES["map"][0])), {"probs": {"cat": 0.5, "cow": 0.5}},
     "probs: 'cow' is none of the 3 classes"),
    (record_of(field("probs", {**BY_FIELD, "fields": BY_FIELD["fields"][:2]})),
     {"probs": {"cat": 0.3, "fish": 0.7}}, "a record with 2 fields for 3 classes"),
    (record_of(field("probs", {"type": "array", "items": {**SWAPPED, "fields": [
        field("label", {"type": "enum", "name": "L", "symbols": ["cat", "dog"]}),
        field("score", "double")]}})), {"probs": [{"label": "cat", "score": 1.0}]},
     "the labels are an enum that has no symbol for class 'fish'"),
    ({"type": "array", "items": "double"}, ROW, "no field 'probs'"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "datum", "says"), REFUSED)
def test_what_cannot_be_answered_is_refused(schema: Any, datum: Any, says: str) -> None:
    with pytest.raises((BadMessage, UnknownClass), match=says):
        opened(schema, datum)


def test_what_the_registry_refuses_is_a_dead_letter_with_its_words() -> None:
    schemas = InMemory(refuses="secret")
    codec = AvroCodec(schemas)
    good, bad = (record_of(field("probs", SHAPES["doubles"][0]), name=n) for n in ("A", "B"))
    bad["doc"] = "secret"
    values = [schemas.add(good) + encoded(good, {"probs": ROW})]
    schemas.refuses = None
    values.append(schemas.add(bad) + encoded(bad, {"probs": ROW}))
    schemas.refuses = "secret"
    values += [values[0], b"\0\0\0\0\x63" + values[0][5:], b"{}", b"", b"\0\0\0"]
    records = [Record("in", 0, i, 0, b"k", value) for i, value in enumerate(values)]
    result = corrected(Corrector(CLASSES), records, formats=Formats(codec, codec))
    assert [one.source.offset for one in result.outputs if one.source] == [0, 2]
    words = [dict(letter.headers)["__connect.errors.exception.message"].decode()
             for letter in result.dead_letters]  # fmt: skip
    assert words == [
        "the registry says no",
        "schema 99 is not known",
        'no schema is named: it looks like JSON, which format = "json" reads; expected a byte 0'
        " and the four of a schema's number, as the serializers of a schema registry write them",
        words[3],
        words[4],
    ]
    assert "it is empty" in words[3]
    assert "it begins with 00 00 00" in words[4]
    assert [letter.value for letter in result.dead_letters] == [values[1], *values[3:]]


HOSTILE: dict[str, Any] = {
    "recursive": record_of(
        field("probs", SHAPES["doubles"][0]), field("next", ["null", "Fraud"], default=None)
    ),
    "infinite": record_of(field("probs", SHAPES["doubles"][0]), field("next", "Fraud")),
    "wide": record_of(
        *[field(f"f{i}", "int", default=0) for i in range(10_000)],
        field("probs", SHAPES["doubles"][0]),
    ),
    "nothing, often": record_of(
        field("many", {"type": "array", "items": "null"}), field("probs", SHAPES["doubles"][0])
    ),
}


def test_hostile_schemas() -> None:
    schemas = InMemory()
    codec = AvroCodec(schemas)
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    probs = encoded(record_of(field("probs", SHAPES["doubles"][0])), {"probs": ROW})

    def read(name: str, data: bytes) -> Any:
        prediction = messages.read(schemas.add(HOSTILE[name]) + data)
        return messages.write(prediction, np.array(NEW))

    assert read("recursive", (probs + b"\x02") * 40 + probs + b"\x00")
    with pytest.raises(BadMessage, match="nested more than 100 deep"):
        read("recursive", (probs + b"\x02") * 60 + probs + b"\x00")
    with pytest.raises(BadMessage, match=r"nested more than 100 deep|ends in the middle"):
        read("infinite", probs * 200)
    assert read("wide", b"\x00" * 10_000 + probs)
    # 2^60 items that take no bytes; of others there are not so many.
    huge = encoded({"type": "long"}, 2**60)
    assert read("nothing, often", huge + b"\x00" + probs)
    with pytest.raises(BadMessage, match="the record ends in the middle"):
        read("recursive", huge + probs)
    for text in ("{", "[" * 100_000, '{"type":"record"}', '"no such type"', "7", "[]", "{}",
                 '{"type":"fixed","name":"F","size":-1}', '{"type":"fixed","name":"F","size":"x"}',
                 '{"type":"record","name":"R","fields":{"probs":1}}', '{"type":"enum","name":"E"}',
                 '{"type":"record","name":"R","fields":[{"name":"p","type":"X"}]}'):  # fmt: skip
        head = schemas.head(SchemaText("AVRO", text))
        with pytest.raises(BadMessage, match=r"^schema \d+: |^no record of schema|no field"):
            messages.read(head + probs)
    head = schemas.head(SchemaText("PROTOBUF", ""))
    with pytest.raises(BadMessage, match="of kind PROTOBUF, expected AVRO"):
        messages.read(head + probs)


@pytest.mark.parametrize("shape", SHAPES)
def test_mutated_records_are_answered_or_refused(shape: str) -> None:
    """15,000 of each shape, 10^5 together: no crash, and what is answered can be read."""
    type_, of = SHAPES[shape]
    schema = record_of(
        field("a", ["null", "string", {"type": "map", "values": "bytes"}]), field("probs", type_),
        field("b", {"type": "array", "items": ["int", {"type": "fixed", "name": "X", "size": 3}]}),
        field("c", "boolean"),
    )  # fmt: skip
    datum = {"a": {"k": b"v"}, "probs": of(ROW), "b": [1, b"abc", -5], "c": True}
    schemas = InMemory()
    codec = AvroCodec(schemas)
    value = schemas.add(schema) + encoded(schema, datum)
    rng = np.random.default_rng(len(shape))
    values = []
    for _ in range(15_000):
        data = bytearray(value)
        for _ in range(rng.integers(1, 4)):
            kind, at = rng.integers(4), int(rng.integers(5, len(data)))
            if kind == 0:
                data[at] = rng.integers(256)
            elif kind == 1:
                data[at] ^= 1 << rng.integers(8)
            elif kind == 2:
                del data[at:]
            else:
                data[at:at] = rng.bytes(rng.integers(1, 12))
            if len(data) <= 5:
                break
        values.append(bytes(data))
    records = [Record("in", 0, i, 0, None, v) for i, v in enumerate(values)]
    result = corrected(Corrector(CLASSES), records, formats=Formats(codec, codec))
    assert len(result.outputs) + len(result.dead_letters) == len(values)
    assert 10 < len(result.outputs) < len(values)
    for output in result.outputs:
        assert output.value is not None
        source = output.source
        assert source is not None
        assert source.value is not None
        try:
            found = decoded(schemas.text(output.value), output.value[5:])
        except UnicodeDecodeError:  # in a text of the writer's, which stays as it was
            continue
        was = decoded(json.dumps(schema), source.value[5:])
        assert str(found["probs_raw"]) == str(was["probs"])
        assert {k: str(found[k]) for k in "abc"} == {k: str(was[k]) for k in "abc"}
    reasons = {dict(one.headers)["__connect.errors.exception.message"].decode().split(":")[0]
               for one in result.dead_letters}  # fmt: skip
    assert reasons <= {"no record of schema 1", "probs"}, reasons


# ---- references, namespaces, single objects, requests


def test_a_schema_that_refers_to_others() -> None:
    schemas = InMemory()
    scores = {**BY_FIELD, "namespace": "com.example"}
    schema = record_of(field("probs", "com.example.Scores"), field("id", "string"))
    head = schemas.add(schema, scores=scores)
    datum = {"probs": dict(zip(CLASSES, ROW, strict=True)), "id": "7"}
    value = head + encoded([scores, schema], ("Fraud", datum))[1:]
    codec = AvroCodec(schemas)
    messages = Messages(CLASSES, Fields(id="id"), formats=Formats(codec, codec))
    prediction = messages.read(value)
    assert prediction.row.tolist() == ROW
    answer = messages.write(prediction, np.array(NEW))
    assert json.loads(bytes(codec.show(answer))) == {
        "probs": dict(zip(CLASSES, NEW, strict=True)), "id": "7",
        "probs_raw": dict(zip(CLASSES, ROW, strict=True)),
    }  # fmt: skip


def test_the_answers_schema_keeps_what_the_input_says() -> None:
    schema = record_of(
        field("probs", {"type": "array", "items": ENTRY}, doc="what the model says"),
        field("id", "string", order="ignore"),
        namespace="com.example", doc="a prediction", owner="risk",
    )  # fmt: skip
    text = SchemaText("AVRO", json.dumps(schema))
    made = json.loads(output_schema(text, AnswerFields(["probs"], "was", asks=True)).text)
    assert made == schema | {"fields": [
        *schema["fields"],
        {"name": "was", "default": None,
         "type": ["null", {"type": "array", "items": "com.example.Entry"}]},
        {"name": "ask", "type": ["null", "string"], "default": None},
    ]}  # fmt: skip
    assert json.loads(output_schema(text, AnswerFields(["probs"], "")).text) == schema
    with pytest.raises(BadMessage, match="raw: 'not a name' is no name of an Avro field"):
        output_schema(text, AnswerFields(["probs"], "not a name"))


def test_records_of_a_file(tmp_path: Any) -> None:
    """Single-object encoding; the fingerprint of "int" is that of Avro's own specification."""
    assert single('"int"')[2:] == bytes.fromhex("7275d51a3f395c8f")[::-1]
    schema = record_of(field("probs", SHAPES["doubles"][0]))
    path = tmp_path / "fraud.avsc"
    path.write_text(json.dumps(schema))
    schemas = SchemaFile(str(path))
    codec = AvroCodec(schemas)
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    body = encoded(schema, {"probs": ROW})
    answer = messages.write(messages.read(single(json.dumps(schema)) + body), np.array(NEW))
    assert json.loads(bytes(codec.show(answer))) == {"probs": NEW, "probs_raw": ROW}
    assert rows_in(messages, answer) == (NEW, ROW)
    with pytest.raises(BadMessage, match="expected C3 01 and the fingerprint"):
        messages.read(body)
    with pytest.raises(BadMessage, match="not that of avro_schema"):
        messages.read(single('"int"') + body)
    with pytest.raises(ValueError, match=r"avro_schema: .*nothing\.avsc: No such file"):
        SchemaFile(str(tmp_path / "nothing.avsc"))
    path.write_text("{")
    with pytest.raises(ValueError, match=r"avro_schema: .*fraud\.avsc: "):
        SchemaFile(str(path))


def test_a_label_is_written_in_the_newest_schema() -> None:
    schemas = InMemory()
    codec = AvroCodec(schemas)
    schema = record_of(
        field("id", "bytes"),
        field("label", ["null", {"type": "enum", "name": "L", "symbols": CLASSES}]),
        field("probs_raw", ["null", SHAPES["floats"][0]], default=None),
        field("who", "string", default="nobody"),
    )
    schemas.add(schema)
    messages = Messages(CLASSES, Fields(id="id"), formats=Formats(codec, codec))
    value = codec.write_label({"id": "7", "label": "dog", "probs_raw": ROW, "unknown": 1})
    label = messages.read_label(value)
    assert (label.index, label.id, label.row and label.row.tolist()) == (1, b"7", ROW)
    schemas.add(record_of(field("needed", "int"), field("label", "string")))
    with pytest.raises(BadMessage, match="a label of the newest schema"):
        codec.write_label({"label": "dog"})


# ---- as in JSON


@pytest.mark.parametrize("shape", ["doubles", "map", "record", "entries"])
def test_avro_is_read_and_answered_as_json_bit_for_bit(shape: str) -> None:
    schemas = InMemory()
    codec = AvroCodec(schemas)
    type_ = SHAPES[shape][0]
    if shape == "record":
        type_ = {**BY_FIELD, "fields": [field(n, "double") for n in CLASSES]}
    schema = record_of(field("id", "string"), field("probs", type_))
    labels = record_of(field("id", "string"), field("label", "string"), name="Label")
    head, label_head = schemas.add(schema), schemas.add(labels)
    rng = np.random.default_rng(1)
    rows, ys = rng.dirichlet([0.5] * 3, 400), rng.integers(3, size=400)
    messages, plain = (
        Messages(CLASSES, Fields(id="id"), formats=formats)
        for formats in (Formats(codec, codec), JSON)
    )
    for i, (row, y) in enumerate(zip(rows.tolist(), ys.tolist(), strict=True)):
        datum = {"id": f"i{i}", "probs": SHAPES[shape][1](row)}
        says = {"id": f"i{i}", "label": CLASSES[y]}
        require_alike(
            messages,
            plain,
            (head + encoded(schema, datum), datum),
            (label_head + encoded(labels, says), says),
        )


def test_what_is_no_probability_is_a_dead_letter() -> None:
    schemas = InMemory()
    codec = AvroCodec(schemas)
    schema = record_of(field("probs", SHAPES["doubles"][0]))
    head = schemas.add(schema)
    rows = [[0.5, 0.5, 0.5], [float("nan"), 0.5, 0.5], [-0.1, 0.6, 0.5], [float("inf"), 0, 0]]
    records = [
        Record("in", 0, i, 0, None, head + encoded(schema, {"probs": row}))
        for i, row in enumerate(rows)
    ]
    letters = corrected(Corrector(CLASSES), records, formats=Formats(codec, codec)).dead_letters
    names = {dict(one.headers)["__connect.errors.exception.class.name"] for one in letters}
    assert len(letters) == 4
    assert names == {InvalidPrediction.full_name.encode()}


def test_schemas_are_compiled_in_another_thread_meanwhile() -> None:
    """As a worker asks for them; paths that are new come at any time."""
    schemas = InMemory()
    codec = AvroCodec(schemas)
    schema = record_of(
        field("probs", SHAPES["doubles"][0]), *[field(f"f{i}", "int") for i in range(200)]
    )
    body = encoded(schema, {"probs": ROW} | {f"f{i}": i for i in range(200)})
    heads = [schemas.add(schema | {"doc": str(i)}) for i in range(200)]
    ended = threading.Event()

    def prepare() -> None:
        for head in itertools.cycle(heads):
            codec.prepare(head + body, (), answered=True)
            if ended.is_set():
                return

    thread = threading.Thread(target=prepare)
    thread.start()
    try:
        for i in range(40):
            message = codec.open(heads[i] + body)
            assert bytes(codec.find(message, [f"f{i}"]) or b"") == b"%d" % i
            assert codec.find(message, [f"f{i}", "inside"]) is None
    finally:
        ended.set()
        thread.join(280)


def test_a_schema_named_by_a_guid_in_a_header() -> None:
    """The answer has the number of its schema before it, and the header no more."""
    schemas = InMemory()
    codec = AvroCodec(schemas)
    schema = record_of(field("probs", SHAPES["doubles"][0]))
    guid = uuid.UUID(int=7)
    schemas.known[guid] = SchemaText("AVRO", json.dumps(schema))
    headers = [("h", b"1"), ("__value_schema_id", b"\x01" + guid.bytes)]
    body = encoded(schema, {"probs": ROW})
    records = [Record("in", 0, 0, 0, b"k", body, headers)]
    for bad in (b"", b"\x01", b"\x02" + guid.bytes, b"\x01" + uuid.UUID(int=8).bytes):
        other = [("__value_schema_id", bad)]
        records.append(Record("in", 0, len(records), 0, b"k", body, other))
    result = corrected(Corrector(CLASSES), records, formats=Formats(codec, codec))
    (output,) = result.outputs
    assert [name for name, _ in output.headers] == ["h", "stream-can-version", "stream-can-state"]
    assert output.value is not None
    assert decoded(schemas.text(output.value), output.value[5:])["probs_raw"] == ROW
    assert [letter.value for letter in result.dead_letters] == [body] * 4
    assert all(dict(one.headers)["__value_schema_id"] is not None for one in result.dead_letters)


def test_a_type_that_is_defined_before_the_probabilities() -> None:
    """And used once more by what is added, in a namespace that types inherit."""
    schema = record_of(
        field("before", {**BY_FIELD, "name": "Scores"}), field("probs", "Scores"),
        field("inner", record_of(field("again", "Scores"), name="Inner", namespace="com.other.x")),
        namespace="com.example",
    )  # fmt: skip
    schema["fields"][2]["type"]["fields"][0]["type"] = "com.example.Scores"
    values = dict(zip(CLASSES, ROW, strict=True))
    datum = {"before": values, "probs": values, "inner": {"again": values}}
    schemas, messages, _, prediction = opened(schema, datum)
    answer = messages.write(prediction, np.array(NEW))
    found = decoded(schemas.text(answer), answer[5:])
    assert same(found.pop("probs"), NEW)
    assert found == {k: v for k, v in datum.items() if k != "probs"} | {"probs_raw": values}
    assert json.loads(schemas.text(answer))["fields"][-1]["type"] == ["null", "com.example.Scores"]


def test_labels_in_json_beside_predictions_in_avro() -> None:
    schemas = InMemory()
    codec = AvroCodec(schemas, "model.probs")
    schema = record_of(field("model", record_of(field("probs", SHAPES["doubles"][0]), name="M")))
    head = schemas.add(schema)
    formats = Formats(codec, JsonCodec())
    messages = Messages(CLASSES, Fields(probs="model.probs"), formats=formats)
    value = head + encoded(schema, {"model": {"probs": ROW}})
    echo = json.dumps({"label": "dog", "model": {"probs_raw": ROW}}).encode()
    assert messages.read(value).row.tolist() == ROW
    assert CLASSES[messages.read_label(b'{"label": "cat"}').index] == "cat"
    label = messages.read_label(echo)
    assert (CLASSES[label.index], label.row and label.row.tolist()) == ("dog", ROW)
    with pytest.raises(BadMessage):
        messages.read_label(value)


# ---- multilabel rows

SCORES, BETTER = [0.25, 0.5, 0.75], [0.125, 0.75, 0.875]  # no sum of 1


def of_labels(codec: Any, classes: Any = CLASSES, **named: str) -> Messages:
    fields = fields_of("multilabel", id="id", **named)
    return messages_of("multilabel", classes, fields, formats=Formats(codec, codec))


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_in_avro(shape: str) -> None:
    type_, of = SHAPES[shape]
    schema, schemas = record_of(field("id", "long"), field("scores", type_)), InMemory()
    reads = of_labels(AvroCodec(schemas, "scores", "scores_raw", sets=True))
    prediction = reads.read(schemas.add(schema) + encoded(schema, {"id": 7, "scores": of(SCORES)}))
    assert prediction.row.tolist() == SCORES
    for names in (["fish", "dog"], []):  # decided on; of a row none may be
        prediction.set = names
        answer = reads.write(prediction, np.array(BETTER))
        found = decoded(schemas.text(answer), answer[5:])
        assert same(found["scores"], BETTER)
        assert same(found["scores_raw"], SCORES)
        assert (found["id"], found["set"]) == (7, names)
        assert same(decoded(schemas.text(answer), answer[5:], schema)["scores"], BETTER)


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
    reads = of_labels(AvroCodec(schemas, "scores", "scores_raw"))
    label = reads.read_label(schemas.add(schema) + encoded(schema, {"labels": value, "id": "x"}))
    assert (label.index, label.id) == (want, b"x")
    if type_ is not None:  # as the labelling page writes them
        written = reads.labels.write_label({"labels": value, "id": "x"})
        assert decoded(schemas.text(written), written[5:]) == {"labels": value, "id": "x"}


def test_integers_as_labels_and_blocks_in_avro() -> None:
    schemas = InMemory()
    schema = record_of(field("labels", {"type": "array", "items": "long"}))
    reads = of_labels(AvroCodec(schemas, "scores", "scores_raw"), [1, -70, 300])
    head = schemas.add(schema)
    value = head + encoded(schema, {"labels": [300, -70]})
    assert reads.read_label(value).index == [300, -70]
    # As other writers make them: two blocks, the second says that it has one byte.
    assert reads.read_label(head + b"\x02\xd8\x04\x01\x02\x02\x00").index == [300, 1]


def test_what_are_no_labels_in_avro() -> None:
    schemas = InMemory()
    reads = of_labels(AvroCodec(schemas, "scores", "scores_raw"))
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
