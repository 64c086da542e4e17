"""Steps: rows and late labels go through a learner in stream order, before each row the labels due.

Labels arrive a fixed number of rows late, or at their own times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from stream_can.learner import Learner
from stream_can.replay.chunk_player import ChunkPlayer
from stream_can.replay.labels import Labels
from stream_can.replay.model_columns import ModelColumns
from stream_can.replay.step import Step
from stream_can.row_kinds import AnyCorrector, part

ALL_MB = 1 << 30
DRAW = b"which labels arrive"
FIRST_STEP, LAST_STEP = 64, 16_384
STEPS_PER_LENGTH = 256


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
        player = ChunkPlayer(events, drawn, waiting, label_delay, learner, models, explained)
        start, end = events.first, events.first + len(events.rows)
        while start < end:
            stop = min(end, start + step_length(start))
            yield player.step(start, stop)
            start = stop
        waiting = player.waiting()


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
