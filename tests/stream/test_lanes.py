"""Lanes: models and versions in one task, each as if it were alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector, LabelRequests
from stream_can.messages.fields import Fields
from stream_can.messages.naming import LaneName
from stream_can.stream import entry
from stream_can.stream.entry import FleetTerms
from stream_can.stream.head import read_head
from stream_can.stream.identity import Identity
from stream_can.stream.lanes import Fleet
from stream_can.stream.replica import Replica
from stream_can.stream.task import Record, Task
from stream_can.stream.versions import Comparison
from tests.examples import examples
from tests.stream.records import bare, batches

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c"]
FIELDS = Fields(model="model", version="version")
IDENTITY = Identity("app", "in", "out", "labels", "probs", "probs_raw", "label", None, ("a",))
HOUR = 3_600_000


class Log:
    """A log in memory: entries in a row, each folded as it is written."""

    def __init__(self, corrector=None, *, max_lanes=1000, models=None, lanes=True):
        fleet = FleetTerms(max_lanes, models or {}) if lanes else None
        self.replica, self.records, self.left = Replica(), [], []
        snapshot = (corrector or Corrector(CLASSES)).to_bytes()
        self.write(entry.start(snapshot, identity=IDENTITY, fleet=fleet))

    def write(self, *values):
        for value in values:
            record = Record("log", 0, self.replica.offset, 0, None, value)
            self.records.append(record)
            self.left.append(self.replica.fold(record))

    def commit(self, *tasks):
        """What tasks have to teach, entry by entry; every task is a partition."""
        for partition, task in enumerate(tasks):
            parts, end = task.take_all()
            for mark, part in parts:
                self.write(*entry.entries(
                    part.corrector, self.replica.offset, [(partition, part, end)],
                    app=IDENTITY.mark, lane=mark,
                ))  # fmt: skip

    def again(self, until=None):
        """Another replica that folds the same."""
        replica = Replica()
        for record in self.records[:until]:
            replica.fold(record)
        return replica


def task_of(log, **options):
    return Task(log.replica, **{"labels_topic": "labels", "fields": FIELDS} | options)


def prediction(offset, row, key=None, *, time=1000, model="m", version="1", **more):
    value = {"probs": row, "model": model, "version": version} | more
    value = {name: of for name, of in value.items() if of is not ...}
    return Record("in", 0, offset, time + offset, key, json.dumps(value).encode())


def label(offset, name, key=None, **more):
    value = json.dumps({"label": name} | more).encode()
    return Record("labels", 0, offset, 5000 + offset, key, value)


ROW = [0.6, 0.3, 0.1]


@st.composite
def fleets(draw):
    """Records of a few models with one version each; labels name their model, all or nothing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    records, at = [], {"in": 0, "labels": 0}
    for _ in range(draw(st.integers(1, 60))):
        key = draw(st.sampled_from([b"1", b"2", b"3", b"4"]))
        model = draw(st.sampled_from(["x", "y", "z"]))
        if draw(st.booleans()):
            row = rng.dirichlet(np.full(3, 0.7)).tolist()
            records.append(prediction(at["in"], row, key, model=model))
            at["in"] += draw(st.integers(1, 3))
        else:
            names = draw(st.sampled_from([{}, {"model": model}, {"model": model, "version": "1"}]))
            if names and draw(st.booleans()):
                names["probs_raw"] = rng.dirichlet(np.full(3, 0.7)).tolist()
            name = draw(st.sampled_from([*CLASSES, "nobody knows"]))
            records.append(label(at["labels"], name, key, **names))
            at["labels"] += draw(st.integers(1, 3))
    return records


def alone(records, model):
    """The records that are a model's, by the text alone: its predictions; labels that name it, or
    that leave the version open and whose id it has predicted before, without an echoed row."""
    found, ids, begun = [], set(), False
    for record in records:
        value = json.loads(record.value)
        if record.topic == "in":
            if value["model"] == model:
                found.append(record)
                ids.add(record.key)
                begun = True
            continue
        named = value.get("model") == model and "version" in value
        others = value.get("model") not in (None, model)
        if named and begun:
            found.append(record)
        elif not named and not others and record.key in ids and "version" not in value:
            value.pop("probs_raw", None)
            changed = json.dumps(value).encode()
            found.append(Record("labels", 0, record.offset, record.timestamp, record.key, changed))
    return found


@settings(max_examples=examples(20))
@given(fleets(), st.lists(st.integers(1, 9), min_size=1))
def test_each_lane_is_a_task_alone(records, cuts):
    """Its outputs and what it learns are those of a task that has no others beside it."""
    log = Log()
    task = task_of(log)
    models = sorted({json.loads(r.value)["model"] for r in records if r.topic == "in"})
    logs = {model: Log(lanes=False) for model in models}
    tasks = {model: Task(logs[model].replica, labels_topic="labels") for model in models}
    own = {model: {(r.topic, r.offset): r for r in alone(records, model)} for model in models}
    for batch in batches(records, cuts):
        result = task.handle(batch)
        log.commit(task)
        apart = {}
        for model in models:
            mine = [own[model][at] for r in batch if (at := (r.topic, r.offset)) in own[model]]
            for out in tasks[model].handle(mine).outputs:
                apart[out.source.offset] = out
            logs[model].commit(tasks[model])
        assert [out.source.offset for out in result.outputs] == [
            r.offset for r in batch if r.topic == "in"
        ]
        assert [out.value for out in result.outputs] == [
            apart[out.source.offset].value for out in result.outputs
        ]
    for model in models:
        lane = log.replica.lane(LaneName(model, "1"))
        assert lane.corrector.to_bytes() == logs[model].replica.corrector.to_bytes()
    assert log.left == [None] * len(log.left)
    assert state(log.again()) == state(log.replica)


def state(replica):
    return [
        (name, one.begun, one.last, one.after, one.labels, one.corrector.to_bytes())
        for name, one in replica.lanes.items()
    ]


def taught(log, task, n=40, at=0, **names):
    """Predictions and labels of a lane, committed."""
    rng = np.random.default_rng(at)
    for i in range(at, at + n):
        key = b"%d" % i
        row = rng.dirichlet(np.full(3, 0.7)).tolist()
        task.handle([prediction(i, row, key, **names), label(i, "b", key, **names)])
    log.commit(task)


def test_a_version_goes_on_from_the_one_with_most_labels():
    log = Log()
    task = task_of(log)
    for at, n, version in ((0, 30, "1"), (100, 60, "2"), (200, 3, "3")):
        taught(log, task, n, at, model="m", version=version)
    taught(log, task, 90, 400, model="other", version="9")
    before = log.replica.lane(LaneName("m", "2")).corrector
    wanted = before.successor()
    (out,) = task.handle([prediction(900, ROW, b"x", version="4")]).outputs
    assert json.loads(out.value)["probs"] == wanted.correct_one(ROW).tolist()
    log.commit(task)
    lane = log.replica.lane(LaneName("m", "4"))
    assert lane.after == "2"
    assert lane.begun == lane.last == log.replica.offset - 1
    assert log.replica.lane(LaneName("m", "1")).after is None


def test_afterwards_lanes_are_apart():
    """Labels of old predictions are the old version's, and who rolls back finds its state."""
    log = Log()
    task = task_of(log)
    taught(log, task, 50, version="1")
    taught(log, task, 50, 100, version="2")
    one, two = (log.replica.lane(LaneName("m", v)).corrector for v in "12")
    counts = one.n_labels, two.n_labels
    task.handle([prediction(300, ROW, b"late", version="1"), label(300, "a", b"late")])
    log.commit(task)
    one, two = (log.replica.lane(LaneName("m", v)).corrector for v in "12")
    assert (one.n_labels, two.n_labels) == (counts[0] + 1, counts[1])


def test_a_label_without_names_teaches_every_lane_that_predicted_its_id():
    log = Log()
    task = task_of(log)
    rows = {("m", "1"): ROW, ("m", "2"): [0.1, 0.8, 0.1], ("n", "1"): [0.2, 0.2, 0.6]}
    records = [
        prediction(i, row, b"7", model=model, version=version)
        for i, ((model, version), row) in enumerate(rows.items())
    ]
    result = task.handle([*records, prediction(3, ROW, b"8"), label(0, "b", b"7", model="m")])
    log.commit(task)

    def learned():
        return {tuple(name): one.corrector.n_labels for name, one in log.replica.lanes.items()}

    assert learned() == {("m", "1"): 1, ("m", "2"): 1, ("n", "1"): 0}  # of one model alone
    assert (task.counts.matched, task.counts.unmatched, len(result.delays)) == (1, 0, 1)
    task.handle([label(1, "b", b"7")])  # of those that wait still
    log.commit(task)
    assert learned() == {("m", "1"): 1, ("m", "2"): 1, ("n", "1"): 1}
    task.handle([label(2, "b", b"7"), label(3, "b", b"7", model="n", version="1")])
    log.commit(task)
    assert learned() == {("m", "1"): 1, ("m", "2"): 1, ("n", "1"): 1}
    assert (task.counts.matched, task.counts.unmatched, task.counts.repeated) == (2, 0, 2)


def test_a_label_that_no_lane_predicted_teaches_nobody():
    log = Log()
    task = task_of(log)
    taught(log, task, 3)
    before = log.replica.lane(LaneName("m", "1")).corrector.to_bytes()
    says = [{}, {"model": "m"}, {"model": "m", "version": "7"}, {"model": "q", "version": "1"}]
    task.handle([label(10 + i, "a", b"gone", **names) for i, names in enumerate(says)])
    log.commit(task)
    assert log.replica.lane(LaneName("m", "1")).corrector.to_bytes() == before
    assert task.counts.unmatched == 4
    task.handle([label(20, "a", b"gone", model="m", version="1")])
    log.commit(task)
    assert log.replica.lane(LaneName("m", "1")).corrector.to_bytes() != before  # its class mix


def test_two_versions_are_compared_on_the_ids_that_both_predicted():
    log = Log()
    task = task_of(log)
    rng = np.random.default_rng(3)
    rows, hits = {"1": [], "2": []}, []
    for i in range(300):
        name, key = CLASSES[rng.integers(3)], b"%d" % i
        for at, version in ((2 * i, "1"), (2 * i + 1, "2")):
            row = rng.dirichlet(np.where(np.array(CLASSES) == name, 1 + at % 2, 0.7))
            task.handle([prediction(at, row.tolist(), key, version=version)])
            rows[version].append((row / row.sum(), CLASSES.index(name)))
        task.handle([label(i, name, key)])
    ((pair, found),) = task.lanes.versions.take().items()
    assert (pair.model, pair.version, pair.other, found.n) == ("m", "1", "2", 300)
    raw = found.changes(sent=False)
    for version, accuracy, loss in (
        ("1", raw.accuracy.before, raw.log_loss.before),
        ("2", raw.accuracy.after, raw.log_loss.after),
    ):
        hits = [row.argmax() == y for row, y in rows[version]]
        losses = [-np.log(max(row[y], 1e-6)) for row, y in rows[version]]
        assert accuracy == pytest.approx(np.mean(hits))
        assert loss == pytest.approx(np.mean(losses))
    assert raw.accuracy.rose
    assert found.changes(sent=True).accuracy.stretches >= 5


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(0, 2**32))
def test_a_comparison_is_the_same_however_its_rows_come(sizes, seed):
    """Of as many parts as change() needs, in bounded memory."""
    rng = np.random.default_rng(seed)
    whole, pieces, rows = Comparison(), Comparison(), []
    for size in [*sizes, 3000]:
        later = Comparison()
        for _ in range(size):
            first, other = rng.random(4).tolist(), rng.random(4).tolist()
            rows.append([1, *first, *other])
            whole.add(first, other)
            later.add(first, other)
        pieces.update(later)
    sums = np.array(rows)
    for found in (whole, pieces):
        assert found.n == len(rows)
        assert len(found._parts) < 240
        change = found.changes(sent=False).accuracy
        assert change.before == pytest.approx(sums[:, 1].mean())
        assert change.after == pytest.approx(sums[:, 5].mean())
        assert change.stretches >= 25


# ---- bounds


def test_more_lanes_than_max_lanes_drop_the_one_that_was_silent_longest():
    log = Log(max_lanes=3)
    task = task_of(log)
    for i, model in enumerate(["x", "y", "z", "x"]):
        taught(log, task, 2, 10 * i, model=model)
    task.handle([prediction(100, ROW, b"w", time=2 * HOUR, model="w")])
    log.commit(task)
    assert [name.model for name in log.replica.lanes] == ["z", "x", "w"]
    assert log.replica.dropped == 1
    # It comes back as a new one, and the task's lane with it.
    (out,) = task.handle([prediction(101, ROW, b"y", time=4 * HOUR, model="y")]).outputs
    assert json.loads(out.value)["probs"] == Corrector(CLASSES).correct_one(ROW).tolist()
    log.commit(task)
    assert [name.model for name in log.replica.lanes] == ["x", "w", "y"]
    assert log.left == [None] * len(log.left)


def test_what_was_made_for_a_lane_of_before_is_left_out():
    log = Log(max_lanes=1)
    task, other = task_of(log), task_of(log)
    taught(log, task, 2, model="x")
    task.handle([prediction(10, ROW, b"1", model="x"), label(10, "a", b"1")])
    other.handle([prediction(10, ROW, b"1", time=2 * HOUR, model="y")])
    log.commit(other)  # which drops x
    parts, end = task.take_all()
    ((mark, part),) = parts
    assert mark.begun == -1  # it knows
    stale = entry.LaneMark("x", "1", begun=1)
    data = entry.entries(part.corrector, 3, [(0, part, end)], app=IDENTITY.mark, lane=stale)
    log.write(*data)
    assert "of before lane x 1 was dropped" in log.left[-1].reason
    assert not log.left[-1].foreign
    assert [name.model for name in log.replica.lanes] == ["y"]


def test_a_typo_that_makes_every_record_a_model_drowns_nobody():
    log = Log(max_lanes=20)
    task = task_of(log)
    letters = 0
    for i in range(0, 2000, 10):
        records = [prediction(j, ROW, b"%d" % j, model=f"id-{j}") for j in range(i, i + 10)]
        result = task.handle(records)
        letters += len(result.dead_letters)
        log.commit(task)
    assert len(log.replica.lanes) == 20
    assert letters == 1980
    reason = dict(result.dead_letters[0].headers)["__connect.errors.exception.message"].decode()
    assert "20 models and versions began within an hour, which is max_lanes" in reason
    assert len(list(task.lanes)) <= 21
    later = task.handle([prediction(5000, ROW, b"5000", time=2 * HOUR, model="late")])
    assert len(later.outputs) == 1  # in another hour there is room


def test_lanes_share_the_bound_of_recent_predictions():
    """Oldest out first, over all lanes: as a task with one lane keeps them."""
    bytes_each = 8 * 3 + 2
    log = Log()
    task = task_of(log, recent_bytes=10 * bytes_each)
    models = ["x", "y", "x", "z"] * 10
    for i, model in enumerate(models):
        task.handle([prediction(i, ROW, b"%02d" % i, model=model)])
    assert task.oldest == 30
    kept = {lane.name.model: len(lane.recent) for lane in task.lanes if lane.name.model}
    assert kept == {model: models[30:].count(model) for model in "xyz"}
    # One id again and again leaves nothing behind.
    for i in range(100, 5000):
        task.handle([prediction(i, ROW, b"00", model="x")])
    assert len(task.lanes._bound._order) < 2100
    assert task.oldest == 31


# ---- what is wrong


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"model": ...}, "no 'model', which names the model"),
        ({"version": None}, "no 'version', which names the version"),
        ({"model": {"name": "m"}}, "model: an object"),
        ({"model": 0.5}, "model: 0.5 is a measurement"),
        ({"version": ""}, "version: empty, expected the name of a version"),
        ({"model": "m" * 201}, "model: 201 characters, expected the name of a model"),
    ],
)
def test_a_prediction_that_does_not_say_whose_it_is_is_a_dead_letter(more, reason):
    task = task_of(Log())
    result = task.handle([prediction(0, ROW, **more), prediction(1, ROW)])
    assert len(result.outputs) == len(result.dead_letters) == 1
    (letter,) = result.dead_letters
    headers = dict(letter.headers)
    assert reason in headers["__connect.errors.exception.message"].decode()


def test_models_that_are_not_listed_may_be_refused():
    fleet = Fleet({"m": None}, only_listed=True)
    result = task_of(Log(), fleet=fleet).handle([prediction(0, ROW), prediction(1, ROW, model="n")])
    (letter,) = result.dead_letters
    reason = dict(letter.headers)["__connect.errors.exception.message"].decode()
    assert reason.startswith("model 'n' has no table [models.n], and only_listed_models refuses")


def test_a_lane_needs_a_log():
    with pytest.raises(ValueError, match="learns from the replica of a log"):
        Task(Corrector(CLASSES), fields=FIELDS)


def test_what_lanes_have_to_teach_is_taken_lane_by_lane():
    task = task_of(Log())
    task.handle([prediction(0, ROW, b"1"), prediction(1, ROW, b"1", version="2")])
    with pytest.raises(ValueError, match="take: the task has lanes; take_all gives"):
        task.take()
    parts, end = task.take_all()
    assert (len(parts), end) == (2, (2, 0))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"model": "a..b"}, r"model: 'a..b' is no field name"),
        ({"model": "header:"}, r"model: 'header:' is no field name"),
        ({"model": "probs"}, r"'probs' is two things at once"),
        ({"model": "x", "version": "x"}, r"version: 'x' is the place of the model"),
        ({"model": "x", "version": "x.y"}, r"'x' is two things at once"),
    ],
)
def test_places_that_cannot_be(given, reason):
    with pytest.raises(ValueError, match=reason):
        Fields(**given)


# ---- classes of their own


def test_a_model_with_a_table_has_its_classes_and_settings():
    own = Corrector(["yes", "no"], train_counts=[1, 3], half_life=50.0)
    log = Log(models={"own": {"half_life": 50.0}, "slow": {"half_life": 7000.0}})
    task = task_of(log, fleet=Fleet({"own": own.to_bytes(), "slow": None}))
    records = [prediction(0, [0.6, 0.4], b"1", model="own"), prediction(1, ROW, model="slow"),
               prediction(2, ROW, model="any"), label(0, "yes", b"1")]  # fmt: skip
    result = task.handle(records)
    assert not result.dead_letters
    log.commit(task)
    lanes = {name.model: one.corrector for name, one in log.replica.lanes.items()}
    assert {model: one.settings["half_life"] for model, one in lanes.items()} == {
        "own": 50.0, "slow": 7000.0, "any": Corrector(CLASSES).settings["half_life"]
    }  # fmt: skip
    assert (lanes["own"].classes, lanes["own"].n_labels) == (("yes", "no"), 1)
    log.write(
        entry.settings(
            {"threshold": 0.5}, 1, app=IDENTITY.mark, fleet=FleetTerms(9, {"any": {"k": 2}})
        )
    )
    lanes = {name.model: one.corrector.settings for name, one in log.replica.lanes.items()}
    assert {one["threshold"] for one in lanes.values()} == {0.5}
    assert (lanes["any"]["k"], lanes["own"]["k"]) == (2, Corrector(CLASSES).settings["k"])
    assert lanes["slow"]["half_life"] == Corrector(CLASSES).settings["half_life"]


def named(row, names):
    return dict(zip(names, row, strict=True))


def by_message(log, **options):
    fleet = Fleet(of_classes=lambda names: Corrector(names).to_bytes())
    return task_of(log, fleet=fleet, **options)


def test_messages_may_name_the_classes():
    """Until the log has them rows go unchanged; two partitions may see others first."""
    log = Log(Corrector([""]))
    first, second = by_message(log), by_message(log)
    row = {"cat": 0.4, "dog": 0.6}
    (out,) = first.handle([prediction(0, row, b"1"), label(0, "dog", b"1")]).outputs
    assert json.loads(out.value)["probs"] == row
    (out,) = second.handle([prediction(0, {"dog": 0.5, "cat": 0.3, "cow": 0.2}, b"1")]).outputs
    ((mark, part),), end = second.take_all()
    late = entry.entries(part.corrector, 1, [(1, part, end)], app=IDENTITY.mark, lane=mark)
    log.commit(first)
    log.write(*late)
    lane = log.replica.lane(LaneName("m", "1")).corrector
    assert (lane.classes, lane.n_labels) == (("cat", "dog"), 1)
    assert [left is None for left in log.left] == [True, True, False]
    assert "lane m 1 began otherwise" in log.left[-1].reason
    assert not log.left[-1].foreign
    result = second.handle([prediction(1, {"dog": 0.7, "cat": 0.3}), prediction(2, {"cow": 1.0})])
    corrected = lane.correct_one([0.3, 0.7]).tolist()
    assert json.loads(result.outputs[0].value)["probs"] == named(corrected[::-1], ["dog", "cat"])
    (letter,) = result.dead_letters
    assert (
        b"'cow' is none of the 2 classes"
        in dict(letter.headers)["__connect.errors.exception.message"]
    )
    # A version with other classes begins anew; one with the same goes on.
    first.handle([prediction(5, {"cat": 0.3, "dog": 0.2, "cow": 0.5}, version="2"),
                  prediction(6, {"dog": 0.3, "cat": 0.7}, version="3")])  # fmt: skip
    log.commit(first)
    lanes = {name.version: one for name, one in log.replica.lanes.items()}
    assert (lanes["2"].after, lanes["3"].after) == (None, "1")
    assert lanes["2"].corrector.classes == ("cat", "dog", "cow")


def test_classes_that_nobody_names_are_asked_for():
    result = by_message(Log(Corrector([""]))).handle(
        [prediction(0, ROW), prediction(1, {"a": 1.0})]
    )
    reasons = [dict(one.headers)["__connect.errors.exception.message"].decode()
               for one in result.dead_letters]  # fmt: skip
    assert len(reasons) == 2
    for reason in reasons:
        assert "model 'm': its classes are not known; give them under [models.m]" in reason


# ---- positions


def test_positions_go_on():
    """With what was sent, the requests and the lanes of before; predictions that were refused do
    not come back by being read again."""
    log = Log(max_lanes=2)
    options = {"requests": LabelRequests(0.5)}
    task = task_of(log, **options)
    records = [prediction(i, [0.4, 0.35, 0.25], b"%d" % i, model="xyz"[i % 3]) for i in range(60)]
    result = task.handle(records)
    assert {json.loads(out.value)["model"] for out in result.outputs} == {"x", "y"}
    log.commit(task)
    stored = task.positions(log.replica.offset)
    again = Task.from_bytes(
        stored, replica=log.replica, labels_topic="labels", fields=FIELDS, **options
    )
    assert again.oldest == 0
    again.rebuild(records)
    again.lanes.recall(
        Record("out", 0, i, out.timestamp, out.key, out.value, out.headers)
        for i, out in enumerate(result.outputs)
    )
    for lane in task.lanes:
        (same,) = [one for one in again.lanes if one.name == lane.name]
        assert len(same.recent) == len(lane.recent)
        assert len(same.open_requests) == len(lane.open_requests)
    assert "z" not in {lane.name.model for lane in again.lanes}
    more = [prediction(i, [0.4, 0.35, 0.25], b"%d" % i, model="xy"[i % 2]) for i in range(60, 120)]
    more += [label(i, "a", b"%d" % i) for i in range(100)]
    one, two = task.handle(more), again.handle(more)
    assert bare(one.outputs) == bare(two.outputs)
    assert bare(one.requests) == bare(two.requests)
    assert one.answered == two.answered > 0
    log.commit(task)
    assert task.positions() == again.positions() or task.counts != again.counts


def test_a_lane_that_nobody_has_read_back_yet_is_rebuilt():
    """Its first entry may be read later than the positions of the same transaction."""
    log = Log()
    task = task_of(log)
    records = [prediction(i, ROW, b"%d" % i, model="new") for i in range(5)]
    task.handle(records)
    again = Task.from_bytes(
        task.positions(), replica=log.replica, labels_topic="labels", fields=FIELDS
    )
    again.rebuild(records)
    log.commit(task)
    again.handle([label(0, "a", b"3")])
    log.commit(again)
    assert again.counts.matched == 1
    assert log.replica.lane(LaneName("new", "1")).corrector.n_labels == 1
    assert read_head(again.positions()).lanes == []


def test_a_log_that_begins_anew_drops_the_lanes_but_those_that_are_kept():
    log = Log()
    task = task_of(log)
    taught(log, task, 30, model="x")
    taught(log, task, 30, 100, model="y")
    kept = log.replica.lane(LaneName("x", "1")).corrector.to_bytes()
    log.write(
        entry.start(
            Corrector(CLASSES).to_bytes(), reset=True, identity=IDENTITY, fleet=FleetTerms(9)
        ),
        entry.keep(IDENTITY.mark, LaneName("x", "1"), kept),
    )
    assert task.stale
    (lane,) = log.replica.lanes.items()
    assert (lane[0].model, lane[1].corrector.to_bytes()) == ("x", kept)
