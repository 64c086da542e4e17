"""The corrector of multilabel rows: equal to the slow statement, and never half done."""

from __future__ import annotations

import copy
import pickle
import signal
import threading

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import InvalidPrediction, SnapshotMismatch, UnknownClass, snapshot
from stream_can.multilabel import LabelScores, MultiLabelCorrector
from tests.examples import examples
from tests.multilabel.oracle import OracleMultiLabel

pytestmark = pytest.mark.fast


def a_row(rng, m, kind):
    """Probabilities; some exactly 0 and 1."""
    if kind == "edges":
        return rng.choice([0.0, 1e-300, 1e-6, 0.3, 0.5, 0.7, 1 - 1e-6, 1.0], m)
    p = rng.beta(0.3, 0.3, m) if kind == "sure" else rng.uniform(0.2, 0.8, m)
    return np.clip(p, 0, 1)


def some_labels(rng, p, kind):
    """1, 0 and -1, related to the row."""
    y = (rng.random(len(p)) < 0.2 + 0.5 * p).astype(int)
    if kind == "all yes":
        return np.ones(len(p), int)
    if kind == "all no":
        return np.zeros(len(p), int)
    if kind == "yes only":
        return np.where(y == 1, 1, -1)
    if kind == "none":
        return np.full(len(p), -1)
    share = {"all": 1.0, "half": 0.5, "few": 0.1}[kind]
    return np.where(rng.random(len(p)) < share, y, -1)


@given(st.data())
@settings(max_examples=examples(25))
def test_equals_the_slow_statement(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    m = data.draw(st.sampled_from([1, 2, 3, 5, 8, 33]))
    half_life = data.draw(st.sampled_from([1.0, 10.0, 200.0, 5000.0]))
    delay = data.draw(st.sampled_from([0, 5]))
    kinds = data.draw(
        st.lists(
            st.sampled_from(["all", "half", "few", "all yes", "all no", "yes only", "none"]),
            min_size=1,
        )
    )
    rows = data.draw(st.sampled_from(["edges", "sure", "unsure"]))
    train = {}
    if data.draw(st.booleans()):
        train = {"train_counts": rng.integers(0, 101, m), "train_rows": 100}
    fast = MultiLabelCorrector(m, half_life=half_life, **train)
    slow, waiting = OracleMultiLabel(m, half_life=half_life, **train), []
    for _ in range(data.draw(st.integers(1, 60))):
        p = a_row(rng, m, rows)
        sent, receipt = fast.process_one(p, receipt=True)
        expected, its_receipt = slow.process(p)
        assert sent == pytest.approx(expected, abs=1e-10)
        assert receipt.reshape(2, m) == pytest.approx(its_receipt, abs=1e-6)
        waiting.append((p, some_labels(rng, p, rng.choice(kinds)), receipt))
        if len(waiting) <= delay:
            continue
        p, y, receipt = waiting.pop(0)
        how = rng.choice(["receipt", "receipt", "now", "nan", "alone"])
        if how == "alone":
            slow.learn(None, y)
            fast.learn_one(None, y)
            continue
        if how == "nan":
            receipt = np.where(rng.random(2 * m) < 0.2, np.float32(np.nan), receipt)
        kept = None if how == "now" else receipt
        slow.learn(p, y, None if kept is None else kept.reshape(2, m))
        fast.learn_one(p, y, receipt=kept)
    assert list(fast.weights.values()) == pytest.approx(list(slow.w), abs=1e-9)
    assert fast._numbers["vector"] == pytest.approx(slow.vector.u, abs=1e-8)


def test_ten_thousand_labels_equal_the_slow_statement():
    rng = np.random.default_rng(4)
    m = 10_000
    fast, slow = MultiLabelCorrector(m), OracleMultiLabel(m)
    for _ in range(3):
        p = a_row(rng, m, "sure")
        sent, receipt = fast.process_one(p, receipt=True)
        assert sent == pytest.approx(slow.process(p)[0], abs=1e-10)
        y = some_labels(rng, p, "few")
        slow.learn(p, y, receipt.reshape(2, m))
        fast.learn_one(p, y, receipt=receipt)


def stream(n=200, m=7, seed=0, kind="half"):
    rng = np.random.default_rng(seed)
    P = np.array([a_row(rng, m, "sure") for _ in range(n)])
    return P, np.array([some_labels(rng, p, kind) for p in P])


def learned(m=7, **more):
    corrector, (P, Y) = MultiLabelCorrector(m, half_life=100, **more), stream(m=m)
    _, receipts = corrector.process_many(P, receipt=True)
    corrector.learn_many(P, Y, receipts=receipts)
    return corrector


# ---- one way and another have the same bits


def test_one_row_and_many_have_the_same_bits():
    many, one = MultiLabelCorrector(7, half_life=50), MultiLabelCorrector(7, half_life=50)
    for seed in range(3):
        P, Y = stream(60, seed=seed)
        sent, receipts = many.process_many(P, receipt=True)
        kept = []
        for p, better in zip(P, sent, strict=True):
            row, receipt = one.process_one(p, receipt=True)
            assert row.tobytes() == better.tobytes()
            kept.append(receipt)
        assert np.array(kept).tobytes() == receipts.tobytes()
        many.learn_many(P, Y, receipts=receipts)
        for p, y, receipt in zip(P, Y, kept, strict=True):
            one.learn_one(p, y, receipt=receipt)
        assert many.to_bytes() == one.to_bytes()


def test_play_is_process_and_learn_in_that_order():
    played, by_hand = learned(), learned()
    (before, Y0), (P, Y) = stream(3, seed=8), stream(20, seed=9)
    receipts = np.full((13, 14), np.nan, np.float32)
    rows, due = [0, 2, -1], [0, 4, 4]
    expected, kept, labels = [], {}, [*Y0[[0, 2]], Y[0]]
    earlier = by_hand.correct_many(before, receipt=True)[1]
    receipts[:2] = earlier[[0, 2]]
    for i in range(10):  # of each row of the call two later
        rows.append(3 + i)
        due.append(i + 3 if i > 1 else 4)
        labels.append(Y[i])
    at = 0
    for i, p in enumerate([*P, None]):
        while at < len(due) and due[at] <= i:
            row = rows[at]
            if row < 0:
                by_hand.learn_one(None, labels[at])
            elif row < 3:
                by_hand.learn_one(before[row], labels[at], receipt=receipts[at])
            else:
                by_hand.learn_one(P[row - 3], labels[at], receipt=kept[row - 3])
            at += 1
        if p is not None:
            better, kept[i] = by_hand.process_one(p, receipt=True)
            expected.append(better)
    assert at == 13
    found = played.play(
        np.concatenate([before, P]), np.array(labels), np.array(rows), np.array(due), first=3,
        receipts=receipts,
    )  # fmt: skip
    assert found.rows.tobytes() == np.array(expected).tobytes()
    assert played.to_bytes() == by_hand.to_bytes()


def test_correct_changes_nothing_and_observe_is_process_without_output():
    corrector, (P, _) = learned(), stream(5, seed=3)
    before = corrector.to_bytes()
    sent, receipts = corrector.correct_many(P[:1], receipt=True)
    assert sent.tobytes() == corrector.correct_one(P[0]).tobytes()
    assert corrector.to_bytes() == before
    found = corrector.process_many(P[:1], receipt=True)
    assert [a.tobytes() for a in found] == [sent.tobytes(), receipts.tobytes()]
    other = learned()
    other.observe_many(P[:1])
    other.observe_one(P[1])
    corrector.process_one(P[1])
    assert corrector.to_bytes() == other.to_bytes()


def test_rows_and_labels_by_name():
    names = ["a", "b", "c"]
    by_name, by_place = MultiLabelCorrector(names), MultiLabelCorrector(3)
    better = by_name.process_one({"c": 0.1, "a": 0.3, "b": 0.8})
    assert better.tobytes() == by_place.process_one([0.3, 0.8, 0.1]).tobytes()
    frame = pd.DataFrame({"b": [0.8, 0.2], "a": [0.3, 0.4], "c": [0.1, 0.9]})
    found = by_name.process_many(frame)
    assert found.tobytes() == by_place.process_many([[0.3, 0.8, 0.1], [0.4, 0.2, 0.9]]).tobytes()
    by_name.learn_one([0.3, 0.8, 0.1], {"b": True, "c": False})
    by_place.learn_one([0.3, 0.8, 0.1], [-1, 1, 0])
    by_name.learn_one(None, by_name.row_of(["a"]))
    by_place.learn_one(None, [1, 0, 0])
    assert by_name.label_counts.tolist() == by_place.label_counts.tolist()
    assert by_name.row_of(["a"], ["c"]).tolist() == [1, -1, 0]


# ---- guards: labels that are no fair sample


@pytest.mark.parametrize("kind", ["all yes", "yes only", "all no"])
def test_labels_of_one_kind_alone_change_next_to_nothing(kind):
    corrector = MultiLabelCorrector(7, half_life=300)
    P, Y = stream(400, kind=kind)
    for p, y in zip(P, Y, strict=True):
        _, receipt = corrector.process_one(p, receipt=True)
        corrector.learn_one(p, y, receipt=receipt)
    assert corrector.correct_many(P[:20]) == pytest.approx(P[:20], abs=1e-12)


def test_a_label_whose_negatives_never_come_stays_as_it_is():
    corrector = MultiLabelCorrector(4, half_life=300)
    P, Y = stream(400, m=4, kind="all")
    Y[:, 2] = np.where(Y[:, 2] == 1, 1, -1)
    corrector.process_many(P)
    corrector.learn_many(P, Y)
    found = corrector.correct_many(P[:20])
    assert found[:, 2].tolist() == P[:20, 2].tolist()
    assert abs(found[:, 0] - P[:20, 0]).max() > 0.05


def test_without_labels_next_to_nothing_changes():
    corrector, (P, _) = MultiLabelCorrector(7), stream(500)
    assert corrector.process_many(P) == pytest.approx(np.clip(P, 1e-4, 1 - 1e-4), abs=0.002)


# ---- decisions


def test_the_threshold_is_that_of_the_best_expected_f1():
    corrector = learned()
    rows = np.concatenate([corrector.process_many(stream(250, seed=k)[0]) for k in range(30)])
    last = rows[-1000:].ravel()  # those of before count a half, a quarter and so on

    def expected_f1(t):
        return 2 * last[last >= t].sum() / ((last >= t).sum() + last.sum())

    best = max(np.linspace(0.01, 0.99, 99), key=expected_f1)
    assert corrector.threshold == pytest.approx(expected_f1(best) / 2, abs=0.01)
    assert corrector.threshold == pytest.approx(best, abs=0.03)
    assert corrector.decide(rows[:2]).tolist() == (rows[:2] >= corrector.threshold).tolist()
    assert MultiLabelCorrector(3).threshold == 0.5


# ---- snapshots


def test_a_snapshot_goes_on_to_the_bit():
    corrector = learned(train_counts=range(7), train_rows=10)
    copies = [
        MultiLabelCorrector.from_bytes(corrector.to_bytes(), 7),
        pickle.loads(pickle.dumps(corrector)),
        copy.deepcopy(corrector),
    ]
    P, Y = stream(30, seed=5)
    for one in [corrector, *copies]:
        one.learn_many(P, Y, receipts=one.process_many(P, receipt=True)[1])
    assert {one.to_bytes() for one in copies} == {corrector.to_bytes()}
    assert copies[0].train_shares.tolist() == corrector.train_shares.tolist()
    assert repr(corrector) == "MultiLabelCorrector(7 labels, 230 predictions, 229 rows of labels)"


def test_another_snapshot_is_refused():
    data = learned().to_bytes()
    with pytest.raises(SnapshotMismatch, match="checksum differs"):
        MultiLabelCorrector.from_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(SnapshotMismatch, match="7 labels, expected 3"):
        MultiLabelCorrector.from_bytes(data, 3)


@pytest.mark.parametrize(
    ("array", "at", "value"),
    [
        ("numbers", 0, -1.0), ("numbers", 3, np.nan), ("numbers", 14, 3.0), ("labels", (1, 2), 7.0),
        ("labels", (3, 0), -1.0), ("labels", (5, 0), 1e6), ("bins", (0, 3), -1.0),
        ("bins", (1, 1), 1e9),
    ],
)  # fmt: skip
def test_a_number_out_of_range_is_refused(array, at, value):
    head, arrays = snapshot.decode(learned().to_bytes())
    arrays[array][at] = value
    with pytest.raises(SnapshotMismatch, match=f"{array} (of|out of)"):
        MultiLabelCorrector.from_bytes(snapshot.encode(head, arrays))


def test_missing_arrays_are_refused():
    head, arrays = snapshot.decode(learned().to_bytes())
    for name in arrays:
        fewer = {other: array for other, array in arrays.items() if other != name}
        with pytest.raises(SnapshotMismatch, match=f"without its {name}"):
            MultiLabelCorrector.from_bytes(snapshot.encode(head, fewer))


# ---- what is refused, before anything changes


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.1, np.nan, 0.2], "the probability of label 1 is nan, expected a number from 0 to 1"),
        ([0.1, 0.2, 1.1], "the probability of label 2 is 1.1"),
        ([-1e-9, 0.2, 0.1], "the probability of label 0 is -1e-09"),
        ([0.1, 0.2], r"shape \((1, )?2,?\), expected \(n?,? ?3,?\): one"),
        (["a", "b", "c"], "predictions are <U1, expected real numbers"),
    ],
)
def test_a_bad_row_is_named_and_nothing_changes(p, message):
    corrector = learned(3)
    before = corrector.to_bytes()
    with pytest.raises(InvalidPrediction, match=message):
        corrector.process_one(p)
    with pytest.raises(InvalidPrediction, match=message):
        corrector.process_many([p])
    with pytest.raises(InvalidPrediction, match=message):
        corrector.learn_many([p], [[0, 1, 1]])
    assert corrector.to_bytes() == before


def test_wrong_labels_and_receipts_change_nothing():
    corrector, (P, Y) = learned(3), stream(3, m=3, kind="all")
    before = corrector.to_bytes()
    receipts = corrector.correct_many(P, receipt=True)[1]
    for bad in (2, -2, 0.5):
        wrong = Y.astype(float)
        wrong[1, 2] = bad
        with pytest.raises(UnknownClass, match=rf"row 1: label 2 is {bad}.*expected 1, 0, or -1"):
            corrector.learn_many(P, wrong)
    with pytest.raises(UnknownClass, match=r"labels are int64 of shape \(3,\)"):
        corrector.learn_many(P, Y[0])
    with pytest.raises(InvalidPrediction, match="3 rows but 2 rows of labels"):
        corrector.learn_many(P, Y[:2])
    with pytest.raises(InvalidPrediction, match=r"receipts are float32 of shape \(2, 6\)"):
        corrector.learn_many(P, Y, receipts=receipts[:2])
    for value in (-0.5, 1.5, np.inf):
        wrong = receipts.copy()
        wrong[2, 1] = value
        with pytest.raises(InvalidPrediction, match=f"receipt of row 2: {value}"):
            corrector.learn_many(P, Y, receipts=wrong)
    with pytest.raises(UnknownClass, match="label 'x' is none of the 3 labels: 0, 1, 2"):
        corrector.learn_one(P[0], {"x": True})
    with pytest.raises(UnknownClass, match="label 1: both had and lacked"):
        corrector.row_of([1], [1, 2])
    with pytest.raises(ValueError, match="it needs the row that it belongs to"):
        corrector.learn_one(None, Y[0], receipt=receipts[0])
    with pytest.raises(ValueError, match="they need the rows that they belong to"):
        corrector.learn_many(None, Y, receipts=receipts)
    with pytest.raises(ValueError, match="a label belongs to no row, or is due before it"):
        corrector.play(P, Y[:1], np.array([1]), np.array([1]))
    corrector.learn_many(P, np.full_like(Y, -1))  # nothing is known, and nothing learned
    assert corrector.to_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": []}, "expected at least 1"),
        ({"labels": ["a", "a"]}, "'a' is named twice"),
        ({"half_life": 0.5}, "half_life: 0.5, expected a number from 1"),
        ({"train_counts": [1, 2]}, "train_counts and train_rows: give both"),
        ({"train_rows": 3}, "train_counts and train_rows: give both"),
        ({"train_counts": [1, 4], "train_rows": 3}, "4 rows with label 1, expected 0 to train_r"),
        ({"train_counts": [1], "train_rows": 3}, r"train_counts: shape \(1,\), expected \(2,\)"),
        ({"train_counts": {"x": 1}, "train_rows": 3}, "train_counts: 'x' is none of the labels"),
        ({"train_counts": [1, 1], "train_rows": np.inf}, "train_rows: inf"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelCorrector(**{"labels": 2} | arguments)


# ---- threads and signals


def test_threads_share_one_corrector():
    corrector, (P, Y) = MultiLabelCorrector(7), stream(300)

    def work():
        for p, y in zip(P, Y, strict=True):
            corrector.process_one(p)
            corrector.learn_one(p, y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    known = int((Y >= 0).any(1).sum())
    assert (corrector.n_predictions, corrector.n_labels) == (1200, 4 * known)


def test_a_handler_within_a_call_may_read_and_save():
    corrector = MultiLabelCorrector(200)
    P = np.full((20_000, 200), 0.3)
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(corrector.to_bytes()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        while len(seen) < 2:
            corrector.process_many(P)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert MultiLabelCorrector.from_bytes(seen[-1]).n_predictions <= corrector.n_predictions


def test_a_successor_believes_what_was_learned_and_counts_a_share_of_the_evidence():
    old, same = learned(), learned().successor(1)
    new, none = old.successor(), old.successor(0)
    assert same.to_bytes() == old.to_bytes()
    assert (new.n_labels, none.n_labels) == (old.n_labels // 10, 0)
    assert new.weights == old.weights == none.weights
    assert new.label_counts.tolist() == old.label_counts.tolist()
    P, _ = stream(40, seed=11)
    moved = [abs(one.correct_many(P) - P).mean() for one in (old, new, none)]
    assert moved[0] > moved[1] > moved[2]
    with pytest.raises(ValueError, match="discount: 2, expected a number from 0 to 1"):
        old.successor(2)


def test_no_row_exceeds_one_by_rounding():
    """Sure rows that are always right: paths reach 1, and weights sum to 1 plus a rounding."""
    rng = np.random.default_rng(1)
    shares = rng.random(4)
    corrector = MultiLabelCorrector(4)
    for _ in range(300):
        y = (rng.random(4) < shares).astype(int)
        p = np.where(rng.random(4) < 0.3, y, np.where(y == 1, 0.6, 1 - 0.6))
        row, receipt = corrector.process_one(p, receipt=True)
        assert row.max() <= 1
        corrector.learn_one(p, y, receipt=receipt)


def test_scores_add_up_and_are_those_of_every_label():
    rng = np.random.default_rng(1)
    P, Y = rng.beta(0.5, 0.5, (60, 3)), rng.choice([-1, 0, 1], (60, 3))
    whole, parts = LabelScores(3), LabelScores(3)
    whole.add(P, Y)
    for at in range(0, 60, 20):
        one = LabelScores(3)
        one.add(P[at : at + 20], Y[at : at + 20])
        parts += one
    assert parts.sums() == pytest.approx(whole.sums())
    known = Y >= 0
    given = np.where(Y == 1, P, 1 - P)[known]
    assert whole.log_loss * whole.n == pytest.approx(-np.log(np.maximum(given, 1e-6)).sum())
    f1 = []
    for k in range(3):
        yes, there = (P[:, k] >= 0.5)[known[:, k]], (Y[:, k] == 1)[known[:, k]]
        f1.append(2 * (yes & there).sum() / (yes.sum() + there.sum()))
    assert whole.f1.tolist() == pytest.approx(f1)
    assert whole.macro_f1 == pytest.approx(np.mean(f1))
    assert LabelScores.from_sums(whole.sums(), 3).micro_f1 == whole.micro_f1
    decided = LabelScores(3)
    decided.add(P, Y, yes=np.ones((60, 3), bool))
    there, all_ = (Y == 1).sum(), known.sum()
    assert decided.micro_f1 == pytest.approx(2 * there / (there + all_))
    perfect = LabelScores(1)
    perfect.add([[1.0], [0.0]], [[1], [0]])
    assert (perfect.log_loss, perfect.ece, perfect.micro_f1) == (0, 0, 1)
    with pytest.raises(UnknownClass, match="expected 1, 0 and -1"):
        whole.add(P, Y + 1)
    with pytest.raises(InvalidPrediction, match="expected probabilities of shape"):
        whole.add(P * 2, Y)


def test_a_snapshot_goes_on_under_another_half_life_and_of_the_same_counts_alone():
    data = MultiLabelCorrector(["a", "b"], train_counts=[3, 5], train_rows=10).to_bytes()
    other = MultiLabelCorrector.from_bytes(data, half_life=700)
    again = MultiLabelCorrector.from_bytes(other.to_bytes())
    assert other.half_life == again.half_life == 700
    counts = {"b": 5, "a": 3}
    same = MultiLabelCorrector.from_bytes(data, ["a", "b"], train_counts=counts, train_rows=10)
    assert same.to_bytes() == data
    for wrong, rows in (([3, 6], 10), ([3, 5], 11)):
        with pytest.raises(SnapshotMismatch, match="train_counts"):
            MultiLabelCorrector.from_bytes(data, train_counts=wrong, train_rows=rows)
    none = MultiLabelCorrector(2).to_bytes()
    with pytest.raises(SnapshotMismatch, match="train_counts"):
        MultiLabelCorrector.from_bytes(none, train_counts=[1, 1], train_rows=2)
    with pytest.raises(SnapshotMismatch, match="half_life"):
        MultiLabelCorrector.from_bytes(data, half_life=-1)
