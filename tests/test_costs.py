"""Costs in each place: the decision is that of `Costs.decide` for the row that is sent."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from stream_can import Corrector, Costs
from stream_can.messages.fields import Fields
from stream_can.messages.messages import Messages
from stream_can.pipe import pipe
from stream_can.replay import Recording, replay, verdict
from tests.cli.command import stream_can

pytestmark = pytest.mark.fast
CLASSES = ["fraud", "fine"]
GIVEN = {"block": {"fraud": 0, "fine": 20}, "pass": {"fraud": 500, "fine": 0}, "call": 8}
COSTS = Costs(CLASSES, GIVEN)
OPTIONS = ["--costs", "block:fraud=0,fine=20", "--costs", "pass:fraud=500,fine=0", "--costs",
           "call=8"]  # fmt: skip


def stream(n=4000, seed=0):
    """Frauds that are rarer than the classifier says."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.4, 1.2, n)
    y = (rng.random(n) > p**1.6).astype(int)
    return np.column_stack([p, 1 - p]), y


def lines(P, y):
    for i, (p, k) in enumerate(zip(P.tolist(), y.tolist(), strict=True)):
        yield json.dumps({"id": i, "probs": p})
        yield json.dumps({"id": i, "label": CLASSES[k]})


@pytest.mark.parametrize("digits", [None, 3])
def test_a_pipe_sends_the_decision_of_what_it_sends(digits):
    text = "\n".join(lines(*stream(300))).encode()
    out = io.BytesIO()
    fields = Fields(id="id", costs=GIVEN, digits=digits)
    assert pipe(CLASSES, fields=fields, stdin=io.BytesIO(text), stdout=out) == 0
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(answers) == 300
    sent = np.array([answer["probs"] for answer in answers])
    assert [answer["decision"] for answer in answers] == COSTS.decide(sent)
    assert {answer["decision"] for answer in answers} == {"block", "pass", "call"}


def test_without_costs_there_is_no_decision():
    out = io.BytesIO()
    pipe(CLASSES, stdin=io.BytesIO(b'{"id": 1, "probs": [0.5, 0.5]}'), stdout=out)
    assert b"decision" not in out.getvalue()


@pytest.mark.parametrize("way", ["options", "environment", "file", "json"])
def test_ways_to_give_costs(tmp_path, way):
    env, options = {}, ["--classes", "fraud,fine"]
    if way == "options":
        options += OPTIONS
    elif way == "environment":
        env["STREAM_CAN_COSTS"] = ";".join(OPTIONS[1::2])
    elif way == "json":
        options += ["--costs", json.dumps(GIVEN)]
    else:
        table = "call = 8\nblock = {fraud = 0, fine = 20}\npass = {fraud = 500, fine = 0}"
        (tmp_path / "c.toml").write_text(f"[costs]\n{table}")
        options += ["--config", str(tmp_path / "c.toml")]
    out, _ = stream_can("pipe", *options, input='{"id": 1, "probs": [0.9, 0.1]}\n', extra_env=env)
    assert json.loads(out)["decision"] == "block"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--costs", "block:fraud=0,fine=2"], "costs: expected two actions or more"),
        (["--costs", "a:fraud=0", "--costs", "b=1"], "costs: a: no cost for 'fine'"),
        (["--costs", "a:frod=0,fine=1", "--costs", "b=1"], "costs: a: 'frod' is none of the 2"),
        (["--costs", "a"], "costs: 'a', expected ACTION:CLASS=COST"),
        (["--costs", "a=1;b=2", "--rows", "sparse", "--classes", "any"],
         "costs: not of sparse rows; leave it out"),
    ],
)  # fmt: skip
def test_a_pipe_refuses_by_name(options, message):
    classes = ["--classes", "fraud,fine"] * ("sparse" not in options)
    _, err = stream_can("pipe", *options, *classes, code=2)
    assert message in err.replace("\n", " ")


def test_an_answer_is_no_longer_than_its_bound():
    """What a topic's limit is compared with before a row is corrected."""
    long = {"a" * 200: 1.0, 'quo"te' * 20: {"fraud": 0.0, "fine": 3.0}}
    messages = Messages(CLASSES, Fields(costs=long))
    value = b'{"probs": [0.123456789012345678, 0.876543210987654322]}'
    prediction = messages.read(value)
    bound = messages.largest(prediction)
    for row in ([1.0, 0.0], [2.2250738585072014e-308, 1.0]):
        written = messages.write(messages.read(value), np.array(row))
        assert len(written) <= bound
        assert len(written) <= 2 * len(value) + messages.slack


def by_definition(P, y):
    """Mean costs of 1,000 rows: of each row the cheapest action by its numbers, and its label."""
    C = [[GIVEN[a][k] if isinstance(GIVEN[a], dict) else GIVEN[a] for k in CLASSES] for a in GIVEN]
    total = 0
    for p, k in zip(P, y, strict=True):
        expected = [sum(c * q for c, q in zip(row, p, strict=True)) for row in C]
        total += C[expected.index(min(expected))][k]
    return 1000 * total / len(y)


@pytest.fixture
def recorded(tmp_path):
    """A function that writes a recording."""

    def write(P, y):
        np.savez(tmp_path / "s.npz", probs=P, label=np.array([*CLASSES, ""])[y])
        return tmp_path / "s.npz"

    return write


def test_replay_says_what_decisions_cost(recorded):
    P, y = stream()
    y[::7] = -1  # rows without a label cost nothing that is known
    sent = []
    result = replay(
        Recording(recorded(P, y), classes=CLASSES), Corrector(CLASSES), label_delay=50, costs=COSTS,
        each=lambda step: sent.append(step.corrected),
    )  # fmt: skip
    known = y >= 0
    found = result.to_dict()["costs"]
    assert found["rows"] == known.sum()
    assert found["before"] == pytest.approx(by_definition(P[known], y[known]))
    assert found["after"] == pytest.approx(by_definition(np.concatenate(sent)[known], y[known]))
    assert found["change"] == pytest.approx(found["after"] - found["before"])
    assert found["change"] < 0 < found["change_error"]
    assert found["always"]["call"] == 8000
    assert found["with_labels_known"] == 0
    assert sum(found["decided"]["corrected"].values()) == pytest.approx(1)
    assert f": {-found['change']:.1f} less" in verdict(result)
    assert "less (standard error" in verdict(result)


def test_costs_by_which_the_probabilities_do_not_help_are_said(recorded):
    P, y = stream(1000)
    dear = Costs(CLASSES, {"block": {"fraud": 0, "fine": 1}, "pass": {"fraud": 1e6, "fine": 0}})
    said = verdict(
        replay(
            Recording(recorded(P, y), classes=CLASSES),
            Corrector(CLASSES),
            label_delay=9,
            costs=dear,
        )
    )
    assert "Always block would cost" in said


def test_the_command_shows_costs_and_hands_them_on(tmp_path, recorded):
    options = [str(recorded(*stream(1500))), "--label-delay", "20",
               "--classes", "fraud,fine", *OPTIONS]  # fmt: skip
    out, _ = stream_can("replay", *options, "--verbose", "--report", str(tmp_path / "r.html"))
    assert "By these costs 1,000 rows cost" in out
    assert out.count('--costs \'{"block": {"fraud": 0.0, "fine": 20.0}') >= 3
    assert "Decisions by costs" in (tmp_path / "r.html").read_text()
    told = json.loads(stream_can("replay", *options, "--json", "--output", tmp_path / "o.jsonl")[0])
    assert told["costs"]["rows"] == 1500
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["decision"] for row in rows] == COSTS.decide([row["probs"] for row in rows])
    stream_can("replay", *options, "--output", tmp_path / "o.csv")
    _, *lines = (tmp_path / "o.csv").read_text().splitlines()
    assert [line.rpartition(",")[2] for line in lines] == [row["decision"] for row in rows]
    stream_can("replay", *options, "--costs", "block:fraud", code=2)
