"""Models and versions behind a server: each as if it were alone, whatever classes it has."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.app.start import SEGMENTS_MB
from stream_can.serve.local import LocalService
from stream_can.serve.service import Refused, Unavailable
from stream_can.serve.settings import load

pytestmark = pytest.mark.fast


class Serving:
    """A service without HTTP, its file in a folder; messages as Python has them."""

    def __init__(self, folder, text="", **settings):
        self.config = folder / "app.toml"
        given = {"model": "model", "version": "version", "state": "state.sqlite"} | settings
        given = {name: value for name, value in given.items() if value is not None}
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in given.items()]
        self.config.write_text("".join(lines) + text)
        self.begin()

    def begin(self):
        self.service = LocalService(load(self.config, {}, {}))

    def restart(self):
        """Write what came, and the state; close the file, open it again: all is as it was."""
        commits, before = self.service.commits, self.service.learner.to_bytes()
        commits._gather()(True)
        commits._gather_state()()
        self.service.close()
        self.begin()
        return self.service.learner.to_bytes() == before

    def correct(self, *messages):
        found = self.service.correct([json.dumps(one).encode() for one in messages]).messages
        return [json.loads(one) for one in found]

    def label(self, *messages):
        return self.service.label([json.dumps(one).encode() for one in messages])

    @property
    def models(self):
        return self.service.learner.models

    def corrector(self, model, version="1"):
        return self.service.learner.live[model, version].corrector


def said(id, model, probs, version="1"):
    return {"id": id, "model": model, "version": version, "probs": probs}


def bare(classes, **settings):
    return Corrector(classes, segments_mb=SEGMENTS_MB, **settings)


TABLES = """
[models.two]
classes = ["x", "y"]
half_life = 100.0
[models.three]
classes = ["p", "q", "r"]
[models.same]
threshold = 0.7
"""


def test_each_is_as_if_alone(tmp_path):
    """Requests with messages of all, some of them bad, restarts between them."""
    serving, rng = Serving(tmp_path, TABLES, classes=["a", "b"]), np.random.default_rng(0)
    alone = {
        "two": bare(["x", "y"], half_life=100.0), "three": bare(["p", "q", "r"]),
        "same": bare(["a", "b"], threshold=0.7), "other": bare(["a", "b"]),
    }  # fmt: skip
    receipts = {}
    for turn in range(30):
        models = [[*alone][k] for k in rng.integers(4, size=6)]
        rows = [rng.dirichlet(np.ones(len(alone[one].classes))) for one in models]
        messages = [
            said(f"{turn}-{i}", model, row.tolist())
            for i, (model, row) in enumerate(zip(models, rows, strict=True))
        ]
        with pytest.raises(Refused, match="message 7: probs"):
            serving.correct(*messages, said("bad", "new", [0.5, 0.3, 0.2]))
        found = serving.correct(*messages)
        for message, answer, row in zip(messages, found, rows, strict=True):
            own = alone[message["model"]]
            sent, receipt = own.process_one(row, receipt=True)
            assert answer["probs"] == sent.tolist()
            receipts[message["id"]] = own, row, receipt
        some = [messages[k]["id"] for k in rng.permutation(6)[:4]]
        names = [receipts[id][0].classes[rng.integers(2)] for id in some]
        # Half of the labels name the model, and all of them classes of it alone.
        labels = [
            {"id": id, "label": name}
            | ({"model": next(m["model"] for m in messages if m["id"] == id)} if i % 2 else {})
            for i, (id, name) in enumerate(zip(some, names, strict=True))
        ]
        assert serving.label(*labels) == ["learned"] * 4
        for id, name in zip(some, names, strict=True):
            own, row, receipt = receipts[id]
            own.learn_one(row, name, receipt=receipt)
        if turn % 10 == 5:
            assert serving.restart()
    assert ("new", "1") not in serving.models
    for model, own in alone.items():
        assert serving.corrector(model).to_bytes() == own.to_bytes()
    known = serving.service._known()
    assert {name.model for name in known.lanes} == {*alone}
    serving.service.close()


def test_classes_that_the_first_message_names(tmp_path):
    serving = Serving(tmp_path)
    with pytest.raises(Refused, match=r"model 'm': its classes are not known; give them under \["):
        serving.correct(said(1, "m", [0.5, 0.5]))
    assert serving.label({"id": 1, "label": "cat"}) == ["unknown"]
    assert serving.models == []
    (answer,) = serving.correct(said(1, "m", {"cat": 0.5, "dog": 0.3, "eel": 0.2}))
    assert [*answer["probs"]] == ["cat", "dog", "eel"]
    serving.label({"id": 1, "label": "eel"})
    serving.correct(said(2, "m", [0.5, 0.3, 0.2], "2"))  # as the other version has them
    serving.correct(said(3, "m", {"eel": 0.2, "dog": 0.3, "cat": 0.5}, "3"))
    serving.correct(said(4, "m", {"ant": 0.5, "bee": 0.5}, "4"), said(5, "n", {"p": 0.5, "q": 0.5}))
    serving.restart()
    names = {version: serving.corrector("m", version).classes for version in "1234"}
    assert names == {**dict.fromkeys("123", ("cat", "dog", "eel")), "4": ("ant", "bee")}
    assert serving.corrector("n").classes == ("p", "q")
    after = {name: one.after for name, one in serving.service.learner.live.items()}
    assert (after["m", "2"], after["m", "3"]) == ("1", "2")
    assert after["m", "4"] is after["n", "1"] is None
    assert serving.corrector("m", "2").n_labels == 0
    with pytest.raises(Refused, match=r"model 'one': its classes are not known"):
        serving.correct(said(6, "one", {"alone": 1.0}))
    serving.service.close()


def test_whose_prediction_a_label_is_of(tmp_path):
    serving = Serving(tmp_path, TABLES, classes=["a", "b"])
    serving.correct(said("id", "two", [0.4, 0.6]), said("id", "other", [0.4, 0.6]))
    serving.correct(said("id", "other", [0.3, 0.7], "2"), said("mine", "three", [0.2, 0.3, 0.5]))
    with pytest.raises(Refused, match="none of the 2 classes"):
        serving.label({"id": "id", "label": "p"})
    # Two models have another class of that name, or none: those that know it learn it.
    assert serving.label({"id": "id", "label": "a"}) == ["learned"]
    learned = {name: one.corrector.n_labels for name, one in serving.service.learner.live.items()}
    assert learned["other", "1"] == learned["other", "2"] == 1
    assert learned["two", "1"] == learned["three", "1"] == 0
    assert serving.label({"id": "id", "label": "x", "model": "two"}) == ["learned"]
    assert serving.label({"id": "id", "label": "a"}) == ["repeated"]
    # Nobody's: known again, and begins nothing.
    brings = {"id": "new", "label": "p", "probs_raw": [0.2, 0.3, 0.5]}
    models = serving.models
    assert serving.label(brings, brings) == ["unknown", "repeated"]
    assert serving.label(brings | {"model": "four", "version": "1"}) == ["unknown"]
    assert serving.models == models
    named = {"model": "three", "version": "1"}
    assert serving.restart()
    assert serving.label(brings | named) == ["learned"]
    assert serving.restart()
    assert serving.corrector("three").n_labels == 1
    serving.service.close()


def test_a_field_that_is_no_name_begins_few_models(tmp_path):
    serving = Serving(tmp_path, classes=["a", "b"], max_lanes=3)
    serving.correct(*(said(i, f"m{i}", [0.4, 0.6]) for i in range(2)))
    every = [said(9, f"m{i}", [0.4, 0.6]) for i in (0, 2, 3)]
    with pytest.raises(Refused, match="message 3: lane m3 1: 3 models and versions, or 256 MB"):
        serving.correct(*every)
    assert len(serving.models) == 2
    serving.correct(*every[:2])
    serving.service.metrics.committed({0: serving.service.tally}, 0.0, 0)
    assert serving.service.status_report.status().refused == 1
    serving.service.close()


def test_models_that_are_not_listed(tmp_path):
    serving = Serving(tmp_path, TABLES, classes=["a", "b"], only_listed_models=True)
    with pytest.raises(Refused, match=r"model 'other' has no table \[models.other\]"):
        serving.correct(said(1, "two", [0.4, 0.6]), said(1, "other", [0.4, 0.6]))
    serving.correct(said(1, "same", [0.4, 0.6]))
    assert serving.models == [("same", "1")]
    serving.service.close()


def test_versions_are_compared_on_the_same_labels(tmp_path):
    serving, rng = (
        Serving(tmp_path, classes=["a", "b"], segments=["shop"]),
        np.random.default_rng(0),
    )
    hits = {"1": 0, "2": 0}
    for i in range(200):
        y = int(rng.integers(2))
        for version, right in (("1", 0.6), ("2", 0.9)):
            top = y if rng.random() < right else 1 - y
            hits[version] += top == y
            row = [0.8, 0.2] if top == 0 else [0.2, 0.8]
            serving.correct(said(i, "m", row, version) | {"shop": "xy"[i % 2]})
        serving.label({"id": i, "label": "ab"[y]})
    service = serving.service
    service.metrics.committed({0: service.tally}, 0.0, 0)
    page = service.status_report.status()
    (pair,) = page.versions
    assert (pair.version, pair.other, pair.labels) == ("1", "2", 200)
    assert pair.raw.accuracy.before == pytest.approx(hits["1"] / 200)
    assert pair.raw.accuracy.after == pytest.approx(hits["2"] / 200)
    lanes = {one.version: one for one in page.lanes}
    for version, right in hits.items():
        assert (lanes[version].records, lanes[version].scored) == (200, 200)
        assert lanes[version].accuracy_before == pytest.approx(right / 200)
    assert lanes["2"].successor_of == "1"
    (column,) = page.columns
    assert (column.rows, column.labels) == (400, 400)
    (held,) = page.partitions
    assert held.records == 400
    assert (page.hour.labels, page.hour.scored) == (200, 400)
    assert page.hour.matched == 200
    assert page.hour.delay_to is not None
    service.close()


def test_models_that_are_dropped_begin_again(tmp_path):
    """Three models of other classes where two are kept, dropped and begun within one commit."""
    serving, rng = (
        Serving(tmp_path, TABLES, classes=["a", "b"], max_lanes=2),
        np.random.default_rng(0),
    )
    service = serving.service
    rows = {"two": [0.4, 0.6], "three": [0.2, 0.3, 0.5], "other": [0.3, 0.7]}
    for turn in range(40):
        service.models._begun.clear()  # as an hour later
        some = rng.permutation([*rows])[: rng.integers(1, 3)]
        serving.correct(*(said(f"{turn}", name, rows[name]) for name in some))
        serving.label({"id": f"{turn}", "label": "x"} | {"model": "two"} if turn % 2 else
                      {"id": f"{turn - 1}", "label": "p", "model": "three"})  # fmt: skip
        if turn % 6 == 5:
            assert serving.restart()
            service = serving.service
    assert service.learner.dropped > 10
    service.close()


def test_changed_settings_are_those_of_models_that_begin_too(tmp_path):
    serving = Serving(tmp_path, TABLES, classes=["a", "b"])
    serving.correct(said(1, "same", [0.4, 0.6]))
    serving.config.write_text("threshold = 0.9\n" + serving.config.read_text())
    serving.restart()
    serving.correct(said(1, "new", [0.4, 0.6]), said(1, "two", [0.4, 0.6]))
    given = {
        model: (corrector.settings["threshold"], corrector.settings["half_life"])
        for model in ("same", "new", "two")
        for corrector in [serving.corrector(model)]
    }
    usual = Corrector(2).settings["half_life"]
    assert given == {
        "same": (0.7, usual), "new": (0.9, usual), "two": (0.9, 100.0),
    }  # fmt: skip
    serving.service.close()


def test_requests_that_come_together_are_counted_once_and_all_are_told(tmp_path, monkeypatch):
    """Before, a bad message was counted for the others too; and what failed otherwise was not told
    to whoever waited."""
    serving = Serving(tmp_path, classes=["a", "b"], model=None, version=None)
    service = serving.service
    good, bad = b'{"id": 1, "probs": [0.5, 0.5]}', b'{"id": 2, "probs": [0.5]}'

    async def together(*requests):
        every = [service.correct_together([one]) for one in requests]
        return await asyncio.gather(*every, return_exceptions=True)

    answers = asyncio.run(together(good, bad, good))
    assert [type(one).__name__ for one in answers] == ["Answers", "Refused", "Answers"]
    assert service.tally.counts["dead_letters"] == 1
    assert service.tally.counts["predictions"] == 3

    def fails(messages):
        raise Unavailable("there is no state yet")

    monkeypatch.setattr(service, "correct", fails)
    answers = asyncio.run(asyncio.wait_for(together(good, good), 60))
    assert [str(one) for one in answers] == ["there is no state yet"] * 2
    service.close()


def test_what_models_take_is_bounded_in_bytes_too(tmp_path, monkeypatch):
    """Before, `max_lanes` bounded their number alone: 1,000 of 256 classes were 1.3 GB."""
    monkeypatch.setattr("stream_can.learner.model_version.LEAST_MB", 1)
    serving = Serving(tmp_path, max_lanes=5, commit_interval_ms=1)
    large = {f"c{i}": 1 / 256 for i in range(256)}  # 2 MB
    for i in range(3):
        serving.correct(said(i, f"m{i}", large))
    with pytest.raises(Refused, match="lane m9 1: 5 models and versions, or 5 MB of them, began"):
        serving.correct(said(9, "m9", large))
    assert len(serving.models) == 2  # of 5 MB
    serving.service.models._begun.clear()  # as an hour later
    serving.correct(said(9, "m9", large))
    assert serving.models == [("m2", "1"), ("m9", "1")]
    assert serving.service.learner.dropped == 2
    assert serving.restart()
    serving.correct(*(said(10 + i, f"s{i}", {"a": 0.5, "b": 0.5}) for i in range(2)))
    assert len(serving.models) == 4
    serving.service.close()


def test_a_model_is_switched_off_and_on(tmp_path):
    """After a restart; all that is learned meanwhile is kept."""
    off = TABLES.replace("[models.same]", "[models.same]\ncorrect = false")
    serving, rng = Serving(tmp_path, off, classes=["a", "b"]), np.random.default_rng(0)
    for i in range(60):
        p = rng.dirichlet([2.0, 1.0]).round(3).tolist()
        one, other = serving.correct(said(f"s{i}", "same", p), said(f"t{i}", "other", p))
        serving.label(*({"id": f"{m}{i}", "label": "ab"[i % 2]} for m in "st"))
        assert one["probs"] == p
    assert other["probs"] != p
    assert serving.service.status_report.status().passes == ["same"]
    serving.config.write_text(serving.config.read_text().replace("correct = false\n", ""))
    assert serving.restart()
    assert serving.correct(said("u", "same", p))[0]["probs"] != p
    assert serving.service.status_report.status().passes == []
    serving.service.close()
