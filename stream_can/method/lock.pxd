cimport cython
from cpython.pythread cimport PyThread_type_lock


@cython.final
cdef class Lock:
    cdef PyThread_type_lock lock
    cdef unsigned long long owner
    cdef unsigned int generation
    cdef int depth
    cdef readonly unsigned long long changes
    cdef int acquire(self, bint changes) except -1
    cdef void release(self) noexcept
    cdef int renew(self) except -1


cdef void enter_rows() noexcept nogil
cdef void leave_rows() noexcept nogil
cdef bint a_fork_waits() noexcept nogil
