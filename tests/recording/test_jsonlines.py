"""Arrays of numbers in JSON lines: the same rows and errors as by way of Python's numbers."""

import json

import numpy as np
import pytest

from stream_can.errors import InvalidPrediction
from stream_can.recording.recording import Recording
from stream_can.recording.table import InvalidRecording

pytestmark = pytest.mark.fast

GOOD = b'{"probs":[0.25,0.75],"label":"b"}\n'


def rows(path, *lines):
    path.write_bytes(GOOD + b"\n".join(lines) + b"\n")
    chunks = list(Recording(path, classes=["a", "b"]).chunks())
    return np.concatenate([chunk.P for chunk in chunks])[1:]


def test_an_array_is_the_row_that_an_object_is(tmp_path):
    P = np.random.default_rng(0).dirichlet([0.1, 0.1], 500)
    arrays = [json.dumps({"probs": p, "label": "a"}).encode() for p in P.tolist()]
    objects = [
        json.dumps({"probs": dict(zip("ab", p, strict=True)), "label": "a"}).encode()
        for p in P.tolist()
    ]
    read = rows(tmp_path / "a.jsonl", *arrays)
    assert read.tobytes() == rows(tmp_path / "b.jsonl", *objects).tobytes()
    mixed = [pair[i % 2] for i, pair in enumerate(zip(arrays, objects, strict=True))]
    assert read.tobytes() == rows(tmp_path / "c.jsonl", *mixed).tobytes()


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b'{"probs": [ 1 ,\t0 ], "label": "a"}', [1, 0]),
        (b'{"probs":[-0,1e0],"label":"a"}', [0, 1]),
        (b'{"probs":[1,1e-400]}', [1, 0]),
        (b'{"probs":[1,0],"probs":[0,1],"label":"a"}', [0, 1]),
        (b'{"x":{"probs":[1,0]},"probs":[0,1],"label":null}', [0, 1]),
    ],
)
def test_a_line_that_is_unlike_the_others(line, row, tmp_path):
    assert rows(tmp_path / "a.jsonl", line).tolist() == [row]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"probs":[0.5,1e400],"label":"a"}', "1e400 is more than a float holds"),
        (b'{"probs":[0.5,0.5],"label":1e400}', "1e400 is more than a float holds"),
        (b'{"probs":[01,0],"label":"a"}', "no JSON from character 12 on"),
        (
            b'{"probs":[0.5,NaN],"label":"a"}',
            "NaN is no JSON: no probability may be missing; write null elsewhere (byte 14)",
        ),
        (b'{"probs":[0.5,0.5],"label":"a"', "it ends too early"),
        (b'{"probs":[0.5,0.5],"label":"\xff"}', "no UTF-8: byte 0xff at 28"),
        (b"[1]", "it is a list"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line, says, tmp_path):
    with pytest.raises(InvalidRecording) as said:
        rows(tmp_path / "a.jsonl", line)
    expected = f"{tmp_path / 'a.jsonl'}: line 2: not a JSON object: {says}"
    assert str(said.value).startswith(expected)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"probs":[1],"label":"a"}', "row 2: 1 probabilities for 2 classes"),
        (b'{"probs":[1,0,0],"label":"a"}', "row 2: 3 probabilities for 2 classes"),
        (b'{"probs":[1,null],"label":"a"}', "row 2: the probability of class 'b' is missing"),
        (b'{"probs":[[1],0],"label":"a"}', "row 2: [1] is not a number"),
        (b'{"label":"a"}', "row 2: the probability of class 'a' is missing"),
    ],
)
def test_what_is_wrong_with_a_row_names_it(line, says, tmp_path):
    with pytest.raises((InvalidRecording, InvalidPrediction)) as said:
        rows(tmp_path / "a.jsonl", line)
    assert f"a.jsonl: {says}" in str(said.value)


def test_a_field_of_ids_that_no_prediction_has_is_named(tmp_path):
    file = tmp_path / "a.jsonl"
    lines = [{"id": 1, "probs": [0.5, 0.5]}, {"id": 1, "label": 0}]
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(
        InvalidRecording, match=r"a.jsonl: no prediction has the field 'nope' \(--id"
    ):
        Recording(file, id="nope")
