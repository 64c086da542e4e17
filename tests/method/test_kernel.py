"""The compiled loop equals the oracle, whatever the stream and however it is cut."""

import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import stream_can
from stream_can import Corrector, batch_can, laplace
from stream_can.method.kernel import bad_rows
from stream_can.method.paths import PATHS, split
from tests.oracle import Oracle
from tests.strategies import rows, streams

pytestmark = pytest.mark.fast


def run(corrector, P, events):
    """Drive a corrector one call at a time; returns the outputs."""
    out = []
    for verb, i, y in events:
        if verb == "process":
            out.append(corrector.process_one(P[i]))
        elif verb == "observe":
            corrector.observe_one(P[i])
        else:
            corrector.learn_one(P[i] if verb == "learn" else None, y)
    return out


def far_from_threshold(oracle, p):
    """CAN jumps at the threshold: rounding may decide there."""
    p = np.asarray(p, float) / np.asarray(p, float).sum()
    names = {split(path)[0] for path in oracle.paths}
    return all(
        abs(oracle.uncertainty_of(oracle.base_row(name, p)) - oracle.threshold) > 1e-9
        for name in names
    )


@given(streams())
def test_equals_the_oracle(stream):
    m, counts, settings, P, events = stream
    oracle = Oracle(m, train_counts=counts, **settings)
    corrector = Corrector(m, train_counts=counts, **settings)
    tolerance = 1e-6 if any("matrix" in path for path in settings["paths"]) else 1e-9
    for verb, i, y in events:
        if verb != "label":
            assume(far_from_threshold(oracle, P[i]))
            explained = corrector.explain_one(P[i])
            for path, r in oracle.explain(P[i]).items():
                np.testing.assert_allclose(explained[path], r, atol=tolerance, err_msg=path)
        if verb == "process":
            np.testing.assert_allclose(
                corrector.process_one(P[i]), oracle.process(P[i]), atol=tolerance
            )
        elif verb == "observe":
            corrector.observe_one(P[i])
            oracle.observe(P[i])
        else:
            p = P[i] if verb == "learn" else None
            corrector.learn_one(p, y)
            oracle.learn(p, y)
    np.testing.assert_allclose(list(corrector.weights.values()), oracle.w, atol=tolerance)
    np.testing.assert_allclose(corrector.prior, oracle.q, atol=1e-12)
    for name, sums in corrector.confident_sums.items():
        np.testing.assert_allclose(sums, oracle.S[name], atol=tolerance * 100)


@given(streams(), st.data())
def test_any_cut_into_batches_gives_the_same_bits(stream, data):
    m, counts, settings, P, events = stream
    one = Corrector(m, train_counts=counts, **settings)
    many = Corrector(m, train_counts=counts, **settings)
    expected = run(one, P, events)
    got = []
    while events:
        verb = events[0][0]
        same = next((i for i, event in enumerate(events) if event[0] != verb), len(events))
        cut = data.draw(st.integers(1, same))
        at, y = [event[1] for event in events[:cut]], [event[2] for event in events[:cut]]
        if verb == "process":
            got.extend(many.process_many(P[at]))
        elif verb == "observe":
            many.observe_many(P[at])
        else:
            many.learn_many(P[at] if verb == "learn" else None, y)
        events = events[cut:]
    assert [r.tobytes() for r in expected] == [r.tobytes() for r in got]
    assert one.to_bytes() == many.to_bytes()


@given(streams())
def test_a_replay_is_those_calls_in_one(stream):
    m, counts, settings, P, events = stream
    one = Corrector(m, train_counts=counts, **settings)
    many = Corrector(m, train_counts=counts, **settings)
    events = [event for event in events if event[0] != "observe"]
    expected = run(one, P, events)
    processed, earlier, ys, due = [], [], [], []
    for verb, i, y in events:
        if verb == "process":
            processed.append(i)
            continue
        ys.append(y)
        due.append(len(processed))
        earlier.append(i if verb == "learn" else None)
    labelled = [i for i in earlier if i is not None]
    at = iter(range(len(labelled)))
    rows = [-1 if i is None else next(at) for i in earlier]
    first, asked = len(labelled), (np.array(ys, int), np.array(rows, int), np.array(due, int))
    got, _ = many.play(P[[*labelled, *processed]], *asked, first=first)
    assert [r.tobytes() for r in expected] == [r.tobytes() for r in got]
    assert one.to_bytes() == many.to_bytes()
    for k, wrong in [(0, m), (0, -1), (1, first + len(processed)), (1, -2), (2, -1), (2, 10**9)]:
        bad = [array.copy() for array in asked]
        if ys:
            bad[k][-1] = wrong
            with pytest.raises(ValueError, match="out of range"):
                many.play(P[[*labelled, *processed]], *bad, first=first)
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
        assert abs(out.sum() - 1) < 1e-9
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


@given(streams(), st.randoms(use_true_random=False))
def test_permuting_the_classes_permutes_the_output(stream, random):
    m, counts, settings, P, events = stream
    order = list(range(m))
    random.shuffle(order)
    order = np.array(order)
    place = np.argsort(order)
    if m > 5:  # ties among the largest go to the lower index, which a permutation changes
        top = np.sort(np.asarray(P, float), axis=1)[:, ::-1]
        assume((top[:, 4] - top[:, 5] > 1e-12).all())
    oracle = Oracle(m, train_counts=counts, **settings)
    plain = Corrector(m, train_counts=counts, **settings)
    other = Corrector(m, train_counts=None if counts is None else counts[order], **settings)
    for verb, i, y in events:
        if verb != "label":
            assume(far_from_threshold(oracle, P[i]))
        p = P[i] if verb != "label" else None
        if verb == "process":
            oracle.process(p)
            a, b = plain.process_one(p), other.process_one(p[order])
            np.testing.assert_allclose(
                a[order], b, atol=1e-9 if "matrix" not in str(settings) else 1e-6
            )
        elif verb == "observe":
            oracle.observe(p)
            plain.observe_one(p)
            other.observe_one(p[order])
        else:
            oracle.learn(p, y)
            plain.learn_one(p, y)
            other.learn_one(None if p is None else p[order], int(place[y]))


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


def test_the_gil_is_released_inside_a_large_call():
    """With a switch interval of an hour another thread runs only where the GIL is given up."""
    P = np.random.default_rng(0).dirichlet(np.ones(100), 60_000)
    corrector = Corrector(100)
    started, finished = threading.Event(), threading.Event()

    def work():
        started.set()
        corrector.process_many(P)
        finished.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        progress, refused = 0, 0
        while not finished.is_set():
            progress += 1
            try:
                corrector.correct_one(P[0])
            except RuntimeError:
                refused += 1
            time.sleep(0.001)  # gives the GIL back
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert progress > 0
    assert refused > 0
    assert corrector.n_predictions == len(P)


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
