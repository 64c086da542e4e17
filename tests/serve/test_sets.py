"""Prediction sets over HTTP: kept in the file, whatever ends the process."""

from __future__ import annotations

import signal

import numpy as np

from tests.serve.serving import CLASSES, Server


def test_sets_are_learned_and_kept_across_kills(tmp_path):
    rng = np.random.default_rng(0)
    kept, learned, waiting = [], 0, {}
    for life in range(3):
        with Server(tmp_path, sets=0.8, ask=1.0) as server:
            for i in range(life * 150, life * 150 + 150):
                probs = rng.dirichlet(np.full(3, 0.7))
                answer = server.correct({"id": i, "probs": probs.tolist()})
                assert answer["set"][0] == CLASSES[int(np.argmax(answer["probs"]))]
                waiting[i] = CLASSES[int(rng.choice(3, p=probs))]
                kept.append(waiting[i] in answer["set"])
                if i >= 20:  # also of predictions of the life before
                    learned += server.label({"id": i - 20, "label": waiting[i - 20]}) == ["learned"]
            page = server.client.get("/status.json").json()
            assert page["sets"] == 0.8
            # Of half of those that are asked for, and of a few of the lives before.
            assert page["hour"]["set_labels"] > 40
            assert server.client.get("/openapi.json").text.count('"set"') == 1
            server.stop(signal.SIGKILL)
    assert learned == 430
    assert 0.7 < np.mean(kept[-200:]) < 0.95


def test_without_the_setting_there_are_none(tmp_path):
    with Server(tmp_path, sets=0.8) as server:
        assert "set" in server.correct({"id": 1, "probs": [0.5, 0.3, 0.2]})
        assert server.stop() == 0
    with Server(tmp_path) as server:
        assert "set" not in server.correct({"id": 2, "probs": [0.5, 0.3, 0.2]})
