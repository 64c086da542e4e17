"""Labels in bytes, for another process or a later run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.learner.late import LateLabel


class _Labels(msgspec.Struct):
    """Labels as bytes."""

    labels: list[LateLabel]


def write_labels(labels: Sequence[LateLabel]) -> bytes:
    """Encode labels, checksummed, for `read_labels`."""
    encoded = []
    for late in labels:
        label, row = late.label, late.row
        if isinstance(label, np.ndarray):
            label = label.astype(np.int8).tobytes()
        if row is not None and not isinstance(row, dict):
            row = np.asarray(row, "<f8").tobytes()
        encoded.append(msgspec.structs.replace(late, label=label, row=row))
    return snapshot.encode(msgspec.to_builtins(_Labels(encoded), builtin_types=(bytes,)), {})


def read_labels(data: bytes) -> list[LateLabel]:
    """Decode :func:`write_labels`.

    Raises
    ------
    SnapshotMismatch
        As for `read_sent`.
    """
    head, _ = snapshot.of_kind(data, "labels", "labels", _Labels)
    for late in head.labels:
        if late.row is not None and not isinstance(late.row, dict):
            if not isinstance(late.row, bytes) or len(late.row) % 8:
                raise SnapshotMismatch("snapshot: of labels: a row")
            late.row = np.frombuffer(late.row, "<f8")
    return head.labels
