"""Why a JSON text, or the probabilities in it, cannot be read: in words."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

from stream_can.messages.platforms import NUMBERS, key_of
from stream_can.method.class_names import MOST_SHOWN

# Deep nesting raises RecursionError, a key with invalid UTF-8 UnicodeDecodeError.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of parsing JSON."""
EXPECTED = "a list of numbers, an object {class: number}, or a list of label and score"
BEST_ALONE = (
    "the best class alone, and all are needed: a pipeline of transformers gives them with"
    " top_k=None"
)
LOGPROBS = (
    "; log probabilities of tokens? An object of probabilities: jq -c"
    " '.probs = (.top_logprobs | map({(.token): (.logprob | exp)}) | add)'"
)
PACKED = "it is packed, by {}: leave that to the setting compression.type of what writes it"
BEGINNINGS = (
    (b"\xef\xbb\xbf", "a byte order mark comes first: write UTF-8 without one"),
    (b"\xff\xfe", "it is UTF-16: write UTF-8"),
    (b"\xfe\xff", "it is UTF-16: write UTF-8"),
    (b"\x1f\x8b", PACKED.format("gzip")),
    (b"\x28\xb5\x2f\xfd", PACKED.format("zstd")),
    (b"\x04\x22\x4d\x18", PACKED.format("lz4")),
    (b"\x82SNAPPY", PACKED.format("snappy")),
    (b"\xff\x06\0\0sNaPpY", PACKED.format("snappy")),
    (b"\xc3\x01", 'it is a single Avro object: format = "avro" reads such, with avro_schema'),
    (b"Obj\x01", "it is an Avro file, not a message"),
    (b"PAR1", "it is a Parquet file, not a message"),
)
"""How messages in other formats begin."""
_read = msgspec.json.Decoder().decode


def beginning(value: bytes) -> str:
    """How a message begins that should name its schema."""
    if not value:
        return "it is empty"
    if value.lstrip()[:1] in (b"{", b"["):
        return 'it looks like JSON, which format = "json" reads'
    return _other_format(value) or f"it begins with {value[:5].hex(' ')}"


def _other_format(value: bytes) -> str:
    """Which other format a message that cannot be read begins as; empty where none is known."""
    if value[:1] == b"\0" and len(value) > 5:
        number = int.from_bytes(value[1:5], "big")
        return (
            f"it begins as messages of a schema registry do, of schema {number}: set"
            " schema_registry, and format to avro, protobuf or json-schema"
        )
    return next((description for magic, description in BEGINNINGS if value.startswith(magic)), "")


def object_fault(value: bytes) -> str:
    """Why a text is no JSON object."""
    try:
        decoded = _read(value)
    except UNREADABLE:
        if other := _other_format(value):
            return other
        if b"," in value and value.lstrip()[:1] not in (b"{", b"["):
            return 'a line of csv? Write it as {"id": ..., "probs": [...]}'
        return json_fault(value)
    return f"it is {_kind(decoded)}"


def json_fault(text: bytes) -> str:
    """Why a text is no JSON."""
    if not text.strip():
        return "it is empty"
    try:
        json.loads(text.decode(), parse_constant=_refused, parse_float=_finite, parse_int=_finite)
    except json.JSONDecodeError as error:
        if not text.decode()[error.pos :].strip():
            return "it ends too early"
        return f"no JSON from character {error.pos + 1} on"
    except UnicodeDecodeError as error:
        return f"no UTF-8: byte {text[error.start]:#x} at {error.start}"
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        return f"{error}{_position(text)}"
    return f"no JSON that can be read{_position(text)}"


def _position(text: bytes) -> str:
    """Where msgspec stopped to read a text; empty where it does not say."""
    try:
        _read(text)
    except UNREADABLE as error:
        if byte := re.search(r"\(byte (\d+)\)", str(error)):
            return f" (byte {byte[1]})"
    return ""


def probs_fault(probs: Any) -> str:
    """What a decoded value that is in none of the forms of probabilities has in place of them."""
    if isinstance(probs, dict):
        numbers = [name for name, p in probs.items() if is_number(p)]
        flat = all(isinstance(p, str | int | float) for p in probs.values())
        if len(numbers) == 1 < len(probs) and flat and key_of(numbers[0]) in NUMBERS:
            return BEST_ALONE
        for name, p in probs.items():
            if not is_number(p):
                return f"{_shown(name)} is {_kind(p)}, expected a number"
    if not isinstance(probs, list):
        return f"it is {_kind(probs)}, expected {EXPECTED}"
    entries = any(isinstance(entry, dict) for entry in probs)
    for k, entry in enumerate(probs, 1):
        if fault := _entry_fault(entry) if entries else _number_fault(entry):
            return f"entry {k} {fault}"
    return f"expected {EXPECTED}"


def _entry_fault(entry: Any) -> str:
    """Why an entry is no label and score; empty where it is one."""
    if not isinstance(entry, dict):
        return f"is {_kind(entry)}, expected an object of label and score"
    for key in ("label", "score"):
        if key not in entry:
            hint = LOGPROBS if "logprob" in entry else ""
            return f"has no field {key!r}, expected label and score{hint}"
    if not isinstance(entry["label"], str | int | float):
        return f"has a label that is {_kind(entry['label'])}, expected a name"
    fault = _number_fault(entry["score"])
    return f"has a score that {fault}" if fault else ""


def _number_fault(value: Any) -> str:
    return "" if is_number(value) else f"is {_kind(value)}, expected a number"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    """A JSON value in a word, or as it is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return f"the text {_shown(value)}" if isinstance(value, str) else f"the number {_shown(value)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON: no probability may be missing; write null elsewhere")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:MOST_SHOWN]} is more than a float holds")
    return number
