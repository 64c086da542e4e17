"""Columns in a worker: what is told, inspected, and refused."""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from stream_can import Corrector
from stream_can.kafka import DeniedError, SettingsError, load
from stream_can.kafka.backfill import backfill
from stream_can.kafka.start import start_of
from tests.cli.command import stream_can as command
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import App, correctors_of, fill, run_once, write_config

SEGMENTS = ["carrier", "customer.country"]


def columns(rng: random.Random, says: dict[str, Any]) -> None:
    """What a message gives, now and then something that is no value."""
    says["carrier"] = rng.choice(["AA", "B6", 7, None, 0.5])
    if rng.random() < 0.7:
        says["customer"] = {"country": rng.choice(["NL", "DE"])}


def test_what_is_no_value_is_told_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    app = App(broker.bootstrap_servers, partitions=1, segments=SEGMENTS)
    fill(app, 200, more=columns)
    with caplog.at_level(logging.WARNING):
        run_once(app, learned=200)
    told = [r.getMessage() for r in caplog.records if "is a measurement" in r.getMessage()]
    assert len(told) == 1
    assert f"{app.id}-in-" in told[0]
    assert app.verify() == 200


def test_values_are_inspected(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers, segments=SEGMENTS)
    fill(app, 1200, more=columns)
    run_once(app, learned=1200)
    (worker,) = correctors_of(app).values()
    history = backfill(app.settings()).corrector
    assert worker.n_labels == history.n_labels == 1200
    where = ["--topic", f"{app.id}-state", "--bootstrap-servers", app.servers]
    for name, values in zip(SEGMENTS, ({"AA", "B6", "7"}, {"NL", "DE"}), strict=True):
        odds = worker.segment_values(name)
        assert odds.keys() == history.segment_values(name).keys() == values
        shown = json.loads(command("inspect", *where, "--segments", name, "--json")[0])
        assert shown["segments"][name] == odds
        assert list(shown["segments"][name]) == sorted(odds, key=lambda value: -abs(odds[value]))
    out, _ = command("inspect", "--config", write_config(app, tmp_path), "--segments", "carrier")
    odds = worker.segment_values("carrier")
    assert f"{len(odds)} values; above 0" in out
    assert [value for value in odds if f"{odds[value]:+.2f}" not in out] == []
    _, error = command("inspect", *where, "--segments", "origin", code=2)
    said = " ".join(error.split())
    assert "'origin' was not declared; declared: carrier, customer.country" in said


def test_columns_are_part_of_who_an_application_is(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, segments=["carrier"])
    fill(app, 50)
    run_once(app)
    for others in ([], ["carrier", "origin"]):
        with pytest.raises(DeniedError, match=r"segments is \['carrier'\] there and "):
            app.worker("other", segments=others).join()


def test_values_that_would_not_fit_a_record_are_refused_before_anything_is_done(
    broker: Broker, tmp_path: Path
) -> None:
    app = App(broker.bootstrap_servers, partitions=1, segments=["carrier"], segments_mb=2)
    _, said = command("run", write_config(app, tmp_path), "--check", code=3)
    assert "lower segments_mb where segments are declared" in " ".join(said.split())
    made = App(broker.bootstrap_servers, partitions=1, segments=["carrier"], segments_mb=2)
    made.given |= {"state_topic": f"{made.id}-states", "create_topics": True}
    command("run", write_config(made, tmp_path, "made"), "--check")


@pytest.mark.fast
def test_settings_name_columns(tmp_path: Path) -> None:
    given = {"bootstrap_servers": ["a:1"], "application_id": "a", "input": "i", "output": "o"}
    settings = load(None, {**given, "classes": "x,y", "segments": "carrier, customer.country"}, {})
    assert settings.segments == ["carrier", "customer.country"]
    start = start_of(settings)
    assert start.segments == ("carrier", "customer.country")
    assert start.state_bytes == len(start.snapshot) + 200 + (1 << 19)
    file = tmp_path / "warm.bin"
    file.write_bytes(Corrector(["x", "y"], segments=["b"]).to_bytes())
    start = start_of(load(None, {**given, "classes_from_file": str(file)}, {}))
    assert start.segments == ("b",)
    for name, said in (("a..b", "no field name"), ("probs", "field of the prob"), ("a,a", "twice")):
        with pytest.raises((ValueError, SettingsError), match=said):
            start_of(load(None, {**given, "classes": "x,y", "segments": name}, {}))
    plain = start_of(load(None, {**given, "classes": "x,y"}, {}))
    assert plain.snapshot == Corrector(["x", "y"]).to_bytes()
    assert plain.state_bytes == len(plain.snapshot) + 200
