"""Rows and labels made to break it: what goes out stays a probability vector."""

import itertools

import numpy as np
import pytest

from stream_can import Corrector

pytestmark = pytest.mark.fast

M = 7


def adversarial_rows(kind, n):
    rng = np.random.default_rng(0)
    if kind == "one-hots":
        return np.eye(M)[rng.integers(0, M, n)]
    if kind == "denormals":
        P = np.full((n, M), 5e-324)
        P[np.arange(n), rng.integers(0, M, n)] = 1
        return P
    if kind == "constant":
        return np.tile([1 - 6e-9, *[1e-9] * (M - 1)], (n, 1))
    return np.eye(M)[np.arange(n) % 2]  # alternating


def adversarial_labels(kind, P):
    n = len(P)
    if kind == "contradictory":  # any class, whatever the row
        return np.random.default_rng(1).integers(0, M, n)
    if kind == "alternating":
        return np.arange(n) % 2
    return (P.argmax(1) + 1) % M  # always wrong


@pytest.mark.parametrize("rows", ["one-hots", "denormals", "constant", "alternating"])
def test_rows_stay_probabilities(rows, adversarial_rows_per_stream):
    n = adversarial_rows_per_stream
    P = adversarial_rows(rows, n)
    for labels, counts, half_life, back in itertools.product(
        ["contradictory", "alternating", "wrong"],
        [None, [1e300, *[0.0] * (M - 1)]],
        [5000.0, float("inf")],
        ["as sent", "nan"],
    ):
        y = adversarial_labels(labels, P)
        corrector = Corrector(M, train_counts=counts, half_life=half_life)
        for start in range(0, n, 1000):
            part = slice(start, start + 1000)
            out, receipts = corrector.process_many(P[part], receipt=True)
            assert np.isfinite(out).all()
            assert np.isfinite(receipts).all()
            assert (out >= 0).all()
            assert abs(out.sum(1) - 1).max() < 1e-9
            if back == "nan":
                receipts[:] = np.nan
            corrector.learn_many(P[part], y[part], receipts=receipts)
        assert np.isfinite(corrector.prior).all()
        assert abs(sum(corrector.weights.values()) - 1) < 1e-9
        assert abs(sum(corrector.final_weights.values()) - 1) < 1e-9
        assert 0 < corrector.last_temperature < np.inf
        assert 0 <= corrector.coverage <= 1
