"""Replay of rows with several labels, and its result."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.multilabel import LabelScores, MultiLabelCorrector
from stream_can.recording.several import MultiLabelChunk, MultiLabelRecording
from stream_can.replay.delays import Delays
from stream_can.replay.labels import Labels, split
from stream_can.replay.steps import DRAW, check_labels, step_length

__all__ = ["LabelMoment", "MultiLabelReplay", "multilabel_replay"]

Array = NDArray[np.float64]


class LabelStep(NamedTuple):
    """Consecutive rows that went through the corrector."""

    first: int
    """Number of the first row, from 0."""
    P: Array
    """The scores, shape (n, m)."""
    Y: NDArray[np.int8]
    """Known labels of each row: 1, 0 or -1, shape (n, m)."""
    corrected: Array
    """Sent rows, shape (n, m)."""
    decided: NDArray[np.bool_]
    """Decision on each label by the threshold of that moment."""
    time: NDArray[Any] | None
    """Time of each prediction, where known."""
    coming: int
    """Number of label messages about these rows that will arrive, possibly after the last row."""
    delays: NDArray[np.int64]
    """For each message learned in the step, the number of rows since its own."""
    delay_time: NDArray[Any] | None
    """The same as time, where labels have their own times."""
    changed: int
    """Number of messages that contradict an earlier one."""


class LabelMoment(NamedTuple):
    """The stream during one step."""

    row: int
    """Number of rows so far."""
    time: Any
    """Time of the step's last prediction; None where unknown."""
    labelled: int
    """Number of rows of the step with a known label."""
    losses: tuple[float, float]
    """Sums of their log losses over known labels: raw, corrected."""
    squares: tuple[float, float]
    """Sums of the squares of these."""
    there: int
    """Number of true labels."""
    said: tuple[int, int, int]
    """Number of labels decided for: raw and corrected at 0.5, corrected at the threshold."""
    right: tuple[int, int, int]
    """Number of these that are true."""


def multilabel_steps(
    chunks: Iterable[MultiLabelChunk],
    corrector: MultiLabelCorrector,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
) -> Iterator[LabelStep]:
    """Run chunks through a corrector step by step, like :func:`stream_can.replay.steps`.

    A label rate below 1 is a share of the rows, each with all its labels.
    """
    check_labels(label_delay, label_rate)
    rng = np.random.default_rng([seed, *DRAW])
    waiting: list[Labels] = []
    for chunk in chunks:
        first, n = chunk.first, len(chunk.P)
        drawn = rng.random(n) < label_rate
        by_time = label_delay is None and chunk.time is not None
        sent = _messages(chunk, drawn, label_delay)
        # A delay in rows makes some labels due right after the last row.
        labels, late = split([*waiting, sent], chunk, by_time, first + n - by_time)
        receipts = np.full((n, 2 * corrector.m), np.nan, np.float32)
        done, start = 0, first
        while start < first + n:
            stop = min(first + n, start + step_length(start))
            upto = int(np.searchsorted(labels.due, stop, "right"))
            due, done = labels.take(np.arange(done, upto)), upto
            here, earlier = due.row >= start, (due.row < start) & (due.row >= first)
            due.known[earlier] = receipts[due.row[earlier] - first]
            cut, k = slice(start - first, stop - first), int((~here).sum())
            played = corrector.play(
                np.concatenate([due.P[~here], chunk.P[cut]]),
                due.y,
                np.where(here, due.row - start + k, np.cumsum(~here) - 1),
                due.due - start,
                first=k,
                receipts=due.known,
            )
            receipts[cut] = played.receipts
            yield LabelStep(
                start,
                chunk.P[cut],
                chunk.Y[cut],
                played.rows,
                played.decided,
                None if chunk.time is None else chunk.time[cut],
                int(((sent.row >= start) & (sent.row < stop)).sum()),
                due.due - due.row - 1,
                due.time - due.asked if by_time else None,
                chunk.changed if start == first else 0,
            )
            start = stop
        for part in late:
            mine = part.row >= first
            part.known[mine] = receipts[part.row[mine] - first]
        waiting = [part for part in late if len(part.row)]


def _messages(chunk: MultiLabelChunk, drawn: NDArray[np.bool_], delay: int | None) -> Labels:
    """Labels of a chunk's rows, where drawn."""
    at = chunk.of - chunk.first
    which = np.flatnonzero(drawn[at])
    at = at[which]
    rows, said = chunk.of[which], chunk.said[which]
    k, m = said.shape
    time = asked = rows
    if chunk.time is not None and chunk.at is not None and delay is None:
        time, asked = chunk.at[which], chunk.time[at]
    known = np.full((k, 2 * m), np.nan, np.float32)
    due = rows + 1 + (delay or 0)
    none, lanes = np.empty((k, 0), object), np.zeros(k, np.int64)
    return Labels(due, time, asked, rows, chunk.P[at], said, known, none, lanes)


class MultiLabelReplay:
    """Result of a replay of rows with several labels: scores and their course."""

    alarm = None

    def __init__(self, corrector: MultiLabelCorrector) -> None:
        self.corrector = corrector
        """Has the final state after the last row."""
        self.labels = list(corrector.labels)
        self.raw, self.corrected, self.decided = (LabelScores(corrector.m) for _ in range(3))
        """Scores before and after, deciding at 0.5; and after, deciding at the threshold of the
        moment."""
        self.moments: list[LabelMoment] = []
        self.rows = self.coming = self.changed = 0
        self.seconds = 0.0
        self.delay = ""
        """Description of the label delay."""
        self.dates = False
        """Whether times of moments are dates."""
        self.delay_rows, self.delay_time = Delays(), Delays()
        self.rates: dict[float, LabelScores] = {}
        """Scores of the corrected rows at other label rates."""

    def add(self, step: LabelStep) -> None:
        """Add a step."""
        known, there = step.Y >= 0, step.Y == 1
        losses = (
            self.raw.add_checked(step.P, step.Y),
            self.corrected.add_checked(step.corrected, step.Y),
        )
        self.decided.add_checked(step.corrected, step.Y, step.decided)
        said = [one & known for one in (step.P >= 0.5, step.corrected >= 0.5, step.decided)]
        self.rows = step.first + len(step.P)
        self.coming += step.coming
        self.changed += step.changed
        self.delay_rows.add(step.delays)
        if step.delay_time is not None:
            self.delay_time.add(step.delay_time)
        self.dates |= step.time is not None and step.time.dtype.kind == "M"
        self.moments.append(
            LabelMoment(
                self.rows,
                None if step.time is None else step.time[-1],
                len(losses[0]),
                (float(losses[0].sum()), float(losses[1].sum())),
                (float(losses[0] @ losses[0]), float(losses[1] @ losses[1])),
                int(there.sum()),
                (int(said[0].sum()), int(said[1].sum()), int(said[2].sum())),
                tuple(int((one & there).sum()) for one in said),  # type: ignore[arg-type]
            )
        )

    def per_label(self) -> list[dict[str, Any]]:
        """Scores of each label: how often known and true, F1, and log loss per row, before ("raw"),
        after ("corrected"), and F1 after at the threshold ("decided"); None where it was never true
        or decided for."""
        known, there, *_ = self.raw.of_labels
        f1 = [s.f1 for s in (self.raw, self.corrected, self.decided)]
        loss = [s.of_labels[2] / np.maximum(known, 1) for s in (self.raw, self.corrected)]
        return [
            {
                "label": name,
                "known": int(known[k]),
                "there": int(there[k]),
                "f1": {
                    side: None if np.isnan(one[k]) else float(one[k])
                    for side, one in zip(("raw", "corrected", "decided"), f1, strict=True)
                },
                "log_loss": {"raw": float(loss[0][k]), "corrected": float(loss[1][k])},
            }
            for k, name in enumerate(self.labels)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result without its course, as JSON."""
        corrector = self.corrector
        return {
            "rows": self.rows,
            "labelled": self.raw.n,
            "learned": corrector.n_labels,
            "labels": self.labels,
            "label_delay": self.delay,
            "raw": summary(self.raw),
            "corrected": summary(self.corrected),
            "decided": summary(self.decided),
            "threshold": corrector.threshold,
            "weights": corrector.weights,
            "final_weights": corrector.final_weights,
            "temperature": corrector.temperature,
            "per_label": self.per_label(),
            "changed_labels": self.changed,
            "delays": {
                "coming": self.coming,
                "rows": self.delay_rows.summary(),
                "time": self.delay_time.summary(),
            },
            "label_rates": {f"{rate:g}": summary(one) for rate, one in self.rates.items()},
            "seconds": self.seconds,
        }


def summary(scores: LabelScores) -> dict[str, float | None]:
    """The scores by name; None where undefined."""
    found = {
        "n": scores.n, "log_loss": scores.log_loss, "micro_f1": scores.micro_f1,
        "macro_f1": scores.macro_f1, "ece": scores.ece,
    }  # fmt: skip
    return {name: None if value != value else value for name, value in found.items()}


def multilabel_replay(
    recording: MultiLabelRecording,
    corrector: MultiLabelCorrector,
    *,
    label_delay: int | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    rates: Iterable[float] = (),
    progress: Callable[[int], object] = lambda rows: None,
) -> MultiLabelReplay:
    """Replay a recording of rows with several labels through a corrector.

    Parameters
    ----------
    recording
        Scores and labels.
    corrector
        A new corrector, or the state of an earlier one.
    label_delay
        Number of rows after which the labels of a row are learned; None where the recording has
        times, or labels on lines of their own.
    label_rate, seed
        Share of the rows whose labels arrive, and the seed that selects them.
    rates
        Other such shares, each replayed once more, for :attr:`MultiLabelReplay.rates`.
    progress
        Called after each step with its number of rows.

    Returns
    -------
    Scores over all known labels, including those that never arrive.

    Raises
    ------
    ValueError
        It is not given when labels arrive, or the corrector has other labels than the recording.
    """
    if label_delay is None and not recording.has_times:
        raise ValueError(
            "label_delay: say after how many rows labels arrive, or name the columns of times"
        )
    if list(corrector.labels) != recording.classes:
        raise ValueError("corrector: has other labels than the recording")
    fresh = corrector.to_bytes()

    def once(corrector: MultiLabelCorrector, rate: float) -> MultiLabelReplay:
        started, result = clock.perf_counter(), MultiLabelReplay(corrector)
        for step in multilabel_steps(
            recording.chunks(), corrector, label_delay=label_delay, label_rate=rate, seed=seed
        ):
            result.add(step)
            progress(len(step.P))
        result.dates |= recording.dates
        result.delay = "at their own time" if label_delay is None else f"{label_delay:,} rows late"
        result.seconds = clock.perf_counter() - started
        return result

    result = once(corrector, label_rate)
    rates = {*rates}
    for rate in sorted(rates | {label_rate} if rates else ()):
        scores = result.corrected
        if rate != label_rate:
            scores = once(MultiLabelCorrector.from_bytes(fresh), rate).corrected
        result.rates[rate] = scores
    return result
