"""The web service of docs/web-service.md: its page as it stands, and what it answers and keeps."""

import contextlib
import json
import runpy
import sqlite3
import urllib.error
import urllib.request

import numpy as np
import pytest

from stream_can import Corrector, Learner, UnknownClass
from stream_can.snapshot import save
from tests.kafka.broker.broker import free_ports
from tests.pages import ROOT, blocks, run_sh, staying
from tests.programs import wait

pytestmark = pytest.mark.fast

PAGE = ROOT / "docs/web-service.md"
PROBS = [0.45, 0.55]


def post(port, path, message):
    """Status and text of the answer to a message."""
    url, headers = f"http://127.0.0.1:{port}/{path}", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=280) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@contextlib.contextmanager
def served(command, port, folder):
    """The service, until Ctrl-C."""
    log = folder / "log"
    with staying(command.replace("8000", str(port)), folder, log):
        wait("it serves", lambda: "Application startup complete" in log.read_text())
        wait("its port", lambda: "running on" in log.read_text())
        yield


def learned(path):
    """The corrector in the service's database, and what came since it was saved."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        ((data,),) = database.execute("SELECT learner FROM state")
        return Learner.from_bytes(data), database.execute("SELECT * FROM events").fetchall()


def by_hand(*labels):
    """A learner with a prediction and these labels of it."""
    learner = Learner(Corrector(["fraud", "fine"]))
    learner.process("request-1", PROBS)
    for label in labels:
        learner.label("request-1", label)
    return learner


@pytest.mark.needs("curl")
def test_the_page(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (port,) = free_ports(1)
    snippets = list(blocks(PAGE))
    shell = [code for language, code in snippets if language == "sh"]
    start, predict, label = shell
    (shown,) = (json.loads(code) for language, code in snippets if language == "json")
    with served(start, port, tmp_path):
        answer = json.loads(run_sh(predict.replace("8000", str(port)), tmp_path))
        assert answer["probs"] == pytest.approx(shown["probs"], abs=0.01)
        said = run_sh(label.replace("8000", str(port)), tmp_path)
        reason = "label of 'request-1': 'frod' is none of the classes"
        assert said.split("\n") == [
            f'{{"detail":"{reason}"}} 400', '{"outcome":"learned"} 200', ""
        ]  # fmt: skip
    learner, events = learned(tmp_path / "learner.sqlite")
    assert (learner.to_bytes(), events) == (by_hand("fraud").to_bytes(), [])
    save(learner.correctors[None, None], tmp_path / "corrector.state")
    with contextlib.chdir(tmp_path):
        namespace = {}
        for code in (code for language, code in snippets if language == "python"):
            exec(compile(code, str(PAGE), "exec"), namespace)
        assert namespace["worker"].n_labels == 1
    with served(start, port, tmp_path):
        again = post(port, "label", {"id": "request-1", "label": "fraud"})
        assert again == (200, '{"outcome":"repeated"}')


def test_what_is_no_prediction_is_refused_with_the_reason(tmp_path):
    (port,) = free_ports(1)
    command = f"uvicorn --app-dir {ROOT / 'examples'} app:app --port 8000"
    with served(command, port, tmp_path):
        for probs, says in (
            ([0.45, 0.45], "sum to 0.9"),
            ([0.4, 0.3, 0.3], "expected (2,)"),
            ([float("nan"), 1.0], "nan"),
        ):
            status, text = post(port, "predict", {"id": "r", "probs": probs})
            assert (status, says in text) == (400, True), text
        assert post(port, "predict", {"id": "r"})[0] == 422  # FastAPI's own: no such field
    learner, _ = learned(tmp_path / "learner.sqlite")
    assert learner.to_bytes() == Learner(Corrector(["fraud", "fine"])).to_bytes()


def test_a_crash_at_any_moment_loses_nothing_that_was_answered(tmp_path):
    make = runpy.run_path(str(ROOT / "examples/app.py"))["Service"]
    rng, path = np.random.default_rng(0), tmp_path / "learner.sqlite"
    expected, service = Learner(Corrector(["fraud", "fine"])), make(path, ["fraud", "fine"])
    for i in range(1300):  # past the first save
        p = rng.dirichlet([1, 1]).tolist()
        assert service.predict(f"r{i}", p) == expected.process(f"r{i}", p).tolist()
        with pytest.raises(UnknownClass, match="'frod' is none of the classes"):
            service.label(f"r{i}", "frod")
        id, label = f"r{rng.integers(i + 1)}", ["fraud", "fine"][rng.integers(2)]
        assert service.label(id, label) == expected.label(id, label)
        if i % 400 == 77:  # the process is gone; what was committed is there
            service.database.close()
            service = make(path, ["fraud", "fine"])
            assert service.learner.to_bytes() == expected.to_bytes()
    service.close()
    learner, events = learned(path)
    assert (learner.to_bytes(), events) == (expected.to_bytes(), [])
