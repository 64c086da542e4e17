"""Steps: rows and late labels go through a learner in stream order, before each row the labels due.

Labels arrive a fixed number of rows late, or at their own times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import InvalidPrediction, StreamCANError, UnknownClass
from stream_can.learner import Corrected, LateLabel, Learner
from stream_can.learner.lane import ONLY, Explained, Name
from stream_can.recording.recording import Segments, segments_of_rows
from stream_can.replay.labels import Labels, RecordedRows, join, on_their_way, split
from stream_can.row_kinds import AnyCorrector, part

__all__ = [
    "Arrivals", "ModelColumns", "Step", "arrivals_rng", "check_arrival", "check_labels",
    "learner_of", "step_length", "steps",
]  # fmt: skip

ALL_MB = 1 << 30
DRAW = b"which labels arrive"
FIRST_STEP, LAST_STEP = 64, 16_384
STEPS_PER_LENGTH = 256


class ModelColumns(NamedTuple):
    """Columns that name the model and version of each row; one may be None."""

    model: str | None
    version: str | None

    @property
    def columns(self) -> list[str]:
        """Those that are named."""
        return [name for name in self if name is not None]

    @property
    def title(self) -> str:
        """Name of the column with the scores of each model."""
        return " ".join(self.columns)

    def of_rows(self, events: RecordedRows) -> list[Name]:
        """Model and version of each row; StreamCANError where a row names none."""
        names_by_column: list[list[str | None]] = []
        for named_part, name in zip(("model", "version"), self, strict=True):
            if name is None:
                names_by_column.append([None] * len(events.rows))
                continue
            texts = (events.segments or {})[name].tolist()
            if None in texts:
                row = events.first + texts.index(None) + 1
                raise StreamCANError(f"row {row}: no {name!r}, which names the {named_part}")
            names_by_column.append(texts)
        return list(zip(*names_by_column, strict=True))


class Arrivals(NamedTuple):
    """Labels in flight, for one step."""

    coming: int
    """Number of messages about rows of the step that will arrive, possibly after the last row."""
    possible: int
    """The same if every label that the recording has were requested."""
    row: NDArray[np.int64]
    """For each label learned in the step, the number of its row."""
    due: NDArray[np.int64]
    """For each label learned in the step, the row before which it was."""
    time: NDArray[Any] | None
    """Time between prediction and label, where labels have their own times."""
    fair: NDArray[np.bool_]
    """Rows of the step whose label will arrive, and not because of the row's content."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """For each label learned in the step, the number of rows since its own."""
        delays: NDArray[np.int64] = self.due - self.row - 1
        return delays


NO_ARRIVALS = Arrivals(
    0, 0, np.zeros(0, np.int64), np.zeros(0, np.int64), None, np.zeros(0, np.bool_)
)


class Step(NamedTuple):
    """Consecutive rows that went through the learner."""

    first: int
    """Number of the first row, from 0."""
    rows: Any
    """The n predictions, as the recording has them."""
    truth: Any
    """Their known labels, in the terms of their kind."""
    corrected: Any
    """Sent rows."""
    explained: Sequence[Explained] = ()
    """What explains the rows, see :meth:`Learner.play`."""
    sets: list[list[Any]] | None = None
    """Names in the prediction set of each row, if the corrector makes sets."""
    asked: Sequence[Any] = ()
    """Why the label of each row was requested; None where it was not."""
    time: NDArray[Any] | None = None
    """Time of each prediction, where known."""
    arrivals: Arrivals = NO_ARRIVALS
    """Labels that set out and that arrived."""
    segments: Segments | None = None
    """Column values of each row, and its model, if the recording has them."""
    learned: list[tuple[str | None, ...]] | None = None
    """Column values, and model, of the predictions whose labels arrived."""
    lane: Name = ONLY
    """Model and version of the last row."""
    changed: int = 0
    """Number of messages that contradict an earlier one."""


def check_labels(label_delay: int | None, label_rate: float) -> None:
    """Raise ValueError for an impossible delay or rate of labels."""
    if label_delay is not None and not 0 <= label_delay < 1 << 53:
        raise ValueError(f"label_delay: expected 0 or more rows, below 2^53, got {label_delay}")
    if not 0 <= label_rate <= 1:
        raise ValueError(f"label_rate: expected a share in [0, 1], got {label_rate}")


def check_arrival(recording: Any, label_delay: int | None) -> None:
    """Raise ValueError where nothing says when the labels of a recording arrive."""
    if label_delay is None and not recording.has_times:
        raise ValueError(
            "label_delay: say when labels arrive: --label-delay ROWS, or --time COLUMN and"
            " --label-time COLUMN"
        )


def steps(
    chunks: Iterable[Any],
    learner: Learner | AnyCorrector,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    models: ModelColumns | None = None,
    explain: bool = True,
) -> Iterator[Step]:
    """Run the rows of a recording through a corrector, step by step.

    Parameters
    ----------
    chunks
        Rows in order: :meth:`Recording.chunks` or :func:`from_arrays`.
    learner
        A corrector, or a new learner of ``learner_of``; after a step it has the knowledge of
        the stream's at that time. Where a learner asks for labels, only those come that it asks
        for. It chooses among rows whose label would arrive, since the others can never answer: its
        share is one of these. See :func:`stream_can.replay.asking_for` for a share of all rows.
    label_delay
        The label of row t - label_delay is learned after row t. None (or for chunks without times,
        0) where labels come at their own time: before a row, the labels of earlier rows whose time
        is not later than the row's, by label time, then row.
    label_rate
        Share of the rows whose labels arrive at all, drawn at random by `seed`.
    models
        Columns that name the models.
    explain
        Whether to explain the rows of each path, see :meth:`Learner.play`; takes about twice the
        time.

    Yields
    ------
    Step
        64 rows each at first, later more, at most 16,384.
    """
    check_labels(label_delay, label_rate)
    rng = arrivals_rng(seed)
    waiting: list[Labels] = []
    if not isinstance(learner, Learner):
        learner = learner_of(learner)
    shown = part(learner.row_kind, "replay")
    explained = partial(shown.Result.explain, paths=explain)
    for chunk in chunks:
        events = shown.events(chunk)
        drawn = rng.random(len(events.rows)) < label_rate
        run = _Run(events, drawn, waiting, label_delay, learner, models, explained)
        start, end = events.first, events.first + len(events.rows)
        while start < end:
            stop = min(end, start + step_length(start))
            yield run.step(start, stop)
            start = stop
        waiting = run.waiting()


class _Run:
    """A chunk being played.

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
            ),
            self._segments(cut),
            self._of_learned(calls),
            ONLY if self.lanes is None else self.lanes[stop - 1 - self.first],
            events.changed if start == self.first else 0,
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


def learner_of(corrector: AnyCorrector, ask: float | None = None) -> Learner:
    """A learner for a replay: predictions are dropped as soon as no label of theirs can come, not
    for want of memory; and the replay itself keeps score.

    Parameters
    ----------
    corrector
        It learns.
    ask
        Share of the labels to request.
    """
    return Learner(corrector, recent_mb=ALL_MB, ask=ask, scores=False)


def arrivals_rng(seed: int) -> np.random.Generator:
    """Random generator for arriving labels, one uniform number per row.

    Not ``default_rng(seed)`` itself: data simulated with the same generator would lose the labels
    of some classes and keep those of others, since its uniforms also drew the classes.
    """
    return np.random.default_rng([seed, *DRAW])


def step_length(start: int) -> int:
    """Rows of a step: 64 at first, later 1/512 to 1/256 of the rows before, at most 16,384."""
    size = FIRST_STEP
    while size < LAST_STEP and start >= 2 * size * STEPS_PER_LENGTH:
        size *= 2
    return size
