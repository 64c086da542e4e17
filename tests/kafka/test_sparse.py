"""Sparse rows between topics: on a real broker."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_can.kafka.backfill import backfill
from stream_can.kafka.engine import States
from stream_can.kafka.pending import PendingRequests
from stream_can.learner import Learner, read_sent
from stream_can.learner.model_name import ONLY
from stream_can.learner.sent import SentBatch
from stream_can.sparse import SparseCorrector
from stream_can.sparse.blob import SparseBlob
from tests.kafka.broker.broker import Served
from tests.kafka.judge import State, states_of
from tests.kafka.server_chaos import learned, ready, server_of
from tests.kafka.streams import STAMP, App, caught_up, label
from tests.kafka.topics import produce, read
from tests.programs import wait

MOST = 80


def row_of(rng: random.Random) -> tuple[dict[str, float], str]:
    """A row of an over-confident classifier that lists a few classes, and the true class."""
    listed = rng.sample(range(40), rng.randint(1, 6))
    scores = [rng.expovariate(1.0) ** 2 for _ in range(len(listed) + 1)]
    probs = {f"ü{k}": p / sum(scores) for k, p in zip(listed, scores, strict=False)}
    truth = rng.choice([*probs, *probs, f"ü{rng.randrange(50)}"])
    return probs, truth


def spread(app: App, first: int, n: int, delay: int = 40) -> None:
    """Predictions a millisecond apart, and their labels so much later."""
    rng, rows, labels = random.Random(first), [], []
    for i in range(first, first + n):
        probs, truth = row_of(rng)
        key, value = b"k%d" % i, json.dumps({"id": i, "probs": probs}).encode()
        rows.append((app.given["input"], i % app.partitions, key, value, [], STAMP + i))
        to, when = i % app.label_partitions, STAMP + i + delay
        labels.append((app.given["labels"], to, key, label(truth), [], when))
    produce(app.servers, rows, labels)


def app_of(broker: Served, **settings: Any) -> App:
    given = {"rows": "sparse", "classes": None, "max_classes": MOST} | settings
    return App(broker.bootstrap_servers, **{"label_partitions": 3, **given})


def corrector_in(state: State) -> SparseCorrector:
    data = state.lanes.get(ONLY) or state.begins[None]
    return SparseCorrector.from_bytes(data)


def made_by(state: State) -> Callable[[dict[str, float]], Any]:
    return corrector_in(state).correct_one


def batches_of(app: App) -> list[SentBatch]:
    """What the workers sent, partition by partition."""
    topic = f"{app.id}-sent"
    return [read_sent(x.value) for p in range(app.partitions) for x in read(app.servers, topic, p)]


def replayed(app: App, last: SparseCorrector) -> SparseCorrector:
    """One that plays the input and its labels in the order of their times, a row with the receipt
    that lies in the topic; it knows the names in the order in which the last state does."""
    receipts = {}
    for batch in batches_of(app):
        assert {lane.classes for lane in batch.versions} <= {()}
        for place, k, id in zip(batch.places().tolist(), batch.of.tolist(), batch.ids, strict=True):
            receipts[id] = SparseBlob(batch.versions[k].rows[place].tobytes()).receipt
    inputs, labels = app.given["input"], app.given["labels"]
    rows = [x for p in range(app.partitions) for x in read(app.servers, inputs, p)]
    said = [x for p in range(app.label_partitions) for x in read(app.servers, labels, p)]
    probs = {one.key: json.loads(one.value)["probs"] for one in rows}
    plain = SparseCorrector("any", max_classes=MOST)
    plain.ids_of(last.names or ())
    events = [(one.timestamp, 0, one) for one in rows] + [(one.timestamp, 1, one) for one in said]
    for _, kind, one in sorted(events, key=lambda event: event[:2]):
        if kind == 0:
            plain.process_one(probs[one.key])
        else:
            truth = json.loads(one.value)["label"]
            plain.learn_one(probs[one.key], truth, receipt=receipts[one.key])
    return plain


def test_every_output_and_the_last_state(broker: Served) -> None:
    """Learners and workers change, a learner goes on with predictions that wait for a label."""
    # Of several partitions rows are learned as they come.
    app = app_of(broker, partitions=1, backlog="lagging")
    learner, worker = app.learner(), app.worker(learn=False)
    spread(app, 0, 300)
    caught_up(app, learner, worker)
    learner.stop()
    spread(app, 1000, 200, delay=20)
    second, third = app.learner("1"), app.worker("1", learn=False)
    caught_up(app, second, worker, third)
    for one in (second, worker, third):
        one.stop()
    states = states_of(app.servers, f"{app.id}-state")
    by_number = {state.number: made_by(state) for state in states}
    numbers, outputs = set(), 0
    for partition in range(app.partitions):
        for one in app.outputs(partition):
            says, outputs = json.loads(one.value), outputs + 1
            number = int(dict(one.headers)["stream-can-state"])
            probs, rest = by_number[number](says["probs_raw"])
            assert (says["probs"], says["rest"]) == (probs, rest)
            numbers.add(number)
    assert (outputs, len(numbers) > 1) == (500, True)
    last = corrector_in(states[-1])
    assert last.n_labels == 500
    assert last.to_bytes() == replayed(app, last).to_bytes()


def test_history_comes_out_as_through_the_pipe(broker: Served) -> None:
    app = app_of(broker, partitions=1)
    spread(app, 0, 600)
    running = app.worker()
    caught_up(app, running)
    running.stop()
    lines = [
        (record.timestamp, kind, record)
        for kind, topic in enumerate((app.given["input"], app.given["labels"]))
        for p in range(1 if kind == 0 else app.label_partitions)
        for record in read(app.servers, topic, p)
    ]
    given = "".join(
        json.dumps(json.loads(record.value) | {"id": record.key.decode()}) + "\n"
        for *_, record in sorted(lines, key=lambda line: line[:2])
    )
    command = [sys.executable, "-m", "stream_can", "pipe", "--rows", "sparse"]
    done = subprocess.run(
        [*command, "--max-classes", str(MOST)], input=given, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    expected = [(one["probs"], one["rest"]) for one in map(json.loads, done.stdout.splitlines())]
    outputs = [json.loads(one.value) for one in app.outputs(0)]
    assert len(outputs) == 600
    assert [(one["probs"], one["rest"]) for one in outputs] == expected
    topic = read(app.servers, f"{app.id}-sent", 0)
    assert any("stream-can-deferred" in dict(one.headers) for one in topic)


def test_more_classes_than_there_may_be(broker: Served) -> None:
    """Dead letters of rows and labels that name them; what is known goes on."""
    app = app_of(broker, max_classes=20)
    running = app.worker()
    spread(app, 0, 200)
    caught_up(app, running)
    wait("full", lambda: running.learning().learner.numbering.n_named == 20)
    known = running.learning().learner.numbering.names_from(0)
    rows = [
        (app.given["input"], 0, b"x", json.dumps({"probs": {name: 0.5}}).encode(), [], STAMP + 999)
        for name in (known[0], "new")
    ]
    before = sum(len(app.outputs(p)) for p in range(app.partitions))
    produce(app.servers, rows)
    caught_up(app, running)
    running.stop()
    assert sum(len(app.outputs(p)) for p in range(app.partitions)) == before + 1
    letters = [x for p in range(2) for x in read(app.servers, f"{app.id}-dead-letters", p)]
    (why,) = [
        dict(x.headers)["__connect.errors.exception.message"] for x in letters if b"new" in x.value
    ]
    assert b"max_classes" in why


@pytest.mark.parametrize("settings", [{}, {"max_classes": None, "n_classes": 60}], ids=str)
def test_label_requests_are_answered_by_name(broker: Served, settings: dict[str, Any]) -> None:
    app = app_of(broker, ask=1.0, **settings)
    names = (["7", "9"], "33") if settings else (["cat", "dog"], "eel")
    running = app.worker()
    probs = dict(zip(names[0], (0.5, 0.2), strict=True))
    value = json.dumps({"id": "a", "probs": probs}).encode()
    produce(app.servers, [(app.given["input"], 0, b"a", value, [], STAMP)])
    caught_up(app, running)
    pending = PendingRequests(app.settings())
    stopped: list[int] = []
    reads = threading.Thread(target=pending.follow, args=(lambda: bool(stopped),), daemon=True)
    reads.start()
    try:
        (one,) = wait("asked", lambda: pending.first(5)[1])
        assert {str(name) for name in pending.classes_of(one)} >= {*names[0]}
        assert len(one.says.probs) == len(pending.classes_of(one))
        assert pending.knows(names[1])
        pending.answer(one.partition, one.offset, names[1])
    finally:
        stopped.append(1)
        reads.join()
        pending.close()
    wait("learned", lambda: running.n_labels() == 1)
    running.stop()


def test_servers_without_a_file(broker: Served, tmp_path: Path) -> None:
    app, rng = app_of(broker, served=True, partitions=1), random.Random(5)
    learner, answers = app.learner(), []
    with server_of(app, tmp_path, "a") as a, server_of(app, tmp_path, "b") as b:
        ready(a, b)
        for i in range(120):
            probs, truth = row_of(rng)
            answer = rng.choice([a, b]).client.post("/correct", json={"id": f"{i}", "probs": probs})
            answers.append((probs, answer.json(), int(answer.headers["stream-can-state"])))
            rng.choice([a, b]).client.post("/labels", json={"id": f"{i}", "label": truth})
        learned(app, learner, 120)
        assert a.client.get("/status.json").status_code == 200
        assert a.client.get("/").status_code == 200
        assert b.client.get("/metrics").status_code == 200
    learner.stop()
    by_number = {x.number: made_by(x) for x in states_of(app.servers, f"{app.id}-state")}
    for probs, says, number in answers:
        better = by_number[number](probs)
        assert (says["probs"], says["rest"]) == better
    assert len({number for *_, number in answers}) > 1
    with States([app.servers], app.id) as states:
        made = states.newest().correct([{"ü1": 0.5, "other": 0.1}])
    (better, _) = made.rows[0]
    assert [*better][:2] == ["ü1", "other"]


def test_a_state_goes_on_with_other_settings_only_where_it_may(broker: Served) -> None:
    app = app_of(broker)
    running = app.worker()
    spread(app, 0, 20)
    caught_up(app, running)
    running.stop()
    again = app.worker(half_life=100)
    again.thread.join(60)
    assert "half_life" in str(again.error)
    again.error = None


@pytest.mark.fast
def test_classes_of_another_process_get_numbers_here() -> None:
    ours, theirs = (SparseCorrector("any", max_classes=6) for _ in range(2))
    learner = Learner(ours)
    ours.ids_of(["b", "z"])
    own, adapter = learner.numbering, Learner(theirs).numbering
    rows = adapter.given_rows([{"a": 0.5, "b": 0.25}, {"b": 0.5}])
    lane = adapter.sent_version(ONLY, rows, *adapter.corrected(rows, None)[:2])
    assert (lane.classes, lane.named) == ((), ("a", "b"))
    adapter.require_sent(lane)
    adopted, kept = own.adopted(lane)
    assert kept.tolist() == [True, True]
    assert (adopted.named, ours.names) == ((), ["b", "z", "a"])
    raw, sent, classes = own.listed(adopted, 0)
    assert (raw, classes[:2]) == ([0.5, 0.25], ["a", "b"])
    assert sent == [*theirs.correct_one({"a": 0.5, "b": 0.25}).probabilities.values()]
    many = adapter.given_rows([{"c": 0.5}, dict.fromkeys("cdef", 0.2), {"b": 0.5}])
    some, kept = own.adopted(adapter.sent_version(ONLY, many, *adapter.corrected(many, None)[:2]))
    assert (kept.tolist(), len(some.rows)) == ([True, False, True], 2)
    assert ours.names == ["b", "z", "a", "c", "d", "e"]  # full, so that others say so


@pytest.mark.fast
@pytest.mark.parametrize("named", [("a",), ("a", "a"), ("a", 7), ("a", "b", "c\ud800")], ids=str)
def test_classes_that_no_process_can_have_sent(named: tuple[Any, ...]) -> None:
    adapter = Learner(SparseCorrector("any", max_classes=6)).numbering
    rows = adapter.given_rows([{"a": 0.5, "b": 0.25}])
    lane = adapter.sent_version(ONLY, rows, *adapter.corrected(rows, None)[:2])
    with pytest.raises(ValueError, match=r"."):
        adapter.require_sent(lane._replace(named=named))


def test_a_history_is_the_first_state(broker: Served) -> None:
    """What backfill learned goes on, with the predictions that wait for a label."""
    app = app_of(broker)
    spread(app, 0, 200, delay=100_000)
    done = backfill(app.settings(), start_group=True)
    assert done.tally.counts["corrected"] == 200
    known = done.learning.learner.numbering.n_named
    running = app.worker()
    spread(app, 1000, 50)
    caught_up(app, running)
    learner = running.learning().learner
    running.stop()
    assert learner.numbering.n_named >= known > 30
    (one,) = learner.live.values()
    assert one.corrector.n_predictions == 250
    assert one.corrector.n_labels == 250
