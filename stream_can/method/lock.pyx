# cython: language_level=3
"""A lock that knows its owner, handles signals while waiting, and survives a fork.

It is only held in compiled code. Python's signal handlers run between two bytecodes, so under the
lock there is one place for them: where a loop over rows checks for signals, between two rows, with
the state after the rows so far. A handler may read that state (also save it); changing it under the
loop is refused.
what would change it under the loop is refused.
"""

import os

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport (
    NOWAIT_LOCK, PY_LOCK_ACQUIRED, PyLockStatus, PyThread_acquire_lock, PyThread_allocate_lock,
    PyThread_free_lock, PyThread_release_lock, PyThread_type_lock,
)

from stream_can.errors import StreamCANError

cdef extern from "Python.h" nogil:
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock, long long, int)

cdef extern from "lock.h" nogil:
    unsigned int generation
    unsigned long long survivor
    unsigned long long this_thread()
    bint waits "a_fork_waits"()
    void enter "enter_rows"()
    void leave "leave_rows"()
    void begin_fork()
    void end_fork()
    int watch_forks()

cdef long long LOOK = 100_000       # microseconds between two checks for signals


cdef class Lock:
    """A lock for the calls on one corrector."""

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        self.generation = generation

    def __dealloc__(self):
        if self.lock != NULL and self.owner == 0:
            PyThread_free_lock(self.lock)

    cdef int acquire(self, bint changes) except -1:
        """Acquire the lock; within a call of the same thread reading is allowed, changing
        refused."""
        cdef PyLockStatus got
        if self.generation != generation:
            self.renew()
        if self.owner == this_thread():
            if changes:
                raise StreamCANError(
                    "called inside another call of the same corrector (by a signal handler, say);"
                    " nothing was changed. Reading and to_bytes work there; for what changes it, "
                    "set a flag and call it afterwards"
                )
            self.depth += 1
            return 0
        while not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            with nogil:
                got = PyThread_acquire_lock_timed(self.lock, LOOK, True)
            if got == PY_LOCK_ACQUIRED:
                break
            PyErr_CheckSignals()
            if self.generation != generation:  # a handler has forked
                self.renew()
        self.owner, self.depth = this_thread(), 1
        self.changes += changes
        return 0

    cdef void release(self) noexcept:
        self.depth -= 1
        if self.depth == 0:
            self.owner = 0
            PyThread_release_lock(self.lock)

    cdef int renew(self) except -1:
        """Reinitialise in a fork's child: a lock without waiters, held if this thread held it."""
        cdef PyThread_type_lock fresh = PyThread_allocate_lock()
        if fresh == NULL:
            raise MemoryError
        if self.owner != 0 and self.owner == survivor:
            PyThread_acquire_lock(fresh, NOWAIT_LOCK)
        else:
            self.owner, self.depth = 0, 0
        # Not freed: it may be in use by threads of the parent.
        self.lock, self.generation = fresh, generation
        return 0


cdef void enter_rows() noexcept nogil:
    """Begin rows without the GIL; waits while a fork waits."""
    enter()


cdef void leave_rows() noexcept nogil:
    leave()


cdef bint a_fork_waits() noexcept nogil:
    """Whether a loop must stop between two rows."""
    return waits()


def before_fork():
    """Wait until every loop is between two rows: the child gets consistent states."""
    with nogil:
        begin_fork()


def after_fork():
    """Let the parent continue."""
    end_fork()


if watch_forks() != 0:
    raise MemoryError
os.register_at_fork(before=before_fork, after_in_parent=after_fork)
