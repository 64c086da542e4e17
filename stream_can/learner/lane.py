"""A model and version: its corrector, and the predictions that wait for labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from stream_can.learner.kinds import Given, Id, JoinedLabel, Judged, Kind, Reason, Recent, Unscored
from stream_can.method.asking import LabelRequests

__all__ = [
    "ONLY",
    "TOGETHER",
    "Call",
    "Lane",
    "Name",
    "Taught",
    "length_of",
    "predecessor",
    "size_of",
]

Name = tuple[str | None, str | None]
"""Model and version."""
ONLY: Name = (None, None)

OVERHEAD = 480
"""Bytes of a prediction that waits, beside its numbers, its id and its columns."""
TOGETHER = 256
"""Labelled predictions that are scored at a time."""


class Taught(NamedTuple):
    """A prediction whose label was learned."""

    label: int
    """Which of the labels of the call; -1 for one that was held."""
    name: Name
    prediction: Recent
    """With the label, in ``known``; and, in ``blob``, the row, what was sent, and the receipt."""
    time: float | None = None
    """When the label was made, in seconds, where it says so."""


class Call(NamedTuple):
    """The rows of a call of the learner, and what is made of them."""

    n: int
    rows: Any
    """As the kind of the correctors has them."""
    sent: Any
    """Room for what is sent."""
    sets: list[list[Any]] | None
    asked: list[Reason | None]
    active: dict[Lane, None]
    """The lanes that have rows or labels of the call."""
    taught: list[Taught]


class Lane:
    """A corrector and its memory.

    What goes by is gathered, in order, until :meth:`run` hands it to the corrector in one call.
    """

    def __init__(
        self,
        name: Name,
        kind: Kind,
        asks: LabelRequests | None,
        begun: int = 0,
        last: int = 0,
        after: str | None = None,
    ) -> None:
        self.serial = -1
        """Given to it by its learner."""
        self.name, self.kind, self.asks = name, kind, asks
        self.after = after
        """The version of its model that it went on from."""
        self.begun, self.last = begun, last
        """The numbers of the first row that may be its own, and of its last one."""
        self.recent: dict[Id, Recent] = {}
        self.requests: dict[Id, Reason] = {}
        """The ids whose labels are wanted, and why."""
        self.judged: Judged = kind.new_judged()
        self.pending: list[Unscored] = []
        """Labelled predictions that are not scored yet."""
        self._numbers: list[int] = []
        self._entries: list[Recent] = []
        self._labels: list[JoinedLabel] = []

    @property
    def tells(self) -> bool:
        """Whether rows at hand are run before a label of theirs: it has to be known what the row
        was asked for."""
        return self.kind.sets is not None and self.asks is not None

    # ---- what goes by

    def predict(self, number: int, entry: Recent) -> None:
        """A row of the call, by its number."""
        numbers, id = self._numbers, entry.id
        self.last, entry.at = entry.number, len(numbers)
        numbers.append(number)
        self._entries.append(entry)
        if id is not None:
            if self.requests:
                self.requests.pop(id, None)  # that of an earlier prediction
            self.recent[id] = entry

    def raw_of(self, entry: Recent, call: Call) -> bytes:
        """A kept row as it came."""
        if entry.at >= 0:
            return self.kind.raw(call.rows, self._numbers[entry.at])
        return self.kind.raw_of(entry.blob)

    def learn(
        self, y: Any, entry: Recent | None, row: bytes | None = None, given: Given | None = None
    ) -> None:
        """A label, of a kept prediction, of a row that it brings, or of none."""
        if entry is not None and entry.id is not None and self.recent.get(entry.id) is entry:
            self.requests.pop(entry.id, None)
        self._labels.append(JoinedLabel(y, entry, row, given, len(self._numbers)))

    def run(self, call: Call) -> None:
        """Correct the rows and learn the labels that went by since the last call, in order."""
        numbers, labels = self._numbers, self._labels
        if not numbers and not labels:
            return
        whole = len(numbers) == call.n
        if not numbers:  # those of the call may be of other classes
            rows = self.kind.rows(0, None, None)
        else:
            rows = call.rows if whole else self.kind.cut(call.rows, numbers)
        sent, blobs, sets = self.kind.run(rows, labels)
        for entry, blob in zip(self._entries, blobs, strict=True):
            entry.blob, entry.at = blob, -1
        if numbers:
            self.kind.put(call.sent, None if whole else numbers, sent)
        if call.sets is not None and sets is not None:
            for number, names in zip(numbers, sets, strict=True):
                call.sets[number] = names
        if self.asks is not None:
            self._ask(self.asks, sent, call.asked)
        for one in labels:
            if one.entry is not None and one.entry.fair:
                self._score(one.entry, one)
        self._numbers, self._entries, self._labels = [], [], []

    def abandon(self) -> list[Recent]:
        """Leave the run; its predictions, of which nothing was made."""
        left = [entry for entry in self._entries if entry.at >= 0]
        for entry in left:
            self.forget(entry)
        self._numbers, self._entries, self._labels = [], [], []
        return left

    def forget(self, entry: Recent) -> None:
        """Let no label find a prediction any more."""
        id = entry.id
        if id is not None and self.recent.get(id) is entry:
            del self.recent[id]
            if self.requests:
                self.requests.pop(id, None)

    def _ask(self, asks: LabelRequests, rows: Any, asked: list[Reason | None]) -> None:
        """Ask for the labels of some rows of the run: those that a label could name."""
        entries, known = self._entries, []
        for i, entry in enumerate(entries):
            entry.fair = False
            if entry.id is not None:
                known.append(i)
        ids = [entries[i].id for i in known]
        for i, one in zip(known, asks.ask_many(ids, rows[known]), strict=True):  # type: ignore[arg-type]
            if one is None:
                continue
            entry = entries[i]
            asked[self._numbers[i]] = entry.asked = one.reason
            entry.fair = one.reason == "random"
            if entry.known is None and self.recent.get(entry.id) is entry:  # type: ignore[arg-type]
                self.requests[entry.id] = one.reason  # type: ignore[index]

    # ---- scores

    def _score(self, entry: Recent, label: JoinedLabel) -> None:
        """A labelled prediction; they are scored some at a time, always the same ones."""
        time = None if math.isnan(entry.time) else entry.time
        both = entry.scored or entry.blob[: self.kind.both]
        self.pending.append(Unscored(both, label.y, time))
        if len(self.pending) == TOGETHER:
            self.judge()

    def judge(self) -> None:
        """Score what waits for that."""
        if self.pending:
            self.kind.judge(self.judged, self.pending)
            self.pending = []

    @property
    def now(self) -> Judged:
        """A copy, with what is not scored yet."""
        found = self.kind.copied(self.judged)
        if self.pending:
            self.kind.judge(found, self.pending)
        return found


class Learned(Protocol):
    """Anything that says how much it has learned."""

    @property
    def effective_sample_size(self) -> float:
        """The decayed number of labels."""


def predecessor(name: Name, correctors: Mapping[Name, Learned]) -> Name | None:
    """Find the version that a new one goes on from: that of its model with most labels of late,
    of several alike the newest."""
    found = [other for other in correctors if other[0] == name[0]]
    return max(reversed(found), key=lambda one: correctors[one].effective_sample_size, default=None)


def size_of(id: Id, numbers: int, given: Given | None) -> int:
    """Bytes of a prediction whose row and receipt have so many, as ``recent_mb`` counts."""
    much = OVERHEAD + numbers + (len(id) if type(id) is bytes else length_of(id))
    for text in given or ():
        much += 0 if text is None else len(text)
    return much


def length_of(id: Id) -> int:
    """The bytes of an id."""
    if isinstance(id, int):
        return 8
    return len(id) if isinstance(id, bytes) or id.isascii() else len(id.encode())
