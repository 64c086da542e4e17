cdef const char *read_row(
    const char *p, const char *end, double *numbers, Py_ssize_t m
) noexcept nogil
cdef Py_ssize_t row_size(Py_ssize_t m) noexcept nogil
cdef Py_ssize_t write_row(const double *numbers, Py_ssize_t m, char *text) noexcept nogil
cdef const char *read_one(const char *p, const char *end, double *number) noexcept nogil
cdef Py_ssize_t write_one(double number, char *text) noexcept nogil
