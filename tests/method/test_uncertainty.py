"""How sure is a row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, InvalidPrediction, any_topk_entropy, entropy, margin, topk_entropy
from tests import oracle
from tests.strategies import rows, sizes

pytestmark = pytest.mark.fast


@given(sizes.flatmap(lambda m: rows(m, 6)), st.integers(2, 40))
def test_equals_the_oracle_and_stays_in_the_unit_interval(P, k):
    normal = [np.asarray(p, float) / np.asarray(p, float).sum() for p in P]
    for kind, got in [
        ("topk_entropy", topk_entropy(P, k)),
        ("entropy", entropy(P)),
        ("margin", margin(P)),
        ("any_topk_entropy", any_topk_entropy(P)),
    ]:
        assert got.shape == (len(P),)
        assert ((got >= 0) & (got <= 1)).all()
        np.testing.assert_allclose(
            got, [oracle.uncertainty(p, kind, k) for p in normal], atol=1e-12
        )


def test_certain_and_uniform():
    for measure in (topk_entropy, entropy, margin, any_topk_entropy):
        assert measure([1.0]) == 0
        assert measure([0, 1, 0, 0]) == 0
        assert measure(np.full(7, 1 / 7)) == pytest.approx(1)


def test_shapes_and_bad_input():
    assert topk_entropy(np.full((2, 3, 4), 0.25)).shape == (2, 3)
    assert isinstance(float(entropy([0.5, 0.5])), float)
    for bad in ([0.5, 0.6], [np.nan, 1], ["a"], 0.5, []):
        with pytest.raises(InvalidPrediction):
            margin(bad)
    with pytest.raises(ValueError, match="k: 1"):
        topk_entropy([0.5, 0.5], k=1)


@pytest.mark.parametrize("threshold", [0, 1e-7, 0.5, 0.63093, 0.9, 1])
@pytest.mark.parametrize(("uncertainty", "k"), [("topk_entropy", 2), ("topk_entropy", 3),
                                                ("topk_entropy", 9), ("entropy", 3)])  # fmt: skip
def test_rows_that_a_share_decides_are_those_below_the_threshold(threshold, uncertainty, k):
    rng = np.random.default_rng(0)
    share = np.concatenate([np.linspace(0, 1, 2001), 0.571 + rng.normal(0, 1e-5, 500)])
    P = np.stack([share, (1 - share) / 2, (1 - share) / 2, np.full(len(share), 1e-9)], 1)
    P = np.concatenate([P, rng.dirichlet(np.full(4, 0.5), 2000)])
    P /= P.sum(1, keepdims=True)
    settings = {"uncertainty": uncertainty, "k": k, "threshold": threshold}
    corrector = Corrector(4, paths=["raw", "can"], train_counts=[1, 2, 4, 9], **settings)
    explained = corrector.explain_many(P)
    changed = (explained["raw"] != explained["can"]).any(1)
    found = topk_entropy(P, k) if uncertainty == "topk_entropy" else entropy(P)
    np.testing.assert_array_equal(changed, found >= threshold)
