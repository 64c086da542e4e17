"""Rows of the likeliest of very many classes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from stream_can.errors import SnapshotMismatch
from stream_can.sparse.adapter import Sparse
from stream_can.sparse.corrector import SparseCorrector

__all__ = ["KIND", "SparseKind", "classes_of"]


def classes_of(text: str | None) -> Any:
    """Classes of such rows by the text of an option: "any", or their number."""
    return "any" if text is None else int(text) if text.isdigit() else text


class SparseKind:
    """The `RowKind` of a `SparseCorrector`."""

    name = "sparse"
    described = "rows of very many classes"
    snapshot_field = "sparse"

    def adapter(self, corrector: SparseCorrector) -> Sparse:
        """The learner's adapter."""
        return Sparse(corrector)

    def restored(
        self, data: bytes, classes: int | Iterable[Hashable] | None, settings: Mapping[str, Any]
    ) -> SparseCorrector:
        """The corrector of a snapshot; SnapshotMismatch where classes are named again."""
        if classes not in (None, "any"):
            raise SnapshotMismatch("snapshot: of very many classes, which are not named again")
        return SparseCorrector.from_bytes(data, **settings)

    def copied(self, data: bytes) -> SparseCorrector:
        """The corrector of a snapshot that was made in this process."""
        return SparseCorrector.from_bytes(data, memory_mb=2**40)


KIND = SparseKind()
