"""A topic that is deleted while a worker runs: the first message names it, and the way out."""

from __future__ import annotations

import logging

import pytest

from stream_can.kafka import DeniedError
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, caught_up, fill
from tests.kafka.topics import delete, produce

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
    if kind != "labels":
        fill(app, 50, seed=1)
    produce(app.servers, [(app.given["input"], 0, b"k", b"{")])
    with pytest.raises(
        DeniedError, match=f"^missing topics: {app.id}-{kind} .*; create .*--create-t"
    ):
        running.join()
    ours = [
        r for r in caplog.records if r.name.startswith("stream_can") and r.levelno > logging.INFO
    ]
    assert [r.getMessage() for r in ours] == []
