"""An entry of the learned log: what one transaction has to teach everybody.

Processes that learn together fold the same entries in the same order, so that each has the same
corrector. All that the fold uses stands in the log: rows, labels, what was sent, even the corrector
to start from and the settings; nothing comes from a process' own files.

An entry is a map of named parts in MessagePack, with the numbers of arrays as little-endian bytes.
Each entry names its application (``app``), and a later release may add parts: whoever does not know
one ignores it, unless the entry says that it ``needs`` it. Who does not know what is needed stops:
another one would have folded something else.

Where columns are declared, an entry also has what the predictions of its labels gave of them: each
text once, and for each label and column four bytes that say which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.messages.columns import Given, Table, length
from stream_can.messages.naming import LaneName
from stream_can.method import receipts
from stream_can.method import sums as decayed
from stream_can.method.checks import checked
from stream_can.stream.identity import Identity
from stream_can.stream.sets import LogSets, Opened, Told, learn, opened_sets, packed_sets
from stream_can.trust.sets import Belief, PredictionSets
from stream_can.version import __version__

__all__ = [
    "BadEntry",
    "FleetTerms",
    "LaneMark",
    "LogEntry",
    "LogPart",
    "NewerEntry",
    "OpenPart",
    "entries",
    "fold",
    "keep",
    "read",
    "settings",
    "start",
]

VERSION = 2
LIMIT = 256 << 10
"""Bytes of labels at which an entry is full: at most twice as many are in it."""
LABEL_BYTES, COLUMN_BYTES = 40, 12
"""Of a label, besides its row; and for each column, besides its text."""

Array = NDArray[np.float64]
Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class BadEntry(StreamCANError, ValueError):
    """A record of the learned log is no entry, or does not fit what was learned."""


class NewerEntry(StreamCANError):
    """An entry of a release that is newer than this one: without it nothing behind it is right."""


class LogPart(msgspec.Struct, array_like=True, frozen=True):
    """What one partition adds: its labels in the order they were taken."""

    partition: Position
    inputs: tuple[Position, Position]
    """The input offset it goes on from and the next; equal while more of its labels follow."""
    labels: tuple[Position, Position]
    """The same of the labels topic."""
    offsets: bytes = b""
    """Of each label, int64."""
    taken: bytes = b""
    """The next input offset as each label was taken, int64: which predictions came before it."""
    classes: bytes = b""
    """Column of each label, int32; ~column where its prediction is gone."""
    known: bytes = b""
    """What its receipt gave each label, float32, as :mod:`stream_can.method.receipts` says what is
    *known*."""
    rows: bytes = b""
    """The predictions of the labels that have one, float32."""


class LogSegments(msgspec.Struct, array_like=True, frozen=True):
    """What the predictions of all parts gave of the columns, where any gave something."""

    texts: list[str]
    """Each text once, in the order in which they come."""
    values: bytes
    """Of each prediction and column, int32: which text, -1 where none was given."""


class LaneMark(msgspec.Struct, array_like=True, frozen=True):
    """Which lane an entry teaches, and how that begins where it has not."""

    model: str
    version: str
    begun: int = -1
    """The offset of the entry by which it began, as its writer knows it; -1: it had not."""
    time: int = 0
    """Timestamp of the first record, in milliseconds, of one that had not."""
    fresh: bytes | None = None
    """The corrector to begin with where no version of the model has its classes; without it that is
    the one that the log began with."""
    kept: bytes | None = None
    """The corrector to begin with in any case: what was learned before the log began anew."""

    @property
    def name(self) -> LaneName:
        """Model and version."""
        return LaneName(self.model, self.version)


class FleetTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What all lanes of a log have to do with each other."""

    max_lanes: Annotated[int, Meta(ge=1)]
    models: dict[str, dict[str, float | int | str | None]] = {}
    """Of a model: settings of the corrector that take the place of those of all."""


class LogEntry(msgspec.Struct, omit_defaults=True, frozen=True):
    """One record of the log."""

    version: Annotated[int, Meta(ge=1)]
    folded_to: Position = msgspec.field(default=0, name="learned")
    """The log offset up to which its writer had folded."""
    parts: list[LogPart] = []
    sums: bytes | None = None
    """Of all rows of the parts that end here, float32; see ``stream_can.method.sums``."""
    start: bytes | None = None
    """The corrector to start from; the first in a log counts."""
    reset: bool = False
    """Whether ``start`` replaces what was learned."""
    settings: dict[str, float | int | str | None] | None = None
    """Settings of the corrector from here on."""
    generation: Position | None = None
    """Of these settings, where their writer says it."""
    app: bytes | None = None
    """The mark of the application that it belongs to."""
    identity: Identity | None = None
    """Who that is: with each start."""
    by: str = ""
    """The instance that started the log, or changed settings, for people."""
    release: str = ""
    """The writer's."""
    needs: list[str] = []
    """Parts that whoever folds it must know."""
    segments: LogSegments | None = None
    lane: LaneMark | None = None
    """None where the log has no lanes."""
    fleet: FleetTerms | None = None
    """With each start and each change of settings in a log that has lanes."""
    sets: LogSets | None = None
    """Where outputs have prediction sets."""


class EntryFormat(msgspec.Struct):
    """As much of an entry as any release can read."""

    version: Annotated[int, Meta(ge=1)]
    app: bytes | None = None
    identity: dict[str, Any] | None = None
    release: str = ""
    needs: list[str] = []


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(LogEntry).decode
_read_format = msgspec.msgpack.Decoder(EntryFormat).decode
NEEDED = ("segments", "lane", "fleet", "sets")
"""Without these parts another one would fold something else."""
KNOWN = {field.encode_name for field in msgspec.structs.fields(LogEntry)}


class OpenPart:
    """What a partition adds to the next entry.

    Parameters
    ----------
    corrector
        Makes the sums.
    inputs, labels
        The next offsets of input and labels, where it begins.
    """

    def __init__(self, corrector: Corrector, inputs: int, labels: int) -> None:
        self.corrector, self.begin = corrector, (inputs, labels)
        self.sums = corrector.new_sums()
        self.offsets: list[int] = []
        self.taken: list[int] = []
        self.classes: list[int] = []
        self.known: list[bytes] = []
        self.rows: list[bytes | None] = []
        self.given: list[Given | None] = []
        self.told: list[Told | None] = []
        """Of each label what is known of its prediction's set."""
        self.belief = Belief()
        """Of the rows, where they have sets."""
        self.miss = 0.0
        """The share that these are to miss."""
        self.longest = 0
        """Characters of the values of a label, at most."""

    def add(
        self,
        offset: int,
        taken: int,
        y: int,
        known: bytes,
        row: bytes | None,
        given: Given | None = None,
    ) -> None:
        """A label: where it lies, which prediction comes next as it does, its class, the float32
        that its receipt gave it, its row, and what this gave of columns."""
        if given is not None:
            self.longest = max(self.longest, length(given))
        self.given.append(given)
        self.told.append(None)
        self.offsets.append(offset)
        self.taken.append(taken)
        self.classes.append(y)
        self.known.append(known)
        self.rows.append(row)

    @property
    def teaches(self) -> bool:
        """Whether there is a label, or a row that counts in the sums."""
        return bool(self.offsets) or bool(decayed.rows(self.sums))

    def pieces(
        self, partition: int, end: tuple[int, int], most: int
    ) -> list[tuple[LogPart, list[Given | None], list[Told | None]]]:
        """The parts of entries that it makes, each with so many labels at most, what the rows in
        them gave of columns, and what is known of sets."""
        (first, label), (next_, next_label) = self.begin, end
        parts = []
        for start in range(0, max(1, len(self.rows)), most):
            cut = slice(start, start + most)
            last = start + most >= len(self.rows)
            rows = self.rows[cut]
            part = LogPart(
                partition,
                (first, next_ if last else first),
                (label, next_label if last else label),
                np.array(self.offsets[cut], "<i8").tobytes(),
                np.array(self.taken[cut], "<i8").tobytes(),
                np.array(
                    [
                        ~y if row is None else y
                        for y, row in zip(self.classes[cut], rows, strict=True)
                    ],
                    "<i4",
                ).tobytes(),
                b"".join(self.known[cut]),
                np.frombuffer(b"".join(filter(None, rows))).astype("<f4").tobytes(),
            )
            each = zip(self.given[cut], rows, strict=True)
            gave = [given for given, row in each if row is not None]
            parts.append((part, gave, self.told[cut]))
        return parts


class _Open(NamedTuple):
    """An entry that is being filled."""

    parts: list[LogPart]
    sums: Array
    given: list[Given | None]
    told: list[Told | None]
    belief: Belief


def entries(
    corrector: Corrector,
    folded_to: int,
    opened: Sequence[tuple[int, OpenPart, tuple[int, int]]],
    limit: int = LIMIT,
    app: bytes | None = None,
    *,
    lane: LaneMark | None = None,
) -> list[bytes]:
    """The entries of a transaction, of one lane where there are several.

    Parameters
    ----------
    corrector, folded_to
        What the rows were corrected with, and the offset up to which it has folded the log.
    opened
        Partition, what it adds, and its next offsets of input and labels; by partition.
    limit
        Bytes of an entry's labels, about: it is full once it has as many.
    app
        The mark of the log's identity, where it has one.
    lane
        Which lane it is.
    """
    m, columns, size = len(corrector.classes), len(corrector.segments), limit
    miss = max((part.miss for _, part, _ in opened), default=0.0)
    packed: list[_Open] = []
    for partition, part, end in opened:
        label = 4 * m + LABEL_BYTES + COLUMN_BYTES * columns + 4 * part.longest
        for piece, given, told in part.pieces(partition, end, max(1, limit // label)):
            if size >= limit:
                packed.append(_Open([], corrector.new_sums(), [], [], Belief()))
                size = 0
            packed[-1].parts.append(piece)
            packed[-1].given.extend(given)
            packed[-1].told.extend(told)
            size += len(piece.rows) + LABEL_BYTES * (1 + len(piece.classes) // 4)
            if columns:
                size += sum([COLUMN_BYTES * columns + 4 * length(one) for one in given])
        corrector.merge_sums(packed[-1].sums, part.sums)
        if part.belief.rows:
            packed[-1].belief.merge(part.belief)
    found = []
    for parts, sums, given, told, belief in packed:
        segments = _numbered(given, columns) if columns else None
        sets = packed_sets(miss, belief, told)
        written = _write(
            app, folded_to=folded_to, parts=parts, sums=_packed(sums), segments=segments, lane=lane,
            sets=sets,
        )  # fmt: skip
        found.append(written)
        if lane is not None and lane.fresh is not None:
            lane = msgspec.structs.replace(lane, fresh=None)  # said once
    return found


def _numbered(rows: Sequence[Given | None], columns: int) -> LogSegments | None:
    """What rows gave, each text once; None where none gave anything."""
    number: dict[str | None, int] = {None: -1}
    none = (None,) * columns
    values = [number.setdefault(text, len(number) - 1) for given in rows for text in given or none]
    del number[None]
    return LogSegments(list(number), np.array(values, "<i4").tobytes()) if number else None  # type: ignore[arg-type]


def _packed(sums: Array) -> bytes | None:
    return sums.astype("<f4").tobytes() if decayed.rows(sums) else None


def start(
    corrector: bytes,
    *,
    reset: bool = False,
    identity: Identity | None = None,
    by: str = "",
    fleet: FleetTerms | None = None,
) -> bytes:
    """The entry that a log starts with: a corrector's snapshot, and who learns there."""
    app = None if identity is None else identity.mark
    return _write(
        app,
        needs=["segments"] if "segments" in snapshot.decode(corrector).head else [],
        start=corrector,
        reset=reset,
        identity=identity,
        by=by,
        fleet=fleet,
    )


def keep(app: bytes | None, name: LaneName, corrector: bytes) -> bytes:
    """The entry by which a lane goes on with what it had learned, in a log that begins anew."""
    return _write(app, lane=LaneMark(*name, kept=corrector))


def settings(
    changed: dict[str, Any],
    generation: int | None = None,
    *,
    app: bytes | None = None,
    by: str = "",
    fleet: FleetTerms | None = None,
) -> bytes:
    """The entry that changes settings of the corrector, or of the fleet."""
    needs = ["sets"] if "sets" in changed else []
    return _write(app, needs, settings=changed, generation=generation, by=by, fleet=fleet)


def _write(app: bytes | None, needs: Sequence[str] = (), **parts: Any) -> bytes:
    needs = [
        *needs,
        *(name for name in NEEDED if parts.get(name) is not None and name not in needs),
    ]
    return _encode(LogEntry(VERSION, app=app, release=__version__, needs=[*needs], **parts))


def read(
    data: bytes | None, app: bytes | None = None, identity: Identity | None = None
) -> LogEntry:
    """An entry from its bytes.

    Parameters
    ----------
    app, identity
        Those of the log, where they are known. An entry of another application may be of any
        release; one with which ours begins anew as another one is ours.

    Raises
    ------
    BadEntry
        They are none, or another application's.
    NewerEntry
        They need a newer release.
    """
    if data is None:
        raise BadEntry("an empty record")
    try:
        head = _read_format(data)
        if app is not None and head.app is not None and head.app != app:
            says = head.identity or {}
            if identity is None or says.get("application") != identity.application:
                whose = says.get("application", head.app.hex())
                raise BadEntry(f"an entry of another application ({whose})")
        lacking = sorted(set(head.needs) - KNOWN)
        if head.version != VERSION or lacking:
            what = f"it needs {', '.join(lacking)}" if lacking else f"format {head.version}"
            raise newer(head.release, what)
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadEntry(f"no entry: {error}") from None


def newer(release: str, what: str) -> NewerEntry:
    """That a newer release wrote an entry, and the ways out."""
    return NewerEntry(
        f"another version wrote this ({release or 'it does not say which'}): {what}, and"
        f" {__version__} reads format {VERSION} alone; upgrade stream_can here, or begin anew with"
        " --reset-state"
    )


def fold(
    corrector: Corrector | None,
    entry: LogEntry,
    sets: PredictionSets | None = None,
) -> Corrector | None:
    """The corrector once it has learned an entry: the same object, changed, where there was one.

    Parameters
    ----------
    corrector
        None before the log's start: until then nothing is learned.
    sets
        Learn too what the entry has for them.

    Raises
    ------
    BadEntry
        What the entry holds does not fit the corrector. Nothing of it was learned.
    """
    try:
        if entry.start is not None and (corrector is None or entry.reset):
            return Corrector.from_bytes(entry.start)
        if corrector is None:
            return None
        if entry.settings is not None:
            own = {name: value for name, value in entry.settings.items() if name != "sets"}
            return Corrector.from_bytes(corrector.to_bytes(), None, **own)
        sums = _sums(entry.sums, corrector.parts_of_sums, len(corrector.classes))
        labels = _labels(entry.parts, len(corrector.classes), corrector.n_sent)
        segments = _segments(entry.segments, corrector.segments, len(labels.P))
        of_sets: Opened | None = None
        if sets is not None and entry.sets is not None:
            of_sets = opened_sets(entry.sets, len(labels.ys))
    except (StreamCANError, ValueError, TypeError) as error:
        raise BadEntry(f"an entry that does not fit: {error}") from None
    if sums is not None:
        corrector.add_sums(sums)
    if len(labels.ys):
        due = np.zeros(len(labels.ys), np.int64)
        corrector.play(
            labels.P,
            labels.ys,
            labels.rows,
            due,
            first=len(labels.P),
            known=labels.known,
            segments=segments,
        )
    if sets is not None and of_sets is not None:
        learn(sets, of_sets)
    return corrector


class LabelsOfEntry(NamedTuple):
    """Labels as :meth:`Corrector.play` takes them."""

    ys: NDArray[np.int64]
    rows: NDArray[np.int64]
    P: Array
    known: NDArray[np.float32]


def _floats(data: bytes) -> Array:
    """Numbers, not yet checked: changed bytes may be a signalling NaN, of which a cast warns."""
    with np.errstate(invalid="ignore"):
        return np.frombuffer(data, "<f4").astype(np.float64)


def _sums(data: bytes | None, layout: Sequence[decayed.Part], m: int) -> Array | None:
    if data is None:
        return None
    return decayed.checked(_floats(data).reshape(len(layout), m + 1), layout, m)


def _segments(given: LogSegments | None, columns: Sequence[str], rows: int) -> Table | None:
    """What the predictions of labels gave of the columns; None where they gave nothing."""
    if given is None:
        return None
    values = np.frombuffer(given.values, "<i4").reshape(rows, len(columns))
    if not ((values >= -1) & (values < len(given.texts))).all():
        raise ValueError(f"values of columns: {values.min()} to {values.max()}")
    texts = [*given.texts, None]  # which -1 is
    return {name: [texts[i] for i in values[:, k].tolist()] for k, name in enumerate(columns)}


def _labels(parts: Sequence[LogPart], m: int, n_sent: int) -> LabelsOfEntry:
    classes = np.frombuffer(b"".join(part.classes for part in parts), "<i4").astype(np.int64)
    P = _floats(b"".join(part.rows for part in parts))
    known = receipts.joined((part.known for part in parts), "<f4", n_sent)
    with_row = classes >= 0
    ys, rows = np.where(with_row, classes, ~classes), np.where(with_row, with_row.cumsum() - 1, -1)
    if not (ys < m).all():
        raise ValueError(f"a label of class {ys.max()}")
    P = checked(P.reshape(with_row.sum(), m))
    if len(known) != len(ys):
        raise ValueError(f"{len(ys)} labels, and what receipts gave {len(known)}")
    if not receipts.sensible(known).all():
        raise ValueError("what receipts gave a label is no probability")
    return LabelsOfEntry(ys, rows, P, known)
