"""Protobuf messages: the plain library says what they hold, before and after."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
)
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, Costs, InvalidPrediction, UnknownClass
from stream_can.messages.codecs.framing import GUID_HEADER, SchemaText
from stream_can.messages.codecs.protobuf import ProtobufCodec
from stream_can.messages.fields import fields_of
from stream_can.messages.formats import JSON, Formats
from stream_can.messages.kinds import messages_of
from stream_can.messages.messages import BadMessage, Fields, Messages
from stream_can.messages.records import Record
from tests.codecs.schemas import InMemory, require_alike, rows_in
from tests.messages.stream import corrected

pytestmark = pytest.mark.fast

F = descriptor_pb2.FieldDescriptorProto
File = descriptor_pb2.FileDescriptorProto
DOUBLE, FLOAT, STRING, BYTES = F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_STRING, F.TYPE_BYTES
INT32, INT64, UINT64, ENUM = F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT64, F.TYPE_ENUM
ONE, REQUIRED, REPEATED = F.LABEL_OPTIONAL, F.LABEL_REQUIRED, F.LABEL_REPEATED

CLASSES = ["cat", "dog", "fish"]
ROW, NEW = [0.25, 0.5, 0.25], [0.125, 0.75, 0.125]
FLOATS = [0.1, 0.2, 0.7]
"""Of which a float keeps less."""


def add(message: Any, name: str, number: int, type_: Any, label: int = ONE, **more: Any) -> Any:
    """A field; the type is a number, or the name of a message or enum."""
    if isinstance(type_, str):
        kind = ENUM if type_.split(".")[-1] in ("Label", "Kind") else F.TYPE_MESSAGE
        return message.field.add(
            name=name, number=number, type=kind, type_name=type_, label=label, **more
        )
    return message.field.add(name=name, number=number, type=type_, label=label, **more)


def add_map(message: Any, full_name: str, name: str, number: int, value: Any, key: int = STRING):
    entry = message.nested_type.add(name=name.title().replace("_", "") + "Entry")
    entry.options.map_entry = True
    add(entry, "key", 1, key)
    add(entry, "value", 2, value)
    return add(message, name, number, f".{full_name}.{entry.name}", REPEATED)


def file_of(syntax: str = "proto3", name: str = "m.proto") -> Any:
    """A file with the types that the shapes are made of."""
    file = File(name=name, syntax=syntax, package="p")
    scores = file.message_type.add(name="Scores")
    for number, one in enumerate(["fish", "cat", "dog"], 1):
        add(scores, one, number, FLOAT if one == "cat" else DOUBLE)
    label = file.enum_type.add(name="Label")
    for number, one in enumerate(["cat", "dog", "fish", "none"]):
        label.value.add(name=one, number=number)
    for kind, type_ in {"Text": STRING, "Symbol": ".p.Label", "Number": INT64}.items():
        entry = file.message_type.add(name=f"{kind}Entry")
        add(entry, "score", 1, DOUBLE if kind == "Text" else FLOAT)
        add(entry, "label", 2, type_)
    return file


def by_name(row: list[float]) -> dict[str, float]:
    return dict(zip(CLASSES, row, strict=True))


def entries(row: list[float]) -> list[dict[str, Any]]:
    return [{"label": n, "score": p} for n, p in zip(CLASSES, row, strict=True)]


def largest(row: list[float]) -> list[dict[str, Any]]:
    return sorted(entries(row), key=lambda one: -one["score"])


def plain(syntax: str, packed: bool, type_: int) -> Any:
    def put(message: Any, full_name: str) -> None:
        add(message, "probs", 7, type_, REPEATED).options.packed = packed

    return put


SHAPES: dict[str, tuple[Any, Any]] = {
    "doubles": (lambda m, n: add(m, "probs", 7, DOUBLE, REPEATED), list),
    "floats": (lambda m, n: add(m, "probs", 7, FLOAT, REPEATED), list),
    "packed": (plain("", True, DOUBLE), list),
    "not packed": (plain("", False, FLOAT), list),
    "map": (lambda m, n: add_map(m, n, "probs", 7, DOUBLE), by_name),
    "float map": (lambda m, n: add_map(m, n, "probs", 7, FLOAT), by_name),
    "message": (lambda m, n: add(m, "probs", 7, ".p.Scores"), by_name),
    "entries": (lambda m, n: add(m, "probs", 7, ".p.TextEntry", REPEATED), entries),
    "enum entries": (lambda m, n: add(m, "probs", 7, ".p.SymbolEntry", REPEATED), entries),
}


def types_of(*files: Any) -> Any:
    """The class of a message by its full name, as the plain library makes it."""
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())

    def make(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    return make


def set_of(*files: Any) -> bytes:
    return descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()


def registered(schemas: InMemory, value: bytes, *imported: Any, name: str = "p.M") -> Any:
    """The class of a message of the schema that a value names."""
    file = File.FromString(base64.b64decode(schemas.text(value)))
    return types_of(*imported, file)(name)


def text_of(file: Any) -> SchemaText:
    """As Confluent's serializer in Python registers it."""
    return SchemaText("PROTOBUF", base64.b64encode(file.SerializeToString()).decode())


def values_of(probs: Any) -> Any:
    """Probabilities of the plain library as those of the shapes are written here."""
    if hasattr(probs, "DESCRIPTOR"):
        return {one.name: getattr(probs, one.name) for one in probs.DESCRIPTOR.fields}
    if hasattr(probs, "items"):
        return dict(probs)
    if probs and hasattr(probs[0], "label"):
        return [
            {"label": CLASSES[e.label] if isinstance(e.label, int) else e.label, "score": e.score}
            for e in probs
        ]
    return list(probs)


def message_file(syntax: str, shape: str, *, nested: bool = False) -> Any:
    """A file whose message p.M has probabilities of a shape, and others; the path of them."""
    file = file_of(syntax)
    message = file.message_type.add(name="M")
    holder, name = message, "p.M"
    if nested:
        holder, name = message.nested_type.add(name="In"), "p.M.In"
        add(message, "inner", 7, ".p.M.In")
    SHAPES[shape][0](holder, name)
    add(message, "id", 1, STRING)
    add(message, "count", 2, UINT64)
    add_map(message, "p.M", "tags", 3, BYTES)
    add(message, "children", 16, ".p.M", REPEATED)
    return file


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_is_answered_in_its_shape(shape: str, nested: bool, syntax: str) -> None:
    file, of = message_file(syntax, shape, nested=nested), SHAPES[shape][1]
    path = "inner.probs" if nested else "probs"
    schemas = InMemory()
    codec = ProtobufCodec(schemas, set_of(file), "p.M", path, first_field=500)
    messages = Messages(CLASSES, Fields(probs=path), formats=Formats(codec, codec))
    head = schemas.head(text_of(file)) + b"\x02\x06"  # p.M is the fifth message
    head = head[:5] + bytes([2, 2 * [m.name for m in file.message_type].index("M")])
    make = types_of(file)("p.M")
    datum: dict[str, Any] = {"id": "é", "count": 2**64 - 1, "tags": {"b": b"\xff", "a": b""}}
    datum["children"] = [{"id": "x"}]
    probs = {"probs": of(ROW)}
    value = make(**datum, **({"inner": probs} if nested else probs))
    prediction = messages.read(head + value.SerializeToString())
    assert prediction.row.tolist() == ROW
    answer = messages.write(prediction, np.array(NEW))
    assert answer[5:7] == head[5:7]
    assert answer[:5] != head[:5]
    found = registered(schemas, answer).FromString(answer[7:])
    holder = found.inner if nested else found
    want = largest if "entries" in shape else of
    assert values_of(holder.probs) == want(NEW)
    assert values_of(found.probs_raw) == of(ROW)
    reader = make.FromString(answer[7:])
    for name in ("id", "count", "tags", "children"):
        assert getattr(reader, name) == getattr(value, name)
    # The same message again is the same bytes, and what was read is still the original.
    assert messages.write(prediction, np.array(NEW)) == answer
    assert rows_in(messages, answer) == (NEW, ROW)


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@pytest.mark.parametrize("shape", ["floats", "not packed", "float map", "enum entries"])
def test_a_float_stays_a_float(shape: str, syntax: str) -> None:
    file, of = message_file(syntax, shape), SHAPES[shape][1]
    codec = ProtobufCodec(None, set_of(file), "p.M")
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    make = types_of(file)("p.M")
    value = make(probs=of(FLOATS)).SerializeToString()
    prediction = messages.read(value)
    assert prediction.row.tolist() == np.float32(FLOATS).astype(float).tolist()
    answer = make.FromString(messages.write(prediction, np.array(FLOATS)[::-1]))
    want = (largest if "entries" in shape else of)(np.float32(FLOATS[::-1]).astype(float).tolist())
    assert values_of(answer.probs) == want


def test_two_classes_are_one_number() -> None:
    for syntax, presence in (("proto2", True), ("proto3", True), ("proto3", False)):
        file = File(name="m.proto", syntax=syntax, package="p")
        message = file.message_type.add(name="M")
        field = add(message, "probs", 1, DOUBLE)
        if presence and syntax == "proto3":
            message.oneof_decl.add(name="_probs")
            field.proto3_optional, field.oneof_index = True, 0
        codec = ProtobufCodec(None, set_of(file), "p.M")
        messages = Messages(["no", "yes"], formats=Formats(codec, codec))
        make = types_of(file)("p.M")
        prediction = messages.read(make(probs=0.25).SerializeToString())
        assert prediction.row.tolist() == [0.75, 0.25]
        answer = messages.write(prediction, np.array([0.375, 0.625]))
        assert make.FromString(answer).probs == 0.625
        assert rows_in(messages, answer) == ([0.375, 0.625], [0.75, 0.25])
        zero = make(probs=0.0).SerializeToString()
        answer = messages.write(messages.read(zero), np.array([1.0, 0]))
        assert rows_in(messages, answer) == ([1, 0], [1, 0])


def test_a_file_of_an_edition_without_presence() -> None:
    """What is added has presence all the same."""
    file = File(name="m.proto", syntax="editions", edition=descriptor_pb2.EDITION_2023, package="p")
    file.options.features.field_presence = descriptor_pb2.FeatureSet.IMPLICIT
    add(file.message_type.add(name="M"), "probs", 1, DOUBLE)
    schemas = InMemory()
    codec = ProtobufCodec(schemas, set_of(file), "p.M", asks=True)
    messages = Messages(["no", "yes"], formats=Formats(codec, codec))
    value = types_of(file)("p.M")(probs=0.25).SerializeToString()
    prediction = messages.read(schemas.head(text_of(file)) + b"\0" + value)
    answer = messages.write(prediction, np.array([0.25, 0.75]))
    found = registered(schemas, answer).FromString(answer[6:])
    assert (found.probs, found.probs_raw) == (0.75, 0.25)
    assert not found.HasField("ask")
    assert found.HasField("probs_raw")
    assert not type(found)().HasField("probs_raw")


def test_protobuf_is_read_and_answered_as_json_bit_for_bit() -> None:
    file = message_file("proto3", "doubles")
    labels = File(name="l.proto", syntax="proto3", package="p")
    label = labels.message_type.add(name="L")
    add(label, "id", 1, STRING)
    add(label, "label", 2, STRING)
    schemas = InMemory()
    codec = ProtobufCodec(schemas, set_of(file), "p.M")
    labels_codec = ProtobufCodec(schemas, set_of(labels), "p.L", raw="")
    index = 2 * [m.name for m in file.message_type].index("M")
    head = schemas.head(text_of(file)) + bytes([2, index])
    label_head = schemas.head(text_of(labels)) + b"\0"
    make, make_label = types_of(file)("p.M"), types_of(labels)("p.L")
    rng = np.random.default_rng(3)
    rows, ys = rng.dirichlet([1, 1, 1], 400), rng.integers(3, size=400)
    messages, plain = (
        Messages(CLASSES, Fields(id="id"), formats=formats)
        for formats in (Formats(codec, labels_codec), JSON)
    )
    for i, (row, y) in enumerate(zip(rows.tolist(), ys.tolist(), strict=True)):
        datum = {"id": f"i{i}", "probs": row}
        says = {"id": f"i{i}", "label": CLASSES[y]}
        require_alike(
            messages,
            plain,
            (head + make(**datum).SerializeToString(), datum),
            (label_head + make_label(**says).SerializeToString(), says),
        )


@given(st.data())
def test_every_other_field_is_the_writers(data: st.DataObject) -> None:
    """Also those of a newer writer, at the top, inside of messages and in other types."""
    syntax = data.draw(st.sampled_from(["proto2", "proto3"]))
    file = message_file(syntax, "doubles", nested=True)
    newer = File.FromString(file.SerializeToString())
    message = next(one for one in newer.message_type if one.name == "M")
    add(message, "name", 100, BYTES)
    add(message, "ids", 20_003, F.TYPE_SINT64, REPEATED)
    add(message, "other", 2**29 - 1, ".p.M")
    add(message.nested_type[0], "more", 3, STRING, REPEATED)
    make = types_of(newer)("p.M")

    def drawn(depth: int) -> Any:
        value = make(
            id=data.draw(st.text(max_size=3)),
            count=data.draw(st.integers(0, 2**64 - 1)),
            tags=data.draw(st.dictionaries(st.text(max_size=3), st.binary(max_size=3), max_size=3)),
            name=data.draw(st.none() | st.binary(max_size=3)),
            ids=data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)),
        )
        value.inner.more.extend(data.draw(st.lists(st.text(max_size=3), max_size=2)))
        if depth:
            value.children.extend(drawn(depth - 1) for _ in range(data.draw(st.integers(0, 2))))
            if data.draw(st.booleans()):
                value.other.CopyFrom(drawn(depth - 1))
        return value

    value = drawn(2)
    value.inner.probs.extend(ROW)
    codec = ProtobufCodec(None, set_of(file), "p.M", "inner.probs")
    messages = Messages(CLASSES, Fields(probs="inner.probs"), formats=Formats(codec, codec))
    answer = messages.write(messages.read(value.SerializeToString()), np.array(NEW))
    found = make.FromString(answer)
    assert list(found.inner.probs) == NEW
    del value.inner.probs[:], found.inner.probs[:]
    found.DiscardUnknownFields()  # of which the only one is the original of the probabilities
    assert found == value


def test_where_a_newer_writer_uses_our_numbers() -> None:
    """What can be no field of ours is refused; what can is ours."""
    file = message_file("proto3", "doubles")
    codec = ProtobufCodec(None, set_of(file), "p.M")
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    newer = File.FromString(file.SerializeToString())
    add(newer.message_type[-1], "late", 20_001, DOUBLE, REPEATED)
    value = types_of(newer)("p.M")(probs=ROW, late=[1, 2]).SerializeToString()
    found = types_of(newer)("p.M").FromString(messages.write(messages.read(value), np.array(NEW)))
    assert list(found.late) == ROW
    newer.message_type[-1].field[-1].type = STRING
    value = types_of(newer)("p.M")(probs=ROW, late=["odd"]).SerializeToString()
    with pytest.raises(BadMessage, match=r"no message p\.M"):
        messages.read(value)


def test_ids_labels_and_columns() -> None:
    file = file_of("proto2")
    kind = file.enum_type.add(name="Kind")
    kind.options.allow_alias = True
    for number, one in enumerate(["zero", "cat2", "dog2"]):
        kind.value.add(name=one, number=number)
    kind.value.add(name="same", number=1)
    message = file.message_type.add(name="M")
    inner = message.nested_type.add(name="In")
    add(inner, "label", 1, ".p.Label")
    add(inner, "kind", 2, ".p.Kind")
    add(message, "in", 1, ".p.M.In")
    for number, (name, type_) in enumerate(
        {"big": UINT64, "small": INT64, "text": STRING, "bytes": BYTES, "flag": F.TYPE_BOOL,
         "float": FLOAT, "fixed": F.TYPE_SFIXED32}.items(), 2
    ):  # fmt: skip
        add(message, name, number, type_)
    add(message, "unset", 20, STRING, default_value="given")
    add(message, "ints", 21, INT32, REPEATED)
    add_map(message, "p.M", "tags", 22, INT32)
    add(message, "list", 23, ".p.M.In", REPEATED)
    codec = ProtobufCodec(None, set_of(file), "p.M", raw="")
    datum = {"in": {"label": 1, "kind": 1}, "big": 2**64 - 1, "small": -(2**63), "text": "é",
             "bytes": b"a\xff", "flag": False, "float": 0.1, "fixed": -1, "ints": [1],
             "tags": {"a": 1}, "list": [{"label": 1}]}  # fmt: skip
    value = types_of(file)("p.M")(**datum).SerializeToString()
    found = codec.open(value)
    texts = {
        "in.label": '"dog"', "in.kind": '"cat2"', "in": "{}", "big": str(2**64 - 1),
        "small": str(-(2**63)), "text": '"é"', "bytes": '"a\\\\xff"', "flag": "false",
        "float": "0.10000000149011612", "fixed": "-1", "ints": "[1]", "tags": "{}", "list": "[]",
        "unset": None, "list.label": None, "text.x": None, "nothing": None, "in.nothing": None,
        "tags.a": None,
    }  # fmt: skip
    for path, text in texts.items():
        raw = codec.find(found, path.split("."))
        assert (None if raw is None else bytes(raw).decode()) == text, path
    empty = codec.open(b"")
    there = {path for path in texts if codec.find(empty, path.split(".")) is not None}
    assert there == {"ints"}  # they could be labels, of a row that has none


def test_a_field_without_presence_that_is_empty_is_absent() -> None:
    file = file_of("proto3")
    message = file.message_type.add(name="M")
    add(message, "probs", 1, DOUBLE, REPEATED)
    add(message, "label", 2, ".p.Label")
    add(message, "id", 3, STRING)
    codec = ProtobufCodec(None, set_of(file), "p.M")
    messages = Messages(CLASSES, Fields(id="id"), formats=Formats(codec, codec))
    make = types_of(file)("p.M")
    value = make(probs=ROW, label=0, id="").SerializeToString()
    found = codec.open(value)
    assert messages.label_in(found) == 0  # the first symbol of an enum is as good as any
    assert messages.id_of(found, b"key") is None
    value = make(label=2, id="a").SerializeToString()
    label = messages.read_label(value)
    assert (label.index, label.id) == (2, b"a")
    for empty in (value, b""):
        with pytest.raises(BadMessage, match="no field 'probs'"):
            messages.read(empty)


def test_the_message_before_which_another_name_stands() -> None:
    file = file_of()
    for name in ("M", "N"):
        message = file.message_type.add(name=name)
        message.nested_type.add(name="A")
        add(message.nested_type.add(name="B"), "probs", 1, DOUBLE, REPEATED)
    schemas = InMemory()
    head = schemas.head(text_of(file))
    codec = ProtobufCodec(schemas, set_of(file), "p.N.B")
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    value = types_of(file)("p.N.B")(probs=ROW).SerializeToString()
    own = b"\x04\x0a\x02"  # two indexes, 5 and 1
    answer = messages.write(messages.read(head + own + value), np.array(NEW))
    assert answer[5:8] == own
    assert list(registered(schemas, answer, name="p.N.B").FromString(answer[8:]).probs) == NEW
    for given_indexes, says in {
        b"\x04\x08\x00": r"message indexes \[4, 0\]: p\.M\.A, expected p\.N\.B, which has \[5, 1\]",
        b"\0": r"message indexes \[0\]: p\.Scores, expected p\.N\.B",
        b"\x02\x00": r"message indexes \[0\]: p\.Scores",
        b"\x04\x0a\x04": r"\[5, 2\]: one that m\.proto does not have",
        b"\x04\x0a\x01": r"\[5, -1\]: one that m\.proto does not have",
        b"\x01": "-1 message indexes, expected 1 to 100",
        b"\xfe\xff\x07": "65535 message indexes",
        b"\xff" * 20: "the message indexes have no end",
    }.items():
        with pytest.raises(BadMessage, match=says):
            messages.read(head + given_indexes + value)
    for cut in range(len(head + own)):
        with pytest.raises(BadMessage):
            messages.read((head + own + value)[:cut])


def test_indexes_in_a_header() -> None:
    file = message_file("proto3", "doubles")
    schemas = InMemory()
    head = schemas.head(text_of(file))
    guid = UUID(int=7)
    schemas.known[guid] = text_of(file)
    header = b"\x01" + guid.bytes
    codec = ProtobufCodec(schemas, set_of(file), "p.M")
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    index = bytes([2, 2 * (len(file.message_type) - 1)])
    value = types_of(file)("p.M")(probs=ROW).SerializeToString()
    headers = [(GUID_HEADER, header + index)]
    assert codec.key(value, headers) == guid
    prediction = messages.read(value, headers)
    assert prediction.row.tolist() == ROW
    answer = messages.write(prediction, np.array(NEW))
    assert answer[5:7] == index
    assert answer[:5] != head
    assert codec.dropped == {GUID_HEADER}
    for other in (b"\0", b"", b"\xff"):
        with pytest.raises(BadMessage, match="message indexes"):
            messages.read(value, [(GUID_HEADER, header + other)])


def test_the_answers_schema_is_kept_as_the_inputs() -> None:
    """Its text where the input's is text, with what it imports; other kinds are refused."""
    file = message_file("proto3", "map")
    codec = ProtobufCodec(InMemory(), set_of(file), "p.M", asks=True)
    given_text = SchemaText("PROTOBUF", 'syntax = "proto3";\n', {"b.proto": "x"}, ["b"])
    made = codec.answer(given_text)
    assert made[2:] == given_text[2:]
    assert "  map<string, double> probs_raw = 20001;\n  optional string ask = 20002;" in made.text
    with_sets = ProtobufCodec(None, set_of(file), "p.M", sets=True).answer(given_text)
    assert "probs_raw = 20001;\n  repeated string set = 20003;" in with_sets.text
    other = codec.answer(text_of(file))
    kept = File.FromString(base64.b64decode(other.text))
    names = [one.name for one in kept.message_type[-1].nested_type]
    assert names == ["ProbsEntry", "TagsEntry", "ProbsRawEntry"]
    kept.message_type[-1].ClearField("oneof_decl")
    del kept.message_type[-1].field[-2:]
    del kept.message_type[-1].nested_type[-1]
    assert kept == file
    with pytest.raises(BadMessage, match="of kind AVRO, expected PROTOBUF"):
        codec.answer(SchemaText("AVRO", "{}"))


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_sets_are_repeated_strings(syntax: str) -> None:
    file, schemas = message_file(syntax, "doubles"), InMemory()
    codec = ProtobufCodec(schemas, set_of(file), "p.M", sets=True)
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    head = schemas.head(text_of(file))
    head += bytes([2, 2 * [m.name for m in file.message_type].index("M")])
    make = types_of(file)("p.M")
    prediction = messages.read(head + make(probs=ROW, id="x").SerializeToString())
    for names, want in ((["dog", 3], ["dog", "3"]), ([], []), (None, [])):
        prediction.set = names
        answer = messages.write(prediction, np.array(NEW))
        found = registered(schemas, answer).FromString(answer[7:])
        assert (list(found.probs), list(found.set), found.id) == (NEW, want, "x")
        assert list(make.FromString(answer[7:]).probs) == NEW
    codec = ProtobufCodec(schemas, set_of(file), "p.M")  # by a state of another process
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    prediction = messages.read(head + make(probs=ROW).SerializeToString())
    prediction.set = ["dog"]
    found = registered(schemas, answer := messages.write(prediction, np.array(NEW)))
    assert "set" not in found.DESCRIPTOR.fields_by_name
    assert list(found.FromString(answer[7:]).probs) == NEW


def test_types_of_other_files() -> None:
    """The type of the original may be one that the message's own file does not import."""
    far = file_of(name="far.proto")
    near = File(name="near.proto", syntax="proto3", package="q", dependency=["far.proto"])
    add(near.message_type.add(name="Holder"), "probs", 1, ".p.Scores")
    own = File(name="own.proto", syntax="proto2", dependency=["near.proto"])
    message = own.message_type.add(name="M")
    add(message, "h", 1, ".q.Holder")
    add(message, "id", 2, STRING, REQUIRED)
    codec = ProtobufCodec(None, set_of(own, near, far), "M", "h.probs")
    messages = Messages(CLASSES, Fields(probs="h.probs"), formats=Formats(codec, codec))
    value = types_of(far, near, own)("M")(id="", h={"probs": by_name(ROW)})
    answer = messages.write(messages.read(value.SerializeToString()), np.array(NEW))
    made = codec.answer(SchemaText("PROTOBUF", "CgA="))
    file = File.FromString(base64.b64decode(made.text))
    assert list(file.dependency) == ["near.proto", "far.proto"]
    found = types_of(far, near, file)("M").FromString(answer)
    assert values_of(found.h.probs) == by_name(NEW)
    assert values_of(found.probs_raw) == by_name(ROW)
    value.ClearField("id")
    with pytest.raises(BadMessage, match="no message M: without the required id"):
        messages.read(value.SerializePartialToString())


def framed(schemas: InMemory, file: Any) -> bytes:
    """What stands before messages p.M of a file, at the end of which it is."""
    return schemas.head(text_of(file)) + bytes([2, 2 * (len(file.message_type) - 1)])


def as_text(probs: Any) -> str:
    """Probabilities that may be no numbers, to be compared."""
    return str(sorted(probs.items()) if hasattr(probs, "items") else probs)


@pytest.mark.parametrize("shape", SHAPES)
def test_mutated_records_are_answered_or_refused(shape: str) -> None:
    """11,500 of each shape, 10^5 together: no crash, and what is answered can be read."""
    file, of = message_file("proto2" if len(shape) % 2 else "proto3", shape), SHAPES[shape][1]
    schemas = InMemory()
    codec, head = ProtobufCodec(schemas, set_of(file), "p.M"), framed(schemas, file)
    make = types_of(file)("p.M")
    value = make(
        id="an id", count=300, tags={"a": b"1", "b": b"22"}, children=[{"id": "x"}], probs=of(ROW)
    ).SerializeToString()
    rng = np.random.default_rng(len(shape))
    values = []
    for _ in range(11_500):
        data = bytearray(value)
        for _ in range(rng.integers(1, 4)):
            kind, at = rng.integers(4), int(rng.integers(len(data)))
            if kind == 0:
                data[at] = rng.integers(256)
            elif kind == 1:
                data[at] ^= 1 << rng.integers(8)
            elif kind == 2:
                del data[at:]
            else:
                data[at:at] = rng.bytes(rng.integers(1, 12))
            if not data:
                break
        values.append(bytes(data))
    records = [Record("in", 0, i, 0, None, head + one) for i, one in enumerate(values)]
    result = corrected(Corrector(CLASSES), records, formats=Formats(codec, codec))
    assert len(result.outputs) + len(result.dead_letters) == len(values)
    assert 10 < len(result.outputs) < len(values)
    make_answer = registered(schemas, result.outputs[0].value or b"")
    for output in result.outputs:
        source, answer = output.source, output.value
        assert source is not None
        assert source.value is not None
        assert answer is not None
        was, found = make.FromString(source.value[7:]), make.FromString(answer[7:])
        original = make_answer.FromString(answer[7:]).probs_raw
        assert as_text(original) == as_text(was.probs)
        for message in (was, found):
            message.ClearField("probs")
            message.DiscardUnknownFields()
        assert str(found) == str(was)


def test_cut_anywhere_and_a_huge_claimed_length() -> None:
    file = message_file("proto3", "doubles")
    codec = ProtobufCodec(None, set_of(file), "p.M")
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    value = types_of(file)("p.M")(id="abc", probs=ROW, count=7).SerializeToString()
    for cut in range(len(value)):  # the probabilities are the last field
        with pytest.raises(BadMessage):
            messages.read(value[:cut])
    for claim in (b"\x3a\xff\xff\xff\xff\x07", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"):
        with pytest.raises(BadMessage, match=r"no message p\.M"):
            messages.read(claim + b"x" * 100)
    deep = b""
    for _ in range(5000):
        size, length = len(deep), bytearray()
        while size > 0x7F:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        deep = b"\x82\x01" + bytes([*length, size]) + deep
    with pytest.raises(BadMessage, match=r"no message p\.M"):
        messages.read(value + deep)


@pytest.mark.parametrize("depth", [1, 50, 90, 98, 99, 100, 101])
def test_as_deep_as_it_can_be_read_it_is_answered(depth: int) -> None:
    file = message_file("proto3", "doubles")
    make = types_of(file)("p.M")
    top = value = make(probs=ROW)
    for _ in range(depth):
        value = value.children.add()
    codec = ProtobufCodec(None, set_of(file), "p.M")
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    try:
        prediction = messages.read(top.SerializeToString())
    except BadMessage:
        assert depth > 98
        return
    assert len(messages.write(prediction, np.array(NEW))) > len(top.SerializeToString())


def test_what_is_no_probability_is_a_dead_letter() -> None:
    file = message_file("proto3", "doubles")
    codec = ProtobufCodec(None, set_of(file), "p.M")
    make = types_of(file)("p.M")
    rows = [[0.5, 0.5, 0.5], [float("nan"), 0.5, 0.5], [-0.1, 0.6, 0.5], [float("inf"), 0, 0]]
    values = [make(probs=row).SerializeToString() for row in rows]
    records = [Record("in", 0, i, 0, None, value) for i, value in enumerate(values)]
    letters = corrected(Corrector(CLASSES), records, formats=Formats(codec, codec)).dead_letters
    names = {dict(one.headers)["__connect.errors.exception.class.name"] for one in letters}
    assert len(letters) == 4
    assert names == {InvalidPrediction.full_name.encode()}
    with pytest.raises(BadMessage, match="probs: 2 probabilities for 3 classes"):
        Messages(CLASSES, formats=Formats(codec, codec)).read(
            make(probs=[0.5, 0.5]).SerializeToString()
        )


@pytest.mark.parametrize(
    ("shape", "probs", "error", "says"),
    [
        ("map", {"cat": 0.5, "x": 0.5}, UnknownClass, "probs: 'x' is none of the 3 classes"),
        ("map", {"cat": 0.1}, BadMessage, "probs: no probability for class 'dog'"),
        ("entries", [{"label": "x", "score": 1}], UnknownClass, "'x' is none of the 3"),
        ("enum entries", [{"label": 3, "score": 1}], UnknownClass, "'none' is none of the 3"),
        ("enum entries", [{"label": 9, "score": 1}], UnknownClass, "9 is none of the 3"),
        ("entries", [{"label": "cat"}] * 2, BadMessage, "2 entries for 1 classes"),
    ],
)
def test_other_classes_are_refused(shape: str, probs: Any, error: Any, says: str) -> None:
    file = message_file("proto3", shape)
    codec = ProtobufCodec(None, set_of(file), "p.M")
    value = types_of(file)("p.M")(probs=probs).SerializeToString()
    with pytest.raises(error, match=says):
        Messages(CLASSES, formats=Formats(codec, codec)).read(value)


def test_classes_that_the_type_has_no_room_for() -> None:
    """An answer may be any of the classes: each is a label, or a field."""
    for shape, classes, says in (
        ("enum entries", [*CLASSES, "cow"], "class 'cow' cannot be a label: p.Label"),
        ("message", [*CLASSES, "cow"], "a message with 3 fields for 4 classes"),
        ("message", CLASSES[:2], "'fish' is none of the 2 classes"),
    ):
        file = message_file("proto2", shape)
        codec = ProtobufCodec(None, set_of(file), "p.M")
        value = types_of(file)("p.M")(probs=SHAPES[shape][1](ROW)).SerializeToString()
        with pytest.raises((BadMessage, UnknownClass), match=says):
            Messages(classes, formats=Formats(codec, codec)).read(value)


@pytest.mark.parametrize("classes", [[7, 8, 2**40], ["7", "8", "1099511627776"]])
def test_numbers_as_labels(classes: list[Any]) -> None:
    file = file_of("proto3")
    add(file.message_type.add(name="M"), "probs", 1, ".p.NumberEntry", REPEATED)
    codec = ProtobufCodec(None, set_of(file), "p.M")
    messages = Messages(classes, formats=Formats(codec, codec))
    make = types_of(file)("p.M")
    value = make(probs=[{"label": 2**40, "score": 0.75}, {"label": 7, "score": 0.25}])
    prediction = messages.read(value.SerializeToString())
    assert prediction.row.tolist() == [0.25, 0, 0.75]
    found = make.FromString(messages.write(prediction, np.array([0.125, 0.625, 0.25])))
    assert [(one.label, one.score) for one in found.probs] == [(8, 0.625), (2**40, 0.25)]
    assert messages.names_in(prediction.message) == [8, 2**40]
    others = Messages([7, 2**40, "other"], formats=Formats(codec, codec))
    with pytest.raises(BadMessage, match="class 'other' cannot be a label: int64"):
        others.read(value.SerializeToString())


def test_the_largest_of_a_map() -> None:
    file = message_file("proto3", "map")
    codec = ProtobufCodec(None, set_of(file), "p.M")
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    make = types_of(file)("p.M")
    value = make(probs={"dog": 0.75, "cat": 0.25}).SerializeToString()
    prediction = messages.read(value)
    assert sorted(messages.names_in(prediction.message) or []) == ["cat", "dog"]
    found = make.FromString(messages.write(prediction, np.array([0.125, 0.25, 0.625])))
    assert dict(found.probs) == {"fish": 0.625, "dog": 0.25}


def test_a_message_is_shown_with_the_names_of_its_fields() -> None:
    time = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(time)
    some = descriptor_pb2.FileDescriptorProto()
    any_pb2.DESCRIPTOR.CopyToProto(some)
    file = message_file("proto3", "doubles")
    file.dependency.extend([time.name, some.name])
    message = file.message_type[-1]
    add(message, "seen_at", 30, ".google.protobuf.Timestamp")
    add(message, "anything", 31, ".google.protobuf.Any")
    codec = ProtobufCodec(None, set_of(time, some, file), "p.M")
    make = types_of(time, some, file)("p.M")
    value = make(count=2**63, seen_at={"seconds": 1}, probs=[0.5], tags={"a": b"\xff"})
    assert json.loads(bytes(codec.show(value.SerializeToString()))) == {
        "count": str(2**63), "seen_at": "1970-01-01T00:00:01Z", "probs": [0.5],
        "tags": {"a": "/w=="},
    }  # fmt: skip
    value.anything.type_url = "x/unknown.Type"
    with pytest.raises(BadMessage, match=r"message p\.M as JSON: .*unknown\.Type"):
        codec.show(value.SerializeToString())


def test_a_label_is_written() -> None:
    file = file_of("proto2")
    message = file.message_type.add(name="M")
    for number, (name, type_) in enumerate(
        {"label": ".p.Label", "id": BYTES, "number": INT64, "text": STRING, "inner": ".p.M"}.items()
    ):
        add(message, name, number + 1, type_)
    add(message, "probs_raw", 10, DOUBLE, REPEATED)
    add_map(message, "p.M", "map", 11, DOUBLE)
    add(message, "entries", 12, ".p.TextEntry", REPEATED)
    add(message, "must", 13, STRING, REQUIRED)
    schemas = InMemory()
    codec, head = ProtobufCodec(schemas, set_of(file), "p.M", raw=""), framed(schemas, file)
    values = {"label": "dog", "id": "é", "number": "7", "text": 8, "inner": {"id": "a", "must": ""},
              "probs_raw": ROW, "map": {"a": 1.5}, "entries": entries(ROW), "must": "m",
              "unknown": 1}  # fmt: skip
    written = codec.write_label(values)
    assert written[: len(head)] == head
    values |= {"label": 1, "id": "é".encode(), "number": 7, "text": "8"}
    values["inner"] = {"id": b"a", "must": ""}
    del values["unknown"]
    make = types_of(file)("p.M")
    assert make.FromString(written[len(head) :]) == make(**values)
    label = Messages(CLASSES, formats=Formats(codec, codec)).read_label(written)
    assert label.index == 1
    assert label.row is not None
    assert label.row.tolist() == ROW
    for wrong in ({"label": "cow"}, {"number": "x"}, {"number": 2**64}, {"probs_raw": 1},
                  {"inner": 3}, {"entries": [{"x": 1}, 4]}):  # fmt: skip
        with pytest.raises(BadMessage, match=r"a label as message p\.M: "):
            codec.write_label({"must": "m"} | wrong)
    with pytest.raises(BadMessage, match=r"a label as message p\.M: .*required"):
        codec.write_label({"label": "dog"})


def changed(**parts: Any) -> Any:
    """A file with probabilities, and something that is in the way."""
    file = message_file(parts.pop("syntax", "proto3"), parts.pop("shape", "doubles"))
    message = file.message_type[-1]
    for name, given_parts in parts.items():
        for one in given_parts:
            getattr(message, name).append(one) if isinstance(one, str) else getattr(
                message, name
            ).add(**one)
    return file


STRING_AT = {"type": STRING, "label": ONE}


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"field": [{"name": "probs_raw", "number": 50, **STRING_AT}]},
         "has a field 'probs_raw', which is ours; give raw another name"),
        ({"field": [{"name": "ask", "number": 50, **STRING_AT}]}, "has a field 'ask', which"),
        ({"field": [{"name": "set", "number": 50, **STRING_AT}]}, "has a field 'set', which is"),
        ({"field": [{"name": "other", "number": 20003, **STRING_AT}]}, "number 20003 of an added"),
        ({"field": [{"name": "probsRaw", "number": 50, **STRING_AT}]},
         "has a field 'probsRaw', which JSON calls as it does our 'probs_raw'; give raw another"),
        ({"reserved_name": ["probs_raw"]}, "has a reserved name 'probs_raw', which is ours; give"),
        ({"oneof_decl": [{"name": "_ask"}],
          "field": [{"name": "x", "number": 50, "oneof_index": 0, **STRING_AT}]},
         "has a oneof '_ask', which is ours for 'ask'"),
        ({"nested_type": [{"name": "probs_raw"}]}, "has a type 'probs_raw', which is ours"),
        ({"nested_type": [{"name": "ProbsRawEntry"}], "shape": "map"},
         "has a type 'ProbsRawEntry', which is ours for the entries of 'probs_raw'; give raw"),
        ({"enum_type": [{"name": "E", "value": [{"name": "ask", "number": 0}]}]},
         "has a symbol 'ask', which is ours"),
        ({"field": [{"name": "other", "number": 20001, **STRING_AT}]},
         "number 20001 of an added field is taken by field 'other'; set protobuf_first_field"),
        ({"field": [{"name": "other", "number": 20002, **STRING_AT}]}, "number 20002 of an added"),
        ({"reserved_range": [{"start": 20000, "end": 20002}]},
         "number 20001 of an added field is taken by the reserved numbers 20000 to 20001; set"),
        ({"extension_range": [{"start": 100, "end": 2**29}], "syntax": "proto2"},
         "number 20001 of an added field is taken by the numbers for extensions 100 to 536870911"),
    ],
)  # fmt: skip
def test_a_name_or_number_that_is_taken_is_refused(parts: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=r"^protobuf_descriptor: message p\.M") as error:
        ProtobufCodec(None, set_of(changed(**parts)), "p.M", asks=True, sets=True)
    assert says in str(error.value)


def test_a_decision_is_a_text_with_presence() -> None:
    file = message_file("proto3", "doubles")
    schemas = InMemory()
    codec = ProtobufCodec(schemas, set_of(file), "p.M", decides=True, first_field=100)
    index = 2 * [m.name for m in file.message_type].index("M")
    head = schemas.head(text_of(file)) + bytes([2, index])
    value = head + types_of(file)("p.M")(probs=ROW).SerializeToString()
    costs = {"block": 1.0, "é": {name: float(k) for k, name in enumerate(CLASSES)}}
    messages = Messages(CLASSES, Fields(costs=costs), formats=Formats(codec, codec))
    answer = messages.write(messages.read(value), np.array(NEW))
    found = registered(schemas, answer).FromString(answer[7:])
    assert found.decision == Costs(CLASSES, costs).decide_one(NEW)
    assert found.DESCRIPTOR.fields_by_name["decision"].number == 103
    codec = ProtobufCodec(schemas, set_of(file), "p.M", decides=True, first_field=100)
    without = Messages(CLASSES, formats=Formats(codec, codec))
    answer = without.write(without.read(value), np.array(NEW))
    assert not registered(schemas, answer).FromString(answer[7:]).HasField("decision")


def test_another_name_and_number_are_the_way_out() -> None:
    file = changed(field=[{"name": "probs_raw", "number": 20001, **STRING_AT}], reserved_name=["x"])
    codec = ProtobufCodec(None, set_of(file), "p.M", raw="was", first_field=20002)
    messages = Messages(CLASSES, Fields(raw="was"), formats=Formats(codec, codec))
    make = types_of(file)("p.M")
    value = make(probs=ROW, probs_raw="kept").SerializeToString()
    answer = messages.write(messages.read(value), np.array(NEW))
    assert make.FromString(answer).probs_raw == "kept"
    assert rows_in(messages, answer) == (NEW, ROW)
    for number in (0, -1, 18_999, 19_500, 2**29 - 1, 2**29):
        with pytest.raises(ValueError, match=r"protobuf_first_field: \d+|-1 is no number|19000"):
            ProtobufCodec(None, set_of(file), "p.M", raw="was", asks=True, first_field=number)


def test_descriptor_sets_that_are_none() -> None:
    good = message_file("proto3", "doubles")
    cases: list[tuple[bytes, str, str]] = [
        (b"\xff\xff", "p.M", "no FileDescriptorSet"),
        (b"", "p.M", "a FileDescriptorSet without files"),
        (set_of(good), "M", r"no message 'M'; there are p\.Scores, .*p\.M"),
        (set_of(good, good), "p.M", "two files of the same name"),
    ]
    importing = File.FromString(good.SerializeToString())
    importing.dependency.append("other.proto")
    cases.append((set_of(importing), "p.M", "m.proto imports other.proto, which is not there"))
    circle = File(name="other.proto", dependency=["m.proto"])
    cases.append((set_of(importing, circle), "p.M", "imports itself"))
    for number, (name, type_, label) in enumerate(
        [("probs", ".p.Nowhere", ONE), ("two", STRING, ONE), ("probs", STRING, ONE)]
    ):
        file = File(name="m.proto", syntax="proto3", package="p")
        message = file.message_type.add(name="M")
        add(message, "probs", 1, DOUBLE, REPEATED) if name != "probs" else None
        add(message, name, 1, type_, label)
        says = ["m.proto: .*Nowhere", "m.proto: ", "probs: string, expected repeated double"][
            number
        ]
        cases.append((set_of(file), "p.M", says))
    for data, name, says in cases:
        with pytest.raises(ValueError, match=f"^protobuf_descriptor: .*{says}"):
            ProtobufCodec(None, data, name)
    with pytest.raises(ValueError, match=r"message p\.M: no field 'inner\.nothing'"):
        ProtobufCodec(None, set_of(good), "p.M", "inner.nothing")
    with pytest.raises(ValueError, match="raw: 'a-b' is no name of a field"):
        ProtobufCodec(None, set_of(good), "p.M", raw="a-b")


def test_a_descriptor_set_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "fraud.desc"
    with pytest.raises(ValueError, match=f"protobuf_descriptor: {path}: No such file"):
        ProtobufCodec(None, path, "p.M")
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match=f"protobuf_descriptor: {path}: no FileDescriptorSet"):
        ProtobufCodec(None, str(path), "p.M")
    path.write_bytes(set_of(message_file("proto3", "doubles")))
    assert ProtobufCodec(None, path, "p.M").key(b"", ()) is None


def test_hostile_types() -> None:
    """10,000 fields, 90 levels of types, types of each other: answered as any."""
    file = message_file("proto3", "doubles")
    message = file.message_type[-1]
    for number in range(100, 10_100):
        add(message, f"f{number}", number, INT32)
    inner, name = message, "p.M"
    for _ in range(30):
        inner = inner.nested_type.add(name="Deep")
        name += ".Deep"
        add(inner, "up", 1, ".p.M")
    codec = ProtobufCodec(None, set_of(file), "p.M")
    messages = Messages(CLASSES, formats=Formats(codec, codec))
    value = types_of(file)("p.M")(probs=ROW, f10099=5).SerializeToString()
    answer = types_of(file)("p.M").FromString(messages.write(messages.read(value), np.array(NEW)))
    assert (list(answer.probs), answer.f10099) == (NEW, 5)
    assert codec.answer(SchemaText("PROTOBUF", "text;")).text.count("\n") > 10_000
    for field in message.field[-10_000:]:
        field.type = STRING
    with pytest.raises(ValueError, match=r"protobuf_descriptor: m\.proto: .*maximum size"):
        ProtobufCodec(None, set_of(file), "p.M")


def test_names_that_are_no_text() -> None:
    """proto2 does not look at its strings."""
    file = message_file("proto2", "map")
    value = types_of(file)("p.M")(probs=by_name(ROW)).SerializeToString().replace(b"dog", b"d\xff")
    value = value.replace(b"\x0a\x03d\xff", b"\x0a\x03d\xffg")
    for raw in ("probs_raw", ""):
        codec = ProtobufCodec(None, set_of(file), "p.M", raw=raw)
        messages = Messages(CLASSES, Fields(raw=raw), formats=Formats(codec, codec))
        with pytest.raises((BadMessage, UnknownClass), match=r"a name in the map: .*0xff"):
            messages.read(value)


def test_unions_are_no_probabilities_of_each_class() -> None:
    """Of a oneof only one is set."""
    file = message_file("proto3", "message")
    scores = file.message_type[0]
    scores.oneof_decl.add(name="either")
    for field in scores.field:
        field.oneof_index = 0
    with pytest.raises(ValueError, match=r"probs: a message p\.Scores, expected"):
        ProtobufCodec(None, set_of(file), "p.M")
    codec = ProtobufCodec(None, set_of(file), "p.M", raw="")
    value = types_of(file)("p.M")(probs={"cat": 1}).SerializeToString()
    with pytest.raises(BadMessage, match=r"probs: a message p\.Scores, expected"):
        Messages(CLASSES, formats=Formats(codec, codec)).read(value)


# ---- multilabel rows

SCORES, BETTER = [0.25, 0.5, 0.75], [0.125, 0.75, 0.875]  # no sum of 1


def of_labels(codec: Any, classes: Any = CLASSES, **named: str) -> Messages:
    fields = fields_of("multilabel", id="id", **named)
    return messages_of("multilabel", classes, fields, formats=Formats(codec, codec))


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_in_protobuf(shape: str, syntax: str) -> None:
    file, of = file_of(syntax), SHAPES[shape][1]
    message = file.message_type.add(name="M")
    SHAPES[shape][0](message, "p.M")
    codec = ProtobufCodec(None, set_of(file), "p.M", "probs", "scores_raw", sets=True)
    reads = of_labels(codec, probs="probs")
    make = types_of(file)("p.M")
    prediction = reads.read(make(probs=of(SCORES)).SerializeToString())
    assert prediction.row.tolist() == SCORES
    prediction.set = ["fish", "dog"]
    answer = codec._make.FromString(reads.write(prediction, np.array(BETTER)))
    assert sorted(map(str, values_of(answer.probs))) == sorted(map(str, values_of(of(BETTER))))
    assert values_of(answer.scores_raw) == of(SCORES)
    assert list(answer.set) == ["fish", "dog"]


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_labels_in_protobuf(syntax: str) -> None:
    file = file_of(syntax)
    message = file.message_type.add(name="M")
    add(message, "labels", 1, STRING, REPEATED)
    add(message, "id", 2, STRING)
    add_map(message, "p.M", "said", 3, F.TYPE_BOOL)
    codec = ProtobufCodec(None, set_of(file), "p.M", "scores", "")
    reads, make = of_labels(codec), types_of(file)("p.M")
    for names in (["dog", "cat"], []):  # no repeated labels: the row has none of them
        label = reads.read_label(make(labels=names, id="x").SerializeToString())
        assert (label.index, label.id) == (names, b"x")
        written = codec.write_label({"labels": names, "id": "x"})
        assert make.FromString(written) == make(labels=names, id="x")
    with pytest.raises(UnknownClass, match="labels: 'cow' is none of the 3 labels"):
        reads.read_label(make(labels=["cow"]).SerializeToString())
    by_name = of_labels(codec, label="said")
    says = {"dog": True, "cat": False}
    assert by_name.read_label(make(said=says).SerializeToString()).index == says
    with pytest.raises(BadMessage, match="no field 'said'"):
        by_name.read_label(make(id="x").SerializeToString())
    numbers = of_labels(codec, [7, 8, 9])
    assert numbers.read_label(codec.write_label({"labels": [9, 7]})).index == [9, 7]
    if syntax == "proto2":
        wrong = b"\x0a\x02\xff\xfe" + b"\x1a\x06\x0a\x02\xff\xfe\x10\x01"
        for one in (reads, by_name):
            with pytest.raises((BadMessage, UnknownClass)):
                one.read_label(wrong)
