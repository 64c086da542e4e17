"""Whose a log is: compared before anything is done, begun anew only with everybody's knowledge."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stream_can.kafka import DeniedError
from stream_can.stream import entry
from stream_can.stream.identity import Identity
from tests.cli.command import stream_can as command
from tests.kafka.broker.broker import Broker
from tests.kafka.streams import CLASSES, App, caught_up, fill, run_once, write_config
from tests.kafka.topics import create, delete, produce, read
from tests.programs import wait

pytestmark = pytest.mark.release

WAYS = "Take a new application_id, or begin anew here with --reset-state"
SWAPPED = ["b", "a", *CLASSES[2:]]


def log_of(app: App) -> list[Any]:
    return read(app.servers, f"{app.id}-learned", 0)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records
            if r.name.startswith("stream_can") and r.levelno >= logging.WARNING]  # fmt: skip


class TestAnotherApplication:
    """Under one application_id, beside a worker: each is refused before it does anything."""

    CHANGES = (
        ({"output": "{id}-labels-2"}, "output is '{id}-out' in the log and '{id}-labels-2' here"),
        ({"input": "{id}-labels-2"}, "input is '{id}-in' in the log and '{id}-labels-2' here"),
        ({"probs": "scores"}, "probs is 'probs' in the log and 'scores' here"),
        ({"classes": SWAPPED}, "classes differ at 0: it has 'a', expected 'b'"),
        ({"classes": ["a", "b", "c"]}, "classes"),
        ({"paths": ["raw", "vector"]}, "paths"),
    )

    def test_a_worker_a_spare_and_a_check(self, broker: Broker, tmp_path: Path) -> None:
        app = App(broker.bootstrap_servers, partitions=1)
        create(app.servers, {f"{app.id}-labels-2": {}}, partitions=1)
        fill(app, 100)
        running = app.worker()
        caught_up(app, running)
        before = len(log_of(app)), app.outputs(0)
        for number, (changes, said) in enumerate(self.CHANGES):
            own = json.loads(json.dumps(changes).replace("{id}", app.id))
            spare = app.worker(f"spare{number}", **own)  # there is one partition, and it is taken
            with pytest.raises(DeniedError) as caught:
                spare.join()
            assert said.replace("{id}", app.id) in str(caught.value)
            assert WAYS in str(caught.value)
        plain, app.given = app.given, app.given | {"classes": SWAPPED}
        _, said = command("run", write_config(app, tmp_path, "check"), "--check", code=3)
        app.given = plain
        assert "classes differ at 0" in said
        fill(app, 100, seed=1)
        caught_up(app, running)
        running.stop()
        assert app.verify() == 200
        assert len(before[1]) == 100

    def test_a_log_that_another_one_began(self, broker: Broker) -> None:
        app = App(broker.bootstrap_servers, partitions=1)
        other = App(broker.bootstrap_servers, partitions=1, learned=f"{app.id}-learned")
        fill(app, 10)
        run_once(app)
        said = f"application is '{app.id}' in the log and '{other.id}' here"
        with pytest.raises(DeniedError, match=said):
            other.worker().join()

    def test_the_first_entry_and_the_shared_record_say_it(self, broker: Broker) -> None:
        app = App(broker.bootstrap_servers, partitions=1)
        fill(app, 10)
        run_once(app)
        entries = [entry.read(record.value) for record in log_of(app)]
        mine = Identity(app.id, f"{app.id}-in", f"{app.id}-out", f"{app.id}-labels", "probs",
                        "probs_raw", "label", None, tuple(CLASSES))  # fmt: skip
        assert entries[0].identity == mine
        assert {one.app for one in entries} == {mine.mark}
        assert all(one.release for one in entries)


def test_foreign_records_stop_nobody(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """Before, each of them ended every worker for good, and --reset-state did too."""
    app, other = App(broker.bootstrap_servers), App(broker.bootstrap_servers)
    fill(other, 20)
    run_once(other)
    theirs = [record.value for record in log_of(other)]
    one, two = app.worker("one"), app.worker("two")
    fill(app, 200)
    caught_up(app, one, two)
    sizes = (8, 8, 4, 12, 16)
    part = entry.LogPart(77, (0, 100), (0, 100), *(bytes(100 * size) for size in sizes))
    now = {"version": entry.VERSION}
    forged = msgspec.msgpack.encode(now | {"parts": [part]})
    foreign = [None, b"garbage", b'{"label": "a"}', forged, *theirs,
               msgspec.msgpack.encode(now | {"settings": {"colour": 1}})]  # fmt: skip
    produce(app.servers, [(f"{app.id}-learned", 0, b"k", value) for value in foreign])
    fill(app, 200, seed=1)
    caught_up(app, one, two)
    both = (one, two)
    wait("all learned", lambda: {r.replica().corrector.n_labels for r in both} == {400})
    replicas = [running.replica() for running in both]
    assert [r.foreign for r in replicas] == [len(foreign)] * 2
    assert replicas[0].corrector.to_bytes() == replicas[1].corrector.to_bytes()
    assert one.worker.health.ready
    told = [text for text in warnings_of(caplog) if "left out" in text]
    assert len(told) == 2 * len(foreign)
    where = f"{app.id}-learned-0 offset "
    assert all(text.startswith(where) for text in told)
    assert any("no entry" in text for text in told)
    assert any("an entry of another application" in text for text in told)
    two.stop()
    one.stop()
    run_once(app)  # restarts too
    assert app.verify() == 400


def test_a_newer_release_stops_and_a_reset_gets_past_it(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1)
    running = app.worker()
    fill(app, 100)
    caught_up(app, running)
    mark = running.replica().terms.app
    newer = msgspec.msgpack.encode({"version": 3, "app": mark, "release": "0.4.2"})
    produce(app.servers, [(f"{app.id}-learned", 0, None, newer)])
    said = (
        r"learned-0 offset \d+: another version wrote this \(0\.4\.2\): format 3, .*--reset-state"
    )
    for again in (running, app.worker()):
        with pytest.raises(DeniedError, match=said):
            again.join()
    fill(app, 100, seed=1)
    run_once(app, reset_state=True)
    fill(app, 100, seed=2)
    run_once(app)
    assert len(app.outputs(0)) == 300


class TestReset:
    """`reset_state` with others alive."""

    def test_is_refused_with_their_names(self, broker: Broker) -> None:
        app = App(broker.bootstrap_servers)
        old = app.worker("old")
        fill(app, 100)
        caught_up(app, old)
        before = old.replica().epoch
        new = app.worker("new", classes=SWAPPED, reset_state=True)
        with pytest.raises(DeniedError, match=r"anew under old: stop them .*say --for-everyone"):
            new.join()
        fill(app, 100, seed=1)
        caught_up(app, old)
        assert old.replica().epoch == before
        old.stop()
        assert app.verify() == 200

    def test_for_everyone_who_fits_restores(
        self, broker: Broker, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Another output field: what was learned is kept, and the others' settings do not fit."""
        app = App(broker.bootstrap_servers)
        old = app.worker("old")
        fill(app, 100)
        caught_up(app, old)
        wait("learned", lambda: old.replica().corrector.n_labels == 100)
        new = app.worker("new", raw="before", reset_state=True, for_everyone=True)
        with pytest.raises(DeniedError, match="raw is 'before' in the log and 'probs_raw' here"):
            old.join()
        fill(app, 100, seed=1)
        caught_up(app, new)
        wait("learned", lambda: new.replica().corrector.n_labels == 200)
        new.stop()
        assert any("the learned log begins anew, by new" in text for text in warnings_of(caplog))
        fields = [set(json.loads(r.value)) for p in (0, 1) for r in app.outputs(p)]
        assert sum("before" in found for found in fields) == 100

    def test_a_log_that_nobody_can_read_on(self, broker: Broker) -> None:
        """Where another release has gone on, and this one is to begin anew without it."""
        app = App(broker.bootstrap_servers)
        fill(app, 50)
        run_once(app)
        newer = msgspec.msgpack.encode({"version": 9})
        produce(app.servers, [(f"{app.id}-learned", 0, None, newer)] * 3)
        fill(app, 50, seed=1)
        worker = run_once(app, reset_state=True)
        assert worker.learned_log.replicas[0].epoch > 0
        assert sum(len(app.outputs(p)) for p in (0, 1)) == 100


def half_life(running: Any) -> float:
    return running.replica().corrector.settings["half_life"]


class TestSettings:
    """Those of the newest deployment hold, and that is said by all."""

    def test_an_older_worker_that_restarts_follows(
        self, broker: Broker, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "stream_can")
        app = App(broker.bootstrap_servers)
        fill(app, 50)
        old = app.worker("old")
        caught_up(app, old)
        new = app.worker("new", half_life=50.0)
        wait("followed", lambda: old.error or half_life(old) == 50.0)
        changed = "change for every process, by new: half_life 5000 -> 50.0"
        wait("both say so", lambda: sum(changed in r.getMessage() for r in caplog.records) == 2)
        old.stop()
        old = app.worker("old")
        wait("assigned", lambda: old.error or old.worker.tasks)
        assert half_life(old) == 50.0
        said = "half_life is 50.0 and not 5000, as the log says; ours were replaced there."
        said += " To bring them back for every process: settings_generation = 2"
        assert any(said in text for text in warnings_of(caplog))
        old.stop()
        old = app.worker("old", settings_generation=2)
        wait("brought back", lambda: old.error or new.error or half_life(new) == 5000)
        old.stop()
        new.stop()
        fill(app, 50, seed=1)
        run_once(app, settings_generation=2)
        settings = [one.settings for r in log_of(app) if (one := entry.read(r.value)).settings]
        assert settings == [{"half_life": 50.0}, {"half_life": 5000}]


def test_what_a_deleted_log_had_is_kept(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest shared record has it: that is what the new log begins with."""
    monkeypatch.setattr("stream_can.kafka.restore.SETTLE_SECONDS", 1)

    app = App(broker.bootstrap_servers, partitions=1)
    fill(app, 100)
    run_once(app, learned=100)
    delete(app.servers, f"{app.id}-learned")
    create(app.servers, {f"{app.id}-learned": {}}, partitions=1)
    with pytest.raises(DeniedError, match=r"is it new\? --reset-state .*what that record holds"):
        app.worker().join()
    fill(app, 100, seed=1)
    run_once(app, reset_state=True, learned=200)
