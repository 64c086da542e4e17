"""A topic with history: the learner corrects it in the order of time, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kafka.broker.broker import Served
from tests.kafka.streams import App, caught_up, fill
from tests.kafka.test_roles import more, tombstones


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"segments": ["carrier"], "sets": 0.8},
        {"model": "model", "version": "version", "max_lanes": 4},
        {"recent_mb": 0.02, "ask": 0.3},
        {"rows": "multilabel", "ask": 0.3},
    ],
    ids=str,
)
def test_history_is_corrected_by_the_learner(broker: Served, settings: dict[str, Any]) -> None:
    """Every record is answered once, and as the learner's corrector is at that point."""
    app = App(broker.bootstrap_servers, label_partitions=3, backlog="ordered", **settings)
    fill(app, 400, more=more, bad=True)
    learner, worker = app.learner(), app.worker(learn=False)
    caught_up(app, learner, worker)
    learner.stop()
    fill(app, 400, 1, first=400, more=more, bad=True, delay=-10)
    second, third = app.learner("1"), app.worker("1", learn=False)
    caught_up(app, second, worker, third)
    worker.stop()
    fill(app, 200, 2, first=800, more=more, bad=True)
    caught_up(app, second, third)
    for one in (second, third):
        one.stop()
    app.verify()
    verdict = app.checked
    assert verdict.outputs == 1000 + tombstones(app)
    assert len(verdict.deferred) > 700
    assert verdict.dead_letters > 20
