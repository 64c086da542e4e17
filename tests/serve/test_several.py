"""A server of multilabel rows: its answers, its file, its page."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from stream_can import Learner
from stream_can.multilabel import MultiLabelCorrector
from tests.serve.serving import Server, learner_in

LABELS = ["invoice", "urgent", "spam"]
SETTINGS = {
    "rows": "multilabel", "classes": LABELS, "train_counts": [30, 10, 5], "train_rows": 100,
}  # fmt: skip


def stream(n=60):
    rng = np.random.default_rng(2)
    P = rng.beta(0.5, 0.8, (n, 3))
    return P, rng.random((n, 3)) < P


def test_rows_and_labels_are_those_of_a_learner_and_a_kill_loses_none(tmp_path):
    P, Y = stream()
    learner = Learner(MultiLabelCorrector(LABELS, train_counts=[30, 10, 5], train_rows=100))
    server = Server(tmp_path, **SETTINGS, durable="predictions").start()
    for i, p in enumerate(P):
        if i in (20, 45):
            server.stop(signal.SIGKILL)
            server.start()
        found = learner.process_many([str(i).encode()], p[None])
        answer = server.correct({"id": i, "scores": dict(zip(LABELS, p.tolist(), strict=True))})
        assert list(answer["scores"].values()) == found.rows[0].tolist()
        assert answer["set"] == found.sets[0]
        if i >= 5:
            k = i - 5
            has = [name for name, y in zip(LABELS, Y[k], strict=True) if y]
            told = [has, {"urgent": bool(Y[k][1])}, {"spam": None, "invoice": not Y[k][0]}][i % 3]
            outcome = learner.label(str(k).encode(), told if isinstance(told, list) else {
                name: y for name, y in told.items() if y is not None
            })  # fmt: skip
            assert server.label({"id": k, "labels": told}) == [outcome]
    status = server.client.get("/status.json").json()
    assert (status["n_classes"], status["hour"]["matched"]) == (3, 15)
    assert [one["name"] for one in status["learned"][0]["classes"]] != []
    metrics = server.client.get("/metrics").text
    assert "stream_can_learned_labels" in metrics
    assert "stream_can_silent_classes{" not in metrics
    assert server.client.get("/").status_code == 200
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()
    server.client.close()
    kept = learner_in(server.state)
    assert kept.live[None, None].corrector.to_bytes() == (
        learner.live[None, None].corrector.to_bytes()
    )
    ours, theirs = (one.scores[None, None][1] for one in (kept, learner))
    assert ours.sums().tolist() == theirs.sums().tolist()


def test_what_is_scored_is_the_share_of_labels_that_are_right_and_the_log_loss_of_the_row(tmp_path):
    with Server(tmp_path, **SETTINGS) as server:
        server.correct({"id": 1, "scores": [0.9, 0.2, 0.6]}, {"id": 2, "scores": [0.9, 0.2, 0.6]})
        server.label({"id": 1, "labels": ["invoice"]})  # two of three are right
        server.label({"id": 2, "labels": {"spam": False}})  # the one that is known is not
        hour = server.client.get("/status.json").json()["hour"]
    assert hour["accuracy"]["before"] == pytest.approx((2 / 3 + 0) / 2)
    losses = -np.log([0.9, 0.8, 0.4]).sum() - np.log(0.4)
    assert hour["log_loss"]["before"] == pytest.approx(losses / 2)


def test_a_tensor_of_scores_is_corrected(tmp_path):
    with Server(tmp_path, **SETTINGS) as server:
        body = {"inputs": [
            {"name": "scores", "datatype": "FP64", "shape": [2, 3], "data": [0.4, 0.2, 0.9] * 2}
        ]}  # fmt: skip
        status, answer = server.post("/v2/models/stream_can/infer", json.dumps(body))
        assert (status, answer["outputs"][0]["shape"]) == (200, [2, 3])
        _, model = server.post("/correct", json.dumps({"scores": [0.4, 0.2, 0.9]}))
        assert [json.loads(text)[0] for text in answer["outputs"][1]["data"]] == ["spam"] * 2
        assert answer["outputs"][0]["data"][:3] == pytest.approx(model["scores"])


@pytest.mark.parametrize(
    ("path", "message", "said"),
    [
        ("/correct", {"scores": [0.1, 0.2]}, "scores: 2 scores for 3 labels"),
        ("/correct", {"scores": [0.1, 0.2, 1.5]}, "the score of label 'spam' is 1.5"),
        ("/correct", {"scores": {"spam": 0.5}}, "no score of label 'invoice'"),
        ("/labels", {"id": 1, "labels": ["ham"]}, "labels: 'ham' is none of the 3 labels"),
        ("/labels", {"id": 1, "labels": "spam"}, "labels: str, expected a list of labels"),
        ("/labels", {"labels": ["spam"]}, "no field 'id'"),
    ],
)
def test_a_bad_message_is_refused(tmp_path, path, message, said):
    with Server(tmp_path, **SETTINGS) as server:
        status, answer = server.post(path, json.dumps(message))
    assert status == 422
    assert said in answer["error"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"segments": ["tenant"]}, "segments: not of multilabel rows"),
        ({"label_noise": 0.1}, "label_noise: not of multilabel rows"),
        ({"normalise": "always"}, "normalise always: not of multilabel rows"),
        ({"rows": "dense"}, "train_rows: not of dense rows"),
    ],
)
def test_what_there_is_not_is_refused(tmp_path, more, said):
    code, text = Server(tmp_path, **(SETTINGS | more)).run()
    assert (code, said in text) == (2, True), text


def test_a_file_of_the_other_kind_is_refused_and_half_life_may_change(tmp_path):
    with Server(tmp_path, **SETTINGS) as server:
        server.correct({"id": 1, "scores": [0.4, 0.2, 0.9]})
    code, text = Server(tmp_path, classes=LABELS).run()
    assert (code, "rows is 'multilabel' in it, and 'dense' here" in text) == (3, True), text
    with Server(tmp_path, **SETTINGS, half_life=700) as server:
        assert server.label({"id": 1, "labels": ["spam"]}) == ["learned"]
    assert learner_in(server.state).live[None, None].corrector.half_life == 700
    (tmp_path / "dense").mkdir()
    with Server(tmp_path / "dense", classes=LABELS) as server:
        server.correct({"id": 1, "probs": [0.4, 0.2, 0.4]})
    code, text = Server(tmp_path / "dense", **SETTINGS).run()
    assert (code, "rows is 'dense' in it, and 'multilabel' here" in text) == (3, True), text
