"""A known class mix, logits and weights of labels in a server: all as the library does it."""

from __future__ import annotations

import json

import numpy as np

from stream_can import Corrector, Learner, softmax
from tests.serve.serving import CLASSES, Server

PRIORS = ["cat=1", "dog=2", "eel=7"], ["cat=7", "dog=2", "eel=1"]
WEIGHTS = 0.01, 100, None, 7.5


def test_rows_are_those_of_the_library_through_restarts(tmp_path):
    """Each start has another mix, which is taken up and said in the log."""
    rng = np.random.default_rng(0)
    counts = [5, 3, 1]
    learner = Learner(Corrector(CLASSES, train_counts=counts, sets=0.9))
    settings = {"logits": True, "weight": "of.weight", "train_counts": counts, "sets": 0.9}
    server = Server(tmp_path, **settings)
    config = server.config.read_text()

    def send_rows(n):
        for i, z in zip(range(n, n + 30), rng.normal(0, 3, (30, 3)).tolist(), strict=True):
            row = learner.process(i, softmax(z))
            answer = server.correct({"id": i, "probs": z})
            assert answer == {"id": i, "probs": row.tolist(), "probs_raw": z, "set": answer["set"]}
            if i >= 10:
                weight, y = WEIGHTS[i % 4], CLASSES[i % 3]
                of = {} if weight is None else {"of": {"weight": weight}}
                says = server.label({"id": i - 10, "label": y} | of)
                assert says == [learner.label(i - 10, y, weight=weight)] == ["learned"]

    with server:
        for n, prior in enumerate((None, *PRIORS, PRIORS[-1], None)):
            server.stop()
            server.config.write_text(f"prior = {json.dumps(prior)}\n{config}" if prior else config)
            server.start()
            learner = Learner.from_bytes(learner.to_bytes(), prior=prior)
            send_rows(30 * n)
        status, said = server.post("/labels", '{"id": 145, "label": "cat", "of": {"weight": 0}}')
        assert status == 422
        assert "of.weight: 0, expected a weight, a number from 0.01 to 100" in said["error"]
    log = server.log.read_text()
    assert log.count("settings change with this start: {'prior': ['cat=") == 2
    assert log.count("settings change with this start: {'prior': None}") == 1


def test_a_mix_of_other_classes_is_refused_by_name(tmp_path):
    code, said = Server(tmp_path, prior=["cat=1", "fox=2"]).run()
    assert code in (2, 3)
    assert "prior: 'fox' is none of the 3 classes" in said
