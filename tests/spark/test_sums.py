"""The rows of a batch as one sum: what observing them adds, on the average over their orders."""

import itertools

import numpy as np
import pytest

from stream_can import Corrector, snapshot
from stream_can.row_sums import RowSums
from stream_can.spark.sums import of_batch, without_decay


def corrector(half_life, fitted=False):
    rng = np.random.default_rng(1)
    found = Corrector(3, half_life=half_life)
    P = rng.dirichlet([0.3, 0.5, 0.7], 600)
    if fitted:
        found.fit(P, P[:, ::-1].argmax(1))
    found.process_many(P)
    return found


def observed(start, partitions):
    """The state after a batch with these partitions."""
    free = without_decay(start.to_bytes())
    sums = [RowSums(free).zeros() for _ in partitions]
    for P, one in zip(partitions, sums, strict=True):
        RowSums(free).correct(P, one)
    found = Corrector.from_bytes(start.to_bytes())
    RowSums(found).add(of_batch(found, sums))
    return found


def arrays(corrector):
    return snapshot.decode(corrector.to_bytes()).arrays


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("half_life", [3, 50, np.inf])
def test_one_row_is_observed(half_life, fitted):
    start = corrector(half_life, fitted)
    for p in ([0.1, 0.8, 0.1], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]):
        expected = Corrector.from_bytes(start.to_bytes())
        expected.observe_one(p)
        found = arrays(observed(start, [np.array([p])]))
        for name, array in arrays(expected).items():
            np.testing.assert_allclose(found[name], array, rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("half_life", [3, 50, np.inf])
def test_many_rows_weigh_what_they_do_on_the_average_over_their_orders(half_life):
    """Without bases that share features: these move while rows are observed one after the other.

    So does the class mix, which is only near that average, and so is what was predicted of late.
    """
    start = Corrector(3, half_life=half_life, paths=["raw", "can", "temperature+can"])
    rng = np.random.default_rng(1)
    start.process_many(rng.dirichlet([0.3, 0.5, 0.7], 600))
    P = np.array(
        [[0.95, 0.03, 0.02], [0.3, 0.3, 0.4], [0.1, 0.9, 0], [0.01, 0.01, 0.98], [0, 1, 0]]
    )
    expected = []
    for order in itertools.permutations(range(5)):
        one = Corrector.from_bytes(start.to_bytes())
        one.observe_many(P[list(order)])
        expected.append(arrays(one))
    for cut in (0, 2, 5):
        found = arrays(observed(start, [P[:cut], P[cut:]]))
        for name, array in found.items():
            mean = np.mean([one[name] for one in expected], axis=0)
            near = 0.03 if name in ("Q.moving", "late.rows") else 1e-12
            least = 0.01 if name == "W.moving" else 1e-15
            np.testing.assert_allclose(array, mean, rtol=near, atol=least, err_msg=name)


def test_partitions_in_any_order_are_the_same_bits():
    start = corrector(100, fitted=True)
    rng = np.random.default_rng(2)
    partitions = [rng.dirichlet([1, 1, 1], n) for n in (0, 40, 7, 300, 0)]
    found = {observed(start, [partitions[i] for i in order]).to_bytes()
             for order in itertools.permutations(range(5))}  # fmt: skip
    assert len(found) == 1


def test_a_batch_far_longer_than_the_half_life_is_not_its_last_partition():
    start = Corrector(3, half_life=100)
    partitions = [np.tile(row, (5000, 1)) for row in np.eye(3)]
    mean = arrays(observed(start, partitions))["mean"]
    np.testing.assert_allclose(mean[:3] / mean[3], 1 / 3)


def test_no_row_changes_nothing():
    start = corrector(100, fitted=True)
    assert observed(start, [np.empty((0, 3))]).to_bytes() == start.to_bytes()
    assert observed(start, []).to_bytes() == start.to_bytes()
