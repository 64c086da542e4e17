"""What the records of one batch ask of the corrector, in their order."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.column_scores import HITS, LOSSES, ColumnScores, outcomes
from stream_can.corrector import Corrector
from stream_can.messages.columns import Given, Table, table
from stream_can.messages.messages import Label, Prediction
from stream_can.messages.records import Output
from stream_can.method.receipts import ROWS, gave, gave_row, joined
from stream_can.scores import Scores
from stream_can.stream.entry import OpenPart
from stream_can.stream.recent import Recent, raw_bytes, row_bytes
from stream_can.trust.sets import Ticket

__all__ = ["Batch", "Watched"]

Array = NDArray[np.float64]
Receipts = NDArray[np.float32]
Values = Mapping[str, ColumnScores]
"""By the name of each declared column."""
Watched = tuple[Array, Array, Array]
"""What :meth:`Alarm.learn_outcomes <stream_can.trust.alarm.Alarm.learn_outcomes>` takes."""


class SetOf(NamedTuple):
    """Of a label, how to find the prediction set that was sent with its row."""

    due: int
    """After how many predictions it is learned."""
    y: int
    sent: Callable[[], tuple[bytes, Ticket] | None]
    """The row as it was sent, m float64, and what its set was made with, where that is known."""


def _unknown() -> None:
    """Of a label without its prediction."""


class Batch:
    """Predictions to correct and labels to learn, gathered for one call of the compiled loop.

    Parameters
    ----------
    rows
        The rows of the opened records, shape (n, m), to which the records' numbers refer.
    columns
        The declared columns.
    n_sent
        Rows of a receipt.
    """

    def __init__(self, rows: Array, columns: Sequence[str] = (), n_sent: int = ROWS) -> None:
        self._columns, self._n_sent = columns, n_sent
        self.predictions: list[tuple[Prediction, Output, Recent | None]] = []
        self._rows, self._m = rows, rows.shape[1]
        # Rows of labels that are none of this batch's predictions, and what they gave of columns.
        self._earlier: list[bytes] = []
        self._earlier_given: list[Given | None] = []
        # Of each label: the class, the number of its row, whether that is among the predictions
        # or the earlier rows, and after how many predictions it is learned; and the receipt of its
        # prediction, where that is of an earlier batch and known.
        self._labels: list[tuple[int, int, bool, int]] = []
        self._receipts: list[bytes | None] = []
        # Where each label lies, and which prediction comes next as it does.
        self._places: list[tuple[int, int]] = []
        # The kept prediction of each label, where there is one.
        self._owners: list[Recent | None] = []
        # To be scored: kept predictions whose labels came.
        self._joined: list[tuple[Recent, int]] = []

    def predict(self, prediction: Prediction, output: Output, entry: Recent | None) -> None:
        """A prediction, to be corrected here; ``entry`` where it is kept for its label."""
        number = len(self.predictions)
        self.predictions.append((prediction, output, entry))
        if entry is not None:
            entry.number = number

    def join(self, label: Label, entry: Recent) -> None:
        """A label whose prediction is kept: what was sent is scored."""
        self._joined.append((entry, label.index))

    @property
    def answered(self) -> list[int]:
        """Offsets of the kept predictions whose labels came, those of this batch included."""
        return [entry.offset for entry, _ in self._joined]

    def learn(self, label: Label, entry: Recent | None, place: tuple[int, int]) -> None:
        """A label, to be learned here; ``entry`` is its prediction, where that is kept.

        Its place is its own offset, and the next one of predictions as it is taken.
        """
        of, here, row, receipt, given = -1, False, None, None, None
        if entry is not None:
            self.join(label, entry)
            of, here, given = entry.number, not entry.rows, entry.given
            row, receipt = (None, None) if here else (entry.raw, entry.receipt)
        if label.number >= 0:  # the row that it brings goes before another that was kept
            brought = self._rows[label.number].tobytes()
            kept = self._rows[self.predictions[of][0].number].tobytes() if here else row
            if brought != kept:
                here, row, receipt, given = False, brought, None, label.given
        if row is not None:
            of = len(self._earlier)
            self._earlier.append(row)
            self._earlier_given.append(given)
        self._labels.append((label.index, of, here, len(self.predictions)))
        self._receipts.append(receipt)
        self._places.append(place)
        self._owners.append(entry)

    @cached_property
    def raw(self) -> list[bytes]:
        """One of :func:`row_bytes` for each row, of which no more is known."""
        return raw_bytes(self._rows, self._n_sent)

    def _predicted(self) -> Array:
        """The rows of the predictions, shape (n, m)."""
        if len(self.predictions) == len(self._rows):
            return self._rows
        return self._rows[[prediction.number for prediction, _, _ in self.predictions]]

    def _segments(self, earlier: Sequence[Given | None] = ()) -> Table | None:
        """What earlier rows and the predictions give of the columns; None where there are none."""
        if not self._columns:
            return None
        if not earlier:
            return self._came
        return table(self._columns, [*earlier, *self._given(range(len(self.predictions)))])

    def collect(
        self, corrector: Corrector, part: OpenPart, keeps: bool
    ) -> tuple[Array, Array, Receipts | None]:
        """Correct, and let the part have what there is to learn; as :meth:`play` otherwise."""
        P, segments = self._predicted(), self._segments()
        if not keeps:  # there are no labels
            return P, corrector.correct_and_sum(P, part.sums, segments=segments), None
        sent, receipts = corrector.correct_and_sum(P, part.sums, receipt=True, segments=segments)
        labels = zip(self._labels, self._receipts, self._places, strict=True)
        for (y, of, here, _), receipt, (offset, taken) in labels:
            if here:
                row, given = P[of].tobytes(), self.predictions[of][0].given
                part.add(offset, taken, y, gave_row(receipts, of, y, self._n_sent), row, given)
                continue
            known = gave(receipt, y, self._n_sent)
            if of >= 0:
                part.add(offset, taken, y, known, self._earlier[of], self._earlier_given[of])
            else:
                part.add(offset, taken, y, known, None)
        return P, sent, receipts

    def play(self, corrector: Corrector) -> tuple[Array, Array, Receipts | None]:
        """Correct and learn: the rows of the predictions, what was made of them, and receipts."""
        P, first = self._predicted(), len(self._earlier)
        flat = np.fromiter(chain.from_iterable(self._labels), np.int64, 4 * len(self._labels))
        ys, of, here, due = flat.reshape(-1, 4).T.copy()
        played = corrector.play(
            np.concatenate([self._matrix(self._earlier), P]) if first else P,
            ys,
            of + first * here,
            due,
            first=first,
            known=self._known(),
            receipt=True,
            segments=self._segments(self._earlier_given),
        )
        return P, played.rows, played.receipts

    def _known(self) -> NDArray[np.float32] | None:
        """What is known of each label of an earlier prediction, shape (labels, n_sent + 1)."""
        if not any(self._receipts):
            return None
        labels, rows = zip(self._labels, self._receipts, strict=True), self._n_sent
        return joined((gave(receipt, y, rows) for (y, *_), receipt in labels), rows=rows)

    def keep(
        self, P: Array, sent: Array, receipts: Receipts, fair: Container[int] | None = None
    ) -> None:
        """Fill in the rows of the kept predictions.

        ``fair`` are those whose labels are a sample to score by; all where it is None.
        """
        rows = row_bytes(P, sent, receipts)
        for i, (_, _, entry) in enumerate(self.predictions):
            if entry is not None:
                entry.rows, entry.fair = rows[i], fair is None or i in fair

    def sent_with(self, first: int, tickets: Sequence[Ticket]) -> None:
        """The prediction sets of the predictions from this one on; after :meth:`keep`."""
        for (_, _, entry), ticket in zip(self.predictions[first:], tickets, strict=False):
            if entry is not None:
                entry.ticket = ticket

    def label_sets(self) -> Iterator[SetOf]:
        """Of each label what is known of its prediction's set, once all before it have theirs."""
        for (y, _, _, due), owner in zip(self._labels, self._owners, strict=True):
            yield SetOf(due, y, _unknown if owner is None else owner.set_sent)

    def known(self) -> list[tuple[bytes, bytes, int, Given | None, int]]:
        """Of the kept predictions whose labels came and that are known as sent: the raw row, the
        one sent, the label's column, what was given of the columns, and the timestamp; after
        :meth:`keep`."""
        return [
            (entry.raw, was, y, entry.given, entry.timestamp)
            for entry, y in self._joined
            if (was := entry.sent) is not None
        ]

    def watched(self) -> Watched | None:
        """What the alarm learns of the predictions whose labels came and that are known as sent;
        None where there are none. After :meth:`keep`."""
        rows = self.known()
        if not rows:
            return None
        raw, after, ys, _, times = zip(*rows, strict=True)
        both = self._matrix(raw)
        both = both / both.sum(axis=1, keepdims=True)
        found = outcomes(both, self._matrix(after), np.array(ys))
        wrong, loss = 1 - found[:, HITS : HITS + 2], found[:, LOSSES : LOSSES + 2]
        return wrong, loss, np.array(times, np.float64)

    def score(self, before: Scores, after: Scores, values: Values) -> None:
        """Add the predictions whose labels came to the scores; after :meth:`keep`."""
        if known := self.known():
            raw, was_sent, ys, given, _ = zip(*known, strict=True)
            add(self._matrix(raw), self._matrix(was_sent), ys, given, before, after, values)

    def count(self, values: Values) -> None:
        """Add the predictions, and the labels whose prediction is known, to their values."""
        learned = table(self._columns, [entry.given for entry, _ in self._joined])
        for name, column in values.items():
            column.came(self._came[name])
            column.learned(learned[name])

    @cached_property
    def _came(self) -> Table:
        """What the predictions gave of the columns, once all are there."""
        return table(self._columns, self._given(range(len(self.predictions))))

    def _given(self, numbers: Iterable[int]) -> list[Given | None]:
        """What these of the predictions gave of the columns."""
        return [self.predictions[number][0].given for number in numbers]

    def _matrix(self, rows: Sequence[bytes]) -> Array:
        return np.frombuffer(b"".join(rows)).reshape(-1, self._m)


def add(
    raw: Array,
    sent: Array,
    ys: Sequence[int],
    given: Sequence[Given | None],
    before: Scores,
    after: Scores,
    values: Values,
) -> None:
    """Add rows, their labels and what they gave of the columns to the scores before and after."""
    y, raw = np.array(ys), raw / raw.sum(axis=1, keepdims=True)
    before.add_checked(raw, y)
    after.add_checked(sent, y)
    if values:
        found = outcomes(raw, sent, y)
        for name, texts in table(tuple(values), given).items():
            values[name].scored(texts, found)
