"""One partition of a stream: its positions, and the lane that corrects it; no I/O.

How it is used::

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
  ``task.next_prediction`` to ``task.rebuild``, in one or more calls.
- ``task.counts`` counts since the state began (it is in the snapshot); ``task.raw_scores`` and
  ``task.sent_scores`` score, before and after, the predictions whose labels came to this object, if
  it sent them or ``task.lane.recall`` was given their outputs; ``result.delays`` has each joined
  label's delay.

The same records in the same order give the same outputs, dead letters and bytes, cut anywhere.

Where partitions learn together the task is given a :class:`~stream_can.stream.replica.Replica`. It
then changes nothing that was learned: what it has to teach is gathered until ``take`` hands it
over for an entry of the learned log, ``positions()`` takes the place of ``to_bytes()``, and its
outputs say in ``stream-can-learned`` up to which offset of the log they are made from. Once the log
has begun anew the task is ``stale``: what it holds belongs to a corrector that is gone, so it takes
no more records. Drop it with all that it gave and was not stored; positions stored before go on.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec
import numpy as np

from stream_can import snapshot
from stream_can.column_scores import ColumnScores
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.messages.fields import Fields
from stream_can.messages.messages import JSON, Formats, Label, Messages, Prediction
from stream_can.messages.naming import LaneName, Naming
from stream_can.messages.opening import Reading
from stream_can.messages.records import (
    Counts,
    Output,
    Record,
    Result,
    Source,
    error_headers,
    headers_of,
    place,
)
from stream_can.method.asking import LabelRequests
from stream_can.method.promise import miss_of
from stream_can.scores import Scores
from stream_can.stream.batch import Watched
from stream_can.stream.entry import LaneMark, OpenPart
from stream_can.stream.head import FORMAT, read_head
from stream_can.stream.lane import Lane
from stream_can.stream.lanes import Fleet, Lanes, Several
from stream_can.stream.marks import Marks
from stream_can.stream.recent import Bound
from stream_can.stream.replica import Replica
from stream_can.stream.requests import MARK_SIZE
from stream_can.stream.sets import sets_under
from stream_can.trust.sets import PredictionSets

__all__ = ["Counts", "Output", "Record", "Result", "Task"]


class Task:
    """One partition of a stream; the module's first lines say how a worker uses it.

    Parameters
    ----------
    corrector
        The corrector to start from, which the task owns from now on; or the replica of a learned
        log, which it shares. Its columns are where the messages have them, see
        ``stream_can.messages.columns``.
    fields
        Where in the messages everything is.
    formats
        In which the messages of predictions and of labels come.
    labels_topic
        The topic whose records are labels; None where there are none: then no recent predictions
        are kept.
    recent_bytes
        Bound of the recent predictions, each counted as 8 m + length of its id, and of the values
        that it gives of columns. Must not change while a stream runs if its outputs are to be
        reproduced.
    max_bytes
        Most bytes of key, value and headers of an output together. A prediction whose output could
        be larger, whatever its numbers, becomes a dead letter before it changes anything.
    errors
        "dead-letter"; or "fail" to stop at the first record that cannot be read.
    learn_share
        Which share of the labels is learned, chosen by topic, partition and offset.
    requests
        Asks for labels: outputs then say ``"ask": "random"`` or ``"ask": "margin"`` where the label
        is wanted, ``result.requests`` has the records of the requests, and the scores count the
        labels that were asked for at random alone. A prediction without an id is not asked for.
    next_prediction, next_label
        Offsets to start at.
    count_values
        Whether ``take_values`` is to say what became of the values of columns, and
        ``take_watched`` of labelled predictions: both have to be called now and then.
    sets
        The share that prediction sets keep: outputs then have ``"set"``, the names of the classes
        that a row can be. Where there is a replica its log says it.
    fleet
        Which models there may be, where ``fields`` say where a message names its model or version;
        then ``corrector`` is a replica.
    """

    def __init__(
        self,
        corrector: Corrector | Replica,
        *,
        fields: Fields | None = None,
        formats: Formats = JSON,
        labels_topic: str | None = None,
        recent_bytes: int = 64 << 20,
        max_bytes: int | None = None,
        errors: Literal["dead-letter", "fail"] = "dead-letter",
        learn_share: float = 1.0,
        requests: LabelRequests | None = None,
        next_prediction: int = 0,
        next_label: int = 0,
        count_values: bool = False,
        sets: float | None = None,
        fleet: Fleet | None = None,
    ) -> None:
        if errors not in ("dead-letter", "fail"):
            raise ValueError(f"errors: {errors!r}, expected 'dead-letter' or 'fail'")
        if recent_bytes < 0:
            raise ValueError(f"recent_bytes: {recent_bytes}, expected 0 or more")
        if requests is not None and max_bytes is not None:
            max_bytes -= MARK_SIZE
        begin = next_prediction, next_label
        if sets is not None:
            miss_of(sets)
        named = fields is not None and (fields.model is not None or fields.version is not None)
        if named and not isinstance(corrector, Replica):
            raise ValueError("model, version: a task with lanes learns from the replica of a log")
        bound = Bound(recent_bytes) if named else None
        self.marks = Marks(next_prediction)
        """Which of the recent predictions have had their label."""
        self.set_tally = np.zeros(4)
        """Since the task was made: rows with prediction sets, the classes in these, labels of such
        rows, and those of them that are in their set."""

        def make(**options: Any) -> Lane:
            own = options and requests is not None
            return Lane(
                corrector,
                fields=fields,
                formats=formats,
                recent_bytes=None if labels_topic is None else recent_bytes,
                requests=copy.deepcopy(requests) if own else requests,
                begin=begin,
                count_values=count_values,
                bound=bound,
                marks=self.marks,
                set_tally=self.set_tally,
                sets=None if isinstance(corrector, Replica) else sets,
                **options,
            )

        replica = corrector if isinstance(corrector, Replica) else None
        naming = Naming(fields) if named and fields is not None else None
        self.lanes = Lanes(make, replica, naming, fleet, bound, begin)
        self.next_prediction, self.next_label = next_prediction, next_label
        self.counts = Counts()
        self.reading, self._errors = Reading(labels_topic, False, max_bytes), errors
        self._learn_below = learn_share * 2**32
        self._rebuild_from: int | None = None
        self.learned_offset = 0
        """The least offset of the learned log to correct from: that of what was sent before."""

    @property
    def lane(self) -> Lane:
        """The one lane there is; of several, the one without a name."""
        return self.lanes.only

    @property
    def corrector(self) -> Corrector:
        """What corrects the rows now."""
        return self.lane.corrector

    @property
    def raw_scores(self) -> Scores:
        """Of the predictions whose labels came and that are known as sent, before correction."""
        return self.lane.raw_scores

    @property
    def sent_scores(self) -> Scores:
        """Of the same, after it."""
        return self.lane.sent_scores

    @property
    def stale(self) -> bool:
        """Whether the log has begun anew since the task was made."""
        return self.lane.stale  # which was made first

    @property
    def oldest(self) -> int:
        """Offset of the oldest recent prediction kept; ``next_prediction`` where none is."""
        if self._rebuild_from is not None:
            return self._rebuild_from
        kept = [lane.recent.oldest for lane in self.lanes]
        return min((at for at in kept if at is not None), default=self.next_prediction)

    def handle(self, records: Iterable[Source]) -> Result:
        """Take records in this order: correct the predictions, learn the labels.

        Raises
        ------
        ValueError
            Where an offset is behind the task's position: the record was taken before. Nothing was
            taken then.
        BegunAnew
            The task is ``stale``. Nothing was taken then.
        """
        records = list(records)
        self._check_offsets(records)
        opened, lanes, off = self.lanes.open(records, self.reading)
        labels_topic = self.reading.labels_topic
        result, counts = Result([], [], [], None, off), self.counts
        for record, says, lane in zip(records, opened, lanes, strict=False):
            is_label = record.topic == labels_topic
            match says:
                case Prediction():
                    if says.fault is not None:
                        result.faults.append((record, says.fault))
                    result.outputs.append(lane.predict(record, says))
                    counts.corrected += 1
                case Label() if lane.repeats(says.id):
                    counts.repeated += 1
                case Label() if says.by_id and lane.recent.get(says.id) is None:
                    counts.unmatched += 1
                case Label():
                    where = (record.offset, self.next_prediction) if self._learns(record) else None
                    found = lane.learn(says, where)
                    if found is not None:
                        result.delays.append(record.timestamp - found.timestamp)
                    if found is None and says.number < 0:
                        counts.unmatched += 1
                    else:
                        counts.matched += 1
                case Several():
                    where = (record.offset, self.next_prediction) if self._learns(record) else None
                    found = self.lanes.learn(says, where)
                    if found is not None:
                        result.delays.append(record.timestamp - found.timestamp)
                    again = found is None and any(one.repeats(x.id) for one, x in says.labels)
                    counts.matched += found is not None
                    counts.repeated += again
                    counts.unmatched += found is None and not again
                case None:
                    if not is_label:  # a tombstone
                        result.outputs.append(lane.output(record))
                case error:
                    if self._errors == "fail":
                        result.stopped = (record, error)
                        break
                    self._reject(record, error, result)
            if is_label:
                counts.labels += 1
                self.next_label = record.offset + 1
            else:
                counts.predictions += 1
                self.next_prediction = record.offset + 1
        result.requests, result.answered = self.lanes.run(self.next_prediction)
        return result

    def _learns(self, record: Source) -> bool:
        """Whether a label is among those to learn: the same ones whoever takes it."""
        if self._learn_below >= 2**32:
            return True
        return zlib.crc32(place(record).encode()) < self._learn_below

    def _check_offsets(self, records: Sequence[Source]) -> None:
        """Refuse a record that was taken before: it would be learned twice and sent twice."""
        expected = {False: self.next_prediction, True: self.next_label}
        labels_topic = self.reading.labels_topic
        for record in records:
            is_label = record.topic == labels_topic
            if record.offset < expected[is_label]:
                raise ValueError(
                    f"{place(record)}: taken before, the task is at {expected[is_label]}; "
                    "seek there first"
                )
            expected[is_label] = record.offset + 1

    def take(self) -> tuple[OpenPart, tuple[int, int]]:
        """What the records since the last call have to teach, and the next offsets behind them.

        Raises
        ------
        BegunAnew
            The task is ``stale``: nobody may learn that any more.
        ValueError
            The task has lanes, each of which teaches apart.
        """
        if self.lanes.named:
            raise ValueError("take: the task has lanes; take_all gives what each has to teach")
        ((_, part),), end = self.take_all()
        return part, end

    def take_all(self) -> tuple[list[tuple[LaneMark | None, OpenPart]], tuple[int, int]]:
        """What :meth:`take` gives, lane by lane, each with the mark of its entries.

        Raises
        ------
        BegunAnew
            As there.
        """
        end = self.next_prediction, self.next_label
        return self.lanes.take(end), end

    def take_values(self) -> dict[str, ColumnScores]:
        """Of each declared column, what became of its values since the last call."""
        found: dict[str, ColumnScores] = {}
        for lane in self.lanes:
            for name, values in lane.take_values().items():
                if name in found:
                    found[name].update(values)
                else:
                    found[name] = values
        return found

    def take_watched(self) -> dict[LaneName, list[Watched]]:
        """Of each lane what became of labelled predictions since the last call."""
        found = {}
        for lane in self.lanes:
            if lane.watched:
                found[lane.name], lane.watched = lane.watched, []
        return found

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
        opened, lanes, _ = self.lanes.open(records, self.reading, begins=False)
        sent: dict[Lane, list[tuple[Source, Prediction]]] = {}
        for record, says, lane in zip(records, opened, lanes, strict=False):
            if isinstance(says, Prediction):
                sent.setdefault(lane, []).append((record, says))
        for lane, predictions in sent.items():
            lane.keep_raw(predictions)

    def _reject(self, record: Source, error: StreamCANError, result: Result) -> None:
        """Make a record a dead letter."""
        headers = headers_of(record) + error_headers(record, error)
        value = b"" if record.value is None and record.key is None else record.value
        result.dead_letters.append(Output(record.key, value, headers, record.timestamp, record))
        self.counts.dead_letters += 1

    # ---- the whole state

    def to_bytes(self) -> bytes:
        """Corrector, positions and counts as versioned, checksummed bytes, without the recent
        predictions: ``from_bytes`` needs ``rebuild``."""
        if self.lanes.named:
            raise ValueError("a task with lanes has `positions`; what it learned is in its log")
        head = self._head(self.corrector.to_bytes(), 0)
        if self.lane.sets is not None:
            head["sets"] = self.lane.sets.to_bytes()
        return snapshot.encode(head, {})

    def positions(self, folded_to: int = 0) -> bytes:
        """Positions and counts, for ``from_bytes`` with the replica of a learned log.

        Parameters
        ----------
        folded_to
            The offset of the log up to which it is folded.

        Raises
        ------
        BegunAnew
            The task is ``stale``.
        """
        self.lane.require_current()
        return snapshot.encode(self._head(None, folded_to), {})

    def _head(self, corrector: bytes | None, folded_to: int) -> dict[str, Any]:
        """What a snapshot says beside its arrays; `stream_can.stream.head` reads it."""
        counts = msgspec.to_builtins(self.counts)
        if not self.counts.repeated:  # as before there were any
            del counts["repeated"]
        head = {
            "task": FORMAT,
            "corrector": corrector,
            "next_prediction": self.next_prediction,
            "next_label": self.next_label,
            "oldest": self.oldest,
            "counts": counts,
            "learned": folded_to,
        }
        if self.lanes.named:
            head["lanes"] = [(*name, data) for name, data in self.lanes.positions().items()]
        elif self.lane.requests is not None:
            head["requests"] = self.lane.requests.to_bytes()
        self.marks.forget(self.oldest)
        if (labelled := self.marks.dump()) is not None:
            head["labelled"] = labelled
        return head

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        classes: int | Iterable[Hashable] | None = None,
        settings: Mapping[str, Any] | None = None,
        replica: Replica | None = None,
        **options: Any,
    ) -> Self:
        """The task that :meth:`to_bytes` or :meth:`positions` wrote; it continues bit for bit.

        Parameters
        ----------
        data
            What ``to_bytes`` or ``positions`` returned.
        classes, settings
            Passed on to :meth:`stream_can.Corrector.from_bytes`.
        replica
            For what ``positions`` returned, and for nothing else.
        **options
            Those of :class:`Task`, but for the positions. ``requests`` go on where the snapshot
            left them, or begin anew where their settings are others.

        Raises
        ------
        SnapshotMismatch
            Where the bytes are truncated, corrupt, of another version or no task's, or do not match
            ``classes`` or ``settings``.
        """
        head = read_head(data)
        if head.corrector is None and replica is None:
            raise SnapshotMismatch("snapshot: positions alone; what was learned is in a log")
        if head.corrector is not None and replica is not None:
            raise SnapshotMismatch("snapshot: of a partition that learned alone")
        own: Corrector | Replica
        if replica is not None:
            own = replica
        else:
            own = Corrector.from_bytes(head.corrector or b"", classes, **(settings or {}))
            try:
                Messages(own.classes, columns=own.segments)
            except ValueError as error:
                raise SnapshotMismatch(f"snapshot: {error}") from None
        self = cls(
            own,
            next_prediction=head.next_prediction,
            next_label=head.next_label,
            **options,
        )
        self.counts, self.learned_offset = head.counts, head.folded_to
        self.marks.load(head.labelled, head.oldest, head.next_prediction)
        lane = self.lane
        if lane.sets is not None and head.sets is not None:
            stored = PredictionSets.from_bytes(head.sets)
            lane.sets = sets_under(options.get("sets"), lane.corrector, stored)
        if lane.requests is not None and head.requests is not None:
            lane.requests = lane.requests.resumed(head.requests)
        self.lanes.stored = {LaneName(*names): data for *names, data in head.lanes}
        if self.reading.labels_topic is not None and head.oldest < self.next_prediction:
            self._rebuild_from = head.oldest
        return self
