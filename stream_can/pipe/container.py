"""Avro object container files through a pipe: one comes in, one goes out, a block at a time.

The records keep their bytes, as in a topic. What is written has the schema of the answers, the
codec of what is read, and is a whole file after each write.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import fastavro
from fastavro.write import Writer

from stream_can.errors import StreamCANError
from stream_can.pipe.lines import Stop
from stream_can.pipe.output import write_all
from stream_can.stream.codecs.avro import program_of
from stream_can.stream.codecs.framing import Key, SchemaText
from stream_can.stream.forms import BadMessage
from stream_can.stream.records import Headers

__all__ = ["Container", "NoContainer"]

HEADER = 0
"""What the one schema of a file is called by."""


class NoContainer(StreamCANError):
    """The input is no Avro object container file, or is damaged."""


class Block(NamedTuple):
    """What fastavro writes as a block."""

    num_records: int
    bytes_: io.BytesIO


class Container:
    """The container file that is read; see :class:`stream_can.stream.codecs.framing.Schemas`.

    Parameters
    ----------
    source, stop
        What is read, until it ends or a signal comes.

    Raises
    ------
    NoContainer
        It does not begin as one.
    """

    def __init__(self, source: BinaryIO, stop: Stop) -> None:
        self._input = _Input(source, stop)
        try:
            self._reader: Any = fastavro.block_reader(self._input)  # type: ignore[arg-type]
            self._schema = SchemaText("AVRO", json.dumps(self._reader.writer_schema, default=str))
            self.codec = self._reader.codec
        except Exception as error:  # fastavro's are of many kinds
            raise NoContainer(f"no Avro object container file: {_why(error)}") from None
        try:  # what cannot be written, or not read, is said before anything is learned
            Writer(io.BytesIO(), json.loads(self._schema.text), codec=self.codec)
        except Exception as error:
            raise NoContainer(f"codec {self.codec!r}: {_why(error)}") from None
        self._walker = program_of(self._schema).walker
        self._answer: SchemaText | None = None

    # ---- as Schemas

    def key(self, value: bytes, headers: Headers) -> tuple[Key, int]:
        """Nothing stands before a record."""
        return HEADER, 0

    def schema(self, key: Key) -> SchemaText:
        """That of the file."""
        return self._schema

    def newest(self) -> tuple[bytes, SchemaText]:
        """That of the file."""
        return b"", self._schema

    def head(self, written: SchemaText) -> bytes:
        """Nothing; the schema stands at the beginning of what is written."""
        self._answer = written
        return b""

    # ---- as input and output

    def records(self, patience: Callable[[], float | None]) -> Iterator[list[bytes]]:
        """The records of each block; an empty list where none came in so many seconds.

        Raises
        ------
        NoContainer
            The file is damaged; where a signal ended the reading in a block, that is left out.
        """
        while True:
            if not self._input.waits(patience()):
                yield []
                continue
            try:
                block = next(self._reader, None)
                if block is None:
                    return
                data = block.bytes_.getvalue()
                yield list(self._split(data, block.num_records))
            except Exception as error:
                if self._input.stopped:
                    return
                if isinstance(error, StreamCANError | OSError):
                    raise
                raise NoContainer(f"a block of the container file: {_why(error)}") from None

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
        """Begins the file of the answers, whose schema is known by now; writes their records."""
        assert self._answer is not None
        out = io.BytesIO()
        made = Writer(out, json.loads(self._answer.text), codec=self.codec)

        def write(records: list[bytes]) -> None:
            if records:
                made.write_block(Block(len(records), io.BytesIO(b"".join(records))))
            made.flush()
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

    @property
    def stopped(self) -> bool:
        """Whether a signal ended it."""
        return self._stop.signum is not None

    def waits(self, seconds: float | None) -> bool:
        """Whether there is something to read, or it ended, before so many seconds are over."""
        return bool(self._left) or self._ended or self._more(seconds)

    def _more(self, seconds: float | None = None) -> bool:
        data = self._stop.read(self._source, seconds)
        if data is None:
            return False
        self._ended = not data
        self._left += data
        return True

    def read(self, n: int = -1) -> bytes:
        """So many bytes, fewer at the end."""
        while not self._ended and (n < 0 or len(self._left) < n):
            self._more()
        n = len(self._left) if n < 0 else n
        data, self._left = self._left[:n], self._left[n:]
        self._taken += len(data)
        return data

    def tell(self) -> int:
        """How many bytes were read."""
        return self._taken


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
