from cpython.buffer cimport Py_buffer

cdef double *memory(array) except NULL
cdef float *memory32(array) except NULL
cdef object open_rows(object P, int ndim, Py_ssize_t m, Py_buffer *view, object index=*)
