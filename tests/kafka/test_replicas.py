"""Servers that learn together: judged by the topics alone, and by what each answered."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import random
import re
import shutil
import signal
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from kafka import KafkaAdminClient, TopicPartition

from stream_can import Corrector
from stream_can.kafka import SettingsError, shared
from stream_can.messages.naming import UNNAMED, LaneName
from stream_can.serve import load
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from tests.chromium import Browser
from tests.kafka.broker.broker import Broker
from tests.kafka.topics import create, delete, produce, read
from tests.programs import PATIENCE, wait
from tests.serve.serving import CLASSES, Row, Server, judge

pytestmark = pytest.mark.release

PROBS = [0.5, 0.3, 0.2]


class Fleet:
    """Replicas of one application, each with a folder of its own."""

    def __init__(self, servers: str, folder: Path, **settings: Any) -> None:
        self.servers, self.folder = servers, folder
        self.name = f"served-{uuid.uuid4().hex[:8]}"
        self.settings: dict[str, Any] = {
            "bootstrap_servers": servers.split(","), "application_id": self.name,
            "create_topics": True, "label_wait": 2.0,
        } | settings  # fmt: skip
        self.every: list[Server] = []

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.every:
            one.__exit__(None, None, None)

    def add(self, **changed: Any) -> Server:
        """Another replica."""
        folder = self.folder / str(len(self.every))
        folder.mkdir()
        self.every.append(Server(folder, **self.settings | changed).start())
        return self.every[-1]

    def topic(self, kind: str) -> list[Any]:
        return read(self.servers, f"{self.name}-{kind}", 0)

    def labels(self) -> dict[bytes, int]:
        """Of each id the offset of its first label."""
        found: dict[bytes, int] = {}
        for record in self.topic("labels"):
            found.setdefault(record.key, record.offset)
        return found

    def taught(self) -> list[tuple[int, bool]]:
        """The labels of the log, each with whether it has a prediction: of every writer each entry
        once, in turn; of every label its first entry."""
        found, numbers, seen = [], {}, set()
        for record in self.topic("learned"):
            one = entry.read(record.value)
            if one.writer is None:
                continue
            name, number = one.writer
            if number != numbers.get(name, -1) + 1:
                continue
            numbers[name] = number
            for part in one.parts:
                offsets = np.frombuffer(part.offsets, "<i8").tolist()
                classes = np.frombuffer(part.classes, "<i4").tolist()
                for offset, y in zip(offsets, classes, strict=True):
                    if offset not in seen:
                        seen.add(offset)
                        found.append((offset, y >= 0))
        return found

    def fold(self) -> tuple[Replica, dict[int, dict[LaneName, bytes]]]:
        """All that the log makes, and the bits of what it had made at each offset."""
        replica, found = Replica(), {}
        for record in self.topic("learned"):
            replica.fold(record)
            found[replica.offset] = bits(replica)
        return replica, found

    def settle(self) -> None:
        """Wait until every label has been taught."""
        labels = self.labels()
        wait("every label", lambda: {offset for offset, _ in self.taught()} >= {*labels.values()})


def bits(replica: Replica) -> dict[LaneName, bytes]:
    """Of its corrector, and of those of its lanes."""
    of = {name: lane.corrector.to_bytes() for name, lane in replica.lanes.items()}
    return {UNNAMED: replica.corrector.to_bytes()} | of


def kept(server: Server) -> Replica:
    """What the file of a replica has of the log."""
    with contextlib.closing(sqlite3.connect(f"file:{server.state}?mode=ro", uri=True)) as db:
        records = dict(db.execute("SELECT key, value FROM folded"))
    return shared.unpack(records.pop(b"shared"), records)


@pytest.fixture
def fleet(broker: Broker, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(broker.bootstrap_servers, tmp_path) as found:
        yield found


class Proxy:
    """In front of servers: each request to the next one, whether that is alive or not."""

    def __init__(self, servers: list[Server]) -> None:
        turn = itertools.cycle(servers)
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with lock:
                    to = next(turn)
                try:
                    url = f"http://127.0.0.1:{to.port}{self.path}"
                    answer = httpx.post(url, content=body, timeout=PATIENCE)
                    status, content, headers = answer.status_code, answer.content, answer.headers
                except httpx.TransportError:
                    status, content, headers = 502, b"{}", httpx.Headers()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                if "stream-can-learned" in headers:
                    self.send_header("stream-can-learned", headers["stream-can-learned"])
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class User(threading.Thread):
    """Sends predictions, and labels until they are acknowledged, some of them once more."""

    def __init__(self, url: str, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.url, self.number, self.stopping = url, number, stop
        self.rows: list[Row] = []
        self.acknowledged: list[str] = []

    def run(self) -> None:
        rng = np.random.default_rng(self.number)
        waiting: list[dict[str, str]] = []
        i = 0
        with httpx.Client(base_url=self.url, timeout=PATIENCE) as client:
            while not self.stopping.is_set() or waiting:
                id, probs = f"{self.number}-{i}", rng.dirichlet(np.full(3, 0.7)).tolist()
                i += 1
                answer = client.post("/correct", json={"id": id, "probs": probs})
                if answer.status_code == 200:
                    learned = int(answer.headers["stream-can-learned"])
                    self.rows.append(Row(probs, answer.json()["probs"], learned))
                    if rng.random() < 0.05:  # whoever lost the answer asks the next server
                        client.post("/correct", json={"id": id, "probs": probs})
                    if not self.stopping.is_set():
                        waiting.append({"id": id, "label": CLASSES[int(rng.integers(3))]})
                if waiting and (len(waiting) > 5 or self.stopping.is_set()):
                    answer = client.post("/labels", json=waiting[0])
                    if answer.status_code == 200:
                        assert answer.json()["statuses"] == ["taken"]
                        self.acknowledged.append(waiting[0]["id"])
                        if rng.random() < 0.1:
                            client.post("/labels", json=waiting[0])
                        del waiting[0]


def test_three_behind_a_proxy_and_one_of_them_killed(fleet: Fleet) -> None:
    """Labels sent to any of them: each is learned once, by all; equal offsets are equal bits."""
    replicas = [fleet.add() for _ in range(3)]
    stop, chance = threading.Event(), random.Random(7)
    with Proxy(replicas) as proxy:
        users = [User(proxy.url, number, stop) for number in range(3)]
        for one in users:
            one.start()
        for victim in (1, 2, 1):
            time.sleep(chance.uniform(1.5, 2.5))
            replicas[victim].stop(signal.SIGKILL)
            time.sleep(chance.uniform(0.2, 1.0))
            replicas[victim].start()
        time.sleep(1.0)
        stop.set()
        for one in users:
            one.join(PATIENCE)
            assert not one.is_alive()
    labels = fleet.labels()
    assert {key.decode() for key in labels} >= {id for one in users for id in one.acknowledged}
    fleet.settle()
    taught = fleet.taught()
    assert sorted(offset for offset, _ in taught) == sorted(labels.values())
    assert sum(with_row for _, with_row in taught) > 0.9 * len(taught)
    sent = {}
    for one in replicas:
        answer = one.client.post("/correct", json={"id": "last", "probs": PROBS})
        sent.setdefault(answer.headers["stream-can-learned"], []).append(answer.json()["probs"])
    assert all(len({*map(tuple, each)}) == 1 for each in sent.values())
    for one in replicas:
        assert one.stop() == 0
        assert "a bug" not in one.log.read_text()
    _, folds = fleet.fold()
    made = {offset: Corrector.from_bytes(of[UNNAMED]) for offset, of in folds.items()}
    for user in users:
        judge(user.rows, made)
    for one in replicas:
        assert bits(kept(one)) == folds[kept(one).offset]


def test_a_label_reaches_the_one_that_has_its_prediction(fleet: Fleet) -> None:
    a, b = fleet.add(), fleet.add()
    a.correct(*({"id": f"a{i}", "probs": PROBS} for i in range(5)))
    assert b.label(*({"id": f"a{i}", "label": "eel"} for i in range(5))) == ["taken"] * 5
    assert a.label({"id": "a1", "label": "cat"}) == ["taken"]  # too late: it has one
    b.label({"id": "nobody's", "label": "dog"})
    b.label({"id": "nobody's", "label": "dog"})
    fleet.settle()
    assert fleet.taught() == [*((offset, True) for offset in range(5)), (6, False)]
    replica, _ = fleet.fold()
    assert replica.corrector.n_labels == 6
    code, says = b.post("/labels", json.dumps({"id": "x", "label": "wolf"}))
    assert code == 422
    assert "wolf" in says["error"]
    code, says = b.post("/labels", json.dumps({"label": "cat"}))
    assert (code, says["error"]) == (422, "no field 'id'")
    produce(fleet.servers, [(f"{fleet.name}-labels", 0, b"?", value) for value in (b"{", None)])
    produce(fleet.servers, [(f"{fleet.name}-labels", 0, b"?", b'{"id": "a1", "label": "wolf"}')])
    a.correct({"id": "a9", "probs": PROBS})
    a.label({"id": "a9", "label": "cat"})
    wait("that one", lambda: len(fleet.taught()) == 7)
    for one in (a, b):
        wait("they are named", lambda one=one: one.log.read_text().count("left out") >= 2)
        assert one.stop() == 0


def test_a_replica_that_comes_later_begins_with_what_all_have_learned(fleet: Fleet) -> None:
    """The first entries are deleted by then, as by retention."""
    a = fleet.add()
    for i in range(20):
        a.correct({"id": i, "probs": PROBS})
        a.label({"id": i, "label": "dog"})
    fleet.settle()
    wait("it sees them", lambda: learned(a) == 20)
    whole, _ = fleet.fold()
    assert a.stop() == 0
    admin = KafkaAdminClient(bootstrap_servers=fleet.servers)
    admin.delete_records({TopicPartition(f"{fleet.name}-learned", 0): whole.offset - 1})
    admin.close()
    b = fleet.add()
    said = b.post("/correct", json.dumps({"id": 1, "probs": PROBS}))[1]["probs"]
    made = whole.corrector.correct_and_sum(np.array([PROBS]), whole.corrector.new_sums())
    assert made[0].tolist() == said
    assert learned(b) == 20
    a.start()
    assert learned(a) == 20


def learned(server: Server) -> int:
    found: int = server.client.get("/status.json").json()["learned"][0]["labels"]
    return found


def test_while_no_broker_answers(own_broker: Broker, tmp_path: Path) -> None:
    """Predictions go on, labels are refused with 503; afterwards all is learned, each once."""
    with Fleet(own_broker.bootstrap_servers, tmp_path) as fleet:
        a, b = fleet.add(), fleet.add()
        a.correct({"id": 0, "probs": PROBS})
        b.label({"id": 0, "label": "cat"})
        wait("it is learned", lambda: learned(a) == learned(b) == 1)
        own_broker.kill()
        for i in range(1, 300):
            a.correct({"id": i, "probs": PROBS})
        code, says = b.post("/labels", json.dumps({"id": 1, "label": "dog"}))
        assert code == 503
        assert "send it again" in says["error"]
        assert a.client.get("/readyz").status_code == 200
        a.stop(signal.SIGKILL)
        own_broker.start()
        a.start()
        for i in range(1, 300):
            assert b.label({"id": i, "label": CLASSES[i % 3]}) == ["taken"]
        fleet.settle()
        taught = fleet.taught()
        assert sorted(offset for offset, _ in taught) == sorted(fleet.labels().values())
        assert sum(with_row for _, with_row in taught) == 300
        wait("by both", lambda: learned(a) == learned(b) == 300)
        replica, _ = fleet.fold()
        assert replica.corrector.n_labels == 300
        for one in (a, b):
            assert one.stop() == 0
            assert "a bug" not in one.log.read_text()


def test_models_of_several_replicas(fleet: Fleet) -> None:
    """A label that names no version teaches each that has predicted its id, wherever that was."""
    fleet.settings |= {"model": "model", "version": "version"}
    a, b = fleet.add(), fleet.add()
    for i in range(30):
        a.correct({"id": i, "probs": PROBS, "model": "m", "version": "1"})
        b.correct({"id": i, "probs": PROBS[::-1], "model": "m", "version": "2"})
        (a if i % 2 else b).label({"id": i, "label": "cat"})
    a.label({"id": "nobody's", "label": "cat"})
    lanes = lambda one: {  # noqa: E731
        lane["lane"]: lane["labels"] for lane in one.client.get("/status.json").json()["learned"]
    }
    wait("all of it", lambda: lanes(a) == lanes(b) == {"m 1": 30, "m 2": 30})
    a.stop(signal.SIGKILL)
    a.start()
    assert lanes(a) == {"m 1": 30, "m 2": 30}
    for one in (a, b):
        assert one.stop() == 0
    _, folds = fleet.fold()
    for one in (a, b):
        assert bits(kept(one)) == folds[kept(one).offset]
        assert len(bits(kept(one))) == 3


@pytest.mark.browser
def test_labels_that_are_asked_for(fleet: Fleet, browser: Browser) -> None:
    fleet.settings |= {"ask": 1.0, "label_port": 0}
    a, _ = fleet.add(), fleet.add()
    assert a.correct({"id": "o", "probs": PROBS, "text": "an animal"})["ask"] == "random"
    browser.look(re.findall(r"give labels on (\S+)", a.log.read_text())[0], 1000)
    browser.until("document.querySelector('dl')?.textContent.includes('an animal')")
    browser.press("2")
    fleet.settle()
    wait("it has the label", lambda: fleet.taught() == [(0, True)])
    wait("nothing is open", lambda: a.client.get("/status.json").json()["open_requests"] == 0)
    browser.until("document.getElementById('request').hidden")


def test_settings_follow_who_was_deployed_last(fleet: Fleet) -> None:
    a = fleet.add(half_life=1000.0)
    b = fleet.add(half_life=500.0)
    a.correct({"id": 1, "probs": PROBS})
    a.label({"id": 1, "label": "cat"})
    wait("it is learned", lambda: learned(a) == learned(b) == 1)
    for one in (a, b):
        assert one.stop() == 0
        assert kept(one).corrector.settings["half_life"] == 500.0
    a.start()
    assert "ours were replaced there" in a.log.read_text()
    assert "settings_generation = 2" in a.log.read_text()
    assert a.stop() == 0
    assert kept(a).corrector.settings["half_life"] == 500.0


class TestRefused:
    """At the start, with exit code 3 and a way out."""

    def refused(self, server: Server, *words: str) -> None:
        code, said = server.run()
        assert code == 3, said
        for word in words:
            assert word in said, said
        assert "Traceback" not in said

    def test_topics_that_are_missing(self, fleet: Fleet, tmp_path: Path) -> None:
        fleet.settings["create_topics"] = False
        server = Server(tmp_path, **fleet.settings)
        self.refused(server, f"missing topics: {fleet.name}-labels", "create_topics")

    def test_a_topic_of_several_partitions(self, fleet: Fleet, tmp_path: Path) -> None:
        create(fleet.servers, {f"{fleet.name}-labels": {}}, partitions=2)
        server = Server(tmp_path, **fleet.settings)
        self.refused(server, f"topic '{fleet.name}-labels' has 2 partitions, and replicas need 1")

    def test_a_file_of_a_server_that_learned_alone(self, fleet: Fleet, tmp_path: Path) -> None:
        with Server(tmp_path, application_id=fleet.name) as alone:
            assert alone.stop() == 0
        server = Server(tmp_path, **fleet.settings)
        self.refused(server, "learns alone", f"in the log '{fleet.name}-learned'", "another file")

    def test_other_classes(self, fleet: Fleet, tmp_path: Path) -> None:
        assert fleet.add().stop() == 0
        server = Server(tmp_path, **fleet.settings | {"classes": ["cat", "dog"]})
        self.refused(server, "of other settings", "classes")

    def test_a_copy_of_a_file_in_use(self, fleet: Fleet, tmp_path: Path) -> None:
        a = fleet.add()
        assert a.stop() == 0
        copy = Server(tmp_path, **fleet.settings)
        shutil.copy(a.state, copy.state)
        a.start()
        a.correct({"id": 1, "probs": PROBS})
        a.label({"id": 1, "label": "cat"})
        wait("it is learned", lambda: learned(a) == 1)
        self.refused(copy, "another process writes under the name in it")

    def test_a_log_that_is_new(self, fleet: Fleet) -> None:
        a = fleet.add()
        for i in range(5):
            a.correct({"id": i, "probs": PROBS})
        a.label({"id": 1, "label": "cat"})
        wait("it is learned", lambda: learned(a) == 1)
        assert a.stop() == 0
        delete(fleet.servers, f"{fleet.name}-learned")
        self.refused(a, f"'{fleet.name}-learned', which ends at 0: is it new?", "Move the file")

    def test_a_gap_that_nobody_can_fill(self, fleet: Fleet, tmp_path: Path) -> None:
        a = fleet.add()
        a.correct({"id": 1, "probs": PROBS})
        a.label({"id": 1, "label": "cat"})
        wait("it is learned", lambda: learned(a) == 1)
        a.stop(signal.SIGKILL)
        admin = KafkaAdminClient(bootstrap_servers=fleet.servers)
        admin.delete_records({TopicPartition(f"{fleet.name}-learned", 0): 1})
        admin.close()
        server = Server(tmp_path, **fleet.settings)
        self.refused(server, "retention deleted offsets 0 to 0", "nothing newer is in")


def test_no_broker_at_the_start(tmp_path: Path) -> None:
    server = Server(tmp_path, bootstrap_servers=["127.0.0.1:1"], connect_seconds=8)
    code, said = server.run()
    assert code == 3, said
    assert "127.0.0.1:1" in said


@pytest.mark.parametrize("name", ["create_topics", "client"])
def test_settings_that_need_brokers(tmp_path: Path, name: str) -> None:
    settings = {"create_topics": True} if name == "create_topics" else {"client": {"linger_ms": 3}}
    with pytest.raises(SettingsError, match=f"{name}: needs bootstrap_servers"):
        load(None, {"classes": CLASSES, **settings}, {})
