# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Uncertainty of a row, compiled; `uncertainty` has the functions to call."""

from libc.math cimport log
from libc.stdlib cimport qsort
from libc.string cimport memcpy

from stream_can.method.vectormath cimport log_of, three_largest

import numpy as np

UNCERTAINTIES = ("topk_entropy", "entropy", "margin", "any_topk_entropy")

cdef enum:
    TOPK_ENTROPY = 0
    ENTROPY = 1
    MARGIN = 2
    ANY_TOPK_ENTROPY = 3

# Of the threshold: far more than what is rounded in sums over any number of classes.
cdef double MARGIN_OF_ENTROPY = 1e-6


cdef int descending(const void *a, const void *b) noexcept nogil:
    cdef double x = (<const double *>a)[0], y = (<const double *>b)[0]
    return (x < y) - (x > y)


cdef void largest(const double *p, Py_ssize_t m, Py_ssize_t k, double *top) noexcept nogil:
    """Find the k largest entries of p in descending order; top has room for m if k > FEW, and for
    3."""
    cdef Py_ssize_t i, j
    cdef double v
    if k <= 3:
        three_largest(p, m, top)
        return
    if k > FEW:
        memcpy(top, p, m * sizeof(double))
        qsort(top, m, sizeof(double), descending)
        return
    for j in range(k):
        top[j] = -1.0
    for i in range(m):
        v = p[i]
        if v > top[k - 1]:
            j = k - 1
            while j > 0 and top[j - 1] < v:
                top[j] = top[j - 1]
                j -= 1
            top[j] = v


cdef double unit(double u) noexcept nogil:
    return 0.0 if u < 0 else 1.0 if u > 1 else u


cdef double plogp(double p) noexcept nogil:
    return p * log_of(p if p > 1e-300 else 1e-300)


cdef double most_entropy(double share, Py_ssize_t k) noexcept nogil:
    """The largest normalised entropy of k shares of which one is known: the others are alike."""
    return -(plogp(share) + (1 - share) * log_of(max((1 - share) / (k - 1), 1e-300))) / log(k)


cdef double find_share(double share, Py_ssize_t k, double threshold) noexcept nogil:
    """Find, between 1 / k and this share, the first at which the entropy is below the threshold,
    whatever the other shares are; the share itself if there is none."""
    cdef double middle, undecided = 1 / <double>k
    if most_entropy(share, k) >= threshold - MARGIN_OF_ENTROPY:
        return share
    for _ in range(60):
        middle = (share + undecided) / 2
        if most_entropy(middle, k) < threshold - MARGIN_OF_ENTROPY:
            share = middle
        else:
            undecided = middle
    return share


cdef void find_sure_shares(Sure *sure, Py_ssize_t m, int kind, Py_ssize_t k,
                           double threshold) noexcept nogil:
    """Find the shares that decide that an entropy is below the threshold; of other measures none
    does."""
    cdef bint entropy = m > 1 and (kind == TOPK_ENTROPY or kind == ENTROPY)
    k = m if kind == ENTROPY else min(k, m)
    sure.below = find_share(0, k, threshold) if entropy else 0
    sure.above = find_share(1, k, threshold) if entropy else 1


cdef double uncertainty_of(const double *p, Py_ssize_t m, int kind, Py_ssize_t k,
                           double *top, const Sure *sure) noexcept nogil:
    """The one definition of a row's uncertainty; p sums to 1.

    0 where these shares, unless NULL, decide that it is below the threshold they are of.
    """
    cdef double total = 0, h = 0, u = 0
    cdef Py_ssize_t i
    if m == 1:
        return 0.0
    if kind == MARGIN:
        largest(p, m, 2, top)
        return unit(1 - (top[0] - top[1]))
    if kind == ANY_TOPK_ENTROPY:
        largest(p, m, m, top)
        for i in range(m):
            total += top[i]
            h += plogp(top[i])
            if i > 0 and total > 0:
                u = max(u, (log_of(total) - h / total) / log(<double>(i + 1)))
        return unit(u)
    if kind == ENTROPY or k > m:
        k = m
    if k == m > FEW:  # of all classes no order is needed
        top = <double *>p
    else:
        largest(p, m, k, top)
    for i in range(k):
        total += top[i]
    if sure != NULL and (top[0] > sure.above * total or top[k - 1] < sure.below * total):
        return 0.0
    for i in range(k):
        h += plogp(top[i])
    return unit((log_of(total) - h / total) / log(<double>k)) if total > 0 else 0.0


def uncertainty(P, str kind, Py_ssize_t k):
    """Uncertainty of each row of P, float64 and C-contiguous, shape (n, m) -> (n,)."""
    cdef const double[:, ::1] rows = P
    cdef Py_ssize_t i, n = rows.shape[0], m = rows.shape[1]
    cdef int which = UNCERTAINTIES.index(kind)
    cdef double[::1] out = np.empty(n), top = np.empty(max(m, FEW, 2))
    with nogil:
        for i in range(n):
            out[i] = uncertainty_of(&rows[i, 0], m, which, k, &top[0], NULL)
    return np.asarray(out)
