"""Brokers that are gone while a worker runs: it says so, and goes on when they are back."""

from __future__ import annotations

import json

from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, Running, caught_up, fill
from tests.programs import wait


def first_problem(running: Running) -> str:
    said: str = json.loads(running.worker.status_report.json())["problems"][0]["what"]
    return said


def test_the_page_is_red_while_no_broker_answers(own_broker: Broker) -> None:
    """Before, it said that there is nothing to do: polls of a group whose brokers are gone find
    nothing."""
    app = App(own_broker.bootstrap_servers, partitions=1)
    fill(app, 100)
    running = app.worker()
    caught_up(app, running)
    assert running.worker.health.ready
    own_broker.kill()
    wait("it says so", lambda: first_problem(running).startswith("No broker has answered for "))
    assert json.loads(running.worker.status_report.json())["lag"] is None
    own_broker.start()
    wait("it sees them", lambda: not first_problem(running).startswith("No broker"))
    fill(app, 100, 1, first=100)
    caught_up(app, running)
    running.stop()
    assert len(app.outputs(0)) == 200
