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
from itertools import chain, groupby
from typing import Any, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from . import __version__, snapshot
from .corrector import Corrector
from .errors import InvalidPrediction, SnapshotMismatch, StreamCANError, UnknownClass
from .messages import BadMessage, Fields, Label, Messages, Prediction
from .recent import RecentPredictions
from .records import (
    Counts,
    Output,
    Record,
    Result,
    Source,
    check_offsets,
    error_headers,
    headers_of,
    place,
)
from .scores import Scores

__all__ = ["Counts", "Output", "Record", "Result", "Task"]

FORMAT = 1
"""Version of the head of a task's snapshot; the envelope around it has its own."""

VERSION_HEADER = ("stream-can-version", __version__.encode())
_CANNOT_READ = (BadMessage, UnknownClass)

Array = NDArray[np.float64]


class Joined(msgspec.Struct, gc=False):
    """A label that found its prediction among the recent ones."""

    record: Source
    index: int
    entry: bytes


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
            Where an offset is behind the task's position: the record was taken before.
        """
        result = Result([], [], [], None)
        if self._labels_topic is None:
            self._predict(list(records), result)
            return result
        joined: list[Joined] = []
        for is_label, run in groupby(records, lambda record: record.topic == self._labels_topic):
            if is_label:
                joined += self._learn(list(run), result)
            else:
                self._predict(list(run), result)
            if result.stopped is not None:
                break
        self._score(joined, result)
        return result

    # ---- predictions

    def _open(
        self, records: Iterable[Source]
    ) -> list[tuple[Source, Prediction | Exception | None]]:
        """Each record with its opened message, or what is wrong with it; None is a tombstone."""
        opened: list[tuple[Source, Prediction | Exception | None]] = []
        read, limit = self.messages.read, self._max_bytes
        # Nearly every message is far below the limit; only the others are measured.
        far_below = (math.inf if limit is None else limit - 24 * self._m - 200) / 2
        found: Prediction | Exception | None
        for record in records:
            value = record.value
            try:
                if value is not None:
                    found = read(value)
                    if self.labelled:
                        found.label = self.messages.label_in(found.fields)
                    if len(value) > far_below or record.headers or len(record.key or b"") > 100:
                        self._check_size(record, found)
                elif record.key is None:
                    raise BadMessage(
                        "key and value are both null; this letter's value is empty instead"
                    )
                else:
                    found = None
            except _CANNOT_READ as error:
                found = error
            opened.append((record, found))
        return opened

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

    def _predict(self, records: Sequence[Source], result: Result) -> None:
        check_offsets(records, self.next_prediction)
        opened = self._open(records)
        if self._errors == "fail":
            bad = next(
                (i for i, (_, found) in enumerate(opened) if isinstance(found, Exception)), None
            )
            opened = opened if bad is None else opened[: bad + 1]
        predictions = [found for _, found in opened if type(found) is Prediction]
        P = self._matrix([found.row for found in predictions])
        labels = [found.label for found in predictions] if self.labelled else []
        Q, refused = self._process(P, labels)
        rows = Q.tolist()
        if not all(map(math.isfinite, map(sum, rows))):  # JSON would say null
            raise StreamCANError("a corrected row is not finite: the corrector's state is damaged")
        added = [VERSION_HEADER]
        if self._labels_topic is not None:
            added.append(("stream-can-labels", b"%d" % self.next_label))
        write, id_of = self.messages.write, self.messages.id_of
        outputs, counts, keeps = result.outputs, self.counts, self._labels_topic is not None
        ids: list[bytes | None] = []
        where: list[tuple[int, int]] = []
        i = -1
        for record, found in opened:
            if type(found) is Prediction:
                i += 1
                if i in refused:
                    found = refused[i]
                else:
                    value = write(found, rows[i])
                    headers = headers_of(record) + added if record.headers else added
                    outputs.append(Output(record.key, value, headers, record.timestamp))
                    counts.corrected += 1
                    if keeps:
                        ids.append(id_of(found.fields, record.key))
                        where.append((record.offset, record.timestamp))
            elif found is None:
                headers = headers_of(record) + added if record.headers else added
                outputs.append(Output(record.key, None, headers, record.timestamp))
            if isinstance(found, Exception) and self._reject(record, found, result):
                break
            counts.predictions += 1
            self.next_prediction = record.offset + 1
        if refused:
            keep = [j for j in range(i + 1) if j not in refused]
            P, Q, labels = P[keep], Q[keep], [labels[j] for j in keep if labels]
        if keeps:
            self._recent.add(ids, where, P, Q)
        known = [j for j, label in enumerate(labels) if label is not None]
        if known:
            counts.labels += len(known)
            counts.matched += len(known)
            self._add_scores(P[known], Q[known], np.array([labels[j] for j in known]))

    def _process(
        self, P: Array, labels: Sequence[int | None]
    ) -> tuple[Array, dict[int, Exception]]:
        """The rows corrected, as they will be sent, and those that are no probability vectors."""
        refused: dict[int, Exception] = {}
        corrector = self.corrector
        one_by_one = any(label is not None for label in labels)
        try:
            Q = np.zeros_like(P) if one_by_one else corrector.process_many(P)
        except InvalidPrediction:  # nothing was learned, and a bad row must not poison its batch
            Q, one_by_one = np.zeros_like(P), True
        for i, p in enumerate(P if one_by_one else ()):
            try:
                Q[i] = corrector.process_one(p)
            except InvalidPrediction as error:
                refused[i] = self._at(self.messages.fields.probs, error)
                if self._errors == "fail":
                    break
                continue
            label = labels[i] if labels else None
            if label is not None:
                corrector.learn_one(p, corrector.classes[label])
        return (Q if self._digits is None else np.round(Q, self._digits)), refused

    @staticmethod
    def _at(field: str, error: InvalidPrediction) -> InvalidPrediction:
        return InvalidPrediction(f"{field}: {str(error).removeprefix('row 0: ')}")

    def _matrix(self, rows: Sequence[list[float]]) -> Array:
        flat = np.fromiter(chain.from_iterable(rows), np.float64, len(rows) * self._m)
        return flat.reshape(-1, self._m)

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
        self._rebuild_from = None
        ids, where, rows = [], [], []
        for record, found in self._open(records):
            if record.offset >= self.next_prediction:
                raise ValueError(
                    f"{place(record)}: cannot be rebuilt before it was handled; "
                    f"the task is at {self.next_prediction}"
                )
            if type(found) is Prediction:
                ids.append(self.messages.id_of(found.fields, record.key))
                where.append((record.offset, record.timestamp))
                rows.append(found.row)
        P = self._matrix(rows)
        try:
            self.corrector.correct_many(P)
        except InvalidPrediction:
            keep = [i for i, p in enumerate(P) if self._is_valid(p)]
            ids, where, P = [ids[i] for i in keep], [where[i] for i in keep], P[keep]
        self._recent.add(ids, where, P, None)

    def _is_valid(self, p: Array) -> bool:
        try:
            self.corrector.correct_one(p)
        except InvalidPrediction:
            return False
        return True

    # ---- labels

    def _learn(self, records: Sequence[Source], result: Result) -> list[Joined]:
        """Learn labels in order; returns those whose prediction is among the recent ones."""
        check_offsets(records, self.next_label)
        joined: list[Joined] = []
        group: list[
            tuple[Source, Label, bytes | None]
        ] = []  # labels in a row, all with a row or none

        def flush() -> bool:
            done = self._learn_group(group, result)
            group.clear()
            return done

        for record in records:
            found: Label | Exception | None = None
            if record.value is not None:
                try:
                    found = self.messages.read_label(record.value, record.key)
                except _CANNOT_READ as error:
                    found = error
            if type(found) is Label:
                entry = self._recent.get(found.id)
                if entry is not None:
                    joined.append(Joined(record, found.index, entry))
                if found.row is not None:
                    row: bytes | None = np.array(found.row).tobytes()
                else:
                    row = None if entry is None else self._recent.raw(entry)
                if group and (group[-1][2] is None) != (row is None) and not flush():
                    break
                group.append((record, found, row))
                continue
            if not flush() or (
                isinstance(found, Exception) and self._reject(record, found, result)
            ):
                break
            self.counts.labels += 1
            self.next_label = record.offset + 1
        else:
            flush()
        return [label for label in joined if label.record.offset < self.next_label]

    def _learn_group(self, group: list[tuple[Source, Label, bytes | None]], result: Result) -> bool:
        """Learn labels that all have a row or all have none; False where one stops the task."""
        counts = self.counts
        if len(group) > 1:
            names = [self.corrector.classes[label.index] for _, label, _ in group]
            rows = [row for *_, row in group if row is not None]
            P = np.frombuffer(b"".join(rows)).reshape(-1, self._m) if rows else None
            try:
                self.corrector.learn_many(P, names)
            except InvalidPrediction:
                pass  # nothing was learned: one at a time
            else:
                counts.labels += len(group)
                counts.matched += len(rows)
                counts.unmatched += len(group) - len(rows)
                self.next_label = group[-1][0].offset + 1
                return True
        for record, label, row in group:
            p = None if row is None else np.frombuffer(row)
            try:
                self.corrector.learn_one(p, self.corrector.classes[label.index])
            except InvalidPrediction as error:
                if self._reject(record, self._at(self.messages.fields.raw, error), result):
                    return False
            else:
                counts.matched += row is not None
                counts.unmatched += row is None
            counts.labels += 1
            self.next_label = record.offset + 1
        return True

    def _score(self, joined: Sequence[Joined], result: Result) -> None:
        """Score predictions whose labels came, before and after, as they were sent."""
        if not joined:
            return
        timestamps, raw, sent = self._recent.rows([label.entry for label in joined])
        result.delays = [
            label.record.timestamp - int(then)
            for label, then in zip(joined, timestamps.tolist(), strict=True)
        ]
        known = ~np.isnan(sent[:, 0])
        y = np.array([label.index for label in joined])
        self._add_scores(raw[known], sent[known], y[known])

    def _add_scores(self, raw: Array, sent: Array, y: NDArray[np.intp]) -> None:
        self.raw_scores.add_checked(raw / raw.sum(axis=1, keepdims=True), y)
        self.sent_scores.add_checked(sent, y)

    # ---- both

    def _reject(self, record: Source, error: Exception, result: Result) -> bool:
        """Make a record a dead letter, or stop at it; returns whether the task stops."""
        if self._errors == "fail":
            result.stopped = (record, error)
            return True
        headers = headers_of(record) + error_headers(record, error)
        value = b"" if record.value is None and record.key is None else record.value
        result.dead_letters.append(Output(record.key, value, headers, record.timestamp))
        self.counts.dead_letters += 1
        return False

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
        head, arrays = snapshot.decode(data)
        if "task" not in head:
            raise SnapshotMismatch(
                "snapshot: a corrector's alone, without the positions of a stream"
            )
        if head["task"] > FORMAT:
            raise SnapshotMismatch(
                f"snapshot: task format {head['task']}, this release reads up to {FORMAT}; "
                "upgrade stream_can"
            )
        try:
            corrector = Corrector.from_bytes(head["corrector"], classes, **(settings or {}))
            positions = {name: head[name] for name in ("next_prediction", "next_label")}
            self = cls(corrector, **positions, **options)
            self.counts = msgspec.convert(head["counts"], Counts)
            oldest = head["oldest"]
            if head["ids"] is not None:
                self._recent.load(head["ids"], arrays["recent"])
            elif self._labels_topic is not None and oldest < self.next_prediction:
                self._rebuild_from = oldest
        except SnapshotMismatch:
            raise
        except (KeyError, msgspec.ValidationError) as error:
            raise SnapshotMismatch(f"snapshot: unreadable: {error}") from None
        return self
