"""Messages of dense rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.messages.messages import Fields, Formats, Messages, Numbering

__all__ = ["messages"]


def messages(
    classes: Sequence[Any],
    fields: Fields | None,
    train: NDArray[np.float64] | None,
    columns: Sequence[str],
    formats: Formats,
    numbering: Numbering | None,
) -> Messages:
    """See :func:`stream_can.messages.messages.messages_of`."""
    return Messages(classes, fields, train, columns, formats)
