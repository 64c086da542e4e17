"""Player: plays a recording through correctors with the same late labels."""

from __future__ import annotations

import time as clock
from collections.abc import Callable

from stream_can.corrector import Corrector
from stream_can.method.asking import LabelRequests
from stream_can.recording.recording import Recording
from stream_can.replay.models import PlayedModels
from stream_can.replay.result import Replay
from stream_can.replay.steps import Step, steps
from stream_can.trust.alarm import Alarm

__all__ = ["Player"]


class Player:
    """A recording, with the arrival of its labels.

    Parameters
    ----------
    recording
        Predictions and labels.
    label_delay, label_rate, seed
        As for :func:`stream_can.replay.steps`.
    progress
        Called after each step with its number of rows.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        label_delay: int | None = None,
        label_rate: float = 1.0,
        seed: int = 0,
        progress: Callable[[int], object] = lambda rows: None,
    ) -> None:
        self.recording = recording
        self.label_delay, self.label_rate, self.seed = label_delay, label_rate, seed
        self.progress = progress

    def play(
        self,
        corrector: Corrector | PlayedModels,
        *,
        label_rate: float | None = None,
        requests: LabelRequests | None = None,
        explain: bool = False,
        each: Callable[[Step], object] = lambda step: None,
    ) -> Replay:
        """Play the recording once.

        Parameters
        ----------
        corrector
            The initial corrector, or the models of the recording.
        label_rate
            Replaces the player's.
        requests
            Label requests that decide which labels arrive.
        explain
            Whether to score each path too, and to watch for a worse classifier; takes about twice
            the time.
        each
            Called with each step.
        """
        started = clock.perf_counter()
        recording, late = self.recording, self.label_delay
        result = Replay(corrector, requests, Alarm() if explain else None)
        for step in steps(
            recording.chunks(),
            corrector,
            label_delay=late,
            label_rate=self.label_rate if label_rate is None else label_rate,
            seed=self.seed,
            requests=requests,
            explain=explain,
        ):
            result.add(step)
            each(step)
            self.progress(len(step.P))
        result.dates |= recording.dates
        result.delay = "at their own time" if late is None else f"{late:,} rows late"
        result.seconds = clock.perf_counter() - started
        return result
