cdef enum:
    FEW = 32    # up to here insertion finds the largest faster than sorting

cdef struct Sure:   # an entropy is below a threshold, whatever the others are, where a share is
    double below
    double above    # or

cdef void find_sure_shares(Sure *sure, Py_ssize_t m, int kind, Py_ssize_t k,
                           double threshold) noexcept nogil
cdef double uncertainty_of(const double *p, Py_ssize_t m, int kind, Py_ssize_t k,
                           double *top, const Sure *sure) noexcept nogil
