# cython: language_level=3
"""The text of a JSON array <-> a row of numbers, bit for bit as msgspec has them, without an object for each number."""

from cpython cimport array
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport strcmp

import array as arrays

import msgspec

cdef extern from "numbers.h" nogil:
    enum:
        HAS_TO_CHARS
        WIDEST
    bint read_numbers(const char *p, const char *end, double *numbers, Py_ssize_t m)
    Py_ssize_t write_numbers(const double *numbers, Py_ssize_t m, char *text)

COMPILED = bool(HAS_TO_CHARS)

cdef array.array FLOATS = arrays.array("d")


def read_array(text, Py_ssize_t m):
    """The row of m numbers that a text holds; None where msgspec is to say what it holds."""
    cdef Py_buffer view
    cdef array.array row = array.clone(FLOATS, m, False)
    PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
    cdef const char *start = <const char *>view.buf
    cdef bint known = read_numbers(start, start + view.len, row.data.as_doubles, m)
    PyBuffer_Release(&view)
    return row if known else None


def array_text(row):
    """The text of a row of float64, lying in one piece; null for a number that is not finite."""
    if not HAS_TO_CHARS:
        return msgspec.json.encode(row.tolist())
    cdef Py_buffer view
    PyObject_GetBuffer(row, &view, PyBUF_FORMAT)
    try:
        if strcmp(view.format, b"d"):
            raise TypeError("a row of another type than float64")
        room = PyBytes_FromStringAndSize(NULL, view.len // 8 * (WIDEST + 1) + 2)
        size = write_numbers(<const double *>view.buf, view.len // 8, PyBytes_AS_STRING(room))
    finally:
        PyBuffer_Release(&view)
    return room[:size]
