"""What outputs say of the predictions that they were made of: the row as it was sent, and why not.

A process that begins again reads them, to score what another one sent once its label comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.messages.messages import BadMessage, Messages
from stream_can.messages.records import Source
from stream_can.method.checks import bad_rows
from stream_can.method.rows import divided

__all__ = ["Sent", "sent_rows"]


class Sent(NamedTuple):
    """One output."""

    id: bytes
    raw: bytes | None
    """m float64: the row that it was made of; None where outputs do not keep it."""
    sent: bytes
    """m float64."""
    asked: bytes | None
    """The JSON text of the reason for which its label was asked for; None where it was not."""


def sent_rows(outputs: Iterable[Source], messages: Messages) -> list[Sent]:
    """What outputs say, in their order, without those that say nothing of use.

    The largest k of many classes are all that an output of that form has: the others share what is
    left, as in a prediction that came so.
    """
    found: list[Sent] = []
    for record in outputs:
        if record.value is None:
            continue
        try:
            says = messages.read_sent(record.value, record.key, record.headers)
        except (BadMessage, UnknownClass):
            continue  # somebody else's
        if says is not None:
            id, sent, raw, asked = says
            found.append(Sent(id, None if raw is None else raw.tobytes(), sent.tobytes(), asked))
    m = len(messages.classes)
    rows = _matrix([one.sent for one in found], m)
    # Rounded to a few digits, what was sent need not sum to 1.
    right = ((rows >= 0) & (rows <= 1.001)).all(axis=1)
    found = [found[i] for i in np.flatnonzero(right)]
    raws = _matrix([one.raw for one in found if one.raw is not None], m)
    if bad_rows(raws):  # as they were divided when they came
        raws, _ = divided(raws, messages.fields.normalise)
    divided_rows = iter(raws)
    return [
        one if one.raw is None else one._replace(raw=next(divided_rows).tobytes()) for one in found
    ]


def _matrix(rows: list[bytes], m: int) -> NDArray[np.float64]:
    return np.frombuffer(b"".join(rows)).reshape(-1, m)
