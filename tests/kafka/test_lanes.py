"""Models and versions in one application, on a real broker."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from stream_can.app.model_settings import ModelSettings
from stream_can.kafka import DeniedError
from stream_can.messages.naming import LaneName
from tests.chromium import Browser
from tests.kafka import streams
from tests.kafka.broker.broker import Broker
from tests.kafka.served import ready, scrape
from tests.kafka.streams import (
    CLASSES,
    STAMP,
    STEADY,
    App,
    caught_up,
    correctors_of,
    fill,
    label,
    run_once,
)
from tests.kafka.topics import produce, read
from tests.programs import answer, wait

NAMES_SEEN = "[...document.querySelectorAll('#models bdi')].map(e => e.textContent)"
FIELDS: dict[str, Any] = {"model": "model.name", "version": "model.version"}


def prediction(
    rng: random.Random, number: int, model: str, version: str
) -> tuple[bytes, bytes, str]:
    """Key and message of a prediction of one version, and the true class."""
    key, value, truth = streams.prediction(rng, number)
    message = json.loads(value) | {"model": {"name": model, "version": version}}
    return key, json.dumps(message).encode(), truth


def lane_of(message: dict[str, Any]) -> LaneName:
    return LaneName(message["model"]["name"], message["model"]["version"])


def record_of(app: App, name: LaneName, number: int, stamp: int) -> Any:
    """A record of the input: a prediction of a lane."""
    key, value, _ = prediction(random.Random(number), number, *name)
    return app.given["input"], number % app.partitions, key, value, [], stamp


def labels_of(app: App) -> dict[tuple[str | None, str | None], int]:
    """How many labels each model and version has learned."""
    return {name: one.n_labels for name, one in correctors_of(app).items()}


def test_a_flood_of_models_is_refused(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, max_lanes=3, **FIELDS)
    running = app.worker()
    for at, model in enumerate("abcd"):
        produce(app.servers, [record_of(app, LaneName(model, "1"), at, STAMP + at)])
        caught_up(app, running)
    produce(app.servers, [record_of(app, LaneName("a", "1"), 9, STAMP + 9)])
    caught_up(app, running)
    running.stop()
    assert [name for name, _ in labels_of(app)] == ["a", "b", "c"]
    assert len(app.outputs(0)) == 4
    (letter,) = read(app.servers, f"{app.id}-dead-letters", 0)
    reason = dict(letter.headers)["__connect.errors.exception.message"]
    assert reason.startswith(b"lane d 1: 3 models and versions, or 256 MB of them, began within an")


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
    run_once(app)
    assert labels_of(app) == {("listed", None): 20, ("named", None): 20}
    correctors = correctors_of(app)
    assert correctors["listed", None].settings["threshold"] == 0.8
    assert correctors["named", None].classes == ("cat", "dog")
    letters = read(app.servers, f"{app.id}-dead-letters", 0)
    assert len(letters) == 20
    reason = dict(letters[0].headers)["__connect.errors.exception.message"].decode()
    assert reason.startswith("model 'silent': its classes are not known; give them under [models.")
    assert len(app.outputs(0)) == 40


def test_settings_and_models_change_for_everybody(broker: Broker) -> None:
    """Those of the process that learns are in force everywhere."""
    app = App(broker.bootstrap_servers, partitions=1, model="model")
    fill(app, 40, more=lambda rng, says: says.update(model=rng.choice("xy")))
    run_once(app)
    before = labels_of(app)
    changed = {"threshold": 0.7, "max_lanes": 9, "models": {"x": ModelSettings(k=2)}}
    running = app.learner(**changed)
    running.learning()
    wait("a state", lambda: {one.settings["threshold"] for one in correctors_of(app).values()}
         == {0.7})  # fmt: skip
    running.stop()
    assert {name: one.settings["k"] for (name, _), one in correctors_of(app).items()} == {
        "x": 2, "y": 3
    }  # fmt: skip
    assert labels_of(app) == before


def test_another_field_of_models_is_another_application(broker: Broker) -> None:
    app = App(broker.bootstrap_servers, partitions=1, **FIELDS)
    produce(app.servers, [record_of(app, LaneName("x", "1"), 0, STAMP)])
    run_once(app)
    with pytest.raises(DeniedError, match=r"model is 'model\.name' there and 'other' here"):
        app.worker(model="other").join()


@pytest.mark.needs("chromium")
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
