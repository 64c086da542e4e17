"""Columns in a worker: what is learned of values is exact, whoever takes a partition over."""

from __future__ import annotations

import json
import logging
import random
import signal
from pathlib import Path

import pytest

from stream_can import Corrector
from stream_can.kafka import DeniedError, SettingsError, load
from stream_can.kafka.backfill import backfill
from stream_can.kafka.newest import newest
from stream_can.kafka.start import TaskStart
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from tests.cli.command import stream_can as command
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import (
    CLASSES,
    STAMP,
    App,
    caught_up,
    label,
    prediction,
    run_once,
    write_config,
)
from tests.kafka.topics import produce, read
from tests.programs import wait

SEGMENTS = ["carrier", "customer.country", "header:X"]


def fill(app: App, n: int, seed: int = 0, delay: int = 40) -> None:
    """Predictions with columns, and labels whose messages say something else of them."""
    rng = random.Random(seed)
    predictions, labels = [], []
    for i in range(n):
        key, value, truth = prediction(rng, i)
        given = {"carrier": rng.choice(["AA", "B6", truth, 7, None, 0.5])}
        if rng.random() < 0.7:
            given["customer"] = {"country": rng.choice(["NL", "DE"])}
        headers = [("X", b"%d" % rng.randrange(40))] if rng.random() < 0.7 else []
        value = json.dumps(json.loads(value) | given).encode()
        partition, stamp = i % app.partitions, STAMP + seed * 1_000_000 + i
        predictions.append((app.given["input"], partition, key, value, headers, stamp))
        said = json.loads(label(truth)) | {"carrier": "the label's"}
        said = json.dumps(said).encode()
        labels.append((app.given["labels"], partition, key, said, [], stamp + delay))
    produce(app.servers, predictions, labels)


def log_of(app: App, end: int | None = None) -> Replica:
    """The log up to an offset, folded by somebody who was not there."""
    replica = Replica()
    for record in read(app.servers, f"{app.id}-learned", 0):
        if end is None or record.offset < end:
            replica.fold(record)
    return replica


@pytest.mark.parametrize("learn", ["together", "apart"])
def test_workers_that_come_and_go_learn_what_the_log_says(
    broker: Broker, learn: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(broker.bootstrap_servers, segments=SEGMENTS, learn=learn)
    with caplog.at_level(logging.WARNING):
        one = app.worker("one")
        fill(app, 400)
        caught_up(app, one)
    told = [r.getMessage() for r in caplog.records if "is a measurement" in r.getMessage()]
    assert len(told) == 1
    assert f"{app.id}-in-" in told[0]
    two = app.worker("two")
    fill(app, 400, seed=1)
    caught_up(app, one, two)
    one.stop()
    fill(app, 400, seed=2)  # labels of predictions that another one sent
    caught_up(app, two)
    two.stop()
    assert app.verify() == 1200
    assert app.checked.learned == 1200
    for replica in app.checked.replicas.values():
        values = replica.corrector.segment_values("carrier")
        assert {"AA", "B6", "7", *CLASSES} == set(values)
        assert set(replica.corrector.segment_values("customer.country")) == {"NL", "DE"}
        assert len(replica.corrector.segment_values("header:X")) > 30
    if learn == "together":
        found = newest(f"{app.id}-state", app.given["bootstrap_servers"], app.settings().client)
        corrector, about = found["shared"]
        assert corrector.to_bytes() == log_of(app, about["learned"]).corrector.to_bytes()


def test_a_worker_that_is_killed_between_prediction_and_label(
    broker: Broker, tmp_path: Path
) -> None:
    app = App(broker.bootstrap_servers, segments=SEGMENTS, segments_mb=0.01)
    fill(app, 600, delay=300)
    process = app.process(tmp_path)
    wait("some outputs", lambda: sum(len(app.outputs(p)) for p in range(2)) > 100)
    process.send_signal(signal.SIGKILL)
    process.wait()
    fill(app, 600, seed=1, delay=300)
    again = app.worker("again")
    caught_up(app, again)
    again.stop()
    assert app.verify() == 1200
    replica = log_of(app)
    assert replica.corrector.n_labels == 1200
    size = len(replica.corrector.to_bytes()) - len(Corrector(CLASSES).to_bytes())
    assert size < 0.02 * (1 << 20)


def test_backfill_and_inspect_know_the_values_that_a_worker_learned(
    broker: Broker, tmp_path: Path
) -> None:
    """A worker learns labels a commit later, so its odds are not quite those of the history."""
    app = App(broker.bootstrap_servers, segments=SEGMENTS)
    running = app.worker()
    for seed in range(12):
        fill(app, 100, seed)
        wait("learned", lambda n=seed: running.replica().corrector.n_labels == 100 * (n + 1))
    running.stop()
    history = backfill(app.settings()).corrector
    [(worker, _)] = newest(f"{app.id}-state", app.given["bootstrap_servers"]).values()
    assert worker.n_labels == history.n_labels == 1200
    where = ["--topic", f"{app.id}-state", "--bootstrap-servers", app.servers]
    for name in SEGMENTS:
        ours, odds = history.segment_values(name), worker.segment_values(name)
        assert ours.keys() == odds.keys()
        assert all(odds[value] > 5 for value in ours if ours[value] > 10)
        said = json.loads(command("inspect", *where, "--segments", name, "--json")[0])
        shown = said["shared"]["segments"][name]
        assert shown == odds
        assert list(shown) == sorted(odds, key=lambda value: -abs(shown[value]))
    config = write_config(app, tmp_path)
    out, _ = command("inspect", "--config", config, "--segments", "carrier,header:X")
    odds = worker.segment_values("carrier")
    assert f"{len(odds)} values; above 0" in out
    assert [value for value in odds if f"{odds[value]:+.2f}" not in out] == []
    _, error = command("inspect", *where, "--segments", "origin", code=1)
    said = " ".join(error.split())
    assert "'origin' was not declared; declared: carrier, customer.country, header:X" in said


def test_columns_are_part_of_who_an_application_is(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers, partitions=1, segments=["carrier"])
    fill(app, 50)
    run_once(app)
    log = [entry.read(r.value) for r in read(app.servers, f"{app.id}-learned", 0)]
    assert log[0].identity.segments == ("carrier",)
    assert log[0].needs == ["segments"]
    assert sum(one.segments is not None for one in log) > 0
    for others, said in (
        ([], r"segments is \(\'carrier\',\) in the log and \(\) here"),
        (["carrier", "origin"], "and .*origin.* here"),
    ):
        with pytest.raises(DeniedError, match=said):
            app.worker("other", segments=others).join()
    plain = App(broker.bootstrap_servers, partitions=1)
    fill(plain, 50)
    run_once(plain)
    log = [entry.read(r.value) for r in read(plain.servers, f"{plain.id}-learned", 0)]
    assert all(one.segments is None and not one.needs for one in log)
    assert log[0].identity.segments == ()


def test_values_that_would_not_fit_a_record_are_refused_before_anything_is_done(
    broker: Broker, tmp_path: Path
) -> None:
    app = App(broker.bootstrap_servers, partitions=1, segments=["carrier"], segments_mb=2)
    _, said = command("run", write_config(app, tmp_path), "--check", code=3)
    assert "less segments_mb where columns are declared" in " ".join(said.split())
    made = App(broker.bootstrap_servers, partitions=1, segments=["carrier"], segments_mb=2)
    made.given |= {
        "learned": f"{made.id}-large",
        "state": f"{made.id}-states",
        "create_topics": True,
    }
    command("run", write_config(made, tmp_path, "made"), "--check")


@pytest.mark.fast
def test_settings_name_columns(tmp_path: Path) -> None:
    given = {"bootstrap_servers": ["a:1"], "application_id": "a", "input": "i", "output": "o"}
    settings = load(None, {**given, "classes": "x,y", "segments": "carrier, customer.country"}, {})
    assert settings.segments == ["carrier", "customer.country"]
    start = TaskStart(settings)
    assert start.segments == ("carrier", "customer.country")
    assert start.state_bytes == len(start.snapshot) + 200 + (1 << 19)
    file = tmp_path / "warm.bin"
    file.write_bytes(Corrector(["x", "y"], segments=["b"]).to_bytes())
    start = TaskStart(load(None, {**given, "classes_from_file": str(file)}, {}))
    assert (start.segments, start.identity.segments) == (("b",), ("b",))
    for name, said in (("a..b", "no field name"), ("probs", "field of the prob"), ("a,a", "twice")):
        with pytest.raises((ValueError, SettingsError), match=said):
            TaskStart(load(None, {**given, "classes": "x,y", "segments": name}, {}))
    plain = TaskStart(load(None, {**given, "classes": "x,y"}, {}))
    assert plain.snapshot == Corrector(["x", "y"]).to_bytes()
    assert plain.state_bytes == len(plain.snapshot) + 200
