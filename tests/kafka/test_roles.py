"""Workers that only correct, and a learner: on a real broker."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.broker.broker import Served
from tests.kafka.roles import Application, RoleThread
from tests.programs import PATIENCE


@pytest.fixture(autouse=True)
def _end() -> Iterator[None]:
    yield
    RoleThread.end_all()


def test_all_is_corrected_and_learned(broker: Served) -> None:
    app = Application(broker.bootstrap_servers)
    learner, worker = app.learner(), app.worker()
    app.fill(1000)
    app.wait_until_learned(learner, worker, n=1000)
    app.fill(1000, seed=1, first=1000)
    app.wait_until_learned(learner, worker, n=2000)
    worker.stop()
    learner.stop()
    verdict = app.judge()
    assert (verdict.outputs, verdict.dead_letters) == (2000, 0)
    assert verdict.states > 1
    assert verdict.correctors[None, None].n_labels == 2000


def more(rng: random.Random, says: dict[str, Any]) -> None:
    says["model"] = rng.choice("mn" if says["id"] < 400 else "no")
    says["version"] = "1" if says["id"] < 400 else rng.choice("12")
    says["carrier"] = rng.choice(["AA", "DL", 7, None, 1.5, True])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"segments": ["carrier"]},
        {"sets": 0.8},
        {"model": "model", "version": "version", "max_lanes": 4},
        {"model": "model", "sets": 0.9, "segments": ["carrier"]},
        {"recent_mb": 0.02},
        {"label_wait": 0.02},
    ],
    ids=str,
)
def test_every_state_and_output(broker: Served, settings: dict[str, Any]) -> None:
    """Labels before and after their predictions, twice and of nothing; the learner changes."""
    app = Application(broker.bootstrap_servers, **settings)
    learner, worker = app.learner(), app.worker()
    app.fill(400, more=more, bad=True)
    app.wait_until_learned(learner, worker, n=400)
    learner.stop()
    app.fill(400, 1, first=400, more=more, bad=True, delay=-10)
    second, third = app.learner("1"), app.worker("1")
    app.wait_until_learned(second, worker, third, n=800)
    worker.stop()
    app.fill(200, 2, first=800, more=more, bad=True)
    app.wait_until_learned(second, third, n=1000)
    for one in (second, third):
        one.stop()
    verdict = app.judge()
    assert verdict.outputs == 1000
    assert verdict.dead_letters > 20
    assert verdict.states > 2
    assert verdict.labels["repeated"] > 10
    if settings.get("label_wait"):
        assert verdict.labels["given up"] > 10
    elif settings.get("recent_mb"):
        assert verdict.labels["held"] > 100
    else:
        assert sum(one.n_labels for one in verdict.correctors.values()) > 700


def test_processes_that_are_killed(broker: Served, tmp_path: Path) -> None:
    """Both roles in each of two processes, and a learner of its own; killed at any moment."""
    app, chance = Application(broker.bootstrap_servers, partitions=3), random.Random(4)
    commands = {"a": "run", "b": "run", "c": "learn"}
    running = {name: app.process(tmp_path, name, command=of) for name, of in commands.items()}
    try:
        for turn in range(8):
            app.fill(150, turn, first=150 * turn, bad=True)
            time.sleep(chance.uniform(0.2, 2.0))
            name = chance.choice("abc")
            running[name].kill()
            running[name].wait()
            running[name] = app.process(tmp_path, name, command=commands[name])
        app.wait_until_learned(n=1200)
    finally:
        for one in running.values():
            one.terminate()
        codes = [one.wait(PATIENCE) for one in running.values()]
    assert codes == [0, 0, 0], (tmp_path / "a.log").read_text()
    verdict = app.judge()
    assert verdict.outputs == 1200
    assert verdict.labels["learned"] + verdict.labels["learned late"] == 1200
