"""The compiled loop equals the oracle, whatever the stream and however it is cut."""

import functools
import inspect
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import CodeType

import hypothesis
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import stream_can
import tests.oracle
from stream_can import Corrector, batch_can, laplace
from stream_can.method.checks import bad_rows
from stream_can.method.paths import PATHS
from stream_can.method.receipts import blank, gave_all, none_known
from tests.correctors import run
from tests.equal import compare, near_a_jump, tolerance_of
from tests.examples import examples
from tests.oracle import Oracle
from tests.strategies import CONFIRMED, CORRECTED, SILENT, events_of, receipt_of, rows, streams

pytestmark = pytest.mark.fast


@settings(max_examples=examples(12))
@example(SILENT)
@example(CONFIRMED)
@example(CORRECTED)
@given(streams())
def test_equals_the_oracle(stream):
    m, counts, settings, P, events = stream
    oracle = Oracle(m, train_counts=counts, **settings)
    corrector = Corrector(m, train_counts=counts, **settings)
    compare(oracle, corrector, P, events, tolerance_of(settings))


@settings(max_examples=examples(12))
@given(streams(), st.lists(st.sampled_from([0.01, 0.3, 1.0, 2.5, 20.0, 100.0]), min_size=1))
def test_equals_the_oracle_with_weights(stream, weights):
    m, counts, settings, P, events = stream
    oracle = Oracle(m, train_counts=counts, **settings)
    corrector = Corrector(m, train_counts=counts, **settings)
    compare(oracle, corrector, P, events, 100 * tolerance_of(settings), weights=weights)


@settings(max_examples=examples(5))
@given(streams(), st.data())
def test_equals_the_oracle_with_a_class_that_appears_on_the_way(stream, data):
    m, counts, settings, P, events = stream
    oracle = Oracle(m, train_counts=counts, **settings)
    corrector = Corrector(m, train_counts=counts, **settings)
    tolerance, half = tolerance_of(settings), len(events) // 2
    compare(oracle, corrector, P, events[:half], tolerance)
    sent = []
    for p in P:
        if not near_a_jump(oracle, p):
            sent.append((p, oracle.process(p)[1], corrector.process_one(p, receipt=True)[1]))
    oracle.add_class()
    corrector._add_class(m)
    for i, (p, then, _) in enumerate(sent):  # receipts that lack the new column
        p, y = np.append(p, 0), [m, 0][i % 2]
        if not near_a_jump(oracle, p, y):
            oracle.learn(p, y, then)
            corrector.learn_one(p, y, receipt=then)
    P = data.draw(rows(m + 1, len(P)))
    compare(oracle, corrector, P, data.draw(events_of(P)), tolerance)


@pytest.mark.release
def test_the_streams_reach_every_line_of_the_oracle_and_few_events_lie_near_a_jump():
    """So that what the comparison does not see is not there; `ladder` and `fit` on few rows."""
    reached, counted = set(), Counter()

    def trace(frame, event, arg):
        if frame.f_code.co_filename == tests.oracle.__file__:
            reached.add(frame.f_lineno)
            return trace if lines_of(frame.f_code) - reached else None
        return None

    @hypothesis.settings(max_examples=200, derandomize=True, database=None)
    @example(SILENT)
    @example(CONFIRMED)
    @example(CORRECTED)
    @given(streams(st.integers(1, 12)))
    def play(stream):
        m, counts, settings, P, events = stream
        oracle, kept = Oracle(m, train_counts=counts, **settings), {}
        for verb, i, y, kind in events:
            counted["events"] += 1
            counted["lambda between"] += 0 < oracle.trust(P[i].argmax()) < 1
            if verb != "label" and near_a_jump(oracle, P[i], y if verb == "learn" else None):
                counted["near a jump"] += 1
            elif verb == "process":
                _, kept[i] = oracle.process(P[i])
            elif verb == "observe":
                oracle.observe(P[i])
            else:
                p = P[i] if verb == "learn" else None
                receipt = receipt_of(kind, kept.get(i), m)
                counted["judged as sent"] += receipt is not None
                oracle.learn(p, y, receipt)
                counted["silent"] += oracle.silent.any()
        assert 0 <= oracle.coverage < 1 + 1e-9
        assert oracle.last_temperature > 0
        assert abs(oracle.final_weights.sum() - 1) < 1e-9
        assert (oracle.n == 0) == np.isnan(oracle.recent_log_loss).all()
        receipt = oracle.process(P[0])[1]
        oracle.add_class()
        oracle.learn(np.append(P[0], 0), m, receipt)
        oracle.successor().successor(1)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        play()
        for n, m in [(20, 3), (12, 257), (500, 2)]:
            rng = np.random.default_rng(n)
            oracle = Oracle(m, paths=["temperature"])
            oracle.fit(rng.dirichlet(np.ones(m), n), rng.integers(0, m, n))
            for p in rng.dirichlet(np.full(m, 0.1), 20):
                oracle.process(p)
                oracle.learn(p, 0)
            more = np.zeros(len(oracle.pi) * (m + 1) + 1)  # a receipt of more classes: as none
            oracle.learn(p, 0, more)
            oracle.successor()
        Oracle(3, paths=["raw", "full"]).successor(0)
        known_mix = Oracle(3, train_counts=[1, 2, 3], prior=np.array([0.2, 0.3, 0.5]))
        known_mix.process(np.array([0.6, 0.3, 0.1]))
        play_with_segments()
    finally:
        sys.settrace(before)
    source = Path(tests.oracle.__file__).read_text(encoding="utf-8")
    assert sorted(lines_of_functions(source) - reached) == []
    assert counted["near a jump"] < 0.05 * counted["events"]
    for rare in ("lambda between", "judged as sent", "silent"):
        assert counted[rare]


def play_with_segments():
    """Values that repeat, are not given, are evicted; what is refused."""
    rng = np.random.default_rng(0)
    oracle = Oracle(3, segments=["a", "b"], segments_bytes=300)
    values = [{"a": 1, "b": True}, {"a": 2.0, "b": "x"}, {"a": np.nan}, None]
    oracle.fit(rng.dirichlet(np.ones(3), 4), [0, 1, 2, 0], values)
    for i in range(8):
        p = rng.dirichlet(np.ones(3))
        _, receipt = oracle.process(p, values[i % 4])
        oracle.learn(p, i % 3, receipt, values[i % 4])
    oracle.successor()
    oracle = Oracle(3, segments=["a"])
    oracle.learn(p, 0, segments={"a": 1})
    oracle.add_class()
    for wrong in ({"c": 1}, {"a": 0.5}):
        with pytest.raises(ValueError, match="column"):
            oracle.process(np.append(p, 0), wrong)
    with pytest.raises(ValueError, match="segments need"):
        Oracle(3, segments=["a"], paths=["raw"])


@functools.cache
def lines_of(code):
    return {line for _, _, line in code.co_lines() if line is not None}


def lines_of_functions(source):
    """The numbers of the lines that run when the functions of a module are called."""
    lines, codes = set(), [compile(source, "", "exec")]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        if code.co_flags & inspect.CO_OPTIMIZED:
            lines |= lines_of(code)
    return lines


@given(streams(), st.data())
def test_any_cut_into_batches_gives_the_same_bits(stream, data):
    m, counts, settings, P, events = stream
    one = Corrector(m, train_counts=counts, **settings)
    many = Corrector(m, train_counts=counts, **settings)
    expected = run(one, P, events)
    got, kept = [], {}
    while events:
        verb = events[0][0]
        same = next((i for i, event in enumerate(events) if event[0] != verb), len(events))
        cut = data.draw(st.integers(1, same))
        at, y = [event[1] for event in events[:cut]], [event[2] for event in events[:cut]]
        if verb == "process":
            better, receipts = many.process_many(P[at], receipt=True)
            for i, row, receipt in zip(at, better, receipts, strict=True):
                got += [row, receipt]
                kept[i] = receipt
        elif verb == "observe":
            many.observe_many(P[at])
        elif verb == "learn":
            unknown = blank(1, m, many.n_sent)[0]
            back = [receipt_of(kind, kept.get(i), m) for _, i, _, kind in events[:cut]]
            receipts = np.array([unknown if receipt is None else receipt for receipt in back])
            many.learn_many(P[at], y, receipts=receipts)
        else:
            many.learn_many(None, y)
        events = events[cut:]
    assert [r.tobytes() for r in expected] == [r.tobytes() for r in got]
    assert one.to_bytes() == many.to_bytes()


@given(streams(), st.booleans())
def test_a_replay_is_those_calls_in_one(stream, asked):
    """With labels of rows processed before, or, where receipts are `asked` for, of its own rows."""
    m, counts, settings, P, events = stream
    one = Corrector(m, train_counts=counts, **settings)
    many = Corrector(m, train_counts=counts, **settings)
    if asked:
        events = [(verb, i, y, "as sent") for verb, i, y, _ in events]
    events = [event for event in events if event[0] != "observe"]
    expected = run(one, P, events)
    processed = [i for verb, i, _, _ in events if verb == "process"]
    labelled = [i for verb, i, _, _ in events if verb == "learn"]
    kept, at, ys, rows, due, known = {}, {}, [], [], [], []
    seen = earlier = 0
    for verb, i, y, kind in events:
        if verb == "process":
            kept[i], at[i] = expected[2 * seen + 1], len(labelled) + seen
            seen += 1
            continue
        ys.append(y)
        due.append(seen)
        rows.append(-1)
        known.append(none_known(1, many.n_sent)[0])
        if verb == "learn":
            rows[-1] = at[i] if asked and i in at else earlier
            earlier += 1
            receipt = receipt_of(kind, kept.get(i), m)
            if not asked and receipt is not None:
                known[-1] = gave_all(receipt[None], np.array([y]), many.n_sent)[0]
    call = P[[*labelled, *processed]], np.array(ys, int), np.array(rows, int), np.array(due, int)
    first = len(labelled)
    known = np.array(known, np.float32).reshape(-1, many.n_sent + 1)
    played = many.play(*call, first=first, known=known, receipt=asked)
    assert [r.tobytes() for r in expected[::2]] == [r.tobytes() for r in played.rows]
    if asked:
        assert [r.tobytes() for r in expected[1::2]] == [r.tobytes() for r in played.receipts]
    assert one.to_bytes() == many.to_bytes()
    for k, wrong in [(1, m), (1, -1), (2, first + len(processed)), (2, -2), (3, -1), (3, 10**9)]:
        bad = [array.copy() for array in call]
        if ys:
            bad[k][-1] = wrong
            with pytest.raises(ValueError, match="out of range"):
                many.play(*bad, first=first)
    assert one.to_bytes() == many.to_bytes()


@given(st.lists(st.sampled_from(["good", "nan", "negative", "sum", "inf"]), max_size=12))
def test_every_bad_row_is_named(kinds):
    of = {"good": [0.5, 0.25, 0.25], "nan": [np.nan, 0, 1], "negative": [1.5, -0.5, 0],
          "sum": [0.5, 0.5, 0.5], "inf": [0, np.inf, 0]}  # fmt: skip
    found = bad_rows(np.array([of[kind] for kind in kinds], float).reshape(-1, 3))
    assert list(found) == [i for i, kind in enumerate(kinds) if kind != "good"]
    for i, reason in found.items():
        assert ("sum to 1.5" if kinds[i] == "sum" else "expected a finite number") in reason


@given(streams())
def test_rows_sum_to_one_and_looking_changes_nothing(stream):
    m, counts, settings, P, events = stream
    corrector = Corrector(m, train_counts=counts, **settings)
    for out in run(corrector, P, events):
        assert (out >= 0).all()
        if out.dtype == np.float32:  # a receipt
            assert out.size == corrector.n_sent * m + 1
            assert 0 <= out[-1] <= 1
            each = out[:-1].reshape(-1, m)
            np.testing.assert_allclose(each.sum(axis=1), 1, atol=1e-5)
        else:
            assert out.size == m
            np.testing.assert_allclose(out.sum(), 1, atol=1e-9)
    before = corrector.to_bytes()
    many = corrector.correct_many(P)
    explained = corrector.explain_many(P)
    for i, p in enumerate(P):
        assert corrector.correct_one(p).tobytes() == many[i].tobytes()
        for path, r in corrector.explain_one(p).items():
            assert r.tobytes() == explained[path][i].tobytes()
    assert corrector.to_bytes() == before
    assert corrector.process_many(P[:1]).tobytes() == many[:1].tobytes()
    assert abs(sum(corrector.weights.values()) - 1) < 1e-9


@given(streams())
def test_a_snapshot_continues_bit_for_bit(stream):
    m, counts, settings, P, events = stream
    corrector = Corrector(m, train_counts=counts, **settings)
    half = len(events) // 2
    run(corrector, P, events[:half])
    copy = Corrector.from_bytes(corrector.to_bytes())
    first, second = run(corrector, P, events[half:]), run(copy, P, events[half:])
    assert [r.tobytes() for r in first] == [r.tobytes() for r in second]
    assert corrector.to_bytes() == copy.to_bytes()


def tied(p):
    """Whether a tie goes to the lower index, which a permutation changes."""
    top = np.sort(np.asarray(p, float))[::-1]
    return any(top[i] - top[i + 1] < 1e-12 for i in (0, 4) if i + 1 < len(p))


def turned_receipt(receipt, order):
    """The classes of each row in another order; the top stays where it is."""
    each = receipt[:-1].reshape(-1, len(order))
    return np.append(each[:, order], receipt[-1])


@settings(max_examples=examples(5))
@given(streams(), st.randoms(use_true_random=False))
def test_permuting_the_classes_permutes_the_output(stream, random):
    m, counts, settings, P, events = stream
    order = list(range(m))
    random.shuffle(order)
    order = np.array(order)
    place = np.argsort(order)
    oracle = Oracle(m, train_counts=counts, **settings)
    plain = Corrector(m, train_counts=counts, **settings)
    other = Corrector(m, train_counts=None if counts is None else counts[order], **settings)
    kept, turned = {}, {}
    for verb, i, y, kind in events:
        if verb == "label":
            oracle.learn(None, y)
            plain.learn_one(None, y)
            other.learn_one(None, int(place[y]))
            continue
        p = P[i]
        if tied(p) or near_a_jump(oracle, p, y if verb == "learn" else None):
            continue
        if verb == "process":
            oracle.process(p)
            a, kept[i] = plain.process_one(p, receipt=True)
            b, turned[i] = other.process_one(p[order], receipt=True)
            np.testing.assert_allclose(a[order], b, atol=tolerance_of(settings))
        elif verb == "observe":
            oracle.observe(p)
            plain.observe_one(p)
            other.observe_one(p[order])
        else:
            receipt = receipt_of(kind if kind != "perturbed" else "none", kept.get(i), m)
            oracle.learn(p, y, receipt)
            plain.learn_one(p, y, receipt=receipt)
            turned_back = None if receipt is None else turned_receipt(receipt, order)
            other.learn_one(p[order], int(place[y]), receipt=turned_back)


@given(
    st.integers(2, 12).flatmap(lambda m: rows(m, 20)),
    st.sampled_from(["topk_entropy", "entropy", "margin", "any_topk_entropy"]),
    st.sampled_from([0.3, 0.6, 0.9]),
)
def test_can_alone_equals_the_batch_method(P, uncertainty, threshold):
    m = P.shape[1]
    counts = np.arange(m)
    settings = {"uncertainty": uncertainty, "threshold": threshold}
    corrector = Corrector(
        m,
        train_counts=counts,
        paths=["can"],
        half_life=float("inf"),
        pseudo_count=0,
        prior_strength=float("inf"),
        **settings,
    )
    confident = []
    for p in P:
        out = corrector.process_one(p)
        if confident:
            batch = batch_can(np.vstack([*confident, p]), laplace(counts), **settings)[-1]
            np.testing.assert_allclose(out, batch, atol=1e-12)
        if getattr(stream_can, uncertainty)(p) < threshold:
            confident.append(p)


def test_the_gil_is_released_inside_a_large_call_and_the_next_call_waits_for_it():
    """With a switch interval of an hour another thread runs only where the GIL is given up."""
    P = np.random.default_rng(0).dirichlet(np.ones(100), 60_000)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        at_work = False
        while not at_work:  # this thread may get no processor until the other has finished
            corrector, finished = Corrector(100), threading.Event()

            def work(corrector=corrector, finished=finished):
                corrector.process_many(P)
                finished.set()

            thread = threading.Thread(target=work)
            thread.start()
            while not corrector.n_predictions:  # its rows are checked before it has the lock
                time.sleep(0.001)
            at_work = not finished.is_set()
            corrector.process_one(P[0])
            assert corrector.n_predictions == len(P) + 1
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_every_subset_of_the_paths_explains_alike():
    P = np.random.default_rng(3).dirichlet(np.full(6, 0.4), 50)
    y = np.random.default_rng(4).integers(0, 6, 50)
    full = Corrector(6)
    full.process_many(P)
    full.learn_many(P, y)
    expected = full.explain_many(P)
    for path in PATHS:
        alone = Corrector(6, paths=[path])
        alone.process_many(P)
        alone.learn_many(P, y)
        assert alone.explain_many(P)[path].tobytes() == expected[path].tobytes()
        assert alone.correct_many(P).tobytes() == expected[path].tobytes()
        assert alone.weights == {path: 1.0}
