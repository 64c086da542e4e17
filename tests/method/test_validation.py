"""fit: helpful before the first label."""

import copy
import warnings

import numpy as np
import pytest

from stream_can import Corrector, InvalidPrediction, StreamCANError, UnknownClass
from tests.oracle import Oracle

pytestmark = pytest.mark.fast


def biased(n, m, seed, mix=None):
    """Rows of an overconfident classifier that leans to the first classes, with labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(m, n, p=mix)
    evidence = rng.normal(0, 1, (n, m)) + 1.5 * np.eye(m)[y] + np.linspace(1.5, 0, m)
    P = np.exp(2.5 * evidence)
    return P / P.sum(1, keepdims=True), y


@pytest.mark.parametrize(
    ("n", "m", "labelled"),
    [
        (60, 3, "all"),
        (520, 4, "only right"),  # so that the guards go back to the row of `fitted`
        (620, 7, "not of class 0"),  # which is silent although validation rows had it
        pytest.param(5000, 3, "all", marks=pytest.mark.release),
    ],
)
def test_equals_the_oracle(n, m, labelled):
    P, y = biased(n, m, 0)
    stream, labels = biased(150, m, 1)
    right = stream.argmax(1) == labels
    rest = (stream.argmax(1) > 0) & (labels > 0)
    comes = {"all": right | True, "only right": right, "not of class 0": rest}[labelled]
    oracle, corrector, receipts = Oracle(m), Corrector(m), []
    oracle.fit(P, y)
    corrector.fit(P, y)
    late, back = 10, []
    for t, p in enumerate(stream):
        expected, receipt = oracle.process(p)
        better, same = corrector.process_one(p, receipt=True)
        np.testing.assert_allclose(better, expected, atol=2e-6)
        np.testing.assert_allclose(same, receipt, atol=2e-6)
        receipts.append(receipt)
        back.append(oracle.trust(p.argmax()) == 0)
        if t >= late and comes[t - late]:
            corrector.learn_one(stream[t - late], labels[t - late], receipt=receipts[t - late])
            oracle.learn(stream[t - late], labels[t - late], receipts[t - late])
    np.testing.assert_allclose(list(corrector.weights.values()), oracle.w, atol=1e-5)
    np.testing.assert_allclose(
        list(corrector.final_weights.values()), oracle.final_weights, atol=1e-5
    )
    assert list(corrector.silent_classes) == list(np.flatnonzero(oracle.silent))
    np.testing.assert_allclose(
        list(corrector.recent_log_loss.values()), oracle.recent_log_loss, atol=1e-5
    )
    assert any(back) == (labelled == "only right")
    assert oracle.silent[0] == (labelled == "not of class 0")
    assert corrector.fit_report["class_mix"] == (oracle.ref is not None)


def test_where_rows_became_flatter_or_sharper_fitted_is_left_as_it_was_fitted():
    """The classifier was replaced behind `fit`: its rows say no more what the class mix is."""
    P, y = rows_of(520, 0)
    oracle, corrector = Oracle(3), Corrector(3)
    oracle.fit(P, y)  # slow
    corrector.fit(P, y)
    for flatter, trusted in [(0.6, 0.0), (1.0, 1.0), (2.0, 0.0)]:
        became(copy.deepcopy(oracle), Corrector.from_bytes(corrector.to_bytes()), flatter, trusted)


def became(oracle, corrector, flatter, trusted):
    stream, _ = rows_of(700, 1, mix=[0.6, 0.3, 0.1])
    stream = stream**flatter
    stream /= stream.sum(axis=1, keepdims=True)
    for p in stream:
        oracle.observe(p)
    corrector.observe_many(stream)
    assert oracle.believed() == trusted
    np.testing.assert_allclose(corrector._state["D"], [oracle.D, oracle.N_D], rtol=1e-5)
    some = stream[:50]
    fitted = corrector.explain_many(some)["fitted"]
    np.testing.assert_allclose(
        fitted, [oracle.base_row("fitted", p) for p in some], rtol=0, atol=1e-6
    )
    share = oracle.believed() * oracle.chain.W[1:-1].sum()
    assert corrector.follows_mix == pytest.approx(share, abs=1e-6)
    frozen = np.array([oracle.frozen_row(p) for p in some])
    assert abs(fitted - frozen).max() < 1e-6 if trusted == 0 else abs(fitted - frozen).max() > 0.05
    by_slowest = np.array([oracle.chain.row(r, oracle.ref)[1][1] for r in frozen])
    assert abs(by_slowest - frozen).max() > 0.05  # there was something to hold back


def rows_of(n, seed, mix=None):
    """Rows of three classes and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=mix)
    P = np.exp(1.2 * (rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[y]))
    return P / P.sum(axis=1, keepdims=True), y


def test_it_helps_before_the_first_label_and_follows_the_mix():
    m, mix = 5, np.array([0.02, 0.02, 0.06, 0.3, 0.6])
    P, y = biased(3000, m, 0)
    stream, labels = biased(4000, m, 1, mix)
    corrector = Corrector(m)
    corrector.fit(P, y)
    out = corrector.process_many(stream)
    assert (out.argmax(1) == labels).mean() > (stream.argmax(1) == labels).mean() + 0.1
    late = slice(2000, None)
    frozen = Corrector(m)
    frozen.fit(P, y)
    still = frozen.correct_many(stream)
    assert (out.argmax(1) == labels)[late].mean() > (still.argmax(1) == labels)[late].mean() + 0.01


def test_fitting_is_deterministic_and_survives_a_snapshot():
    P, y = biased(800, 4, 0)
    stream, labels = biased(50, 4, 1)
    a, b = Corrector(4), Corrector(4)
    a.fit(P, y)
    b.fit(P, y)
    assert a.to_bytes() == b.to_bytes()
    assert list(a.weights)[-2:] == ["fitted", "fitted+can"]
    assert a.weights["fitted"] == pytest.approx(0.988)
    assert (a.n_predictions, a.n_labels) == (0, 0)
    assert a.effective_sample_size > 700
    c = Corrector.from_bytes(a.to_bytes(), 4, paths=a.paths)
    assert a.process_many(stream).tobytes() == c.process_many(stream).tobytes()
    a.learn_many(stream, labels)
    c.learn_many(stream, labels)
    assert a.to_bytes() == c.to_bytes()
    assert c.fit_report == a.fit_report


def test_looking_leaves_the_class_mix_alone_and_batches_do_not_matter():
    P, y = biased(800, 4, 0)
    stream, _ = biased(100, 4, 1)
    a, b = Corrector(4), Corrector(4)
    a.fit(P, y)
    b.fit(P, y)
    before = a.to_bytes()
    a.explain_many(stream)
    a.correct_many(stream)
    assert a.to_bytes() == before
    one = np.array([a.process_one(p) for p in stream])
    assert (
        one.tobytes()
        == np.vstack([b.process_many(part) for part in np.array_split(stream, 7)]).tobytes()
    )
    assert a.to_bytes() == b.to_bytes()


def test_the_report_says_which_step_and_why():
    few = Corrector(6)
    few.fit(*biased(200, 6, 0))
    report = few.fit_report
    assert report["rows"] == 200
    assert [step["step"] for step in report["ladder"]] == ["strict vector", "vector", "matrix"]
    assert "cross-validation" in report["why"]
    assert report["class_mix"] is False
    many = Corrector(3)
    many.fit(*biased(5000, 3, 0))
    assert many.fit_report["step"] == "matrix"
    assert many.fit_report["ladder"] == []
    wide = Corrector(260)
    with pytest.warns(UserWarning, match="no validation row of class"):
        wide.fit(*biased(600, 260, 0))
    assert [step["step"] for step in wide.fit_report["ladder"]] == ["strict vector", "vector"]


def test_what_cannot_work_is_refused_and_nothing_is_learned():
    P, y = biased(100, 3, 0)
    corrector = Corrector(["a", "b", "c"])
    names = np.array(["a", "b", "c"])[y]
    before = corrector.to_bytes()
    bad = P.copy()
    bad[7, 1] = -1
    for rows, labels, error, why in [
        (P[:0], [], ValueError, "hold 0 of 3 classes, expected at least 2"),
        (P, ["a"] * 100, ValueError, "hold 1 of 3 classes, expected at least 2"),
        (P, names[:-1], InvalidPrediction, "100 predictions but 99 labels"),
        (
            P[:, :2] / P[:, :2].sum(1, keepdims=True),
            names,
            InvalidPrediction,
            r"shape \(100, 2\), expected \(n, 3\)",
        ),
        (P, ["z"] * 100, UnknownClass, "label of row 0 'z'"),
        (bad, names, InvalidPrediction, "row 7: "),
    ]:
        with pytest.raises(error, match=why):
            corrector.fit(rows, labels)
        assert corrector.to_bytes() == before
    two = y != 2
    with pytest.warns(UserWarning, match="no validation row of class 'c'"):
        corrector.fit(P[two], names[two])
    assert corrector.fit_report["missing"] == ["c"]
    with pytest.raises(StreamCANError, match="second time"):
        corrector.fit(P, names)


def test_a_warning_turned_into_an_error_leaves_nothing_half_applied():
    P, y = biased(100, 3, 0)
    corrector, two = Corrector(3), y != 2
    before = corrector.to_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            corrector.fit(P[two], y[two])
    assert corrector.to_bytes() == before


@pytest.mark.parametrize("start", ["predict", "label"])
def test_after_the_stream_has_started_it_is_too_late(start):
    P, y = biased(100, 3, 0)
    corrector = Corrector(3)
    if start == "predict":
        corrector.observe_one(P[0])
    else:
        corrector.learn_one(None, 0)
    before = corrector.to_bytes()
    with pytest.raises(StreamCANError, match="stream has started"):
        corrector.fit(P, y)
    assert corrector.to_bytes() == before


def test_a_fitted_corrector_takes_no_new_class():
    corrector = Corrector(3)
    corrector.fit(*biased(100, 3, 0))
    with pytest.raises(StreamCANError, match="cannot take another class"):
        corrector._add_class(3)


def test_fit_with_chosen_paths():
    P, y = biased(600, 3, 0)
    corrector = Corrector(3, paths=["can"])
    corrector.fit(P, y)
    assert list(corrector.weights) == ["can", "fitted", "fitted+can"]
    assert corrector.correct_one(P[0]).sum() == pytest.approx(1)
