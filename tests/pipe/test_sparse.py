"""A pipe of sparse rows: messages, state, and the bits of a learner."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_can import Learner
from stream_can.pipe.statefile import PipeState
from stream_can.sparse import SparseCorrector
from stream_can.sparse.adapter import Sparse
from tests.cli.command import stream_can
from tests.forks import without_counts

pytestmark = pytest.mark.fast

OPTIONS = ["--rows", "sparse", "--max-classes", "50"]


def run(lines, *options, code=0):
    """What came out, and what was said."""
    data = "".join(json.dumps(line) + "\n" for line in lines)
    out, err = stream_can("pipe", *options, input=data, code=code)
    return [json.loads(line) for line in out.splitlines()], without_counts(err)


def stream(n=80):
    """Rows as lines have them in turn, an object or a list of label and score; and late labels."""
    rng = np.random.default_rng(3)
    for i in range(n):
        k = int(rng.integers(1, 6))
        p = -np.sort(-rng.dirichlet(np.ones(k + 1))[:k])
        row = dict(zip([f"c{j}" for j in rng.permutation(30)[:k]], p.tolist(), strict=True))
        listed = [{"label": name, "score": one} for name, one in row.items()]
        yield row, {"id": i, "probs": listed if i % 2 else row, "at": i}, f"c{rng.integers(30)}"


@pytest.mark.parametrize("cut", [None, 61])
def test_rows_and_labels_are_those_of_a_learner(tmp_path, cut):
    learner = Learner(SparseCorrector("any", max_classes=50))
    lines, expected = [], []
    for i, (row, line, label) in enumerate(stream()):
        lines.append(line)
        expected.append(learner.process(str(i).encode(), row))
        if i >= 7:
            lines.append({"id": i - 7, "label": label})
            learner.label(str(i - 7).encode(), label)
    # Two runs, the second with the state of the first; names have their numbers as lines come.
    options = [*OPTIONS, "--state", tmp_path / "state", "--save-every", "7"]
    out = []
    for some in (lines,) if cut is None else (lines[:cut], lines[cut:]):
        found, err = run(some, *options)
        out += found
        assert err == ""
    for (row, line, _), got, better in zip(stream(), out, expected, strict=True):
        probs = got["probs"]
        if isinstance(line["probs"], list):
            assert [one["score"] for one in probs] == sorted(o["score"] for o in probs)[::-1]
            probs = {one["label"]: one["score"] for one in probs}
        assert probs == better.probabilities
        assert got["rest"] == better.rest
        assert (got["probs_raw"], got["at"], set(row) <= set(probs)) == (
            line["probs"], line["at"], True,
        )  # fmt: skip
    state = PipeState.from_bytes((tmp_path / "state").read_bytes())
    kept = state.learner
    assert kept.live[None, None].corrector.to_bytes() == (
        learner.live[None, None].corrector.to_bytes()
    )
    assert kept.scores[None, None][1].summary() == learner.scores[None, None][1].summary()
    assert (state.counts.predictions, state.counts.learned) == (80, 73)


def test_numbers_are_classes_too():
    lines = [{"id": 1, "probs": {"3": 0.5, "7": 0.2}}, {"id": 1, "label": 3}, {"id": 2, "label": 9}]
    lines += [{"id": 3, "probs": [{"label": 7, "score": 0.5}]}]
    out, err = run(lines, "--rows", "sparse", "--classes", "10", "--digits", "3")
    assert out[0]["probs"] == {"3": 0.5, "7": 0.2}
    assert out[1]["probs"][0]["label"] == 7
    assert err == ""


def test_a_label_may_bring_its_row():
    lines = [{"id": 1, "label": "a", "probs_raw": {"a": 0.4}, "probs": {"a": 0.3}}]
    out, err = run([*lines, {"id": 2, "probs": {"a": 0.4}}], *OPTIONS)
    assert (len(out), err) == (1, "")
    assert out[0]["probs"]["a"] > 0.4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"probs": [0.3, 0.7]}, "BadMessage: probs: no classes are named, expected {class: "),
        ({"probs": 0.3}, "BadMessage: probs: no classes are named"),
        ({"probs": {}}, "InvalidPrediction: probs: no class is listed"),
        ({"probs": {"a": 0.9, "b": 0.3}}, "InvalidPrediction: probs: probabilities sum to 1.2"),
        ({"probs": {"a": -0.1}}, "probability -0.1 of class 'a'"),
        ({"probs": [{"label": "a", "score": 0.1}] * 2}, "2 entries for 1 classes"),
        ({"probs": {f"n{i}": 0.001 for i in range(129)}}, "129 classes are listed, expected 1 to"),
        ({"probs": {f"n{i}": 0.001 for i in range(60)}}, "max_classes"),
        ({"label": ["a"]}, "BadMessage: label: list, expected the name of a class"),
        ({"label": None}, "BadMessage: label: null, expected the name"),
        ({"label": "NA"}, "UnknownClass: label: no class is called 'NA'"),
        ({"label": ""}, "UnknownClass: label: no class is called ''"),
    ],
)
def test_a_bad_line_is_a_dead_letter_and_the_others_go_on(line, said):
    lines = [{"id": 1, "probs": {"a": 0.5}}, {"id": 2} | line, {"id": 3, "probs": {"b": 0.5}}]
    out, err = run(lines, *OPTIONS)
    assert [one["id"] for one in out] == [1, 3]
    assert said in err
    assert json.loads(err.splitlines()[0])["line"] == 2


def test_a_class_that_a_row_lists_is_one_though_its_name_says_that_there_is_none(tmp_path):
    """As in recorded files."""
    lines = [{"id": 1, "probs": {"none": 0.2, "b": 0.7}}, {"id": 1, "label": "none"}]
    _, err = run(lines, *OPTIONS, "--state", str(tmp_path / "state"))
    assert err == ""
    assert PipeState.from_bytes((tmp_path / "state").read_bytes()).counts.learned == 1
    labelled = [lines[0] | {"label": "NA"}, lines[0] | {"label": "none"}]
    out, err = run(labelled, *OPTIONS, "--labelled")
    assert (len(out), err) == (2, "")


def test_labels_are_asked_for():
    """By the two likeliest classes; of a row with one class by that and the rest."""
    rng = np.random.default_rng(0)
    sure, torn = {"a": 0.97, "b": 0.01}, {"a": 0.4, "b": 0.39}
    lines = [{"id": i, "probs": torn if rng.random() < 0.1 else sure} for i in range(400)]
    out, _ = run(lines, *OPTIONS, "--ask", "0.1")
    asked = [(one["ask"], one["probs_raw"]) for one in out if "ask" in one]
    margins = [row for reason, row in asked if reason == "margin"]
    n = sum(line["probs"] == torn for line in lines)
    assert margins.count(torn) / n > 5 * margins.count(sure) / (400 - n) > 0
    assert sum(row == sure for reason, row in asked if reason == "random") > 5
    kind = Sparse(SparseCorrector("any", max_classes=50))
    assert kind.uncertainty([({"a": 0.6}, 0.4), ({"a": 1.0}, 0.0)]) == pytest.approx([0.8, 0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rows", "sparse", "--sets", "0.9"], "sets: not of sparse rows"),
        (["--rows", "sparse", "--model", "m"], "model: not of sparse rows"),
        (["--rows", "sparse", "--format", "avro"], "format avro: not of sparse rows"),
        (["--max-classes", "5"], "max_classes: not of dense rows; leave it out"),
        (
            ["--rows", "sparse", "--normalise", "always"],
            "normalise always: not of sparse rows",
        ),
        (["--rows", "sparse", "--classes", "a,b"], "classes: 'a,b', expected a number from 1"),
        (["--rows", "sparse", "--memory-mb", "1"], "max_classes: 1,000,000 may take"),
    ],
)
def test_what_there_is_not_is_refused(options, said):
    _, err = run([], *options, code=2)
    assert said in err


def test_a_state_of_the_other_kind_is_refused(tmp_path):
    run([{"id": 1, "probs": [0.5, 0.5]}], "--classes", "a,b", "--state", tmp_path / "dense")
    run([{"id": 1, "probs": {"a": 0.5}}], *OPTIONS, "--state", tmp_path / "sparse")
    _, err = run([], *OPTIONS, "--state", tmp_path / "dense", code=2)
    assert "rows is 'dense' in it, not 'sparse'; move it away" in err
    _, err = run([], "--state", tmp_path / "sparse", code=2)
    assert "rows is 'sparse' in it, not 'dense'" in err
    out, _ = stream_can("inspect", tmp_path / "sparse", "--json")
    assert json.loads(out)["known_classes"] == 1
