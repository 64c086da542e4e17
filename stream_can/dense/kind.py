"""Dense rows: a probability for each class, and one label."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from stream_can.corrector import Corrector
from stream_can.dense.adapter import Dense
from stream_can.method.settings import PROMISE, SETTINGS

OPTIONS = frozenset({
    "against", "classes", "classes_from_file", "costs", "format avro", "format json-schema",
    "format protobuf", "logits", "model", "models", "normalise always", "output", "train_counts",
    "try_label_noise", "try_segments", "validation", "version", "weight",
})  # fmt: skip
"""What not all kinds of rows have, besides settings of the corrector."""


class DenseKind:
    """The `RowKind` of a `Corrector`."""

    name = "dense"
    described = Dense.described
    corrector = Corrector
    snapshot_field = "paths"
    has: Mapping[str, frozenset[str]] = {
        **dict.fromkeys(("pipe", "replay", "server", "topics"), OPTIONS.union(SETTINGS)),
        "river": frozenset(SETTINGS),
        "sklearn": frozenset(SETTINGS),
        "spark": frozenset({"receipt", "segments", *PROMISE}),
    }
    fields: Mapping[str, str] = {}
    declares_classes = True
    changes: frozenset[str] | None = None
    fills_in = True
    several_labels = False

    def new(self, classes: Any, settings: Mapping[str, Any]) -> Corrector:
        """A new corrector."""
        return Corrector(classes, **settings)

    def adapter(self, corrector: Corrector) -> Dense:
        """The learner's adapter."""
        return Dense(corrector)

    def restored(
        self, data: bytes, classes: int | Iterable[Hashable] | None, settings: Mapping[str, Any]
    ) -> Corrector:
        """The corrector of a snapshot."""
        return Corrector.from_bytes(data, classes, **settings)

    def n_classes(self, corrector: Corrector) -> int:
        """Number of classes."""
        return len(corrector.classes)

    def copied(self, data: bytes) -> Corrector:
        """The corrector of a snapshot that was made in this process."""
        return Corrector.from_bytes(data)


KIND = DenseKind()
