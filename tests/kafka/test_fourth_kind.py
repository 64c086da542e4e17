"""A fourth kind of rows, made here alone, is played by pipe, server, replay and Kafka roles.

Ordinal rows: the classes have an order, and a row holds the probability that the class is at most
the first, the second, ... What corrects them is a `Corrector` of the differences, so each place has
to give the sums of what it gives for dense rows.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_can import Corrector, snapshot
from stream_can.app.start import Start
from stream_can.cli.main import main
from stream_can.dense import about, outcomes, page
from stream_can.dense import replay as dense_replay
from stream_can.dense.kind import DenseKind
from stream_can.learner.model_name import ONLY
from stream_can.learner.saved import corrector
from stream_can.messages.codecs.codec import Row
from stream_can.messages.formats import JSON
from stream_can.messages.messages import BadMessage, Messages
from stream_can.pipe.run import pipe
from stream_can.recording import Recording
from stream_can.row_kinds import KINDS
from stream_can.serve.local import LocalService
from stream_can.serve.settings import ServeSettings
from tests.kafka.broker.broker import Served
from tests.kafka.streams import STAMP, App, caught_up, state_of
from tests.kafka.topics import produce

CLASSES = ["low", "middle", "high"]


class OrdinalCorrector(Corrector):
    """A `Corrector` whose snapshots say that their rows are ordinal."""

    row_kind = "ordinal"

    def to_bytes(self) -> bytes:
        head, arrays = snapshot.decode(super().to_bytes())
        return snapshot.encode(head | {"ordinal": True}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes, classes: Any = None, **settings: Any) -> OrdinalCorrector:
        head, arrays = snapshot.decode(data)
        del head["ordinal"]
        return super().from_bytes(snapshot.encode(head, arrays), classes, **settings)


class OrdinalKind(DenseKind):
    name, described, snapshot_field = "ordinal", "ordinal rows", "ordinal"
    corrector = OrdinalCorrector

    def new(self, classes: Any, settings: Any) -> OrdinalCorrector:
        return OrdinalCorrector(classes, **settings)

    def restored(self, data: bytes, classes: Any, settings: Any) -> OrdinalCorrector:
        return OrdinalCorrector.from_bytes(data, classes, **settings)

    def copied(self, data: bytes) -> OrdinalCorrector:
        return OrdinalCorrector.from_bytes(data)


class OrdinalMessages(Messages):
    may_be_ordinary = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._row = self._ordinal_row

    def _ordinal_row(self, original: msgspec.Raw, _: Any, where: str) -> tuple[Row, None]:
        at_most = msgspec.json.decode(original)
        if not isinstance(at_most, list) or len(at_most) != len(self.classes) - 1:
            raise BadMessage(f"{where}: expected {len(self.classes) - 1} numbers")
        return Row("d", np.diff(at_most, prepend=0.0, append=1.0).tolist()), None

    def write_all(self, predictions: Any, rows: Any) -> list[bytes]:
        sums = np.cumsum(rows, axis=1)[:, :-1]
        return super().write_all(predictions, np.ascontiguousarray(sums))


class OrdinalStart(Start):
    def __init__(self, settings: Any) -> None:
        corrector = OrdinalCorrector(settings.classes, **settings.corrector)
        self.snapshot, self.classes = corrector.to_bytes(), corrector.classes
        self.segments, self.settings = (), corrector.settings | {"sets": None}
        self._given, self._models, self._counted = settings, {}, False
        self.formats = JSON

    def with_settings(self, snapshot: bytes, model: str = "") -> Any:
        return OrdinalCorrector.from_bytes(snapshot)

    def corrector(self) -> Any:
        return self.with_settings(self.snapshot)


def open_recording(file: Path, classes: str | None, places: Any, form: Any) -> Recording:
    """The recording of the differences."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line["probs"] = np.diff(line["probs"], prepend=0.0, append=1.0).tolist()
    as_dense = file.with_suffix(".dense.jsonl")
    as_dense.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return dense_replay.open_recording(as_dense, classes, places, form)


def new_corrector(recording: Recording, classes: str | None, settings: Any) -> OrdinalCorrector:
    return OrdinalCorrector(recording.classes, **settings)


@pytest.fixture(autouse=True)
def ordinal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind in the table, and its modules where the table says."""
    parts = {
        "kind": SimpleNamespace(KIND=OrdinalKind()),
        "messages": SimpleNamespace(MESSAGES=OrdinalMessages),
        "start": SimpleNamespace(start=lambda settings, formats: OrdinalStart(settings)),
        "outcomes": outcomes,
        "about": about,
        "page": page,
        "replay": SimpleNamespace(
            **{**vars(dense_replay), "open_recording": open_recording,
               "new_corrector": new_corrector}
        ),
    }  # fmt: skip
    monkeypatch.setitem(KINDS, "ordinal", "ordinal")
    for name, module in parts.items():
        monkeypatch.setitem(sys.modules, f"ordinal.{name}", module)


def stream(n: int = 400) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ordinal and dense messages of the same rows, each with its label; the model knows too little
    of the last class."""
    rng = np.random.default_rng(0)
    y = rng.choice(3, n, p=[0.1, 0.2, 0.7])
    z = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[y] - [0, 0, 1.5]
    P = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    at_most = P.cumsum(axis=1)[:, :-1]
    dense = np.diff(at_most, axis=1, prepend=0.0, append=1.0)
    both = []
    for rows in (at_most, dense):
        both.append([
            {"id": i, "probs": row.tolist(), "label": CLASSES[k]}
            for i, (row, k) in enumerate(zip(rows, y, strict=True))
        ])  # fmt: skip
    return both[0], both[1]


def piped(lines: list[dict[str, Any]], rows: str) -> list[dict[str, Any]]:
    out = io.BytesIO()
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    code = pipe(CLASSES, rows=rows, labelled=True, stdin=io.BytesIO(text), stdout=out)
    assert code == 0
    return [json.loads(line) for line in out.getvalue().splitlines()]


def same(found: list[dict[str, Any]], dense: list[dict[str, Any]]) -> None:
    sums = np.cumsum([one["probs"] for one in dense], axis=1)[:, :-1]
    np.testing.assert_allclose([one["probs"] for one in found], sums, atol=1e-12)
    assert found[-1]["probs"] != found[-1]["probs_raw"]


@pytest.mark.fast
def test_a_pipe() -> None:
    ordinal, dense = stream()
    same(piped(ordinal, "ordinal"), piped(dense, "dense"))


@pytest.mark.fast
def test_a_server(tmp_path: Path) -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for rows, lines in zip(("ordinal", "dense"), stream(), strict=True):
        state = str(tmp_path / f"{rows}.sqlite")
        service = LocalService(ServeSettings(classes=CLASSES, rows=rows, state=state))
        found[rows] = []
        for line in lines:
            row = {name: value for name, value in line.items() if name != "label"}
            (answer,) = service.correct([json.dumps(row).encode()]).messages
            found[rows].append(json.loads(answer))
            label = {name: value for name, value in line.items() if name != "probs"}
            assert service.label([json.dumps(label).encode()]) == ["learned"]
        if rows == "ordinal":
            (live,) = service.learner.live.values()
            assert isinstance(live.corrector, OrdinalCorrector)
        service.close()
    same(found["ordinal"], found["dense"])


@pytest.mark.fast
def test_a_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for rows, lines in zip(("ordinal", "dense"), stream(1000), strict=True):
        file, report = tmp_path / f"{rows}.jsonl", tmp_path / f"{rows}.html"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        state = tmp_path / f"{rows}.state"
        options = ["--rows", rows, "--label-delay", "5", "--json", "--classes", ",".join(CLASSES)]
        options += ["--state", str(state), "--report", str(report)]
        assert main(["replay", str(file), *options]) == 0
        said.append(json.loads(capsys.readouterr().out))
        assert "<svg" in report.read_text()
        assert main(["inspect", str(state), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["labels"] == 995
    ordinal, dense = said
    assert ordinal["corrected"] == dense["corrected"] != dense["raw"]


def test_a_worker_and_a_learner(broker: Served) -> None:
    app = App(broker.bootstrap_servers, partitions=1, classes=CLASSES, rows="ordinal")
    lines, _ = stream(300)
    predictions, labels = [], []
    for i, line in enumerate(lines):
        key, at = b"%d" % i, STAMP + 10 * i
        probs = json.dumps({"probs": line["probs"]}).encode()
        predictions.append((app.given["input"], 0, key, probs, [], at))
        label = json.dumps({"label": line["label"]}).encode()
        labels.append((app.given["labels"], 0, key, label, [], at + 5))
    produce(app.servers, predictions, labels)
    running = app.worker()
    caught_up(app, running)
    assert running.n_labels() == 300
    running.stop()
    outputs = [json.loads(record.value) for record in app.outputs(0)]
    assert [one["probs_raw"] for one in outputs] == [line["probs"] for line in lines]
    assert all(0 <= a <= b <= 1 for a, b in (one["probs"] for one in outputs))
    state = state_of(app)
    assert state is not None
    assert isinstance(corrector(state.lanes[ONLY]), OrdinalCorrector)


@pytest.mark.fast
@pytest.mark.parametrize("rows", ["dense", "ordinal"])
def test_a_state_of_another_kind_is_refused_by_name(tmp_path: Path, rows: str) -> None:
    state = str(tmp_path / "file.sqlite")
    LocalService(ServeSettings(classes=CLASSES, rows="ordinal", state=state)).close()
    if rows == "dense":
        with pytest.raises(Exception, match="rows is 'ordinal' in it, and 'dense' here"):
            LocalService(ServeSettings(classes=CLASSES, rows="dense", state=state))
    else:
        LocalService(ServeSettings(classes=CLASSES, rows="ordinal", state=state)).close()
