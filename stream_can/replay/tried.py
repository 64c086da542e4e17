"""Trials of columns: a recording played with each, with all of them, and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stream_can.change import Change, Changes, change
from stream_can.corrector import Corrector
from stream_can.recording.recording import Recording
from stream_can.replay.effect import NATS, POINTS, Effect
from stream_can.replay.result import Replay
from stream_can.replay.run import replay
from stream_can.replay.verdict import FEW

__all__ = ["Tried", "try_segments", "worth_in_words"]


class Tried(NamedTuple):
    """A replay with columns against the same without: that one is before."""

    columns: tuple[str, ...]
    values: int
    """How many were learned of, in all columns."""
    accuracy: Change
    log_loss: Change

    @property
    def worth(self) -> bool:
        """More is right or closer to the truth, beyond chance and by something, and nothing less.

        By the rules of :func:`stream_can.replay.verdict.verdict`.
        """
        points, nats = Effect(self.accuracy, POINTS / 100), Effect(self.log_loss, NATS)
        return (points.up or nats.down) and not (points.down or nats.up)

    @property
    def harm(self) -> bool:
        """Fewer are right or all are further from the truth, and nothing is better."""
        points, nats = Effect(self.accuracy, POINTS / 100), Effect(self.log_loss, NATS)
        return (points.down or nats.up) and not (points.up or nats.down)

    def to_dict(self) -> dict[str, Any]:
        """As JSON would have it."""
        return {
            "segments": list(self.columns),
            "values": self.values,
            **Changes(self.accuracy, self.log_loss).summary(),
            "worth": self.worth,
        }

    @property
    def said(self) -> str:
        """Whether it is worth it, in a word or two."""
        return "worth having" if self.worth else "leave out" if self.harm else "no clear gain"


def try_segments(
    recording: Recording,
    make: Callable[[Sequence[str]], Corrector],
    without: Replay,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    progress: Callable[[int], object] = lambda rows: None,
) -> list[Tried]:
    """Play a recording with each of its columns alone, and with all together.

    Parameters
    ----------
    recording
        It gives the columns to try: ``recording.segments``.
    make
        Makes the corrector to start with, that declares these columns.
    without
        The same replay without columns.
    label_delay, label_rate, seed, progress
        As for :func:`stream_can.replay.replay`; those of ``without``.

    Returns
    -------
    One for each column, and one for all where there are several; none without labelled rows.
    """
    names = recording.segments
    sets = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    found = []
    for columns in sets:
        corrector = make(columns)
        result = replay(
            recording,
            corrector,
            label_delay=label_delay,
            label_rate=label_rate,
            seed=seed,
            explain=False,
            progress=progress,
        )
        accuracy, log_loss = (_change(without, result, what) for what in ("hits", "losses"))
        if accuracy is not None and log_loss is not None:
            values = sum(len(corrector.segment_values(name)) for name in columns)
            found.append(Tried(tuple(columns), values, accuracy, log_loss))
    return found


def _change(without: Replay, result: Replay, what: str) -> Change | None:
    """The change of "hits" or "losses" of what was sent, a labelled row."""
    pairs = zip(without.moments, result.moments, strict=True)
    sides = [(a.labelled, getattr(a, what)[1], getattr(b, what)[1]) for a, b in pairs]
    return change(*zip(*sides, strict=True)) if sides else None


def worth_in_words(tried: Sequence[Tried], labelled: int) -> str:
    """One sentence: which columns to declare."""
    if not tried:
        return "No row has a label, so nothing can be said of columns."
    if labelled < FEW:
        return f"Too few labels to say what columns are worth: {labelled:,} rows have one."
    alone = [one for one in tried if len(one.columns) == 1]
    together = tried[-1]
    best = min(
        (one for one in tried if one.worth), key=lambda one: one.log_loss.value, default=None
    )
    if best is None:
        return "No column is worth having here: none gains anything that stands out of the noise."
    numbers = (
        f"{100 * best.accuracy.value:+.2f} points (standard error"
        f" {100 * best.accuracy.error:.2f}), {best.log_loss.value:+.4f} nats (standard error"
        f" {best.log_loss.error:.4f})"
    )
    names = ",".join(best.columns)
    useless = [one.columns[0] for one in alone if not one.worth]
    left = ""
    if best is together and useless and len(alone) > 1:
        left = f" Alone {', '.join(useless)} would gain nothing clear."
    return f"Worth having: --segments {names}, {numbers} against the same without.{left}"
