cdef extern from "segments.h" nogil:
    ctypedef struct Slots "Values":
        double *numbers
        long long *before
        long long *after
        long long *next_dropped
        long long *sizes
        long long *totals
        Py_ssize_t m
    double *set_group_of(const Slots *v, long long slot)
    void features_of(const Slots *v, long long slot, const double *q, double *f)
    double smallest_odds(const Slots *v, const long long *slots, int columns)
    void judge_values(Slots *v, const long long *slots, int columns, double rho)
    void shrink_odds(Slots *v, double left)
    void values_learn(Slots *v, const long long *slots, int columns, const double *r, Py_ssize_t y,
                      double w)


cdef class Values:
    cdef Slots slots
    cdef readonly Py_ssize_t m
    cdef readonly tuple columns
    cdef readonly str unlikely
    cdef long long totals[4]
    cdef Py_ssize_t room
    cdef list known, names, free
    cdef long long *created
    cdef long long *seen

    cdef int make_room(self, Py_ssize_t room) except -1
    cdef int look_up(self, list texts, Py_ssize_t n, long long *found) except -1
    cdef int claim(self, list texts, Py_ssize_t row) except -1
    cdef long long create(self, Py_ssize_t column, str text) except -1
    cdef int warn(self) except -1
    cdef int sweep(self) except -1
    cdef int forget(self, long long slot) except -1
    cpdef Values copy(self)
