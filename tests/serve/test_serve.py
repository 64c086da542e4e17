"""What a server answers: messages in all forms, labels by id, pages, errors."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import sys

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.cli.main import main
from stream_can.serve.settings import load
from tests.programs import wait
from tests.serve.serving import CLASSES, Server, commits_in, learner_in, played

PROBS = [0.5, 0.3, 0.2]


def test_messages_come_back_as_they_came(tmp_path):
    with Server(tmp_path) as server:
        one = server.correct({"id": 7, "probs": PROBS, "text": "\N{SNOWMAN}"})
        assert one["probs_raw"] == PROBS
        assert one["id"] == 7
        assert one["text"] == "\N{SNOWMAN}"
        assert sum(one["probs"]) == pytest.approx(1)
        several = server.correct(
            {"probs": PROBS}, {"probs": dict(zip(CLASSES, PROBS, strict=True))}
        )
        assert several[0]["probs"] == pytest.approx([*several[1]["probs"].values()], abs=1e-3)
        scored = [{"label": name, "score": p} for name, p in zip(CLASSES, PROBS, strict=True)]
        assert [x["label"] for x in server.correct({"probs": scored})["probs"]] == CLASSES
        lines = b'{"probs": [0.5, 0.3, 0.2]}\n\n{"probs": [0.2, 0.3, 0.5]}\r\n'
        answer = server.client.post("/correct", content=lines)
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert [len(json.loads(line)["probs"]) for line in answer.text.splitlines()] == [3, 3]
        pretty = json.dumps({"probs": PROBS}, indent=1)
        assert server.post("/correct", pretty)[0] == 200
        alone = server.client.post(
            "/correct",
            content=b'{"probs": [1, 0, 0]}',
            headers={"content-type": "application/jsonl"},
        )
        assert alone.text.endswith("}\n")


def test_labels_are_learned_once_however_often_they_are_sent(tmp_path):
    with Server(tmp_path) as server:
        server.correct({"id": "a", "probs": PROBS}, {"id": 2, "probs": PROBS})
        assert server.label({"id": "a", "label": "dog"}) == ["learned"]
        again = [{"id": "a", "label": "dog"}, {"id": 2, "label": "eel"}, {"id": 2, "label": "eel"}]
        assert server.label(*again) == ["repeated", "learned", "repeated"]
        assert server.label({"id": "never", "label": "cat"}) == ["unknown"]
        assert server.label({"id": "never", "label": "cat"}) == ["repeated"]
        brings = {"id": "later", "label": "cat", "probs_raw": PROBS}
        assert server.label(brings) == ["learned"]
        server.correct({"id": "a", "probs": PROBS})  # another one of that id
        assert server.label({"id": "a", "label": "cat"}) == ["learned"]
        answer = server.client.post("/correct", json={"probs": PROBS})
        assert answer.headers["stream-can-learned"] == "5"
        status = server.client.get("/status.json").json()
        assert status["learned"][0]["labels"] == 5
        assert server.stop() == 0
        assert learner_in(server.state).live[None, None].corrector.n_labels == 5
        server.start()
        for _ in range(2):
            answer = server.client.post("/correct", json={"probs": PROBS})
            assert answer.headers["stream-can-learned"] == "5"
        assert server.label({"id": "a", "label": "dog"}, {"id": "never", "label": "cat"}) == [
            "repeated", "repeated",
        ]  # fmt: skip
        status = server.client.get("/status.json").json()
        assert status["learned"][0]["labels"] == 5
        assert status["changed_labels"] == 1  # "a" was said to be a cat before


def test_a_bad_message_takes_nothing(tmp_path):
    """Each with its status, and words that name the field; what is beside it is not taken."""
    with Server(tmp_path) as server:
        server.correct({"id": 1, "probs": PROBS})
        good, row = {"id": 1, "label": "cat"}, {"id": 2, "probs": PROBS}
        long, too_long = {"id": "x" * 1025}, "id: 1,025 bytes, expected at most 1,024"
        for path, body, status, why in [
            ("/correct", "", 400, "no message"),
            ("/correct", "[]", 400, "no message"),
            ("/correct", "[{}", 400, "not JSON"),
            ("/correct", "nonsense", 422, "not a JSON object"),
            ("/correct", "7", 422, "not a JSON object"),
            ("/correct", "[" * 100_000, 400, "not JSON"),
            ("/correct", '{"id": 1}', 422, "no field 'probs'"),
            ("/correct", '{"probs": [0.5, 0.5]}', 422, "probs"),
            ("/correct", json.dumps([row, row | long]), 422, f"message 2: {too_long}"),
            ("/correct", json.dumps([row | long, 7]), 422, f"message 1: {too_long}; message 2: n"),
            ("/labels", json.dumps(good | long), 422, too_long),
            ("/correct", '{"probs": [NaN, 0.5, 0.5]}', 422, "(byte 11)"),
            ("/correct", '{"probs": [1e999, 0, 0]}', 422, "probs"),
            ("/correct", '{"probs": [-1, 1, 1]}', 422, "probs"),
            ("/correct", '{"probs": {"cow": 1}}', 422, "cow"),
            ("/correct", '[{"probs": [1, 0, 0]}, {"probs": 1}]', 422, "message 2"),
            ("/correct", b'{"probs": [1, 0, 0], "text": "\xff"}', 422, "JSON"),
            ("/labels", "{}", 422, "no field 'id'"),
            ("/labels", json.dumps({"id": 1, "label": "cow"}), 422, "none of the 3 classes"),
            ("/labels", json.dumps([good, {"id": 5, "label": None}]), 422, "message 2: label"),
            ("/labels", json.dumps([good, {"label": "cat"}]), 422, "message 2: no field 'id'"),
        ]:
            found, said = server.post(path, body)
            assert found == status, (body, said)
            assert why in said["error"], (body, said)
        for path, one in (("/correct", {"probs": {"x" * 5000: 1}}), ("/labels", {})):
            found, said = server.post(path, json.dumps([one] * 11))
            assert found == 422
            assert said["error"].endswith("; and 1 more")
            assert said["error"].count("message ") == 10
            assert len(said["error"]) < 11_000
        assert server.label(good) == ["learned"]
        status = server.client.get("/status.json").json()
        assert status["partitions"][0]["records"] - status["partitions"][0]["dead_letters"] <= 1
        assert {one["topic"] for one in status["dead_letters"]} == {"predictions", "labels"}


def test_pages_and_probes(tmp_path):
    with Server(tmp_path) as server:
        server.correct({"id": 1, "probs": PROBS})
        server.label({"id": 1, "label": "dog"})
        client = server.client
        assert "stream_can_labels_total" in client.get("/metrics").text
        page = client.get("/")
        assert page.headers["content-type"].startswith("text/html")
        assert "script-src 'sha256-" in page.headers["content-security-policy"]
        for path in ("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"):
            assert client.get(path).status_code == 200
        assert client.head("/livez").content == b""
        assert client.get("/correct").status_code == 405
        assert client.get("/correct").headers["allow"] == "POST"
        assert client.post("/metrics").status_code == 405
        assert client.get("/nowhere").json()["error"].startswith("there is no '/nowhere'")


def test_a_browser_of_another_origin_is_sent_away(tmp_path):
    with Server(tmp_path) as server:
        body = json.dumps({"id": 1, "label": "cat"})
        assert server.post("/labels", body, origin="https://evil.example")[0] == 403
        assert server.post("/labels", body, host="evil.example")[0] == 403
        host = f"localhost:{server.port}"
        assert server.post("/labels", body, origin=f"http://{host}", host=host)[0] == 200


def test_a_token(tmp_path):
    token = "a-secret-of-many-letters"
    (tmp_path / "token").write_text(f"{token}\n")
    server = Server(tmp_path, http_host="0.0.0.0", token_from_file="token")
    server.settings["log_level"] = "DEBUG"
    server.config.write_text(server.config.read_text().replace('"token"', f'"{tmp_path}/token"'))
    with server:
        body = json.dumps({"probs": PROBS})
        code, said = server.post("/correct", body)
        assert code == 401
        assert "Authorization: Bearer TOKEN" in said["error"]
        assert server.post("/correct", body, authorization="Bearer another")[0] == 401
        assert server.post("/correct", body, authorization="Basic !!!")[0] == 401
        assert server.post("/correct", body, authorization=f"Bearer {token}")[0] == 200
        assert server.client.get("/", auth=("anybody", token)).status_code == 200
        assert server.client.get("/status.json").status_code == 401
        assert server.client.get("/readyz").status_code == 200
        assert server.post("/correct", body, authorization=f"Bearer {token}", host="a.b")[0] == 200
    assert token not in server.log.read_text()
    server = Server(tmp_path, http_host="0.0.0.0")
    code, said = server.run()
    assert code == 2
    assert "set a token" in said


def test_settings_that_are_wrong(tmp_path, monkeypatch, capsys):
    """In this process: each of its own would import all that a server needs."""
    monkeypatch.chdir(tmp_path)
    for changed, why in [
        ({"classes": None}, "classes"),
        ({"inputs": "x"}, "unknown setting 'inputs'"),
        ({"input": "x"}, "unknown setting 'input'"),
        ({"output": "x"}, "unknown setting 'output'"),
        ({"id": "header:id"}, "id: 'header:id'"),
        ({"token": "short"}, "token: expected at least 16"),
        ({"label_port": 1}, "label_port: needs ask"),
        ({"threshold": 2.0}, "threshold"),
        ({"durable": "all"}, "durable"),
    ]:
        server = Server(tmp_path, **changed)
        server.config.write_text(server.config.read_text().replace("classes = null\n", ""))
        server.client.close()
        with pytest.raises(SystemExit) as ended:
            sys.exit(main(["serve", str(server.config)]))
        assert ended.value.code == 2
        assert why in capsys.readouterr().err


def test_what_is_sent_is_what_the_file_makes(tmp_path):
    """Every answer, bit by bit, whatever is learned meanwhile."""
    rng, sent, learned = np.random.default_rng(0), {}, []
    with Server(tmp_path, threshold=0.99) as server:
        for i in range(300):
            probs = rng.dirichlet(np.full(3, 0.7)).tolist()
            answer = server.client.post("/correct", json={"id": i, "probs": probs})
            sent[f"{i}"] = answer.json()["probs"]
            learned.append(int(answer.headers["stream-can-learned"]))
            if i >= 20 and i % 2:
                server.label({"id": i - 20, "label": CLASSES[int(rng.integers(3))]})
        assert server.stop(signal.SIGKILL) < 0
        found = played(commits_in(server.state), Corrector(CLASSES, threshold=0.99))
        known = {id: row for id, row in sent.items() if id in found.sent}
        assert len(known) > 290
        assert {id: found.sent[id] for id in known} == known
        assert learned == [max(0, (i - 20) // 2) for i in range(300)]
        assert found.corrector.n_labels == found.labels.total() == 140


def test_as_good_as_a_corrector_in_process(tmp_path):
    """With what is learned from each label before the next row, the same accuracy and log loss."""
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.full(3, 0.6), 400)
    y = np.array([rng.choice(3, p=(p * [1, 1, 6]) / (p * [1, 1, 6]).sum()) for p in P])
    here, there = [], []
    corrector = Corrector(CLASSES)
    with Server(tmp_path, commit_interval_ms=1) as server:
        for i, (p, k) in enumerate(zip(P, y, strict=True)):
            there.append(server.correct({"id": i, "probs": p.tolist()})["probs"])
            server.label({"id": i, "label": CLASSES[k]})
            row, receipt = corrector.process_one(p, receipt=True)
            here.append(row)
            corrector.learn_one(p, CLASSES[k], receipt=receipt)
    n = np.arange(400)
    losses = [-np.log(np.array(rows)[n, y]).mean() for rows in (P, here, there)]
    assert losses[2] < losses[0] - 0.05
    assert losses[2] == pytest.approx(losses[1], abs=0.01)


def test_columns_models_and_requests(tmp_path):
    """Values of columns, lanes and label requests, across a restart."""
    models = {"fraud": {"classes": ["yes", "no"]}}
    settings = {"model": "model", "version": "v", "segments": ["tenant"], "ask": 1.0}
    with Server(tmp_path, models=models, **settings) as server:

        def fraud(i, v):
            return {"id": i, "model": "fraud", "v": v, "tenant": "t", "probs": [0.6, 0.4]}

        animals = {"model": "animals", "v": "1", "probs": PROBS}
        for i in range(5):
            server.correct(fraud(i, "1"), fraud(i, "2"), {"id": f"x{i}", **animals})
        assert server.label({"id": 0, "label": "no"}) == ["learned"]  # by both versions
        assert server.label({"id": 1, "model": "fraud", "v": "1", "label": "no"}) == ["learned"]
        assert server.label({"id": 1, "label": "no"}) == ["learned"]  # by the other one alone
        assert server.label({"id": 1, "label": "no"}) == ["repeated"]
        assert server.label({"id": "x1", "label": "eel"}) == ["learned"]
        code, said = server.post("/labels", '{"id": "x2", "label": "no"}')
        assert code == 422
        assert "none of the 3 classes" in said["error"]
        for stop in (signal.SIGKILL, signal.SIGTERM):
            status = server.client.get("/status.json").json()
            learned = {one["lane"]: one["labels"] for one in status["learned"]}
            assert learned == {"fraud 1": 2, "fraud 2": 2, "animals 1": 1}
            assert status["open_requests"] == 15 - 5
            server.stop(stop)
            server.start()
        assert server.label({"id": 1, "label": "no"}, {"id": 4, "label": "no"}) == [
            "repeated", "learned",
        ]  # fmt: skip


def test_a_signal_as_soon_as_it_can_be_reached(tmp_path):
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert Server(folder).start().stop() == 0


def test_one_connection_many_requests_at_once(tmp_path):
    """Pipelined as HTTP allows, and answered in their order."""
    with Server(tmp_path) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.connect()
        bodies = [b'{"id": %d, "probs": [1, 0, 0]}' % i for i in range(50)]
        head = b"POST /correct HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
        connection.sock.sendall(b"".join(head % (len(body), body) for body in bodies))
        data = b""
        while data.count(b'"probs_raw"') < 50:
            data += (came := connection.sock.recv(65536))
            assert came, data
        ids = [int(part.split(b",")[0]) for part in data.split(b'"id":')[1:]]
        assert ids == list(range(50))
        connection.close()


def test_the_default_state_lies_beside_the_settings(tmp_path):
    """Where it was started from has no say: it would start over there, without a word."""
    path = tmp_path / "app.toml"
    path.write_text('classes = ["a", "b"]\n')
    assert load(path, {}, {}).state == str(tmp_path / "stream_can.sqlite")
    assert load(path, {"state": "own"}, {}).state == "own"
    assert load(None, {"classes": "a,b"}, {}).state == "stream_can.sqlite"


def test_a_client_that_offers_http_2_is_answered(tmp_path):
    """As Java's own does, and curl --http2: before, the request had no body."""
    names = {"Connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c"}
    offer = names | {"HTTP2-Settings": "AAMAAABk"}
    asked = {"id": "1", "probs": [0.5, 0.3, 0.2], "note": "\r\nUpgrade: h2c"}
    with Server(tmp_path) as server:
        answer = server.client.post("/correct", json=asked, headers=offer)
        assert answer.status_code == 200, answer.text
        assert answer.json()["note"] == asked["note"]
        body = b'{"probs":[1,0,0],"note":"Upgrade: x"}'
        head = b"POST /correct HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % len(body)
        with socket.create_connection((server.host, server.port)) as raw:
            raw.sendall(head + b"Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n" + body)
            said = raw.recv(1 << 16)
            while b"Upgrade: x" not in said and (more := raw.recv(1 << 16)):
                said += more
        assert said.startswith(b"HTTP/1.1 200"), said


def test_predictions_that_no_label_can_find_are_counted(tmp_path):
    with Server(tmp_path) as server:
        row = {"probs": [0.5, 0.25, 0.25]}
        server.correct(row, row, row | {"id": 1})
        server.correct(row)
        hour = lambda: server.client.get("/status.json").json()["hour"]  # noqa: E731
        wait("they are counted", lambda: hour()["records"] == 4)
        assert hour()["without_id"] == 3
