"""The worst 500 labelled rows, against every such stretch looked at by itself."""

import numpy as np
import pytest

from stream_can.replay.worst import WINDOW, WorstStretch


def added(hits, rows, cuts):
    found = WorstStretch()
    for part, numbers in zip(np.split(hits, cuts), np.split(rows, cuts), strict=True):
        found.add(numbers, part)
    return found


@pytest.mark.parametrize("n", [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 1800])
@pytest.mark.parametrize("cuts", [[], [7, 7, 300, 900], list(range(64, 1800, 64))])
def test_it_is_the_worst_of_all_wherever_the_stream_is_cut(n, cuts):
    rng = np.random.default_rng(n)
    hits = rng.random((n, 2)) < [0.6, 0.62]
    rows = np.cumsum(rng.integers(1, 4, n))
    found = added(hits, rows, [cut for cut in cuts if cut <= n])
    shares = [hits[at : at + WINDOW].mean(axis=0) for at in range(n - WINDOW + 1)]
    assert found.stretches == len(shares)
    if not shares:
        assert found.in_words() == ""
        assert found.to_dict() is None
        return
    changes = np.array([after - before for before, after in shares])
    at = int(changes.round(9).argmin())
    assert (found.first, found.last) == (rows[at], rows[at + WINDOW - 1])
    assert (found.before, found.after) == pytest.approx(shares[at])
    assert found.below == (changes.round(9) < 0).sum()
    where = f"rows {rows[at] + 1:,} to {rows[at + WINDOW - 1] + 1:,}"
    assert (where in found.in_words()) == (changes[at] < -1e-9)


def test_it_says_so_where_none_is_below():
    hits = np.zeros((600, 2), bool)
    hits[:, 1] = True
    assert added(hits, np.arange(600), []).in_words() == (
        "No 500 labelled rows in a row are below the predictions as they came."
    )
