"""A topic that is deleted while a worker runs: the first message names it, and the way out; where
learning alone needs it, correcting goes on."""

from __future__ import annotations

import logging
import re

import pytest

from stream_can.kafka import DeniedError
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, caught_up, fill
from tests.kafka.topics import delete, produce
from tests.programs import wait

OTHERS = [
    pytest.param(kind, marks=pytest.mark.release)
    for kind in ("state", "sent", "dead-letters", "labels")
]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["out", *OTHERS])
def test_it_is_named_in_the_first_message(
    broker: Broker, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Before, a time-out was, after 18 s, and a restore that could not succeed."""
    app = App(broker.bootstrap_servers)
    fill(app, 50)
    running = app.worker()
    caught_up(app, running)
    caplog.clear()
    app.close()  # whose consumer would make it anew
    delete(app.servers, f"{app.id}-{kind}")
    rows = 51 if kind == "labels" else 100
    if kind == "labels":  # which sending to would make anew
        produce(app.servers, [(app.given["input"], 1, b"more", b'{"probs": [0.4, 0.3, 0.2, 0.1]}')])
    else:
        fill(app, 50, seed=1)
    produce(app.servers, [(app.given["input"], 0, b"k", b"{")])
    says = f"^missing topics: {app.id}-{kind} .*; create .*--create-t"
    if kind in ("labels", "state"):  # who corrects has what it needs, and goes on
        health = running.worker.health
        wait("learning ends", lambda: health.cannot_learn)
        assert re.match(says, health.cannot_learn or "")
        wait("it corrects, or finds why nobody answers what it handed over", lambda: (
            running.error or sum(len(app.outputs(p)) for p in range(2)) == rows
        ))  # fmt: skip
        if kind == "labels" or not running.error:
            running.stop()
            return
    with pytest.raises(DeniedError, match=says):
        running.join()
    ours = [
        r for r in caplog.records if r.name.startswith("stream_can") and r.levelno > logging.INFO
    ]
    named = f"missing topics: {app.id}-{kind}"
    assert [r.getMessage() for r in ours if named not in r.getMessage()] == []
