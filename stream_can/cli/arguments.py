"""An argument that a public constructor refuses is told in a line; any other error is a bug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stream_can.errors import StreamCANError

__all__ = ["argument_errors"]


@contextmanager
def argument_errors() -> Iterator[None]:
    """Around the calls that check what the user gave: their ValueError becomes a StreamCANError."""
    try:
        yield
    except StreamCANError:
        raise
    except ValueError as error:
        raise StreamCANError(str(error)) from error
