"""Every metric is there, and says what the corrector knows."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.app.correctors_in_use import CorrectorsInUse
from stream_can.app.metrics import Metrics
from stream_can.app.tally import Tally
from stream_can.dense.outcomes import ExpectedSums


def test_one_sided_labels_are_shown() -> None:
    """Of three classes one never gets a label; then all do."""
    corrector = Corrector(3)
    rng = np.random.default_rng(0)

    def learn(classes: int) -> None:
        for y in rng.integers(3, size=300):
            p = np.full(3, 0.1) + 0.7 * np.eye(3)[y if rng.random() < 0.8 else 0]
            corrector.process_one(p)
            if y < classes:
                corrector.learn_one(p, y)

    learn(2)
    metrics = Metrics(lambda: CorrectorsInUse(corrector, 7, None, None))
    metrics.partitions = {
        0: Tally((), lambda name: 3, named=False, sets=False, rows="dense").committed()
    }

    def shown(name: str) -> float | None:
        return metrics.registry.get_sample_value(f"stream_can_{name}", {"partition": "0"})

    assert shown("silent_classes") == 1
    assert shown("coverage") == corrector.coverage < 1
    learn(3)
    assert shown("silent_classes") == 0
    assert shown("coverage") == corrector.coverage == 1
    metrics.given_up("aborted")
    for name in ("silent_classes", "coverage", "last_temperature"):
        assert shown(name) is None


def test_rows_that_come_alone_are_counted_as_those_that_come_at_once() -> None:
    sent = np.random.default_rng(0).dirichlet(np.ones(3), 2500)
    alone, at_once = ExpectedSums(), ExpectedSums()
    for row in sent:
        alone.add_rows(row[None])
    at_once.add_rows(sent)
    assert alone.sums() == pytest.approx(at_once.sums())
    assert alone.take_confusion() == pytest.approx(at_once.take_confusion())
    wider = np.full((1, 4), 0.25)
    alone.add_rows(wider)  # beside rows of another model that wait
    alone.add_rows(sent[:1])
    assert alone.sums()[0] == 2502
