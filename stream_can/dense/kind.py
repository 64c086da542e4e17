"""Dense rows: a probability for each class, and one label."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from stream_can.corrector import Corrector
from stream_can.dense.adapter import Dense

__all__ = ["KIND", "DenseKind"]


class DenseKind:
    """The `RowKind` of a `Corrector`."""

    name = "dense"
    described = "rows of one label"
    snapshot_field = "paths"

    def adapter(self, corrector: Corrector) -> Dense:
        """The learner's adapter."""
        return Dense(corrector)

    def restored(
        self, data: bytes, classes: int | Iterable[Hashable] | None, settings: Mapping[str, Any]
    ) -> Corrector:
        """The corrector of a snapshot."""
        return Corrector.from_bytes(data, classes, **settings)

    def copied(self, data: bytes) -> Corrector:
        """The corrector of a snapshot that was made in this process."""
        return Corrector.from_bytes(data)


KIND = DenseKind()
