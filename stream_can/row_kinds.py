"""Kinds of rows: everything that depends on the kind is asked of one object, a `RowKind`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol

from stream_can import snapshot

__all__ = [
    "KINDS", "AnyCorrector", "RowKind", "kind_of", "kind_of_snapshot", "part", "row_kind"
]  # fmt: skip

KINDS = {
    "dense": "stream_can.dense",
    "multilabel": "stream_can.multilabel",
    "sparse": "stream_can.sparse",
}
"""Package of each kind. Its module ``kind`` has the `RowKind` as ``KIND``; ``replay`` and ``page``
are what is shown of a replay, see `stream_can.replay.shown.Shown` and
`stream_can.report.page.Page`. They are imported when first asked for."""


class AnyCorrector(Protocol):
    """A corrector of any kind."""

    row_kind: str
    """Name of its kind."""

    def to_bytes(self) -> bytes:
        """Serialise it."""


class RowKind(Protocol):
    """A kind of rows: one label for a row (dense), several (multilabel), or the likeliest of very
    many classes (sparse)."""

    name: str
    described: str
    """What the rows are called in messages."""
    snapshot_field: str
    """Field that the heads of its correctors' snapshots have and no other kind's."""

    def adapter(self, corrector: Any) -> Any:
        """The learner's adapter of a corrector, see `stream_can.learner.kinds.Kind`."""

    def restored(
        self,
        data: bytes,
        classes: int | Iterable[Hashable] | None,
        settings: Mapping[str, Any],
    ) -> Any:
        """The corrector of a snapshot."""

    def copied(self, data: bytes) -> Any:
        """The corrector of a snapshot that was made in this process, under its settings."""


def row_kind(name: str) -> RowKind:
    """The kind of this name; KeyError where there is none."""
    found: RowKind = part(name, "kind").KIND
    return found


def part(name: str, module: str) -> Any:
    """A module of a kind."""
    return import_module(f"{KINDS[name]}.{module}")


def kind_of(corrector: AnyCorrector) -> RowKind:
    """The kind of a corrector."""
    return row_kind(corrector.row_kind)


def kind_of_snapshot(data: bytes) -> RowKind:
    """The kind of a corrector's snapshot; dense where its head has no other kind's field."""
    head = snapshot.decode(data).head
    every = [row_kind(name) for name in KINDS]
    return next((one for one in reversed(every) if one.snapshot_field in head), every[0])
