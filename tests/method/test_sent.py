"""What is sent is a probability vector, whatever the weights of its rows."""

import numpy as np
import pytest

from stream_can import Corrector

pytestmark = pytest.mark.fast


def test_rows_are_whole_where_the_row_as_it_came_has_nearly_all():
    """What the others had was taken for 1 less its weight, of which nothing is right beside 1: rows
    summed to .4 to 1.7, and own receipts were refused."""
    corrector, p = Corrector(2), np.array([0.4, 0.6])
    for step in range(120):
        sent, receipt = corrector.process_one(p, receipt=True)
        assert sent.sum() == pytest.approx(1, abs=1e-12), step
        rows = receipt[:-1].reshape(-1, 2)
        assert rows.sum(axis=1) == pytest.approx(np.ones(len(rows)), abs=1e-6), step
        # As if the row as it came, and a calibrated one, did better than the others.
        receipt[:10], receipt[10:14], receipt[-1] = [0.6, 0.4] * 5, [0.3, 0.7] * 2, 0.7
        corrector.learn_one(p, 1, receipt=receipt)
    weights = corrector.final_weights
    assert weights["raw"] + weights["calibrated"] > 1 - 1e-9
