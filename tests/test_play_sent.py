"""One learner behind many correctors: equal to the bare corrector, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector, Learner
from stream_can.learner import Events, LateLabel, SentBatch, SentVersion, read_sent
from stream_can.scores import Scores
from tests.examples import examples

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c"]


def batch(ids, P, sent, receipts, columns, numbers):
    """What a corrector without a memory sends, over the wire."""
    rows = np.concatenate([P.view("<f4"), sent.view("<f4"), receipts], axis=1)
    n = len(ids)
    return read_sent(
        SentBatch(
            ids, np.array(numbers, np.int64), np.full(n, np.nan),
            [SentVersion((None, None), (*CLASSES,), rows)], np.zeros(n, np.int32), columns,
        ).to_bytes()
    )  # fmt: skip


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_equals_the_bare_corrector(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    sets = data.draw(st.sampled_from([None, 0.8]))
    columns = data.draw(st.booleans())
    options = {"sets": sets, "half_life": 50.0, "segments": ["t"] if columns else None}
    learner = Learner(Corrector(CLASSES, **options))
    plain = Corrector(CLASSES, **options)
    states = [plain.to_bytes()]  # correctors go on with any of these
    kept, labelled, before, after = {}, set(), Scores(), Scores()
    n_rows = 0
    for _ in range(data.draw(st.integers(1, 12))):
        n = int(rng.integers(0, 6))
        ids = [f"{n_rows + i}" for i in range(n)]
        P = rng.dirichlet(np.full(3, 0.6), n)
        texts = [str(k) for k in rng.integers(3, size=n)]
        given_ = {"t": texts} if columns and n else {}
        sender = Corrector.from_bytes(states[rng.integers(len(states))])
        sent, receipts = sender.correct_many(P, receipt=True, segments=given_ or None)
        labels = sorted(
            (int(rng.integers(0, n + 1)), str(rng.integers(0, n_rows + n)))
            for _ in range(rng.integers(0, 5))
            if n_rows + n
        )
        told = [LateLabel(id, CLASSES[int(id) % 3], due=due) for due, id in labels]
        played = learner.play_sent(
            Events(batch(ids, P, sent, receipts, given_, range(n_rows, n_rows + n)), told)
        )
        assert played.rows.tolist() == sent.tolist()
        outcomes = []
        for i in range(n + 1):
            for due, id in labels:
                if due != i:
                    continue
                key = id, id in kept  # one that came without its prediction is known again, too
                if key in labelled:
                    outcomes.append("repeated")
                    continue
                labelled.add(key)
                if id not in kept:
                    outcomes.append("unknown")
                    plain.learn_one(None, CLASSES[int(id) % 3])
                    continue
                outcomes.append("learned")
                p, was, receipt, text = kept[id]
                y = CLASSES[int(id) % 3]
                plain.learn_one(p, y, receipt=receipt, segments=(columns and {"t": text}) or None)
                before.add(p[None], [int(id) % 3])
                after.add(was[None], [int(id) % 3])
            if i == n:
                break
            kept[ids[i]] = P[i], sent[i], receipts[i], texts[i]
            plain.observe_one(P[i], segments={"t": texts[i]} if columns else None)
        assert played.outcomes == outcomes
        assert [one.label for one in played.taught] == [
            k for k, outcome in enumerate(outcomes) if outcome == "learned"
        ]
        n_rows += n
        if rng.random() < 0.5:
            states.append(plain.to_bytes())
        if rng.random() < 0.2:
            learner = Learner.from_bytes(learner.to_bytes())
        ((_, mine),) = learner.correctors.items()
        assert mine == plain.to_bytes()
    for raw, out in learner.scores.values():
        assert raw.n == before.n
        assert raw.log_loss == pytest.approx(before.log_loss, nan_ok=True)
        assert out.log_loss == pytest.approx(after.log_loss, nan_ok=True)


def test_a_receipt_of_another_size_says_nothing():
    learner, P = Learner(Corrector(CLASSES, sets=0.9)), np.array([[0.5, 0.3, 0.2]])
    sent, receipts = Corrector(CLASSES).correct_many(P, receipt=True)
    told = LateLabel("x", "b", due=1)
    played = learner.play_sent(Events(batch(["x"], P, sent, receipts, {}, [7]), [told]))
    assert played.outcomes == ["learned"]
    assert learner.next_number == 1


def test_rows_of_other_classes_are_passed_over():
    learner, P = Learner(Corrector(["a", "b"])), np.array([[0.5, 0.3, 0.2]])
    sent, receipts = Corrector(CLASSES).correct_many(P, receipt=True)
    told = [LateLabel("x", "a", due=1)]
    played = learner.play_sent(Events(batch(["x"], P, sent, receipts, {}, [0]), told))
    assert played.outcomes == ["unknown"]
    assert (learner.next_number, learner.waiting) == (1, 0)


@pytest.mark.parametrize("names", [[(None, None)] * 2, [("m", None), ("n", None)]], ids=str)
def test_the_clock_goes_no_further_than_until(names):
    """What is about to be sent elsewhere is older than these rows: labels wait for it."""
    P = np.full((2, 3), 1 / 3)
    learner = Learner(Corrector(CLASSES), label_wait=20)

    def play(first, labels, times, until):
        sent, receipts = Corrector(CLASSES).correct_many(P, receipt=True)
        rows = np.concatenate([P.view("<f4"), sent.view("<f4"), receipts], axis=1)
        lanes = [SentVersion(name, (*CLASSES,), rows[:1]) for name in dict.fromkeys(names)]
        if len(lanes) == 1:
            lanes = [lanes[0]._replace(rows=rows)]
        of = np.arange(2, dtype=np.int32) % len(lanes)
        events = SentBatch(
            [b"%d" % first, b"%d" % (first + 1)], np.array([first, first + 1]), np.array(times),
            lanes, of, {},
        )  # fmt: skip
        return learner.play_sent(Events(events, labels), until=until)

    play(0, [LateLabel(b"late", "a", due=2, time=10.0)], [1.0, 2.0], 5.0)
    assert (learner.clock, learner.held) == (2.0, 1)
    play(2, [], [100.0, 101.0], 25.0)
    assert (learner.clock, learner.held) == (25.0, 1)
    play(4, [], [102.0, 103.0], 31.0)
    assert (learner.clock, learner.held) == (31.0, 0)


@pytest.mark.parametrize(("before", "after"), [(0.9, None), (None, 0.9), (0.9, 0.8)])
@pytest.mark.parametrize("m", [3, 5])
def test_predictions_outlive_sets_that_come_or_go(m, before, after):
    """What workers sent until they have the learner's next state."""
    rng, classes = np.random.default_rng(m), [*map(str, range(m))]
    P, labels = rng.dirichlet(np.ones(m), 40), [classes[y] for y in rng.integers(m, size=40)]
    sender = Learner(Corrector(classes, sets=before))
    sender.keep_events()
    learner, plain = Learner(Corrector(classes, sets=after)), Corrector(classes, sets=after)
    for part in (range(20), range(20, 40)):  # the second when labels have come, so thetas differ
        rows, theirs = P[part.start : part.stop], labels[part.start : part.stop]
        sender.process_many([*part], rows)
        sent = read_sent(sender.take_events().sent.to_bytes())
        sender.label_many([*part], theirs)
        sender.take_events()
        receipts = sent.versions[0].receipts
        assert before is None or part.start == 0 or receipts[:, -5].max() > 1.1
        learner.require_sent(sent)
        assert (learner.classes_in_sets(sent) > 0) == (before is not None)
        told = [LateLabel(id, y, due=20) for id, y in zip(part, theirs, strict=True)]
        assert learner.play_sent(Events(sent, told)).outcomes == ["learned"] * 20
        plain.observe_many(rows)
        plain.learn_many(rows, theirs, receipts=receipts)
    ((_, live),) = learner.live.items()
    assert live.corrector.to_bytes() == plain.to_bytes()
