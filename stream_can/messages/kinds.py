"""Messages of a kind of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import float64
from numpy.typing import NDArray

from stream_can.messages.fields import Fields
from stream_can.messages.formats import JSON, Formats
from stream_can.messages.messages import Messages
from stream_can.messages.sparse_formats import Numbering
from stream_can.row_kinds import part

__all__ = ["messages_of"]


def messages_of(
    rows: str,
    classes: Sequence[Any],
    fields: Fields | None = None,
    train: NDArray[float64] | None = None,
    columns: Sequence[str] = (),
    formats: Formats = JSON,
    *,
    numbering: Numbering | None = None,
) -> Messages:
    """Messages of a kind of rows.

    Parameters
    ----------
    rows
        Name of the kind, see `stream_can.row_kinds.KINDS`.
    classes, fields, train, columns, formats, numbering
        As for `Messages`.
    """
    of_kind: type[Messages] = part(rows, "messages").MESSAGES
    return of_kind(classes, fields, train, columns, formats, numbering)
