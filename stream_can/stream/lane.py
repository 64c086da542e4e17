"""What corrects a stream: a corrector, how its messages are read, and what waits for labels.

A :class:`stream_can.stream.task.Task` has the positions of a partition, and takes its records in
their order; what a record is for, its lane does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.column_scores import ColumnScores
from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError, UnknownClass
from stream_can.messages.columns import table
from stream_can.messages.fields import Fields
from stream_can.messages.messages import (
    JSON,
    BadMessage,
    Formats,
    Label,
    Messages,
    Prediction,
)
from stream_can.messages.naming import UNNAMED, LaneName
from stream_can.messages.opening import Opened, Reading, open_records
from stream_can.messages.records import Header, Output, Source, headers_of
from stream_can.method.asking import LabelRequest, LabelRequests
from stream_can.method.promise import names_in_sets
from stream_can.method.receipts import blank
from stream_can.method.rows import rounded
from stream_can.scores import Scores
from stream_can.stream.batch import Batch, SetOf, Watched
from stream_can.stream.entry import LaneMark, OpenPart
from stream_can.stream.marks import Marks
from stream_can.stream.recent import Bound, Recent, RecentPredictions
from stream_can.stream.replica import BegunAnew, Replica
from stream_can.stream.requests import OpenRequests, request_record
from stream_can.stream.sent import sent_rows
from stream_can.stream.sets import Told, sets_under
from stream_can.trust.sets import PredictionSets, Ticket
from stream_can.version import __version__

__all__ = ["MOST_VALUES", "Lane"]

VERSION_HEADER = ("stream-can-version", __version__.encode())
MOST_VALUES = 1000
"""Of a column: when there are twice as many, those with fewest rows are no longer counted."""
NOTHING = Batch(np.empty((0, 0)))
"""In place of a batch where there is none: it takes nothing."""

Array = NDArray[np.float64]
_float_at = struct.Struct("=d").unpack_from


class Lane:
    """A corrector in the stream of a partition.

    Of a batch, :meth:`open` comes first; then each record in its order; then :meth:`run`.

    Parameters
    ----------
    corrector
        It, owned by the lane from now on; or the replica of a learned log, which the lane shares.
    fields, formats
        Where in the messages everything is, and in which formats they come.
    recent_bytes
        Bound of the recent predictions; None where no labels come for them.
    requests
        Asks for labels.
    begin
        The next offsets of input and labels.
    count_values
        Whether to add up what became of the values of columns, for :meth:`take_values`, and keep
        what became of labelled predictions, in ``watched``, until somebody takes it.
    name, fresh
        Its name in the log, where that has lanes, and what it may have to begin with there; see
        :meth:`Replica.start`.
    unchanged
        Whether ``fresh`` alone is no reason to change a row: the log does not have it.
    bound
        Of the recent predictions, where lanes share one.
    marks
        Of the predictions that have had their label; of all lanes.
    sets
        The share that prediction sets keep, where outputs are to have them; in a log that says it.
    set_tally
        Where to count rows with sets, the classes in these, labels of such rows, and those of them
        that are in their set, shape (4,).
    """

    def __init__(
        self,
        corrector: Corrector | Replica,
        *,
        fields: Fields | None = None,
        formats: Formats = JSON,
        recent_bytes: int | None = None,
        requests: LabelRequests | None = None,
        begin: tuple[int, int] = (0, 0),
        count_values: bool = False,
        name: LaneName = UNNAMED,
        fresh: bytes | None = None,
        unchanged: bool = False,
        bound: Bound | None = None,
        marks: Marks | None = None,
        sets: float | None = None,
        set_tally: Array | None = None,
    ) -> None:
        self._marks = Marks() if marks is None else marks
        self.name, self._fresh, self._unchanged = name, fresh, unchanged
        self._learner = corrector
        self._epoch = corrector.epoch if isinstance(corrector, Replica) else 0
        self.begun = self._begun_now()
        self.rows = 0
        """Predictions since it was made."""
        self.known: list[tuple[bytes, bytes, int, Any, int]] = []
        """Of several lanes, what of the last batch is to be scored; see :meth:`Batch.known`."""
        self.sets = sets_under(sets, self.corrector)
        """Prediction sets that are learned here; those of a log are the replica's."""
        self._miss = 0.0
        """The share that the sets of recent predictions were to miss."""
        self._set_tally = np.zeros(4) if set_tally is None else set_tally
        self.watched: list[Watched] = []
        """What became of labelled predictions, where ``watches``."""
        self.watches = count_values
        self.tally = np.zeros(5)
        """Of several lanes, of the predictions whose labels came and that are known as sent: how
        many, hits before and after, sums of log losses before and after."""
        self._told = np.zeros(6)
        self.since = 0
        """The timestamp of the first record that it had, in milliseconds."""
        own = self.corrector
        self.messages = Messages(own.classes, fields, own.train_prior, own.segments, formats)
        self._m, self._columns, self._n_sent = len(own.classes), own.segments, own.n_sent
        self.recent = RecentPredictions(
            self._m, recent_bytes or 0, len(self._columns), self._n_sent, bound
        )
        self._keeps = recent_bytes is not None
        self.requests, self.open_requests = requests, OpenRequests()
        self._requests_state: bytes | None = None
        self.raw_scores, self.sent_scores = Scores(), Scores()
        self._counted = self._columns if count_values else ()
        self._values = self._new_values()
        self._part = self._new_part(begin)
        self._batch = NOTHING
        self._added: list[Header] = []

    @property
    def corrector(self) -> Corrector:
        """What corrects the rows now."""
        learner = self._learner
        if not isinstance(learner, Replica):
            return learner
        if self.name == UNNAMED:
            return learner.corrector
        return (learner.lane(self.name) or learner.start(self.name, self._fresh)).corrector

    # ---- its place in a log that has lanes

    def _begun_now(self) -> int | None:
        """The offset of the entry by which it began in the log; None where it has not."""
        if self.name == UNNAMED or not isinstance(self._learner, Replica):
            return None
        lane = self._learner.lane(self.name)
        return None if lane is None else lane.begun

    def still_fits(self) -> bool:
        """Whether the lane can go on: it may have begun meanwhile, or been dropped, with what
        others saw of it first. Where its classes are the same it does."""
        if self.begun != (begun := self._begun_now()):
            if self.corrector.classes != self.messages.classes:
                return False
            self.begun = begun
        return True

    @property
    def idle(self) -> bool:
        """Whether nothing is known of it: the log does not have it, and no label is waited for."""
        return self.begun is None and self._part is None and not len(self.recent)

    @property
    def gathers(self) -> bool:
        """Whether something has been gathered since :meth:`take`, if only nothing to teach."""
        return self._part is not None

    def mark(self) -> LaneMark | None:
        """How entries name it; None where the log has no lanes."""
        if self.name == UNNAMED:
            return None
        if self.begun is not None:
            return LaneMark(*self.name, begun=self.begun)
        return LaneMark(*self.name, time=self.since, fresh=self._fresh)

    @property
    def _sends_unchanged(self) -> bool:
        learner = self._learner
        return (
            self._unchanged
            and self.begun is None
            and isinstance(learner, Replica)
            and learner.lane(self.name) is None
            and learner.start(self.name, self._fresh).after is None
        )

    @property
    def stale(self) -> bool:
        """Whether its log has begun anew since the lane was made."""
        return isinstance(self._learner, Replica) and self._learner.epoch != self._epoch

    def require_current(self) -> None:
        """Raise BegunAnew where the lane is stale."""
        if isinstance(self._learner, Replica) and self.stale:
            raise BegunAnew(
                f"the learned log began anew at offset {self._learner.epoch - 1}, and this task is"
                " of before: drop it and what it gave since positions were last stored, then make"
                " one from those"
            )

    # ---- a batch

    def open(
        self,
        records: Sequence[Source],
        reading: Reading,
        given: Sequence[Any] | None = None,
    ) -> tuple[list[Opened], int]:
        """Read what records say, and begin a batch; see :func:`open_records`.

        Returns
        -------
        What each says, and how many rows were divided by their sum.
        """
        self.require_current()
        if self._sets_now() is not None and reading.max_bytes is not None:
            reading = reading._replace(max_bytes=reading.max_bytes - self.messages.set_size)
        opened, rows, off = open_records(records, self.messages, reading, given)
        self._batch = Batch(rows, self._columns, self._n_sent)
        self._added = [VERSION_HEADER]
        if isinstance(self._learner, Replica):
            self._added.append(("stream-can-learned", b"%d" % self._learner.offset))
        return opened, off

    def output(self, record: Source) -> Output:
        """What goes out for a record, without its value as yet."""
        added = self._added
        headers = added
        if record.headers:
            kept = headers_of(record)
            if dropped := self.messages.predictions.dropped:
                kept = [header for header in kept if header[0] not in dropped]
            headers = kept + added
        return Output(record.key, None, headers, record.timestamp, record)

    def predict(self, record: Source, prediction: Prediction) -> Output:
        """Take a prediction; :meth:`run` gives its output a value."""
        output = self.output(record)
        self.rows += 1
        self.since = self.since or record.timestamp
        entry = self._keep(record, prediction) if self._keeps else None
        self._batch.predict(prediction, output, entry)
        return output

    def waiting(self, id: bytes | None) -> Recent | None:
        """The prediction of an id, where it waits for its label."""
        entry = self.recent.get(id)
        return None if entry is not None and entry.labelled else entry

    def repeats(self, id: bytes | None) -> bool:
        """Whether the prediction of an id has had its label: the first one counts."""
        entry = self.recent.get(id)
        return entry is not None and entry.labelled

    def learn(self, label: Label, place: tuple[int, int] | None) -> Recent | None:
        """Take a label; its prediction, where that is kept.

        Parameters
        ----------
        place
            Its own offset, and the next one of predictions as it is taken; None for a label that is
            scored by and not learned.
        """
        entry = self.waiting(label.id)
        if entry is not None:
            entry.labelled = True
            self._marks.mark(entry.offset)
        if place is not None:
            self._batch.learn(label, entry, place)
        elif entry is not None:
            self._batch.join(label, entry)
        return entry

    def run(self, next_prediction: int) -> tuple[list[Output], int]:
        """Run the batch through the corrector; fill in the outputs and what was sent.

        Parameters
        ----------
        next_prediction
            The offset of the one behind it.

        Returns
        -------
        The label requests, and how many of the batch's labels had been asked for.
        """
        batch, self._batch = self._batch, NOTHING
        if self._part is None:
            P, Q, receipts = batch.play(self.corrector)
        else:
            P, Q, receipts = batch.collect(self.corrector, self._part, self._keeps)
            if self._sends_unchanged:
                Q = P
                receipts = None if receipts is None else blank(len(P), self._m, self._n_sent)
        if (digits := self.messages.fields.digits) is not None:
            Q = rounded(Q, digits)
        if not np.isfinite(Q).all():  # JSON would say null
            raise StreamCANError("a corrected row is not finite: the corrector's state is damaged")
        asked = self._ask(batch, Q)
        predictions = [prediction for prediction, _, _ in batch.predictions]
        for i, (_, request) in asked.items():
            predictions[i].asked = request.reason
        if self._keeps and receipts is not None:
            fair = None
            if self.requests is not None:
                fair = {i for i, (_, request) in asked.items() if request.reason == "random"}
            batch.keep(P, Q, receipts, fair)
        if (inside := self._make_sets(batch, Q)) is not None:
            names = names_in_sets(inside, Q, self.messages.classes)
            for prediction, found in zip(predictions, names, strict=True):
                prediction.set = found
        values = self.messages.write_all(predictions, Q)
        for (_, output, _), value in zip(batch.predictions, values, strict=True):
            output.value = value
        if self.name == UNNAMED:
            batch.score(self.raw_scores, self.sent_scores, self._values)
            if self.watches and (watched := batch.watched()) is not None:
                self.watched.append(watched)
        else:
            self.known = batch.known()
            if self._values:
                batch.score(Scores(), Scores(), self._values)
        if self._values:
            batch.count(self._values)
        if self.requests is None:
            return [], 0
        for i in asked:
            if (entry := batch.predictions[i][2]) is not None:
                self.open_requests.ask(entry.offset, entry.timestamp)
        answered = self.open_requests.answer(batch.answered)  # its label may be in this batch too
        self.forget(next_prediction)
        classes = None if self.name == UNNAMED else list(self.messages.classes)
        show, requests = self.messages.predictions.show, []
        for i, (id, request) in asked.items():
            output, raw, sent = batch.predictions[i][1], P[i].tolist(), Q[i].tolist()
            message = show(output.value or b"null")
            requests.append(request_record(output, id, request, raw, sent, message, classes))
        return requests, answered

    # ---- prediction sets

    def _sets_now(self) -> PredictionSets | None:
        """What makes the sets of rows; None where they have none."""
        learner = self._learner
        if not isinstance(learner, Replica):
            return self.sets
        if self.name == UNNAMED or learner.lane(self.name) is not None:
            return learner.sets(self.name)
        return learner.start(self.name, self._fresh).sets

    def _make_sets(self, batch: Batch, Q: Array) -> NDArray[np.bool_] | None:
        """Whether each class is in the set of each row, (n, m), as it is sent; what there is to
        learn of them is learned, or gathered. None where rows have no sets."""
        sets, part = self._sets_now(), self._part
        if sets is None:
            return None
        if part is None:
            inside = self._play_sets(sets, batch, Q)
        else:
            if part.miss != sets.miss:  # another share than what was gathered: labels told of that
                part.told, part.miss = [None] * len(part.told), sets.miss
            if self._miss != sets.miss:
                self._miss = sets.miss
                for _, entry in self.recent:
                    entry.ticket = None
            inside, thetas = sets.now(Q)
            first = sets.rows + part.belief.rows
            tickets = [Ticket(theta, first + i) for i, theta in enumerate(thetas.tolist())]
            part.belief.add(Q)
            batch.sent_with(0, tickets)
            told = [self._set_of_label(one) for one in batch.label_sets()]
            part.told[len(part.told) - len(told) :] = told
        self._set_tally[:2] += len(Q), inside.sum()
        return inside

    def _play_sets(self, sets: PredictionSets, batch: Batch, Q: Array) -> NDArray[np.bool_]:
        """Rows and labels in their order."""
        inside, tickets = np.empty(Q.shape, bool), list[Ticket]()

        def make(end: int) -> None:
            first = len(tickets)
            if end > first:
                inside[first:end], made = sets.set_checked(Q[first:end])
                tickets.extend(made)
                batch.sent_with(first, made)

        for one in batch.label_sets():
            make(one.due)
            if (told := self._set_of_label(one)) is not None:
                sets.learn_known(*told)
        make(len(Q))
        return inside

    def _set_of_label(self, one: SetOf) -> Told | None:
        """What is known of the set that was sent with the row of a label."""
        found = one.sent()
        if found is None:
            return None
        row, ticket = found
        (p,) = _float_at(row, 8 * one.y)
        missed = ticket.missed(p)
        self._set_tally[2] += 1
        self._set_tally[3] += not missed or p == np.frombuffer(row).max()
        return Told(p, missed, ticket.row)

    def forget(self, next_prediction: int) -> None:
        """Give up the requests whose predictions are not kept any more."""
        oldest = self.recent.oldest
        self.open_requests.forget(next_prediction if oldest is None else oldest)

    def requests_state(self) -> bytes | None:
        """Where its label requests stand, for :meth:`LabelRequests.resumed`; None without any."""
        if self._requests_state is None and self.requests is not None:
            self._requests_state = self.requests.to_bytes()
        return self._requests_state

    def _ask(self, batch: Batch, Q: Array) -> dict[int, tuple[bytes, LabelRequest]]:
        """The predictions of the batch whose label is asked for: number -> (id, why)."""
        if self.requests is None:
            return {}
        id_of, self._requests_state = self.messages.id_of, None
        ids = [
            id_of(prediction.message, output.key, output.headers)
            for prediction, output, _ in batch.predictions
        ]
        known = {i: id for i, id in enumerate(ids) if id is not None}
        said = self.requests.ask_many(known.values(), Q[list(known)])
        return {
            i: (id, request)
            for (i, id), request in zip(known.items(), said, strict=True)
            if request is not None
        }

    def _keep(self, record: Source, prediction: Prediction) -> Recent:
        """Put a prediction among the recent ones; its rows are filled in later."""
        entry = Recent(record.offset, record.timestamp, self._m, given=prediction.given)
        id = self.messages.id_of(prediction.message, record.key, record.headers)
        self.recent.add(id, entry)
        return entry

    def keep_raw(self, sent: Sequence[tuple[Source, Prediction]]) -> None:
        """Keep predictions that were sent before, of which no more is known than their rows.

        They count among the rows of their values, since their labels will.
        """
        for record, prediction in sent:
            entry = self._keep(record, prediction)
            entry.rows = self._batch.raw[prediction.number]
            entry.labelled = record.offset in self._marks
        if self._values:
            given = table(self._columns, [prediction.given for _, prediction in sent])
            for name, column in self._values.items():
                column.came(given[name])

    def recall(self, outputs: Iterable[Source]) -> None:
        """Know again what was sent of recent predictions, and which labels were asked for."""
        for one in sent_rows(outputs, self.messages):
            entry = self.recent.get(one.id)
            if entry is None or one.raw not in (None, entry.raw):
                continue
            if self.requests is None:
                entry.recall(one.sent, True)
                continue
            entry.recall(one.sent, one.asked == b'"random"')
            self.open_requests.answer([entry.offset])  # of outputs with one id the last counts
            if one.asked is not None:
                self.open_requests.ask(entry.offset, entry.timestamp)

    def recall_labels(self, labels: Iterable[Source]) -> None:
        """Close the requests that these labels, taken before, have answered."""
        for record in labels:
            try:
                label = self.messages.read_label(record.value or b"", record.key, record.headers)
            except (BadMessage, UnknownClass):
                continue
            entry = self.recent.get(label.id)
            if entry is not None and record.timestamp >= entry.timestamp:
                self.open_requests.answer([entry.offset])

    # ---- what became of the values of columns

    def _new_values(self) -> dict[str, ColumnScores]:
        return {name: ColumnScores(MOST_VALUES) for name in self._counted}

    def take_values(self) -> dict[str, ColumnScores]:
        """Of each declared column, what became of its values since the last call."""
        values, self._values = self._values, self._new_values()
        return values

    def take_tally(self) -> Array:
        """Since the last call: predictions, those that are scored, hits before and after, sums of
        log losses before and after."""
        now = np.array([self.rows, *self.tally])
        before, self._told = self._told, now
        return now - before

    # ---- what there is to learn

    def _new_part(self, begin: tuple[int, int]) -> OpenPart | None:
        return OpenPart(self.corrector, *begin) if isinstance(self._learner, Replica) else None

    def begin(self, at: tuple[int, int]) -> None:
        """Gather what there is to learn from these offsets on, where nothing is gathered."""
        if self._part is None:
            self._part = self._new_part(at)

    def take(self, end: tuple[int, int] | None) -> OpenPart:
        """What the batches since the last call have to teach.

        ``end`` are the next offsets, from which on the next is gathered; None: from where
        :meth:`begin` says.
        """
        self.require_current()
        part, self._part = self._part, None if end is None else self._new_part(end)
        assert part is not None
        return part
