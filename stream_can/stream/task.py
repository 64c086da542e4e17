"""One partition of a stream: a Corrector, the recent predictions and the positions; no I/O.

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
  ``task.next_prediction`` to ``task.rebuild``, in one or more calls. ``to_bytes(recent=True)``
  holds them.
- ``task.counts`` counts since the state began (it is in the snapshot); ``task.raw_scores`` and
  ``task.sent_scores`` score, before and after, the predictions that this object sent and whose
  labels came; ``result.delays`` has each joined label's delay.

The same records in the same order give the same outputs, dead letters and bytes, cut anywhere.

Where partitions learn together the task is given a :class:`~stream_can.stream.replica.Replica`. It
then changes nothing that was learned: what it has to teach is gathered until ``take`` hands it
over for an entry of the learned log, ``positions()`` takes the place of ``to_bytes()``, and its
outputs say in ``stream-can-learned`` up to which offset of the log they are made from.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.method.asking import LabelRequest, LabelRequests
from stream_can.method.rows import rounded
from stream_can.scores import Scores
from stream_can.stream.batch import Batch
from stream_can.stream.entry import OpenPart
from stream_can.stream.fields import Fields
from stream_can.stream.head import FORMAT, LearnedAlone, read_head
from stream_can.stream.messages import Label, Messages, Prediction
from stream_can.stream.opening import Opened, open_records
from stream_can.stream.recent import Recent, RecentPredictions, raw_bytes
from stream_can.stream.records import (
    Counts,
    Header,
    Output,
    Record,
    Result,
    Source,
    error_headers,
    headers_of,
    place,
)
from stream_can.stream.replica import Replica
from stream_can.stream.requests import FIELD, MARK_SIZE, OpenRequests, request_record
from stream_can.version import __version__

__all__ = ["Counts", "Output", "Record", "Result", "Task"]

VERSION_HEADER = ("stream-can-version", __version__.encode())

Array = NDArray[np.float64]


class Task:
    """One partition of a stream; the module's first lines say how a worker uses it.

    Parameters
    ----------
    learned
        The corrector to start from, which the task owns from now on; or the replica of a learned
        log, which it shares.
    fields
        Where in the messages everything is.
    labels_topic
        The topic whose records are labels; None where there are none: then no recent predictions
        are kept.
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
    learn_share
        Which share of the labels is learned, chosen by topic, partition and offset.
    requests
        Asks for labels: outputs then say ``"ask": "random"`` or ``"ask": "margin"`` where the label
        is wanted, ``result.requests`` has the records of the requests, and the scores count the
        labels that were asked for at random alone. A prediction without an id is not asked for.
    next_prediction, next_label
        Offsets to start at.
    """

    def __init__(
        self,
        learned: Corrector | Replica,
        *,
        fields: Fields | None = None,
        labels_topic: str | None = None,
        labelled: bool = False,
        recent_bytes: int = 64 << 20,
        max_bytes: int | None = None,
        errors: Literal["dead-letter", "fail"] = "dead-letter",
        learn_share: float = 1.0,
        requests: LabelRequests | None = None,
        next_prediction: int = 0,
        next_label: int = 0,
    ) -> None:
        if errors not in ("dead-letter", "fail"):
            raise ValueError(f"errors: {errors!r}, expected 'dead-letter' or 'fail'")
        if recent_bytes < 0:
            raise ValueError(f"recent_bytes: {recent_bytes}, expected 0 or more")
        if requests is not None and labelled:
            raise ValueError("requests: the predictions carry their own labels")
        if requests is not None and max_bytes is not None:
            max_bytes -= MARK_SIZE
        self._replica = learned if isinstance(learned, Replica) else None
        self._corrector = None if isinstance(learned, Replica) else learned
        corrector = self.corrector
        self.messages = Messages(corrector.classes, fields, corrector.train_prior)
        self.next_prediction, self.next_label = next_prediction, next_label
        self.counts = Counts()
        self.raw_scores, self.sent_scores = Scores(), Scores()
        self._m = len(corrector.classes)
        self._labels_topic, self.labelled = labels_topic, labelled
        self._max_bytes, self._errors = max_bytes, errors
        self._learn_below = learn_share * 2**32
        self.requests, self.open_requests = requests, OpenRequests()
        self._digits = self.messages.fields.digits
        self._recent = RecentPredictions(self._m, 0 if labels_topic is None else recent_bytes)
        self._rebuild_from: int | None = None
        self.learned = 0
        """The least offset of the learned log to correct from: that of what was sent before."""
        self._open_part = self._new_part()

    @property
    def corrector(self) -> Corrector:
        """What corrects the rows now."""
        if self._replica is not None:
            return self._replica.corrector
        assert self._corrector is not None
        return self._corrector

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
        opened, rows, off = self._open(records)
        result, batch = Result([], [], [], None, off), Batch(rows)
        counts, keeps, added = self.counts, self._labels_topic is not None, self._added()
        for record, says in zip(records, opened, strict=True):
            is_label = record.topic == self._labels_topic
            match says:
                case Prediction():
                    headers = headers_of(record) + added if record.headers else added
                    output = Output(record.key, None, headers, record.timestamp)
                    result.outputs.append(output)
                    batch.predict(says, output, self._keep(record, says) if keeps else None)
                    counts.corrected += 1
                    if says.label is not None:
                        counts.labels += 1
                        counts.matched += 1
                case Label():
                    entry = self._recent.get(says.id)
                    if self._learns(record):
                        batch.learn(says, entry, (record.offset, self.next_prediction))
                    elif entry is not None:
                        batch.join(says, entry)
                    if entry is not None:
                        result.delays.append(record.timestamp - entry.timestamp)
                    if entry is None and says.number < 0:
                        counts.unmatched += 1
                    else:
                        counts.matched += 1
                case None:
                    if not is_label:  # a tombstone
                        headers = headers_of(record) + added if record.headers else added
                        result.outputs.append(Output(record.key, None, headers, record.timestamp))
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
        result.requests = self._correct_and_learn(batch)
        if self.requests is not None:  # after those of this batch: a label may be in it too
            result.answered = self.open_requests.answer(batch.answered)
            self.open_requests.forget(self.oldest)
        return result

    def _learns(self, record: Source) -> bool:
        """Whether a label is among those to learn: the same ones whoever takes it."""
        if self._learn_below >= 2**32:
            return True
        return zlib.crc32(place(record).encode()) < self._learn_below

    def _added(self) -> list[Header]:
        """The headers that an output gets now."""
        if self._replica is not None:
            return [VERSION_HEADER, ("stream-can-learned", b"%d" % self._replica.offset)]
        return [VERSION_HEADER]

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

    def _new_part(self) -> OpenPart | None:
        if self._replica is None:
            return None
        return OpenPart(self._replica.corrector, self.next_prediction, self.next_label)

    def take(self) -> tuple[OpenPart, tuple[int, int]]:
        """What the records since the last call have to teach, and the next offsets behind them."""
        part, self._open_part = self._open_part, self._new_part()
        assert part is not None
        return part, (self.next_prediction, self.next_label)

    def _open(self, records: Sequence[Source]) -> tuple[list[Opened], Array, int]:
        return open_records(
            records,
            self.messages,
            labels_topic=self._labels_topic,
            labelled=self.labelled,
            max_bytes=self._max_bytes,
        )

    def _correct_and_learn(self, batch: Batch) -> list[Output]:
        """Run the batch through the corrector; fill in the outputs and what was sent.

        Returns
        -------
        The label requests.
        """
        keeps = self._labels_topic is not None
        if self._open_part is None:
            P, Q, receipts = batch.play(self.corrector)
        else:
            P, Q, receipts = batch.collect(self.corrector, self._open_part, keeps)
        if self._digits is not None:
            Q = rounded(Q, self._digits)
        if not np.isfinite(Q).all():  # JSON would say null
            raise StreamCANError("a corrected row is not finite: the corrector's state is damaged")
        asked = self._ask(batch, Q)
        predictions = [prediction for prediction, _, _ in batch.predictions]
        for i, (_, request) in asked.items():
            predictions[i].fields[FIELD] = request.reason
        values = self.messages.write_all(predictions, Q)
        for (_, output, _), value in zip(batch.predictions, values, strict=True):
            output.value = value
        if keeps and receipts is not None:
            fair = None
            if self.requests is not None:
                fair = {i for i, (_, request) in asked.items() if request.reason == "random"}
            batch.keep(P, Q, receipts, fair)
        batch.score(P, Q, self.raw_scores, self.sent_scores)
        for i in asked:
            if (entry := batch.predictions[i][2]) is not None:
                self.open_requests.ask(entry.offset, entry.timestamp)
        return [
            request_record(batch.predictions[i][1], id, request, P[i].tolist(), Q[i].tolist())
            for i, (id, request) in asked.items()
        ]

    def _ask(self, batch: Batch, Q: Array) -> dict[int, tuple[bytes, LabelRequest]]:
        """The predictions of the batch whose label is asked for: number -> (id, why)."""
        if self.requests is None:
            return {}
        id_of = self.messages.id_of
        ids = [id_of(prediction.fields, output.key) for prediction, output, _ in batch.predictions]
        known = {i: id for i, id in enumerate(ids) if id is not None}
        said = self.requests.ask_many(known.values(), Q[list(known)])
        return {
            i: (id, request)
            for (i, id), request in zip(known.items(), said, strict=True)
            if request is not None
        }

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
        opened, raw, _ = self._open(records)
        rows = raw_bytes(raw)
        for record, says in zip(records, opened, strict=True):
            if isinstance(says, Prediction):
                self._keep(record, says).rows = rows[says.number]

    def _keep(self, record: Source, prediction: Prediction) -> Recent:
        """Put a prediction among the recent ones; its rows are filled in later."""
        entry = Recent(record.offset, record.timestamp)
        self._recent.add(self.messages.id_of(prediction.fields, record.key), entry)
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
        ids: list[bytes] | None = None
        arrays: dict[str, NDArray[Any]] = {"recent": np.empty((0, 0))}
        if recent:
            ids, arrays["recent"], arrays["receipts"] = self._recent.dump()
        return snapshot.encode(self._head(self.corrector.to_bytes(), ids, 0), arrays)

    def positions(self, learned: int = 0) -> bytes:
        """Positions and counts, for ``from_bytes`` with the replica of a learned log.

        Parameters
        ----------
        learned
            The offset of the log up to which it is folded.
        """
        return snapshot.encode(self._head(None, None, learned), {})

    def _head(
        self, corrector: bytes | None, ids: list[bytes] | None, learned: int
    ) -> dict[str, Any]:
        head = {
            "task": FORMAT,
            "corrector": corrector,
            "next_prediction": self.next_prediction,
            "next_label": self.next_label,
            "oldest": self.oldest,
            "counts": msgspec.to_builtins(self.counts),
            "ids": ids,
            "learned": learned,
        }
        if self.requests is not None:
            head["requests"] = self.requests.to_bytes()
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
            Where the bytes are truncated, corrupt, of a newer version or no task's, or do not match
            ``classes`` or ``settings``.
        """
        head, arrays = read_head(data)
        if head.corrector is None and replica is None:
            raise SnapshotMismatch("snapshot: positions alone; what was learned is in a log")
        if head.corrector is not None and replica is not None:
            raise LearnedAlone("snapshot: of a partition that learned alone")
        learned: Corrector | Replica
        if replica is not None:
            learned = replica
        else:
            learned = Corrector.from_bytes(head.corrector or b"", classes, **(settings or {}))
            try:
                Messages(learned.classes)
            except ValueError as error:
                raise SnapshotMismatch(f"snapshot: {error}") from None
        self = cls(
            learned,
            next_prediction=head.next_prediction,
            next_label=head.next_label,
            **options,
        )
        self.counts, self.learned = head.counts, head.learned
        if self.requests is not None and head.requests is not None:
            self.requests = self.requests.resumed(head.requests)
        if head.ids is not None:
            kept = (arrays.get("recent"), arrays.get("receipts"))
            self._recent.load(head.ids, *kept, head.next_prediction)
        elif self._labels_topic is not None and head.oldest < self.next_prediction:
            self._rebuild_from = head.oldest
        return self
