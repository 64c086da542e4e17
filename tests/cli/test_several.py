"""``stream-can replay --rows multilabel``: what it prints, its page, its next command."""

import json
import shlex

import numpy as np
import pytest

from stream_can.multilabel import MultiLabelCorrector
from stream_can.recording.several import MultiLabelRecording
from stream_can.replay import replay
from stream_can.report.page import NoLabels, report
from tests.cli.command import stream_can
from tests.pages import run_sh
from tests.report.pages import Page

pytestmark = pytest.mark.fast

NAMES = ["invoice", "a<b>, c", "spam"]
SEVERAL = ("--rows", "multilabel")


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    logits = rng.normal(-1, 1.5, (1000, 3))
    Y = rng.random((1000, 3)) < 1 / (1 + np.exp(-logits))
    return 1 / (1 + np.exp(-3 * logits)), Y


@pytest.fixture
def file(tmp_path, stream):
    """JSON lines as the pipe reads them."""
    lines = [
        {"id": i, "scores": dict(zip(NAMES, p, strict=True)),
         "labels": [name for name, has in zip(NAMES, y, strict=True) if has]}
        for i, (p, y) in enumerate(zip(stream[0].tolist(), stream[1], strict=True))
    ]  # fmt: skip
    file = tmp_path / "a stream.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_text_and_json(file):
    out, _ = stream_can("replay", file, *SEVERAL, "--label-delay", 20)
    assert "1,000 rows, 1,000 with a known label, 3 labels; labels 20 rows late" in out
    assert "Use it: the probabilities are closer to the truth" in out
    assert "before, from its best threshold" in out
    out, _ = stream_can("replay", file, *SEVERAL, "--label-delay", 20, "--json")
    found = json.loads(out)
    assert found["labels"] == NAMES
    assert found["learned"] == 980
    assert found["corrected"]["log_loss"] < found["raw"]["log_loss"]
    assert found["verdict"].startswith("Use it: ")
    assert found["deploy"]["pipe"].startswith("stream-can pipe --rows multilabel")


@pytest.mark.parametrize("state", [False, True])
def test_the_next_command_goes_on(file, tmp_path, state):
    options = ["--train-counts", "300,200,100", "--train-rows", "900", "--half-life", "700"]
    kept = tmp_path / "kept.state"
    more = ["--state", kept] if state else []
    out, _ = stream_can("replay", file, *SEVERAL, *options, "--label-delay", 20, "--json", *more)
    command = json.loads(out)["deploy"]["pipe"]
    answers = run_sh(command, tmp_path).splitlines()
    assert len(answers) == 1000
    first = json.loads(answers[0])
    assert first["scores"].keys() == {*NAMES}
    after = kept if state else tmp_path / "corrector.state"
    said = json.loads(stream_can("inspect", after, "--json")[0])
    assert said["settings"] == {"half_life": 700, "rows": "multilabel"}
    assert said["predictions"] == (2000 if state else 1000)
    assert shlex.split(command)[-2:] == ["<", str(file)]


def test_the_page_is_whole_and_loads_nothing(file, tmp_path):
    page = tmp_path / "page.html"
    stream_can("replay", file, *SEVERAL, "--label-delay", 20, "--report", page)
    text = page.read_text()
    found = Page(text)
    assert not found.loads
    ids = [one for one in found.ids if one is not None]
    assert len(ids) == len({*ids})
    for title in ("Log loss", "Micro F1", "Reliability", "Change by label", "What labels buy"):
        assert title in found.texts["h2"]
    assert "a<b>, c" in found.texts["bdi"]  # as text
    assert found.tags.count("svg") == 6


def test_a_stream_without_labels_has_no_page(tmp_path):
    np.savez(tmp_path / "a.npz", scores=np.full((5, 2), 0.3), labels=np.full((5, 2), -1))
    recording = MultiLabelRecording(tmp_path / "a.npz")
    result = replay(recording, MultiLabelCorrector(2), label_delay=1)
    with pytest.raises(NoLabels):
        report(result, "a")
    out, _ = stream_can("replay", tmp_path / "a.npz", *SEVERAL, "--label-delay", 1)
    assert "nothing to compare" in out
    found = json.loads(stream_can("replay", tmp_path / "a.npz", *SEVERAL, "--label-delay", 1,
                                  "--json")[0])  # fmt: skip
    assert found["raw"]["log_loss"] is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--validation", "b.npz"], "--validation: not of"),
        (["--try-segments", "x"], "--try-segments: not of"),
        (["--try-label-noise", "0.1"], "--try-label-noise: not of"),
        (["--normalise", "always"], "--normalise always: not of"),
        (["--sets", "0.9"], "--sets: not of"),
        (["--segments", "x"], "--segments: not of"),
        (["--train-counts", "1,2,3"], "train_counts and train_rows: give both"),
        (["--train-counts", "1,2,3", "--train-rows", "2"], "3 rows with label 'spam'"),
        (["--classes", "a,b,c"], "'invoice' is none of the 3 labels"),
        (["--label-rate", "2"], "label_rate: expected a share"),
    ],
)
def test_refused(file, options, why):
    _, err = stream_can(
        "replay", file, *SEVERAL, "--label-delay", 1, *options, code=1 if "a,b,c" in options else 2
    )
    assert why in err


def test_models_requests_and_output(file, tmp_path):
    lines = [
        json.loads(line) | {"m": "ab"[i % 2]}
        for i, line in enumerate(file.read_text().splitlines())
    ]
    both, out = tmp_path / "both.jsonl", tmp_path / "out.jsonl"
    both.write_text("".join(json.dumps(line) + "\n" for line in lines))
    said, _ = stream_can("replay", both, *SEVERAL, "--label-delay", 9, "--model", "m", "--json")
    assert [(one["value"], one["rows"]) for one in json.loads(said)["segments"]["m"]] == [
        ("a", 500), ("b", 500)
    ]  # fmt: skip
    said, _ = stream_can(
        "replay", file, *SEVERAL, "--label-delay", 9, "--ask", 0.2, "--output", out, "--json"
    )
    found = json.loads(said)
    assert found["asked"]["margin"] == 0
    assert 150 < found["asked"]["random"] < 300  # more at first
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 1000
    assert len(rows[0]["scores"]) == 3
    assert all(set(row["labels"]) <= {*NAMES} for row in rows)


def test_a_delay_is_asked_for(file):
    _, err = stream_can("replay", file, *SEVERAL, code=2)
    assert "say when labels arrive: --label-delay ROWS" in err
    _, err = stream_can("replay", file, "--train-rows", 5, "--label-delay", 1, code=2)
    assert "--train-rows: not of dense rows" in err
