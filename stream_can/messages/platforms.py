"""Forms of probabilities as platforms write them, turned into the ordinary ones and back.

- a list of objects with a class and its probability under other names (BigQuery ML: label, prob)
- names beside numbers, each an array (Vertex AI: displayNames, confidences), or pairs of both
- a row in a list, or in an object (predictions, outputs of a model server)
- vectors of Spark, dense and sparse; tensors of the open inference protocol
- numbers as text, "0.25" or "25%"
- JSON as text, answered as text

What has two readings, or none, is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from stream_can.messages.number_texts import number_of, numbers_of
from stream_can.messages.spark_vectors import (
    is_row_tensor,
    is_tensor,
    printed_vector,
    spread_vector,
)

NAMES = (
    "displaynames", "displayname", "labels", "label", "classes", "class", "names", "name",
    "classnames", "classname", "labelnames", "labelname", "tagnames", "tagname", "categories",
    "category", "predictedlabel", "value", "ids", "id",
)  # fmt: skip
"""Keys of classes, the best first; without case and separators."""
NUMBERS = (
    "probabilities", "probability", "probs", "prob", "proba", "confidences", "confidence",
    "scores", "score", "likelihood", "value",
)  # fmt: skip
"""Keys of their probabilities."""
ROWS = (
    *NUMBERS, "predictions", "prediction", "outputs", "output", "results", "result", "data",
    "classprobabilities", "predictproba",
)  # fmt: skip
"""Keys of a whole row in an object."""
DEEPEST = 8
"""Lists and objects around a row."""


class PlainRow(NamedTuple):
    """A row in an ordinary form."""

    probs: Any
    """A list of numbers, {class: number}, a list of {"label", "score"}, or a number."""
    back: Callable[[Any], Any]
    """Turns an answer in that form into the platform's."""


def plain_row(value: Any, depth: int = DEEPEST) -> PlainRow | None:
    """Read decoded probabilities in any form; None where they have not exactly one reading."""
    if depth == 0:
        return None
    if isinstance(value, list | tuple):
        return _of_list(value, depth)
    if isinstance(value, dict):
        return _of_object(value, depth)
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        return _of_text(value, depth)
    number = number_of(value)
    return None if number is None else PlainRow(number, _same)


def _of_text(text: str, depth: int) -> PlainRow | None:
    """A row in JSON that is a text itself, as tables of requests and responses hold it."""
    try:
        row = plain_row(msgspec.json.decode(text), depth - 1)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    if row is None:
        return None
    return PlainRow(row.probs, lambda answer: msgspec.json.encode(row.back(answer)).decode())


def key_of(name: Any) -> str:
    """A key without case and separators."""
    return str(name).replace("_", "").replace("-", "").replace(" ", "").lower()


def _same(answer: Any) -> Any:
    return answer


def _of_list(value: Sequence[Any], depth: int) -> PlainRow | None:
    if not value:
        return None
    if (numbers := numbers_of(value)) is not None:
        return PlainRow(numbers, _same)
    if all(isinstance(entry, dict) for entry in value):
        if len(value) > 1 and (tensors := [k for k, v in enumerate(value) if is_row_tensor(v)]):
            if len(tensors) > 1:
                return None
            return _inside(value, tensors[0], plain_row(value[tensors[0]], depth - 1))
        inner = plain_row(value[0], depth - 1) if len(value) == 1 else None
        if inner is not None and any(isinstance(v, list | dict) for v in value[0].values()):
            return _inside(value, 0, inner)
        if (entries := _of_entries(value)) is not None:
            return entries
        if any(key_of(key) in NUMBERS and number_of(p) is not None for key, p in value[0].items()):
            return None  # the best class alone, or a class that is missing
    elif len(value) > 1 and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str)
        and number_of(pair[0]) is None and number_of(pair[1]) is not None for pair in value
    ):  # fmt: skip
        scored = [{"label": name, "score": number_of(p)} for name, p in value]
        return PlainRow(scored, lambda answer: [[e["label"], e["score"]] for e in answer])
    elif (vector := printed_vector(value)) is not None:
        return PlainRow(vector, _same)
    return _inside(value, 0, plain_row(value[0], depth - 1)) if len(value) == 1 else None


def _of_entries(value: Sequence[dict[str, Any]]) -> PlainRow | None:
    """A list of objects, each with a class and its probability."""
    label = _key(value, NAMES, lambda v: isinstance(v, str | int | float | bool))
    score = _key(value, NUMBERS, lambda v: number_of(v) is not None)
    if label == score:
        label = None
    if len(value[0]) == 2 and (label is None) != (score is None):  # the other one is clear
        (other,) = {*value[0]} - {label, score}
        label, score = (label or other), (score or other)
    if label is None or score is None or any(number_of(e.get(score)) is None for e in value):
        return None
    if not all(isinstance(entry.get(label), str | int | float | bool) for entry in value):
        return None
    entries = [{"label": entry[label], "score": number_of(entry[score])} for entry in value]
    beside = {entry[label]: entry for entry in value}

    def back(answer: Any) -> Any:
        return [
            {**beside.get(e["label"], {}), label: e["label"], score: e["score"]} for e in answer
        ]

    return PlainRow(entries, back)


def _key(
    entries: Sequence[dict[str, Any]], names: Sequence[str], fits: Callable[[Any], bool]
) -> str | None:
    """The key that all entries have, the best by these names."""
    ranks = {name: rank for rank, name in enumerate(names)}
    keys = [
        key
        for key, value in entries[0].items()
        if key_of(key) in ranks and fits(value) and all(key in entry for entry in entries)
    ]
    return min(keys, key=lambda key: ranks[key_of(key)], default=None)


def _of_object(value: dict[str, Any], depth: int) -> PlainRow | None:
    if not value:
        return None
    if {"values"} < value.keys() <= {"type", "size", "indices", "values"}:  # a vector of Spark
        return _of_spark(value)
    if is_tensor(value):
        row = plain_row(value["data"], depth - 1) if is_row_tensor(value) else None
        return _inside(value, "data", row)
    if (numbers := numbers_of([*value.values()])) is not None:
        if None in numbers:
            return None
        return PlainRow(dict(zip(map(str, value), numbers, strict=True)), _same)
    if (arrays := _of_arrays(value)) is not None:
        return arrays
    keys = [key for key, v in value.items() if isinstance(v, list | dict)]
    row_at = {key: row for key in keys if (row := plain_row(value[key], depth - 1)) is not None}
    for group in ([key for key in row_at if key_of(key) in ROWS], [*row_at]):
        if len(group) == 1:
            return _inside(value, group[0], row_at[group[0]])
    return None


def _of_spark(value: dict[str, Any]) -> PlainRow | None:
    values, dense = value["values"], value.get("type", 1) == 1 or value.get("indices") is None
    row = (
        numbers_of(values) if dense else spread_vector(value.get("size"), value["indices"], values)
    )
    empty = {key: None for key in ("size", "indices") if key in value and dense}
    return None if row is None else PlainRow(row, lambda a: {"type": 1, **empty, "values": a})


def names_beside(value: dict[str, Any], numbers: str) -> str | None:
    """The key of an array of names beside an array of as many numbers; None without one."""
    return _key([value], NAMES, lambda v: v is not value[numbers] and _are_names(v, value[numbers]))


def _are_names(names: Any, numbers: Sequence[Any]) -> bool:
    """Whether an array has a name for each number."""
    return (
        isinstance(names, list)
        and len(names) == len(numbers)
        and all(isinstance(name, str | int) for name in names)
        and len({*names}) == len(names)
    )


def _of_arrays(value: dict[str, Any]) -> PlainRow | None:
    """An array of names beside an array of numbers."""
    score = _key([value], NUMBERS, lambda v: isinstance(v, list) and numbers_of(v) is not None)
    if score is None:
        return None
    numbers: Any = numbers_of(value[score])
    label = names_beside(value, score)
    if label is None or None in numbers:
        return None
    names = [str(name) for name in value[label]]
    beside = [k for k, v in value.items() if k not in (label, score) and _are_names(v, numbers)]

    def back(answer: Any) -> Any:
        places = [names.index(name) if name in names else None for name in answer]
        reordered = {k: [None if i is None else value[k][i] for i in places] for k in beside}
        shown = [name if i is None else value[label][i]
                 for name, i in zip(answer, places, strict=True)]  # fmt: skip
        return {**value, **reordered, label: shown, score: [*answer.values()]}

    return PlainRow(dict(zip(names, numbers, strict=True)), back)


def _inside(value: Any, at: Any, row: PlainRow | None) -> PlainRow | None:
    """A row at one place of a list or an object; None without one."""
    if row is None:
        return None

    def back(answer: Any) -> Any:
        inner = row.back(answer)
        if isinstance(value, dict):
            return {**value, at: inner}
        return [*value[:at], inner, *value[at + 1 :]]

    return PlainRow(row.probs, back)
