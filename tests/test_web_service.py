"""The web service of docs/web-service.md: its page as it stands, and what it answers and keeps."""

import contextlib
import json
import runpy
import urllib.error
import urllib.request

import pytest

from stream_can import Corrector, UnknownClass
from tests.kafka.broker.broker import free_ports
from tests.pages import ROOT, blocks, run_sh, staying
from tests.programs import program, wait

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


def by_hand(*labels):
    """A corrector with a prediction and these labels of it."""
    corrector = Corrector(["fraud", "fine"])
    _, receipt = corrector.process_one(PROBS, receipt=True)
    for label in labels[:1]:
        corrector.learn_one(PROBS, label, receipt=receipt)
    for label in labels[1:]:  # it teaches the class mix alone
        corrector.learn_one(None, label)
    return corrector


def test_the_page(tmp_path):
    program("curl", install="apt-get install curl")
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
        reason = "label 'frod' is none of the 2 classes: 'fraud', 'fine'"
        assert said.split("\n") == [f'{{"detail":"{reason}"}} 400', " 204", ""]
        assert not (tmp_path / "corrector.state").exists()
    state = tmp_path / "corrector.state"
    assert state.read_bytes() == by_hand("fraud").to_bytes()
    with contextlib.chdir(tmp_path):
        namespace = {}
        for code in (code for language, code in snippets if language == "python"):
            exec(compile(code, str(PAGE), "exec"), namespace)
        assert namespace["worker"].n_labels == 1
    with served(start, port, tmp_path):
        assert post(port, "label", {"id": "request-1", "label": "fraud"}) == (204, "")
    assert state.read_bytes() == by_hand("fraud", "fraud").to_bytes()


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
        before = Corrector(["fraud", "fine"]).to_bytes()
    assert (tmp_path / "corrector.state").read_bytes() == before


def test_the_web_service_keeps_a_prediction_whose_label_is_refused(tmp_path):
    service = runpy.run_path(str(ROOT / "examples/app.py"))["Service"](tmp_path, ["fraud", "fine"])
    service.predict("r1", PROBS)
    before = service.corrector.to_bytes()
    with pytest.raises(UnknownClass, match="'frod' is none of the 2 classes"):
        service.label("r1", "frod")
    assert service.corrector.to_bytes() == before
    service.label("r1", "fraud")
    assert service.corrector.to_bytes() == by_hand("fraud").to_bytes()
    assert not service.database.execute("SELECT * FROM waiting").fetchall()
    service.label("r1", "fraud")
    assert service.corrector.to_bytes() == by_hand("fraud", "fraud").to_bytes()
    service.database.close()
