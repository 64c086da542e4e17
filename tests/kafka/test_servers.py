"""Several servers without a file, and one learner: on a real broker."""

from __future__ import annotations

import contextlib
import json
import random
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from stream_can.kafka.client.guards import RetryError
from stream_can.kafka.client.options import Options
from stream_can.kafka.client.producer import Appended
from stream_can.learner import read_sent
from stream_can.learner.sent import SentBatch, SentVersion
from stream_can.serve import appender as module
from stream_can.serve.appender import Appender
from stream_can.serve.service import Unavailable
from tests.chromium import Browser
from tests.kafka.broker.broker import VERSIONS, Broker, Served, free_ports
from tests.kafka.judge import Answered, judge_answers
from tests.kafka.server_chaos import ServerChaos, is_ready, learned, ready, server_of
from tests.kafka.streams import App, fill, label, prediction, state_of
from tests.kafka.topics import unique
from tests.kafka.users import SCRAM, allow, lacks, take_away
from tests.kafka.users import servers as rights_of_servers
from tests.pages import ROOT, blocks, run_sh, staying
from tests.programs import wait
from tests.serve.serving import Server


class Traffic:
    """Predictions, whose answers are kept, and labels a while later; to any of the servers."""

    def __init__(
        self, *servers: Server, seed: int = 0, more: bool = False, predict: Any = prediction
    ) -> None:
        self.servers, self.rng, self.more = servers, random.Random(seed), more
        self.predict = predict
        self.answers: list[Answered] = []
        self.waiting: list[dict[str, Any]] = []
        self.taken, self.n = 0, 0
        self.name = f"{seed}-"

    def client(self) -> httpx.Client:
        return self.rng.choice(self.servers).client

    def message(self) -> dict[str, Any]:
        _, value, truth = self.predict(self.rng, self.n)
        says = json.loads(value) | {"id": f"{self.name}{self.n}"}
        if self.more:
            says["model"] = self.rng.choice("mn")
            says["carrier"] = self.rng.choice(["AA", "DL", 7, None, 1.5, True])
        self.waiting.append({"id": says["id"]} | json.loads(label(truth)))
        self.n += 1
        return says

    def correct(self, n: int) -> None:
        asked = [self.message() for _ in range(n)]
        answer = self.client().post("/correct", json=asked)
        assert answer.status_code == 200, answer.text
        number = int(answer.headers["stream-can-state"])
        for one, made in zip(asked, answer.json(), strict=True):
            self.answers.append(Answered(one, made, number))

    def label(self, n: int) -> None:
        labels, self.waiting = self.waiting[:n], self.waiting[n:]
        answer = self.client().post("/labels", json=labels)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"taken": len(labels), "statuses": ["taken"] * len(labels)}
        self.taken += len(labels)

    def go(self, turns: int) -> None:
        for _ in range(turns):
            self.correct(self.rng.randint(1, 20))
            if len(self.waiting) > 30:
                self.label(self.rng.randint(1, 20))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model": "model", "segments": ["carrier"], "sets": 0.9},
        {"rows": "multilabel", "model": "model"},
    ],
    ids=["one model", "models", "several labels"],
)
def test_servers_correct_by_what_all_labels_taught(
    broker: Served, tmp_path: Path, settings: dict[str, Any]
) -> None:
    app = App(broker.bootstrap_servers, partitions=1, label_partitions=3, served=True, **settings)
    with server_of(app, tmp_path, "a") as a, server_of(app, tmp_path, "b") as b:
        for path, code in (("/livez", 200), ("/readyz", 503)):
            assert a.client.get(path).status_code == code
        answer = a.client.post("/correct", json={"id": "1", "probs": [1, 0, 0, 0]})
        assert answer.status_code == 503
        assert "does the application's learner run" in answer.json()["error"]
        learner = app.learner()
        ready(a, b)
        traffic = Traffic(a, b, more="model" in settings, predict=app.predict)
        traffic.go(60)
        traffic.label(len(traffic.waiting))
        taken = traffic.taken
        learned(app, learner, taken)
        learner.stop()
        state = state_of(app)
        assert state is not None
        traffic.go(3)
        wait(
            "the last state",
            lambda: traffic.correct(1) or traffic.answers[-1].number == state.number,
        )
        about = a.client.get("/status.json").json()
        assert about["learned"][0]["labels"] > 0
        assert 'stream_can_predictions_total{result="corrected"}' in a.client.get("/metrics").text
    app.verify()
    assert app.checked.labels["learned"] + app.checked.labels["learned late"] == taken
    assert len({one.number for one in traffic.answers}) > 5
    assert judge_answers(app.servers, app.settings(), traffic.answers) == 0


@pytest.mark.long
@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.release)])
def test_servers_and_learners_are_killed(seconds: int, tmp_path: Path) -> None:
    """Every answer and state is exact, and no label that was taken is lost."""
    broker = Broker(VERSIONS[0], tmp_path / "broker")
    try:
        broker.start()
        chaos = ServerChaos(broker, tmp_path, seed=1)
        verdict = chaos.run(seconds)
    finally:
        broker.remove()
    print(verdict.labels, chaos.counts, chaos.lost)
    assert chaos.counts["answers"] > 100
    assert verdict.labels["learned"] + verdict.labels["learned late"] > 50


def test_brokers_that_are_away(own_broker: Broker, tmp_path: Path) -> None:
    """Predictions are answered as before and appended later; labels are refused."""
    broker = own_broker
    app = App(broker.bootstrap_servers, partitions=1, served=True)
    learner = app.learner()
    # A busy machine may take longer for a broker's start than what is in flight waits by default.
    patient = {"delivery_timeout_ms": 600_000}
    with server_of(app, tmp_path, "a", client=patient) as server:
        ready(server)
        traffic = Traffic(server)
        traffic.go(5)
        broker.kill()
        traffic.correct(50)
        answer = server.client.post("/labels", json=traffic.waiting[:1])
        assert answer.status_code == 503, answer.text
        assert "brokers" in answer.json()["error"]
        assert server.client.get("/readyz").status_code == 200
        traffic.correct(50)
        broker.start()

        def taken() -> bool:
            answer = server.client.post("/labels", json=traffic.waiting)
            return answer.status_code == 200

        wait("labels are taken", taken)
        learned(app, learner, traffic.n)
        learner.stop()
        app.verify()
        assert judge_answers(app.servers, app.settings(), traffic.answers) == 0
        broker.kill()
        traffic.correct(50)
        assert server.stop() == 0  # as soon as a supervisor waits for
        assert "the last corrected predictions are not learned from" in server.log.read_text()
    broker.start()


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({"application_id": "no-such"}, 3, "missing topics: no-such-labels (1 part"),
        ({"classes": ["a", "b"]}, 3, "holds the state of other settings: classes is"),
        ({"format": "avro", "schema_registry": "http://127.0.0.1:1"}, 2, "reads and writes JSON"),
        ({"bootstrap_servers": ["127.0.0.1:1"], "connect_seconds": 1}, 4, "127.0.0.1:1"),
        ({"bootstrap_servers": None}, 2, "labels: needs bootstrap_servers"),
        ({"state": "app.sqlite"}, 2, "state: with bootstrap_servers no file is kept; state_topic"),
        ({"lable_wait": 3}, 2, "did you mean label_wait?"),
        ({"input": "in"}, 2, "input and output: give both"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_cannot_be_served(
    broker: Served, tmp_path: Path, settings: dict[str, Any], code: int, says: str
) -> None:
    app = App(broker.bootstrap_servers, partitions=1, served=True)
    if code == 3:
        app.learner().learning()
        wait("a state", lambda: state_of(app) is not None)
    if "application_id" in settings:
        settings = {**settings, "labels": "no-such-labels"}
    found = server_of(app, tmp_path, "a", **settings).run()
    assert found[0] == code
    assert says in found[1]


def test_there_may_be_no_labels(broker: Served, tmp_path: Path) -> None:
    """Then the class mix alone is learned."""
    app = App(broker.bootstrap_servers, partitions=1, served=True, labels=False)
    learner = app.learner()
    with server_of(app, tmp_path, "a") as server:
        ready(server)
        answer = server.client.post("/labels", json={"id": "1", "label": "a"})
        assert (answer.status_code, answer.json()) == (
            503,
            {"error": "labels: not set; name the topic of labels"},
        )
        traffic = Traffic(server)
        traffic.correct(10)
        wait("learned", lambda: app.lag() == 0)
    learner.stop()
    app.verify()


def row(n: int) -> SentBatch:
    lane = SentVersion((None, None), tuple("abcd"), np.zeros((1, 1 << 14), np.float32))
    return SentBatch([b"%d" % n], np.array([0]), np.array([1.0]), [lane], np.zeros(1, np.int32), {})


@pytest.mark.fast
def test_of_what_waits_the_oldest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """While no broker answers; what is kept comes in order, and nothing twice."""
    state: Any = SimpleNamespace(number=7, index=SimpleNamespace(mark="m"))
    told, sent, stopping = list[int](), list[bytes](), threading.Event()

    class Away:
        def append(self, records: Any, seconds: float) -> None:
            if len(told) < 3:
                raise RetryError("no broker answers")
            sent.extend(id for one in records for id in read_sent(one.value).ids)
            stopping.set()

        def close(self) -> None: ...

    appender = Appender(
        Options(["127.0.0.1:1"]), "sent", "a", {"sent": 1 << 20}, 0.0,
        lambda seconds, size, dropped: told.append(dropped),
    )  # fmt: skip
    appender._producer, appender._partition = Away(), 0  # type: ignore[assignment]
    monkeypatch.setattr(module, "MOST_BYTES", 10 * (1 << 16))
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.0)
    for n in range(25):
        appender.rows(row(n), state)
    label = appender.labels([Appended("labels", None, b"1", b"{}")])
    appender.run(stopping)
    assert sent == [b"%d" % n for n in range(25 - len(sent), 25)]
    assert len(sent) == 9  # of 64 KiB and some more
    assert sum(told) == 25 - len(sent)
    with pytest.raises(Unavailable, match="no broker answers"):
        label.result()


@pytest.mark.needs("chromium")
def test_labels_are_given_on_the_page(broker: Served, tmp_path: Path, browser: Browser) -> None:
    """What is shown of a prediction is its id and its columns: no topic has its message."""
    app = App(
        broker.bootstrap_servers, partitions=1, served=True, ask=1.0, segments=["carrier"]
    )  # fmt: skip
    learner = app.learner()
    with server_of(app, tmp_path, "a", label_port=0) as server:
        ready(server)
        rng = random.Random(3)
        for i in range(5):
            row = json.loads(prediction(rng, i)[1])
            server.correct({"id": f"o{i}", "probs": row["probs"], "carrier": f"airline {i}"})
        (address,) = re.findall(r"give labels on (\S+)", server.log.read_text())
        browser.look(address, 1000)
        browser.until("document.querySelector('dl')?.textContent.includes('airline 4')")
        text = browser.value("document.querySelector('dl').textContent")
        assert "o4" in text
        browser.press("2")
        browser.until("document.querySelector('dl')?.textContent.includes('airline 3')")
        learned(app, learner, 1)
        assert browser.errors == []
        browser.look("about:blank", 1000)
        browser.until("location.href === 'about:blank'")
    learner.stop()
    app.verify()
    assert app.checked.requests == 5


def test_each_right_is_needed_and_named_and_together_they_are_enough(
    our_broker: Broker, tmp_path: Path
) -> None:
    app = App(our_broker.bootstrap_servers, partitions=1, served=True)
    learner = app.learner()
    learner.learning()
    secured = {
        "bootstrap_servers": [our_broker.listeners["scram"]],
        "client": app.given["client"] | SCRAM,
    }
    needed = rights_of_servers(app)
    for right in needed:
        allow(app.servers, "mallory", *right)

    def refused() -> str | None:
        """What it says where it ends at once."""
        with server_of(app, tmp_path, "a", **secured) as server:
            process = server.process
            assert process is not None
            wait("it decides", lambda: process.poll() is not None or is_ready(server))
            if process.poll() is None:
                return None
            assert process.returncode == 3
            return server.log.read_text().splitlines()[-1]

    wait("all rights", lambda: refused() is None)
    for kind, name, right in needed:
        take_away(app.servers, "mallory", kind, name, right)
        said = wait(f"{right} is missed", refused)
        assert said.endswith(lacks(kind, name, right))
        allow(app.servers, "mallory", kind, name, right)
        wait("all rights", lambda: refused() is None)
    with server_of(app, tmp_path, "a", **secured) as server:
        ready(server)
        traffic = Traffic(server)
        traffic.go(5)
        traffic.label(len(traffic.waiting))
        learned(app, learner, traffic.taken)
    learner.stop()
    app.verify()


@pytest.mark.needs("curl")
@pytest.mark.long
def test_the_page(broker: Served, tmp_path: Path) -> None:
    """Every command of docs/servers.md, in its order."""
    ports = dict(zip(("8001", "8002"), map(str, free_ports(2)), strict=True))
    name = unique("fraud")

    def here(text: str) -> str:
        text = text.replace("localhost:9092", broker.bootstrap_servers).replace(
            "fraud-", f"{name}-"
        )
        text = text.replace('application_id = "fraud"', f'application_id = "{name}"')
        for port, own in ports.items():
            text = text.replace(port, own)
        return text

    shown, printed = [], []
    with contextlib.ExitStack() as stack:
        for number, (language, code) in enumerate(blocks(ROOT / "docs" / "servers.md")):
            code = here(code)
            if language == "toml":
                (tmp_path / "app.toml").write_text(code)
            elif language == "json":
                shown.append(json.loads(code))
            elif code.startswith("stream-can"):
                log = tmp_path / f"{number}.log"
                stack.enter_context(staying(code, tmp_path, log))
                says = "learning from state" if "learn " in code else "shows what it does"
                wait(code, lambda log=log, says=says: says in log.read_text())
            elif code.startswith("curl"):
                for port in ports.values():
                    url = f"http://127.0.0.1:{port}/readyz"
                    wait("ready", lambda url=url: httpx.get(url).status_code == 200)
                printed.append(json.loads(run_sh(code)))
    assert printed[0]["probs"] == pytest.approx(shown[0]["probs"], abs=1e-9)
    assert printed[1] == shown[1]


def test_a_server_and_workers_serve_one_application(broker: Served, tmp_path: Path) -> None:
    """What came over HTTP lies in no input, and is learned from all the same."""
    app = App(broker.bootstrap_servers, partitions=2)
    worker = app.worker()
    topics = {"input": app.given["input"], "output": app.given["output"]}
    with server_of(app, tmp_path, "a", **topics) as server:
        ready(server)
        traffic = Traffic(server)
        for turn in range(4):
            fill(app, 50, first=50 * turn, seed=turn)
            traffic.go(5)
        traffic.label(len(traffic.waiting))
        learned(app, worker, traffic.taken + 200)
    worker.stop()
    assert app.verify() == 200
    state = state_of(app)
    assert state is not None
    assert state.index.inputs == {0: 100, 1: 100}
    assert judge_answers(app.servers, app.settings(id="id"), traffic.answers) == 0
