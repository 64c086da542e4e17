"""A server of sparse rows: its answers, its file, its page."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from stream_can import Learner
from stream_can.sparse import SparseCorrector
from tests.serve.serving import Server, learner_in

SETTINGS = {"classes": None, "rows": "sparse", "max_classes": 60}


def stream(n=60):
    rng = np.random.default_rng(3)
    for _ in range(n):
        k = int(rng.integers(1, 6))
        p = -np.sort(-rng.dirichlet(np.ones(k + 1))[:k])
        row = dict(zip([f"c{j}" for j in rng.permutation(30)[:k]], p.tolist(), strict=True))
        yield row, f"c{rng.integers(40)}"


def test_rows_and_labels_are_those_of_a_learner_and_a_kill_loses_none(tmp_path):
    learner, rows = Learner(SparseCorrector("any", max_classes=60)), list(stream())
    server = Server(tmp_path, **SETTINGS, durable="predictions").start()
    for i, (row, label) in enumerate(rows):
        if i in (20, 45):
            server.stop(signal.SIGKILL)
            server.start()
        better = learner.process(str(i).encode(), row)
        listed = [{"label": name, "score": p} for name, p in row.items()]
        answer = server.correct({"id": i, "probs": listed if i % 2 else row})
        probs = answer["probs"]
        if i % 2:
            probs = {one["label"]: one["score"] for one in probs}
        assert (probs, answer["rest"]) == (better.probabilities, better.rest)
        if i >= 5:
            assert learner.label(str(i - 5).encode(), label) == "learned"
            assert server.label({"id": i - 5, "label": label}) == ["learned"]
    brings = {"id": "gone", "label": "c1", "probs_raw": rows[0][0]}
    learner.label(b"gone", "c1", row=rows[0][0])
    assert server.label(brings) == ["learned"]
    server.stop(signal.SIGKILL)
    server.start()
    status = server.client.get("/status.json").json()
    assert status["n_classes"] == learner.numbering.n_named
    shares = {one["name"]: one["labels"] for one in status["learned"][0]["classes"]}
    assert 0.9 < sum(shares.values()) < 1.1
    changed = status["learned"][0]["changed"]
    off = [abs(one["labels"] - one["taken"]) for one in changed]
    assert off == sorted(off)[::-1]
    assert len(off) == 20
    assert off[0] > 0.03
    assert server.client.get("/").status_code == 200
    assert "stream_can_path_weight" in server.client.get("/metrics").text
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()
    server.client.close()
    kept = learner_in(server.state)
    assert kept.correctors == learner.correctors
    ours, theirs = (one.scores[None, None][1] for one in (kept, learner))
    assert ours.sums().tolist() == theirs.sums().tolist()


def test_classes_that_are_numbers_and_digits(tmp_path):
    with Server(tmp_path, classes=None, rows="sparse", n_classes=10, digits=3) as server:
        answer = server.correct({"id": 1, "probs": {"3": 0.51234, "7": 0.2}})
        assert answer["probs"] == {"3": 0.512, "7": 0.2}
        assert server.label({"id": 1, "label": 9}) == ["learned"]
        status, answer = server.post("/labels", json.dumps({"id": 1, "label": 10}))
        assert (status, "class 10 is none" in answer["error"]) == (422, True)


def test_the_page_scores_how_labels_were_foretold(tmp_path):
    with Server(tmp_path, **SETTINGS) as server:
        server.correct({"id": 1, "probs": {"a": 0.5, "b": 0.2}}, {"id": 2, "probs": {"a": 0.5}})
        server.label({"id": 1, "label": "a"})
        server.label({"id": 2, "label": "c"})
        hour = server.client.get("/status.json").json()["hour"]
    assert (hour["scored"], hour["accuracy"]["before"]) == (2, 0.5)
    losses = -np.log([0.5, 0.5 / 59])
    assert hour["log_loss"]["before"] == pytest.approx(losses.mean())


@pytest.mark.parametrize(
    ("path", "message", "status", "said"),
    [
        ("/correct", {"probs": [0.1, 0.2]}, 422, "no classes are named"),
        ("/correct", {"probs": {"a": 1.5}}, 422, "probabilities sum to 1.5"),
        ("/correct", {"probs": {f"n{i}": 0.001 for i in range(70)}}, 422, "max_classes"),
        ("/labels", {"id": 1, "label": ["a"]}, 422, "label: list, expected the name of a class"),
        ("/v2/models/stream_can/infer", {}, 404, "no tensor; POST them to /correct"),
    ],
)
def test_a_bad_message_is_refused(tmp_path, path, message, status, said):
    with Server(tmp_path, **SETTINGS) as server:
        found, answer = server.post(path, json.dumps(message))
    assert (found, said in answer["error"]) == (status, True), answer


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"classes": ["a", "b"]}, "classes: not of sparse rows"),
        ({"sets": 0.9}, "sets: not of sparse rows"),
        ({"label_noise": 0.1}, "label_noise: not of sparse rows"),
        ({"n_classes": 5}, "max_classes: of named classes, n_classes of numbered"),
        ({"rows": "dense", "classes": ["a", "b"]}, "max_classes: not of dense rows"),
        ({"memory_mb": 0.001, "max_classes": 10**6}, "max_classes: 1,000,000 may take"),
    ],
)
def test_what_there_is_not_is_refused(tmp_path, more, said):
    code, text = Server(tmp_path, **(SETTINGS | more)).run()
    assert (code, said in text) == (2, True), text


def test_a_file_of_other_classes_is_refused(tmp_path):
    with Server(tmp_path, **SETTINGS) as server:
        server.correct({"id": 1, "probs": {"a": 0.5}})
    for settings, said in (
        ({"classes": ["a", "b"]}, "rows is 'sparse' in it, and 'dense' here"),
        (SETTINGS | {"max_classes": 70}, "max_classes: 60 in it, 70 here"),
        (SETTINGS | {"half_life": 100}, "half_life: 5000.0 in it, 100.0 here"),
    ):
        code, text = Server(tmp_path, **settings).run()
        assert (code, said in text) == (3, True), text
