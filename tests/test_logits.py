"""Logits in each place: what comes out is what comes out of their probabilities."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest

from stream_can import InvalidPrediction, softmax
from stream_can.messages.fields import Fields, fields_of
from stream_can.messages.messages import Messages
from stream_can.method.logits import of_logits
from stream_can.pipe import pipe
from stream_can.recording import Recording
from tests.cli.command import stream_can

pytestmark = pytest.mark.fast
CLASSES = ["a", "b", "c"]


def logits(n, m=3, seed=0):
    return np.random.default_rng(seed).normal(0, 3, (n, m)).round(3)


def plain(row):
    """The definition, with fractions of exponentials that cannot overflow."""
    return [1 / math.fsum(math.exp(min(other - z, 700)) for other in row) for z in row]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_softmax_is_the_definition_in_double(dtype):
    Z = logits(200, 7).astype(dtype)
    P = softmax(Z)
    np.testing.assert_allclose(P, [plain(z) for z in Z.tolist()], rtol=1e-13)
    assert all((softmax(z) == p).all() for z, p in zip(Z, P, strict=True))


def test_what_single_precision_saturates_stays():
    single = np.exp(np.float32([-200, 0])) / np.exp(np.float32([-200, 0])).sum()
    assert single.tolist() == [0, 1]
    assert softmax(np.float32([-200, 0]))[0] == pytest.approx(math.exp(-200), rel=1e-12)
    assert softmax([-1e6, 1e6, 0]).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0.0, 1.0], [0.0, math.nan]], "row 1: entry 1 is nan, expected a logit within 1,000,000"),
        ([0.0, -math.inf], "^entry 1 is -inf.*a class that is ruled out\\? Give it -10000"),
        ([[2e6, 1.0]], "row 0: entry 0 is 2000000"),
        ([3.0], r"shape \(1,\), expected .* the row \[0, z\]"),
        (3.0, r"shape \(\)"),
        ([["x", "y"]], "expected real numbers"),
    ],
)
def test_refused_by_name(rows, message):
    with pytest.raises(InvalidPrediction, match=message):
        softmax(rows)


FORMS = [
    lambda z: z,
    lambda z: dict(zip(CLASSES, z, strict=True)),
    lambda z: [{"label": k, "score": s} for k, s in zip(CLASSES[::-1], z[::-1], strict=True)],
    lambda z: {"names": CLASSES, "scores": z},
    lambda z: json.dumps(z),
]


def piped(lines, **fields):
    """What a pipe makes of lines."""
    out = io.BytesIO()
    text = "\n".join(map(json.dumps, lines)).encode()
    rows = "multilabel" if "scores" in lines[0] else "dense"
    fields = fields_of(rows, id="id", **fields)
    assert pipe(CLASSES, rows=rows, fields=fields, stdin=io.BytesIO(text), stdout=out) == 0
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("echo", [False, True], ids=["by id", "echoed"])
@pytest.mark.parametrize("form", FORMS, ids=["array", "object", "entries", "platform", "text"])
def test_a_pipe_of_logits_is_one_of_their_probabilities(form, echo):
    """The first form is read by compiled code; labels by id, or with the logits as they were."""
    Z, y = logits(400), np.random.default_rng(1).choice(CLASSES, 400).tolist()
    lines_of_logits, lines_of_probs = [], []
    for lines, rows in ((lines_of_logits, Z), (lines_of_probs, softmax(Z))):
        for i, row in enumerate(map(form, rows.tolist())):
            lines.append({"id": i, "probs": row})
            lines.append({"id": i, "label": y[i]} | ({"probs_raw": row} if echo else {}))
    answers = piped(lines_of_logits, logits=True)
    assert [answer["probs_raw"] for answer in answers] == [form(z) for z in Z.tolist()]
    for answer, expected in zip(answers, piped(lines_of_probs), strict=True):
        assert answer["probs"] == expected["probs"]


def test_one_number_is_the_logit_of_the_second_class():
    messages = Messages(["no", "yes"], Fields(logits=True))
    prediction = messages.read(b'{"probs": -2.5}')
    P, bad, _ = messages.rows_of([prediction.row])
    assert not bad
    assert P[0, 1] == pytest.approx(1 / (1 + math.exp(2.5)), rel=1e-15)
    assert json.loads(messages.write(prediction, P[0])) == {"probs": P[0, 1], "probs_raw": -2.5}


def test_scores_of_labels_are_logistic_functions():
    Z = logits(100).tolist()
    P = [[1 / (1 + math.exp(-z)) for z in row] for row in Z]
    answers = piped([{"id": i, "scores": row} for i, row in enumerate(Z)], logits=True)
    expected = piped([{"id": i, "scores": row} for i, row in enumerate(P)])
    assert [answer["scores_raw"] for answer in answers] == Z
    for answer, other in zip(answers, expected, strict=True):
        np.testing.assert_allclose(answer["scores"], other["scores"], rtol=1e-9)
    assert of_logits(np.array([[-800.0, 800.0]]), several=True)[0].tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"id": 1, "probs": {"a": 0.5, "b": 2}}',
            "no logit of class 'c', expected one of each of 3",
        ),
        ('{"id": 1, "probs": [0, 1, 2e6]}', "probs: entry 2 is 2000000.0, expected a logit within"),
        ('{"id": 1, "probs": [0, 1]}', "2 logits for 3 classes"),
    ],
)
def test_a_line_is_refused_by_name(line, message):
    ordinary = '{"id": 1, "probs": [0, 1, 2]}'
    out, err = stream_can("pipe", "--classes", "a,b,c", "--logits", input=f"{ordinary}\n{line}\n")
    assert len(out.splitlines()) == 1
    assert message in err


def test_a_recording_of_logits_and_the_commands_that_follow(tmp_path):
    Z = logits(60)
    for name, rows in (("z.csv", Z), ("p.csv", softmax(Z))):
        lines = [",".join([*map(repr, row), CLASSES[i % 3]]) for i, row in enumerate(rows.tolist())]
        (tmp_path / name).write_text("\n".join(["z_a,z_b,z_c,label", *lines]))
    np.testing.assert_allclose(
        np.concatenate(
            [chunk.P for chunk in Recording(tmp_path / "z.csv", probs="z_", logits=True).chunks()]
        ),
        softmax(Z),
        rtol=1e-15,
    )
    options = "--probs", "z_", "--label-delay", "1", "--json"
    found = [
        json.loads(stream_can("replay", str(tmp_path / name), *options, *more)[0])
        for name, more in (("z.csv", ["--logits"]), ("p.csv", []))
    ]
    assert found[0]["corrected"] == pytest.approx(found[1]["corrected"], rel=1e-9)
    assert all("--logits" in found[0]["deploy"][place] for place in ("pipe", "serve", "run"))
    with pytest.warns(UserWarning, match="rows sum to 1: probabilities, not logits"):
        next(Recording(tmp_path / "p.csv", probs="z_", logits=True).chunks())


def test_sparse_rows_are_refused():
    _, err = stream_can("pipe", "--rows", "sparse", "--logits", input="", code=2)
    assert "logits: not of sparse rows" in err
