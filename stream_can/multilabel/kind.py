"""Rows of several labels, each with a score of its own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from stream_can.multilabel.adapter import Several
from stream_can.multilabel.corrector import MultiLabelCorrector

__all__ = ["KIND", "MultiLabelKind"]


class MultiLabelKind:
    """The `RowKind` of a `MultiLabelCorrector`."""

    name = "multilabel"
    described = "rows of several labels"
    snapshot_field = "multilabel"

    def adapter(self, corrector: MultiLabelCorrector) -> Several:
        """The learner's adapter."""
        return Several(corrector)

    def restored(
        self, data: bytes, classes: int | Iterable[Hashable] | None, settings: Mapping[str, Any]
    ) -> MultiLabelCorrector:
        """The corrector of a snapshot."""
        return MultiLabelCorrector.from_bytes(data, classes, **settings)

    def copied(self, data: bytes) -> MultiLabelCorrector:
        """The corrector of a snapshot that was made in this process."""
        return MultiLabelCorrector.from_bytes(data)


KIND = MultiLabelKind()
