"""Replay of rows that list the likeliest of very many classes."""

from __future__ import annotations

import heapq
import time as clock
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stream_can.change import Changes
from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.recording.sparse import SparseChunk, SparseRecording
from stream_can.recording.table import InvalidRecording
from stream_can.replay.delays import Delays
from stream_can.replay.effect import Effects
from stream_can.replay.episodes import milliseconds, told, worse_in_words
from stream_can.replay.result import Replay
from stream_can.replay.several import MultiLabelReplay
from stream_can.replay.steps import arrivals_rng, step_length
from stream_can.replay.verdict import FEW, Verdict, conclusion, late_labels
from stream_can.sparse import SparseCorrector, SparseScores
from stream_can.sparse.scores import rank_of, unlisted
from stream_can.trust.alarm import Alarm

__all__ = ["AnyReplay", "SparseMoment", "SparseReplay", "judge_sparse", "sparse_replay"]


class SparseMoment(NamedTuple):
    """The stream during one step."""

    row: int
    """Number of rows so far."""
    time: Any
    """Time of the step's last prediction; None where unknown."""
    labelled: int
    """Number of rows of the step with a known label."""
    hits: tuple[float, float]
    """Number of those that were right: raw, corrected."""
    losses: tuple[float, float]
    """Sums of their log losses: raw, corrected."""
    squares: tuple[float, float]
    """Sums of the squares of these."""


class SparseReplay:
    """Result: scores before and after, and their course.

    Parameters
    ----------
    corrector
        The corrector; it has the final state after the last row.
    """

    def __init__(self, corrector: SparseCorrector) -> None:
        self.corrector = corrector
        self.raw, self.corrected = SparseScores(), SparseScores()
        self.moments: list[SparseMoment] = []
        self.rows = self.coming = self.learned = 0
        self.classes_listed = 0
        """Total number of classes listed by rows."""
        self.seconds = 0.0
        self.delay = ""
        """Description of the label delay."""
        self.dates = False
        """Whether times of moments are dates."""
        self.delay_rows, self.delay_time = Delays(), Delays()
        self.alarm = Alarm()
        """Detects a worse classifier."""

    def changes(self) -> Changes | None:
        """Changes of accuracy and log loss; None without labelled rows."""
        pairs = [
            np.array([getattr(moment, what) for moment in self.moments]).reshape(-1, 2)
            for what in ("hits", "losses")
        ]
        sides = ([pair[:, side] for pair in pairs] for side in (0, 1))
        return Changes.of_sums([moment.labelled for moment in self.moments], *sides)

    def to_dict(self) -> dict[str, Any]:
        """The result without its course, as JSON."""
        return {
            "rows": self.rows,
            "labelled": self.raw.n,
            "learned": self.learned,
            "classes": self.corrector.n_classes,
            "listed_a_row": self.classes_listed / self.rows if self.rows else None,
            "label_delay": self.delay,
            "raw": self.raw.summary(),
            "corrected": self.corrected.summary(),
            "weights": self.corrector.weights,
            "final_weights": self.corrector.final_weights,
            "episodes": told(self.alarm, dates=self.dates),
            "delays": {"coming": self.coming, "rows": self.delay_rows.summary()},
            "seconds": self.seconds,
        }


AnyReplay = Replay | MultiLabelReplay | SparseReplay
"""A replay of rows of any sort."""


class _Late(NamedTuple):
    """A label in flight."""

    due: Any
    """Row before which, or time at which, it is due."""
    number: int
    row: dict[Any, float]
    label: Any
    receipt: Any


def sparse_replay(
    recording: SparseRecording,
    corrector: SparseCorrector,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    progress: Callable[[int], object] = lambda rows: None,
) -> SparseReplay:
    """Replay a recording through a corrector, with the parameters of
    :func:`stream_can.replay.replay`.

    Every row with a known label is scored as it was sent; an unlisted label by its share of the
    rest.

    Raises
    ------
    InvalidRecording
        A row or label is invalid; the message names it.
    """
    started = clock.perf_counter()
    result, rng = SparseReplay(corrector), arrivals_rng(seed)
    waiting: list[_Late] = []
    for chunk in recording.chunks():
        n, by_time = len(chunk.rows), label_delay is None and chunk.time is not None
        given = chunk.arrives & (rng.random(n) < label_rate)
        start = 0
        while start < n:
            stop = min(n, start + step_length(chunk.first + start))
            _step(result, chunk, start, stop, given, waiting, label_delay, by_time, recording.name)
            progress(stop - start)
            start = stop
    while waiting and label_delay is not None and waiting[0].due <= result.rows:
        _learn(result, heapq.heappop(waiting), result.rows)
    result.dates = recording.dates
    result.delay = "at their own time" if label_delay is None else f"{label_delay:,} rows late"
    result.seconds = clock.perf_counter() - started
    return result


def _step(
    result: SparseReplay,
    chunk: SparseChunk,
    start: int,
    stop: int,
    given: Any,
    waiting: list[_Late],
    delay: int | None,
    by_time: bool,
    name: str,
) -> None:
    """Process a chunk: before each row the labels due."""
    corrector, found = result.corrector, list[tuple[float, float, float, float]]()
    for i in range(start, stop):
        number, row, label = chunk.first + i, chunk.rows[i], chunk.labels[i]
        now = chunk.time[i] if by_time and chunk.time is not None else number
        while waiting and waiting[0].due <= now:
            _learn(result, heapq.heappop(waiting), number)
        try:
            better, receipt = corrector.process_one(row, receipt=True)
            if label is not None:
                raw = _rank(row, label) or (-1, unlisted([*row.values()], corrector.m))
                sent = _rank(better.probabilities, label)
                if sent is None:
                    rest = min(max(better.rest, 0.0), 1.0)
                    sent = -1, corrector.tail(label, [*better.probabilities], rest)
                found.append((*raw, *sent))
        except (InvalidPrediction, UnknownClass, ValueError) as error:
            raise InvalidRecording(f"{name}: row {number + 1}: {error}") from None
        result.classes_listed += len(row)
        if given[i]:
            due = number + 1 + (delay or 0)
            if by_time and chunk.label_time is not None:
                due = chunk.label_time[i]
            heapq.heappush(waiting, _Late(due, number, row, label, receipt))
    result.coming += int(given[start:stop].sum())
    result.rows = chunk.first + stop
    scores = np.array(found).reshape(-1, 2, 2)
    before, after = [
        one.add_checked(scores[:, side, 0], scores[:, side, 1])
        for side, one in enumerate((result.raw, result.corrected))
    ]
    when = None
    if chunk.time is not None:
        known = [label is not None for label in chunk.labels[start:stop]]
        when = milliseconds(chunk.time[start:stop][known])
    result.alarm.learn_scored(before, after, when)
    time = None if chunk.time is None else chunk.time[stop - 1]
    result.moments.append(
        SparseMoment(
            result.rows, time, len(scores),
            (float(before.hits.sum()), float(after.hits.sum())),
            (float(before.losses.sum()), float(after.losses.sum())),
            (float(before.losses @ before.losses), float(after.losses @ after.losses)),
        )
    )  # fmt: skip


def _learn(result: SparseReplay, late: _Late, now: int) -> None:
    result.corrector.learn_one(late.row, late.label, receipt=late.receipt)
    result.learned += 1
    result.delay_rows.add(np.array([now - late.number - 1]))


def _rank(row: dict[Any, float], label: Any) -> tuple[float, float] | None:
    return rank_of([*row], [*row.values()], label)


def judge_sparse(result: SparseReplay) -> Verdict:
    """Judge whether to use the corrector on this stream, by the rules of
    :func:`stream_can.replay.judge`."""
    raw, after = result.raw, result.corrected
    changes = result.changes()
    if raw.n < FEW or changes is None:
        few = (
            f"Too few labels to say: {raw.n:,} rows have one, and below {FEW} any difference may be"
            " chance. Replay a longer recording."
        )
        return Verdict(few, "", (), False)
    effects = Effects.of(changes)
    numbers = (
        f"accuracy {100 * raw.accuracy:.2f} % before and {100 * after.accuracy:.2f} % after, log"
        f" loss {raw.log_loss:.4f} before and {after.log_loss:.4f} after: {changes.in_words()}"
    )
    lists = (
        f"The rows list the label in {100 * raw.listed:.1f} % as they came and in"
        f" {100 * after.listed:.1f} % as they were sent; among the first five it is in"
        f" {100 * raw.top5:.1f} % and {100 * after.top5:.1f} %."
    )
    deploys = effects.better and not effects.worse
    why = [*late_labels(result), *worse_in_words(result.alarm, dates=result.dates)]
    return Verdict(conclusion(effects, numbers), lists, tuple(why), deploys)
