"""Every buffer of the server has a bound that holds before memory is taken; nobody is let in."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import PATIENCE, wait
from tests.serve.serving import Server
from tests.serve.sockets import GOOD, answer, error, raw, request

LIMIT = 1 << 30
"""Bytes of memory that a server may ask for at all."""
ROW = {"name": "probs", "shape": [1, 3], "datatype": "FP64", "data": [0.5, 0.3, 0.2]}


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")  # else each thread reserves 64 MB
    with Server(tmp_path) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (LIMIT, LIMIT))
        yield server
        assert raw(server, request(GOOD)).startswith(b"HTTP/1.1 200")
        assert "Traceback" not in server.log.read_text()


def infer(server, **tensor):
    body = json.dumps({"inputs": [ROW | tensor]})
    return server.post("/v2/models/stream_can/infer", body)


@pytest.mark.parametrize(
    ("tensor", "why"),
    [
        ({"shape": [12_000_000, 0], "data": []}, "expected [rows, classes]"),
        ({"shape": [0, 3], "data": []}, "expected [rows, classes]"),
        ({"shape": [10_001, 3], "data": [1, 0, 0] * 10_001}, "10,000 rows at most"),
        ({"datatype": "FP32", "data": [1e300, 0, 0]}, "not finite in FP32"),
    ],
)
def test_a_tensor_is_bounded_before_rows_are_made(server, tensor, why):
    before = server.resident
    status, said = infer(server, **tensor)
    assert status in (400, 422)
    assert why in said["error"]
    assert server.resident - before < 50 << 20
    assert "Warning" not in server.log.read_text()


ONES = b"1," * 4_190_000
TENSOR = b'{"inputs": [{"name": "probs", "shape": %s, "datatype": "FP64", "data": [%s]}]}'
IDS = b'{"inputs": [{"name": "ids", "shape": [1], "datatype": "BYTES", "data": [%s]}, %s]}'


@pytest.mark.parametrize(
    ("path", "kind", "body", "status"),
    [
        ("/correct", "json", b"[" + ONES + b"1]", 413),
        ("/labels", "json", b"[" + ONES + b"1]", 413),
        ("/correct", "x-ndjson", b"11\n" * 2_790_000, 413),
        ("/v2/models/stream_can/infer", "json", TENSOR % (b"[1, 3]", ONES + b"1"), 400),
        (
            "/v2/models/stream_can/infer",
            "json",
            TENSOR % (b"[9, 3]", b"[]," * 2_790_000 + b"[]"),
            400,
        ),
        ("/v2/models/stream_can/infer", "json", IDS % (ONES + b"1", json.dumps(ROW).encode()), 400),
    ],
    ids=["messages", "labels", "lines", "numbers", "rows", "ids"],
)
def test_elements_are_counted_before_they_are_made(server, path, kind, body, status):
    """Before, a body of 8 MB took up to 520 MB until it was refused."""
    assert len(body) <= 8 << 20
    before = server.peak()
    said = server.post(path, body, **{"Content-Type": f"application/{kind}"})
    more = server.peak() - before
    print(f"{more >> 20} MB")
    assert said[0] == status
    assert more < 50 << 20


def test_a_head_is_bounded(server):
    before = server.resident
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
    for one in held:
        one.settimeout(PATIENCE)
        one.sendall(b"POST /correct HTTP/1.1\r\nHost: localhost\r\n")
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            one.sendall(b"".join(b"x-%d: %s\r\n" % (i, b"y" * 4000) for i in range(10_000)))
    assert server.resident - before < 50 << 20
    for one in held:
        one.close()
    long = b"x-long: " + b"y" * 70_000
    code, why = error(
        raw(server, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + long + b"\r\n\r\n")
    )
    assert (code, why) == (431, "the head of a request has 65536 bytes at most")
    large = b'{"probs": [0.5, 0.3, 0.2], "x": "%s"}' % (b"x" * 300_000)  # of bodies it says nothing
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one:
        for _ in range(3):
            one.sendall(request(large))
            assert answer(one).startswith(b"HTTP/1.1 200")


@pytest.mark.long
def test_a_body_that_never_begins_is_given_up(server):
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    for one in silent:
        one.settimeout(PATIENCE)
        one.sendall(request(GOOD)[: -len(GOOD)])
    for one in silent:
        code, why = error(answer(one))
        assert (code, why) == (408, "the body took over 10 s")
        one.close()


def test_it_ends_in_order_while_a_body_does_not_come(tmp_path):
    with Server(tmp_path) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one:
            one.sendall(request(GOOD)[: -len(GOOD)])
            assert raw(server, request(GOOD)).startswith(b"HTTP/1.1 200")
            assert server.stop() == 0
        assert "Traceback" not in server.log.read_text()


@pytest.mark.long
def test_answers_that_nobody_reads_are_given_up(server):
    """Of 100 clients with large requests some are sent away at once, and no answer is kept."""
    message = b'{"probs": [0.5, 0.3, 0.2], "x": "%s"}' % (b"x" * 2000)
    body, held = b"[" + b",".join([message] * 3000) + b"]", []
    for _ in range(100):
        one = socket.create_connection(("127.0.0.1", server.port))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(OSError):
            one.sendall(request(body))
        held.append(one)
    wait("others are answered", lambda: raw(server, request(GOOD)).startswith(b"HTTP/1.1 200"))

    def are_closed():
        """By the server: all that it has open has been read."""
        port = f"0100007F:{server.port:04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        open_ = [line for line in lines if line[1] == port and line[3] == "01"]
        return all(line[4].startswith("00000000:") for line in open_)

    wait("no answer waits", are_closed)
    for one in held:
        one.close()


def test_a_name_is_decoded_once(tmp_path):
    with Server(tmp_path, model="model") as server:
        body = json.dumps({"inputs": [ROW | {"shape": [3]}]})
        for path, name in (("50%2541", "50%41"), ("a%2Fb", "a/b"), ("%E2%82%AC", "\u20ac")):
            status, said = server.post(f"/v2/models/{path}/infer", body)
            assert (status, said["model_name"]) == (200, name)


def test_a_header_that_says_who_asks_comes_once(server):
    for name in ("Host", "Origin", "Authorization"):
        head = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n{name}: a\r\n{name}: localhost\r\n\r\n"
        code, why = error(raw(server, head.encode()))
        assert (code, why) == (400, f"header {name.lower()}: expected once")
    assert raw(server, b"GET /livez HTTP/1.1\r\nHost: LOCALHOST\r\n\r\n").startswith(
        b"HTTP/1.1 200"
    )


def test_another_address_of_this_machine_answers(tmp_path):
    with Server(tmp_path, http_host="127.0.0.2") as server:
        assert server.client.get("/livez").status_code == 200


def test_a_path_makes_no_line_of_the_log(tmp_path):
    code = (
        "import sys; from stream_can.serve.app import App; from stream_can.cli.main import main\n"
        "App._answer = lambda *_: 1 / 0\n"
        "sys.exit(main(['serve', 'app.toml']))"
    )
    server = Server(tmp_path)
    with server.log.open("ab") as log:
        server.process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=tmp_path, stderr=log, stdout=log
        )
    try:
        wait("it answers", lambda: b"shows what it does" in server.log.read_bytes())
        said = raw(server, b"GET /x%0aERROR%20all%20is%20lost HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 500")
        assert server.stop(signal.SIGTERM) == 0
    finally:
        server.process.kill()
        server.client.close()
    lines = server.log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("ERROR all")]
    assert any(r"GET '/x\nERROR all is lost'" in line for line in lines)


def test_very_many_classes_are_refused_before_anything_is_read(tmp_path):
    """In the words that name the way out; and a batch of many classes takes bounded memory."""
    names = [f"c{i}" for i in range(200_000)]
    (tmp_path / "classes.json").write_text(json.dumps({"classes": names}))
    server = Server(tmp_path, classes_from_file="classes.json")
    text = server.config.read_text().splitlines()
    server.config.write_text("\n".join(x for x in text if not x.startswith("classes =")) + "\n")
    code, said = server.run()
    assert code == 2
    assert "classes: 200,000 take" in said
    assert "max_mb is 256" in said
    assert "stream_can.sparse.SparseCorrector" in said
    assert not server.state.exists()


@pytest.mark.long
def test_a_batch_of_many_classes_takes_bounded_memory(tmp_path, monkeypatch):
    """1,500 messages of 20,000 classes, the likeliest of each, would be 1.2 GB of numbers."""
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    names = [f"c{i}" for i in range(20_000)]
    with Server(tmp_path, classes=names, recent_mb=1, paths=["raw", "can"]) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (LIMIT, LIMIT))
        one = {"probs": {"c5": 0.6, "c7": 0.4}}
        status, said = server.post("/correct", json.dumps([one] * 1500))
        assert status == 413, said
        assert "with this many classes a request has 167 at most" in said["error"]
        status, said = server.post("/correct", json.dumps([one] * 100))
        assert status == 200, said
        # Labels that carry their rows are such messages, too.
        label = {"id": 1, "label": "c5", "probs_raw": {"c5": 0.5, "c7": 0.5}}
        status, said = server.post("/labels", json.dumps([label] * 3000))
        assert status == 413, said
        assert "with this many classes a request has 167 at most" in said["error"]
        del label["probs_raw"]
        assert server.post("/labels", json.dumps([label] * 3000))[0] == 200
