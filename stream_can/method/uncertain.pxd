cdef enum:
    FEW = 32    # up to here insertion finds the largest faster than sorting

cdef double uncertainty_of(const double *p, Py_ssize_t m, int kind, Py_ssize_t k,
                           double *top) noexcept nogil
