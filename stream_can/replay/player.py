"""Player: plays a recording through learners with the same late labels."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from typing import Any

from stream_can.errors import InvalidPrediction, UnknownClass
from stream_can.method.costs import Costs
from stream_can.recording.doubts import doubts_of_recording
from stream_can.recording.table import InvalidRecording
from stream_can.replay.model_columns import ModelColumns
from stream_can.replay.result import Replay
from stream_can.replay.step import Step
from stream_can.replay.steps import learner_of, steps
from stream_can.row_kinds import AnyCorrector, part


class Player:
    """A recording, with the arrival of its labels.

    Parameters
    ----------
    recording
        Predictions and labels.
    label_delay, label_rate, seed
        As for :func:`stream_can.replay.steps`.
    model, version
        Columns that the recording was opened with (``segments``), which name the model and version
        of each row: each has a corrector of its own, a new version its predecessor's successor.
    costs
        Costs by which decisions are scored.
    progress
        Called after each step with its number of rows.
    """

    def __init__(
        self,
        recording: Any,
        *,
        label_delay: int | None = None,
        label_rate: float = 1.0,
        seed: int = 0,
        model: str | None = None,
        version: str | None = None,
        costs: Costs | None = None,
        progress: Callable[[int], object] = lambda rows: None,
    ) -> None:
        self.recording = recording
        self.label_delay, self.label_rate, self.seed = label_delay, label_rate, seed
        self.models = None if model is None and version is None else ModelColumns(model, version)
        self.costs, self.progress = costs, progress

    def play(
        self,
        corrector: AnyCorrector,
        *,
        label_rate: float | None = None,
        seed: int | None = None,
        ask: float | None = None,
        explain: bool = False,
        each: Callable[[Step], object] = lambda step: None,
    ) -> Replay:
        """Play the recording once.

        Parameters
        ----------
        corrector
            The initial corrector; it learns.
        label_rate, seed
            Replace the player's.
        ask
            Share of the labels to request; no other arrives.
        explain
            Whether to score each path too, and to watch for a worse classifier; takes about twice
            the time.
        each
            Called with each step.

        Returns
        -------
        The `Replay` of its kind of rows.
        """
        started = clock.perf_counter()
        recording, late = self.recording, self.label_delay
        learner = learner_of(corrector, ask)
        Result: type[Replay] = part(corrector.row_kind, "replay").Result
        result = Result(learner, self.models, watch=explain, costs=self.costs)
        playing = steps(
            recording.chunks(),
            learner,
            label_delay=late,
            label_rate=self.label_rate if label_rate is None else label_rate,
            seed=self.seed if seed is None else seed,
            models=self.models,
            explain=explain,
        )
        try:
            for step in playing:
                result.add(step)
                each(step)
                self.progress(len(step.rows))
        except (InvalidPrediction, UnknownClass) as error:
            if str(error).startswith("row "):  # what the recording itself finds has its name
                raise InvalidRecording(f"{recording.name}: {error}") from None
            raise
        result.dates |= recording.dates
        result.delay = (
            "at their own time"
            if late is None
            else f"{late:,} {'row' if late == 1 else 'rows'} late"
        )
        result.read_as, result.changed_labels = recording.read_as, recording.changed_labels
        by_time = recording.times.names and late is None
        arrivals = (result.learned, result.coming if by_time else 0)
        result.doubts = [
            *doubts_of_recording(recording, *arrivals), *result.questions(recording)
        ]  # fmt: skip
        result.seconds = clock.perf_counter() - started
        return result
