"""Kinds of rows: everything that depends on the kind is asked of one object, a `RowKind`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch

KINDS = {
    "dense": "stream_can.dense",
    "multilabel": "stream_can.multilabel",
    "sparse": "stream_can.sparse",
}
"""Package of each kind. Its module ``kind`` has the `RowKind` as ``KIND``. The other modules are
imported where they are needed: ``messages`` reads and writes its messages
(`stream_can.messages.messages.Messages`), ``start`` makes initial correctors
(`stream_can.app.start.Start`), ``outcomes`` scores what learners were taught, ``about`` describes a
corrector, ``replay`` and ``page`` show a replay (`stream_can.replay.shown.Shown`,
`stream_can.report.page.Page`), ``spark`` corrects a column
(`stream_can.spark.fixed.FixedRows`)."""

OTHER_SNAPSHOTS = {
    "pipe": "a pipe; read it with stream-can pipe --state",
    "learner": "a Learner; read it with Learner.from_bytes",
}
"""Whose snapshots have such a field, besides correctors'; that of a pipe has both."""
IN_WORDS = {
    "pipe": "a pipe", "replay": "a replay", "server": "a server", "topics": "topics",
    "river": "river", "sklearn": "scikit-learn", "spark": "Spark",
}  # fmt: skip


_T = TypeVar("_T")


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
    corrector: type[Any]
    """Class of its correctors."""
    snapshot_field: str
    """Field that the heads of its correctors' snapshots have and no other kind's."""
    has: Mapping[str, frozenset[str]]
    """Of the settings and options that not all kinds have, those that such rows have: in a "pipe",
    a "replay", a "server", and between "topics"; behind a classifier of "river" or "sklearn"; in
    a DataFrame of "spark". A place that is missing does not play them."""
    fields: Mapping[str, str]
    """Fields of messages that have another name by default."""
    declares_classes: bool
    """Whether the classes are declared, or numbered as they appear."""
    changes: frozenset[str] | None
    """Settings that may differ from those of a pipe's state; None: all."""
    fills_in: bool
    """Whether a row may lack classes, which the training prior fills in."""
    several_labels: bool
    """Whether a row may have several labels."""

    def new(self, classes: Any, settings: Mapping[str, Any]) -> Any:
        """A new corrector."""

    def adapter(self, corrector: Any) -> Any:
        """The learner's adapter of a corrector, see `stream_can.learner.kinds.Kind`."""

    def restored(
        self,
        data: bytes,
        classes: int | Iterable[Hashable] | None,
        settings: Mapping[str, Any],
    ) -> Any:
        """The corrector of a snapshot."""

    def n_classes(self, corrector: Any) -> int:
        """Number of classes."""

    def copied(self, data: bytes) -> Any:
        """The corrector of a snapshot that was made in this process, under its settings."""


def row_kind(name: str) -> RowKind:
    """The kind of this name; ValueError where there is none."""
    if name not in KINDS:
        raise ValueError(f"rows: {name!r}, expected {', '.join(KINDS)}")
    kind: RowKind = part(name, "kind").KIND
    return kind


def refuse_few_classes(
    kind: RowKind, names: Any, *, name: str = "classes", ways: str = "cat,dog,eel"
) -> None:
    """Raise ValueError for fewer class names than such rows have: two, or one label of several.

    Parameters
    ----------
    names
        The names that were given; None, or where classes are not declared anything, passes.
    name
        The setting.
    ways
        How to write it.
    """
    least = 1 if kind.several_labels else 2
    if kind.declares_classes and names is not None and len(names) < least:
        count = f"only {names[0]!r}" if names else "no name"
        raise ValueError(f"{name}: {count}; name at least {least}: {ways}")


def refuse_others(
    kind: RowKind,
    place: str,
    settings: Mapping[str, Any],
    written: Callable[[str], str] = str,
) -> None:
    """Raise ValueError for a setting or option that such rows do not have.

    Parameters
    ----------
    place
        Where they are played, see `RowKind.has`.
    settings
        Settings and options by name; None, False, and an empty table or list are not given. Names
        that no kind has are passed over.
    written
        How an option is written.
    """
    if place not in kind.has:
        expected = ", ".join(name for name in KINDS if place in row_kind(name).has)
        raise ValueError(
            f"{written('rows')}: {kind.described} are not played in {IN_WORDS[place]}; expected"
            f" {expected}"
        )
    settings_by_place = [row_kind(name).has for name in KINDS]
    known = frozenset().union(
        *(by_place[place] for by_place in settings_by_place if place in by_place)
    )
    for name in sorted(known & settings.keys() - kind.has[place]):
        value = settings[name]
        if not (
            value is None or value is False or (isinstance(value, Mapping | list) and not value)
        ):
            raise ValueError(f"{written(name)}: not of {kind.described}; leave it out")


def part(name: str, module: str) -> Any:
    """A module of a kind."""
    return import_module(f"{KINDS[name]}.{module}")


def kind_of(corrector: AnyCorrector) -> RowKind:
    """The kind of a corrector; TypeError where it is none."""
    name = getattr(corrector, "row_kind", None)
    if name is None:
        raise TypeError(f"corrector: expected a corrector, got {type(corrector).__name__}")
    return row_kind(name)


def kind_of_snapshot(data: bytes) -> RowKind:
    """The kind of a corrector's snapshot; SnapshotMismatch where it is another's."""
    field, owner = _owner(snapshot.decode(data).head)
    for name in KINDS:
        if row_kind(name).snapshot_field == field:
            return row_kind(name)
    raise SnapshotMismatch(f"snapshot: of {owner}")


def read_snapshot(data: bytes, field: str, head: type[_T]) -> tuple[_T, dict[str, NDArray[Any]]]:
    """Decode a snapshot of a corrector or learner, whose head has a certain field.

    Raises
    ------
    SnapshotMismatch
        The bytes are damaged, of another format, or another's; the message names whose they are,
        and what reads them.
    """
    content = snapshot.decode(data)
    first = next((name for name in (*OTHER_SNAPSHOTS, field) if name in content.head), None)
    if first != field:
        raise SnapshotMismatch(f"snapshot: of {_owner(content.head)[1]}")
    return snapshot.typed(content.head, head, field), content.arrays


def _owner(head: Mapping[str, Any]) -> tuple[str, str]:
    """The field by which a head is known; whose snapshots have it, and what reads them."""
    owners = dict(OTHER_SNAPSHOTS)
    for kind in map(row_kind, reversed(KINDS)):
        name = kind.corrector.__name__
        owners[kind.snapshot_field] = f"a {name} ({kind.described}); read it with {name}.from_bytes"
    matches = ((field, owner) for field, owner in owners.items() if field in head)
    return next(matches, ("", "no corrector and no learner"))
