from collections.abc import Sequence

from stream_can.messages.records import Output, Record

def pack(
    outputs: Sequence[Output],
    start: int,
    limit: int,
    offset: int,
    size: int,
    first: int | None,
    last: int | None,
) -> tuple[bytes, int, int, int | None, int | None]: ...
def unpack(
    data: bytes,
    start: int,
    count: int,
    topic: str,
    partition: int,
    base: int,
    first: int,
    appended: int | None,
) -> list[Record]: ...
