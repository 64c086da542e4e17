"""The next commands of a replay run as they stand, with the options that it had."""

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from stream_can import Corrector
from stream_can.cli.deploy import deployment
from stream_can.dense.replay import deployed
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


def dense(classes, settings):
    """A dense corrector of these classes as commands write it."""
    return deployed(SimpleNamespace(classes=classes), None, settings)


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
    ways = deployment(dense(classes, given), state=state)
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
    assert worker.classes == (None if kept else classes)
    assert worker.classes_from_file == (str(kept) if kept else None)
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


def told(rng, m, n=3000):
    """n rows of a classifier that is surer than it should be, and their classes of m."""
    y = rng.choice(m, n, p=np.arange(1, m + 1) / (m * (m + 1) / 2))
    P = np.exp(1.8 * (rng.normal(size=(n, m)) + 1.5 * np.eye(m)[y]))
    return P / P.sum(1, keepdims=True), y


def test_a_replay_says_how_to_go_on(tmp_path, monkeypatch):
    """Verdict, gains, next command: three lines; they run, the fields of a line included."""
    monkeypatch.chdir(tmp_path)
    P, y = told(np.random.default_rng(0), 3)
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
    assert "<p>Next:</p>" in page
    assert "<pre>stream-can pipe --classes cat,dog,eel --half-life 300" in page
    assert "process_one(p, receipt=True)" in page


def csv(P, y, names, heads=None, **more):
    """Columns of probabilities, the label, and others."""
    heads = heads or [f"probs_{name}" for name in names]
    rows = [",".join([*heads, "label", *more])]
    for i, (p, k) in enumerate(zip(P.tolist(), y.tolist(), strict=True)):
        rows.append(",".join(map(str, [*p, names[k], *(values[i] for values in more.values())])))
    return "\n".join(rows)


def objects(P, y, names, field="probs", label=lambda name: name, **more):
    """Lines that have both, by name."""
    lines = [
        {field: dict(zip(names, p, strict=True)), ("labels" if field == "scores" else "label"):
         label(names[k]), "id": i} | {name: values[i] for name, values in more.items()}
        for i, (p, k) in enumerate(zip(P.tolist(), y.tolist(), strict=True))
    ]  # fmt: skip
    return "\n".join(json.dumps(line) for line in lines)


ABC = ["a", "b", "c"]
MANY = [f"class number {i}" for i in range(40)]
TURNS = ["x" if i % 3 else "y" for i in range(3000)]
SEVERAL, KEPT = ["--rows", "multilabel"], ["--state", "kept.state"]
MODELS = ["--model", "m"]


def kinds():
    """Name, file, its content, options of the replay, a message for the server."""
    rng = np.random.default_rng(0)
    P, y = told(rng, 3)
    two, of_two = told(rng, 2)
    many, of_many = told(rng, 40)
    scores = csv(two[:, 1:], of_two, [0, 1], ["score"])
    one = {"probs": 0.3}, {"probs": [0.2, 0.3, 0.5]}
    dense, by_name, with_m = csv(P, y, ABC), objects(P, y, ABC), csv(P, y, ABC, m=TURNS)
    several = objects(P, y, ABC, field="scores", label=lambda name: [name])
    spread = "\n".join(
        ["scores_a,scores_b,scores_c,labels_a,labels_b,labels_c",
         *(",".join(map(str, [*p, *map(int, np.eye(3)[k])])) for p, k in zip(P, y, strict=True))]
    )  # fmt: skip
    text = "\n".join(
        ["probs,label", *(f"\"{{'a': {p[0]:.9f}, 'b': {p[1]:.9f}}}\",{ABC[k]}"
                         for p, k in zip(P, y, strict=True))]
    )  # fmt: skip
    listed = {"probs": {"a": 0.4, "b": 0.1}}
    of_m = one[1] | {"m": "x"}
    yield "one score", "a.csv", scores, ["--probs", "score"], one[0]
    yield "two classes", "a.csv", csv(two, of_two, ["no", "yes"]), [], {"probs": [0.3, 0.7]}
    yield "three", "a.csv", dense, ["--half-life", "300"], one[1]
    yield "three kept", "a.csv", dense, KEPT, one[1]
    yield "three fitted", "a.csv", dense, ["--validation", "validation.csv"], one[1]
    yield "lines", "my lines.jsonl", by_name, [], None
    yield "lines fitted", "a.jsonl", by_name, ["--validation", "validation.csv"], one[1]
    yield "lines kept", "a.jsonl", by_name, KEPT, one[1]
    yield "lines asked", "a.jsonl", by_name, ["--ask", "0.5"], one[1]
    yield "a tab", "a.jsonl", objects(P, y, ["a\tb", "b", "c"]), [], one[1]
    yield "behind --", "-x.csv", dense, ["--validation=validation.csv", "--", "-x.csv"], one[1]
    yield "a dash", "a.csv", csv(P, y, ["-a", "b", "c"]), [], one[1]
    yield "many", "a.csv", csv(many, of_many, MANY), [], {"probs": [1 / 40] * 40}
    yield "columns", "a.csv", with_m, ["--segments", "m"], of_m
    yield "models", "a.csv", with_m, MODELS, of_m
    yield "models kept", "a.csv", with_m, [*MODELS, *KEPT], None
    yield "models in lines", "a.jsonl", objects(P, y, ABC, m=TURNS), MODELS, None
    yield "several", "a.csv", spread, SEVERAL, {"scores": [0.2, 0.3, 0.5]}
    yield "several kept", "a.csv", spread, [*SEVERAL, *KEPT], None
    yield "several in lines", "a.jsonl", several, SEVERAL, None
    yield "sparse", "a.csv", text, ["--rows", "sparse"], listed
    yield "sparse kept", "a.csv", text, ["--rows", "sparse", *KEPT], None
    yield "sparse in lines", "a.jsonl", by_name, ["--rows", "sparse", "--max-classes", "50"], None


@pytest.mark.parametrize(
    ("file", "content", "options", "message"),
    [pytest.param(*rest, id=name) for name, *rest in kinds()],
)
def test_every_next_command_runs_as_printed(tmp_path, monkeypatch, file, content, options, message):
    """From the folder where it was printed: to the end, or to an answer over HTTP."""
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(content + "\n")
    Path("validation.csv").write_text(csv(*told(np.random.default_rng(1), 3), ABC))
    monkeypatch.setenv("STREAM_CAN_LABEL_DELAY", "5")
    last = options[-1:] == ["-x.csv"]  # behind --
    out, _ = stream_can("replay", *([] if last else [file]), *options)
    assert "Use it" in out
    (following,) = [line[6:] for line in out.splitlines() if line.startswith("Next: ")]
    *before, last = following.split(" && ")
    for command in before:
        run_sh(command)
    if message is None:
        written = run_sh(last)
        assert "pipe" in last
        if "<" in last:
            assert written.count("\n") == 3000
            answer = json.loads(written.splitlines()[-1])  # every label before it was learned
            field = "scores" if "multilabel" in options else "probs"
            assert answer[field] != answer[f"{field}_raw"]
        return
    assert last.startswith("stream-can serve")
    (port,) = free_ports(1)
    with staying(f"{last} --port {port}", tmp_path, tmp_path / "log"):
        url = f"http://127.0.0.1:{port}"
        wait("ready", lambda: text_at(f"{url}/readyz"))
        answer = httpx.post(f"{url}/correct", json={"id": 1, **message})
        assert answer.status_code == 200, answer.text


def test_a_server_that_cannot_start_yet_is_installed_first(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    command = deployment(dense(["a", "b"], {}))["next"]
    assert command == "pip install 'stream_can[serve]' && stream-can serve --classes a,b"


def test_validation_rows_are_deployed_in_a_state():
    ways = deployment(dense(["a", "b"], {}), fitted=True)
    assert ways["first"] == "stream-can replay --state corrector.state ..."
    assert ways["pipe"] == "stream-can pipe --state corrector.state < lines.jsonl"


def test_sets_are_deployed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ways = deployment(dense(["a", "b"], {"sets": 0.8}))
    Path("lines.jsonl").write_text(json.dumps({"probs": [0.3, 0.7]}) + "\n")
    assert json.loads(run_sh(ways["pipe"]))["set"][0] == "b"
    assert "--sets 0.8" in ways["run"]


def test_what_a_folder_holds_already_is_not_taken_for_the_next_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("corrector.state", "corrector-2.state", "stream_can.sqlite"):
        Path(name).touch()
    ways = deployment(dense(["a", "b"], {}), recorded=Path("a.jsonl"))
    assert ways["next"] == "stream-can pipe --classes a,b --state corrector-3.state < a.jsonl"
    assert ways["serve"] == "stream-can serve --classes a,b --state stream_can-2.sqlite"


def test_standard_input_cannot_be_replayed_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ways = deployment(dense(["a", "b"], {}), fitted=True, recorded=Path("-"))
    assert ways["next"].startswith("save the recording to a file, and replay that with --state")


def test_labels_that_are_numbers_get_the_names_that_a_pipe_takes(tmp_path, monkeypatch):
    ways = deployment(
        dense(["a", "b"], {}), recorded=Path("a.jsonl"), labelled=True, numbered="model.label"
    )
    first, second = ways["pipe"].split(" | stream-can pipe ")
    assert second == "--classes a,b --labelled --state corrector.state"
    given = [{"model": {"label": 1, "x": 2}, "y": 0.1}, {"model": {"label": None}}, {"y": 3}]
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("\n\n".join(map(json.dumps, given)))
    named = [{"model": {"label": "b", "x": 2}, "y": 0.1}, *given[1:]]
    assert [json.loads(line) for line in run_sh(first).splitlines()] == named
    assert ways["next"] == ways["pipe"]
