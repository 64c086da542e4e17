"""Probabilities as platforms write them: read from files and lines, and answered as they came."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from stream_can.errors import StreamCANError
from stream_can.messages.messages import BadMessage, Messages
from stream_can.messages.platforms import plain_row
from stream_can.recording.recording import Recording

pytestmark = pytest.mark.fast

NAMES = ["cat", "dog", "eel"]
P = np.random.default_rng(0).dirichlet([1, 1, 1], 40)
"""Rows with all digits, so that none is explained by rounding."""


def tensor(p, shape):
    return {"name": "probabilities", "datatype": "FP32", "shape": shape, "data": p}


def descending(p):
    return sorted(zip(NAMES, p, strict=True), key=lambda pair: -pair[1])


def entries(label, score, **more):
    return lambda p: [{label: name, score: x, **more} for name, x in descending(p)]


def arrays(names, numbers):
    return lambda p: {
        names: [name for name, _ in descending(p)], numbers: [x for _, x in descending(p)]
    }  # fmt: skip


FORMS = {
    # names and numbers under other keys
    "BigQuery ML": entries("label", "prob"),
    "class and probability": entries("class", "probability"),
    "Rekognition, in fractions": entries("Name", "Confidence"),
    "AutoML": entries("displayName", "confidence"),
    "Custom Vision": entries("tagName", "probability", tagId="7"),
    "className": entries("class_name", "score"),
    "one key is clear": entries("breed", "score"),
    "scores as text": lambda p: [{"label": n, "score": repr(x)} for n, x in descending(p)],
    "pairs": lambda p: [[name, x] for name, x in descending(p)],
    # arrays side by side
    "Vertex AI tables": arrays("classes", "scores"),
    "Vertex AI images": lambda p: {
        "ids": ["100", "101", "102"], **arrays("displayNames", "confidences")(p)},
    "zero-shot": lambda p: {"sequence": "It barks.", **arrays("labels", "scores")(p)},
    # a row inside something
    "a row in a list": lambda p: [p],
    "Hugging Face's batch of one": lambda p: [entries("label", "score")(p)],
    "predictions": lambda p: {"predictions": [p]},
    "predictions of objects": lambda p: {"predictions": [arrays("classes", "scores")(p)]},
    "the best class and all": lambda p: {"class": "cat", "probabilities": p},
    "probabilities and logits": lambda p: {"logits": np.log(p).tolist(), "probabilities": p},
    "V2 tensor": lambda p: {"model_name": "m", "outputs": [tensor(p, [1, 3])]},
    "V2 tensor beside classes": lambda p: {
        "outputs": [{"name": "label", "datatype": "INT64", "shape": [1], "data": [0]},
                    tensor([p], [1, 3])]},
    # vectors
    "Spark": lambda p: {"type": 1, "values": p},
    "Spark in parquet": lambda p: {"type": 1, "size": None, "indices": None, "values": p},
    # texts
    "numbers as text": lambda p: [repr(x) for x in p],
    "objects of them": lambda p: {name: repr(x) for name, x in zip(NAMES, p, strict=True)},
    "percentages in text": lambda p: [f"{100 * x!r}%" for x in p],
    "JSON as text": lambda p: json.dumps({"predictions": [p]}, separators=(",", ":")),
    "objects in it": lambda p: json.dumps(dict(descending(p)), separators=(",", ":")),
}  # fmt: skip

SAME = [
    form
    for form in FORMS
    if form not in ("numbers as text", "objects of them", "percentages in text", "scores as text")
]
"""Those that are answered as they came; of the others numbers become numbers."""


@pytest.mark.parametrize("form", FORMS)
def test_lines_and_answers(form):
    messages = Messages(NAMES)
    for p in P.tolist():
        value = FORMS[form](p)
        read = messages.read(json.dumps({"id": 1, "probs": value}).encode())
        assert read.row.tolist() == pytest.approx(p, abs=1e-12)
        answer = json.loads(messages.write(read, np.array(p)))
        assert answer["probs_raw"] == value
        assert messages.read(json.dumps(answer).encode()).row.tolist() == pytest.approx(p)
        if form in SAME:
            assert answer["probs"] == value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_files(tmp_path, form, name):
    labels = [NAMES[k] if _names_classes(form) else int(k) for k in P.argmax(axis=1)]
    rows = [
        {"row": FORMS[form](p), "label": label} for p, label in zip(P.tolist(), labels, strict=True)
    ]
    file = tmp_path / name
    if name == "a.csv":
        text = [row["row"] if isinstance(row["row"], str) else json.dumps(row["row"])
                for row in rows]  # fmt: skip
        pl.DataFrame({"row": text, "label": labels}).write_csv(file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(UserWarning, match="the probabilities are those of column 'row'"):
        recording = Recording(file)
    (chunk,) = recording.chunks()
    order = [recording.classes.index(n) for n in NAMES] if _names_classes(form) else [0, 1, 2]
    assert chunk.P[:, order] == pytest.approx(P, abs=1e-12)
    assert [recording.classes[k] for k in chunk.y] == labels


def _names_classes(form):
    return "cat" in json.dumps(FORMS[form]([0.5, 0.25, 0.25])) and form != "the best class and all"


def test_sparse_vectors_are_answered_dense():
    messages = Messages(NAMES)
    for vector in (
        {"type": 0, "size": 3, "indices": [0, 2], "values": [0.25, 0.75]},
        {"type": 0, "size": 3, "indices": [], "values": []},
    ):
        read = messages.read(json.dumps({"id": 1, "probs": vector}).encode())
        assert read.row.tolist() == ([0.25, 0, 0.75] if vector["values"] else [0, 0, 0])
    answer = json.loads(messages.write(read, np.array([0.5, 0.25, 0.25])))
    assert answer["probs"] == {"type": 1, "values": [0.5, 0.25, 0.25]}


def test_the_k_largest_are_answered_in_the_keys_that_came():
    messages = Messages(NAMES)
    value = {"ids": [7], "displayNames": ["cat"], "confidences": [0.8]}
    read = messages.read(json.dumps({"probs": value}).encode())
    assert read.row.tolist() == pytest.approx([0.8, 0.1, 0.1])
    answer = messages.write(read, np.array([0.1, 0.8, 0.1]))
    assert json.loads(answer)["probs"] == {
        "ids": [None], "displayNames": ["dog"], "confidences": [0.8]
    }  # fmt: skip
    assert len(answer) <= messages.largest(read)


def test_the_names_of_classes_are_found():
    messages = Messages(NAMES)
    for form in FORMS:
        message = messages.open(json.dumps({"probs": FORMS[form]([0.2, 0.3, 0.5])}).encode())
        names = messages.names_in(message)
        assert (names is not None and sorted(names) == NAMES) == _names_classes(form), form


@pytest.mark.parametrize(
    "value",
    [
        [[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]],  # several rows
        [True, [0], [1.0]],  # a size that is none
        [3.0, [0], [1.0]],
        [0, [], []],
        {"predictions": [[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]},
        {"first": [0.2, 0.3, 0.5], "second": [0.5, 0.3, 0.2]},  # which?
        {"outputs": [tensor([0.2, 0.3, 0.5], [1, 3]), tensor([0.2, 0.3, 0.5], [1, 3])]},
        tensor([0.2, 0.3, 0.5], [3, 1]),  # three rows
        {"class": "cat", "probability": 0.9},  # the best alone
        {"type": 0, "size": 3, "indices": [0, 3], "values": [0.5, 0.5]},
        {"type": 0, "size": 3, "indices": [0], "values": [0.5, 0.5]},
        [{"label": "cat", "prob": 0.9}, {"name": "dog", "prob": 0.1}],
        [{"score": 0.5}],
        [{"a": "cat", "b": 0.9, "c": 0.9}],
        {"classes": ["cat", "cat"], "scores": [0.5, 0.5]},
        {"classes": ["cat", "dog", "eel"], "scores": [0.5, 0.5]},
        ["cat", "dog"],
        [True, False],
        [[[[[[[[[[[0.5, 0.5]]]]]]]]]]],
        [],
        {},
        "cat",
        None,
    ],
)
def test_what_has_not_one_reading_is_refused(value):
    found = plain_row(value)
    assert found is None or list(found.probs) != NAMES
    with pytest.raises(StreamCANError) as error:
        Messages(NAMES).read(json.dumps({"probs": value}).encode())
    assert isinstance(error.value, BadMessage) or "none of the" in str(error.value)
