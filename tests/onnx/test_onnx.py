"""Exported models: under onnxruntime they make what `correct_many` makes of the same state."""

from __future__ import annotations

import math
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector, Learner
from stream_can.method.settings import SETTINGS
from stream_can.method.uncertain import UNCERTAINTIES
from stream_can.onnx import to_onnx
from stream_can.sparse import SparseCorrector
from tests.cli.command import stream_can
from tests.correctors import lived_in
from tests.strategies import streams

pytestmark = pytest.mark.fast


def run(model, P):
    """What onnxruntime makes of rows."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["corrected"], {"probs": P})[0]


def rows(m, n=60, seed=0):
    """Sharp and flat rows, and some with exact zeros; no uncertainty of theirs is a threshold."""
    rng = np.random.default_rng(seed)
    P = np.concatenate([rng.dirichlet(np.full(m, a), n // 3) for a in (0.1, 1, 10)])
    P[::7, 0] = 0
    return P / P.sum(axis=1, keepdims=True)


def compare(corrector, P):
    """Both agree within 1e-6, and on the likeliest class unless two are as likely."""
    expected, out = corrector.correct_many(P), run(to_onnx(corrector), P)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-6)
    second, best = np.sort(expected, axis=1)[:, -2:].T
    clear = best - second > 1e-9
    assert (out.argmax(axis=1) == expected.argmax(axis=1))[clear].all()


def taught(m, n_fit=0, n=700, seed=0, **given_settings):
    """A corrector that has lived: rows, late labels whose mix turns, some of classes that are
    predicted and never named."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.4), n + n_fit)
    y = (P.cumsum(axis=1) ** 0.7 > rng.random(n + n_fit)[:, None]).argmax(axis=1)
    corrector = Corrector(m, train_counts=rng.integers(1, 50, m), **given_settings)
    if n_fit:
        corrector.fit(P[:n_fit], np.concatenate([np.arange(m), y])[:n_fit])
    for i in range(n_fit, n + n_fit):
        corrector.process_one(P[i])
        if i >= n_fit + 20 and y[i - 20] < max(2, m - 2):
            corrector.learn_one(P[i - 20], int(y[i - 20]))
    return corrector


@pytest.mark.parametrize("m", [2, 10, 100])
@pytest.mark.parametrize("n_fit", [0, 150, 600], ids=["", "fit", "fit that follows the mix"])
def test_a_corrector_that_has_lived(m, n_fit):
    compare(taught(m, n_fit), rows(m))


@pytest.mark.parametrize("n_fit", [0, 600])
def test_rows_that_keep_their_likeliest_class(n_fit):
    compare(taught(10, n_fit, monotone=True), rows(10))


@pytest.mark.parametrize("kind", UNCERTAINTIES)
def test_measures_of_uncertainty(kind):
    compare(taught(10, uncertainty=kind, threshold=0.6), rows(10))


OTHER_VALUES = {
    "paths": ["raw", "can", "matrix"], "half_life": 50.0, "uncertainty": "margin", "k": 2,
    "threshold": 0.3, "pseudo_count": 3.0, "prior_strength": 2.0, "prior": [1, 2, 3, 40],
    "label_noise": 0.2, "monotone": True, "segments": ["x"], "sets": 0.9, "sets_by": "class",
    "segments_mb": 2.0, "max_mb": 9.0,
}  # fmt: skip
NEEDED = {"sets_by": {"sets": 0.9}}
REFUSED = {"segments", "sets", "sets_by"}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_exported_or_refused(name):
    """A new one needs another value here, and code in the export where it changes rows."""
    corrector = taught(4, **{name: OTHER_VALUES[name]}, **NEEDED.get(name, {}))
    if name not in REFUSED:
        compare(corrector, rows(4))
        return
    with pytest.raises(ValueError, match="ONNX: "):
        to_onnx(corrector)


@given(streams(st.integers(2, 12)))
@settings(max_examples=60, deadline=None)
def test_any_state(stream):
    m, counts, options, P, events = stream
    corrector = Corrector(m, train_counts=counts, **options)
    for verb, i, y, _ in events:
        if verb == "label":
            corrector.learn_one(None, y)
        elif verb == "learn":
            corrector.learn_one(P[i], y)
        else:
            corrector.observe_one(P[i])
    compare(corrector, rows(m, seed=len(events)))


def test_a_stale_mix_and_labels_that_are_one_sided():
    """f below 1 after a jump of the class mix; λ = 0 where only confirmations come back."""
    rng, corrector = np.random.default_rng(0), taught(3, n=300)
    jumped = rng.dirichlet([0.1, 0.1, 3], 60)
    corrector.process_many(jumped)
    compare(corrector, rows(3))
    one_sided, P = Corrector(3), rng.dirichlet([1, 1, 4], 60)
    one_sided.process_many(P)
    one_sided.learn_many(P, P.argmax(axis=1))
    assert one_sided.coverage == 0
    compare(one_sided, rows(3))


def test_float32_in_and_out():
    corrector, P = taught(4), rows(4).astype(np.float32)
    out = run(to_onnx(corrector, single=True), P)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, corrector.correct_many(P), rtol=0, atol=1e-6)


@pytest.mark.parametrize("single", [False, True])
def test_a_row_that_is_none_comes_out_as_nan_and_harms_no_other(single):
    corrector, P = lived_in(), rows(3)[:9]
    bad = P.copy()
    bad[1:9] = [
        [math.nan, 0.5, 0.5], [math.inf, 0, 0], [math.inf, -math.inf, 1], [-0.1, 0.6, 0.5],
        [0, 0, 0], [math.nan] * 3, [0.5, 0.5, -math.inf], P[8],
    ]  # fmt: skip
    out = run(to_onnx(corrector, single=single), bad.astype(np.float32 if single else float))
    assert np.isnan(out).all(axis=1).tolist() == [False, *[True] * 7, False]
    np.testing.assert_allclose(out[[0, 8]], corrector.correct_many(P[[0, 8]]), atol=1e-6)


def test_the_model_is_valid_and_takes_any_number_of_rows():
    model = onnx.load_from_string(to_onnx(lived_in()))
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    (probs,) = model.graph.input
    assert [d.dim_param or d.dim_value for d in probs.type.tensor_type.shape.dim] == ["n", 3]
    assert {p.key: p.value for p in model.metadata_props}["classes"] == "('a', 'b', 'c')"
    assert run(model.SerializeToString(), rows(3)[:0]).shape == (0, 3)


@pytest.mark.parametrize(
    ("corrector", "message"),
    [
        (Corrector(3, segments=["x"]), "ONNX: segments"),
        (Corrector(3, sets=0.9), "ONNX: prediction sets"),
        (SparseCorrector("any"), "ONNX: a SparseCorrector cannot be exported"),
        (Corrector(1), "ONNX: one class alone"),
    ],
)
def test_refused_by_name(corrector, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        to_onnx(corrector)


def test_the_command(tmp_path):
    corrector, path = lived_in(), tmp_path / "x.onnx"
    (tmp_path / "c").write_bytes(corrector.to_bytes())
    stream_can("export", tmp_path / "c", "--output", path)
    np.testing.assert_allclose(
        run(path.read_bytes(), rows(3)), corrector.correct_many(rows(3)), atol=1e-6
    )
    _, err = stream_can("export", tmp_path / "c", "--output", path, "--key", "x", code=2)
    assert "--key: no corrector 'x'" in err
    learner = Learner(Corrector(3, sets=0.9))
    (tmp_path / "l").write_bytes(learner.to_bytes())
    _, err = stream_can("export", tmp_path / "l", "--output", path, code=2)
    assert "ONNX: prediction sets are not exported" in err


def test_the_calibrated_row_has_all_the_weight():
    """Weights of the others are too small for a number; what is calibrated is still theirs."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(3, 0.5), 8000)
    is_right = rng.random(8000) < np.where(np.abs(P.max(axis=1) - 0.7) < 0.1, 0.95, 0.1)
    y = np.where(is_right, P.argmax(axis=1), P.argmin(axis=1))
    corrector = Corrector(3, monotone=True)
    corrector.learn_many(P, y)
    assert corrector.final_weights["calibrated"] == 1
    compare(corrector, rows(3))
