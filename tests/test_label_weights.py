"""Weights of labels come through all that a learner does with labels."""

from __future__ import annotations

import json
from io import BytesIO

import numpy as np
import pytest

from stream_can import Corrector, Learner
from stream_can.cli.main import main
from stream_can.learner import LateLabel, read_labels, write_labels
from stream_can.messages.messages import BadMessage, Fields, Messages
from stream_can.multilabel import MultiLabelCorrector
from stream_can.pipe import pipe
from stream_can.recording import Recording
from stream_can.recording.table import InvalidRecording
from stream_can.replay import replay
from stream_can.sparse import SparseCorrector

P = np.random.default_rng(0).dirichlet(np.ones(3), 30)


def learned(learner):
    return learner.correctors[None, None]


def test_each_way_to_a_label_takes_its_weight():
    bare = Corrector(3)
    _, receipts = bare.process_many(P, receipt=True)
    weights = np.random.default_rng(1).uniform(0.01, 100, 30)
    learners = [Learner(Corrector(3)) for _ in range(3)]
    for learner in learners:
        learner.process_many(range(30), P)
    one, many, played = learners
    for i in range(30):
        bare.learn_one(P[i], i % 3, receipt=receipts[i], weight=weights[i])
        one.label(i, i % 3, weight=weights[i])
    many.label_many(range(30), [i % 3 for i in range(30)], weights=weights)
    late = [LateLabel(i, i % 3, weight=float(weights[i])) for i in range(30)]
    played.play([], None, read_labels(write_labels(late)))
    assert {learned(learner) for learner in learners} == {bare.to_bytes()}


def test_held_labels_and_events_keep_it():
    learner = Learner(Corrector(3), label_wait=100)
    assert learner.label(0, 1, time=0, weight=np.float64(7)) == "held"
    assert learner.label(1, 2, time=0, weight=3) == "held"
    learner = Learner.from_bytes(learner.to_bytes())
    other = Learner.from_bytes(learner.to_bytes())
    learner.keep_events()
    learner.process(0, P[0], time=1)  # its label is learned with it
    learner.process(5, P[1], time=1000)  # the other teaches the class mix
    learner.label(5, 0, time=1000, weight=np.float64(2))
    other.play_events(learner.take_events())
    bare = Corrector(3)
    _, receipt = bare.process_one(P[0], receipt=True)
    bare.learn_one(P[0], 1, receipt=receipt, weight=7)
    bare.learn_one(None, 2, weight=3)
    _, receipt = bare.process_one(P[1], receipt=True)
    bare.learn_one(P[1], 0, receipt=receipt, weight=2)
    assert learned(learner) == learned(other) == bare.to_bytes()


@pytest.mark.parametrize("weight", [0, 101.0, float("nan")])
def test_a_weight_that_is_none_is_refused_with_its_call(weight):
    learner = Learner(Corrector(3))
    learner.process(0, P[0])
    before = learner.to_bytes()
    with pytest.raises(ValueError, match=r"weight: .*expected a number from 0.01 to 100"):
        learner.label(0, 1, weight=weight)
    with pytest.raises(ValueError, match="2 ids, 2 labels, 2 times, 1 weights"):
        learner.label_many([0, 1], [1, 1], weights=[1])
    assert learner.to_bytes() == before


@pytest.mark.parametrize(
    ("corrector", "label", "rows"),
    [(MultiLabelCorrector(["a", "b"]), ["a"], "multilabel"), (SparseCorrector(), "a", "sparse")],
)
def test_other_rows_have_no_weights(corrector, label, rows):
    with pytest.raises(ValueError, match=f"weight: not of {rows} rows; leave it out"):
        Learner(corrector).label(0, label, weight=2)


def test_a_replay_reads_weights_of_a_column(tmp_path):
    y, weights = np.arange(30) % 3, np.round(np.random.default_rng(1).uniform(0.01, 100, 30), 3)
    lines = [
        f'{{"probs": {p.tolist()}, "label": {y[i]}, "w": {weights[i]}}}\n' for i, p in enumerate(P)
    ]
    file = tmp_path / "stream.jsonl"
    file.write_text("".join(lines))
    corrector = Corrector(3)
    replay(Recording(file, weight="w"), corrector, label_delay=7)
    bare, came = Corrector(3), np.arange(23)
    (chunk,) = Recording(file, weight="w").chunks()
    bare.play(chunk.P, y[:23], came, came + 8, receipt=True, weights=weights[:23])
    assert corrector.to_bytes() == bare.to_bytes()
    state = tmp_path / "state.scan"
    options = ["--label-delay", "7", "--weight", "w", "--state", str(state), "--json"]
    assert main(["replay", str(file), *options]) == 0
    assert state.read_bytes() == bare.to_bytes()
    lines[4] = lines[4].replace('"w"', '"v"')
    file.write_text("".join(lines))
    with pytest.raises(InvalidRecording, match="row 5: w: weight: None, expected a number from"):
        replay(Recording(file, weight="w"), corrector, label_delay=7)


def test_lines_have_weights():
    """In a field of the label's line, or of one with both; one that is none is a dead letter."""
    labels = '{"id": 0, "label": 1, "w": 7}\n{"id": 1, "label": 2}\n{"id": 2, "label": 0, "w": 0}\n'
    messages = Messages(range(3), Fields(id="id", weight="w"))
    read = [messages.read_label(line.encode()).weight for line in labels.splitlines()[:2]]
    assert read == [7.0, None]
    with pytest.raises(BadMessage, match=r"w: 0, expected a weight, a number from 0.01 to 100"):
        messages.read_label(labels.splitlines()[2].encode())
    with_both = f'{{"id": 0, "probs": {P[0].tolist()}, "label": 1, "w": 7}}\n'
    both = BytesIO()
    options = {"fields": Fields(id="id", weight="w"), "stdout": both, "labelled": True}
    assert pipe(3, stdin=BytesIO((with_both * 2).encode()), **options) == 0
    bare = Corrector(3)
    _, receipt = bare.process_one(P[0], receipt=True)
    bare.learn_one(P[0], 1, receipt=receipt, weight=7)
    sent = [json.loads(line)["probs"] for line in both.getvalue().splitlines()]
    assert sent[1] == bare.process_one(P[0]).tolist()
