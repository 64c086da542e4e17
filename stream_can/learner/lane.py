"""Lane: the corrector of one model and version, with the predictions that await labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.learner.kinds import Given, Id, JoinedLabel, Judged, Kind, Reason, Unscored
from stream_can.learner.recent import Recent, RecentIndex, settle, unscored
from stream_can.method.asking import LabelRequests
from stream_can.method.receipts import TAIL

__all__ = [
    "ONLY",
    "TOGETHER",
    "Call",
    "Explained",
    "Lane",
    "Name",
    "Taught",
    "most_bytes",
    "predecessor",
    "rows_of",
]

Name = tuple[str | None, str | None]
"""Model and version."""
ONLY: Name = (None, None)

TOGETHER = 256
"""Number of labelled predictions scored together."""


LEAST_MB = 256


def most_bytes(max_lanes: int) -> int:
    """Bytes that the correctors of at most so many models and versions may take: a MiB each, and at
    least 256."""
    return max(max_lanes, LEAST_MB) << 20


class Taught(msgspec.Struct, gc=False):
    """A prediction whose label was learned."""

    label: int
    """Index of the label within the call; -1 for a held label."""
    name: Name
    prediction: Recent
    """The prediction: its label in ``known``; row, sent row and receipt in ``blob``."""
    time: float | None = None
    """Time of the label in seconds, where given."""
    n: int = 1
    """Number of labels: several that were held for it are learned as one."""


def rows_of(
    taught: Sequence[Taught], m: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float32]]:
    """Rows and sent rows of predictions of m declared classes, shape (n, m), and the ends of their
    receipts."""
    blobs = b"".join([one.prediction.blob for one in taught])
    data = np.frombuffer(blobs, "<f4").reshape(len(taught), -1)
    both = np.ascontiguousarray(data[:, : 4 * m]).view(np.float64)
    return both[:, :m], both[:, m:], data[:, -TAIL:]


class Explained(NamedTuple):
    """What explains some rows of a call."""

    rows: Any
    """Indices of the rows; None for all of the call."""
    found: Any
    """In the adapter's terms."""


class Call(NamedTuple):
    """Rows of one call of the learner, and their results."""

    n: int
    rows: Any
    """Rows in the adapter's type."""
    sent: Any
    """Output, written by the lanes."""
    sets: list[list[Any]] | None
    asked: list[Reason | None]
    active: dict[Lane, None]
    """Lanes with rows or labels in this call."""
    taught: list[Taught]
    explain: Any
    explained: list[Explained]


class Lane:
    """A corrector with its memory.

    Rows and labels are collected in order until :meth:`run` passes them to the corrector at once.
    """

    def __init__(
        self,
        name: Name,
        kind: Kind,
        ask: float | None,
        begun: int = 0,
        last: int = 0,
        after: str | None = None,
    ) -> None:
        self.serial = -1
        """Serial number, assigned by the learner."""
        self.scores = True
        """Whether labelled predictions are scored."""
        self.name, self.kind = name, kind
        self.asks = None if ask is None else LabelRequests(ask, kind.random_requests)
        self.after = after
        """Version of the same model from which this one was started."""
        self.begun, self.last = begun, last
        """Numbers of the first row that can belong to it and of its last row."""
        self.recent = RecentIndex()
        """The predictions of all lanes by their ids, assigned by the learner."""
        self.requests: dict[Id, Reason] = {}
        """Ids with open label requests, and the reasons."""
        self.judged: Judged = kind.new_judged()
        self.pending: list[Unscored] = []
        """Labelled predictions that have not been scored yet."""
        self._numbers: list[int] = []
        self._entries: list[Recent] = []
        self.joined: list[JoinedLabel] = []
        """Labels of the run."""

    @property
    def tells(self) -> bool:
        """Whether collected rows must run before a label of theirs: a request is decided in the
        run."""
        return self.kind.sets is not None and self.asks is not None

    @property
    def requested(self) -> list[Recent]:
        """The predictions whose labels are requested."""
        kept = (self.recent.latest(id, self.serial) for id in self.requests)
        return [entry for entry in kept if entry is not None]

    # ---- collect

    @property
    def collected(self) -> int:
        """Number of rows of the call that were added."""
        return len(self._numbers)

    def predict(self, numbers: range, entries: list[Recent]) -> None:
        """Add rows of the call, given their numbers."""
        self.last = entries[-1].number
        self._numbers += numbers
        self._entries += entries
        self.recent.keep(entries, self.requests)

    def raw_of(self, entry: Recent, call: Call) -> bytes:
        """Return a kept row, uncorrected."""
        if entry.at >= 0:
            return self.kind.raw(call.rows, self._numbers[entry.at])
        return self.kind.raw_of(entry.blob)

    def learn(self, y: Any, row: bytes | None, given: Given | None) -> None:
        """Add a label without a kept prediction, of a row that came with it or of none; the rows
        that were added so far come before it."""
        self.joined.append(JoinedLabel(y, None, row, given, self.collected))

    def run(self, call: Call) -> None:
        """Correct the collected rows and learn the collected labels, in order."""
        numbers, labels = self._numbers, self.joined
        if not numbers and not labels:
            return
        whole = len(numbers) == call.n
        if not numbers:  # the rows of the call may have other classes
            rows = self.kind.rows(0, None, None)
        else:
            rows = call.rows if whole else self.kind.cut(call.rows, numbers)
        explain = call.explain
        if not whole and isinstance(explain, list):
            explain = [explain[i] for i in numbers]
        sent, blobs, sets, explained = self.kind.run(rows, labels, explain)
        if explained is not None:
            call.explained.append(Explained(None if whole else numbers, explained))
        settle(self._entries, blobs)
        if numbers:
            self.kind.put(call.sent, None if whole else numbers, sent)
        if call.sets is not None and sets is not None:
            for number, names in zip(numbers, sets, strict=True):
                call.sets[number] = names
        if self.asks is not None:
            self._ask(self.asks, sent, call.asked)
        if self.scores:
            self._score(labels)
        self._numbers, self._entries = [], []
        labels.clear()

    def abandon(self) -> list[Recent]:
        """Discard the run; return its predictions, which have no results."""
        left = [entry for entry in self._entries if entry.at >= 0]
        for entry in left:
            self.recent.forget(entry, self.requests)
        self._numbers, self._entries = [], []
        self.joined.clear()
        return left

    def _ask(self, asks: LabelRequests, rows: Any, asked: list[Reason | None]) -> None:
        """Request labels for some rows of the run; only rows with an id can be labelled."""
        entries, known = self._entries, []
        for i, entry in enumerate(entries):
            entry.fair = False
            if entry.id is not None:
                known.append(i)
        ids, scores = [entries[i].id for i in known], self.kind.uncertainty(rows)
        said = asks.ask_scored(ids, [scores[i] for i in known])  # type: ignore[arg-type]
        for i, one in zip(known, said, strict=True):
            if one is None:
                continue
            entry = entries[i]
            asked[self._numbers[i]] = entry.asked = one.reason
            entry.fair = one.reason == "random"
            assert entry.id is not None
            if entry.known is None and self.recent.latest(entry.id, entry.lane) is entry:
                self.requests[entry.id] = one.reason

    # ---- scores

    def _score(self, labels: list[JoinedLabel]) -> None:
        """Queue labelled predictions; queues are scored at fixed lengths."""
        self.pending += unscored(labels, self.kind.both, Unscored)
        while len(self.pending) >= TOGETHER:
            together, self.pending = self.pending[:TOGETHER], self.pending[TOGETHER:]
            self.kind.judge(self.judged, together)

    def judge(self) -> None:
        """Score the queued predictions."""
        if self.pending:
            self.kind.judge(self.judged, self.pending)
            self.pending = []

    @property
    def now(self) -> Judged:
        """A copy of scores and alarm that includes the queue."""
        found = self.kind.copied(self.judged)
        if self.pending:
            self.kind.judge(found, self.pending)
        return found


class Learned(Protocol):
    """Anything with an effective sample size."""

    @property
    def effective_sample_size(self) -> float:
        """Decayed number of labels."""


def predecessor(name: Name, correctors: Mapping[Name, Learned]) -> Name | None:
    """Find the version from which a new one starts: the one of its model with the most recent
    labels; the newest if several are equal."""
    found = [other for other in correctors if other[0] == name[0]]
    return max(reversed(found), key=lambda one: correctors[one].effective_sample_size, default=None)
