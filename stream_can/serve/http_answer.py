"""HttpAnswer: a response, also to a problem."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

LARGEST_BODY = 8 << 20
"""Maximum size of a request."""
JSON, LINES = b"application/json", b"application/x-ndjson"
_write = msgspec.json.Encoder().encode


class HttpAnswer(NamedTuple):
    """A response."""

    status: int
    body: bytes
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class HttpProblem(Exception):
    """An error response."""

    def __init__(self, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(why)
        self.answer = HttpAnswer(status, _write({"error": why}), headers=headers)


def too_large() -> HttpProblem:
    """The body is larger than what is read."""
    return HttpProblem(413, f"a body has {LARGEST_BODY} bytes at most", (b"connection", b"close"))
