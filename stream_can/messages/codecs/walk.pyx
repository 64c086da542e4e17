# cython: language_level=3
"""Find values in the bytes of an Avro record, and read and write numbers there.

A schema is compiled once into a program: an array of int32 in which each type is a node, its kind
and its parameters. Walking a record creates no objects and does not read past its end.
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

import array as arrays

# Kinds of nodes, and their parameters.
cpdef enum Kind:
    EMPTY  # null
    BOOLEAN
    VARINT  # int and long
    FIXED  # its size: float, double and fixed
    TEXT  # string and bytes
    ENUM  # how many symbols
    RECORD  # how many fields, and the node of each
    ARRAY  # the node of its items, and whether these take no bytes
    MAP  # the node of its values
    UNION  # how many branches, and the node of each
    CAPTURE  # slot, type, and the node whose place is wanted

cdef enum:
    ENDS = -1
    LONG = -2
    BRANCH = -3
    DEEP = -4
    NEGATIVE = -5
    TRUTH = -6
    SYMBOL = -7
    BLOCK = -8
    MOST_DEEP = 100

FAULTS = {
    ENDS: "the record ends in the middle",
    LONG: "a number has more than 64 bits",
    BRANCH: "a union has no such branch",
    DEEP: "the record is nested more than 100 deep",
    NEGATIVE: "a length is below 0",
    TRUTH: "a boolean is neither 0 nor 1",
    SYMBOL: "an enum has no such symbol",
    BLOCK: "a block is not as long as it says",
}

cdef array.array FLOATS = arrays.array("d")
cdef array.array LONGS = arrays.array("q")


cdef inline Py_ssize_t varint(
    const uint8_t *p, Py_ssize_t pos, Py_ssize_t end, int64_t *number
) noexcept nogil:
    """Read an int or long; return the following position, or a fault."""
    cdef uint64_t bits = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if pos >= end:
            return ENDS
        byte = p[pos]
        pos += 1
        if shift == 63 and byte > 1:
            return LONG
        bits |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    number[0] = <int64_t>(bits >> 1) ^ -<int64_t>(bits & 1)
    return pos


cdef Py_ssize_t block(
    const uint8_t *p, Py_ssize_t pos, Py_ssize_t end, int64_t *count, Py_ssize_t *stop
) noexcept nogil:
    """Read the head of a block: how many items, and where it says that it ends, or -1."""
    cdef int64_t size
    stop[0] = -1
    pos = varint(p, pos, end, count)
    if pos >= 0 and count[0] < 0:
        if count[0] < -INT64_MAX:
            return LONG
        count[0] = -count[0]
        pos = varint(p, pos, end, &size)
        if pos >= 0:
            if size < 0:
                return NEGATIVE
            if size > end - pos:
                return ENDS
            stop[0] = pos + size
    return pos


cdef Py_ssize_t walk(
    const int32_t *code, int32_t at, const uint8_t *p, Py_ssize_t pos, Py_ssize_t end,
    int64_t *spans, int depth,
) noexcept nogil:
    """Walk a value; return the following position, or a fault."""
    cdef int64_t number
    cdef Py_ssize_t stop, start
    cdef int32_t kind = code[at], i
    if kind == CAPTURE:
        start = pos
        pos = walk(code, code[at + 3], p, pos, end, spans, depth)
        spans[3 * code[at + 1]] = start
        spans[3 * code[at + 1] + 1] = pos
        spans[3 * code[at + 1] + 2] = code[at + 2]
        return pos
    if kind == FIXED:
        return pos + code[at + 1] if code[at + 1] <= end - pos else ENDS
    if kind == VARINT:
        return varint(p, pos, end, &number)
    if kind == TEXT:
        pos = varint(p, pos, end, &number)
        if pos < 0:
            return pos
        if number < 0:
            return NEGATIVE
        return pos + number if number <= end - pos else ENDS
    if kind == EMPTY:
        return pos
    if kind == BOOLEAN:
        if pos >= end:
            return ENDS
        return pos + 1 if p[pos] <= 1 else TRUTH
    if kind == ENUM:
        pos = varint(p, pos, end, &number)
        return SYMBOL if pos >= 0 and not 0 <= number < code[at + 1] else pos
    if depth == MOST_DEEP:
        return DEEP
    if kind == UNION:
        pos = varint(p, pos, end, &number)
        if pos < 0:
            return pos
        if not 0 <= number < code[at + 1]:
            return BRANCH
        return walk(code, code[at + 2 + number], p, pos, end, spans, depth + 1)
    if kind == RECORD:
        for i in range(code[at + 1]):
            pos = walk(code, code[at + 2 + i], p, pos, end, spans, depth + 1)
            if pos < 0:
                return pos
        return pos
    while True:  # ARRAY, MAP
        pos = block(p, pos, end, &number, &stop)
        if pos < 0 or number == 0:
            return pos
        if kind == MAP or not code[at + 2]:
            if number > end - pos:
                return ENDS
            while number:
                if kind == MAP:
                    pos = text(p, pos, end, &start)
                    if pos < 0:
                        return pos
                pos = walk(code, code[at + 1], p, pos, end, spans, depth + 1)
                if pos < 0:
                    return pos
                number -= 1
        if stop >= 0 and stop != pos:
            return BLOCK


cdef inline Py_ssize_t text(
    const uint8_t *p, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t *start
) noexcept nogil:
    """Skip a string: start of its bytes, and the following position, or a fault."""
    cdef int64_t size
    pos = varint(p, pos, end, &size)
    if pos < 0:
        return pos
    if size < 0:
        return NEGATIVE
    start[0] = pos
    return pos + size if size <= end - pos else ENDS


cdef inline double number_at(const uint8_t *p, int width) noexcept nogil:
    """Read a little-endian float or double."""
    cdef uint64_t bits = 0
    cdef uint32_t half
    cdef int i
    cdef float small
    cdef double wide
    for i in range(width):
        bits |= <uint64_t>p[i] << (8 * i)
    if width == 8:
        memcpy(&wide, &bits, 8)
        return wide
    half = <uint32_t>bits
    memcpy(&small, &half, 4)
    return small


cdef inline void put_number(uint8_t *p, int width, double number) noexcept nogil:
    cdef uint64_t bits
    cdef uint32_t half
    cdef float small = <float>number
    cdef int i
    if width == 8:
        memcpy(&bits, &number, 8)
    else:
        memcpy(&half, &small, 4)
        bits = half
    for i in range(width):
        p[i] = <uint8_t>(bits >> (8 * i))


cdef class Walker:
    """Walks records of a schema.

    Parameters
    ----------
    program
        array("i") of nodes; the record's is at ``root``.
    slots
        Number of captured places.
    """

    cdef array.array program
    cdef int32_t root
    cdef Py_ssize_t slots

    def __init__(self, array.array program, int root, int slots):
        self.program, self.root, self.slots = program, root, slots

    def walk(self, bytes data, Py_ssize_t start):
        """Start, end and type of each slot, array("q"), -1 for an empty slot.

        Raises
        ------
        ValueError
            The bytes from ``start`` on are no record of the schema.
        """
        cdef array.array spans = array.clone(LONGS, 3 * self.slots, False)
        cdef Py_ssize_t i, pos, end = PyBytes_GET_SIZE(data)
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
        for i in range(3 * self.slots):
            spans.data.as_longlongs[i] = -1
        with nogil:
            pos = walk(
                <const int32_t *>self.program.data.as_ints, self.root, p, start, end,
                <int64_t *>spans.data.as_longlongs, 0,
            )
        if pos < 0:
            raise ValueError(FAULTS[pos])
        if pos < end:
            raise ValueError(f"{end - pos} bytes stand behind the end of the record")
        return spans

    def end(self, bytes data, Py_ssize_t start):
        """Find the end of the record that starts here; ValueError as for :meth:`walk`."""
        cdef array.array spans = array.clone(LONGS, 3 * self.slots, False)
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef Py_ssize_t pos = walk(
            <const int32_t *>self.program.data.as_ints, self.root, p, start,
            PyBytes_GET_SIZE(data), <int64_t *>spans.data.as_longlongs, 0,
        )
        if pos < 0:
            raise ValueError(FAULTS[pos])
        return pos


def read_numbers(bytes data, Py_ssize_t start, Py_ssize_t end, int width):
    """Numbers of a walked array of floats (width 4) or doubles (8): array("d")."""
    cdef array.array row = array.clone(FLOATS, (end - start) // width, False)
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef double *out = row.data.as_doubles
    cdef Py_ssize_t stop, n = 0
    cdef int64_t count
    while True:
        start = block(p, start, end, &count, &stop)
        if start < 0 or count == 0:
            break
        for _ in range(count):
            out[n] = number_at(p + start, width)
            start += width
            n += 1
    array.resize(row, n)
    return row


def place_numbers(
    bytes data, Py_ssize_t start, Py_ssize_t end, int width, const double[:] numbers
):
    """Bytes of that array with new numbers."""
    cdef bytes made = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + start, end - start)
    cdef uint8_t *p = <uint8_t *>PyBytes_AS_STRING(made)
    cdef Py_ssize_t stop, pos = 0, n = 0
    cdef int64_t count
    end -= start
    while True:
        pos = block(p, pos, end, &count, &stop)
        if pos < 0 or count == 0:
            return made
        for _ in range(count):
            put_number(p + pos, width, numbers[n])
            pos += width
            n += 1


def read_map(bytes data, Py_ssize_t start, Py_ssize_t end, int width):
    """Names and numbers of a walked map of floats or doubles; of a repeated name the last counts.
    UnicodeDecodeError for a name that is not UTF-8."""
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t stop, at = 0
    cdef int64_t count
    cdef dict found = {}
    while True:
        start = block(p, start, end, &count, &stop)
        if start < 0 or count == 0:
            return found
        for _ in range(count):
            start = text(p, start, end, &at)
            name = PyUnicode_DecodeUTF8(<const char *>p + at, start - at, NULL)
            found[name] = number_at(p + start, width)
            start += width


def place_map(bytes data, Py_ssize_t start, Py_ssize_t end, int width, list numbers):
    """Bytes of that map with new numbers, in its order; None if their count differs."""
    cdef bytes made = PyBytes_FromStringAndSize(PyBytes_AS_STRING(data) + start, end - start)
    cdef uint8_t *p = <uint8_t *>PyBytes_AS_STRING(made)
    cdef Py_ssize_t stop, at = 0, pos = 0, n = 0, most = len(numbers)
    cdef int64_t count
    end -= start
    while True:
        pos = block(p, pos, end, &count, &stop)
        if pos < 0 or count == 0:
            return made if n == most else None
        for _ in range(count):
            if n == most:
                return None
            pos = text(p, pos, end, &at)
            put_number(p + pos, width, numbers[n])
            pos += width
            n += 1
