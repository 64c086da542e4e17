"""Models and versions in one application, on a real broker."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_can.app.application import ModelSettings
from stream_can.kafka import DeniedError, Worker
from stream_can.kafka.backfill import backfill
from stream_can.kafka.newest import newest
from stream_can.messages.naming import LaneName
from stream_can.stream.replica import Replica
from tests.chromium import Browser
from tests.cli.command import stream_can as command
from tests.kafka.broker.broker import Broker
from tests.kafka.fleet import FIELDS, fill, judge, lane_of, prediction
from tests.kafka.served import answer, ready, scrape
from tests.kafka.streams import CLASSES, STAMP, STEADY, App, label, run_once, write_config
from tests.kafka.topics import create, delete, produce, read, until_closed
from tests.programs import wait

NAMES_SEEN = "[...document.querySelectorAll('#models bdi')].map(e => e.textContent)"
NAMES = [LaneName(f"model {i}/{'ä' * (i % 2)}", f"v{j}") for i in range(40) for j in (1, 2)]


def close(app: App) -> None:
    for topic in (app.given["output"], f"{app.id}-dead-letters"):
        until_closed(app.servers, topic, app.partitions)
    until_closed(app.servers, f"{app.id}-learned", 1)


def test_a_fleet_is_exact(broker: Broker, tmp_path: Path) -> None:
    """40 models, 2 versions each, 8 partitions, 3 workers, one of which is killed."""
    app = App(broker.bootstrap_servers, partitions=8, **FIELDS)
    fill(app, 2000, NAMES[:30], 1)
    running = {name: app.process(tmp_path, name) for name in "012"}
    try:
        wait("some outputs", lambda: app.outputs(0))
        running["1"].send_signal(signal.SIGKILL)
        running["1"].wait()
        fill(app, 2000, NAMES, 2)  # with models that are new
        running["1"] = app.process(tmp_path, "1")
        wait("all committed", lambda: app.lag() == 0)
    finally:
        for process in running.values():
            process.terminate()
        codes = [process.wait(280) for process in running.values()]
    assert codes == [0, 0, 0]
    close(app)
    found = judge(app)
    assert found.outputs > 6000
    assert (found.letters, found.unmatched, dict(found.left)) == (0, 0, {})
    assert found.labels == found.outputs
    assert {*found.replica.lanes} == {*NAMES}
    after = {one.after for name, one in found.replica.lanes.items()}
    assert after <= {None, "v1", "v2"}
    assert len(after) > 1
    # The records of lanes are what the log is up to the shared record's offset.
    state = newest(f"{app.id}-state", app.servers.split(","))
    base, said = state.pop("shared")
    again = Replica()
    for record in read(app.servers, f"{app.id}-learned", 0):
        if record.offset < said["learned"]:
            again.fold(record)
    assert base.to_bytes() == again.corrector.to_bytes()
    kept = {(of["model"], of["version"]): (one, of) for one, of in state.values()}
    assert {*kept} == {*again.lanes}
    for name, lane in again.lanes.items():
        corrector, of = kept[name]
        assert corrector.to_bytes() == lane.corrector.to_bytes()
        assert (of["begun"], of["last"], of["successor_of"]) == (lane.begun, lane.last, lane.after)
    assert "shared/0/model%200%2F/v1" in state


def record_of(app: App, name: LaneName, number: int, stamp: int, **message: Any) -> Any:
    """A record of the input: a prediction of a lane."""
    key, value, _ = prediction(random.Random(number), number, *name)
    text = json.dumps(json.loads(value) | message).encode()
    return app.given["input"], number % app.partitions, key, text, [], stamp


def labels_of(worker: Worker) -> dict[LaneName, int]:
    """How many labels each lane has learned."""
    (replica,) = worker.learned_log.replicas.values()
    return {name: lane.corrector.n_labels for name, lane in replica.lanes.items()}


def test_a_dropped_lane_comes_back_and_a_flood_is_refused(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, max_lanes=3, **FIELDS)
    hour = 3_600_000
    for turn, models in enumerate(["xy", "zw", "xu", "abcdefg"]):
        for at, model in enumerate(models):
            stamp = STAMP + 2 * turn * hour + 1000 * at
            produce(app.servers, [record_of(app, LaneName(model, "1"), 10 * turn + at, stamp)])
            if turn < 3 or at < 3:
                key = b"k%d" % (10 * turn + at)
                produce(app.servers, [(app.given["labels"], 0, key, label("a"), [], stamp + 500)])
        run_once(app)
    found = judge(app)
    assert [name.model for name in found.replica.lanes] == ["a", "b", "c"]
    assert (found.outputs, found.letters, found.labels, dict(found.left)) == (9, 4, 9, {})
    assert found.replica.dropped == 6
    (letters,) = {
        dict(r.headers)["__connect.errors.exception.message"][8:]
        for r in read(app.servers, f"{app.id}-dead-letters", 0)
    }
    assert letters.startswith(b": 3 models and versions began within an hour, which is max_lanes")


def test_tables_headers_and_classes_from_messages(broker: Broker) -> None:
    """Nothing above names classes: one model has a table, another names them, a third neither."""
    app = App(
        broker.bootstrap_servers, partitions=1, model="header:model", classes=None,
        models={"listed": ModelSettings(classes=["no", "yes"], threshold=0.8)},
    )  # fmt: skip
    rows = {
        b"listed": [0.6, 0.4], b"named": {"cat": 0.3, "dog": 0.7}, b"silent": [0.5, 0.5]
    }  # fmt: skip
    sent = [
        (app.given["input"], 0, b"%s-%d" % (model, i), json.dumps({"probs": row}).encode(),
         [("model", model)], STAMP + i)
        for i in range(20) for model, row in rows.items()
    ]  # fmt: skip
    truth = {b"listed": "yes", b"named": "dog"}
    said = [
        (app.given["labels"], 0, b"%s-%d" % (model, i), label(name), [], STAMP + 100 + i)
        for i in range(20) for model, name in truth.items()
    ]  # fmt: skip
    produce(app.servers, sent, said)
    worker = run_once(app)
    assert labels_of(worker) == {LaneName("listed", ""): 20, LaneName("named", ""): 20}
    (replica,) = worker.learned_log.replicas.values()
    assert replica.lane(LaneName("listed", "")).corrector.settings["threshold"] == 0.8
    assert replica.lane(LaneName("named", "")).corrector.classes == ("cat", "dog")
    letters = read(app.servers, f"{app.id}-dead-letters", 0)
    assert len(letters) == 20
    reason = dict(letters[0].headers)["__connect.errors.exception.message"].decode()
    assert reason.startswith("model 'silent': its classes are not known; give them under [models.")
    assert len(app.outputs(0)) == 40


def test_settings_and_models_change_for_everybody(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, **FIELDS)
    fill(app, 20, NAMES[:4])
    before = labels_of(run_once(app))
    changed = {"threshold": 0.7, "max_lanes": 9, "models": {NAMES[0].model: ModelSettings(k=2)}}
    running = app.worker(**changed)
    replica = running.replica()
    each = [replica, *replica.lanes.values()]  # they change one after the other
    thresholds = lambda: {one.corrector.settings["threshold"] for one in each}  # noqa: E731
    wait("the settings", lambda: thresholds() == {0.7})
    ks = {name.model: one.corrector.settings["k"] for name, one in replica.lanes.items()}
    assert ks == {NAMES[0].model: 2, NAMES[2].model: 3}
    assert replica.terms.fleet.max_lanes == 9
    running.stop()
    assert labels_of(running.worker) == before


def test_a_log_that_begins_anew_keeps_its_lanes(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=2, **FIELDS)
    fill(app, 60, NAMES[:4])
    before = labels_of(run_once(app))
    with pytest.raises(DeniedError, match="label is 'label' in the log and 'truth' here"):
        app.worker(label="truth").join()
    assert labels_after(app) == before
    delete(app.servers, f"{app.id}-learned")
    create(app.servers, {f"{app.id}-learned": {}}, 1)
    assert labels_after(app) == before


def labels_after(app: App) -> dict[LaneName, int]:
    """What a worker has that begins the log anew."""
    running = app.worker(label="truth", reset_state=True)
    running.replica()
    wait("positions", lambda: len(running.worker.tasks) == 2)
    running.stop()
    return labels_of(running.worker)


def test_backfill_teaches_lanes(broker: Broker, tmp_path: Path) -> None:
    app = App(broker.bootstrap_servers, partitions=2, **FIELDS)
    fill(app, 300, NAMES[:6])
    found = backfill(app.settings(), start_group=True)
    assert {*found.lanes} == {*NAMES[:6]}
    said = found.to_dict()["lanes"]
    counts = {LaneName(one["model"], one["version"]): one["labels"] for one in said}
    assert sum(counts.values()) > 500
    fill(app, 10, NAMES[6:7], 9)
    learned = labels_of(run_once(app))
    assert learned.pop(NAMES[6]) == 10
    assert learned == counts
    _, said = command(
        "backfill", write_config(app, tmp_path), "--snapshot", str(tmp_path / "x"), code=1
    )
    assert "each model and version has a corrector of its own" in said


@pytest.mark.browser
def test_models_and_versions_are_seen(broker: Broker, browser: Browser) -> None:
    """Counted from the topics themselves; a name is text; a flood is said first."""
    odd = "<b>m</b>\N{LATIN SMALL LETTER U WITH DIAERESIS}"
    app = App(
        broker.bootstrap_servers, partitions=1, http_port=0, http_host="127.0.0.1", max_lanes=3,
        client=STEADY, **FIELDS,
    )  # fmt: skip
    rng, sent, labels, truth = random.Random(0), [], [], {}
    lanes = [LaneName(odd, "1"), LaneName(odd, "2"), LaneName("other", "1")]
    for i in range(600):
        own = lanes[:2] if i % 3 else lanes[2:]
        for name in own:
            key, value, truth[i] = prediction(random.Random(rng.random()), i, *name)
            sent.append((app.given["input"], 0, key, value, [], STAMP + i))
        labels.append((app.given["labels"], 0, key, label(truth[i]), [], STAMP + i + 1000))
    produce(app.servers, sent, labels)
    running = app.worker()
    port = ready(running)

    def status() -> Any:
        return json.loads(answer(port, "/status.json")[2])

    wait("all are learned", lambda: sum(one["learned"] for one in status()["lanes"]) >= 1000)
    found = status()
    assert (found["n_lanes"], found["max_lanes"], found["refused"]) == (3, 3, 0)
    rows = {(one["model"], one["version"]): one for one in found["lanes"]}
    assert {name: one["records"] for name, one in rows.items()} == {
        (odd, "1"): 400, (odd, "2"): 400, ("other", "1"): 200
    }  # fmt: skip
    later = [one for one in rows.values() if one["successor_of"] is not None]
    assert len(later) == 1  # which counts a tenth of what the other had learned by then
    assert all(400 <= one["learned"] <= 440 for one in later)
    others = {one["learned"] for one in rows.values() if one["successor_of"] is None}
    assert others == {400, 200}
    hits: dict[tuple[str, str, str], list[bool]] = {}
    for record in app.outputs(0):
        message = json.loads(record.value)
        for side, probs in (("before", "probs_raw"), ("after", "probs")):
            right = int(np.argmax(message[probs])) == CLASSES.index(truth[message["id"]])
            hits.setdefault((*lane_of(message), side), []).append(right)
    for name, one in rows.items():
        for side in ("before", "after"):
            assert one[f"accuracy_{side}"] == pytest.approx(np.mean(hits[*name, side]))
    (pair,) = found["versions"]
    assert (pair["model"], pair["version"], pair["other"], pair["labels"]) == (odd, "1", "2", 400)
    for rows_of, side in (("raw", "before"), ("sent", "after")):
        accuracy = pair[rows_of]["accuracy"]
        assert accuracy["before"] == pytest.approx(np.mean(hits[odd, "1", side]))
        assert accuracy["after"] == pytest.approx(np.mean(hits[odd, "2", side]))
        assert accuracy["low"] < accuracy["after"] - accuracy["before"] < accuracy["high"]
    assert {one["lane"] for one in found["learned"]} == {f"{odd} 1", f"{odd} 2", "other 1"}
    series = scrape(port)
    of = frozenset({"model": odd, "version": "2"}.items())
    assert series["stream_can_lane_records_total", of] == 400
    assert series["stream_can_lanes", frozenset({("partition", "0")})] == 3
    assert not any(name == "stream_can_coverage" for name, _ in series)

    produce(app.servers, [record_of(app, LaneName("late", "1"), 9000, STAMP + 2000)])
    wait("it is refused", lambda: status()["refused"] == 1)
    said = [problem["what"] for problem in status()["problems"]]
    assert "Predictions refused: 1. More than 3 models and versions began within an hour." in said
    for width, dark in ((320, False), (400, True), (1280, False)):
        browser.look(f"http://127.0.0.1:{port.number}/", width, dark=dark)
        browser.until("document.querySelectorAll('#models tbody tr').length == 3")
        assert odd in browser.value(NAMES_SEEN)
        assert browser.value("document.querySelectorAll('#versions tbody tr').length") == 2
        assert browser.value("document.querySelectorAll('#partition option').length") == 3
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not browser.value(wide)
        assert browser.errors == []
    browser.look("about:blank", 1280)
    running.stop()
