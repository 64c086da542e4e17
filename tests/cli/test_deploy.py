"""The next commands of a replay run as they stand, with the options that it had."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.cli.deploy import deployment
from stream_can.kafka import load
from tests.cli.command import stream_can
from tests.kafka.broker.broker import free_ports
from tests.pages import run_sh, staying
from tests.programs import text_at, wait

pytestmark = pytest.mark.fast
NAMES = {
    "plain": ["cat", "dog", "eel"],
    "odd": ["a, b", "$'x'", "[c"],
    "numbers": [0, 1, 2],
    "long": [f"class number {i}" for i in range(40)],
}
SETTINGS = {
    "none": {},
    "some": {"half_life": 50.0, "paths": ["raw", "can"], "pseudo_count": 2.5},
    "counts": {"train_counts": [5.0, 6.0, 7.0], "half_life": float("inf")},
    "columns": {"segments": ["carrier"], "segments_mb": 1.0},
}


@pytest.mark.parametrize(
    ("names", "settings", "state"),
    [
        ("plain", "some", None),
        ("plain", "columns", Path("my state")),
        ("odd", "counts", None),
        ("odd", "none", Path("my state")),
        ("numbers", "columns", None),
        ("long", "counts", None),
    ],
)
def test_each_way_begins_with_the_same_corrector(tmp_path, monkeypatch, names, settings, state):
    classes, given = NAMES[names], SETTINGS[settings]
    if names == "long" and "train_counts" in given:
        given = given | {"train_counts": [1.0] * 40}
    monkeypatch.chdir(tmp_path)
    expected = Corrector(classes, **given)
    ways = deployment(classes, given, state=state)
    if kept := state or ("first" in ways and Path("corrector.state")):
        kept.write_bytes(expected.to_bytes())
    assert ("first" in ways) == (names == "long" and state is None)
    p = np.full(len(classes), 1 / len(classes)).tolist()
    lines = [{"id": i, "probs": p, "carrier": "AA"} for i in range(3)]
    lines.append({"id": 1, "label": classes[1]})
    Path("lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    options = shlex.split(ways["run"], comments=True)[2:]
    found = {
        name[2:].replace("-", "_"): value
        for name, value in zip(options[::2], options[1::2], strict=True)
    }
    worker = load(None, found, {})
    by_file = names in ("odd", "numbers") or kept
    assert worker.classes == (None if by_file else classes)
    assert worker.classes_from_file == (str(kept or "corrector.state") if by_file else None)
    for name, value in given.items():
        assert getattr(worker, name) == value

    namespace = {"p": p, "label": classes[1], "record": lines[0]}
    exec(ways["python"], namespace)
    taught = namespace["corrector"]
    assert taught.n_labels == 1
    assert taught.segments == expected.segments
    if kept:
        kept.write_bytes(expected.to_bytes())

    out = [json.loads(line) for line in run_sh(ways["pipe"]).splitlines()]
    assert len(out) == 3
    columns = {"segments": {"carrier": "AA"}} if "segments" in given else {}
    assert out[0]["probs"] == expected.correct_one(p, **columns).tolist()
    inspected = json.loads(stream_can("inspect", kept or "corrector.state", "--json")[0])
    assert inspected["labels"] == 1
    Path("fresh").write_bytes(expected.to_bytes())
    fresh = json.loads(stream_can("inspect", "fresh", "--json")[0])
    assert inspected["settings"] == fresh["settings"]
    assert taught.settings == expected.settings


def too_sure():
    """3,000 rows of a classifier that is surer than it should be, and their classes."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, 3000, p=[0.2, 0.3, 0.5])
    P = np.exp(1.8 * (rng.normal(size=(3000, 3)) + 1.5 * np.eye(3)[y]))
    P /= P.sum(1, keepdims=True)
    return P, y


def test_a_replay_says_how_to_go_on(tmp_path, monkeypatch):
    """Verdict, gains, next command: three lines; they run, the fields of a line included."""
    monkeypatch.chdir(tmp_path)
    P, y = too_sure()
    lines = [
        {"p": p, "truth": ["cat", "dog", "eel"][k]} for p, k in zip(P.tolist(), y, strict=True)
    ]
    Path("a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ["a.jsonl", "--probs", "p", "--label", "truth", "--classes", "cat,dog,eel"]
    options += ["--label-delay", "5", "--half-life", "300"]
    out, _ = stream_can("replay", *options, "--report", "page.html")
    text = [line for line in out.split("\n\n")[1].splitlines() if line]
    assert text[0].startswith("Use it")
    assert "class" in out.split("\n\n")[1].lower()
    (following,) = [line for line in text if line.startswith("Next: ")]
    command = following.removeprefix("Next: ")
    assert command == (
        "stream-can pipe --classes cat,dog,eel --half-life 300 --probs p --label truth"
        " --labelled --state corrector.state < a.jsonl"
    )
    sent = [json.loads(line) for line in run_sh(command).splitlines()]
    assert len(sent) == 3000
    assert sent[-1]["p"] != sent[-1]["probs_raw"]
    assert json.loads(stream_can("inspect", "corrector.state", "--json")[0])["labels"] == 3000
    assert not re.search(r"vector\+can +\d", out)
    more, _ = stream_can("replay", *options, "--verbose")
    assert re.search(r"vector\+can +\d", more)
    assert "stream-can run --bootstrap-servers localhost:9092" in more
    assert "corrector = Corrector(['cat', 'dog', 'eel'], half_life=300.0)" in more
    page = Path("page.html").read_text()
    assert "Next: stream-can pipe --classes cat,dog,eel --half-life 300" in page
    assert "process_one(p, receipt=True)" in page


def test_what_is_no_lines_goes_on_with_a_server(tmp_path, monkeypatch):
    """The pipe reads no CSV; the next command runs as it is printed."""
    monkeypatch.chdir(tmp_path)
    P, y = too_sure()
    rows = [",".join(map(str, [*p, k])) for p, k in zip(P.tolist(), y.tolist(), strict=True)]
    Path("a.csv").write_text("\n".join(["p_a,p_b,p_c,label", *rows]))
    out, _ = stream_can("replay", "a.csv", "--probs", "p_", "--label-delay", "5")
    (command,) = [line[6:] for line in out.splitlines() if line.startswith("Next: ")]
    assert command == "stream-can serve --classes a,b,c"
    (port,) = free_ports(1)
    with staying(f"{command} --port {port}", tmp_path, tmp_path / "log"):
        wait("ready", lambda: text_at(f"http://127.0.0.1:{port}/readyz"))
    more, _ = stream_can("replay", "a.csv", "--probs", "p_", "--label-delay", "5", "--verbose")
    assert "stream-can pipe --classes a,b,c --state corrector.state < lines.jsonl" in more


def test_validation_rows_are_deployed_in_a_state():
    ways = deployment(["a", "b"], {}, fitted=True)
    assert "--state corrector.state" in ways["first"]
    assert ways["pipe"] == "stream-can pipe --state corrector.state < lines.jsonl"


def test_sets_are_deployed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ways = deployment(["a", "b"], {"sets": 0.8})
    Path("lines.jsonl").write_text(json.dumps({"probs": [0.3, 0.7]}) + "\n")
    assert json.loads(run_sh(ways["pipe"]))["set"][0] == "b"
    assert "--sets 0.8" in ways["run"]
