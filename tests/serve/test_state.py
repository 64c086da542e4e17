"""The state file: what is acknowledged outlives every kill, and nothing counts twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from stream_can import Corrector
from stream_can.serve.database import StateError
from stream_can.serve.store import Store
from tests.programs import PATIENCE, wait
from tests.serve.serving import CLASSES, Server, commits_in, learner_in, played

PROBS = [0.5, 0.3, 0.2]


class User(threading.Thread):
    """Sends predictions and labels as long as it may; a label again until it is acknowledged."""

    def __init__(self, server, number, stop):
        super().__init__(daemon=True)
        self.server, self.number, self.stopping = server, number, stop
        self.sent, self.acknowledged = {}, {}
        self.again = []

    def run(self):
        rng = np.random.default_rng(self.number)
        waiting, i = [], 0
        url = f"http://127.0.0.1:{self.server.port}"
        with httpx.Client(base_url=url, timeout=PATIENCE) as client:
            while not self.stopping.is_set() or waiting:
                id, probs = f"{self.number}-{i}", rng.dirichlet(np.full(3, 0.7)).tolist()
                with contextlib.suppress(httpx.TransportError):
                    answer = client.post("/correct", json={"id": id, "probs": probs})
                    self.sent[id] = answer.json()["probs"]
                    if not self.stopping.is_set():
                        waiting.append({"id": id, "label": CLASSES[int(rng.integers(3))]})
                    i += 1
                if waiting and (len(waiting) > 5 or self.stopping.is_set()):
                    try:
                        label = waiting[0]
                        answer = client.post("/labels", json=label)
                        (status,) = answer.json()["statuses"]
                    except httpx.TransportError:
                        continue
                    self.acknowledged[label["id"]] = status
                    del waiting[0]
                    if rng.random() < 0.2:  # whoever does not trust it sends it again
                        with contextlib.suppress(httpx.TransportError):
                            answer = client.post("/labels", json=label)
                            self.again += answer.json()["statuses"]


def copy_of_running(state, copy):
    """As docs/serve.md says."""
    copy.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(state)) as db:
        db.execute("VACUUM INTO ?", (str(copy),))


def copy_of_killed(state, copy):
    """As docs/serve.md says."""
    for end in ("", "-wal"):
        if (found := Path(f"{state}{end}")).exists():
            shutil.copy(found, f"{copy}{end}")


def labels_in(state):
    (one,) = learner_in(state).live.values()
    return one.corrector.n_labels


@pytest.mark.long
def test_killed_at_random_moments(tmp_path, kills):
    """Predictions and labels of three users; each label is acknowledged and learned once, and each
    answer was made of the log as it lies in the file."""
    stop, server = threading.Event(), Server(tmp_path, half_life=1000.0)
    chance, commits = random.Random(5), {}
    with server:
        users = [User(server, number, stop) for number in range(3)]
        for one in users:
            one.start()
        for _ in range(kills):
            time.sleep(chance.uniform(0.05, 0.7))
            before = sum(len(one.acknowledged) for one in users)
            copy_of_running(server.state, tmp_path / "running.sqlite")
            assert labels_in(tmp_path / "running.sqlite") >= before
            before = sum(len(one.acknowledged) for one in users)
            server.stop(signal.SIGKILL)
            copy_of_killed(server.state, tmp_path / "killed.sqlite")
            # A start leaves out those of labels alone, once they are in the state.
            commits |= commits_in(tmp_path / "killed.sqlite")
            assert labels_in(tmp_path / "killed.sqlite") >= before
            server.start()
        stop.set()
        for one in users:
            one.join(PATIENCE)
            assert not one.is_alive()
        server.stop(signal.SIGKILL)
        commits |= commits_in(server.state)
        found = played(commits, Corrector(CLASSES, half_life=1000.0))
        acknowledged = {id: it for one in users for id, it in one.acknowledged.items()}
        assert len(acknowledged) > 6 * kills
        assert found.corrector.n_labels == len(acknowledged)
        assert found.labels.total() + found.alone == len(acknowledged)
        assert set(found.labels.values()) == {1}
        answers = {id: row for one in users for id, row in one.sent.items()}
        forgotten = answers.keys() - found.sent.keys()
        assert len(forgotten) <= 3 * kills, "those of the last moments alone"
        assert {id: found.sent[id] for id in answers.keys() - forgotten} == {
            id: row for id, row in answers.items() if id not in forgotten
        }
        # "repeated" is a label whose first answer was lost with the server.
        for id, status in acknowledged.items():
            assert status in (
                {"learned", "repeated"} if found.labels[id] else {"unknown", "repeated"}
            )
        assert found.alone < len(acknowledged) / 10
        assert {status for one in users for status in one.again} == {"repeated"}
        assert learner_in(server.state).live[None, None].corrector.to_bytes() == (
            found.corrector.to_bytes()
        )
        server.start()
        made = found.corrector.process_one(PROBS).tolist()
        assert server.correct({"probs": PROBS})["probs"] == made


def test_a_prediction_that_has_to_last(tmp_path):
    """With durable = "predictions" none that was answered is forgotten."""
    with Server(tmp_path, durable="predictions", commit_interval_ms=1) as server:
        for i in range(20):
            server.correct({"id": i, "probs": PROBS})
            if i % 4 == 3:
                server.stop(signal.SIGKILL)
                server.start()
        assert server.label(*({"id": i, "label": "cat"} for i in range(20))) == ["learned"] * 20


def test_a_restart_in_order_leaves_one_file(tmp_path):
    with Server(tmp_path) as server:
        for i in range(50):
            server.correct({"id": i, "probs": PROBS})
            server.label({"id": i, "label": "dog"})
        sent = server.correct({"id": "x", "probs": PROBS})["probs"]
        assert server.stop() == 0
        assert not Path(f"{server.state}-wal").exists()
        with contextlib.closing(sqlite3.connect(server.state)) as db, db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        server.start()
        assert server.correct({"id": "x", "probs": PROBS})["probs"] == pytest.approx(sent, abs=1e-3)
        assert server.label({"id": "x", "label": "dog"}, {"id": 3, "label": "dog"}) == [
            "learned", "repeated",
        ]  # fmt: skip


def test_a_file_that_cannot_be_used(tmp_path):
    """Exit code 3 and words that name the file, the trouble and the way out; nothing is changed."""
    server = Server(tmp_path)
    with server:
        server.correct({"id": 1, "probs": PROBS})
        server.label({"id": 1, "label": "dog"})
        other = Server(tmp_path)
        code, said = other.run()
        assert code == 3
        assert "another process has it" in said
        server.config.write_text(
            server.config.read_text().replace(str(other.port), str(server.port))
        )
    good = server.state.read_bytes()

    def refused(why, data=good):
        server.state.write_bytes(data)
        code, said = server.run()
        assert code == 3, said
        assert why in said
        assert "state.sqlite" in said
        assert "Traceback" not in said
        assert server.state.read_bytes() == data

    torn = bytearray(good)
    torn[4096:8192] = random.Random(0).randbytes(4096)
    refused("damaged", bytes(torn))
    refused("damaged", good[: len(good) // 2])
    refused("damaged", b"not a database at all, " * 100)
    server.state.unlink()
    with contextlib.closing(sqlite3.connect(server.state)) as db, db:
        db.execute("CREATE TABLE mine (x)")
    refused("an SQLite file of something else", server.state.read_bytes())
    server.state.write_bytes(good)
    with contextlib.closing(sqlite3.connect(server.state)) as db, db:
        db.execute("UPDATE about SET value = 3 WHERE name = 'format'")
    refused("of format 3, written by stream_can", server.state.read_bytes())
    server.config.write_text(server.config.read_text().replace('"eel"', '"ant"'))
    refused("of other settings")
    server.config.write_text(server.config.read_text().replace('"ant"', '"eel"'))
    server.config.write_text(server.config.read_text() + 'label = "truth"\n')
    refused("label is 'label' in the file and 'truth' here")


def test_a_part_of_what_a_kill_leaves_is_refused(tmp_path):
    """The file and its -wal are one state: neither alone, nor with that of another, begins."""
    with Server(tmp_path) as server:
        server.correct({"id": 1, "probs": PROBS})
        server.label({"id": 1, "label": "dog"})
        server.stop(signal.SIGKILL)
    killed = tmp_path / "killed.sqlite"
    copy_of_killed(server.state, killed)
    wal = Path(f"{server.state}-wal")

    def refused(why):
        code, said = server.run()
        assert (code, why in said) == (3, True), said

    wal.rename(tmp_path / "wal")
    refused("its server was killed, or runs, and state.sqlite-wal with what it learned last")
    server.state.unlink()
    shutil.copy(tmp_path / "wal", wal)
    refused("missing, and state.sqlite-wal is there")
    copy_of_killed(killed, server.state)
    assert labels_in(server.state) == 1
    assert not wal.exists(), "it was closed in order"
    assert labels_in(server.state) == 1
    shutil.copy(tmp_path / "wal", wal)
    refused("state.sqlite-wal is of another file")
    wal.unlink()
    shutil.copy(killed, server.state)
    wal.touch()  # as the message says
    Store(server.state).close()


def test_a_file_that_vanishes_is_missed(tmp_path):
    """Labels are refused and not written where no next start would find them."""
    with Server(tmp_path) as server:
        server.correct(*({"id": i, "probs": PROBS} for i in range(3)))
        assert server.label({"id": 0, "label": "dog"}) == ["learned"]
        away = server.state.rename(tmp_path / "away")
        status, said = server.post("/labels", '{"id": 1, "label": "dog"}')
        assert status == 503
        assert "was moved away or deleted while its server runs; put it back" in said["error"]
        away.rename(server.state)
        wait("it is back", lambda: server.client.get("/readyz").status_code == 200)
        assert server.label({"id": 1, "label": "dog"}) in (["learned"], ["repeated"])
        # Its path may end in what is no folder, or go round; what it holds is written at its end.
        for make, said in (
            (lambda path: path.write_text(""), "Not a directory"),
            (lambda path: path.symlink_to(path), "symbolic links"),
        ):
            folder, aside = server.state.parent, server.state.parent.with_name("aside")
            folder.rename(aside)
            make(folder)
            status, found = server.post("/labels", '{"id": 2, "label": "dog"}')
            folder.unlink()
            aside.rename(folder)
            assert status == 503
            assert said in found["error"]
            wait("it is back", lambda: server.client.get("/readyz").status_code == 200)
        wal = server.state.with_name(server.state.name + "-wal")
        wal.unlink()
        status, said = server.post("/labels", '{"id": 2, "label": "dog"}')
        assert status == 503
        assert "state.sqlite-wal was moved away or deleted" in said["error"]
        server.stop()
    assert labels_in(server.state) >= 2


def test_a_changed_setting_is_in_force(tmp_path):
    with Server(tmp_path) as server:
        server.correct({"id": 1, "probs": PROBS})
        server.label({"id": 1, "label": "dog"})
        server.stop()
        server.config.write_text(server.config.read_text() + "threshold = 0.5\n")
        server.start()
        assert server.label({"id": 1, "label": "dog"}) == ["repeated"]
        server.stop()
    (one,) = learner_in(server.state).live.values()
    corrector = one.corrector
    assert corrector.settings["threshold"] == 0.5
    assert corrector.n_labels == 1


def test_a_folder_or_file_that_cannot_be_written(tmp_path):
    server = Server(tmp_path, state="nowhere/state.sqlite")
    code, said = server.run()
    assert code == 3
    assert "nowhere does not exist" in said
    with tempfile.TemporaryDirectory() as name:  # which others than us may look into
        folder = Path(name)
        folder.chmod(0o755)
        Store(folder / "state").close()
        (folder / "state").chmod(0o444)
        with pytest.raises(StateError, match="state: Permission denied"), as_nobody():
            Store(folder / "state")
        folder.chmod(0o700)
        with pytest.raises(StateError, match="state: Permission denied"), as_nobody():
            Store(folder / "state")


@contextlib.contextmanager
def as_nobody():
    """Without the rights of root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("most", [100_000, 2000])
def test_a_full_disk(tmp_path, most):
    """Predictions go on, labels are refused until there is room, then those of before count too."""
    limit = 3 << 20
    code = (
        "import resource, signal, sys; from stream_can.cli.main import main;"
        " from stream_can.serve import commits;"
        f" commits.MOST_UNWRITTEN, commits.ANEW_SECONDS = {most}, 1.0;"
        " signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f" resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY));"
        " sys.exit(main(['serve', 'app.toml']))"
    )
    server = Server(tmp_path, recent_mb=64)
    log = server.log.open("ab")
    server.process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stderr=log, stdout=log
    )
    log.close()
    with contextlib.ExitStack() as stack:
        stack.callback(server.client.close)
        stack.callback(server.process.kill)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                server.client.get("/livez")
                break
            time.sleep(0.05)
        server.correct({"id": "first", "probs": PROBS})
        assert server.label({"id": "first", "label": "dog"}) == ["learned"]
        n = 0
        while server.client.get("/readyz").status_code == 200:
            server.correct(*({"id": f"{n}-{i}", "probs": PROBS} for i in range(500)))
            n += 1
            assert n < 200, "the disk is never full"
        assert "records wait: state state.sqlite" in server.client.get("/readyz").text
        (problem, *_) = server.client.get("/status.json").json()["problems"]
        assert problem["what"].startswith("Nothing can be written, and labels are refused: state")
        assert "Free disk space for the state file" in problem["do"]
        answer = server.client.post("/labels", json={"id": "0-1", "label": "dog"})
        assert answer.status_code == 503
        assert "state.sqlite" in answer.json()["error"]
        assert "send it again" in answer.json()["error"]
        assert answer.headers["retry-after"] == "1"
        for k in range(6):  # with more than so many the file is rewritten
            server.correct(*({"id": f"more {k} {i}", "probs": PROBS} for i in range(500)))
        server.correct({"id": "while", "probs": PROBS})
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        wait("there is room", lambda: server.client.get("/readyz").status_code == 200)
        assert server.label({"id": "0-1", "label": "dog"}, {"id": "while", "label": "cat"}) == [
            "learned", "learned",
        ]  # fmt: skip
        server.stop(signal.SIGKILL)
        server.start()
        assert server.label(
            {"id": "first", "label": "dog"}, {"id": f"{n - 1}-7", "label": "cat"},
            {"id": "while", "label": "cat"},
        ) == ["repeated", "learned", "repeated"]  # fmt: skip
        server.stop()
        assert (1 in commits_in(server.state)) == (most > 3000)


def test_a_fault_of_its_own_ends_it(tmp_path):
    """With its traceback and exit code 1, and not with requests that wait for ever."""
    code = (
        "import sys; from stream_can.serve import store; from stream_can.cli.main import main\n"
        "store.Store.write = lambda self, events, notes, **options: 1 / 0\n"
        "sys.exit(main(['serve', 'app.toml']))"
    )
    server = Server(tmp_path)
    with server:
        server.correct({"id": 1, "probs": PROBS})
        assert server.stop() == 0
        with server.log.open("ab") as log:
            server.process = subprocess.Popen(
                [sys.executable, "-c", code], cwd=tmp_path, stderr=log, stdout=log
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                answer = server.client.post("/labels", json={"id": 1, "label": "cat"})
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline
        assert answer.status_code in (500, 503)
        assert server.process.wait(PATIENCE) == 1
        assert "ZeroDivisionError" in server.log.read_text()
        server.start()
        assert server.label({"id": 1, "label": "cat"}) == ["learned"]


def test_stopped_in_the_middle_of_requests(tmp_path):
    """What is open is answered, what is learned is kept, and it ends with 0."""
    with Server(tmp_path, commit_interval_ms=500) as server:
        server.correct(*({"id": i, "probs": PROBS} for i in range(8)))
        held = []
        for i in range(8):
            body = b'{"id": %d, "label": "cat"}' % i
            one = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
            one.sendall(
                b"POST /labels HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            assert one.recv(100).startswith(b"HTTP/1.1 100"), "it is open"
            held.append((one, body))
        for one, body in held:
            one.sendall(body)
        assert server.stop() == 0
        for one, _ in held:
            with one, one.makefile("rb") as answer:
                said = answer.read()
            assert said.startswith(b"HTTP/1.1 200"), said
            assert json.loads(said.partition(b"\r\n\r\n")[2])["learned"] == 1
        server.start()
        again = server.label(*({"id": i, "label": "cat"} for i in range(8)))
        assert again == ["repeated"] * 8


def test_starts_from_what_replay_learned(tmp_path):
    corrector = Corrector(CLASSES)
    rng = np.random.default_rng(0)
    for row in rng.dirichlet(np.ones(3), 200):
        corrector.learn_one(row, "eel")
    (tmp_path / "start.bin").write_bytes(corrector.to_bytes())
    server = Server(tmp_path, classes_from_file="start.bin")
    server.config.write_text(
        server.config.read_text().replace('classes = ["cat", "dog", "eel"]', "")
    )
    with server:
        assert server.client.get("/status.json").json()["learned"][0]["labels"] == 200


def test_a_state_that_is_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "state.sqlite")
    code, said = Server(tmp_path).run()
    assert code == 3
    assert "a pipe or a device, and no file; name another" in said
