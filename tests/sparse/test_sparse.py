"""The sparse corrector: equal to the slow statement, whole in snapshots, and never half done."""

from __future__ import annotations

import copy
import math
import pickle
import random
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import InvalidPrediction, SnapshotMismatch, UnknownClass, snapshot
from stream_can.sparse import SparseCorrector
from stream_can.sparse.loop import Model
from tests.examples import examples
from tests.sparse.oracle import OracleSparse

pytestmark = pytest.mark.fast


def a_row(rng, m, most, mass):
    """Ids and probabilities; `mass` says how much of it is listed."""
    k = int(rng.integers(1, min(most, m, 128) + 1))
    ids = rng.permutation(m)[:k] if m < 1000 else rng.choice(m, k, replace=False)
    p = rng.dirichlet(np.full(k, rng.choice([0.2, 1.0])))
    if mass == "some":
        p = p * rng.uniform(0.3, 1)
    if mass == "more":  # within rounding
        p = p * 1.0005
    return ids.tolist(), p


def a_label(rng, m, ids, outside):
    """A class of the row, or any."""
    if rng.random() < outside:
        return int(rng.integers(min(m, 40)))  # few of them, so that they come again
    return ids[int(rng.integers(len(ids)))]


def with_scale(corrector, limit):
    """Its sums are divided by their scale as soon as that is above the limit."""
    corrector._model = Model(corrector.m, corrector.half_life, limit)
    return corrector


def equal(fast, receipts, slow, ids, tolerance=2e-5):
    """What was sent of one row; where a class has just what the least has, it is in one or both."""
    sent_ids, sent, rest, receipt = slow
    k, n = len(ids), int((fast.ids[0] >= 0).sum())
    assert fast.ids[0, :k].tolist() == sent_ids[:k]
    assert (fast.ids[0, n:] == -1).all()
    assert not fast.probabilities[0, n:].any()
    promoted = dict(zip(fast.ids[0, k:n].tolist(), fast.probabilities[0, k:n], strict=True))
    expected = dict(zip(sent_ids[k:], sent[k:], strict=True))
    least = sent[:k].min()
    for y in {*promoted} ^ {*expected}:
        share = promoted.pop(y, 0) + expected.pop(y, 0)
        assert share == pytest.approx(least, abs=1e-6)
        rest += share * (1 if y in sent_ids else -1)
    assert list(promoted) == list(expected)
    assert promoted == pytest.approx(expected, abs=tolerance)
    assert fast.probabilities[0, :k] == pytest.approx(sent[:k], abs=tolerance)
    assert fast.rest[0] == pytest.approx(rest, abs=tolerance)
    assert receipts[0, :, :k] == pytest.approx(receipt[:, :k], abs=tolerance)
    assert receipts[0, :, -1] == pytest.approx(receipt[:, -1], abs=tolerance)


@given(st.data())
@settings(max_examples=examples(20))
def test_equals_the_slow_statement(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    m = data.draw(st.sampled_from([1, 2, 3, 7, 30, 128, 300, 5000]))
    most = data.draw(st.sampled_from([1, 5, 12, 128]))
    half_life = data.draw(st.sampled_from([1.0, 20.0, 300.0, 5000.0]))
    mass = data.draw(st.sampled_from(["some", "all", "more", "mixed"]))
    outside = data.draw(st.sampled_from([0.0, 0.2, 0.9]))
    delay = data.draw(st.sampled_from([0, 7]))
    counts = rng.integers(0, 50, m) if data.draw(st.booleans()) else None
    scale = data.draw(st.sampled_from([1.0, 50.0, 1e18]))
    fast = with_scale(SparseCorrector(m, half_life=half_life), scale)
    if counts is not None:
        fast._model.train(counts.astype(float))
    slow, waiting = OracleSparse(m, counts, half_life), []
    for _ in range(data.draw(st.integers(1, 80))):
        ids, p = a_row(
            rng, m, most, rng.choice(["some", "all", "more"]) if mass == "mixed" else mass
        )
        made = slow.process(ids, p)
        sent, receipts = fast.process_many([ids], [p], receipt=True)
        equal(sent, receipts, made, ids)
        y = a_label(rng, m, ids, outside)
        if len(ids) == m and y not in ids:
            y = ids[0]
        waiting.append((ids, p, y, receipts))
        if len(waiting) <= delay:
            continue
        ids, p, y, receipt = waiting.pop(0)
        how = rng.choice(["receipt", "receipt", "now", "nan", "alone", "none"])
        if how == "alone":
            slow.learn(None, None, y)
            fast.learn_many(None, None, [y])
        elif how != "none":
            receipt = receipt * np.float32(np.nan) if how == "nan" else receipt
            slow.learn(ids, p, y, None if how == "now" else receipt[0])
            fast.learn_many([ids], [p], [y], receipts=None if how == "now" else receipt)
    assert fast.weights == pytest.approx(dict(zip(fast.weights, slow.w, strict=True)), abs=1e-4)


@pytest.mark.parametrize("labelled", ["right", "wrong", "clicks", "half", "one class"])
def test_guards_are_those_of_the_slow_statement(labelled):
    """Labels that are no fair sample: corrections only, clicks on what was listed, some classes."""
    rng = np.random.default_rng(3)
    m, fast, slow = 25, SparseCorrector(25, half_life=300), OracleSparse(25, None, 300)
    silent = False
    for _ in range(800):
        ids = rng.permutation(m)[:6].tolist()
        p = rng.dirichlet(np.full(7, 0.4))[:6]
        y = int(rng.choice(ids)) if rng.random() < 0.7 else int(rng.integers(m))
        made = slow.process(ids, p)
        sent, receipts = fast.process_many([ids], [p], receipt=True)
        equal(sent, receipts, made, ids)
        best = ids[int(np.argmax(p))]
        comes = {
            "right": y == best,
            "wrong": y != best,
            "clicks": y in ids and rng.random() < p.sum(),
            "half": y < m // 2,
            "one class": best == 3,
        }[labelled]
        if comes:
            slow.learn(ids, p, y, receipts[0])
            fast.learn_many([ids], [p], [y], receipts=receipts)
        silent |= slow.rest_silent or slow.silent(np.arange(m)).any()
    if labelled in ("clicks", "half", "one class"):
        assert silent  # the case was met
    if labelled in ("right", "wrong"):
        assert slow.trust(0) == 0


def test_long_gaps_are_those_of_every_single_step():
    """A class that comes again after a thousand labels has what it would have, step by step."""
    rng = np.random.default_rng(1)
    fast, slow = SparseCorrector(60, half_life=200), OracleSparse(60, None, 200)
    for turn in range(4):
        for _ in range(300):  # the classes of one half, then of the other
            ids = (rng.permutation(30)[:5] + 30 * (turn % 2)).tolist()
            p = rng.dirichlet(np.ones(6))[:5]
            sent, handed = fast.process_many([ids], [p], receipt=True)
            equal(sent, handed, slow.process(ids, p), ids)
            y = ids[2]
            slow.learn(ids, p, y)
            fast.learn_many([ids], [p], [y])


def stream(n, m=50, k=8, seed=0, outside=0.3):
    """Rows with pads, and labels."""
    rng = np.random.default_rng(seed)
    ids, P, ys = np.full((n, k), -1), np.zeros((n, k)), np.zeros(n, int)
    for i in range(n):
        row, p = a_row(rng, m, k, "some")
        ids[i, : len(row)], P[i, : len(row)] = row, p
        ys[i] = a_label(rng, m, row, outside)
    return ids, P, ys


def learned(n=300, m=50, **more):
    corrector, (ids, P, ys) = SparseCorrector(m, half_life=100, **more), stream(n, m)
    _, receipts = corrector.process_many(ids, P, receipt=True)
    corrector.learn_many(ids, P, ys, receipts=receipts)
    return corrector


def promoting():
    """One whose labels are often classes that no row lists."""
    corrector, (ids, P, _) = SparseCorrector(50, half_life=100), stream(300)
    ys = np.where((ids == 7).any(1), 7, np.where(np.arange(300) % 3 == 0, 9, 7))
    corrector.process_many(ids, P)
    corrector.learn_many(ids, P, ys)
    return corrector


def test_one_row_and_many_have_the_same_bits():
    many, one = SparseCorrector(50, half_life=50), SparseCorrector(50, half_life=50)
    for seed in range(4):
        ids, P, ys = stream(60, seed=seed)
        sent, handed = many.process_many(ids, P, receipt=True)
        receipts = []
        for i in range(len(ids)):
            k = int((ids[i] >= 0).sum())
            row = dict(zip(ids[i, :k].tolist(), P[i, :k].tolist(), strict=True))
            (better, rest), receipt = one.process_one(row, receipt=True)
            n = len(better)
            assert list(better) == sent.ids[i, :n].tolist()
            assert list(better.values()) == sent.probabilities[i, :n].tolist()
            assert rest == sent.rest[i]
            assert receipt[:, :k].tobytes() == handed[i, :, :k].tobytes()
            receipts.append((row, receipt))
        many.learn_many(ids, P, ys, receipts=handed)
        for (row, receipt), y in zip(receipts, ys.tolist(), strict=True):
            one.learn_one(row, y, receipt=receipt)
        assert many.to_bytes() == one.to_bytes()


def test_correct_changes_nothing_and_is_what_process_sends():
    corrector, (ids, P, _) = learned(), stream(1, seed=9)
    before = corrector.to_bytes()
    sent, receipts = corrector.correct_many(ids, P, receipt=True)
    row = {i: p for i, p in zip(ids[0].tolist(), P[0].tolist(), strict=True) if i >= 0}
    corrector.correct_one(row)
    assert corrector.to_bytes() == before
    processed, handed = corrector.process_many(ids, P, receipt=True)
    for a, b in zip((*sent, receipts), (*processed, handed), strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_row_its_rest_and_the_tail_sum_to_one():
    corrector, (ids, P, _) = promoting(), stream(40, seed=5)
    sent = corrector.correct_many(ids, P)
    assert sent.probabilities.sum(1) + sent.rest == pytest.approx(np.ones(40), abs=1e-12)
    assert ((ids >= 0).sum(1) < (sent.ids >= 0).sum(1)).any()  # some are promoted
    for row, rest in zip(sent.ids, sent.rest, strict=True):
        outside = [y for y in range(50) if y not in row]
        assert sum(corrector.tail(y, row, rest) for y in outside) == pytest.approx(rest, rel=1e-5)


def test_what_is_promoted_has_the_probability_of_the_tail():
    corrector, (ids, P, _) = promoting(), stream(40, seed=5)
    sent = corrector.correct_many(ids, P)
    for i in range(40):
        k, n = (ids[i] >= 0).sum(), (sent.ids[i] >= 0).sum()
        rest = sent.rest[i] + sent.probabilities[i, k:n].sum()
        for place in range(k, n):
            tail = corrector.tail(int(sent.ids[i, place]), ids[i], rest)
            assert sent.probabilities[i, place] == pytest.approx(tail, rel=1e-12)
            assert tail > sent.probabilities[i, :k].min()


# ---- names


def test_names_appear_as_they_come():
    named, numbered = SparseCorrector("any", max_classes=9), SparseCorrector(9)
    rows = [{"ant": 0.5, "bee": 0.2}, {"cat": 0.4, "ant": 0.4}, {"é": 1.0}]
    for row in rows:
        better, rest = named.process_one(row)
        ids = named.ids_of(row)
        other, same = numbered.process_one(dict(zip(ids.tolist(), row.values(), strict=True)))
        assert list(better.values()) == list(other.values())
        assert rest == same
        named.learn_one(row, "dog")
        numbered.learn_one(dict(zip(ids.tolist(), row.values(), strict=True)), 2)
    assert named.names[:2] == ["ant", "bee"]
    assert named.n_classes == 5
    assert named.names_of([0]) == ["ant"]


def test_correcting_and_errors_give_no_name_a_number():
    corrector = SparseCorrector("any", max_classes=3)
    corrector.correct_one({"ant": 0.5})
    with pytest.raises(InvalidPrediction, match=r"probabilities sum to 1.4"):
        corrector.process_one({"ant": 0.9, "bee": 0.5})
    with pytest.raises(InvalidPrediction, match="4 names, max_classes is 3, which is settled"):
        corrector.process_one({"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.1})
    with pytest.raises(UnknownClass, match="expected the name of a class"):
        corrector.learn_one({"ant": 0.5}, 3)
    with pytest.raises(ValueError, match="receipt is float64 of shape"):
        corrector.learn_one({"ant": 0.5}, "bee", receipt=[[1.0]])
    assert corrector.names == []
    corrector.ids_of(["a", "b", "c"])
    with pytest.raises(UnknownClass, match="label: 4 names, max_classes is 3"):
        corrector.learn_one({"a": 0.5}, "d")
    with pytest.raises(UnknownClass, match="class 7 has no name yet"):
        corrector.learn_many([[0]], [[1.0]], [7])
    assert corrector.names == ["a", "b", "c"]
    assert corrector.n_labels == 0
    assert SparseCorrector("any", train_counts={"b": 3, "a": 1}).names == ["b", "a"]


def test_a_name_that_never_came_has_a_tail():
    corrector = SparseCorrector("any", max_classes=100)
    corrector.learn_one({"ant": 0.5}, "bee")
    new = corrector.tail("cat", ["ant"], 0.5)
    assert 0 < new < corrector.tail("bee", ["ant"], 0.5)
    assert new == corrector.tail("dog", ["ant"], 0.5)
    assert corrector.n_classes == 2


# ---- what is refused, before anything changes

ROWS = {
    "row 1: class 50 is none; expected 0 to 49; -1 pads": ([1, 50], [0.1, 0.1]),
    "row 1: class -2 is none": ([1, -2], [0.1, 0.1]),
    "row 1: class 3 is listed twice, the second time in column 1": ([3, 3], [0.1, 0.1]),
    "row 1: probability -0.1 of class 2, expected a number >= 0": ([1, 2], [0.1, -0.1]),
    "row 1: probability nan of class 1": ([1, 2], [math.nan, 0.1]),
    "row 1: probability inf of class 2": ([1, 2], [0.1, math.inf]),
    "row 1: probabilities sum to 1.2, expected at most 1 .within 0.001.": ([1, 2], [0.6, 0.6]),
    "row 1: no class is listed": ([-1, -1], [0, 0]),
    "row 1: class 2 in column 1 is behind a -1; pads come last": ([-1, 2], [0, 0.1]),
    "row 1: probability 0.2 in column 1, whose class is -1, expected 0": ([1, -1], [0.1, 0.2]),
}


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("message", ROWS)
def test_a_bad_row_is_named_and_nothing_changes(message, dtype):
    corrector = learned()
    before = corrector.to_bytes()
    ids, p = ROWS[message]
    ids, P = np.array([[1, 2], ids], dtype), np.array([[0.5, 0.2], p])
    with pytest.raises(InvalidPrediction, match=message.removesuffix("; -1 pads")):
        corrector.process_many(ids, P)
    with pytest.raises(InvalidPrediction, match=r"^row 1: "):
        corrector.learn_many(ids, P, [1, 1])
    assert corrector.to_bytes() == before


@pytest.mark.parametrize(
    ("ids", "P", "message"),
    [
        ([[0.5]], [[0.5]], "ids are float64, expected integers"),
        ([[0]], [["a"]], "probs are <U1, expected floats"),
        ([0], [0.5], r"shape \(1,\) and probs \(1,\), expected \(n, k\) of both"),
        ([[0, 1]], [[0.5]], r"shape \(1, 2\) and probs \(1, 1\)"),
        ([[2**32]], [[0.5]], "row 0: class 4294967296 is none"),
        ([[2**63]], [[0.5]], "row 0: class 9223372036854775808 is none"),
        ([list(range(129))], [[0.001] * 129], "129 classes are listed, expected 1 to 128; send"),
    ],
)
def test_what_is_no_row(ids, P, message):
    corrector = SparseCorrector(200)
    with pytest.raises(InvalidPrediction, match=message):
        corrector.process_many(np.array(ids), np.array(P))


def test_a_list_of_all_classes_needs_some_mass():
    with pytest.raises(InvalidPrediction, match="all classes are listed and their prob"):
        SparseCorrector(2).process_many([[0, 1]], [[0.0, 0.0]])
    sent = SparseCorrector(3).process_many([[0, 1]], [[0.0, 0.0]])
    assert sent.probabilities.sum() + sent.rest == pytest.approx(1)


def test_wrong_labels_and_receipts_change_nothing():
    corrector = learned()
    before = corrector.to_bytes()
    ids, P, ys = stream(4)
    _, receipts = corrector.correct_many(ids, P, receipt=True)
    for bad, message in ((50, "label 2: class 50 is none; expected 0 to 49"), (-1, "class -1 is")):
        with pytest.raises(UnknownClass, match=message):
            corrector.learn_many(ids, P, [1, 2, bad, 1])
        with pytest.raises(UnknownClass, match="class"):
            corrector.learn_many(None, None, [1, bad])
    with pytest.raises(UnknownClass, match="labels: float64 of shape"):
        corrector.learn_many(ids, P, [0.0] * 4)
    with pytest.raises(InvalidPrediction, match="4 rows but 3 labels; give one label per row"):
        corrector.learn_many(ids, P, [1, 2, 3])
    with pytest.raises(ValueError, match=r"receipts are float32 of shape \(3, 3, 9\), expected"):
        corrector.learn_many(ids, P, ys, receipts=receipts[1:])
    for value in (-0.5, 1.5, math.inf):
        wrong = receipts.copy()
        wrong[2, 1, 0] = value
        with pytest.raises(ValueError, match=f"receipt of row 2: {value}"):
            corrector.learn_many(ids, P, ys, receipts=wrong)
    with pytest.raises(ValueError, match="a row is given by both"):
        corrector.learn_many(None, P, ys)
    with pytest.raises(InvalidPrediction, match=r"expected {class: probability}"):
        corrector.learn_one([0.5], 1)
    with pytest.raises(InvalidPrediction, match="probabilities are no numbers"):
        corrector.process_one({1: "x"})
    with pytest.raises(InvalidPrediction, match="row: 'a', expected a class, 0 to 49"):
        corrector.process_one({"a": 0.5})
    with pytest.raises(InvalidPrediction, match="no class is listed"):
        corrector.process_one({})
    with pytest.raises(ValueError, match="label 1 is listed: its probability is in the row"):
        corrector.tail(1, [0, 1], 0.5)
    with pytest.raises(ValueError, match="rest: 2"):
        corrector.tail(1, [0], 2)
    assert corrector.to_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": 0}, "classes: 0, expected a number from 1 to 2,147,483,647, or"),
        ({"classes": 2**31}, "classes: 2147483648, expected a number from 1 to 2,147,483,647"),
        ({"classes": "some"}, "classes: 'some', expected"),
        ({"classes": True}, "classes: True"),
        (
            {"classes": 10_000_000},
            "may take 2,442 MiB .256 bytes each., memory_mb allows 1,024; gi",
        ),
        ({"max_classes": 2.5}, "max_classes: 2.5"),
        ({"half_life": 0.5}, "half_life: 0.5, expected a number from 1 to 1e.06"),
        ({"half_life": math.nan}, "half_life: nan"),
        ({"memory_mb": -1}, "memory_mb: -1"),
        ({"classes": 2, "train_counts": [1]}, r"train_counts: shape \(1,\), expected \(2,\)"),
        ({"classes": 2, "train_counts": [1, -1]}, "train_counts: -1.0 of class 1"),
        ({"classes": 2, "train_counts": {2: 1}}, "train_counts: class 2 is none"),
        ({"train_counts": [1]}, "have no order; give {class: count}"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        SparseCorrector(**arguments)


# ---- snapshots


def go_on(corrector):
    """What comes of more rows and labels."""
    ids, P, ys = stream(50, seed=77)
    sent, receipts = corrector.process_many(ids, P, receipt=True)
    corrector.learn_many(ids, P, ys, receipts=receipts)
    return [a.tobytes() for a in (*sent, receipts)], corrector.to_bytes()


@pytest.mark.parametrize("again", [
    lambda c: SparseCorrector.from_bytes(c.to_bytes()), copy.deepcopy,
    lambda c: pickle.loads(pickle.dumps(c)),
])  # fmt: skip
def test_a_snapshot_goes_on_as_if_nothing_had_been(again):
    corrector = learned(train_counts=np.arange(50))
    assert go_on(again(corrector)) == go_on(corrector)
    named = SparseCorrector("any", max_classes=20)
    named.learn_one({"a": 0.5, "é": 0.2}, "b")
    other = again(named)
    assert (other.names, other.m, other.half_life) == (["b", "a", "é"], 20, 5000)
    assert other.process_one({"é": 0.2}) == named.process_one({"é": 0.2})


def test_a_snapshot_holds_only_what_is_not_nothing():
    assert len(SparseCorrector(1_000_000).to_bytes()) < 2000
    assert len(learned(n=10, m=1_000_000).to_bytes()) < 20_000


def test_a_snapshot_that_needs_more_memory_than_it_may_take_is_refused():
    data = SparseCorrector(100_000).to_bytes()
    with pytest.raises(SnapshotMismatch, match=r"memory_mb allows 0.5"):
        SparseCorrector.from_bytes(data, memory_mb=0.5)


def test_changed_content_behind_a_good_checksum_is_refused_or_gives_probabilities():
    data = learned().to_bytes()
    rng, refused = random.Random(1), 0
    start = snapshot.ENVELOPE.size
    for _ in range(1500):
        payload = bytearray(data[start:])
        for _ in range(rng.choice([1, 1, 2, 5])):
            payload[rng.randrange(len(payload))] = rng.randrange(256)
        try:
            corrector = SparseCorrector.from_bytes(snapshot.sealed(bytes(payload)))
        except SnapshotMismatch:
            refused += 1
            continue
        if corrector.m >= 50:
            go_on(corrector)
            ids, P, _ = stream(50, seed=78)
            sent = corrector.correct_many(ids, P)
            assert (sent.probabilities >= 0).all()
            assert sent.probabilities.sum(axis=1) + sent.rest == pytest.approx(1, abs=1e-3)
    assert refused > 100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ids", 50), ("ids", -1), ("owners", 50), ("owners", -1), ("partners", 50),
        ("partners", -2), ("front", 50), ("front", -1), ("cells", math.nan), ("A", 7), ("G", -1),
        ("numbers", math.inf), ("heard", 2), ("stamps", 10**9),
    ],
)  # fmt: skip
def test_arrays_out_of_range_are_refused(name, value):
    head, arrays = snapshot.decode(learned().to_bytes())
    arrays[name].reshape(-1)[-1] = value
    with pytest.raises(SnapshotMismatch, match=f"snapshot: {name}"):
        SparseCorrector.from_bytes(snapshot.encode(head, arrays))
    del arrays[name]
    with pytest.raises(SnapshotMismatch, match=f"without its {name}"):
        SparseCorrector.from_bytes(snapshot.encode(head, arrays))


# ---- threads, signals


def test_threads_wait_for_each_other():
    corrector, (ids, P, ys) = SparseCorrector(50), stream(500)
    errors = []

    def work():
        try:
            for _ in range(20):
                corrector.process_many(ids, P)
                corrector.learn_many(ids, P, ys)
                SparseCorrector.from_bytes(corrector.to_bytes())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert (corrector.n_predictions, corrector.n_labels) == (4 * 20 * 500, 4 * 20 * 500)


def test_names_of_many_threads_have_one_number_each():
    corrector = SparseCorrector("any", max_classes=2000)
    names = [f"c{i}" for i in range(1000)]

    def work(seed):
        for name in random.Random(seed).sample(names, len(names)):
            corrector.process_one({name: 0.5})

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(corrector.names) == sorted(names)
    assert sorted(corrector.ids_of(names).tolist()) == list(range(1000))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_signal_handler_reads_and_is_refused_to_change():
    corrector = SparseCorrector(50)
    ids, P, ys = (np.tile(a, (400, *[1] * (a.ndim - 1))) for a in stream(1000))
    seen = []

    def handler(*_):
        try:
            corrector.process_one({1: 0.5})
        except Exception as error:
            seen.append(error)
        seen.append(corrector.to_bytes())

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        corrector.learn_many(ids, P, ys.reshape(-1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert corrector.n_labels == 400_000
    assert any(isinstance(a, bytes) for a in seen)
    assert any("inside another call of the same corrector" in str(a) for a in seen)


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from stream_can.sparse import SparseCorrector

rng = np.random.default_rng(0)
ids = np.tile(np.argsort(rng.random((1000, 50)))[:, :10], (3000, 1)).astype(np.int32)
P = np.tile(rng.dirichlet(np.ones(11), 1000)[:, :10], (3000, 1))
ys = ids[:, 3].copy()
corrector, verb = SparseCorrector(50), sys.argv[1]


def interrupt():
    while not corrector.n_predictions + corrector.n_labels:  # it has begun
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt).start()
try:
    corrector.process_many(ids, P) if verb == "process" else corrector.learn_many(ids, P, ys)
except KeyboardInterrupt:
    n = corrector.n_predictions + corrector.n_labels
    assert 0 < n < len(P), n
    plain = SparseCorrector(50)
    plain.process_many(ids[:n], P[:n]) if verb == "process" else plain.learn_many(
        ids[:n], P[:n], ys[:n])
    assert plain.to_bytes() == corrector.to_bytes()
    print("interrupted")
"""


@pytest.mark.parametrize("verb", ["process", "learn"])
def test_ctrl_c_ends_a_long_call_between_two_rows(verb):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, verb], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    assert "interrupted" in done.stdout


@pytest.mark.parametrize("most", ["any", 5000])
def test_one_label_that_no_row_listed_takes_little_from_those_listed(most):
    """Before, of a million classes the rest took .96 of each row, and one of its classes was on
    top."""
    rng = np.random.default_rng(0)
    corrector = SparseCorrector(most) if most == "any" else SparseCorrector("any", max_classes=most)
    rows = []
    for _ in range(300):
        names = [f"item {k}" for k in rng.permutation(1000)[:10]]
        rows.append(dict(zip(names, (0.95 * rng.dirichlet(np.ones(10))).tolist(), strict=True)))
    sent = [corrector.process_one(row, receipt=True) for row in rows[:200]]
    corrector.learn_one(rows[0], "item 5000", receipt=sent[0][1])
    for row in rows[200:]:
        better = corrector.correct_one(row)
        assert max(better.probabilities, key=better.probabilities.get) == max(row, key=row.get)
        assert better.rest < 0.35
