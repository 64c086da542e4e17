# cython: language_level=3
"""Count the elements of a JSON array in its text: before an object is created for each."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer


cdef Py_ssize_t count(const char *p, const char *end, Py_ssize_t most) noexcept nogil:
    cdef Py_ssize_t depth = 0, found = 0
    cdef bint empty = True
    cdef char c
    while p < end:
        c = p[0]
        p += 1
        if c == b'"':
            empty = False
            while p < end and p[0] != b'"':
                p += 2 if p[0] == b'\\' else 1
            p += 1
        elif c == b'[' or c == b'{':
            empty = empty and depth == 0
            depth += 1
        elif c == b']' or c == b'}':
            depth -= 1
            if depth <= 0:
                break
        elif c == b',':
            if depth == 1:
                found += 1
                if found >= most:
                    return most + 1
        elif c != b' ' and c != b'\t' and c != b'\n' and c != b'\r':
            empty = False
    return 0 if empty else found + 1


def elements(text, Py_ssize_t most):
    """Return the number of elements of the array in a text; ``most + 1`` if it has more.

    Of what is not valid JSON it is any number.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(text, &view, PyBUF_SIMPLE)
    cdef const char *start = <const char *>view.buf
    cdef Py_ssize_t found = count(start, start + view.len, most)
    PyBuffer_Release(&view)
    return found
