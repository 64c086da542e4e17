# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Checks of predictions where they enter; compiled. Inside they are trusted."""

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, Py_buffer, PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.math cimport fabs
from libc.stdint cimport int64_t

from stream_can.method.vectormath cimport bad_row, divide, sum_of

import numpy as np

from stream_can.errors import InvalidPrediction
from stream_can.method.rows import TOLERANCE, as_float64, reason, wrong_shape

cdef double tolerance = TOLERANCE


cdef double *memory(array) except NULL:
    """Allocate a C-contiguous float64 array and return its address; the caller keeps the array."""
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
    PyBuffer_Release(&view)
    return <double *>view.buf


cdef float *memory32(array) except NULL:
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
    PyBuffer_Release(&view)
    return <float *>view.buf


cdef Py_ssize_t first_bad(const double *P, Py_ssize_t n, Py_ssize_t m) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total
    for i in range(n):
        if bad_row(P + i * m, m, &total) or not fabs(total - 1) <= tolerance:
            return i
    return -1


cdef object opened(P, Py_buffer *view):
    """Open the buffer of P, shape (n, m); return its owner."""
    if P.dtype != np.float64 or P.ndim != 2:
        raise ValueError(f"rows: {P.dtype} of shape {P.shape}, expected float64 of shape (n, m)")
    flags = P.flags
    if not (flags.c_contiguous and flags.aligned):
        P = np.require(P, None, "CA")
    PyObject_GetBuffer(P, view, PyBUF_C_CONTIGUOUS)
    return P


def all_fine(P):
    """Whether all rows of P, shape (n, m), are probability vectors."""
    cdef Py_buffer view
    P = opened(P, &view)
    cdef Py_ssize_t n = P.shape[0], bad = first_bad(<const double *>view.buf, n, P.shape[1])
    PyBuffer_Release(&view)
    return bad < 0


def sums(P):
    """Sum each row of P, shape (n, m), as the check of its sum does."""
    cdef Py_buffer view
    cdef double *target
    P = opened(P, &view)
    cdef Py_ssize_t i, n = P.shape[0], m = P.shape[1]
    out = np.empty(n)
    target = memory(out)
    for i in range(n):
        target[i] = sum_of(<const double *>view.buf + i * m, m)
    PyBuffer_Release(&view)
    return out


def bad_rows(P, names=None):
    """Find the rows of P, shape (n, m), that are no probability vectors: {row: reason}."""
    cdef Py_buffer view
    cdef Py_ssize_t i = 0, bad, n, m
    found = {}
    P = opened(P, &view)
    n, m = P.shape
    while (bad := first_bad(<const double *>view.buf + i * m, n - i, m)) >= 0:
        i += bad
        found[i] = reason(P[i], names)
        i += 1
    PyBuffer_Release(&view)
    return found


cdef object open_rows(object P, int ndim, Py_ssize_t m, Py_buffer *view, object index=None):
    """Return a checked C-contiguous float64 buffer of P, and its owner."""
    cdef Py_ssize_t n, bad
    if type(P) is not np.ndarray or P.dtype != np.float64 or not P.flags.c_contiguous:
        P = as_float64(P, index)
    if P.ndim != ndim or P.shape[ndim - 1] != m:
        raise InvalidPrediction(wrong_shape(P.shape, ndim, m))
    PyObject_GetBuffer(P, view, PyBUF_C_CONTIGUOUS)
    if <size_t>view.buf % sizeof(double) != 0:  # vector code requires alignment
        PyBuffer_Release(view)
        P = P.copy()
        PyObject_GetBuffer(P, view, PyBUF_C_CONTIGUOUS)
    n = view.len // (8 * m)
    if n > 1:
        with nogil:
            bad = first_bad(<const double *>view.buf, n, m)
    else:
        bad = first_bad(<const double *>view.buf, n, m)
    if bad >= 0:
        PyBuffer_Release(view)
        raise InvalidPrediction(reason(P) if ndim == 1 else f"row {bad}: {reason(P[bad])}")
    return P


def checked(P):
    """Check probability vectors, shape (n, m) with m >= 1; return a C-contiguous float64 array."""
    cdef Py_buffer view
    P = as_float64(P)
    if P.ndim != 2 or P.shape[1] == 0:
        raise InvalidPrediction(
            f"predictions have shape {P.shape}, expected (n, m): one column per class")
    P = open_rows(P, 2, P.shape[1], &view)
    PyBuffer_Release(&view)
    return P


def normalised(P):
    """Check and normalise rows into a new array."""
    cdef double *target
    cdef const double[:, ::1] rows = checked(P)
    cdef Py_ssize_t i, n = rows.shape[0], m = rows.shape[1]
    out = np.empty((n, m))
    target = memory(out)
    for i in range(n):
        divide(&rows[i, 0], sum_of(&rows[i, 0], m), target + i * m, m)
    return out


ctypedef fused number:
    double
    float
    int64_t


cdef bint inside(const number *x, Py_ssize_t n, const double *least, const double *most,
                 Py_ssize_t step) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if not (least[i * step] <= x[i] <= most[i * step]):
            return False
    return True


def within(array, const double[:, ::1] bounds):
    """Check that each number lies between its bounds, which NaN does not.

    ``array`` holds n numbers, C-contiguous, of type float64, float32 or int64; ``bounds`` has the
    least and the most, shape (2, n), or shape (2, 1) where they are the same for all.
    """
    cdef Py_buffer view
    cdef const double *least = &bounds[0, 0]
    cdef const double *most = &bounds[1, 0]
    cdef Py_ssize_t n, step = bounds.shape[1] > 1
    cdef bint found
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    try:
        n = view.len // view.itemsize
        if step and n != bounds.shape[1]:
            raise ValueError(f"{n} numbers, and bounds of {bounds.shape[1]}")
        if view.format[0] == b"d":
            found = inside(<const double *>view.buf, n, least, most, step)
        elif view.format[0] == b"f":
            found = inside(<const float *>view.buf, n, least, most, step)
        elif view.format[0] in (b"l", b"q") and view.itemsize == sizeof(int64_t):
            found = inside(<const int64_t *>view.buf, n, least, most, step)
        else:
            raise TypeError(f"numbers of type {view.format.decode()}")
    finally:
        PyBuffer_Release(&view)
    return found
