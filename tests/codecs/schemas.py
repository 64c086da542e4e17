"""Schemas without a registry, for tests of codecs."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np

from stream_can.messages.codecs.framing import Key, SchemaText, key_of
from stream_can.messages.messages import Messages
from stream_can.messages.probability_formats import BadMessage, Forms


class InMemory:
    """Numbers schemas as they come; refuses those of which a text is part."""

    def __init__(self, refuses: str | None = None) -> None:
        self.known: dict[Key, SchemaText] = {}
        self.refuses, self.latest, self.asked = refuses, 0, 0

    def key(self, value: bytes, headers: Any) -> tuple[Key, int]:
        return key_of(value, headers)

    def schema(self, key: Key) -> SchemaText:
        self.asked += 1
        if key not in self.known:
            raise BadMessage(f"schema {key} is not known")
        return self.known[key]

    def newest(self) -> tuple[bytes, SchemaText]:
        return b"\0" + self.latest.to_bytes(4, "big"), self.known[self.latest]

    def head(self, written: SchemaText) -> bytes:
        if self.refuses is not None and self.refuses in written.text:
            raise BadMessage("the registry says no")
        for key, known in self.known.items():
            if known == written:
                return b"\0" + key.to_bytes(4, "big")
        self.latest = len(self.known) + 1
        self.known[self.latest] = written
        return b"\0" + self.latest.to_bytes(4, "big")

    def add(self, schema: Any, kind: str = "AVRO", **references: Any) -> bytes:
        """What stands before messages of a schema."""
        texts = {name: json.dumps(one) for name, one in references.items()}
        return self.head(SchemaText(kind, json.dumps(schema), texts))

    def text(self, value: bytes) -> str:
        """The text of the schema that a message names."""
        return self.known[int.from_bytes(value[1:5], "big")].text


def encoded(schema: Any, datum: Any) -> bytes:
    """A record, as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, datum)
    return out.getvalue()


def decoded(text: str, data: bytes, reader: Any = None) -> Any:
    """A record, as fastavro reads it; all of its bytes."""
    source = io.BytesIO(data)
    found = fastavro.schemaless_reader(source, json.loads(text), reader)
    assert not source.read()
    return found


def rows_in(messages: Messages, answer: bytes) -> tuple[list[float], list[float]]:
    """The corrected row of an answer and the raw one, as a label that echoes it has it."""
    codec, forms = messages.predictions, Forms(messages.classes)
    message = codec.open(answer)
    sent, raw = (
        codec.row(codec.probs(message, path, answered=False), forms, "")[0].tolist()
        for path in (messages.probs_path, messages.raw_path or [])
    )
    return sent, raw


def require_alike(
    messages: Messages,
    plain: Messages,
    prediction: tuple[bytes, dict[str, Any]],
    label: tuple[bytes, dict[str, Any]],
) -> None:
    """A prediction and its label are read, and the prediction answered, as those in JSON are."""
    (value, datum), (label_value, says) = prediction, label
    read, expected = messages.read(value), plain.read(json.dumps(datum).encode())
    assert read.row == expected.row
    assert messages.id_of(read.message, None) == plain.id_of(expected.message, None)
    row = np.array(expected.row[::-1])
    answer = messages.predictions.show(messages.write(read, row))
    assert json.loads(bytes(answer)) == json.loads(plain.write(expected, row))
    assert messages.read_label(label_value) == plain.read_label(json.dumps(says).encode())
