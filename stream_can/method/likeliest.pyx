# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""What scores read of each row in one pass; compiled."""

from libc.math cimport ceil
from libc.stdint cimport int64_t

import numpy as np


def likeliest(const double[:, ::1] P, const int64_t[::1] y):
    """Index of the likeliest class of each row, the lowest of equals, its probability, and that of
    the class y, each of shape (n,); IndexError where y is none of the classes."""
    cdef Py_ssize_t i, k, top, n = P.shape[0], m = P.shape[1]
    best, of_best, of_y = np.empty(n, np.intp), np.empty(n), np.empty(n)
    cdef Py_ssize_t[::1] at = best
    cdef double[::1] highest = of_best, found = of_y
    if y.shape[0] != n:
        raise ValueError(f"{y.shape[0]} labels for {n} rows")
    for i in range(n):
        if not 0 <= y[i] < m:
            raise IndexError(f"row {i}: label {y[i]} is not in [0, {m})")
        top = 0
        for k in range(1, m):
            if P[i, k] > P[i, top]:
                top = k
        at[i], highest[i], found[i] = top, P[i, top], P[i, y[i]]
    return best, of_best, of_y


def add_to_bins(const double[::1] confidence, const unsigned char[::1] hits,
                double[:, ::1] bins, const double[::1] weights=None):
    """Number of rows, sum of confidence and number of hits in equal bins of confidence, added to
    ``bins``, shape (3, number of bins); with weights each row counts as its own.

    Bins are open to the left, as in the code of Guo et al.: 1/15 is in the first.
    """
    cdef Py_ssize_t i, k, n = confidence.shape[0], many = bins.shape[1]
    cdef double weight = 1
    found = np.zeros((3, many))
    cdef double[:, ::1] sums = found
    if hits.shape[0] != n or bins.shape[0] != 3:
        raise ValueError(f"{hits.shape[0]} hits for {n} rows, and {bins.shape[0]} sums, not 3")
    if weights is not None and weights.shape[0] != n:
        raise ValueError(f"{weights.shape[0]} weights for {n} rows")
    for i in range(n):
        if weights is not None:
            weight = weights[i]
        k = min(max(<Py_ssize_t>ceil(confidence[i] * many) - 1, 0), many - 1)
        sums[0, k] += weight
        sums[1, k] += weight * confidence[i]
        sums[2, k] += weight * hits[i]
    for i in range(3):
        for k in range(many):
            bins[i, k] += sums[i, k]
