"""Each cell of the table of kinds and features is tried where it is said to be, and refused by name
where it is not."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from stream_can.app.settings import SettingsError
from stream_can.app.start import start_of as start_of_server
from stream_can.cli.main import main
from stream_can.kafka import Settings
from stream_can.kafka.start import start_of
from stream_can.messages.fields import fields_of
from stream_can.multilabel import MultiLabelCorrector
from stream_can.pipe.run import pipe
from stream_can.river import (
    CorrectedClassifier,
    CorrectedMultiLabelClassifier,
    CorrectedSparseClassifier,
    FrozenClassifier,
)
from stream_can.row_kinds import KINDS, row_kind
from stream_can.serve.settings import ServeSettings
from stream_can.sklearn import StreamCalibrator
from stream_can.sparse import SparseCorrector
from tests.pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import fill

pytestmark = pytest.mark.fast

CLASSES = ["a", "b"]
ROWS: dict[str, dict[str, Any]] = {
    "dense": {"probs": [0.4, 0.6], "label": "a"},
    "multilabel": {"scores": [0.4, 0.9], "labels": ["a"]},
    "sparse": {"probs": {"a": 0.4, "b": 0.5}, "label": "a"},
}
AVRO = json.dumps({
    "type": "record", "name": "P", "fields": [
        {"name": "probs", "type": {"type": "array", "items": "double"}},
    ],
})  # fmt: skip
GIVEN: dict[str, dict[str, Any]] = {
    "ask": {"ask": 0.5},
    "model": {"model": "of"},
    "segments": {"segments": ["of"]},
    "sets": {"sets": 0.9},
    "sets_by": {"sets": 0.9, "sets_by": "class"},
    "normalise always": {"normalise": "always"},
    "logits": {"logits": True},
    "classes_from_file": {"classes_from_file": "begin.json", "classes": None},
    "format avro": {"format": "avro", "avro_schema": "a.avsc"},
    "format protobuf": {
        "format": "protobuf",
        "protobuf_descriptor": "x.desc",
        "protobuf_message": "M",
    },
    "format json-schema": {"format": "json-schema", "schema_registry": "http://h:1"},
    "validation": {"validation": "validation.jsonl"},
    "against": {"against": "batch-can"},
    "output": {"output": "corrected.jsonl"},
    "": {},
}
BEGINS: dict[str, Callable[[], bytes]] = {
    "dense": json.dumps({"classes": CLASSES}).encode,
    "multilabel": MultiLabelCorrector(CLASSES).to_bytes,
    "sparse": SparseCorrector("any", max_classes=9).to_bytes,
}
CELLS = [
    pytest.param(kind, place, name, id=f"{kind}-{place}-{name}")
    for name, places in [*fill.FEATURES.values(), ("", "river sklearn")]
    for place in places.split()
    for kind in KINDS
    if place in row_kind(kind).has and place != "spark"  # tests/spark/test_fixed_kinds.py
]


WRAPPERS: dict[str, Any] = {
    "dense": CorrectedClassifier,
    "multilabel": CorrectedMultiLabelClassifier,
    "sparse": CorrectedSparseClassifier,
}


def behind_river(kind: str, given: dict[str, Any]) -> str:
    """What is said of a wrapper where it is refused, else nothing."""
    x: dict[str, Any] = {"p": {"a": 0.4, "b": 0.6}, "of": "x"}
    try:
        model = WRAPPERS[kind](FrozenClassifier(lambda x: dict(x["p"])), **given)
    except TypeError as error:  # the argument is not there
        return str(error)
    for _ in range(3):
        model.learn_one(x, {"a": True} if row_kind(kind).several_labels else "a")
    assert model.corrector.row_kind == kind
    assert model.predict_proba_one(x).keys() == {"a", "b"}
    assert "sets" not in given or model.predict_set_one(x)
    assert "segments" not in given or model.corrector.segments == ("of",)
    return ""


def behind_sklearn(kind: str, given: dict[str, Any]) -> str:
    """What is said of an estimator where it is refused, else nothing."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["one", "two"]).assign(of="x")
    y = (X[["one", "two"]].to_numpy() > 0).astype(int)
    numbers = make_column_transformer(("passthrough", ["one", "two"]))
    several = row_kind(kind).several_labels
    classifier = OneVsRestClassifier(LogisticRegression()) if several else LogisticRegression()
    model = StreamCalibrator(make_pipeline(numbers, classifier), **given)
    try:
        model.fit(X, y if several else y[:, 0])
    except ValueError as error:
        return str(error)
    assert model.corrector_.row_kind == kind
    assert model.predict_proba(X).shape == (60, 2)
    assert "sets" not in given or model.predict_set(X).shape == (60, 2)
    assert "segments" not in given or model.corrector_.segments == ("of",)
    return ""


def play(kind: str, place: str, given: dict[str, Any]) -> str:
    """What is said where it is refused, else nothing."""
    classes = CLASSES if row_kind(kind).declares_classes else None
    row = ROWS[kind] | ({"probs": [-0.4, 0.6]} if "logits" in given and kind == "dense" else {})
    lines = [json.dumps({"id": i, "of": "x", **row}) + "\n" for i in range(40)]
    if place in ("server", "topics"):
        topics = {"bootstrap_servers": ["h:1"], "input": "i", "output": "o", "labels": "l"}
        of: Any = Settings if place == "topics" else ServeSettings
        more = topics if place == "topics" else {}
        try:
            settings = of(
                **{"application_id": "a", "classes": classes, "rows": kind, **more, **given}
            )
            if given.get("format") not in ("protobuf", "json-schema"):  # these ask a registry
                (start_of if place == "topics" else start_of_server)(settings)
        except (ValueError, SettingsError) as error:
            return str(error)
        return ""
    Path("rows.jsonl").write_text("".join(lines))
    both = [json.dumps({"id": i, "probs": [0.4, 0.6], "label": "ab"[i % 2]}) for i in range(40)]
    Path("validation.jsonl").write_text("\n".join(both))
    words = [] if classes is None else ["--classes", "a,b"]
    for name, value in given.items():
        words += (
            [f"--{name}"]
            if value is True
            else [f"--{name}", ",".join(value) if isinstance(value, list) else str(value)]
        )
    if place == "replay":
        words = ["replay", "rows.jsonl", "--rows", kind, "--label-delay", "1", *words]
        return "" if main(words) == 0 else "refused"
    out = io.BytesIO()
    fields = {k: v for k, v in given.items() if k in ("model", "normalise", "logits")}
    others = {k: v for k, v in given.items() if k not in fields}
    if "validation" in others:
        others["validation"] = (np.array([[0.4, 0.6]] * 9), ["a", "b", "a"] * 3)
    code = pipe(
        classes, rows=kind, fields=fields_of(kind, id="id", **fields), labelled="ask" not in given,
        stdin=io.BytesIO("".join(lines).encode()), stdout=out, **others,
    )  # fmt: skip
    return "" if code == 0 and out.getvalue().count(b"\n") == len(lines) else "refused"


@pytest.mark.parametrize(("kind", "place", "name"), CELLS)
def test_a_cell(
    kind: str, place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("begin.json").write_bytes(BEGINS[kind]())
    Path("a.avsc").write_text(AVRO)
    has = name == "ask" or name in row_kind(kind).has[place]
    if place == "pipe" and name == "format avro":
        if has:
            return  # played with container files in tests/pipe
        given: dict[str, Any] = {"format": "avro"}
    else:
        given = GIVEN[name] if has or name != "sets_by" else {"sets_by": "class"}
    if place in ("river", "sklearn"):
        said = (behind_river if place == "river" else behind_sklearn)(kind, given)
        assert (said == "") == (has or not name), said
        assert said == "" or name in said
        return
    said = play(kind, place, given)
    said += capsys.readouterr().err if said == "refused" else ""
    assert (said == "") == has, said
    written = name.replace("_", "-") if place == "replay" else name
    assert has or f"{written}: not of {row_kind(kind).described}" in said
