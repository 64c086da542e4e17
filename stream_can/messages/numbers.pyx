# cython: language_level=3
# distutils: language = c++
"""Convert between the text of a JSON array and a row of numbers, bit for bit like msgspec.

No object is created per number.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint64_t

import array as arrays

import msgspec

cdef extern from "numbers.h" nogil:
    enum:
        HAS_FROM_CHARS
        WIDEST
        LEAST_POWER
        POWERS
    uint64_t powers_of_ten[POWERS][2]
    const char *past_space(const char *p, const char *end)
    const char *read_numbers(const char *p, const char *end, double *numbers, Py_ssize_t m)
    Py_ssize_t write_numbers(const double *numbers, Py_ssize_t m, char *text)
    const char *read_number(const char *p, const char *end, double *number)
    char *write_number(double number, char *p)

COMPILED = bool(HAS_FROM_CHARS)


cdef const char *read_row(
    const char *p, const char *end, double *numbers, Py_ssize_t m
) noexcept nogil:
    """Parse the array of m numbers at p; return its end, NULL if msgspec must handle it."""
    return read_numbers(p, end, numbers, m)


cdef Py_ssize_t row_size(Py_ssize_t m) noexcept nogil:
    """Return the maximum number of characters of an array of m numbers."""
    return m * (WIDEST + 1) + 2


cdef Py_ssize_t write_row(const double *numbers, Py_ssize_t m, char *text) noexcept nogil:
    """Write m numbers as an array, in at most `row_size` characters; return how many."""
    return write_numbers(numbers, m, text)


cdef const char *read_one(const char *p, const char *end, double *number) noexcept nogil:
    """Parse the number at p; return its end, NULL if msgspec must handle it."""
    return read_number(p, end, number)


cdef Py_ssize_t write_one(double number, char *text) noexcept nogil:
    """Write a number, in at most `WIDEST` characters; return how many."""
    return write_number(number, text) - text


cdef array.array FLOATS = arrays.array("d")


def read_array(text, Py_ssize_t m):
    """Parse the row of m numbers in a text; None if msgspec must handle it."""
    cdef Py_buffer view
    cdef array.array row = array.clone(FLOATS, m, False)
    PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
    cdef const char *start = <const char *>view.buf
    cdef const char *end = start + view.len
    cdef const char *rest = read_numbers(past_space(start, end), end, row.data.as_doubles, m)
    cdef bint known = rest != NULL and past_space(rest, end) == end
    PyBuffer_Release(&view)
    return row if known else None


def array_texts(rows):
    """Text of each row of a contiguous float64 matrix; null for values that are not finite.

    Row by row: memory for a whole batch would be fetched from the system again for each.
    """
    if not HAS_FROM_CHARS:
        yield from map(msgspec.json.encode, rows.tolist())
        return
    cdef const double[:, ::1] view = rows
    cdef Py_ssize_t i, size, m = view.shape[1]
    cdef bytes room = PyBytes_FromStringAndSize(NULL, row_size(m))
    cdef char *text = PyBytes_AS_STRING(room)
    for i in range(view.shape[0]):
        size = write_numbers(&view[i, 0] if m else NULL, m, text)
        yield PyBytes_FromStringAndSize(text, size)


def _fill_powers():
    for i in range(POWERS):
        k = i + LEAST_POWER
        over, under = 10 ** max(k, 0), 10 ** max(-k, 0)
        shift = 127 - (k * 1741647 >> 19)  # 2^127 <= 10^k 2^shift < 2^128
        bits = -((-over << max(shift, 0)) // (under << max(-shift, 0)))
        powers_of_ten[i][0] = bits >> 64
        powers_of_ten[i][1] = bits & 0xFFFFFFFFFFFFFFFF


_fill_powers()
