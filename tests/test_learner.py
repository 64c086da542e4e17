"""The learner: equal to the plain one, whatever the order; bounded; shared by threads."""

from __future__ import annotations

import math
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import (
    Corrector,
    InvalidPrediction,
    Learner,
    SnapshotMismatch,
    UnknownClass,
    snapshot,
)
from stream_can.learner import LateLabel, read_labels, read_sent, write_labels
from stream_can.learner.sent import SentBatch
from stream_can.multilabel import MultiLabelCorrector
from tests.examples import examples
from tests.learner_oracle import OracleLearner

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c"]
OPTIONS = st.fixed_dictionaries(
    {"recent_mb": st.sampled_from([64, 0.01, 0.003]), "ask": st.sampled_from([None, None, 0.5]),
     "label_wait": st.sampled_from([0, 5.0]), "max_lanes": st.sampled_from([1000, 2, 1])}
)  # fmt: skip


def script(data, lanes, columns):
    """Events in any order: predictions, labels, unknown ids, repeats, rows with labels, cuts."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    found, clock = [], 0.0
    for _ in range(data.draw(st.integers(1, 80))):
        clock += float(rng.choice([0.0, 0.5, 3.0, 8.0]))
        kind = rng.choice(
            ["row", "row", "rows", "label", "label", "labels", "brings", "cut", "both", "both"]
        )
        lane = lanes[rng.integers(len(lanes))]
        ids = [[1, "1", b"x", "e", 7, "f", "g", None][k] for k in rng.integers(8, size=4)]
        P = rng.dirichlet(np.full(3, 0.6), 4)
        given_ = [{"t": f"v{k}"} if columns else None for k in rng.integers(3, size=4)]
        times = None if rng.random() < 0.2 else [clock + i for i in range(4)]
        names = [CLASSES[k] for k in rng.integers(3, size=4)]
        of = lane if rng.random() < 0.7 or lane == (None, None) else (lane[0], None)
        of = None if rng.random() < 0.2 else of
        if kind == "both":
            whose = [lanes[k] for k in rng.integers(len(lanes), size=4)]
            found.append((kind, whose, between(rng, lanes), ids, P, given_, times, names))
        else:
            found.append((kind, lane, of, ids, P, given_, times, names))
    return found


def between(rng, lanes):
    """Labels between four rows: of kept ones, of some of the four, some that bring their own."""
    found = []
    for due in sorted(rng.integers(5, size=rng.integers(6)).tolist()):
        lane = lanes[rng.integers(len(lanes))] if rng.random() < 0.6 else (None, None)
        one = LateLabel(
            [1, "1", b"x", "e", 7, "f", "g", None][rng.integers(8)], CLASSES[rng.integers(3)], due,
            model=lane[0], version=lane[1], time=float(due) if rng.random() < 0.8 else None,
        )  # fmt: skip
        if due and rng.random() < 0.3:
            one.of = int(rng.integers(due))
        elif rng.random() < 0.3:
            one.row = rng.dirichlet(np.full(3, 0.6))
        found.append(one)
    return found


def play_both(learner, oracle, event):
    """Rows, and labels between them, in one call."""
    _, whose, labels, ids, P, columns, times, _ = event
    expected, outcomes, labels = [], [], list(labels)
    for i in range(5):
        for one in [one for one in labels if one.due == i]:
            named = None if (one.model, one.version) == (None, None) else (one.model, one.version)
            if one.of is not None:
                outcomes.append(oracle.own_label(expected[one.of][3], one.label))
            else:
                outcomes.append(oracle.label(one.id, one.label, one.row, None, named, one.time))
        if i < 4:
            time = None if times is None else times[i]
            found = oracle.correct(ids[i], P[i], columns[i], whose[i], time)
            expected.append((*found, oracle.last))
    table = None if columns[0] is None else {"t": [one["t"] for one in columns]}
    found = learner.play(ids, P, labels, segments=table, lanes=whose, times=times)
    assert found.rows.tolist() == [row.tolist() for row, *_ in expected]
    assert found.asked == [asked for _, _, asked, _ in expected]
    sets = [names for _, names, *_ in expected]
    assert found.sets == (None if sets[0] is None else sets)
    assert found.outcomes == outcomes


def play(learner, oracle, event):
    """One event through both; they answer alike."""
    kind, lane, of, ids, P, columns, times, names = event
    if kind == "both":
        play_both(learner, oracle, event)
        return
    n = 4 if kind in ("rows", "labels") else 1
    times = [None] * 4 if times is None else times
    if kind in ("row", "rows"):
        expected = [oracle.correct(ids[i], P[i], columns[i], lane, times[i]) for i in range(n)]
        options = {"model": lane[0], "version": lane[1]}
        if kind == "row":
            row = learner.process(ids[0], P[0], segments=columns[0], time=times[0], **options)
            assert row.tolist() == expected[0][0].tolist()
            return
        table = None if columns[0] is None else {"t": [one["t"] for one in columns]}
        found = learner.process_many(ids, P, segments=table, times=times, **options)
        assert found.rows.tolist() == [row.tolist() for row, _, _ in expected]
        assert found.sets == (
            None if expected[0][1] is None else [names for _, names, _ in expected]
        )
        assert found.asked == [asked for _, _, asked in expected]
        return
    if kind == "cut":
        return
    named = None if of in (None, (None, None)) else of
    options = {} if named is None else {"model": named[0], "version": named[1]}
    expected = [
        oracle.label(ids[i], names[i], P[i] if kind == "brings" else None,
                     columns[i] if kind == "brings" else None, named, times[i])
        for i in range(n)
    ]  # fmt: skip
    if kind == "labels":
        assert learner.label_many(ids, names, times=times, **options) == expected
        return
    more = {"row": P[0], "segments": columns[0]} if kind == "brings" else {}
    assert learner.label(ids[0], names[0], time=times[0], **more, **options) == expected[0]


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_equals_the_plain_one_in_any_order(data):
    lanes = data.draw(
        st.sampled_from([[(None, None)], [("m", "1"), ("m", "2"), ("n", None)], [("m", "1")]])
    )
    columns, sets = data.draw(st.booleans()), data.draw(st.sampled_from([None, 0.8]))
    options = data.draw(OPTIONS)
    made = {"segments": ["t"] if columns else None, "sets": sets, "half_life": 50.0}
    learner = Learner(Corrector(CLASSES, **made), **options)
    oracle = OracleLearner(Corrector(CLASSES, **made), **options)
    learner.keep_events()
    state, batches, since = learner.state(), [], []
    for event in script(data, lanes, columns):
        play(learner, oracle, event)
        if event[0] == "cut":
            again = Learner.from_bytes(learner.to_bytes())
            assert again.to_bytes() == learner.to_bytes()
            events = learner.take_events()
            sent, labels = read_sent(events.sent.to_bytes()), write_labels(events.labels)
            since.append(events._replace(sent=sent, labels=read_labels(labels)))
            restarted = Learner.from_state(state, batches)
            for events in since:
                restarted.play_events(events)
            assert restarted.to_bytes() == learner.to_bytes()
            learner = again if data.draw(st.booleans()) else restarted
            recent = learner.keep_events()
            if data.draw(st.booleans()):
                state, since, batches = learner.state(), [], [recent]
            if data.draw(st.booleans()):
                state, since, batches = learner.state(), [], batches + [one.sent for one in since]
                batches = [one for one in batches if max(one.numbers, default=-1) >= learner.oldest]
        same(learner, oracle)


def same(learner, oracle):
    assert learner.waiting == len({(one["lane"], one["id"]) for one in oracle.recent})
    assert learner.bytes_kept == sum(one["size"] for one in oracle.recent) <= oracle.bound
    open_ = {(lane, id) for lane, ids in learner.requests.items() for id in ids}
    assert open_ == set(oracle.open)
    kept = learner.correctors if oracle.correctors else {}
    assert kept == {lane: one.to_bytes() for lane, one in oracle.correctors.items()}
    scores = learner.scores.values()
    assert learner.dropped == oracle.dropped
    for (raw, sent), (before, after) in zip(scores, oracle.scores.values(), strict=False):
        assert raw.n == before.n
        assert raw.log_loss_sum == pytest.approx(before.log_loss_sum)
        assert sent.brier_sum == pytest.approx(after.brier_sum)


@pytest.mark.parametrize("seed", range(24))
def test_a_call_is_its_rows_and_labels_one_by_one(seed):
    """Most labels find a prediction that is kept, some before a row of the same id in the call;
    some bring a row, of which no more may be known."""
    rng = np.random.default_rng(seed)
    options = {"recent_mb": [64, 0.02][seed % 2], "ask": [None, None, 0.5][seed % 3]}
    sets = [None, 0.9][seed % 4 // 2]
    together, apart = (Learner(Corrector(CLASSES, sets=sets), **options) for _ in range(2))
    for _ in range(30):
        n = int(rng.integers(0, 9))
        ids = [None if one > 25 else one for one in rng.integers(0, 30, n).tolist()]
        P = rng.dirichlet(np.ones(3), n)
        dues = np.sort(rng.integers(0, n + 1, rng.integers(0, 6))).tolist()
        labels = [
            LateLabel(int(rng.integers(0, 26)), CLASSES[rng.integers(3)], due) for due in dues
        ]
        for label in labels:
            if rng.random() < 0.2:
                label.row = rng.dirichlet(np.ones(3))
        found = together.play(ids, P, labels)
        rows, outcomes, waiting = [], [], list(labels)
        for i in range(n + 1):
            while waiting and waiting[0].due == i:
                one = waiting.pop(0)
                outcomes.append(apart.label(one.id, one.label, row=one.row))
            if i < n:
                rows.append(apart.process(ids[i], P[i]))
        assert np.array_equal(found.rows, np.reshape(rows, (n, 3)))
        assert found.outcomes == outcomes
    assert together.to_bytes() == apart.to_bytes()


def test_a_class_of_a_model_that_has_not_begun_is_none_of_the_others():
    """Its index there is that of another class here."""
    learner = Learner(Corrector(CLASSES))
    learner.start(Corrector(["p", "q", "r"]), "other")
    P, labels = np.full((4, 3), 1 / 3), [LateLabel(0, "q", 2), LateLabel(1, "b", 2)]
    learner.process_many([7, 8], P[:2])
    found = learner.play(range(4), P, labels)
    assert found.outcomes == ["repeated", "learned"]
    assert learner.live[None, None].corrector.n_labels == 1


def test_what_is_refused_changes_nothing():
    learner = Learner(Corrector(CLASSES), label_wait=5)
    learner.process("x", [0.2, 0.3, 0.5])
    before = learner.to_bytes()
    for call, error in [
        (lambda: learner.process("y", [0.5, 0.5]), InvalidPrediction),
        (lambda: learner.process_many(["y", "z"], [[0.2, 0.3, 0.5], [1, 1, 1]]), InvalidPrediction),
        (lambda: learner.process_many(["y"], [[0.2, 0.3, 0.5]] * 2), InvalidPrediction),
        (lambda: learner.process(1.5, [0.2, 0.3, 0.5]), TypeError),
        (lambda: learner.process(True, [0.2, 0.3, 0.5]), TypeError),
        (lambda: learner.process(2**70, [0.2, 0.3, 0.5]), ValueError),
        (lambda: learner.label("x", "teapot"), UnknownClass),
        (lambda: learner.label_many(["x", "q"], ["a", "teapot"]), UnknownClass),
        (lambda: learner.label_many(["x"], ["a", "b"]), ValueError),
        (lambda: learner.label("q", "a", row=[0.5, 0.5]), InvalidPrediction),
    ]:
        with pytest.raises(error):
            call()
        assert learner.to_bytes() == before
    for options in ({"recent_mb": -1}, {"label_wait": -1}, {"label_wait": math.inf}, {"ask": 2}):
        with pytest.raises(ValueError, match=next(iter(options)).replace("ask", "budget")):
            Learner(Corrector(CLASSES), **options)


def test_what_is_refused_begins_no_model():
    learner = Learner(Corrector(CLASSES))
    before = learner.to_bytes()
    for call, error in [
        (lambda: learner.process("x", [0.5, 0.5], model="m"), InvalidPrediction),
        (lambda: learner.process_many(["x"], [[0.2, 0.3, 0.5]] * 2), InvalidPrediction),
        (lambda: learner.label("q", "a", row=[0.5, 0.5]), InvalidPrediction),
        (lambda: learner.label("q", "x", row=[0.2, 0.3, 0.5], model="m"), UnknownClass),
    ]:
        with pytest.raises(error):
            call()
        assert learner.to_bytes() == before


def test_rows_with_names_are_put_in_order():
    learner, corrector = Learner(Corrector(CLASSES)), Corrector(CLASSES)
    named = {"c": 0.5, "a": 0.2, "b": 0.3}
    for row in (named, pd.Series(named)):
        assert learner.process("x", row).tolist() == corrector.process_one(row).tolist()


def test_labels_that_were_taken_leave_nothing_behind():
    learner = Learner(Corrector(CLASSES), label_wait=1e6)
    for i in range(3000):
        assert learner.label(i, "a", time=0.0) == "held"
        learner.process(i, [0.2, 0.3, 0.5], time=0.0)
    assert len(learner._joining.held._due) <= 1001
    assert learner.scores[None, None][0].n == 3000


def test_a_corrector_that_was_fitted_and_its_successor_have_receipts_of_their_own():
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet(np.full(3, 0.5), 400), rng.integers(3, size=400)
    corrector = Corrector(CLASSES)
    corrector.fit(P, [CLASSES[k] for k in y])
    learner = Learner(corrector)
    for version in ("1", "2"):
        learner.process_many(range(50), P[:50], version=version)
    assert learner.label_many(range(50), [CLASSES[k] for k in y[:50]]) == ["learned"] * 50
    again = Learner.from_bytes(learner.to_bytes())
    assert again.to_bytes() == learner.to_bytes()


@pytest.mark.parametrize(("before", "after"), [(None, 0.8), (0.9, 0.8), (0.8, 0.8)])
def test_another_promise_of_sets_keeps_the_rest(before, after):
    P = np.random.default_rng(0).dirichlet(np.full(3, 0.5), 200)
    plain = Learner(Corrector(CLASSES))
    learner = Learner(Corrector(CLASSES, sets=before))
    for one in (plain, learner):
        one.process_many(range(100), P[:100])
    plain, learner = (
        Learner.from_bytes(one.to_bytes(), CLASSES, sets=sets, recent_mb=1)
        for one, sets in ((plain, None), (learner, after))
    )
    for one in (plain, learner):
        assert set(one.label_many(range(100), ["a"] * 100)) == {"learned"}
    rows, sets, *_ = learner.process_many(range(100), P[100:])
    assert rows.tolist() == plain.process_many(range(100), P[100:]).rows.tolist()
    assert sets is not None


def test_it_goes_on_asking_for_as_many_or_for_others():
    learner = Learner(Corrector(CLASSES), ask=0.5)
    P = np.random.default_rng(0).dirichlet(np.full(3, 0.5), 300)
    learner.process_many(range(100), P[:100])
    data = learner.to_bytes()
    asked = learner.process_many(range(100, 300), P[100:]).asked
    assert Learner.from_bytes(data).process_many(range(100, 300), P[100:]).asked == asked
    none, fewer = Learner.from_bytes(data, ask=None), Learner.from_bytes(data, ask=0.05)
    assert not any(none.process_many(range(100, 300), P[100:]).asked)
    found = fewer.process_many(range(100, 300), P[100:]).asked
    assert 0 < len([one for one in found if one]) < len([one for one in asked if one])
    with pytest.raises(SnapshotMismatch, match="classes"):
        Learner.from_bytes(data, ["a", "b", "d"])


def test_what_is_interrupted_is_not_kept(monkeypatch):
    learner = Learner(Corrector(CLASSES))
    P = np.random.default_rng(0).dirichlet(np.full(3, 0.5), 8)
    learner.process_many(range(4), P[:4])
    learner.keep_events()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Corrector, "play", interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.play([4, 5, 3], P[4:7], [LateLabel(1, "a", 1), LateLabel(4, "b", 2)])
    with pytest.raises(ValueError, match="an interrupted call"):
        learner.take_events()
    assert learner.waiting == 3  # of the four that were kept, one is predicted once more
    assert learner.label_many([0, 4, 5, 3], ["a"] * 4) == ["learned", *["unknown"] * 3]
    learner.process(4, P[4])
    assert learner.label(4, "a") == "learned"
    assert Learner.from_bytes(learner.to_bytes()).to_bytes() == learner.to_bytes()


def test_threads_share_it():
    learner = Learner(Corrector(CLASSES))
    P = np.random.default_rng(0).dirichlet(np.ones(3), 400)

    def user(k):
        done = []
        for i in range(k, 400, 4):
            learner.process(i, P[i])
            done.append(learner.label(i, "a"))
            done.append(learner.label(i, "b"))
        return done

    with ThreadPoolExecutor(4) as pool:
        done = {outcome for part in pool.map(user, range(4)) for outcome in part}
        assert done == {"learned", "repeated"}
    assert learner.scores[None, None][0].n == 400


def test_the_alarm_sees_labelled_rows():
    learner, rng = Learner(Corrector(CLASSES)), np.random.default_rng(0)
    P = rng.dirichlet(np.full(3, 0.3), 6000)
    good = P.argmax(axis=1)
    y = np.where(np.arange(6000) < 3000, good, rng.integers(3, size=6000))
    for at in range(0, 6000, 100):
        ids = list(range(at, at + 100))
        learner.process_many(ids, P[at : at + 100])
        learner.label_many(ids, [CLASSES[k] for k in y[at : at + 100]])
    episode = learner.alarms[None, None].episode
    assert episode is not None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"recent_mb": -1}, r"recent_mb: -1, expected a number from 0 to 1,099"),
        ({"recent_mb": 1e308}, r"recent_mb: 1e\+308, expected a number from 0 to 1,099"),
        ({"label_wait": math.inf}, "label_wait: inf, expected seconds, 0 or more"),
    ],
)
def test_what_is_out_of_range_is_named(options, says):
    with pytest.raises(ValueError, match=says):
        Learner(Corrector(CLASSES), **options)


def taught(**options):
    """A learner of two models with everything that bytes can hold, and its events."""
    learner = Learner(Corrector(CLASSES, segments=["t"]), label_wait=5, **options)
    learner.keep_events()
    for i, model in enumerate("mmnm"):
        learner.process(
            f"i{i}", [0.5, 0.25, 0.25], segments={"t": f"v{i % 2}"}, model=model, time=i
        )
    learner.process(None, [0.5, 0.25, 0.25], model="m")
    learner.label("i0", "a")
    learner.label("i9", "b", time=3)
    learner.label("i8", "b", row=[0.5, 0.25, 0.25], segments={"t": "v1"}, model="n")
    return learner


def test_a_sent_batch_says_what_came_and_what_was_sent():
    learner = taught()
    events = learner.take_events()
    assert learner.take_events().sent.ids == []
    sent = read_sent(events.sent.to_bytes())
    assert sent.ids == ["i0", "i1", "i2", "i3", None]
    assert sent.numbers.tolist() == [0, 1, 2, 3, 4]
    assert sent.times[:4].tolist() == [0, 1, 2, 3]
    assert math.isnan(sent.times[4])
    assert [lane.name for lane in sent.versions] == [("m", None), ("n", None)]
    assert sent.of.tolist() == [0, 0, 1, 0, 0]
    assert sent.segments == {"t": ["v0", "v1", "v0", "v1", None]}
    bare = Corrector(CLASSES, segments=["t"])
    for i, text in enumerate(["v0", "v1"]):
        row, receipt = bare.process_one([0.5, 0.25, 0.25], receipt=True, segments={"t": text})
        assert sent.versions[0].raw[i].tolist() == [0.5, 0.25, 0.25]
        assert sent.versions[0].sent[i].tolist() == row.tolist()
        assert sent.versions[0].receipts[i].tobytes() == receipt.tobytes()
    labels = read_labels(write_labels(events.labels))
    assert [(one.id, one.label, one.due) for one in labels] == [
        ("i0", "a", 5), ("i9", "b", 5), ("i8", "b", 5)
    ]  # fmt: skip
    assert labels[2].row.tolist() == [0.5, 0.25, 0.25]
    assert labels[2].segments == {"t": "v1"}


def test_texts_lie_in_the_order_in_which_they_came():
    """Else the same events would have other bytes in another process."""
    learner = Learner(Corrector(CLASSES, segments=["t"]))
    texts = [f"v{k}" for k in (5, 3, 5, 9, 1, 7, 3, 8, 2)]
    learner.process_many(range(9), [[0.5, 0.25, 0.25]] * 9, segments={"t": texts})
    head = snapshot.decode(learner.keep_events().to_bytes()).head
    assert head["texts"] == {"t": list(dict.fromkeys(texts))}


def test_damaged_batches_labels_and_states_are_refused():
    learner = taught()
    sent, labels, _ = learner.take_events()
    state = learner.state()
    rng = np.random.default_rng(3)
    for read, whole in [
        (read_sent, sent.to_bytes()),
        (read_labels, write_labels(labels)),
        (lambda data: Learner.from_state(state._replace(memory=data), [sent]), state.memory),
    ]:
        read(whole)
        for at in rng.integers(len(whole), size=300).tolist():
            broken = bytearray(whole)
            broken[at] ^= 1 << int(rng.integers(8))
            with pytest.raises(SnapshotMismatch):
                read(bytes(broken))
            with pytest.raises(SnapshotMismatch):
                read(whole[:at])


def test_a_state_needs_the_batches_of_what_it_keeps():
    learner = taught()
    first = learner.take_events()
    learner.process("late", [0.5, 0.25, 0.25], model="m")
    second = learner.take_events()
    state = learner.state()
    for batches, why in [
        ([first.sent], "are missing"),
        ([second.sent], "are missing"),
        ([second.sent, first.sent], "the order of sent batches"),
        ([first.sent, first.sent, second.sent], "the order of sent batches"),
        ([first.sent, replace(second.sent, numbers=np.array([9]))], "behind the state"),
    ]:
        with pytest.raises(SnapshotMismatch, match=why):
            Learner.from_state(state, batches)
    again = Learner.from_state(state, [first.sent, second.sent])
    with pytest.raises(SnapshotMismatch, match="the rows come again"):
        again.play_events(second)
    for other, why in [
        (Learner(Corrector(["a", "b"], segments=["t"])), "the classes of a model"),
        (Learner(Corrector(CLASSES)), "segments that are not declared"),
    ]:
        with pytest.raises(SnapshotMismatch, match=why):
            other.play_events(first)
    with pytest.raises(ValueError, match="call keep_events first"):
        again.take_events()


def test_labels_given_up_before_their_prediction_are_counted():
    learner = Learner(Corrector(["a", "b"]), label_wait=10)
    learner.label(1, "a", time=0.0)
    learner.label(2, "a", time=0.0)
    learner.process(1, [0.5, 0.5], time=5.0)  # in time
    learner.process(3, [0.5, 0.5], time=20.0)  # gives up 2
    assert learner.early_labels == 0
    learner.process_many([2, 2, 4], [[0.5, 0.5]] * 3, times=[21.0] * 3)
    learner.process(2, [0.5, 0.5], time=22.0)
    assert learner.early_labels == 1


def test_a_label_without_its_prediction_counts_once():
    learner = Learner(Corrector(CLASSES))
    assert [learner.label("x", "a"), learner.label("x", "b")] == ["unknown", "repeated"]
    again = Learner.from_bytes(learner.to_bytes())
    assert again.label("x", "a") == "repeated"
    learner.process("x", [0.5, 0.25, 0.25])  # its label comes once more
    assert learner.label("x", "a") == "learned"
    assert learner.label(None, "a") == "unknown"
    assert learner.label(None, "a") == "unknown"


OTHER = ["b", "x", "a", "y"]
"""Two of the classes of others, at other places."""


@given(st.data())
@settings(max_examples=examples(30), deadline=None)
def test_models_of_other_classes_learn_as_if_alone(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    classes = {"m": CLASSES, "n": OTHER}
    begins = {
        "m": Corrector(CLASSES, segments=["t"], sets=0.8),
        "n": Corrector(OTHER, train_counts=[4, 3, 2, 1], segments=["t"], sets=0.8, threshold=0.7),
    }
    alone = {name: Learner.from_bytes(Learner(one).to_bytes()) for name, one in begins.items()}
    learner = Learner(begins["m"])
    learner.keep_events()
    learner.start(begins["n"], "n")
    learner.start(Corrector.from_bytes(begins["n"].to_bytes()), "n", "2")
    learner.start(Corrector.from_bytes(begins["n"].to_bytes()), "n", "3")  # never comes
    alone["n"].start(Corrector.from_bytes(begins["n"].to_bytes()), "n", "2")
    state, batches, since = learner.state(), [], []
    for _ in range(data.draw(st.integers(1, 60))):
        model, version = "mnn"[k := rng.integers(3)], [None, None, "2"][k]
        mine, kind = alone[model], rng.choice(["row", "rows", "label", "label", "brings", "cut"])
        name = {"model": model, "version": version}
        ids, texts = [f"i{k}" for k in rng.integers(8, size=3)], {"t": list("abc")}
        P = rng.dirichlet(np.ones(len(classes[model])), 3)
        y = "abcxy"[rng.integers(5)]
        if kind == "row":
            made = learner.process(ids[0], P[0], segments={"t": "a"}, **name)
            assert made.tolist() == mine.process(ids[0], P[0], segments={"t": "a"}, **name).tolist()
        elif kind == "rows":
            made = learner.process_many(ids, P, segments=texts, **name)
            same = mine.process_many(ids, P, segments=texts, **name)
            assert (made.rows.tolist(), made.sets) == (same.rows.tolist(), same.sets)
        elif kind == "brings" and y in classes[model]:
            row = {"row": P[0], "segments": {"t": "b"}}
            assert learner.label("z", y, **row, **name) == mine.label("z", y, **row, **name)
        elif kind == "label" and rng.random() < 0.5 and y in classes[model]:
            assert learner.label(ids[0], y, **name) == mine.label(ids[0], y, **name)
        elif kind == "label":  # of all that predicted the id and have the class
            holds = [
                (model, one) for model, one in alone.items()
                if one.models_of(ids[0])
            ]  # fmt: skip
            knows = [one for model, one in holds if y in classes[model]]
            if knows:
                outcomes = [one.label(ids[0], y) for one in knows]
                assert learner.label(ids[0], y) == min(outcomes)  # learned before repeated
            elif holds:
                with pytest.raises(UnknownClass):
                    learner.label(ids[0], y)
        elif kind == "cut":
            since.append(learner.take_events())
            again = Learner.from_state(state, batches)
            for events in since:
                sent = read_sent(events.sent.to_bytes())
                again.play_events(events._replace(sent=sent))
            assert again.to_bytes() == learner.to_bytes()
            assert Learner.from_bytes(learner.to_bytes()).to_bytes() == learner.to_bytes()
            learner = again
            learner.keep_events()
            if rng.random() < 0.5:
                state, since, batches = learner.state(), [], batches + [one.sent for one in since]
    every = {k: v for one in alone.values() for k, v in one.correctors.items() if k[0] is not None}
    assert {k: v for k, v in learner.correctors.items() if k[0] is not None} == every


def test_rows_and_labels_of_models_of_other_classes():
    learner = Learner(Corrector(CLASSES))
    learner.start(Corrector(OTHER), "n")
    learner.process("i", [0.5, 0.25, 0.25], model="m")
    learner.process("j", [0.4, 0.3, 0.2, 0.1], model="n")
    before = learner.to_bytes()
    for call, error, why in [
        (lambda: learner.process("k", [0.5, 0.25, 0.25], model="n"), InvalidPrediction, "4"),
        (lambda: learner.label("i", "x"), UnknownClass, "'x' is none of the classes"),
        (lambda: learner.label("j", "c", model="n"), UnknownClass, "'c' is none of the classes"),
        (lambda: learner.label("q", "c", model="n"), UnknownClass, "'c' is none of the classes"),
        (
            lambda: learner.play(["k", "l"], [[1.0, 0, 0]] * 2, lanes=[("m", None), ("n", None)]),
            ValueError, "models of different classes in one call",
        ),
        (lambda: learner.start(Corrector(3, segments=["t"]), "k"), ValueError, "segments"),
        (lambda: learner.start(MultiLabelCorrector(3), "k"), ValueError, "MultiLabelCorrector"),
    ]:  # fmt: skip
        with pytest.raises(error, match=why):
            call()
        assert learner.to_bytes() == before
    learner.start(Corrector(2), "n")  # has begun already
    assert learner.to_bytes() == before
    assert [learner.label("j", "x"), learner.label("i", "c")] == ["learned", "learned"]


@pytest.mark.parametrize(("wait", "most"), [(0, 4), (1e9, 8 + 4)])
def test_labels_without_a_prediction_are_bounded_in_bytes(wait, most):
    """Those that wait with their ids, the others with hashes of these; of multilabel rows each row
    of labels counts."""
    names = [f"label {k}" for k in range(2000)]
    learner = Learner(MultiLabelCorrector(names), label_wait=wait)
    one_kb = "x" * 1000
    n = 9000
    for k in range(n):
        assert learner.label(f"{k} {one_kb}", names[:1], time=0) == ("held" if wait else "unknown")
    data = learner.to_bytes()
    assert (most - 1) << 20 < len(data) < (most + 2) << 20
    for one in (learner, Learner.from_bytes(data)):
        assert one.label(f"{n - 1} {one_kb}", names[:1], time=0) == "repeated"
        assert one.label(f"0 {one_kb}", names[:1], time=0) == ("held" if wait else "unknown")


@pytest.mark.parametrize("id", ["é" * 513, b"x" * 1025, 1.5, True, ("a", 1), 2**64])
def test_odd_ids_are_refused_where_they_enter(id):
    learner = Learner(Corrector(3))
    before = learner.to_bytes()
    row = [0.5, 0.3, 0.2]
    for call in (
        lambda: learner.process(id, row),
        lambda: learner.process_many(["a", id], [row, row]),
        lambda: learner.label(id, 1),
        lambda: learner.play(["a"], [row], [LateLabel(id, 1, 1)]),
    ):
        with pytest.raises((TypeError, ValueError), match=r"^id: "):
            call()
    assert learner.to_bytes() == before
    learner.process("x" * 1024, row)
    assert learner.label("x" * 1024, 1) == "learned"


def test_what_labels_taught_can_be_counted():
    """Of each label every prediction that learned it, and nothing of those that taught nothing."""
    learner = Learner(Corrector(3), label_wait=10)
    P = [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]
    for version in ("1", "2"):
        learner.process_many(["a", "b"], P, model="m", version=version)
    assert learner.models_of("a") == [("m", "1"), ("m", "2")]
    assert learner.models_of("c") == []
    labels = [
        LateLabel("a", 1), LateLabel("c", 0, time=5.0), LateLabel("a", 2),
        LateLabel("b", 2, model="m", version="2"),
    ]  # fmt: skip
    found = learner.play([], np.empty((0, 3)), labels)
    assert found.outcomes == ["learned", "held", "repeated", "learned"]
    seen = [(one.label, one.name[1], one.prediction.known) for one in found.taught]
    assert seen == [(0, "1", 1), (0, "2", 1), (3, "2", 2)]
    row, sent = np.frombuffer(found.taught[2].prediction.blob, count=6).reshape(2, 3)
    assert row.tolist() == P[1]
    assert sent.sum() == pytest.approx(1)
    (held,) = learner.play(["c"], P[:1], lanes=[("m", "1")], times=[6.0]).taught
    assert (held.label, held.name, held.prediction.known) == (-1, ("m", "1"), 0)


def test_what_corrects_can_be_looked_at():
    learner = Learner(Corrector(3), max_lanes=3)
    for version in ("1", "2"):
        learner.process("a", [0.5, 0.3, 0.2], model="m", version=version)
    learner.label("a", 1, model="m", version="1")
    learner.process("b", [0.5, 0.3, 0.2], model="m", version="3")
    learner.process("b", [0.5, 0.3, 0.2], model="other")
    sent = learner.keep_events()
    learner = Learner.from_state(learner.state(), [sent], max_lanes=2)
    after = {name: one.after for name, one in learner.live.items()}
    assert after == {("m", "2"): "1", ("m", "3"): "1", ("other", None): None}
    assert {k: one.corrector.to_bytes() for k, one in learner.live.items()} == learner.correctors
    learner.process("c", [0.5, 0.3, 0.2], model="new")
    assert learner.models == [("other", None), ("new", None)]
    assert learner.dropped == 3


def test_the_model_that_was_silent_longest_is_dropped():
    rng, learner = np.random.default_rng(2), Learner(Corrector(CLASSES), max_lanes=2)
    learner.keep_events()
    state, batches, since = learner.state(), [], []
    P = iter(rng.dirichlet(np.ones(3), 100))
    used, dropped = list[str](), 0
    for turn, model in enumerate("aabacabdaecb" * 3):
        learner.process(f"{model}{turn % 5}", next(P), model=model)
        learner.label(f"{'abc'[turn % 3]}{turn % 5}", "a")
        used = [*[one for one in used if one != model], model]
        dropped, used = dropped + (len(used) > 2), used[-2:]
        assert ({name for name, _ in learner.models}, learner.dropped) == (set(used), dropped)
        since.append(learner.take_events())
        again = Learner.from_state(state, batches)
        for events in since:
            again.play_events(events)
        assert again.to_bytes() == learner.to_bytes()
        assert Learner.from_bytes(learner.to_bytes()).to_bytes() == learner.to_bytes()
        if turn % 4 == 0:
            state, since, batches = learner.state(), [], batches + [one.sent for one in since]
    assert learner.waiting == len(learner._memory.order) < 36
    with pytest.raises(ValueError, match="max_lanes"):
        Learner(Corrector(3), max_lanes=0)


def test_many_classes_leave_a_state_small():
    """Labelled predictions that are not scored yet were in it, 16 kB each: no topic took that."""
    learner, rng = Learner(Corrector(1000)), np.random.default_rng(0)
    P = rng.dirichlet(np.full(1000, 0.01), 200)
    learner.process_many(range(200), P)
    learner.label_many(range(200), P.argmax(1).tolist())
    memory = learner.state(without=learner.models).memory
    assert len(memory) < 100_000
    assert learner.scores[None, None][1].n == 200


def test_very_many_models_leave_a_state_small():
    """Labelled predictions that are not scored yet were in it: of each model up to 255."""
    learner, other = (Learner(Corrector(4), max_lanes=300) for _ in range(2))
    rng = np.random.default_rng(0)
    for i in range(3000):
        p, y, model = rng.dirichlet(np.ones(4)), int(rng.integers(4)), f"m{i % 300}"
        for one in (learner, other):
            one.process(f"{i}", p, model=model)
            one.label(f"{i}", y, model=model)
        if i % 500 == 0:
            learner.state()
    assert sum(len(lane.pending) for lane in other._memory.versions.by_name.values()) == 3000
    state = learner.state(without=learner.models)
    assert len(zlib.compress(state.memory, 1)) < 300 * 620  # of 2 kB and more
    assert sum(len(lane.pending) for lane in learner._memory.versions.by_name.values()) == 0
    scores = learner.scores
    for name, both in other.scores.items():
        for mine, its in zip(scores[name], both, strict=True):
            assert (mine.n, mine.accuracy) == (its.n, its.accuracy)
            assert mine.log_loss == pytest.approx(its.log_loss)


def test_labels_by_index_equal_labels_by_name():
    """A replay has the indices of its labels: names are not looked up again."""
    rng, names = np.random.default_rng(0), [2, 0, 1]  # of which each is another one's index
    P, y = rng.dirichlet(np.ones(3), 50), rng.integers(0, 3, 50).tolist()
    indices = [LateLabel(i, k, i + 1) for i, k in enumerate(y)]
    labels = [LateLabel(i, names[k], i + 1) for i, k in enumerate(y)]
    by_index, by_name = (Learner(Corrector(names)) for _ in range(2))
    a = by_index.play(range(50), P, indices, indexed=True)
    b = by_name.play(range(50), P, labels)
    np.testing.assert_array_equal(a.rows, b.rows)
    assert by_index.to_bytes() == by_name.to_bytes()
    for label in (3, -1):
        with pytest.raises(UnknownClass, match=f"label of 7: no class {label}"):
            by_index.play([], None, [LateLabel(7, label)], indexed=True)


def test_an_id_of_many_models():
    """A label finds its predictions by id, whatever models made them, also once some are gone."""
    learner = Learner(Corrector(2), max_lanes=3, recent_mb=1)
    for model in "abc":
        learner.process("x", [0.3, 0.7], model=model)
        learner.process(model, [0.6, 0.4], model=model)
    assert learner.waiting == 6
    learner.process("x", [0.9, 0.1], model="b")  # in place of the earlier one of b
    assert (learner.waiting, learner.models_of("x")) == (6, [(m, None) for m in "abc"])
    learner.process("x", [0.2, 0.8], model="d")  # a goes, its last row is the oldest
    assert (learner.waiting, learner.models_of("x")) == (5, [(m, None) for m in "bcd"])
    assert (learner.models_of("a"), learner.label("a", 0, model="a")) == ([], "unknown")
    played = learner.play([], None, [LateLabel("x", 1)])
    assert [each.name[0] for each in played.taught] == ["b", "c", "d"]
    assert [learner.label("x", 1, model=m) for m in "bcd"] == ["repeated"] * 3
    again = Learner.from_bytes(learner.to_bytes())
    assert (again.waiting, again.models_of("x")) == (5, learner.models_of("x"))
    learner.forget_before(learner.next_number)
    assert (learner.waiting, learner.bytes_kept, learner.models_of("x")) == (0, 0, [])


@pytest.mark.parametrize("ask", [None, 0.3])
@pytest.mark.parametrize("wait", [0, 50])
def test_alone_or_in_calls(ask, wait):
    """Rows and labels one by one are those of calls, to the bit, and so are their events."""
    rng = np.random.default_rng(4)
    P, labels = rng.dirichlet(np.ones(4), 300), rng.integers(4, size=300).tolist()
    options = {"ask": ask, "label_wait": wait, "recent_mb": 0.05}
    alone, calls = (Learner(Corrector(4, sets=0.9), **options) for _ in range(2))
    for learner in (alone, calls):
        learner.process("first", P[0])
        learner.start_events()
    copy = Learner.from_bytes(alone.to_bytes())
    for i, p in enumerate(P):
        id = None if i % 7 == 0 else i % 150
        row = alone.process(id, p, time=float(i))
        made = calls.process_many([id], [p], times=[float(i)])
        assert row.tobytes() == made.rows[0].tobytes()
        late = i - 40 if i % 3 else i + 1
        said = alone.label(late % 150, labels[i], time=float(i))
        assert [said] == calls.label_many([late % 150], [labels[i]], times=[float(i)])
    assert alone.to_bytes() == calls.to_bytes()
    events, same = alone.take_events(), calls.take_events()
    assert (events.sent.to_bytes(), events.labels) == (same.sent.to_bytes(), same.labels)
    copy.play_events(events)
    assert copy.to_bytes() == alone.to_bytes()


def test_saving_takes_little_memory_and_no_turn(monkeypatch):
    """Kept predictions are encoded in pieces, while others go on: what is saved is the learner as
    it was at the call."""
    learner, n = Learner(Corrector(10), recent_mb=100), 40_000
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(10), 64)
    learner.process_many(range(n), P[np.arange(n) % 64])
    expected = learner.to_bytes()
    encode, done = SentBatch.to_bytes, []

    def encode_while_others_go_on(batch):
        with ThreadPoolExecutor(1) as pool:
            row = pool.submit(learner.process, f"other {len(done)}", P[0])
            done.append(row.result(timeout=60))
        return encode(batch)

    monkeypatch.setattr(SentBatch, "to_bytes", encode_while_others_go_on)
    assert learner.to_bytes() == expected
    assert len(done) > 5
    assert learner.waiting == n + len(done)
    monkeypatch.undo()
    tracemalloc.start()
    learner.to_bytes()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.8 * len(expected)
    assert Learner.from_bytes(expected, recent_mb=100).to_bytes() == expected


class Text(str):
    """An id of a class of its own."""


@pytest.mark.parametrize(
    "time", [np.float64(5), np.int64(5), np.float32(5), True, Decimal(5), Fraction(5)]
)
def test_what_was_given_can_be_saved(time):
    learner = Learner(Corrector(2), label_wait=10)
    learner.process("x", [0.5, 0.5])
    learner.start_events()
    learner.process(Text("y"), [0.5, 0.5], time=time)
    learner.process_many(["z", "u"], [[0.5, 0.5]] * 2, times=[time, time])
    learner.label(Text("y"), 1, time=time)
    again = Learner.from_bytes(learner.to_bytes())
    assert again.to_bytes() == learner.to_bytes()
    sent, labels, _ = learner.take_events()
    assert read_sent(sent.to_bytes()).ids == ["y", "z", "u"]
    assert read_labels(write_labels(labels))[0].time == float(time)


def test_a_row_in_a_list_is_read_as_among_others():
    series = pd.Series([0.2, 0.3, 0.5], index=["c", "a", "b"])
    masked = np.ma.masked_array([0.2, 0.3, 0.5], [0, 0, 1])
    learner = Learner(Corrector(["a", "b", "c"]))
    for n in (1, 2, 1):
        rows = learner.process_many(range(n), [series] * n).rows
        assert (rows.argmax(1) == 1).all()
        with pytest.raises(InvalidPrediction, match="MaskedArray"):
            learner.process_many(range(n), [masked] * n)
