"""Correctors of one's own: the newest state, and what the learner gets of their rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_can import Corrector, SnapshotMismatch
from stream_can.kafka import DeniedError, States, read_state
from stream_can.learner import read_sent
from tests.kafka.broker.broker import Served, jars
from tests.kafka.streams import App, caught_up, fill, run_once, state_of
from tests.kafka.topics import create, produce, read, unique
from tests.pages import ROOT
from tests.programs import PATIENCE, wait
from tests.serve.serving import Server


def test_plain_kafka_python_is_exact(broker: Served, tmp_path: Path) -> None:
    """The example, killed once; the learner learns from it as from a worker."""
    app = App(broker.bootstrap_servers, label_partitions=3)
    learner = app.learner()
    learner.learning()
    command = [
        sys.executable, "-W", "ignore", ROOT / "examples/kafka_engine.py", app.servers, app.id,
        app.given["input"], app.given["output"],
    ]  # fmt: skip
    with (tmp_path / "log").open("ab") as log:

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, stdout=log, stderr=log)

        engine = start()
        try:
            fill(app, 300)
            wait("some are out", lambda: len(app.outputs(0)) > 10)
            engine.kill()
            engine.wait(PATIENCE)
            engine = start()
            fill(app, 300, 1, first=300)
            caught_up(app, learner)
        finally:
            engine.kill()
            engine.wait(PATIENCE)
    learner.stop()
    assert app.verify() == 600, (tmp_path / "log").read_text()
    assert app.checked.labels["learned"] + app.checked.labels["learned late"] == 600


@pytest.mark.parametrize("more", [{}, {"model": "model", "segments": ["carrier"], "sets": 0.8}])
def test_a_state_corrects_as_its_correctors_do(broker: Served, more: dict[str, Any]) -> None:
    app = App(broker.bootstrap_servers, **more)

    def say(rng: Any, message: dict[str, Any]) -> None:
        message["model"], message["carrier"] = rng.choice("mn"), rng.choice(["AA", "DL"])

    states = States([app.servers], app.id)
    with states, pytest.raises(DeniedError, match="there is no state yet"):
        states.newest()
    fill(app, 200, more=say)
    run_once(app)
    stored = state_of(app)
    assert stored is not None
    with States([app.servers], app.id) as states:
        state = states.newest()
        assert states.newest() is state
    assert state.number == stored.number
    P = np.random.default_rng(0).dirichlet(np.ones(4), 6)
    names: Any = [("m", None), ("n", None), ("o", None)] * 2 if more else None
    columns: Any = {"carrier": ["AA", None, "DL"] * 2} if more else None
    for one in (state, read_state(state.to_bytes())):
        found = one.correct(
            P, ids=[*"abcde", None], segments=columns, models=names, times=[1.0] * 6
        )
        for i in range(6):
            corrector = one.corrector(*(names[i] if more else ()))
            row = {name: texts[i] for name, texts in (columns or {}).items()}
            assert (
                found.rows[i].tolist() == corrector.correct_one(P[i], segments=row or None).tolist()
            )
            if more:
                assert found.sets is not None
                assert found.sets[i] == corrector.predict_set_one(P[i], segments=row)
        ((value, headers),) = found.sent
        batch = read_sent(value)
        assert batch.ids == [b"a", b"b", b"c", b"d", b"e", None]
        assert batch.times.tolist() == [1.0] * 6
        assert dict(headers)["stream-can-state"] == b"%d" % stored.number
        assert "stream-can-next" not in dict(headers)
    in_parts = state.correct(
        P, offsets=[3, 5, 6, 7, 9, 12], next=20, models=names, segments=columns, most_bytes=700
    ).sent
    assert len(in_parts) > 1
    nexts = [int(dict(headers)["stream-can-next"]) for _, headers in in_parts]
    numbers = [read_sent(value).numbers.tolist() for value, _ in in_parts]
    assert [one for some in numbers for one in some] == [3, 5, 6, 7, 9, 12]
    assert nexts == [some[-1] + 1 for some in numbers[:-1]] + [20]
    with pytest.raises(ValueError, match="offsets: expected 6, ascending"):
        state.correct(P, offsets=[1, 2, 3, 4, 4, 5], models=names)
    with pytest.raises(ValueError, match="ids: 2 of them for 6 rows"):
        state.correct(P, ids=["a", "b"], models=names)
    with pytest.raises(SnapshotMismatch, match="holds no state"):
        read_state(Corrector(["a", "b"]).to_bytes())


def test_kafka_streams_asks_a_server(broker: Served, tmp_path: Path) -> None:
    """The example in Java: what comes out is what the server answers; what it refuses goes on."""
    source, target = unique("in"), unique("out")
    create(broker.bootstrap_servers, {source: {}, target: {}}, 1)
    rows = [json.dumps({"id": str(i), "probs": [0.5, 0.3, 0.2]}).encode() for i in range(20)]
    produce(broker.bootstrap_servers, [(source, 0, b"k", value) for value in [*rows, b"{}"]])
    libs = f"{jars('streams-4.4.0', 'pom-streams.xml')}/*"
    with Server(tmp_path, train_counts=[1, 1, 8]) as server, (tmp_path / "java").open("wb") as log:
        url = f"http://127.0.0.1:{server.port}"
        java = subprocess.Popen(
            ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", libs,
             ROOT / "examples/StreamsCorrector.java", broker.bootstrap_servers, source, target,
             url],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            found = wait("all are out", lambda: _all(broker, target, len(rows) + 1))
        finally:
            java.kill()
            java.wait(PATIENCE)
    *corrected, other = [one.value for one in found]
    assert other == b"{}"
    plain = Corrector(["cat", "dog", "eel"], train_counts=[1, 1, 8])
    for one in corrected:
        assert json.loads(one)["probs"] == plain.process_one([0.5, 0.3, 0.2]).tolist()


def _all(broker: Served, topic: str, n: int) -> list[Any] | None:
    found = read(broker.bootstrap_servers, topic, 0)
    return found if len(found) >= n else None
