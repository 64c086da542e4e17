# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Uncertainty of a row, compiled; `uncertainty` has the functions to call."""

from libc.math cimport log
from libc.stdlib cimport qsort
from libc.string cimport memcpy

from stream_can.method.vectormath cimport log_of

import numpy as np

UNCERTAINTIES = ("topk_entropy", "entropy", "margin", "any_topk_entropy")

cdef enum:
    TOPK_ENTROPY = 0
    ENTROPY = 1
    MARGIN = 2
    ANY_TOPK_ENTROPY = 3


cdef int descending(const void *a, const void *b) noexcept nogil:
    cdef double x = (<const double *>a)[0], y = (<const double *>b)[0]
    return (x < y) - (x > y)


cdef void largest(const double *p, Py_ssize_t m, Py_ssize_t k, double *top) noexcept nogil:
    """Find the k largest entries of p in descending order; top has room for m if k > FEW."""
    cdef Py_ssize_t i, j
    cdef double v
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


cdef double uncertainty_of(const double *p, Py_ssize_t m, int kind, Py_ssize_t k,
                           double *top) noexcept nogil:
    """The one definition of a row's uncertainty; p sums to 1."""
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
            out[i] = uncertainty_of(&rows[i, 0], m, which, k, &top[0])
    return np.asarray(out)
