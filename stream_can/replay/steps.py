"""Steps: rows and late labels in stream order; before each row the labels due by then.

A label returns the receipt of its prediction, so that the sent row is judged.

Labels arrive a fixed number of rows late, or at their own times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.corrector import Corrector, Played
from stream_can.method.asking import LabelRequest, LabelRequests
from stream_can.method.receipts import NOT_FAIR, OF_ROW, gave_all, none_known
from stream_can.recording.recording import Chunk, Recording, Segments, given_by
from stream_can.recording.sparse import SparseRecording
from stream_can.replay.labels import Labels, join, on_their_way, split
from stream_can.replay.models import PlayedModels

__all__ = ["DRAW", "Arrivals", "Step", "check_arrival", "check_labels", "step_length", "steps"]

DRAW = b"which labels arrive"
FIRST_STEP, LAST_STEP = 64, 16_384
STEPS_PER_LENGTH = 256


class Arrivals(NamedTuple):
    """Labels in flight, for one step."""

    coming: int
    """Number of rows of the step whose label will arrive, possibly after the last row."""
    possible: int
    """The same if every label that the recording has were requested."""
    rows: NDArray[np.int64]
    """For each label learned in the step, the number of rows since its own."""
    time: NDArray[Any] | None
    """The same as time between prediction and label, where labels have their own times."""
    due: NDArray[np.int64]
    """For each label learned in the step, the row before which it was."""
    y: NDArray[np.int64]
    """For each label learned in the step, the index of its class."""
    fair: NDArray[np.bool_]
    """Rows of the step whose label will arrive, and not because of the row's content."""


class Step(NamedTuple):
    """Consecutive rows that went through the corrector."""

    first: int
    """Number of the first row, from 0."""
    P: NDArray[np.float64]
    """The predictions, shape (n, m)."""
    y: NDArray[np.int64]
    """Index of each row's class, -1 where unknown."""
    corrected: NDArray[np.float64]
    """Sent rows, shape (n, m)."""
    paths: NDArray[np.float64] | None
    """Rows of each path, shape (number of paths, n, m)."""
    time: NDArray[Any] | None
    """Time of each prediction, where known."""
    arrivals: Arrivals | None = None
    """Labels that set out and that arrived."""
    asked: Sequence[LabelRequest] = ()
    """Label requests of the step's rows, if any."""
    segments: Segments | None = None
    """Column values of each row, if the chunks have them."""
    inside: NDArray[np.bool_] | None = None
    """Whether each class is in each row's prediction set, if the corrector makes sets."""
    learned: NDArray[np.object_] | None = None
    """Column values of the predictions whose labels arrived."""


def check_labels(label_delay: int | None, label_rate: float) -> None:
    """Raise ValueError for an impossible delay or rate of labels."""
    if label_delay is not None and not 0 <= label_delay < 1 << 53:
        raise ValueError(f"label_delay: expected 0 or more rows, below 2^53, got {label_delay}")
    if not 0 <= label_rate <= 1:
        raise ValueError(f"label_rate: expected a share in [0, 1], got {label_rate}")


def check_arrival(recording: Recording | SparseRecording, label_delay: int | None) -> None:
    """Raise ValueError where nothing says when the labels of a recording arrive."""
    if label_delay is None and not recording.has_times:
        raise ValueError(
            "say when labels arrive: --label-delay ROWS, or --time COLUMN and --label-time COLUMN"
        )


def steps(
    chunks: Iterable[Chunk],
    corrector: Corrector | PlayedModels,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    requests: LabelRequests | None = None,
    explain: bool = True,
) -> Iterator[Step]:
    """Run chunks through a corrector, step by step.

    Parameters
    ----------
    chunks
        Rows in order: :meth:`Recording.chunks` or :func:`from_arrays`.
    corrector
        Learns; after a step it has the knowledge of the stream's corrector at that time. Or the
        correctors of several models.
    label_delay
        The label of row t - label_delay is learned after row t. None (or for chunks without times,
        0) where labels come at their own time: before a row, the labels of earlier rows whose time
        is not later than the row's, by label time, then row.
    label_rate
        Share of the labels that arrive at all, drawn at random by `seed`.
    requests
        If given, only labels that it requests arrive. It chooses among rows whose label would
        arrive, since the others can never answer: its budget is a share of these. See
        :func:`stream_can.replay.asking_for` for a share of all rows.
    explain
        Whether to return the rows of each path; takes about twice the time.

    Yields
    ------
    Step
        64 rows each at first, later more, at most 16,384.
    """
    check_labels(label_delay, label_rate)
    models = corrector if isinstance(corrector, PlayedModels) else None
    if models is not None and requests is not None:
        raise ValueError("requests: of several models no labels are asked for")
    rng = arrivals_rng(seed)
    waiting: list[Labels] = []
    for chunk in chunks:
        given = chunk.arrives & (rng.random(len(chunk.P)) < label_rate)
        run = _Run(chunk, given, waiting, label_delay, requests, corrector, models)
        start, end = chunk.first, chunk.first + len(chunk.P)
        while start < end:
            stop = min(end, start + step_length(start))
            yield run.step(start, stop, explain)
            start = stop
        waiting = run.waiting()


class _Run:
    """A chunk being processed.

    Labels learned within the chunk (``labels``, in order, processed up to ``done``) are separate
    from those that wait for later chunks (``late``).
    """

    def __init__(
        self,
        chunk: Chunk,
        given: NDArray[np.bool_],
        waiting: list[Labels],
        delay: int | None,
        requests: LabelRequests | None,
        corrector: Corrector | PlayedModels,
        models: PlayedModels | None,
    ) -> None:
        self.models = models
        one = corrector.latest if isinstance(corrector, PlayedModels) else corrector
        self.corrector = one
        """The corrector; with several models one of them."""
        self.lanes = np.zeros(len(chunk.P), np.int64) if models is None else models.of_rows(chunk)
        self.columns, self.values = one.segments, _values(chunk, one.segments)
        self.chunk, self.requests, self.first = chunk, requests, chunk.first
        self.by_time = delay is None and chunk.time is not None
        # A delay in rows makes some labels due right after the last row. With times or label
        # requests, only the next row shows whether a label is due.
        until = self.first + len(chunk.P) - (self.by_time or requests is not None)
        self.sets = one.sets is not None
        self.known = none_known(len(chunk.P), one.n_sent, sets=self.sets)
        coming = on_their_way(chunk, delay, given, self.values, self.known, self.lanes)
        parts = [*waiting, coming]
        self.labels, self.late = split(parts, chunk, self.by_time, until)
        self.done = 0
        self.given = given
        """Rows whose label arrives, or could until it is not requested."""
        self.asked = np.zeros(len(chunk.P), np.bool_)
        self.drawn = np.zeros(len(chunk.P), np.bool_)
        """Rows requested at random."""
        self.own = np.full(len(chunk.P), until + 1)
        """For each row the row before which its own label is learned, if in this chunk."""
        here = self.labels.row >= self.first
        self.own[self.labels.row[here] - self.first] = self.labels.due[here]

    def step(self, start: int, stop: int, explain: bool) -> Step:
        """Process rows ``start`` to ``stop``, in one call unless labels are requested.

        Whether a row's label is requested is known only after the row. So where one of the rows'
        own labels is due before ``stop``, the rows are split there.
        """
        parts, arrived, asked = list[Played](), list[Labels](), list[LabelRequest]()
        inside = []
        begin = start
        while begin < stop:
            until = stop if self.requests is None else self._before_own_labels(begin, stop)
            if self.models is not None:
                lanes = self.lanes[begin - self.first : until - self.first]
                until = begin + self.models.until_new(lanes)
            played, labels = self._play(begin, until, explain)
            parts.append(played)
            if self.sets and played.receipts is not None:
                inside.append(self.corrector.sets_of(played.rows, played.receipts))
            arrived.append(labels)
            if self.requests is not None:
                asked += self._ask(begin, played.rows)
            begin = until
        cut = slice(start - self.first, stop - self.first)
        chunk, learned = self.chunk, join(arrived)
        asks = self.requests is not None
        return Step(
            start,
            chunk.P[cut],
            chunk.y[cut],
            np.concatenate([played.rows for played in parts]),
            np.concatenate([p.paths for p in parts if p.paths is not None], 1) if explain else None,
            None if chunk.time is None else chunk.time[cut],
            Arrivals(
                int((self.asked if asks else self.given)[cut].sum()),
                int(self.given[cut].sum()),
                learned.due - learned.row - 1,
                learned.time - learned.asked if self.by_time else None,
                learned.due,
                learned.y,
                (self.drawn if asks else self.given)[cut],
            ),
            asked,
            self._segments(cut),
            np.concatenate(inside) if self.sets else None,
            self._given(learned),
        )

    def _segments(self, cut: slice) -> Segments | None:
        """Column values and models of rows."""
        found = given_by(self.chunk.segments, cut)
        if self.models is None:
            return found
        return {**(found or {}), self.models.title: self.models.text_of(self.lanes[cut])}

    def _given(self, learned: Labels) -> NDArray[np.object_] | None:
        """Column values, and models, of the predictions whose labels arrived."""
        if self.models is None:
            return learned.given if self.columns else None
        return np.column_stack([learned.given, self.models.text_of(learned.lane)])

    def _before_own_labels(self, start: int, stop: int) -> int:
        """End of a run of rows of which no label is learned within the run."""
        first_due = np.minimum.accumulate(self.own[start - self.first : stop - self.first])
        too_far = np.flatnonzero(first_due <= np.arange(start, stop))
        return start + int(too_far[0]) if len(too_far) else stop

    def _play(self, start: int, stop: int, explain: bool) -> tuple[Played, Labels]:
        """Run rows through the corrector, with the labels due between them.

        Rows of earlier steps whose labels are due now are passed in front of the new rows, with the
        kept numbers of their receipts.
        """
        # Requests among these rows are unknown yet: labels due after the last row wait.
        until = stop - (self.requests is not None)
        upto = int(np.searchsorted(self.labels.due, until, "right"))
        due = self.labels.take(np.arange(self.done, upto))
        self.done = upto
        cut = slice(start - self.first, stop - self.first)
        P = self.chunk.P[cut]
        # The corrector itself has the receipts of this step's rows.
        here, earlier = due.row >= start, (due.row < start) & (due.row >= self.first)
        if self.requests is not None:
            wanted = ~earlier
            wanted[earlier] = self.asked[due.row[earlier] - self.first]
            due, here, earlier = due.take(wanted), here[wanted], earlier[wanted]
        due.known[earlier] = self.known[due.row[earlier] - self.first]
        k = int((~here).sum())
        segments = None
        if self.columns:
            values = np.concatenate([due.given[~here], self.values[cut]])
            segments = {name: values[:, i] for i, name in enumerate(self.columns)}
        rows = np.concatenate([due.P[~here], P])
        of = np.where(here, due.row - start + k, np.cumsum(~here) - 1)
        options: dict[str, Any] = {
            "first": k, "known": due.known, "receipt": True, "explain": explain,
            "segments": segments,
        }  # fmt: skip
        if self.models is None:
            played = self.corrector.play(rows, due.y, of, due.due - start, **options)
        else:
            lanes = np.concatenate([due.lane[~here], self.lanes[cut]])
            played = self.models.play(rows, due.y, of, due.due - start, lanes=lanes, **options)
        assert played.receipts is not None
        ys = np.maximum(self.chunk.y[cut], 0)
        self.known[cut] = gave_all(played.receipts, ys, self.corrector.n_sent, sets=self.sets)
        return played, due

    def _ask(self, start: int, corrected: NDArray[np.float64]) -> list[LabelRequest]:
        """Request labels of rows just processed."""
        assert self.requests is not None
        at = start - self.first
        could = np.flatnonzero(self.given[at : at + len(corrected)])
        said = self.requests.ask_many((could + start).tolist(), corrected[could])
        self.asked[could + at] = [one is not None for one in said]
        self.drawn[could + at] = [one is not None and one.reason == "random" for one in said]
        if self.sets:
            self.known[could[~self.drawn[could + at]] + at, OF_ROW] = NOT_FAIR
        return [one for one in said if one is not None]

    def waiting(self) -> list[Labels]:
        """Labels learned after this chunk; call it after all rows."""
        for i, part in enumerate(self.late):
            mine = part.row >= self.first
            rows = part.row[mine] - self.first
            part.known[mine] = self.known[rows]
            if self.requests is not None and mine.any():
                wanted = ~mine
                wanted[mine] = self.asked[rows]
                self.late[i] = part.take(wanted)
        return [part for part in self.late if len(part.row)]


def _values(chunk: Chunk, columns: Sequence[str]) -> NDArray[np.object_]:
    """Values of a corrector's columns in the rows of a chunk, (n, columns)."""
    found = np.empty((len(chunk.P), len(columns)), object)
    for k, name in enumerate(columns):
        if chunk.segments is None or name not in chunk.segments:
            raise ValueError(
                f"segments: the corrector declares {name!r}, and the recording was opened without;"
                f" Recording(..., segments={list(columns)})"
            )
        found[:, k] = chunk.segments[name]
    return found


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
