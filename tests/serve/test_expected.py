"""Expected accuracy of a server: by what it sent, labelled or not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_can.trust.expected import Gap, expected_accuracy
from tests.serve.serving import CLASSES, Server

pytestmark = pytest.mark.fast


def test_status_and_metric_are_of_all_rows_sent(tmp_path):
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.5, 0.5, 0.5], 300)
    y = (rng.random((300, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    with Server(tmp_path) as server:
        assert server.client.get("/status.json").json()["hour"]["expected_accuracy"] is None
        answers = server.correct(*({"id": i, "probs": p} for i, p in enumerate(P.tolist())))
        sent = np.array([answer["probs"] for answer in answers])
        server.label(*({"id": i, "label": CLASSES[y[i]]} for i in range(100)))
        hour = server.client.get("/status.json").json()["hour"]["expected_accuracy"]
        top = sent.max(axis=1)
        hits = sent[:100].argmax(axis=1) == y[:100]
        gap = Gap(100, float((hits - top[:100]).sum()))
        expected = expected_accuracy(300, top.sum(), (top * (1 - top)).sum(), gap)
        assert [*hour.values()] == pytest.approx(expected, abs=1e-6)
        confused = server.client.get("/status.json").json()["confused"]
        best, pairs = sent.argmax(axis=1), []
        for k, j in itertools.permutations(range(3), 2):
            rows, labels = best == k, y[:100][best[:100] == k]
            pairs.append({
                "predicted": CLASSES[k], "label": CLASSES[j], "rows": rows.sum(),
                "expected": sent[rows, j].mean(), "labels": len(labels),
                "share": (labels == j).mean(),
            })  # fmt: skip
        pairs.sort(key=lambda pair: -pair["rows"] * pair["expected"])
        assert [[*one] for one in confused] == [[*pair] for pair in pairs]
        for one, pair in zip(confused, pairs, strict=True):
            assert one == pytest.approx(pair, abs=1e-6)
        metrics = server.client.get("/metrics").text
        for bound, number in zip(("value", "low", "high"), expected, strict=True):
            (line,) = (
                line
                for line in metrics.splitlines()
                if line.startswith(f'stream_can_expected_accuracy{{bound="{bound}"')
            )
            assert float(line.split()[-1]) == pytest.approx(number, abs=1e-6)
