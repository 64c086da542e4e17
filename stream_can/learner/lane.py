"""What learns of one model and version: a corrector, and the predictions that wait for labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector
from stream_can.method.asking import LabelRequests
from stream_can.method.promise import names_in_sets
from stream_can.method.receipts import NOT_FAIR, OF_ROW, gave_all, none_known, size
from stream_can.method.segments import Texts
from stream_can.scores import Scores
from stream_can.trust.alarm import Alarm

__all__ = ["ONLY", "Id", "Judged", "Lane", "Name", "Reason", "Recent", "size_of", "width_of"]

Array = NDArray[np.float64]
Id = str | int | bytes
Name = tuple[str | None, str | None]
"""Model and version."""
ONLY: Name = (None, None)
Reason = Literal["random", "margin"]
"""Why a label is wanted."""
Given = tuple[str | None, ...]
"""What a row gives of each declared column."""

OVERHEAD = 480
"""Bytes of a prediction that waits, beside its numbers, its id and its columns."""
TOGETHER = 256
"""Labelled predictions that are scored at a time."""


class Recent(msgspec.Struct, gc=False):
    """A prediction that waits for its label, or has had it."""

    id: Id | None
    number: int
    size: int
    columns: Given | None
    at: int = -1
    """Which row of the run at hand it is."""
    blob: bytes = b""
    """The row, what was sent, and the receipt, one behind the other; nothing in the run."""
    fair: bool = True
    """Whether its label was not asked for because of what is in the row."""
    labelled: bool = False


class Judged(NamedTuple):
    """What became of labelled predictions."""

    raw: Scores
    """As they came."""
    sent: Scores
    """As they were sent."""
    alarm: Alarm
    """Whether the classifier became worse."""

    def add(self, P: Array, sent: Array, y: NDArray[np.int64]) -> None:
        """More of them."""
        self.raw.add_checked(P, y)
        self.sent.add_checked(sent, y)
        self.alarm.learn_checked(P, sent, y)


class Label(msgspec.Struct, gc=False):
    """A label of the run at hand."""

    y: int
    entry: Recent | None
    """Its prediction, where that is kept."""
    row: bytes | None
    """The row that it brings, where that is not the one kept."""
    given: Given | None
    """What it brings of the columns with it."""
    due: int


class Rows(NamedTuple):
    """The rows of a call of the learner, and what is made of them."""

    raw: Array
    """As they came, shape (n, m)."""
    texts: Texts | None
    """What they give of the declared columns."""
    sent: Array
    """As they are sent, shape (n, m)."""
    sets: list[list[Any]] | None
    asked: list[Reason | None]
    active: dict[Lane, None]
    """The lanes that have rows or labels of the call."""


class Lane:
    """A corrector and its memory.

    What goes by is gathered, in order, until :meth:`run` hands it to the corrector in one call.
    """

    def __init__(self, name: Name, corrector: Corrector, asks: LabelRequests | None) -> None:
        self.name, self.corrector, self.asks = name, corrector, asks
        self.width = width_of(corrector)
        """Bytes of a kept prediction's row, of what was sent, and of the receipt."""
        self.recent: dict[Id, Recent] = {}
        self.requests: dict[Id, Reason] = {}
        """The ids whose labels are wanted, and why."""
        self.judged = Judged(Scores(), Scores(), Alarm())
        self.pending: list[tuple[bytes, int]] = []
        """Rows as they came and as they were sent, and their labels, that are not scored yet."""
        self._numbers: list[int] = []
        self._entries: list[Recent] = []
        self._labels: list[Label] = []

    @property
    def tells(self) -> bool:
        """Whether a label has to wait until it is known what its row was asked for: then rows at
        hand are run first."""
        return self.asks is not None and self.corrector.sets is not None

    # ---- what goes by

    def predict(self, number: int, entry: Recent) -> None:
        """A row of the call, by its number."""
        entry.at = len(self._numbers)
        self._numbers.append(number)
        self._entries.append(entry)
        if entry.id is not None:
            self.recent[entry.id] = entry

    def raw_of(self, entry: Recent, call: Rows) -> bytes:
        """A kept row as it came."""
        if entry.at >= 0:
            row: Array = call.raw[self._numbers[entry.at]]
            return row.tobytes()
        return entry.blob[: 8 * len(self.corrector.classes)]

    def learn(
        self, y: int, entry: Recent | None, row: bytes | None = None, given: Given | None = None
    ) -> None:
        """A label, of a kept prediction, of a row that it brings, or of none."""
        if entry is not None:
            entry.labelled = True
            if entry.id is not None and self.recent.get(entry.id) is entry:
                self.requests.pop(entry.id, None)
        self._labels.append(Label(y, entry, row, given, len(self._numbers)))

    def run(self, call: Rows) -> None:
        """Correct the rows and learn the labels that went by since the last call, in order."""
        numbers, labels = self._numbers, self._labels
        if not numbers and not labels:
            return
        whole = len(numbers) == len(call.raw)
        raw = call.raw if whole else call.raw[numbers]
        columns = self.corrector.segments
        texts = None
        if columns and call.texts is not None:
            texts = call.texts if whole else _cut(call.texts, numbers)
        if labels:
            alone = len(labels) == 1 and not numbers
            rows, receipts = self._learn_one(raw) if alone else self._play(raw, texts)
        else:
            given = _named(columns, texts)
            rows, receipts = self.corrector.process_many(raw, receipt=True, segments=given)
        for entry, blob in zip(self._entries, _blobs(raw, rows, receipts), strict=True):
            entry.blob, entry.at = blob, -1
        if whole:
            call.sent[:] = rows
        else:
            call.sent[numbers] = rows
        if call.sets is not None and numbers:
            inside = self.corrector.sets_of(rows, receipts)
            found = names_in_sets(inside, rows.astype(np.float32), self.corrector.classes)
            for number, names in zip(numbers, found, strict=True):
                call.sets[number] = names
        if self.asks is not None:
            self._ask(rows, call.asked)
        m = raw.shape[1]
        for one in labels:
            if one.entry is not None and one.entry.fair:
                self._score(one.entry.blob[: 16 * m], one.y)
        self._numbers, self._entries, self._labels = [], [], []

    def abandon(self) -> list[Recent]:
        """Leave the run; the predictions of it that would be kept without their rows."""
        left = [
            entry
            for entry in self._entries
            if entry.at >= 0 and entry.id is not None and self.recent.get(entry.id) is entry
        ]
        self._numbers, self._entries, self._labels = [], [], []
        return left

    def _learn_one(self, raw: Array) -> tuple[Array, NDArray[np.float32]]:
        """One label and no rows: the same bits, in less time."""
        (one,) = self._labels
        y, entry, row, given = one.y, one.entry, one.row, one.given
        corrector = self.corrector
        label, m = corrector.classes[y], len(corrector.classes)
        if row is not None:
            p = np.frombuffer(row)
            corrector.learn_one(p, label, segments=_values(corrector.segments, given))
        elif entry is None:
            corrector.learn_one(None, label)
        else:
            receipt = np.frombuffer(entry.blob, np.float32, offset=16 * m)
            if not entry.fair and corrector.sets is not None:
                receipt = receipt.copy()
                receipt[OF_ROW] = NOT_FAIR
            columns = _values(corrector.segments, entry.columns)
            p = np.frombuffer(entry.blob, np.float64, m)
            corrector.learn_one(p, label, receipt=receipt, segments=columns)
        return raw, np.empty((0, 0), np.float32)

    def _play(self, raw: Array, texts: Texts | None) -> tuple[Array, NDArray[np.float32]]:
        """Rows and labels through the corrector; what was sent, and receipts."""
        corrector, labels = self.corrector, self._labels
        m, rows = len(corrector.classes), corrector.n_sent
        known = none_known(len(labels), rows, sets=corrector.sets is not None)
        earlier: list[bytes] = []
        columns: list[Given | None] = []
        of, kept, receipts = [-1] * len(labels), list[int](), list[bytes]()
        unfair = list[bool]()
        for i, label in enumerate(labels):
            entry, row, given = label.entry, label.row, label.given
            if row is not None:
                of[i] = len(earlier)
                earlier.append(row)
                columns.append(given)
            elif entry is not None and entry.at >= 0:
                of[i] = -2 - entry.at  # behind the earlier rows
            elif entry is not None:
                of[i] = len(earlier)
                earlier.append(entry.blob[: 8 * m])
                columns.append(entry.columns)
                receipts.append(entry.blob[16 * m :])
                kept.append(i)
                unfair.append(not entry.fair)
        ys = np.array([one.y for one in labels], np.int64)
        at = np.array(of, np.int64)
        first = len(earlier)
        at = np.where(at < -1, first - 2 - at, at)
        if kept:
            data = np.frombuffer(b"".join(receipts), np.float32).reshape(len(kept), -1)
            given_ = gave_all(data, ys[kept], rows, sets=corrector.sets is not None)
            if self.asks is not None and corrector.sets is not None:
                given_[unfair, OF_ROW] = NOT_FAIR
            known[kept] = given_
        P = raw
        if earlier:
            P = np.concatenate([np.frombuffer(b"".join(earlier)).reshape(first, m), raw])
        segments = None
        if names := corrector.segments:
            segments = {
                name: [None if one is None else one[k] for one in columns]
                + _column(texts, k, len(raw))
                for k, name in enumerate(names)
            }
        due = np.array([one.due for one in labels], np.int64)
        played = corrector.play(
            P, ys, at, due, first=first, known=known, receipt=True, segments=segments
        )
        assert played.receipts is not None
        return played.rows, played.receipts

    def _ask(self, rows: Array, asked: list[Reason | None]) -> None:
        """Ask for the labels of some rows of the run: those that a label could name."""
        assert self.asks is not None
        entries, known = self._entries, []
        for i, entry in enumerate(entries):
            entry.fair = False
            if entry.id is not None:
                known.append(i)
        ids = [entries[i].id for i in known]
        for i, one in zip(known, self.asks.ask_many(ids, rows[known]), strict=True):  # type: ignore[arg-type]
            if one is None:
                continue
            entry = entries[i]
            asked[self._numbers[i]] = one.reason
            entry.fair = one.reason == "random"
            if not entry.labelled and self.recent.get(entry.id) is entry:  # type: ignore[arg-type]
                self.requests[entry.id] = one.reason  # type: ignore[index]

    # ---- scores

    def _score(self, both: bytes, y: int) -> None:
        """A labelled prediction; they are scored some at a time, always the same ones."""
        self.pending.append((both, y))
        if len(self.pending) == TOGETHER:
            self.judged.add(*self._split(self.pending))
            self.pending = []

    def _split(self, pending: Sequence[tuple[bytes, int]]) -> tuple[Array, Array, Any]:
        """Rows, rows as sent, and labels."""
        m = len(self.corrector.classes)
        both = np.frombuffer(b"".join(blob for blob, _ in pending)).reshape(len(pending), 2, m)
        return (
            np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1]),
            np.array([y for _, y in pending], np.int64),
        )  # fmt: skip

    @property
    def now(self) -> Judged:
        """A copy, with what is not scored yet."""
        raw, sent, alarm = self.judged
        found = Judged(raw + Scores(), sent + Scores(), Alarm.from_bytes(alarm.to_bytes()))
        if self.pending:
            found.add(*self._split(self.pending))
        return found


def predecessor(name: Name, correctors: Mapping[Name, Corrector]) -> Corrector | None:
    """What a new version goes on from: the version of its model with most labels of late, of
    several alike the newest."""
    found = [one for other, one in correctors.items() if other[0] == name[0]]
    return max(reversed(found), key=lambda one: one.effective_sample_size, default=None)


def width_of(corrector: Corrector) -> int:
    """Bytes of a row, of what was sent, and of the receipt."""
    m, sets = len(corrector.classes), corrector.sets is not None
    return 16 * m + 4 * size(m, corrector.n_sent, sets=sets)


def size_of(id: Id, numbers: int, given: Given | None) -> int:
    """What a prediction takes whose row and receipt have so many bytes, as ``recent_mb`` counts."""
    much = OVERHEAD + numbers
    if isinstance(id, int):
        much += 8
    else:
        much += len(id) if isinstance(id, bytes) or id.isascii() else len(id.encode())
    for text in given or ():
        much += 0 if text is None else len(text)
    return much


def _blobs(*arrays: NDArray[Any]) -> list[bytes]:
    """The bytes of each row of all, one behind the other."""
    if len(arrays[0]) < 2:
        return [b"".join([x.tobytes() for x in arrays])] * len(arrays[0])
    data = np.concatenate([np.ascontiguousarray(x).view(np.uint8) for x in arrays], axis=1)
    every, width = data.tobytes(), data.shape[1]
    return [every[at : at + width] for at in range(0, len(every), width)]


def _cut(texts: Texts, numbers: Sequence[int]) -> Texts:
    return [None if one is None else [one[i] for i in numbers] for one in texts]


def _column(texts: Texts | None, k: int, n: int) -> list[str | None]:
    one = None if texts is None else texts[k]
    return [None] * n if one is None else one


def _values(columns: Sequence[str], given: Given | None) -> dict[str, str | None] | None:
    return None if given is None else dict(zip(columns, given, strict=True))


def _named(columns: Sequence[str], texts: Texts | None) -> Mapping[str, Any] | None:
    """As a corrector takes them."""
    if texts is None:
        return None
    return {n: texts_ for n, texts_ in zip(columns, texts, strict=True) if texts_ is not None}
