"""One partition of a stream: a Corrector, the recent predictions and the positions; no I/O.

How a worker uses it::

    task = Task(corrector, labels_topic="labels")
    task = Task.from_bytes(data, labels_topic="labels")          # or: continue a snapshot
    result = task.handle(records)                                # in the order to take them
    send(result.outputs), send(result.dead_letters)              # each in its order
    store(task.to_bytes(), task.next_prediction, task.next_label)

- A record is any object with ``topic, partition, offset, timestamp, key, value, headers``: a
  :class:`Record`, or kafka-python's ConsumerRecord as it is. It is a label where its topic is
  ``labels_topic``, else a prediction. Offsets of either kind must rise; gaps are fine.
- ``result.outputs`` has one record for each prediction that was corrected or passed through (a
  tombstone), ``result.dead_letters`` one for each record that could not be read. With
  ``errors="fail"`` nothing becomes a dead letter: ``result.stopped`` is then the (record, error)
  that ended the batch; what came before it has been handled, it and what follows has not.
- ``task.next_prediction`` and ``task.next_label`` are the offsets to continue from.
- ``to_bytes()`` leaves the recent predictions out and names the first of them instead: after
  ``from_bytes``, pass the prediction records from ``task.oldest`` up to, not including,
  ``task.next_prediction`` to ``task.rebuild``, in one or more calls. ``to_bytes(recent=True)``
  holds them.
- ``task.counts`` counts since the state began (it is in the snapshot); ``task.raw_scores`` and
  ``task.sent_scores`` score, before and after, the predictions that this object sent and whose
  labels came; ``result.delays`` has each joined label's delay.

The same records in the same order give the same outputs, dead letters and bytes, cut anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import InvalidPrediction, SnapshotMismatch, StreamCANError, UnknownClass
from stream_can.method.kernel import bad_rows
from stream_can.scores import Scores
from stream_can.stream.messages import BadMessage, Fields, Label, Messages, Prediction
from stream_can.stream.recent import Recent, RecentPredictions
from stream_can.stream.records import (
    Counts,
    Output,
    Record,
    Result,
    Source,
    error_headers,
    headers_of,
    place,
)
from stream_can.version import __version__

__all__ = ["Counts", "Output", "Record", "Result", "Task"]

FORMAT = 1
"""Version of the head of a task's snapshot; the envelope around it has its own."""

VERSION_HEADER = ("stream-can-version", __version__.encode())
_CANNOT_READ = (BadMessage, UnknownClass)

Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Array = NDArray[np.float64]
Opened = Prediction | Label | StreamCANError | None
"""What a record says, or what is wrong with it; None is a tombstone."""


class Version(msgspec.Struct):
    """As much of a snapshot's head as any release can read."""

    task: Annotated[int, Meta(ge=1)]


class Head(msgspec.Struct):
    """What a snapshot of a task says beside the rows of the recent predictions."""

    corrector: bytes
    next_prediction: Position
    next_label: Position
    oldest: Position
    counts: Counts
    ids: list[bytes] | None


class Batch:
    """What some records ask of the corrector, in their order."""

    def __init__(self) -> None:
        self.predictions: list[tuple[Prediction, bytes, Output, Recent | None]] = []
        # For Corrector.play: labels, their rows, and before which prediction each is learned.
        self.ys: list[int] = []
        self.rows: list[bytes | None] = []
        self.due: list[int] = []
        self.joined: list[tuple[Recent, int]] = []
        """Labels of recent predictions, to be scored."""
        self.labelled: list[tuple[int, int]] = []
        """Predictions of this batch, by number, that had their labels with them."""

    def learn(self, y: int, row: bytes | None) -> None:
        """A label, to be learned here."""
        self.ys.append(y)
        self.rows.append(row)
        self.due.append(len(self.predictions))


class Task:
    """One partition of a stream; the module's first lines say how a worker uses it.

    Parameters
    ----------
    corrector
        The state to start from; the task owns it from now on.
    fields
        Where in the messages everything is.
    labels_topic
        The topic whose records are labels; None where there are none: then no recent predictions
        are kept and outputs have no ``stream-can-labels`` header.
    labelled
        Whether a prediction's message may carry its own label: corrected first, then learned.
    recent_bytes
        Bound of the recent predictions, each counted as 8 m + length of its id. Must not change
        while a stream runs if its outputs are to be reproduced.
    max_bytes
        Most bytes of key, value and headers of an output together. A prediction whose output could
        be larger, whatever its numbers, becomes a dead letter before it changes anything.
    errors
        "dead-letter", or "fail" to stop at the first record that cannot be read.
    next_prediction, next_label
        Offsets to start at.
    """

    def __init__(
        self,
        corrector: Corrector,
        *,
        fields: Fields | None = None,
        labels_topic: str | None = None,
        labelled: bool = False,
        recent_bytes: int = 64 << 20,
        max_bytes: int | None = None,
        errors: Literal["dead-letter", "fail"] = "dead-letter",
        next_prediction: int = 0,
        next_label: int = 0,
    ) -> None:
        if errors not in ("dead-letter", "fail"):
            raise ValueError(f"errors: {errors!r}, expected 'dead-letter' or 'fail'")
        if recent_bytes < 0:
            raise ValueError(f"recent_bytes: {recent_bytes}, expected 0 or more")
        self.corrector = corrector
        self.messages = Messages(corrector.classes, fields)
        self.next_prediction, self.next_label = next_prediction, next_label
        self.counts = Counts()
        self.raw_scores, self.sent_scores = Scores(), Scores()
        self._m = len(corrector.classes)
        self._labels_topic, self.labelled = labels_topic, labelled
        self._max_bytes, self._errors = max_bytes, errors
        self._digits = self.messages.fields.digits
        self._recent = RecentPredictions(self._m, 0 if labels_topic is None else recent_bytes)
        self._rebuild_from: int | None = None

    @property
    def oldest(self) -> int:
        """Offset of the oldest recent prediction kept; ``next_prediction`` where none is."""
        if self._rebuild_from is not None:
            return self._rebuild_from
        oldest = self._recent.oldest
        return self.next_prediction if oldest is None else oldest

    def handle(self, records: Iterable[Source]) -> Result:
        """Take records in this order: correct the predictions, learn the labels.

        Raises
        ------
        ValueError
            Where an offset is behind the task's position: the record was taken before. Nothing was
            taken then.
        """
        records = list(records)
        self._check_offsets(records)
        result, batch = Result([], [], [], None), Batch()
        counts, keeps, added = self.counts, self._labels_topic is not None, self._added()
        for record, found, row in zip(records, *self._open(records), strict=True):
            is_label = record.topic == self._labels_topic
            if row is not None and type(found) is Prediction:
                headers = headers_of(record) + added if record.headers else added
                output = Output(record.key, None, headers, record.timestamp)
                result.outputs.append(output)
                entry = self._keep(record, found, row) if keeps else None
                batch.predictions.append((found, row, output, entry))
                counts.corrected += 1
                if found.label is not None:
                    batch.learn(found.label, row)
                    batch.labelled.append((len(batch.predictions) - 1, found.label))
                    counts.labels += 1
                    counts.matched += 1
            elif type(found) is Label:
                entry = self._recent.get(found.id)
                if entry is not None:
                    batch.joined.append((entry, found.index))
                    result.delays.append(record.timestamp - entry.timestamp)
                    row = row or entry.raw
                batch.learn(found.index, row)
                counts.matched += row is not None
                counts.unmatched += row is None
            elif isinstance(found, StreamCANError):
                if self._errors == "fail":
                    result.stopped = (record, found)
                    break
                self._reject(record, found, result)
            elif not is_label:  # a tombstone
                headers = headers_of(record) + added if record.headers else added
                result.outputs.append(Output(record.key, None, headers, record.timestamp))
            if is_label:
                counts.labels += 1
                self.next_label = record.offset + 1
                added = self._added()
            else:
                counts.predictions += 1
                self.next_prediction = record.offset + 1
        self._correct_and_learn(batch)
        return result

    def _added(self) -> list[tuple[str, bytes]]:
        """The headers that an output gets now."""
        if self._labels_topic is None:
            return [VERSION_HEADER]
        return [VERSION_HEADER, ("stream-can-labels", b"%d" % self.next_label)]

    def _check_offsets(self, records: Sequence[Source]) -> None:
        """Refuse a record that was taken before: it would be learned twice and sent twice."""
        expected = {False: self.next_prediction, True: self.next_label}
        for record in records:
            is_label = record.topic == self._labels_topic
            if record.offset < expected[is_label]:
                raise ValueError(
                    f"{place(record)}: taken before, the task is at {expected[is_label]}; "
                    "seek there first"
                )
            expected[is_label] = record.offset + 1

    # ---- open the messages

    def _open(self, records: Sequence[Source]) -> tuple[list[Opened], list[bytes | None]]:
        """What each record says, or what is wrong with it; the row of each, where it has one."""
        opened: list[Opened] = []
        rows: list[list[float]] = []
        where: list[int] = []
        messages, labels_topic, limit = self.messages, self._labels_topic, self._max_bytes
        # Nearly every message is far below the limit; only the others are measured.
        far_below = (math.inf if limit is None else limit - 24 * self._m - 200) / 2
        for i, record in enumerate(records):
            found: Opened = None  # a tombstone
            value = record.value
            try:
                if record.topic == labels_topic:
                    if value is not None:
                        found = messages.read_label(value, record.key)
                elif value is not None:
                    found = messages.read(value)
                    if self.labelled:
                        found.label = messages.label_in(found.fields)
                    if len(value) > far_below or record.headers or len(record.key or b"") > 100:
                        self._check_size(record, found)
                elif record.key is None:
                    raise BadMessage(
                        "key and value are both null; this letter's value is empty instead"
                    )
            except _CANNOT_READ as error:
                found = error
            opened.append(found)
            if type(found) is Prediction or (type(found) is Label and found.row is not None):
                rows.append(found.row)  # type: ignore[arg-type]
                where.append(i)
        P = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * self._m)
        data, width = P.tobytes(), 8 * self._m
        found_rows: list[bytes | None] = [None] * len(opened)
        for k, i in enumerate(where):
            found_rows[i] = data[k * width : (k + 1) * width]
        for k, reason in bad_rows(P.reshape(-1, self._m)).items():
            i, fields = where[k], self.messages.fields
            field = fields.probs if type(opened[i]) is Prediction else fields.raw
            opened[i], found_rows[i] = InvalidPrediction(f"{field}: {reason}"), None
        return opened, found_rows

    def _check_size(self, record: Source, prediction: Prediction) -> None:
        limit = self._max_bytes
        if limit is None:
            return
        other = len(record.key or b"") + sum(len(k) + len(v or b"") for k, v in record.headers)
        if 2 * len(record.value or b"") + 24 * self._m + other + 100 <= limit:
            return
        size = self.messages.largest(prediction) + other
        if size > limit:
            raise BadMessage(
                f"the output could take {size} bytes, more than the {limit} that a record may have"
            )

    # ---- correct and learn

    def _correct_and_learn(self, batch: Batch) -> None:
        """Run the batch through the corrector; fill in the outputs and what was sent."""
        labelled = [row for row in batch.rows if row is not None]
        P, first = (
            self._matrix(labelled + [row for _, row, _, _ in batch.predictions]),
            len(labelled),
        )
        rows = np.array([row is not None for row in batch.rows], int)
        rows = np.where(rows, np.cumsum(rows) - 1, -1)
        Q, _, _ = self.corrector.play(
            P, np.array(batch.ys, int), rows, np.array(batch.due, int), first=first
        )
        P = P[first:]
        if self._digits is not None:
            Q = np.round(Q, self._digits)
        corrected = Q.tolist()
        if not all(map(math.isfinite, map(sum, corrected))):  # JSON would say null
            raise StreamCANError("a corrected row is not finite: the corrector's state is damaged")
        write, data, width = self.messages.write, Q.tobytes(), 8 * self._m
        start = 0
        for (found, _, output, entry), row in zip(batch.predictions, corrected, strict=True):
            output.value = write(found, row)
            if entry is not None:
                entry.sent = data[start : start + width]
            start += width
        known = [(entry.raw, entry.sent, y) for entry, y in batch.joined if entry.sent is not None]
        if known:
            raw, sent, labels = zip(*known, strict=True)
            self._add_scores(self._matrix(raw), self._matrix(sent), labels)
        if batch.labelled:
            at, labels = zip(*batch.labelled, strict=True)
            self._add_scores(P[list(at)], Q[list(at)], labels)

    def _matrix(self, rows: Sequence[bytes]) -> Array:
        return np.frombuffer(b"".join(rows)).reshape(-1, self._m)

    def _add_scores(self, raw: Array, sent: Array, labels: Sequence[int]) -> None:
        """Score predictions whose labels came, before and after, as they were sent."""
        y = np.array(labels)
        self.raw_scores.add_checked(raw / raw.sum(axis=1, keepdims=True), y)
        self.sent_scores.add_checked(sent, y)

    def rebuild(self, records: Iterable[Source]) -> None:
        """Keep recent predictions again, after ``from_bytes``; nothing is learned and nothing sent.

        Parameters
        ----------
        records
            Records of predictions, in order, from ``oldest`` up to, not including,
            ``next_prediction``. A long history may come in several calls.

        Raises
        ------
        ValueError
            Where a record is not behind the task's position.
        """
        records = list(records)
        for record in records:
            if record.offset >= self.next_prediction:
                raise ValueError(
                    f"{place(record)}: cannot be rebuilt before it was handled; "
                    f"the task is at {self.next_prediction}"
                )
        self._rebuild_from = None
        for record, found, row in zip(records, *self._open(records), strict=True):
            if row is not None and type(found) is Prediction:
                self._keep(record, found, row)

    def _keep(self, record: Source, found: Prediction, row: bytes) -> Recent:
        """Put a prediction among the recent ones."""
        entry = Recent(record.offset, record.timestamp, row)
        self._recent.add(self.messages.id_of(found.fields, record.key), entry)
        return entry

    def _reject(self, record: Source, error: StreamCANError, result: Result) -> None:
        """Make a record a dead letter."""
        headers = headers_of(record) + error_headers(record, error)
        value = b"" if record.value is None and record.key is None else record.value
        result.dead_letters.append(Output(record.key, value, headers, record.timestamp))
        self.counts.dead_letters += 1

    # ---- the whole state

    def to_bytes(self, *, recent: bool = False) -> bytes:
        """Corrector, positions and counts as versioned, checksummed bytes.

        Parameters
        ----------
        recent
            Whether to hold the recent predictions too. Without them ``from_bytes`` needs
            ``rebuild``.
        """
        ids, block = self._recent.dump() if recent else (None, np.empty((0, 0)))
        head = {
            "task": FORMAT,
            "corrector": self.corrector.to_bytes(),
            "next_prediction": self.next_prediction,
            "next_label": self.next_label,
            "oldest": self.oldest,
            "counts": msgspec.to_builtins(self.counts),
            "ids": ids,
        }
        return snapshot.encode(head, {"recent": block})

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        classes: int | Iterable[Hashable] | None = None,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """The task that :meth:`to_bytes` wrote; it continues bit for bit.

        Parameters
        ----------
        data
            What ``to_bytes`` returned.
        classes, settings
            Passed on to :meth:`stream_can.Corrector.from_bytes`.
        **options
            Those of :class:`Task`, but for the positions.

        Raises
        ------
        SnapshotMismatch
            Where the bytes are truncated, corrupt, of a newer version or no task's, or do not match
            ``classes`` or ``settings``.
        """
        content, arrays, _ = snapshot.decode(data)
        if "task" not in content:
            raise SnapshotMismatch(
                "snapshot: a corrector's alone, without the positions of a stream"
            )
        if snapshot.typed(content, Version).task > FORMAT:
            raise SnapshotMismatch(
                f"snapshot: task format {content['task']}, this release reads up to {FORMAT}; "
                "upgrade stream_can"
            )
        head = snapshot.typed(content, Head)
        if head.oldest > head.next_prediction:
            raise SnapshotMismatch(
                f"snapshot: oldest {head.oldest} is behind next_prediction {head.next_prediction}"
            )
        corrector = Corrector.from_bytes(head.corrector, classes, **(settings or {}))
        try:
            Messages(corrector.classes)
        except ValueError as error:
            raise SnapshotMismatch(f"snapshot: {error}") from None
        self = cls(
            corrector,
            next_prediction=head.next_prediction,
            next_label=head.next_label,
            **options,
        )
        self.counts = head.counts
        if head.ids is not None:
            self._recent.load(head.ids, arrays.get("recent"), head.next_prediction)
        elif self._labels_topic is not None and head.oldest < self.next_prediction:
            self._rebuild_from = head.oldest
        return self
