"""Trials of ``label_noise``: a recording played with several values, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Change, change
from stream_can.corrector import Corrector
from stream_can.recording.recording import Recording
from stream_can.replay.effect import NATS, Effect
from stream_can.replay.result import Replay
from stream_can.replay.steps import steps
from stream_can.replay.verdict import FEW
from stream_can.scores import FLOOR

__all__ = ["TriedNoise", "noise_in_words", "try_label_noise"]

BY_THE_RECORDED = (
    "Scores are by the labels as recorded. Wrong ones among them count right predictions as wrong:"
    " accuracy is understated, and log loss speaks against a label_noise even where it is right,"
    " since rows that were learned with it do not foretell wrong labels. The last log loss does: of"
    " labels of which that share is any class, right or wrong. Where wrong labels are of another"
    " kind, one class called another, it cannot tell either."
)


class TriedNoise(NamedTuple):
    """A replay with one value of ``label_noise`` against the replay's own value: that is before."""

    label_noise: float
    own: bool
    """Whether it is the replay's own value."""
    accuracy: Change
    log_loss: Change
    expected: Change
    """Log loss of (1 - label_noise) u + label_noise / m, where the row gives the label u."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON would have it."""
        return {
            "label_noise": self.label_noise,
            "own": self.own,
            **{
                name: {"value": found.after, "change": found.value, "error": _plain(found.error)}
                for name, found in (
                    ("accuracy", self.accuracy),
                    ("log_loss", self.log_loss),
                    ("log_loss_expecting_wrong", self.expected),
                )
            },
        }


def try_label_noise(
    recording: Recording,
    make: Callable[[float], Corrector],
    values: Sequence[float],
    own: float = 0.0,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    progress: Callable[[int], object] = lambda rows: None,
) -> list[TriedNoise]:
    """Play a recording with several values of ``label_noise``.

    Parameters
    ----------
    recording
        Predictions, and labels of which a share may be wrong.
    make
        Makes the corrector to start with, of such a ``label_noise``.
    values
        The values.
    own
        The one that the others are compared with; it is played too.
    label_delay, label_rate, seed, progress
        As for :func:`stream_can.replay.replay`.

    Returns
    -------
    One for each value, ``own`` among them, in their order; none without labelled rows.
    """
    values = sorted({own, *values})
    played = {
        value: _sums(recording, make(value), value, label_delay, label_rate, seed, progress)
        for value in values
    }
    rows, *before = played[own]
    found = []
    for value, (_, *after) in played.items():
        changes = [change(rows, a, b) for a, b in zip(before, after, strict=True)]
        accuracy, log_loss, expected = changes
        if accuracy is not None and log_loss is not None and expected is not None:
            found.append(TriedNoise(value, value == own, accuracy, log_loss, expected))
    return found


def _sums(
    recording: Recording,
    corrector: Corrector,
    noise: float,
    label_delay: int | None,
    label_rate: float,
    seed: int,
    progress: Callable[[int], object],
) -> tuple[list[float], ...]:
    """Labelled rows of each step, hits, log losses, and those where labels may be wrong."""
    result, expected = Replay(corrector), []
    for step in steps(
        recording.chunks(),
        corrector,
        label_delay=label_delay,
        label_rate=label_rate,
        seed=seed,
        explain=False,
    ):
        result.add(step)
        expected.append(_expected(step.corrected, step.y, noise))
        progress(len(step.P))
    moments = result.moments
    return (
        [float(moment.labelled) for moment in moments],
        [moment.hits[1] for moment in moments],
        [moment.losses[1] for moment in moments],
        expected,
    )


def _expected(rows: NDArray[np.float64], y: NDArray[np.int64], noise: float) -> float:
    """The summed log loss of labels that are any class in the share ``noise``."""
    at = np.flatnonzero(y >= 0)
    u = (1 - noise) * rows[at, y[at]] + noise / rows.shape[1]
    return float(-np.log(np.maximum(u, FLOOR)).sum())


def noise_in_words(tried: Sequence[TriedNoise], labelled: int) -> str:
    """A paragraph on what the figures show, and what they cannot."""
    if not tried:
        return "No row has a label, so nothing can be said of label_noise."
    if labelled < FEW:
        return f"Too few labels to say what label_noise gives: {labelled:,} rows have one."
    own = next(one for one in tried if one.own)
    best = min(tried, key=lambda one: one.expected.after)
    if best is own or not Effect(best.expected, NATS).down:
        first = (
            f"No label_noise that was tried explains these labels better than {own.label_noise:g},"
            " beyond chance."
        )
    else:
        first = (
            f"Of those that were tried label_noise {best.label_noise:g} explains these labels best:"
            f" {best.expected.value:+.4f} nats (standard error {best.expected.error:.4f}) against"
            f" {own.label_noise:g}."
        )
    return f"{first} {BY_THE_RECORDED}"


def _plain(value: float) -> float | None:
    """A number with None for nan, which JSON does not have."""
    return None if value != value else value
