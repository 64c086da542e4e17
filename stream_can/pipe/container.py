"""Avro object container files in a pipe: one in, one out, block by block.

Records keep their bytes, as in a topic. The output has the schema of answers and the input's codec,
and is a complete file after each write.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import fastavro
from fastavro.write import Writer

from stream_can.errors import StreamCANError
from stream_can.messages.codecs.avro_program import program_of
from stream_can.messages.codecs.framing import Key, SchemaText
from stream_can.messages.probability_formats import BadMessage
from stream_can.messages.records import Headers
from stream_can.pipe.lines import MOST, Stop
from stream_can.pipe.output import write_all


def _snappy(data: bytes) -> bytes:
    import cramjam

    length = _varint(io.BytesIO(data).read)
    return bytes(cramjam.snappy.decompress_raw(data[:-4])) if length <= MOST else bytes(MOST + 1)


def _varint(read: Callable[[int], bytes]) -> int:
    number = 0
    for shift in range(0, 70, 7):
        (byte,) = read(1) or (0,)
        number |= (byte & 127) << shift
        if byte < 128:
            break
    return number


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompressobj(-15).decompress(data, MOST + 1),
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data, MOST + 1),
    "xz": lambda data: lzma.LZMADecompressor().decompress(data, MOST + 1),
    "snappy": _snappy,
}
"""Codecs that decompress a block to little more than `MOST`."""
HEADER = 0
"""Key of a file's only schema."""


class NoContainer(StreamCANError):
    """The input is not an Avro object container file, or is damaged."""


class Block(NamedTuple):
    """A block as fastavro writes it."""

    num_records: int
    bytes_: io.BytesIO


class Container:
    """The input file; implements :class:`stream_can.messages.codecs.framing.Schemas`.

    Parameters
    ----------
    source, stop
        The input, and the signal handler that ends it.

    Raises
    ------
    NoContainer
        The input does not begin like such a file.
    """

    def __init__(self, source: BinaryIO, stop: Stop) -> None:
        self._input = _Input(source, stop)
        try:
            head: Any = fastavro.block_reader(self._input)  # type: ignore[arg-type]
            self._schema = SchemaText("AVRO", json.dumps(head.writer_schema, default=str))
            self.codec = head.codec
            self._sync = self._input.last
        except Exception as error:  # fastavro raises various errors
            raise NoContainer(f"no Avro object container file: {_why(error)}") from None
        if self.codec not in CODECS:
            raise NoContainer(f"codec {self.codec!r}: expected one of {', '.join(CODECS)}")
        try:  # an unwritable codec is reported before anything is learned
            Writer(io.BytesIO(), json.loads(self._schema.text), codec=self.codec)
        except Exception as error:
            raise NoContainer(f"codec {self.codec!r}: {_why(error)}") from None
        self._walker = program_of(self._schema).walker
        self._answer: SchemaText | None = None

    # ---- schemas

    def key(self, value: bytes, headers: Headers) -> tuple[Key, int]:
        """Records have no prefix."""
        return HEADER, 0

    def schema(self, key: Key) -> SchemaText:
        """The schema of the file."""
        return self._schema

    def newest(self) -> tuple[bytes, SchemaText]:
        """The schema of the file."""
        return b"", self._schema

    def head(self, written: SchemaText) -> bytes:
        """Records have no prefix; the output's header has the schema."""
        self._answer = written
        return b""

    # ---- input and output

    def records(self, patience: Callable[[], float | None]) -> Iterator[list[bytes]]:
        """Iterate over the records of each block; an empty list after a time without a block.

        Raises
        ------
        NoContainer
            The file is damaged; a block cut short by a signal is left out.
        """
        while True:
            if not self._input.waits(patience()):
                yield []
                continue
            try:
                if self._input.at_end:
                    return
                yield list(self._split(*self._block()))
            except Exception as error:
                if self._input.stopped:
                    return
                if isinstance(error, StreamCANError | OSError):
                    raise
                raise NoContainer(f"a block of the container file: {_why(error)}") from None

    def _block(self) -> tuple[bytes, int]:
        """Read and decompress the next block; return it with its number of records."""
        n, size = self._input.read_long(), self._input.read_long()
        if not 0 <= size <= MOST or n < 0:
            raise NoContainer(f"a block of {size} bytes with {n} records; {MOST >> 20} MB at most")
        data, sync = self._input.read(size), self._input.read(16)
        if len(data) < size or sync != self._sync:
            raise NoContainer("a block of the container file: cut short, or damaged")
        data = CODECS[self.codec](data)
        if len(data) > MOST:
            raise NoContainer(f"a block of the container file unpacks to over {MOST >> 20} MB")
        return data, n

    def _split(self, data: bytes, n: int) -> Iterator[bytes]:
        at = 0
        for _ in range(n):
            try:
                end = self._walker.end(data, at)
            except ValueError as error:
                raise BadMessage(f"a block of the container file: {error}") from None
            yield data[at:end]
            at = end
        if at < len(data):
            raise BadMessage(f"a block of the container file: {len(data) - at} bytes are left over")

    def writer(self, sink: BinaryIO) -> Callable[[list[bytes]], None]:
        """Start the output file with the schema of answers; return a writer of records."""
        assert self._answer is not None
        out = io.BytesIO()
        writer = Writer(out, json.loads(self._answer.text), codec=self.codec)

        def write(records: list[bytes]) -> None:
            if records:
                writer.write_block(Block(len(records), io.BytesIO(b"".join(records))))
            writer.flush()
            write_all(sink, out.getvalue())
            out.seek(0)
            out.truncate()

        write([])
        return write


class _Input:
    """Standard input as fastavro reads it."""

    def __init__(self, source: BinaryIO, stop: Stop) -> None:
        self._source, self._stop = source, stop
        self._left = b""
        self._ended = False
        self._taken = 0
        self.last = b""
        """The bytes read last."""

    @property
    def stopped(self) -> bool:
        """Whether a signal ended it."""
        return self._stop.signum is not None

    def waits(self, seconds: float | None) -> bool:
        """Whether there is something to read, or the end, within a time."""
        return bool(self._left) or self._ended or self._more(seconds)

    def _more(self, seconds: float | None = None) -> bool:
        data = self._stop.read_chunk(self._source, seconds)
        if data is None:
            return False
        self._ended = not data
        self._left += data
        return True

    def read(self, n: int = -1) -> bytes:
        """Read n bytes, fewer at the end."""
        while not self._ended and (n < 0 or len(self._left) < n):
            self._more()
        n = len(self._left) if n < 0 else n
        data, self._left = self._left[:n], self._left[n:]
        self._taken += len(data)
        self.last = data
        return data

    @property
    def at_end(self) -> bool:
        """Whether the input has ended; waits to find out."""
        while not self._left and not self._ended:
            self._more()
        return not self._left

    def read_long(self) -> int:
        """Read a zigzag-encoded number."""
        number = _varint(self.read)
        return (number >> 1) ^ -(number & 1)

    def tell(self) -> int:
        """Number of bytes read so far."""
        return self._taken


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
