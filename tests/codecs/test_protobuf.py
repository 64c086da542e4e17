"""Protobuf messages: the plain library says what they hold, before and after."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from stream_can import Corrector
from stream_can.stream.codecs.framing import SchemaText
from stream_can.stream.codecs.protobuf import ProtobufCodec
from stream_can.stream.messages import BadMessage, Fields, Formats, Messages
from stream_can.stream.records import Record
from stream_can.stream.task import Task
from tests.codecs.schemas import InMemory

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
    sent = messages.read_sent(answer, b"k")
    assert sent is not None
    assert (sent[1].tolist(), sent[2].tolist() if sent[2] else None) == (NEW, ROW)


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
        sent = messages.read_sent(answer, b"k")
        assert sent is not None
        assert sent[2] is not None
        assert sent[2].tolist() == [0.75, 0.25]
        zero = make(probs=0.0).SerializeToString()
        if presence:
            raw = messages.read_sent(messages.write(messages.read(zero), np.array([1.0, 0])), b"k")
            assert raw is not None
            assert raw[2] is not None
            assert raw[2].tolist() == [1, 0]
        else:
            with pytest.raises(BadMessage, match="no field 'probs'"):
                messages.read(zero)


def test_a_task_corrects_protobuf_as_json_bit_for_bit() -> None:
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
    ours_in, theirs_in = [], []
    for i, (row, y) in enumerate(zip(rows.tolist(), ys.tolist(), strict=True)):
        datum = {"id": f"i{i}", "probs": row}
        said = {"id": f"i{i}", "label": CLASSES[y]}
        both = (
            ("in", 2 * i, head + make(**datum).SerializeToString(), datum),
            ("labels", 2 * i + 1, label_head + make_label(**said).SerializeToString(), said),
        )
        for topic, at, value, plain in both:
            ours_in.append(Record(topic, 0, i, at, None, value))
            theirs_in.append(Record(topic, 0, i, at, None, json.dumps(plain).encode()))
    options: Any = {"fields": Fields(id="id"), "labels_topic": "labels"}
    ours = Task(Corrector(CLASSES), formats=Formats(codec, labels_codec), **options)
    theirs = Task(Corrector(CLASSES), **options)
    for at in range(0, 800, 100):
        one, other = ours.handle(ours_in[at : at + 100]), theirs.handle(theirs_in[at : at + 100])
        assert not one.dead_letters
        for ours_out, theirs_out in zip(one.outputs, other.outputs, strict=True):
            assert ours_out.value is not None
            shown = json.loads(bytes(codec.show(ours_out.value)))
            assert shown == json.loads(theirs_out.value or b"")
    assert ours.to_bytes(recent=True) == theirs.to_bytes(recent=True)
