# cython: language_level=3, boundscheck=False, wraparound=False
"""Slots for the label statistics of column values, one for each labelled value.

segments.h writes the numbers, keeps the order of the last labels and drops the oldest values; it
only knows slots. This class maps values to slots. What the kernel calls under its lock runs no
Python bytecode.
"""

from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

import warnings

import numpy as np

cdef enum:
    USED
    LIMIT
    DROPPED
    EVICTED

cdef long long MANY = 100_000   # values of a column of which most come once: it is no segment
cdef long long BESIDE = 16      # bytes that a value counts as beside its numbers and its text


cdef class Values:
    """The labelled values of the declared columns.

    Parameters
    ----------
    columns
        Names of the columns.
    m
        Number of classes.
    limit
        Maximum bytes of all values.
    """

    def __cinit__(self, tuple columns, Py_ssize_t m, long long limit):
        cdef Py_ssize_t n = len(columns)
        self.columns, self.m, self.slots.m = columns, m, m
        self.known = [{} for _ in columns]
        self.names, self.free = [None], []
        self.slots.totals = self.totals
        self.totals[LIMIT] = limit
        self.created = <long long *>calloc(2 * n + 1, sizeof(long long))
        if self.created == NULL:
            raise MemoryError
        self.seen = self.created + n
        self.make_room(64)
        self.slots.before[0] = self.slots.after[0] = 0

    def __dealloc__(self):
        free(self.created)
        free(self.slots.numbers)
        free(self.slots.before)
        free(self.slots.after)
        free(self.slots.next_dropped)
        free(self.slots.sizes)

    def __len__(self):
        return len(self.names) - 1 - len(self.free)

    @property
    def limit(self):
        """Maximum bytes of all values."""
        return self.totals[LIMIT]

    @limit.setter
    def limit(self, long long limit):
        self.totals[LIMIT] = limit

    @property
    def evicted(self):
        """Number of values dropped so far."""
        return self.totals[EVICTED]

    cdef int make_room(self, Py_ssize_t room) except -1:
        """Make room for more slots; new ones are zero and in no order."""
        cdef Py_ssize_t width = 4 * self.m + 3, had = self.room
        cdef long long **arrays[4]
        cdef void *moved = realloc(self.slots.numbers, room * width * sizeof(double))
        if moved == NULL:
            raise MemoryError
        self.slots.numbers = <double *>moved
        memset(self.slots.numbers + had * width, 0, (room - had) * width * sizeof(double))
        arrays[0], arrays[1] = &self.slots.before, &self.slots.after
        arrays[2], arrays[3] = &self.slots.next_dropped, &self.slots.sizes
        for array in arrays:
            moved = realloc(array[0], room * sizeof(long long))
            if moved == NULL:
                raise MemoryError
            array[0] = <long long *>moved
            memset(array[0] + had, -1, (room - had) * sizeof(long long))
        self.room = room
        return 0

    # ---- what the kernel calls

    cdef int look_up(self, list texts, Py_ssize_t n, long long *found) except -1:
        """Slots of n rows, shape (n, columns): -1 not given, 0 without labels."""
        cdef Py_ssize_t i, k, width = len(self.columns)
        cdef list column
        cdef dict known
        for k in range(width):
            column, known = texts[k], self.known[k]
            for i in range(n):
                found[i * width + k] = -1
                if column is not None and column[i] is not None:
                    slot = known.get(column[i])
                    found[i * width + k] = 0 if slot is None else <long long>slot
        return 0

    cdef int claim(self, list texts, Py_ssize_t row) except -1:
        """Claim slots for the values of a labelled row, until `sweep` takes them."""
        cdef Py_ssize_t k
        cdef list column
        cdef dict known
        for k in range(len(self.columns)):
            column, known = texts[k], self.known[k]
            if column is None or column[row] is None:
                continue
            self.seen[k] += 1
            if column[row] not in known:
                self.create(k, column[row])
        return 0

    cdef long long create(self, Py_ssize_t column, str text) except -1:
        cdef long long slot
        if self.free:
            slot = self.free.pop()
            self.names[slot] = (column, text)
        else:
            slot = len(self.names)
            if slot >= self.room:
                self.make_room(2 * self.room)
            self.names.append((column, text))
        (<dict>self.known[column])[text] = slot
        self.slots.sizes[slot] = 8 * (4 * self.m + 3) + BESIDE + len(text.encode())
        # Until its label is learned it may be taken back.
        self.slots.next_dropped[slot] = self.totals[DROPPED]
        self.totals[DROPPED] = slot
        self.created[column] += 1
        if self.created[column] == MANY and self.seen[column] < 2 * MANY:
            self.unlikely = self.columns[column]
        return slot

    cdef int warn(self) except -1:
        """Warn once of a column that is hardly a category; not under the lock."""
        if self.unlikely is not None:
            column, self.unlikely = self.unlikely, None
            warnings.warn(
                f"segment {column!r} has {MANY:,} values, of which most come once:"
                " it says nothing of the next row", stacklevel=2)
        return 0

    cdef int sweep(self) except -1:
        """Forget values that were dropped, or claimed and never learned."""
        cdef long long slot = self.totals[DROPPED], after
        while slot > 0:
            after = self.slots.next_dropped[slot]
            self.slots.next_dropped[slot] = -1
            if self.slots.after[slot] < 0:  # it has had no label since
                self.forget(slot)
            slot = after
        self.totals[DROPPED] = 0
        return 0

    cdef int forget(self, long long slot) except -1:
        cdef tuple name = self.names[slot]
        del (<dict>self.known[name[0]])[name[1]]
        self.names[slot] = None
        self.free.append(slot)
        return 0

    cpdef Values copy(self):
        """A copy of the values."""
        cdef Values other = Values(self.columns, self.m, self.totals[LIMIT])
        cdef Py_ssize_t k, width = 4 * self.m + 3, room = self.room
        other.make_room(room)
        memcpy(other.slots.numbers, self.slots.numbers, room * width * sizeof(double))
        memcpy(other.slots.before, self.slots.before, room * sizeof(long long))
        memcpy(other.slots.after, self.slots.after, room * sizeof(long long))
        memcpy(other.slots.next_dropped, self.slots.next_dropped, room * sizeof(long long))
        memcpy(other.slots.sizes, self.slots.sizes, room * sizeof(long long))
        memcpy(other.totals, self.totals, sizeof(self.totals))
        memcpy(other.created, self.created, (2 * len(self.columns) + 1) * sizeof(long long))
        for k in range(len(self.columns)):
            other.known[k] = (<dict>self.known[k]).copy()
        other.names, other.free = self.names[:], self.free[:]
        return other

    # ---- snapshots, and to look inside

    def dump(self):
        """[(column, text)] of the values, oldest label first, and their numbers, (n, 4 m + 3)."""
        cdef long long slot = self.slots.after[0]
        cdef Py_ssize_t width = 4 * self.m + 3
        names, numbers = [], []
        while slot:
            names.append(self.names[slot])
            numbers.append(np.array(<double[:width]>(self.slots.numbers + slot * width)))
            slot = self.slots.after[slot]
        return names, np.array(numbers).reshape(len(names), width)

    def load(self, names, const double[:, ::1] numbers):
        """Load :meth:`dump` into a new object; ValueError where it is invalid."""
        cdef Py_ssize_t i, width = 4 * self.m + 3
        cdef long long slot, last = 0
        if numbers.shape[0] != len(names) or numbers.shape[1] != width:
            raise ValueError(
                f"values: shape {numbers.shape[0], numbers.shape[1]},"
                f" expected {len(names), width}")
        for i, (column, text) in enumerate(names):
            if not 0 <= column < len(self.columns):
                raise ValueError(
                    f"values: {text!r} is of segment {column}, expected one below"
                    f" {len(self.columns)}")
            if text in self.known[column]:
                raise ValueError(f"values: {text!r} of {self.columns[column]!r} is there twice")
            slot = self.create(column, text)
            memcpy(self.slots.numbers + slot * width, &numbers[i, 0], width * sizeof(double))
            self.slots.before[slot], self.slots.after[slot] = last, 0
            self.slots.after[last] = self.slots.before[0] = last = slot
            self.totals[USED] += self.slots.sizes[slot]
        self.sweep()

    def forget_odds(self):
        """Reset S of all values to 0."""
        cdef Py_ssize_t i
        for i in range(self.room):
            self.slots.numbers[i * (4 * self.m + 3) + 4 * self.m] = 0

    def forget_sets(self):
        """Reset what prediction sets keep of all values to 0."""
        cdef Py_ssize_t i
        for i in range(self.room):
            memset(set_group_of(&self.slots, i), 0, 2 * sizeof(double))

    def grown(self, Py_ssize_t m):
        """A copy of the values with zeros for new classes up to m."""
        other = Values(self.columns, m, self.totals[LIMIT])
        names, numbers = self.dump()
        sums, rest = np.split(numbers, [4 * self.m], axis=1)
        sums = sums.reshape(len(names), 4, self.m)
        wider = np.pad(sums, [(0, 0), (0, 0), (0, m - self.m)]).reshape(len(names), 4 * m)
        other.load(names, np.ascontiguousarray(np.concatenate([wider, rest], axis=1)))
        return other
