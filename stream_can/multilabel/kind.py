"""Multilabel rows, each with a score of its own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from stream_can.multilabel.adapter import MultiLabel
from stream_can.multilabel.corrector import MultiLabelCorrector

SETTINGS = frozenset({"half_life", "train_counts", "train_rows"})
"""Arguments of the corrector besides ``classes``."""
FORMATS = frozenset({"format avro", "format json-schema", "format protobuf"})


class MultiLabelKind:
    """The `RowKind` of a `MultiLabelCorrector`."""

    name = "multilabel"
    described = MultiLabel.described
    corrector = MultiLabelCorrector
    snapshot_field = "multilabel"
    has: Mapping[str, frozenset[str]] = {
        "pipe": SETTINGS | {"classes", "format avro", "logits", "model", "version"},
        "replay": SETTINGS | {"classes", "logits", "model", "output", "version"},
        "server": SETTINGS | {"classes", "classes_from_file", "logits", "model", "version"},
        "topics": SETTINGS
        | FORMATS
        | {"classes", "classes_from_file", "logits", "model", "version"},
        **dict.fromkeys(("river", "sklearn", "spark"), frozenset[str]()),
    }
    fields: Mapping[str, str] = {"probs": "scores", "raw": "scores_raw", "label": "labels"}
    declares_classes = True
    changes: frozenset[str] | None = None
    fills_in = False
    several_labels = True

    def new(self, classes: Any, settings: Mapping[str, Any]) -> MultiLabelCorrector:
        """A new corrector."""
        return MultiLabelCorrector(classes, **settings)

    def adapter(self, corrector: MultiLabelCorrector) -> MultiLabel:
        """The learner's adapter."""
        return MultiLabel(corrector)

    def restored(
        self, data: bytes, classes: int | Iterable[Hashable] | None, settings: Mapping[str, Any]
    ) -> MultiLabelCorrector:
        """The corrector of a snapshot."""
        return MultiLabelCorrector.from_bytes(data, classes, **settings)

    def n_classes(self, corrector: MultiLabelCorrector) -> int:
        """Number of classes."""
        return len(corrector.labels)

    def copied(self, data: bytes) -> MultiLabelCorrector:
        """The corrector of a snapshot that was made in this process."""
        return MultiLabelCorrector.from_bytes(data)


KIND = MultiLabelKind()
