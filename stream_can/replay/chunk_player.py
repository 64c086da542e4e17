"""ChunkPlayer: plays a chunk of a recording, and before each row the labels due."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.learner import Corrected, LateLabel, Learner
from stream_can.learner.call import Explained
from stream_can.learner.model_name import ONLY, Name
from stream_can.recording.recording import Segments, segments_of_rows
from stream_can.replay.labels import Labels, RecordedRows, join, on_their_way, split
from stream_can.replay.model_columns import ModelColumns
from stream_can.replay.step import Arrivals, Step


class ChunkPlayer:
    """Plays a chunk of a recording through a learner, with the labels that arrive meanwhile.

    Labels learned within the chunk (``labels``, in order, played up to ``done``) are separate from
    those that wait for later chunks (``late``).
    """

    def __init__(
        self,
        events: RecordedRows,
        drawn: NDArray[np.bool_],
        waiting: list[Labels],
        delay: int | None,
        learner: Learner,
        models: ModelColumns | None,
        explain: Callable[[Any], Any],
    ) -> None:
        self.events, self.learner, self.models, self.explain = events, learner, models, explain
        self.first, n = events.first, len(events.rows)
        self.asks = learner.ask is not None
        self.lanes = None if models is None else models.of_rows(events)
        self.columns = _values(events, learner.segments)
        self.by_time = delay is None and events.time is not None
        # A delay in rows makes some labels due right after the last row. With times or label
        # requests, only the next row shows whether a label is due.
        until = self.first + n - (self.by_time or self.asks)
        self.sent = on_their_way(events, drawn, delay)
        self.labels, self.late = split([*waiting, self.sent], events, self.by_time, until)
        self.done = 0
        self.arriving = np.zeros(n, np.bool_)
        """Rows whose labels arrive, or could until they are not requested."""
        self.arriving[self.sent.row - self.first] = True
        self.asked = np.zeros(n, np.bool_)
        self.own_due = np.full(n, until + 1)
        """For each row the row before which its own label is learned, if in this chunk."""
        in_chunk = self.labels.row >= self.first
        np.minimum.at(
            self.own_due, self.labels.row[in_chunk] - self.first, self.labels.due[in_chunk]
        )
        self.number = learner.next_number - self.first
        """What a row's number among the learner's predictions has more."""
        first = np.minimum.accumulate(self.labels.row[::-1])[::-1]
        last = min((int(part.row.min()) for part in self.late if len(part.row)), default=until + 1)
        self.oldest = np.minimum(np.append(first, until + 1), last)
        """For each number of labels learned, the first row whose label is still to come."""

    def step(self, start: int, stop: int) -> Step:
        """Play rows ``start`` to ``stop``, in one call unless labels are requested.

        Whether a row's label is requested is known only after the row. So where one of the rows'
        own labels is due before ``stop``, the rows are split there.
        """
        calls, labels_of_calls = list[Corrected](), list[Labels]()
        begin = start
        while begin < stop:
            until = self._before_own_labels(begin, stop) if self.asks else stop
            corrected, labels = self._play(begin, until)
            calls.append(corrected)
            labels_of_calls.append(labels)
            begin = until
        cut, events = slice(start - self.first, stop - self.first), self.events
        labels = join(labels_of_calls)
        requests = [reason for call in calls for reason in call.asked]
        fair = self.arriving[cut]
        if self.asks:
            fair = np.array([reason == "random" for reason in requests])
        in_flight = self.sent.row[(self.sent.row >= start) & (self.sent.row < stop)] - self.first
        return Step(
            start,
            events.rows[cut],
            events.truth[cut],
            _joined([call.rows for call in calls]),
            _explained(calls),
            None
            if calls[0].sets is None
            else [names for call in calls for names in call.sets or ()],
            requests,
            None if events.time is None else events.time[cut],
            Arrivals(
                int(self.asked[in_flight].sum()) if self.asks else len(in_flight),
                len(in_flight),
                labels.row,
                labels.due,
                labels.time - labels.predicted if self.by_time else None,
                fair,
                None if events.weight is None else labels.weight,
            ),
            self._segments(cut),
            self._of_learned(calls),
            ONLY if self.lanes is None else self.lanes[stop - 1 - self.first],
            None if events.weight is None else events.weight[cut],
        )

    def _segments(self, cut: slice) -> Segments | None:
        """Column values and models of rows."""
        segments = segments_of_rows(self.events.segments, cut)
        if self.models is None or self.lanes is None:
            return segments
        return {**(segments or {}), self.models.title: _texts(self.lanes[cut])}

    def _of_learned(self, calls: list[Corrected]) -> list[tuple[str | None, ...]] | None:
        """Column values, and models, of the predictions whose labels arrived."""
        if not self.columns and self.models is None:
            return None
        none = (None,) * len(self.columns)
        return [
            (label.prediction.columns or none)
            + (() if self.models is None else (" ".join(filter(None, label.name)),))
            for call in calls
            for label in call.taught
        ]

    def _before_own_labels(self, start: int, stop: int) -> int:
        """End of a run of rows of which no label is learned within the run."""
        first_due = np.minimum.accumulate(self.own_due[start - self.first : stop - self.first])
        too_far = np.flatnonzero(first_due <= np.arange(start, stop))
        return start + int(too_far[0]) if len(too_far) else stop

    def _play(self, start: int, stop: int) -> tuple[Corrected, Labels]:
        """Play rows and the labels due between them."""
        # Requests among these rows are unknown yet: labels due after the last row wait.
        upto = int(np.searchsorted(self.labels.due, stop - self.asks, "right"))
        due = self.labels.take(np.arange(self.done, upto))
        self.done = upto
        cut, events = slice(start - self.first, stop - self.first), self.events
        if self.asks:
            due = self._answered(due)
        ids = [
            i if arriving else None
            for i, arriving in enumerate(self.arriving[cut].tolist(), start=start)
        ]
        lanes = None if self.lanes is None else self.lanes[cut]
        classes, at = due.label.tolist(), (due.due - start).tolist()
        labels = list(map(LateLabel, due.row.tolist(), classes, at))
        if events.weight is not None:
            for late, weight in zip(labels, due.weight.tolist(), strict=True):
                late.weight = weight
        try:
            corrected = self.learner.play(
                ids,
                events.rows[cut],
                labels,
                segments={name: values[cut] for name, values in self.columns.items()} or None,
                lanes=lanes,
                indexed=due.label.dtype.kind == "i",
                explain=self.explain(events.truth[cut]),
            )
        except (InvalidPrediction, UnknownClass) as error:
            raise type(error)(_of_recording(str(error), start)) from None
        if self.asks:
            self.asked[cut] = [reason is not None for reason in corrected.asked]
        self.learner.forget_before(self.number + min(stop, int(self.oldest[upto])))
        return corrected, due

    def _answered(self, labels: Labels) -> Labels:
        """Those that were requested; of earlier chunks only these wait."""
        in_chunk = labels.row >= self.first
        answered = ~in_chunk
        answered[in_chunk] = self.asked[labels.row[in_chunk] - self.first]
        return labels.take(answered)

    def waiting(self) -> list[Labels]:
        """Labels learned after this chunk; call it after all rows."""
        late = [self._answered(part) for part in self.late] if self.asks else self.late
        return [part for part in late if len(part.row)]


def _values(events: RecordedRows, columns: Sequence[str]) -> dict[str, list[str | None]]:
    """Values of declared columns."""
    columns_read = {}
    for name in columns:
        if events.segments is None or name not in events.segments:
            raise ValueError(
                f"segments: the corrector declares {name!r}, and the recording was opened without;"
                f" Recording(..., segments={list(columns)})"
            )
        columns_read[name] = events.segments[name].tolist()
    return columns_read


def _of_recording(message: str, start: int) -> str:
    """What a learner says of the rows of a call from ``start`` on and of labels by their ids, the
    numbers of rows, as it is said of a recording, which counts from 1."""
    message = re.sub(r"^row (\d+)", lambda match: f"row {start + int(match[1]) + 1}", message)
    return re.sub(r"^label of (\d+)", lambda match: f"row {int(match[1]) + 1}: label", message)


def _texts(lanes: Sequence[Name]) -> NDArray[np.object_]:
    """Names of models and versions as text."""
    texts = np.empty(len(lanes), object)
    texts[:] = [" ".join(filter(None, name)) for name in lanes]
    return texts


def _joined(parts: list[Any]) -> Any:
    """Sent rows of several calls."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [row for part in parts for row in part]


def _explained(calls: list[Corrected]) -> list[Explained]:
    """What explains the rows of several calls, with the rows' places within all of them."""
    explanations, first = [], 0
    for call in calls:
        n = len(call.asked)
        for rows, explained in call.explained:
            at = slice(first, first + n) if rows is None else [first + i for i in rows]
            explanations.append(Explained(at, explained))
        first += n
    return explanations
