"""A pipe of multilabel rows: messages, state, and the bits of a learner."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_can import Learner
from stream_can.multilabel import MultiLabelCorrector
from stream_can.pipe.statefile import PipeState
from tests.cli.command import stream_can

pytestmark = pytest.mark.fast

LABELS = ["invoice", "urgent", "spam"]
OPTIONS = ["--rows", "multilabel", "--classes", ",".join(LABELS)]
OPTIONS += ["--train-counts", "30,10,5", "--train-rows", "100"]


def run(lines, *options, code=0):
    """What came out, and what was said."""
    data = "".join(json.dumps(line) + "\n" for line in lines)
    out, err = stream_can("pipe", *OPTIONS, *options, input=data, code=code)
    return [json.loads(line) for line in out.splitlines()], err


def stream(n=60):
    rng = np.random.default_rng(2)
    P = rng.beta(0.5, 0.8, (n, 3))
    return P, rng.random((n, 3)) < P


def some(Y, i):
    """The labels of a row, as lines have them in turn: all, some, and one that says otherwise."""
    has = [name for name, y in zip(LABELS, Y[i], strict=True) if y]
    return [has, {"urgent": bool(Y[i][1])}, {LABELS[0]: not Y[i][0], "spam": None}][i % 3]


def test_rows_and_labels_are_those_of_a_learner(tmp_path):
    P, Y = stream()
    corrector = MultiLabelCorrector(LABELS, train_counts=[30, 10, 5], train_rows=100)
    learner = Learner(corrector)
    lines, expected = [], []
    for i, p in enumerate(P):
        lines.append({"id": i, "scores": dict(zip(LABELS, p.tolist(), strict=True)), "n": i})
        found = learner.process_many([str(i).encode()], p[None])
        expected.append((found.rows[0].tolist(), found.sets[0]))
        for of in {max(i - 3, 0), max(i - 5, 0)}:
            lines.append({"id": of, "labels": some(Y, of + i % 2)})
            label = some(Y, of + i % 2)
            if isinstance(label, dict):
                label = {name: has for name, has in label.items() if has is not None}
            learner.label(str(of).encode(), label)
    half = len(lines) // 2
    state = ["--state", str(tmp_path / "state")]
    came = run(lines[:half], *state)[0] + run(lines[half:], *state)[0]
    assert [(list(one["scores"].values()), one["set"]) for one in came] == expected
    assert [list(one["scores_raw"].values()) for one in came] == P.tolist()
    kept = PipeState.from_bytes((tmp_path / "state").read_bytes())
    assert kept.learner.correctors == learner.correctors
    assert kept.learner.changed_labels == learner.changed_labels > 0
    assert kept.counts.learned + kept.counts.repeated == len(lines) - len(P)
    shown, _ = stream_can("inspect", tmp_path / "state", "--json")
    assert (
        json.loads(shown)["threshold"]
        == MultiLabelCorrector.from_bytes(learner.correctors[None, None]).threshold
    )
    assert "said to have a label" in stream_can("inspect", tmp_path / "state")[0]


def test_each_form_of_scores_is_answered_in_kind():
    entries = [{"label": name, "score": p} for name, p in zip(LABELS, [0.2, 0.9, 1.0], strict=True)]
    lines = [{"id": 1, "scores": [0.2, 0.9, 1.0]}, {"id": 2, "scores": entries}]
    (array, listed), _ = run(lines, "--digits", "2")
    assert [round(p, 2) for p in array["scores"]] == array["scores"]
    assert [one["label"] for one in listed["scores"]] == ["spam", "urgent", "invoice"]
    assert listed["set"] == ["spam", "urgent"]


def test_lines_may_carry_their_own_labels():
    P, Y = stream(30)
    lines = [
        {"scores": p.tolist(), "labels": [n for n, y in zip(LABELS, ys, strict=True) if y]}
        for p, ys in zip(P, Y, strict=True)
    ]
    found, _ = run(lines, "--labelled")
    corrector = MultiLabelCorrector(LABELS, train_counts=[30, 10, 5], train_rows=100)
    for p, ys, one in zip(P, Y, found, strict=True):
        row, receipt = corrector.process_one(p, receipt=True)
        assert one["scores"] == row.tolist()
        corrector.learn_one(p, ys.astype(int), receipt=receipt)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"scores": [0.1, 0.2]}, "BadMessage: scores: 2 scores for 3 labels"),
        (
            {"scores": [0.1, 0.2, 1.5]},
            "Prediction: scores: the score of label 'spam' is 1.5",
        ),
        (
            {"scores": {"invoice": 0.1, "spam": 1}},
            "no score of label 'urgent', expected one of",
        ),
        ({"scores": {"x": 0.1}}, "UnknownClass: scores: 'x' is none of the 3 labels"),
        ({"scores": 0.5}, "BadMessage: scores: one number, but there are 3 labels"),
        ({"probs": [0.1, 0.2, 0.3]}, "BadMessage: no field 'scores'"),
        (
            {"labels": "spam"},
            "labels: str, expected a list of labels, or {label: true}",
        ),
        ({"labels": ["x"]}, "UnknownClass: labels: 'x' is none of the 3 labels"),
        ({"labels": {"spam": 1}}, "labels: 'spam' is 1, expected true, false or null"),
        ({"labels": [["spam"]]}, "labels: ['spam'], expected the name of a label"),
    ],
)
def test_a_bad_line_is_a_dead_letter(line, says):
    came, err = run([{"id": 1} | line, {"id": 2, "scores": [0.1, 0.2, 0.3]}])
    assert [one["id"] for one in came] == [2]
    assert says in json.loads(err.splitlines()[0])["error"]


def test_labels_are_asked_for_at_random(tmp_path):
    """A choice by the row taught less. Labels that come unasked are not scored."""
    P, _ = stream(400)
    lines = [{"id": i, "scores": p.tolist()} for i, p in enumerate(P)]
    state = ["--state", str(tmp_path / "state"), "--ask", "0.1"]
    asked = [one["id"] for one in run(lines, *state)[0] if one.get("ask") == "random"]
    assert 20 < len(asked) <= 0.1 * (400 + 500)
    unasked = min({*range(400)} - {*asked})
    run([{"id": i, "labels": ["spam"]} for i in (asked[0], unasked)], *state)
    learner = PipeState.from_bytes((tmp_path / "state").read_bytes()).learner
    assert learner.requests[None, None].keys() == {str(i).encode() for i in asked[1:]}
    assert learner.scores[None, None][1].n == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--sets", "0.9"], "sets: not of multilabel rows"),
        (["--segments", "a"], "segments: not of multilabel rows"),
        (["--label-noise", "0.1"], "label_noise: not of multilabel rows"),
    ],
)
def test_what_several_labels_do_not_have_is_refused(options, says):
    assert says in run([], *options, code=2)[1]


def test_a_state_of_the_other_kind_is_refused(tmp_path):
    path = tmp_path / "state"
    run([], "--state", str(path))
    before = path.read_bytes()
    _, err = stream_can("pipe", "--state", path, code=2)
    assert "rows is 'multilabel' in it, not 'dense'; move it away" in err
    assert path.read_bytes() == before
