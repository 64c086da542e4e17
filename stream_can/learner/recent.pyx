# cython: language_level=3
"""Kept predictions, and what is done to many of them at once; compiled.

They hold no reference to anything that could hold them, and the garbage collector does not visit
them: there may be millions.
"""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.math cimport INFINITY, NAN, isnan
from libc.stdint cimport int64_t
from libc.string cimport memcpy

cimport cython

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(object d, object key) except? NULL

cdef enum:
    OVERHEAD = 480  # bytes of a kept prediction, beside its numbers, id and columns
    MOST_ID = 1024

cdef tuple REASONS = (None, "random", "margin")

LONGEST_ID = MOST_ID


@cython.no_gc
@cython.freelist(256)
cdef class Recent:
    """A kept prediction, labelled or not.

    - ``id``: its id; None where no label can name it.
    - ``number``: its number among the learner's predictions.
    - ``size``: bytes that it takes, as ``recent_mb`` counts them.
    - ``lane``: serial number of its lane.
    - ``time``: time of the prediction in seconds, NaN where missing.
    - ``columns``: values of the declared columns.
    - ``at``: number of its row within the current run; -1 after it.
    - ``blob``: row, sent row and receipt, concatenated; empty during the run.
    - ``asked``: why its label is requested: "random", "margin" or None.
    - ``fair``: whether no request of its label was due to the row's content, nor declined for
      it.
    - ``known``: its label: the index of the class, or several labels as bytes; None before it
      arrives.
    - ``scored``: rank and probability of its label, where they are known only while it is
      learned.
    """

    cdef readonly object id, columns
    cdef public object blob, known, scored
    cdef readonly int64_t number, size
    cdef readonly double time
    cdef readonly int lane
    cdef public int at
    cdef public bint fair
    cdef int reason

    def __repr__(self):
        return f"Recent(id={self.id!r}, number={self.number}, known={self.known!r})"

    @property
    def asked(self):
        return REASONS[self.reason]

    @asked.setter
    def asked(self, reason):
        self.reason = REASONS.index(reason)


cdef Recent new(id, int64_t number, Py_ssize_t width, columns, bytes blob, double time, int lane):
    cdef Recent one = Recent.__new__(Recent)
    one.id, one.columns, one.blob, one.known, one.scored = id, columns, blob, None, b""
    one.number, one.time, one.lane, one.at = number, time, lane, -1
    one.size = 0 if id is None else size_of(id, width, columns)
    one.fair, one.reason = True, 0
    return one


def prediction_of(id, number, columns, blob, time, lane):
    """Create a prediction whose row has been corrected, or that a snapshot holds."""
    return new(id, number, len(blob), columns, blob, time, lane)


cpdef Py_ssize_t length_of(id) except -1:
    """Length of an id in bytes."""
    if type(id) is bytes:
        return PyBytes_GET_SIZE(id)
    if isinstance(id, int):
        return 8
    return len(id) if isinstance(id, bytes) or id.isascii() else len(id.encode())


def check_ids(ids):
    """Raise TypeError or ValueError where an id is none: text, an integer of 64 bits, bytes, or
    None, of at most 1,024 bytes."""
    cdef Py_ssize_t length
    for id in ids:
        if id is None:
            continue
        if not isinstance(id, (str, int, bytes)) or isinstance(id, bool):
            raise TypeError(f"id: {id!r}, expected a text, an integer or bytes")
        if isinstance(id, int):
            if not -(2**63) <= id < 2**64:
                raise ValueError(f"id: {id}, expected an integer of 64 bits, or a text")
            continue
        length = length_of(id)
        if length > MOST_ID:
            raise ValueError(f"id: {length:,} bytes, expected at most {MOST_ID:,}")


def check_times(times):
    """Raise ValueError where a time in seconds is none: None and NaN are unknown ones."""
    cdef double time
    for given in times:
        if given is None:
            continue
        time = given
        if time > 1e300 or time < -1e300:
            raise ValueError(f"time: {time!r}, expected seconds since 1970")


cdef Py_ssize_t size_of(id, Py_ssize_t width, columns) except -1:
    cdef Py_ssize_t much = OVERHEAD + width + length_of(id)
    if columns is not None:
        for text in columns:
            much += 0 if text is None else len(text)
    return much


def begin(list ids, Py_ssize_t first, Py_ssize_t last, int64_t number, int at, int lane, widths,
          list columns, times):
    """Create the predictions of some rows of a call, whose blobs are to come.

    Parameters
    ----------
    ids, first, last
        Ids of the call, and its rows from ``first`` to before ``last``.
    number, at
        Numbers of the first row among the learner's predictions and within the run.
    lane
        Serial number of their lane.
    widths
        Bytes of their blobs, one number or one for each.
    columns
        Values of the declared columns for each of them, or None.
    times
        Times in seconds of the call, None or NaN where missing, or None.

    Returns
    -------
    The predictions, those with an id, the bytes of these, and the latest time, -inf without any.
    """
    cdef Recent one
    cdef Py_ssize_t i, n = last - first, width = 0, total = 0
    cdef double latest = -INFINITY, time = NAN
    cdef bint same = isinstance(widths, int)
    cdef list entries = [], named
    if same:
        width = widths
    for i in range(n):
        if times is not None:
            told = times[first + i]
            time = NAN if told is None else told
            if time > latest:
                latest = time
        if not same:
            width = widths[i]
        one = new(
            ids[first + i], number + i, width, None if columns is None else columns[i], b"", time,
            lane)
        one.at = at + i
        total += one.size
        entries.append(one)
    named = entries
    if None in ids[first:last]:
        named = [one for one in entries if (<Recent>one).id is not None]
    return entries, named, total, latest


@cython.final
cdef class RecentIndex:
    """The kept predictions by their ids: of each id the latest of each lane.

    An id leads to its prediction, or to a tuple of them in the order of their lanes: the garbage
    collector visits neither, and a label needs not ask every lane.
    """

    cdef dict by_id
    cdef readonly Py_ssize_t size

    def __cinit__(self):
        self.by_id = {}

    def __len__(self):
        return self.size

    cpdef tuple of(self, id):
        """The predictions of an id, in the order of their lanes."""
        cdef PyObject *kept = PyDict_GetItemWithError(self.by_id, id)
        if kept is NULL:
            return ()
        return (<object>kept,) if type(<object>kept) is Recent else <tuple>kept

    cpdef Recent latest(self, id, int lane):
        """The prediction of an id that a lane keeps, or None."""
        cdef Recent entry
        for entry in self.of(id):
            if entry.lane == lane:
                return entry

    cpdef int keep(self, list entries, dict requests) except -1:
        """Put predictions of a lane under their ids, in place of earlier ones and of requests for
        their labels."""
        cdef Recent entry
        for entry in entries:
            if entry.id is not None:
                if requests:
                    requests.pop(entry.id, None)
                self.put(entry)
        return 0

    cdef int put(self, Recent entry) except -1:
        cdef PyObject *kept = PyDict_GetItemWithError(self.by_id, entry.id)
        cdef tuple others
        if kept is NULL:
            self.by_id[entry.id] = entry
            self.size += 1
        elif type(<object>kept) is Recent and (<Recent>kept).lane == entry.lane:
            self.by_id[entry.id] = entry
        else:
            others = self.of(entry.id)
            rest = [other for other in others if (<Recent>other).lane != entry.lane]
            self.size += len(rest) + 1 - len(others)
            rest.append(entry)
            self.by_id[entry.id] = tuple(sorted(rest, key=lane_of))
        return 0

    cpdef int forget(self, Recent entry, dict requests) except -1:
        """Remove a prediction, so that no label finds it."""
        cdef PyObject *kept
        if entry.id is None:
            return 0
        kept = PyDict_GetItemWithError(self.by_id, entry.id)
        if kept is <PyObject *>entry:
            del self.by_id[entry.id]
        elif kept is NULL or type(<object>kept) is Recent:
            return 0
        else:
            rest = tuple([other for other in <tuple>kept if other is not entry])
            if len(rest) == len(<tuple>kept):
                return 0
            self.by_id[entry.id] = rest[0] if len(rest) == 1 else rest
        self.size -= 1
        if requests:
            requests.pop(entry.id, None)
        return 0


def lane_of(Recent entry):
    """Serial number of a prediction's lane."""
    return entry.lane


def first_counts(known, y):
    """Compare a class with the known one of its prediction: the first label counts. See
    `Kind.news`."""
    if known is None:
        return y, y, False
    return None, known, known != y


def predictions_of(list labels, list entries, RecentIndex recent, tuple name):
    """Find the prediction of each label of a call, all rows of which have begun.

    Parameters
    ----------
    labels
        Checked labels.
    entries
        The predictions of the call, in order.
    recent
        The earlier ones, all of one lane.
    name
        Its model and version.

    Returns
    -------
    The predictions, or None where one is not to be found before its label is due, an id occurs
    twice among the rows, or a label names another model.
    """
    cdef Recent one
    cdef PyObject *kept
    cdef dict own = {}
    cdef list found = []
    cdef Py_ssize_t named = 0
    for one in entries:
        if one.id is not None:
            named += 1
            own[one.id] = one
    if len(own) != named:
        return None
    for label in labels:
        late = label.late
        if late.of is not None:
            one = entries[late.of]
        else:
            kept = PyDict_GetItemWithError(own, late.id)
            if kept is NULL:
                kept = PyDict_GetItemWithError(recent.by_id, late.id)
            if kept is NULL:
                return None
            one = <Recent>kept
        if one.at >= late.due:
            return None
        if late.model is not None or late.version is not None:
            if (late.model, late.version) != name:
                return None
        found.append(one)
    return found


def teach(list labels, list entries, lane, call, Joined, Taught, int k, int n, bint at_once):
    """Join labels with kept predictions, where they are new.

    Parameters
    ----------
    labels, entries
        Checked labels, and the prediction of each.
    lane, call
        Their lane and the call.
    Joined, Taught
        Classes of what is added to the lane's run and to the call.
    k
        Index of the first label within the call; -1 for a held one.
    n
        Number of labels in one.
    at_once
        Whether all rows of the call came before: each label is learned before the row at which it
        is due, otherwise behind all that came.

    Returns
    -------
    The outcome of each, and the number of those that contradict what was known.
    """
    cdef Recent one
    cdef Py_ssize_t i
    cdef list outcomes = [], taught = call.taught, joined = lane.joined
    cdef RecentIndex recent = lane.recent
    cdef dict requests = lane.requests
    cdef int changed = 0
    cdef bint tells = lane.tells
    name, news = lane.name, lane.kind.news
    for i in range(len(labels)):
        label, one = labels[i], entries[i]
        new, known, differs = news(one.known, label.y)
        changed += differs
        if new is None:
            outcomes.append("repeated")
            continue
        late, row = label.late, label.row
        if row is not None and (late.of is not None or row == lane.raw_of(one, call)):
            row = None
        if tells and one.at >= 0:
            lane.run(call)
        one.known = known
        if requests and recent.latest(one.id, one.lane) is one:
            requests.pop(one.id, None)
        due = late.due if at_once else lane.collected
        joined.append(Joined(new, one, row, label.given, due, late.weight))
        taught.append(Taught(k if k < 0 else k + i, name, one, late.time, n, late.weight))
        outcomes.append("learned")
    return outcomes, changed


def settle(list entries, blobs):
    """Give predictions their blobs: their run is over.

    ``blobs`` is a list of them, or a tuple of up to three arrays with a row for each prediction,
    whose bytes side by side are its blob.
    """
    cdef Recent one
    cdef Py_ssize_t i, n = len(entries)
    cdef list made
    if isinstance(blobs, tuple):
        made = _side_by_side(blobs, n)
    else:
        made = blobs
    if len(made) != n:
        raise ValueError(f"{len(made)} blobs for {n} predictions")
    for i in range(n):
        one = entries[i]
        one.blob, one.at = made[i], -1


def unscored(list labels, Py_ssize_t width, Unscored):
    """What is scored of joined labels whose rows are a fair sample: the beginning of their blobs,
    of this many bytes, the label, the time and the label's weight."""
    cdef Recent entry
    cdef list queue = []
    for label in labels:
        entry = label.entry
        if entry is not None and entry.fair:
            queue.append(Unscored(
                entry.scored or entry.blob[:width], label.y,
                None if isnan(entry.time) else entry.time, label.weight))
    return queue


cdef list _side_by_side(tuple arrays, Py_ssize_t n):
    """Join the bytes of row i of every array, for each of n rows."""
    cdef Py_buffer views[3]
    cdef Py_ssize_t sizes[3]
    cdef Py_ssize_t i, width = 0
    cdef int k, opened = 0
    cdef char *to
    cdef bytes one
    cdef list found = []
    if len(arrays) > 3:
        raise ValueError(f"{len(arrays)} arrays, expected 3 at most")
    try:
        for array in arrays:
            PyObject_GetBuffer(array, &views[opened], PyBUF_C_CONTIGUOUS)
            opened += 1
            if len(array) != n:
                raise ValueError(f"{len(array)} rows for {n} predictions")
            sizes[opened - 1] = views[opened - 1].len // n if n else 0
            width += sizes[opened - 1]
        for i in range(n):
            one = PyBytes_FromStringAndSize(NULL, width)
            to = PyBytes_AS_STRING(one)
            for k in range(opened):
                memcpy(to, <const char *>views[k].buf + i * sizes[k], sizes[k])
                to += sizes[k]
            found.append(one)
    finally:
        for k in range(opened):
            PyBuffer_Release(&views[k])
    return found


def forget_oldest(RecentIndex recent, order, int64_t size, int64_t bound, int64_t number,
                  dict lanes):
    """Remove the oldest predictions until the rest fits; return its size in bytes.

    Parameters
    ----------
    recent, order
        The predictions by their ids, and a deque of them, oldest first.
    size, bound
        Bytes of all, and at most.
    number
        Only those that are numbered below are removed.
    lanes
        Their lanes, by serial number.
    """
    cdef Recent entry
    cdef dict requests = None
    cdef int lane = -1
    while size > bound:
        entry = order[0]
        if entry.number >= number:
            break
        order.popleft()
        size -= entry.size
        if requests is None or entry.lane != lane:
            lane = entry.lane
            requests = lanes[lane].requests
        recent.forget(entry, requests)
    return size


def marks(order):
    """A byte for each prediction, 4 where it is fair plus 1 or 2 for the reason of its request; and
    the labels that came, with their places."""
    cdef Recent one
    cdef Py_ssize_t i = 0
    flags = PyBytes_FromStringAndSize(NULL, len(order))
    cdef char *flag = PyBytes_AS_STRING(flags)
    cdef list known = []
    for one in order:
        flag[i] = 4 * one.fair + one.reason
        if one.known is not None:
            known.append((i, one.known))
        i += 1
    return flags, known


def mark(Recent entry, int flags):
    """Restore what a byte of `marks` says of a prediction; ValueError where it is none."""
    if not 0 <= flags < 8 or flags & 3 >= len(REASONS):
        raise ValueError("the marks of recent predictions")
    entry.fair, entry.reason = flags >= 4, flags & 3
