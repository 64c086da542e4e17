"""Vector scaling that is refitted where ADWIN detects a change of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.calibration.scaling import VectorScaling
from stream_can.compare.stream import RECENT, Stream
from stream_can.errors import StreamCANError

LOOK, FEW = 50, 500
"""Rows between two checks of ADWIN; as long as labels are fewer, fits include the validation
rows."""

Array = NDArray[np.float64]


def refitted_by_adwin(stream: Stream) -> Iterator[Array]:
    """Vector scaling, refitted where ADWIN detects a change of its errors, and whenever the labels
    since then have doubled: to these labels, with the validation rows while they are few."""
    try:
        from river.drift import ADWIN
    except ImportError:
        raise StreamCANError(
            "vector-refitted-by-adwin uses river: pip install 'stream_can[river]'"
        ) from None
    adwin: Any = ADWIN()  # type: ignore[no-untyped-call]
    calibration = VectorScaling().fit(*stream.validation)
    labelled_rows, due = stream.arrivals
    wrong = np.zeros(len(stream.P), np.bool_)
    at, since, next_fit = 0, 0, len(labelled_rows) + 1
    for first in range(0, len(stream.P), LOOK):
        while at < len(labelled_rows) and due[at] <= first:
            adwin.update(int(wrong[labelled_rows[at]]))
            at += 1
            if adwin.drift_detected:
                since = next_fit = at - int(adwin.width)
        if at >= next_fit:
            recent = labelled_rows[max(since, at - RECENT) : at]
            P, y = stream.P[recent], stream.y[recent]
            if len(recent) < FEW:
                P, y = (
                    np.concatenate(pair) for pair in zip(stream.validation, (P, y), strict=True)
                )
            calibration = VectorScaling().fit(P, y)
            next_fit = since + 2 * max(at - since, LOOK)
        rows = calibration.transform(stream.P[first : first + LOOK])
        wrong[first : first + LOOK] = rows.argmax(axis=1) != stream.y[first : first + LOOK]
        yield rows
