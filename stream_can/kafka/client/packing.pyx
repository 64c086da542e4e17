# cython: language_level=3
"""Records to and from the bytes of Kafka's record format 2, many at once; compiled.

Every number is a varint: zigzag, seven bits a byte, the lowest first. Times and offsets are
differences to the first of the batch. https://kafka.apache.org/documentation/#recordbatch
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

from stream_can.messages.records import Record

__all__ = ["pack", "unpack"]

cdef enum:
    LONGEST = 10  # bytes of a varint


cdef inline Py_ssize_t put(unsigned char *to, int64_t number) noexcept nogil:
    """Write a varint; return its bytes."""
    cdef uint64_t left = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    cdef Py_ssize_t n = 0
    while left > 0x7F:
        to[n] = 0x80 | (left & 0x7F)
        left >>= 7
        n += 1
    to[n] = <unsigned char>left
    return n + 1


cdef bytes varint(int64_t number):
    """Encode a number."""
    cdef unsigned char room[LONGEST]
    return PyBytes_FromStringAndSize(<char *>room, put(room, number))


cdef bytes packed(headers):
    """Encode the headers of a record."""
    parts = [varint(len(headers))]
    for name, value in headers:
        text = name.encode(errors="surrogateescape")  # unpacking maps invalid UTF-8 so
        parts += (varint(len(text)), text, varint(-1 if value is None else len(value)))
        if value is not None:
            parts.append(value)
    return b"".join(parts)


cdef inline Py_ssize_t size_of(bytes value) noexcept:
    return -1 if value is None else PyBytes_GET_SIZE(value)


cdef inline unsigned char *put_bytes(unsigned char *to, bytes value, Py_ssize_t n) noexcept:
    to += put(to, n)
    if n > 0:
        memcpy(to, PyBytes_AS_STRING(value), n)
        to += n
    return to


def pack(outputs, Py_ssize_t start, Py_ssize_t limit, int64_t offset, Py_ssize_t size, first, last):
    """Encode outputs from ``start`` on while they fit into a batch.

    Parameters
    ----------
    limit
        Bytes of a batch; an empty one takes a record of any size.
    offset, size
        Number of records and bytes that the batch has.
    first, last
        Time of its first record and the latest, in ms; None where it is empty.

    Returns
    -------
    The bytes, index of the first output not encoded, size of the largest record, and ``first`` and
    ``last`` of the batch with them.
    """
    cdef Py_ssize_t i, n, m, length, most, used = 0, room = 1 << 14, largest = 0, end
    cdef int64_t stamp, base = 0, latest = 0
    cdef unsigned char head[LONGEST]
    cdef unsigned char *data = NULL
    cdef unsigned char *more
    cdef unsigned char *to
    cdef unsigned char *at
    cdef bytes key, value, tail = b""
    cdef bint empty = first is None
    headers = None
    if not empty:
        base, latest = first, last
    end = len(outputs)
    data = <unsigned char *>malloc(room)
    if data == NULL:
        raise MemoryError
    try:
        for i in range(start, len(outputs)):
            out = outputs[i]
            key, value, stamp = out.key, out.value, out.timestamp
            if empty:
                base, latest, empty = stamp, stamp, False
            if out.headers != headers:  # consecutive outputs often have equal ones
                headers = out.headers
                tail = packed(headers)
            n, m = size_of(key), size_of(value)
            most = 5 * LONGEST + 1 + max(n, 0) + max(m, 0) + PyBytes_GET_SIZE(tail)
            if used + most > room:
                room = 2 * (used + most)
                more = <unsigned char *>realloc(data, room)
                if more == NULL:
                    raise MemoryError
                data = more
            # Written behind the place of its length, which is known only then.
            at = to = data + used + LONGEST
            to[0] = 0  # attributes
            to += 1
            to += put(to, stamp - base)
            to += put(to, offset)
            to = put_bytes(to, key, n)
            to = put_bytes(to, value, m)
            memcpy(to, PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))
            to += PyBytes_GET_SIZE(tail)
            length = to - at
            n = put(head, length)
            if size + n + length > limit and offset > 0:
                end = i
                break
            memcpy(data + used, head, n)
            if n < LONGEST:
                memmove(data + used + n, at, length)
            used += n + length
            size += n + length
            offset += 1
            latest = max(latest, stamp)
            largest = max(largest, n + length)
        if end > start:
            first, last = base, latest
        return PyBytes_FromStringAndSize(<char *>data, used), end, largest, first, last
    finally:
        free(data)


cdef int64_t number(const unsigned char **at, const unsigned char *end) except? -7:
    """Decode a varint and go past it."""
    cdef const unsigned char *p = at[0]
    cdef uint64_t found = 0
    cdef int shift = 0
    while True:
        if p >= end:
            raise ValueError("it ends within a number")
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
        found |= <uint64_t>(p[0] & 0x7F) << shift
        shift += 7
        p += 1
        if not p[-1] & 0x80:
            break
    at[0] = p
    return <int64_t>(found >> 1) ^ -<int64_t>(found & 1)


cdef bytes text_of(const unsigned char **at, const unsigned char *end):
    """Decode bytes after their length; None where that is negative."""
    cdef int64_t n = number(at, end)
    if n < 0:
        return None
    if n > end - at[0]:
        raise ValueError(f"{n} bytes, and {end - at[0]} are left")
    found = PyBytes_FromStringAndSize(<const char *>at[0], n)
    at[0] += n
    return found


cdef list headers_of(const unsigned char **at, const unsigned char *end):
    """Decode the headers of a record."""
    cdef int64_t _i, n, count = number(at, end)
    cdef list found = []
    if count < 0:
        raise ValueError(f"{count} headers")
    for _i in range(count):
        n = number(at, end)
        if not 0 <= n <= end - at[0]:
            raise ValueError(f"a header's name has {n} bytes")
        # Trap: brokers accept names with invalid UTF-8, at which a consumer would fail for ever.
        name = PyUnicode_DecodeUTF8(<const char *>at[0], n, "surrogateescape")
        at[0] += n
        found.append((name, text_of(at, end)))
    return found


def unpack(bytes data, Py_ssize_t start, Py_ssize_t count, str topic, int partition, int64_t base,
           int64_t first, appended):
    """Decode all records of a batch.

    Parameters
    ----------
    data, start, count
        Bytes of the batch, where its records begin in them, and their number.
    topic, partition
        Where they are from.
    base, first
        Offset and time of the first.
    appended
        Time of all of them, where the broker gave it; None otherwise.

    Raises
    ------
    ValueError
        Lengths are inconsistent.
    """
    cdef const unsigned char *at = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef const unsigned char *end = at + PyBytes_GET_SIZE(data)
    cdef const unsigned char *stop
    cdef int64_t length, delta, offset
    cdef Py_ssize_t _i
    cdef list found = []
    at += start
    for _i in range(count):
        length = number(&at, end)
        if not 0 < length <= end - at:
            raise ValueError(f"a record of {length} bytes, and {end - at} are left")
        stop = at + length
        at += 1  # after the attributes
        delta = number(&at, stop)
        offset = number(&at, stop)
        key = text_of(&at, stop)
        value = text_of(&at, stop)
        headers = headers_of(&at, stop)
        if at != stop:
            raise ValueError(f"a record of {length} bytes has {stop - at} more")
        stamp = first + delta if appended is None else appended
        found.append(Record(topic, partition, base + offset, stamp, key, value, headers))
    if at != end:
        raise ValueError(f"{end - at} bytes behind the last record")
    return found
