"""Avro schemas of answers: those of the records with the added fields."""

from __future__ import annotations

import json
import re
from array import array
from typing import TYPE_CHECKING, Any

from stream_can.messages.codecs.avro_program import program_of
from stream_can.messages.codecs.avro_types import (
    NAMES,
    AvroSchemaError,
    is_called,
    kind_of,
    named_kind,
)
from stream_can.messages.codecs.codec import ASKED, DECISION, SET
from stream_can.messages.codecs.framing import AnswerFields, SchemaText

if TYPE_CHECKING:
    Row = array[float]

_is_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


def output_schema(schema: SchemaText, answer: AnswerFields) -> SchemaText:
    """Schema of the answers to records of a schema.

    Raises
    ------
    AvroSchemaError
        The top is no record, it has nothing at ``answer.probs``, or an added field's name is taken.
    """
    program = program_of(schema)
    if isinstance(program.top, list) or kind_of(program.top) not in ("record", "error"):
        raise AvroSchemaError(f"the top is {named_kind(program.top)}, expected a record")
    document = json.loads(schema.text)
    while isinstance(document.get("type"), dict):
        document = document["type"]
    added: list[dict[str, Any]] = []
    if answer.raw:
        place = ".".join(answer.probs)
        probs_type = program.at(answer.probs)
        if probs_type is None:
            raise AvroSchemaError(f"no field {place!r}")
        branches = probs_type if isinstance(probs_type, list) else [probs_type]
        types = [branch for branch in branches if kind_of(branch) != "null"]
        if len(types) != 1:
            raise AvroSchemaError(f"{place}: a union of {len(types)} types, expected one or null")
        added.append({"name": answer.raw, "type": ["null", referred(types[0])], "default": None})
    if answer.asks:
        added.append({"name": ASKED, "type": ["null", "string"], "default": None})
    if answer.sets:
        names = {"type": "array", "items": "string"}
        added.append({"name": SET, "type": ["null", names], "default": None})
    if answer.decides:
        added.append({"name": DECISION, "type": ["null", "string"], "default": None})
    for field in added:
        if not _is_name(field["name"]):
            raise AvroSchemaError(f"raw: {field['name']!r} is no name of an Avro field")
        if any(is_called(existing, field["name"]) for existing in document["fields"]):
            way = "; give raw another name" if field["name"] == answer.raw else ""
            raise AvroSchemaError(f"it has a field {field['name']!r}, which is ours{way}")
    document["fields"] = [*document["fields"], *added]
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    answer_schema = schema._replace(text=text)
    program_of(answer_schema)
    return answer_schema


def referred(schema: Any) -> Any:
    """Refer to a type a second time: named types by name only."""
    if isinstance(schema, list):
        return [referred(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema["type"] in NAMES:
        return schema["name"]
    return {
        key: referred(value) if key in ("type", "items", "values") else value
        for key, value in schema.items()
        if not key.startswith("__")
    }
