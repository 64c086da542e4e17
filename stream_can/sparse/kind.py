"""Sparse rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from stream_can.errors import SnapshotMismatch
from stream_can.sparse.adapter import Sparse
from stream_can.sparse.corrector import SETTINGS, SparseCorrector

SETTINGS_OF_SERVICE = frozenset({
    "classes_from_file", "half_life", "max_classes", "memory_mb", "n_classes",
})  # fmt: skip


class SparseKind:
    """The `RowKind` of a `SparseCorrector`."""

    name = "sparse"
    described = Sparse.described
    corrector = SparseCorrector
    snapshot_field = "sparse"
    has: Mapping[str, frozenset[str]] = {
        "pipe": frozenset({"classes", *SETTINGS}),
        "replay": frozenset({"classes", "output", *SETTINGS}),
        "server": SETTINGS_OF_SERVICE,
        "topics": SETTINGS_OF_SERVICE,
        **dict.fromkeys(("river", "spark"), frozenset[str]()),
    }
    fields: Mapping[str, str] = {}
    declares_classes = False
    changes: frozenset[str] | None = frozenset({"memory_mb"})
    fills_in = False
    several_labels = False

    def new(self, classes: Any, settings: Mapping[str, Any]) -> SparseCorrector:
        """A new corrector."""
        return SparseCorrector("any" if classes is None else classes, **settings)

    def adapter(self, corrector: SparseCorrector) -> Sparse:
        """The learner's adapter."""
        return Sparse(corrector)

    def restored(
        self, data: bytes, classes: int | Iterable[Hashable] | None, settings: Mapping[str, Any]
    ) -> SparseCorrector:
        """The corrector of a snapshot; SnapshotMismatch where classes are named again."""
        if classes not in (None, "any"):
            raise SnapshotMismatch(
                "snapshot: of a SparseCorrector, which keeps its classes; leave classes out"
            )
        return SparseCorrector.from_bytes(data, **settings)

    def n_classes(self, corrector: SparseCorrector) -> int:
        """Number of classes."""
        return corrector.n_classes

    def copied(self, data: bytes) -> SparseCorrector:
        """The corrector of a snapshot that was made in this process."""
        return SparseCorrector.from_bytes(data, memory_mb=2**40)


KIND = SparseKind()
