"""Recordings of several models and versions: played as a `Learner` would, and what is said."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_can import Corrector, Learner
from stream_can.recording import from_arrays
from stream_can.replay.model_columns import ModelColumns
from stream_can.replay.steps import learner_of, steps
from tests.cli.command import stream_can

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c"]


def stream(n, seed=0):
    """Rows of two models, of which one has a second version from the middle on; three columns."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(3, 0.7), n)
    y = np.array([rng.choice(3, p=p) for p in P])
    model = np.where(rng.random(n) < 0.4, "net", "forest")
    version = np.where((np.arange(n) >= n // 2) & (model == "net"), "2", "1")
    tenant = rng.choice(["x", "y", ""], n)
    return P, y, model.tolist(), version.tolist(), [text or None for text in tenant]


@pytest.mark.parametrize("sets", [None, 0.8])
@pytest.mark.parametrize("columns", [(), ("tenant",)])
@pytest.mark.parametrize("delay", [0, 37, 700])
def test_they_are_played_as_a_learner_would(delay, columns, sets):
    P, y, model, version, tenant = stream(1500)
    settings = {"segments": columns, "sets": sets}
    learner, expected, inside = Learner(Corrector(3, **settings)), [], []
    for i, p in enumerate(P):
        of = {"model": model[i], "version": version[i]}
        given = {"tenant": [tenant[i]]} if columns else None
        found = learner.process_many([i], p[None], segments=given, **of)
        expected.append(found.rows[0])
        inside.append(found.sets and set(found.sets[0]))
        if i >= delay:
            learner.label(i - delay, int(y[i - delay]))
    table = {"model": model, "version": version, "tenant": tenant}
    played = learner_of(Corrector(3, **settings))
    models = ModelColumns("model", "version")
    chunks = from_arrays(P, y, segments=table)
    parts = list(steps(chunks, played, label_delay=delay, models=models))
    assert (
        np.concatenate([part.corrected for part in parts]).tolist() == np.array(expected).tolist()
    )
    if sets:
        assert [{*names} for part in parts for names in part.sets] == inside
    assert played.correctors == learner.correctors
    assert sum(len(part.arrivals.rows) for part in parts) == 1500 - delay
    assert Learner.from_bytes(played.to_bytes()).correctors == learner.correctors


def test_the_command_says_how_each_does_and_the_pipe_goes_on(tmp_path):
    P, y, model, version, _ = stream(800)
    lines = [
        {"id": i, "probs": dict(zip(CLASSES, p.tolist(), strict=True)), "label": CLASSES[y[i]],
         "model": model[i], "version": version[i]}
        for i, p in enumerate(P)
    ]  # fmt: skip
    file, state = tmp_path / "stream.jsonl", tmp_path / "state"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    both = "--model", "model", "--version", "version"
    arguments = ["replay", file, "--label-delay", 10, *both]
    out, _ = stream_can(*arguments, "--state", state, "--report", tmp_path / "page.html")
    for name in ("forest 1", "net 1", "net 2"):
        assert name in out
        assert name in (tmp_path / "page.html").read_text()
    found = json.loads(stream_can(*arguments, "--json")[0])
    rows = {one["value"]: one["rows"] for one in found["segments"]["model version"]}
    assert rows == {
        name: sum(f"{a} {b}" == name for a, b in zip(model, version, strict=True)) for name in rows
    }
    assert found["learned"] == 790
    assert "--model model --version version" in found["deploy"]["pipe"]
    line = json.dumps(lines[-1] | {"label": None})
    out, _ = stream_can("pipe", "--state", state, *both, input=line + "\n")
    assert json.loads(out)["probs"] != lines[-1]["probs"]


@pytest.mark.parametrize("option", ["--ask=0.1", "--try-segments=model", "--try-label-noise=0.1"])
def test_what_plays_one_model_is_refused(tmp_path, option):
    file = tmp_path / "s.jsonl"
    file.write_text('{"probs": [0.4, 0.6], "label": "b", "model": "x"}\n')
    arguments = ["replay", file, "--classes", "a,b", "--label-delay", 1, "--model", "model", option]
    _, err = stream_can(*arguments, code=2)
    assert "plays one model; leave --model and --version out" in err


def test_a_row_without_a_model_is_named(tmp_path):
    file = tmp_path / "s.jsonl"
    lines = ['{"probs": [0.4, 0.6], "label": "b", "model": "x"}', '{"probs": [0.4, 0.6]}']
    file.write_text("\n".join(lines) + "\n")
    arguments = ["replay", file, "--classes", "a,b", "--label-delay", 1, "--model", "model"]
    _, err = stream_can(*arguments, code=1)
    assert "row 2: no 'model', which names the model" in err
