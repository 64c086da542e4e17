"""ModelVersion: the corrector of one version of a model, with the predictions that await labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from stream_can.learner.call import Call, Explained
from stream_can.learner.kinds import Given, Id, JoinedLabel, Judged, Kind, Reason, Unscored
from stream_can.learner.model_name import Name
from stream_can.learner.recent import Recent, RecentIndex, settle, unscored
from stream_can.method.asking import LabelRequests

TOGETHER = 256
"""Number of labelled predictions scored together."""


LEAST_MB = 256


def most_bytes(max_lanes: int) -> int:
    """Bytes that the correctors of at most so many models and versions may take: a MiB each, and at
    least 256."""
    return max(max_lanes, LEAST_MB) << 20


class ModelVersion:
    """A corrector with its memory.

    Rows and labels are collected in order until :meth:`run` passes them to the corrector at once.
    """

    def __init__(
        self,
        name: Name,
        kind: Kind,
        ask: float | None,
        first: int = 0,
        last: int = 0,
        started_from: str | None = None,
    ) -> None:
        self.serial = -1
        """Serial number, assigned by the learner."""
        self.scores = True
        """Whether labelled predictions are scored."""
        self.name, self.kind = name, kind
        self.asks = None if ask is None else LabelRequests(ask, kind.random_requests)
        self.started_from = started_from
        """Version of the same model from which this one was started."""
        self.first, self.last = first, last
        """Numbers of the first row that can belong to it and of its last row."""
        self.recent = RecentIndex()
        """The predictions of all versions by their ids, assigned by the learner."""
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
        predictions = (self.recent.latest(id, self.serial) for id in self.requests)
        return [entry for entry in predictions if entry is not None]

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

    def learn(
        self, y: Any, row: bytes | None, segments: Given | None, weight: float | None
    ) -> None:
        """Add a label without a kept prediction, of a row that came with it or of none; the rows
        that were added so far come before it."""
        self.joined.append(JoinedLabel(y, None, row, segments, self.collected, weight))

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
            self._ask(self.asks, sent, call.reasons)
        if self.scores:
            self._score(labels)
        self._numbers, self._entries = [], []
        labels.clear()

    def abandon(self) -> list[Recent]:
        """Discard the run; return its predictions, which have no results."""
        unfinished = [entry for entry in self._entries if entry.at >= 0]
        for entry in unfinished:
            self.recent.forget(entry, self.requests)
        self._numbers, self._entries = [], []
        self.joined.clear()
        return unfinished

    def _ask(self, asks: LabelRequests, rows: Any, reasons: list[Reason | None]) -> None:
        """Request labels for some rows of the run; only rows with an id can be labelled."""
        entries, with_id = self._entries, []
        for i, entry in enumerate(entries):
            entry.fair = False
            if entry.id is not None:
                with_id.append(i)
        ids, scores = [entries[i].id for i in with_id], self.kind.uncertainty(rows)
        requests = asks.ask_scored(ids, [scores[i] for i in with_id])  # type: ignore[arg-type]
        for i, request in zip(with_id, requests, strict=True):
            if request is None:
                continue
            entry = entries[i]
            reasons[self._numbers[i]] = entry.asked = request.reason
            entry.fair = request.reason == "random"
            assert entry.id is not None
            if entry.known is None and self.recent.latest(entry.id, entry.lane) is entry:
                self.requests[entry.id] = request.reason

    # ---- scores

    def _score(self, labels: list[JoinedLabel]) -> None:
        """Queue labelled predictions; queues are scored at fixed lengths."""
        self.pending += unscored(labels, self.kind.rows_width, Unscored)
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
        judged = self.kind.copied(self.judged)
        if self.pending:
            self.kind.judge(judged, self.pending)
        return judged


class Learned(Protocol):
    """Anything with an effective sample size."""

    @property
    def effective_sample_size(self) -> float:
        """Decayed number of labels."""


def predecessor(name: Name, correctors: Mapping[Name, Learned]) -> Name | None:
    """Find the version from which a new one starts: the one of its model with the most recent
    labels; the newest if several are equal."""
    versions = [other for other in correctors if other[0] == name[0]]
    return max(
        reversed(versions), key=lambda name: correctors[name].effective_sample_size, default=None
    )
