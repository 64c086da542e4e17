"""Requests and files that mean harm, many of them, under a limit on memory.

Faults that still stand are tests that are expected to fail, each with its number; the mark goes
with the fault.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from stream_can.errors import StreamCANError
from stream_can.serve.local import LocalService
from stream_can.serve.settings import load
from tests.examples import examples
from tests.programs import PATIENCE, wait
from tests.serve.serving import Server
from tests.serve.sockets import GOOD, raw, request

LIMIT = 1 << 30
PROBS = [0.5, 0.3, 0.2]
TENSOR = {"name": "probs", "shape": [1, 3], "datatype": "FP64", "data": PROBS}
REQUESTS = [
    request(GOOD),
    request(b"[" + GOOD + b"," + GOOD.replace(b"1", b"2") + b"]"),
    request(b'{"id": 1, "label": "dog"}', b"/labels"),
    request(json.dumps({"id": "9", "inputs": [TENSOR]}).encode(), b"/v2/models/stream_can/infer"),
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n",
    b"POST /correct HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD),
]
PIECES = [b"\r\n", b"\r\n\r\n", b"\0", b"\xff\xfe", b"0" * 400, b"[" * 400, b'{"a":', b"1e999",
          b"-1", b"%00", b"../", b"Content-Length: 99999999999\r\n", b"Expect: 100-continue\r\n",
          b"NaN", b'"\\ud800"', b"9" * 30, b"Transfer-Encoding: chunked\r\n",
          b"HTTP/9.9"]  # fmt: skip


def mutated(chance):
    """A request of which pieces are others, gone, or twice there."""
    data = bytearray(chance.choice(REQUESTS))
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(data) + 1)
        what = chance.randrange(5)
        if what == 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif what == 1:
            data[at : at + chance.choice([1, 4, 40])] = b""
        elif what == 2:
            data[at:at] = chance.choice(PIECES)
        elif what == 3:
            data[at : at + 4] = chance.choice(PIECES)
        else:
            data[at:at] = data[at : at + chance.choice([4, 40])]
    return bytes(data)


def limited(server):
    """Start it with so little memory that a buffer without a bound would end it."""
    server.start()
    resource.prlimit(server.process.pid, resource.RLIMIT_AS, (LIMIT, LIMIT))
    return server


@pytest.mark.long
def test_mutated_requests(tmp_path, monkeypatch):
    """TESTS_EXAMPLES=50 makes 100,000 of them."""
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    chance, seen = random.Random(11), set()
    server = limited(Server(tmp_path))
    try:
        for i in range(examples(2000)):
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one:
                said = b""
                with contextlib.suppress(OSError):
                    one.sendall(mutated(chance))
                    one.shutdown(socket.SHUT_WR)
                with contextlib.suppress(OSError):
                    while piece := one.recv(65536):
                        said += piece
            seen.add(said[9:12])
            if i % 200 == 0:
                assert raw(server, request(GOOD)).startswith(b"HTTP/1.1 200"), i
        assert {b"200", b"400", b"404", b"422"} <= seen
        assert b"500" not in seen
        assert "Traceback" not in server.log.read_text()
        assert server.stop() == 0
    finally:
        server.client.close()
        server.process.kill()


DAMAGED = """
import random, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from tests.serve.test_attacks import damaged
damaged(Path(sys.argv[1]), int(sys.argv[2]))
"""


def damaged(folder, n):
    """Open so many damaged copies of a file: each is taken, or refused by its name."""
    settings = load(folder / "app.toml", {}, {})
    state = Path(settings.state)
    good = state.read_bytes()
    named = refused = 0
    for i in range(n):
        chance = random.Random(i)
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 4, 64])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.1:
            del data[chance.randrange(len(data)) :]
        state.write_bytes(data)
        try:
            LocalService(settings).close()
        except StreamCANError as error:
            named += str(state) in str(error)
            refused += 1
        except BaseException as error:
            error.add_note(f"damage {i}")
            raise
        for end in ("-wal", "-shm", "-journal"):
            Path(f"{state}{end}").unlink(missing_ok=True)
    assert refused > n / 10
    assert named == refused


@pytest.mark.long
def test_damaged_files(tmp_path):
    """TESTS_EXAMPLES=50 makes 10,000 of them."""
    with Server(tmp_path, segments=["shop"], model="model", ask=0.5, sets=0.9) as server:
        for i in range(30):
            one = {"id": i, "probs": PROBS, "shop": f"s{i % 3}", "model": f"m{i % 2}"}
            server.correct(one)
        server.label(*({"id": i, "label": "cat"} for i in range(10)))
        server.stop()
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED, tmp_path, str(examples(200))],
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_lane_whose_name_is_damaged_is_refused_by_the_file(tmp_path):
    """Review fault 14: with 3 and the file, and not as wrong settings."""
    with Server(tmp_path, model="model") as server:
        server.correct({"id": 1, "probs": PROBS, "model": "forest"})
        server.stop()
    with contextlib.closing(sqlite3.connect(server.state)) as db, db:
        ((key, found),) = [
            row for row in db.execute("SELECT key, value FROM state") if row[0].startswith(b"lane")
        ]
        assert b"forest" in found
        broken = found.replace(b"forest", b"\xff\xfe\xfd\xfc\xfb\xfa")
        db.execute("UPDATE state SET value = ? WHERE key = ?", (broken, key))
    code, said = server.run()
    assert (code, "state.sqlite" in said) == (3, True), said


def test_ids_beyond_a_kilobyte_are_refused_or_not_kept(tmp_path):
    """Before, one request multiplied its id by its rows: 3 GB for a body of 144 kB."""
    with Server(tmp_path, recent_mb=1) as server:
        answer = server.client.post("/labels", json={"id": "x" * 1025, "label": "cat"})
        assert (answer.status_code, answer.json()) == (
            422, {"error": "id: 1,025 bytes, expected at most 1,024"},
        )  # fmt: skip
        server.correct({"id": "x" * 1025, "probs": PROBS})  # whose label finds nothing
        rows = {"name": "p", "shape": [1000, 3], "datatype": "FP64", "data": [PROBS] * 1000}
        for path, id, says in (
            ("stream_can", "x" * 1001, "id: 1,001 characters, expected at most 1,000"),
            ("m" * 60_000, "a", "model: 60,000 characters, expected at most 200"),
        ):
            url = f"/v2/models/{path}/infer"
            answer = server.client.post(url, json={"id": id, "inputs": [rows]})
            assert answer.status_code == 400, answer.text
            assert says in answer.json()["error"]


def test_a_label_that_taught_nothing_is_not_said_to_have(tmp_path):
    with Server(tmp_path, model="model") as server:
        for model in ("m1", "m2"):
            server.correct({"id": "r", "probs": PROBS, "model": model})
        both = {"id": "r", "label": "cat"}, {"id": "r", "model": "m2", "label": "dog"}
        assert server.label(*both) == ["learned", "repeated"]


def test_a_damaged_wal_is_told_of(tmp_path):
    with Server(tmp_path) as server:
        for i in range(20):
            server.correct({"id": i, "probs": PROBS})
            server.label({"id": i, "label": "cat"})
        server.stop(signal.SIGKILL)
    wal = Path(f"{server.state}-wal")
    data = bytearray(wal.read_bytes())
    data[len(data) // 2] ^= 1
    wal.write_bytes(data)
    try:
        with pytest.raises(AssertionError, match=r"state\.sqlite"):
            server.start()
        assert server.process.wait(PATIENCE) == 3
    finally:
        server.process.kill()
        server.process.wait(PATIENCE)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
def test_an_address_of_six_is_shown_as_one(tmp_path):
    with contextlib.closing(socket.socket(socket.AF_INET6)) as one:
        try:
            one.bind(("::1", 0))
        except OSError:
            pytest.skip("no ::1 here")
    with Server(tmp_path, http_host="::1") as server:
        wait("its address", lambda: f"http://[::1]:{server.port}/" in server.log.read_text())


def test_a_pipe_in_the_place_of_a_file_is_refused(tmp_path):
    """Opening one waits for somebody who writes to it."""
    server = Server(tmp_path, classes_from_file="fifo")
    text = server.config.read_text().splitlines()
    server.config.write_text("\n".join(x for x in text if not x.startswith("classes =")) + "\n")
    os.mkfifo(tmp_path / "fifo")
    code, said = server.run()
    assert (code, "a pipe or a device" in said) == (2, True), said


def test_a_new_file_changes_no_settings(tmp_path):
    with Server(tmp_path, sets=0.9) as server:
        server.correct({"id": 1, "probs": PROBS})
    assert "settings of the corrector change" not in server.log.read_text()
