"""What rounding explains, and what stays an error."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.errors import InvalidPrediction
from stream_can.messages.sparse_formats import ListedForms
from stream_can.method.normalise import divided

pytestmark = pytest.mark.fast


def in_bfloat16(P):
    """Numbers rounded to the nearest bfloat16."""
    bits = np.asarray(P, np.float32).view(np.uint32)
    bits = bits + 0x7FFF + ((bits >> 16) & 1)
    return (bits & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def in_float16(P):
    return np.asarray(P, np.float16).astype(np.float64)


@pytest.mark.parametrize("m", [2, 3, 10, 100])
def test_rows_in_bfloat16_are_divided(m):
    P = in_bfloat16(np.random.default_rng(0).dirichlet(np.full(m, 0.3), 2000))
    Q, n = divided(P, "rounded")
    assert n > 0
    assert np.abs(Q.sum(axis=1) - 1).max() <= 1e-3


@pytest.mark.parametrize(("to", "m"), [(in_bfloat16, 4), (in_float16, 1024)])
def test_so_are_those_divided_by_a_sum_that_was_rounded_too(to, m):
    total = exp = to(np.random.default_rng(0).exponential(size=(5000, m)))
    while total.shape[1] > 1:
        total = to(total[:, ::2] + total[:, 1::2])
    P = to(exp / total)
    Q, n = divided(P, "rounded")
    assert n > 0
    assert np.abs(Q.sum(axis=1) - 1).max() <= 1e-3


def test_six_digits_of_them_are_enough():
    P = in_bfloat16([[0.4, 0.3, 0.297]])
    assert divided(np.array([[float(f"{p:.6g}") for p in P[0]]]), "rounded")[1] == 1


@pytest.mark.parametrize(
    "row",
    [
        [0.5, 0.25],  # numbers of bfloat16, but far off
        [0.5, 0.5078125, 0.0078125],  # more than a unit each
        [0.95703125, 0.0040283203125, 0.0412334],  # not all of them are
        [0.334234, 0.334235, 0.334236],
        [2**-1074, 0.998],
        [0.5, 0.9] + 8 * [0.0],  # zeros were not rounded up
    ],
)
def test_other_sums_are_errors(row):
    P = np.array([row])
    assert divided(P, "rounded")[1] == 0
    with pytest.raises(InvalidPrediction, match="expected 1"):
        Corrector(P.shape[1]).correct_one(row)


def test_python_is_told_how_to_divide():
    with pytest.raises(InvalidPrediction, match=r"rounded numbers\? Divide .*P / P.sum"):
        Corrector(3).correct_one(in_bfloat16([0.4, 0.3, 0.297]))


def test_so_is_a_row_of_the_likeliest_of_very_many():
    row, _ = ListedForms(numbered=False).parse({"cat": 0.5, "dog": 0.50390625})
    assert sum(row.values()) == 1
    assert ListedForms(numbered=False).parse({"cat": 0.5, "dog": 0.5234})[0]["dog"] == 0.5234
