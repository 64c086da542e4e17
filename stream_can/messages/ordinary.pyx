# cython: language_level=3
"""Read and write batches of ordinary JSON messages in one compiled pass.

Ordinary are objects with the probabilities as an array of m numbers or as an object of all m
classes, in one order, and labels without a row; all in fields at the top. A batch with anything
else is left to msgspec. Outputs are equal to the byte.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc, realloc

from stream_can.messages.numbers cimport read_one, read_row, row_size, write_one, write_row

import msgspec
import numpy as np

from stream_can.messages.codecs.codec import ASKED
from stream_can.messages.codecs.codec import SET as SETS
from stream_can.messages.numbers import COMPILED

__all__ = ["Ordinary", "OrdinaryBatch"]

cdef extern from "ordinary.h" nogil:
    ctypedef struct Span:
        const char *at
        Py_ssize_t size
    ctypedef struct Field:
        Span key
        Span value
    ctypedef struct Object:
        int n
        int *found
        int ascii
    enum:
        MOST_FIELDS
        NAMES
        PROBS
        LABEL
        ID
        RAW
        ADDED
        ASK
        SET
    ctypedef const char *(*ReadRow)(const char *, const char *, double *, Py_ssize_t) noexcept nogil
    ctypedef Py_ssize_t (*WriteRow)(const double *, Py_ssize_t, char *) noexcept nogil
    ctypedef const char *(*ReadNumber)(const char *, const char *, double *) noexcept nogil
    ctypedef Py_ssize_t (*WriteNumber)(double, char *) noexcept nogil
    ctypedef struct Rows:
        Py_ssize_t m
        ReadRow read
        ReadNumber read_one
        WriteRow write
        WriteNumber write_one
        const Span *names
        Py_ssize_t *order
        int known
    int read_object(const char *p, const char *end, const Span *names, Rows *rows, double *row,
                    Field *fields, Object *object)
    Span id_of(Span value)
    Py_ssize_t write_object(const Field *fields, const Object *object, const Rows *rows,
                            const double *row, Span more, Span raw, char *text)

cdef bytes ASK_NAME = ASKED.encode(), SET_NAME = SETS.encode()
encode = msgspec.json.encode


cdef class OrdinaryBatch:
    """Predictions and labels of a batch, in order."""

    cdef readonly Py_ssize_t size
    """Number of messages."""
    cdef readonly list ids
    """Id of each prediction; None without one."""
    cdef public object rows
    """Rows, float64 of shape (n, m)."""
    cdef public Py_ssize_t off
    """Number of rows that were divided by their sum."""
    cdef readonly list labels
    """(id, JSON text of the class, number of predictions before it) of each label; it is that of
    the last of these where predictions carry their own."""
    cdef readonly bint labelled
    cdef Ordinary reader
    cdef object lines           # the fields lie in them
    cdef Field *fields
    cdef Object *objects
    cdef Rows those
    cdef Py_ssize_t n, n_fields, room, widest

    def __cinit__(self, Ordinary reader, lines, bint labelled):
        cdef Py_ssize_t n = len(lines)
        self.reader, self.lines, self.labelled = reader, lines, labelled
        self.ids, self.labels = [], []
        self.room = 8 * n + MOST_FIELDS
        self.fields = <Field *>malloc(self.room * sizeof(Field))
        self.objects = <Object *>malloc((n + 1) * sizeof(Object))
        self.those = reader.rows
        self.those.order = <Py_ssize_t *>malloc((reader.rows.m + 1) * sizeof(Py_ssize_t))
        if self.fields == NULL or self.objects == NULL or self.those.order == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.those.order)
        free(self.fields)
        free(self.objects)

    cdef int read(self) except -1:
        """Read the lines up to the first that is not ordinary."""
        cdef Ordinary reader = self.reader
        cdef Py_ssize_t m = reader.rows.m, size
        cdef bytes line
        cdef const char *start
        cdef Object *one
        cdef Field *fields
        rows = np.empty((len(self.lines), m))
        cdef double[:, ::1] view = rows
        for line in self.lines:
            if line is None:
                break
            if self.room - self.n_fields < MOST_FIELDS:
                fields = <Field *>realloc(self.fields, 2 * self.room * sizeof(Field))
                if fields == NULL:
                    raise MemoryError
                self.fields, self.room = fields, 2 * self.room
            one, fields = self.objects + self.n, self.fields + self.n_fields
            start, size = PyBytes_AS_STRING(line), PyBytes_GET_SIZE(line)
            if not read_object(
                start, start + size, reader.names, &self.those, &view[self.n, 0], fields, one
            ):
                break
            if not one.ascii:
                try:
                    line.decode()
                except UnicodeDecodeError:
                    break
            if not self.take(one, fields):
                break
            self.size += 1
            if one.found[PROBS] >= 0:
                self.n += 1
                self.n_fields += one.n
                self.widest = max(self.widest, size)
        self.rows = rows[:self.n]
        return 0

    def line_of(self, row):
        """Position of the message of a row."""
        if self.labelled:
            return row
        return row + sum([due <= row for _, _, due in self.labels])

    cdef bint take(self, Object *one, Field *fields) except -1:
        """Take a prediction or a label; return False where it is neither, or both."""
        cdef Span id, text
        cdef int i
        id.size = -1
        if one.found[ID] >= 0:
            id = id_of(fields[one.found[ID]].value)
        if id.size == -2:
            return False
        for i in range(ADDED, NAMES):  # it would be replaced in its place
            if one.found[i] >= 0:
                return False
        name = None if id.size < 0 else PyBytes_FromStringAndSize(id.at, id.size)
        cdef bint row = one.found[PROBS] >= 0, label = one.found[LABEL] >= 0
        if not (row if self.labelled else row != label):
            return False
        if row:
            self.ids.append(name)
        if label:
            text = fields[one.found[LABEL]].value
            if self.labelled and text.at[0] == b"n":
                return True
            self.labels.append(
                (name, PyBytes_FromStringAndSize(text.at, text.size), self.n + row)
            )
        return True

    def write(self, rows, asked=None, sets=None):
        """Messages with other rows, float64 of shape (n, m) and finite; the original beside.

        ``asked`` and ``sets`` are what to add to each: the reason of a label request or None, and
        the prediction set.
        """
        cdef Ordinary reader = self.reader
        cdef const double[:, ::1] view = rows
        cdef Py_ssize_t i, size, m = reader.rows.m
        cdef Field *fields = self.fields
        if view.shape[0] != self.n or view.shape[1] != m:
            raise ValueError(f"rows: {rows.shape}, expected {(self.n, m)}")
        cdef Span more
        cdef list added = _added(asked, sets, self.n)
        cdef Py_ssize_t most = 2 * self.widest + row_size(m) + reader.raw.size + 8
        if self.those.known:
            most += reader.names_size
        if added is not None:
            most += max(map(len, added), default=0)
        cdef bytes field, room = PyBytes_FromStringAndSize(NULL, most)
        cdef char *text = PyBytes_AS_STRING(room)
        cdef list out = []
        more.size = 0
        for i in range(self.n):
            if added is not None:
                field = added[i]
                more.at, more.size = PyBytes_AS_STRING(field), len(field)
            size = write_object(
                fields, self.objects + i, &self.those, &view[i, 0], more, reader.raw, text
            )
            out.append(PyBytes_FromStringAndSize(text, size))
            fields += self.objects[i].n
        return out


cdef list _added(asked, sets, Py_ssize_t n):
    """Text of the fields that are added to each message; None without any."""
    if sets is None and (asked is None or not any(asked)):
        return None
    added = [b""] * n
    if asked is not None:
        added = [b"" if one is None else b',"%b":"%b"' % (ASK_NAME, one.encode()) for one in asked]
    if sets is not None:
        added = [
            before + b',"%b":%b' % (SET_NAME, encode(names))
            for before, names in zip(added, sets, strict=True)
        ]
    return added


cdef class Ordinary:
    """Reader of ordinary messages.

    Parameters
    ----------
    classes
        Names of the classes in JSON as UTF-8, without quotes; None for one that needs an escape.
    probs, label, id
        Names of the fields, as UTF-8 without what JSON would escape; id may be None.
    raw
        Name of the field of the original probabilities, in quotes; None for none.
    """

    cdef Span names[6]
    cdef Span raw
    cdef Rows rows
    cdef Span *classes
    cdef Py_ssize_t names_size  # of all classes
    cdef tuple kept             # names point into these

    def __init__(self, tuple classes, bytes probs, bytes raw, bytes label, bytes id):
        cdef bytes one
        cdef Py_ssize_t i, m = len(classes)
        if self.classes != NULL:
            raise TypeError("made already")
        self.kept = probs, raw, label, id, classes
        self.classes = <Span *>malloc((m + 1) * sizeof(Span))
        if self.classes == NULL:
            raise MemoryError
        for i, one in enumerate(classes):
            self.classes[i].size = -1 if one is None else len(one)
            self.classes[i].at = NULL if one is None else PyBytes_AS_STRING(one)
            self.names_size += 3 if one is None else len(one) + 3
        self.rows = Rows(
            m, read_row, read_one, write_row, write_one, self.classes, NULL, False
        )
        for i, one in (
            (PROBS, probs), (LABEL, label), (ID, id), (ASK, ASK_NAME), (SET, SET_NAME),
        ):
            self.names[i].size = -1 if one is None else len(one)
            self.names[i].at = NULL if one is None else PyBytes_AS_STRING(one)
        self.raw.size, self.names[RAW].size = 0, -1
        if raw is not None:
            self.raw.at, self.raw.size = PyBytes_AS_STRING(raw), len(raw)
            self.names[RAW].at, self.names[RAW].size = self.raw.at + 1, self.raw.size - 2

    def __dealloc__(self):
        free(self.classes)

    def read(self, lines, bint labelled=False):
        """Read a list of messages as bytes up to the first that is not ordinary, as None is; return
        an `OrdinaryBatch`, or None. ``labelled``: predictions may carry their own label."""
        if not COMPILED or not self.rows.m:
            return None
        cdef OrdinaryBatch batch = OrdinaryBatch(self, lines, labelled)
        batch.read()
        return batch
