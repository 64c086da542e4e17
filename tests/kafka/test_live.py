"""The document and the page of a worker are true."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_can.app.letters import KEPT
from stream_can.app.status import Status
from tests.app.small import HEADS, ODD, TITLE, VALUES, VERDICT
from tests.chromium import Browser
from tests.kafka.broker.broker import Broker
from tests.kafka.served import ready
from tests.kafka.streams import CLASSES, STAMP, STEADY, App, caught_up, fill, prediction, scores
from tests.kafka.topics import produce
from tests.programs import answer, wait


def status(number: int) -> dict[str, Any]:
    code, headers, text = answer(number, "/status.json")
    assert code == 200
    assert headers["Content-Type"] == "application/json"
    msgspec.json.decode(text, type=Status)
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_document_is_true(broker: Broker) -> None:
    """Scores against the output topic itself, counts against what was sent."""
    app = App(
        broker.bootstrap_servers, http_port=0, http_host="127.0.0.1",
        client={"security_protocol": "PLAINTEXT", **STEADY},
    )  # fmt: skip
    running = app.worker()
    number = ready(running).number
    fill(app, 3000)
    bad = [b'{"probs": ["secret-payload"]}', b"secret-payload", b'{"label": "secret-payload"}']
    topics = [app.given["input"], app.given["input"], app.given["labels"]]
    produce(app.servers, [
        (topic, 1, b"key-secret", value, [("h", b"header-secret")], STAMP + 10_000 + i)
        for i, (topic, value) in enumerate(zip(topics, bad, strict=True))
    ])  # fmt: skip
    caught_up(app, running)
    wait("all learned", lambda: running.n_labels() == 3000)
    wait("no lag shown", lambda: status(number)["lag"] == 0)
    found, corrector = status(number), running.corrector()
    running.stop()
    assert found["application"] == app.id
    assert found["ready"]
    assert found["live"]
    for window in (found["hour"], found["day"]):
        assert window["records"] == 3002
        assert window["labels"] == 3001
        assert window["matched"] == window["scored"] == 3000
        assert window["dead_letters"] == 3
        assert (window["delay_from"], window["delay_to"]) == (0, 1)
        assert window["commits"] > 0
        assert 0 < window["commit_mean"] <= window["commit_longest"]
    rng = random.Random(0)
    labels = [prediction(rng, i)[2] for i in range(3000)]  # as `fill` sent them
    truth = scores(app, lambda message: labels[message["id"]])
    for stage in ("before", "after"):
        assert found["hour"]["accuracy"][stage] == pytest.approx(truth[f"hits {stage}"] / 3000)
        loss = truth[f"loss {stage}"] / 3000
        assert found["hour"]["log_loss"][stage] == pytest.approx(loss, rel=1e-9)
    course = found["hour_course"]
    assert sum(course["records"]) == 3002
    assert sum(p["records"] for p in found["partitions"]) == 3002
    assert [p["partition"] for p in found["partitions"]] == [0, 1]
    (learned,) = found["learned"]
    assert learned["labels"] == 3000
    assert learned["weights"] == pytest.approx(corrector.weights)
    assert learned["final_weights"] == pytest.approx(corrector.final_weights)
    places = [(x["topic"], x["partition"], x["offset"]) for x in found["dead_letters"]]
    assert sorted(places) == [(topics[0], 1, 1500), (topics[0], 1, 1501), (topics[2], 1, 1500)]
    assert "secret" not in json.dumps(found)
    assert len(found["dead_letters"]) <= KEPT


@pytest.mark.needs("chromium")
def test_values_of_a_worker_in_a_browser_and_labels_of_one_alone(
    broker: Broker, browser: Browser
) -> None:
    """Counted from the topics themselves."""
    carriers = [ODD[0], "B6", "AA"]
    app = App(
        broker.bootstrap_servers, http_port=0, http_host="127.0.0.1",
        segments=["carrier", "customer.country"], client=STEADY,
    )  # fmt: skip
    rng, truth, predictions = random.Random(0), {}, []
    labels: dict[bool, list[Any]] = {True: [], False: []}
    for i in range(900):
        key, value, truth[i] = prediction(rng, i)
        message = json.loads(value) | {"carrier": carriers[i % 3]}
        if i % 4:
            message["customer"] = {"country": rng.choice(["NL", "DE"])}
        partition, stamp = i % 2, STAMP + i
        sent = json.dumps(message).encode()
        predictions.append((app.given["input"], partition, key, sent, [], stamp))
        said = json.dumps({"label": truth[i]}).encode()
        one = (app.given["labels"], partition, key, said, [], stamp + 2000)
        labels[i % 3 == 0].append(one)
    produce(app.servers, predictions, labels[True])
    running = app.worker()
    number = ready(running).number
    wait("all are counted", lambda: [c["labels"] for c in status(number)["columns"][:1]] == [300])
    found = status(number)
    carrier, country = found["columns"]
    assert (carrier["name"], country["name"]) == ("carrier", "customer.country")
    assert {v["value"]: (v["rows"], v["labels"], v["scored"]) for v in carrier["values"]} == {
        ODD[0]: (300, 300, 300), "B6": (300, 0, 0), "AA": (300, 0, 0),
    }  # fmt: skip
    assert (country["rows"], country["labels"]) == (675, 225)
    assert country["few"] is None
    (labelled,) = [v for v in carrier["values"] if v["labels"]]
    messages = [json.loads(record.value) for p in (0, 1) for record in app.outputs(p)]
    own = [message for message in messages if message["carrier"] == ODD[0]]
    for side, field in (("before", "probs_raw"), ("after", "probs")):
        P = np.array([message[field] for message in own])
        P /= P.sum(axis=1, keepdims=True)
        y = np.array([CLASSES.index(truth[message["id"]]) for message in own])
        hits = (P.argmax(axis=1) == y).mean()
        assert labelled[f"accuracy_{side}"] == pytest.approx(hits)
        loss = -np.log(np.maximum(P[np.arange(len(y)), y], 1e-6)).mean()
        assert labelled[f"log_loss_{side}"] == pytest.approx(loss)
        gap = abs(hits - P.max(axis=1).mean())
        assert labelled[f"calibration_{side}"] == pytest.approx(gap)

    what = f"100 % of the labels come from 33 % of the rows, those with carrier “{ODD[0]}”."
    assert what in [problem["what"] for problem in found["problems"]]
    browser.look(f"http://127.0.0.1:{number}/", 1280)
    wait("the page", lambda: browser.value(TITLE) == app.id)
    assert browser.value(HEADS) == ["carrier", "customer.country"]
    assert set(browser.value(VALUES)) == {*carriers, "NL", "DE"}
    problems = browser.value(VERDICT) + browser.value("document.getElementById('also').textContent")
    assert what in problems
    assert browser.value("document.images.length") == 0
    assert browser.errors == []
    browser.look("about:blank", 1280)
    running.stop()
