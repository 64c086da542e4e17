"""Prediction sets in a stream: what rows and labels have to teach them, on its way through a log.

All partitions learn them together, so what an entry brings is of whatever sets were in force as the
rows were sent: each label says whether its set had missed it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.method.promise import miss_of
from stream_can.method.state import SETS
from stream_can.trust.sets import BINS, Belief, PredictionSets

__all__ = [
    "LogSets",
    "Opened",
    "Told",
    "learn",
    "opened_sets",
    "packed_sets",
    "sets_under",
    "without_sets",
]


def without_sets(corrector: Corrector) -> Corrector:
    """A corrector that makes none: those of a log are beside it."""
    if corrector.sets is None:
        return corrector
    head, arrays = snapshot.decode(corrector.to_bytes())
    del head["sets"]
    kept = {name: array for name, array in arrays.items() if name not in SETS}
    return Corrector.from_bytes(snapshot.encode(head, kept))


class Told(NamedTuple):
    """What is known of the set of a prediction whose label came."""

    p: float
    """What the row, as sent, gave the label."""
    missed: bool
    """Whether theta missed it."""
    row: int
    """How many rows had been counted before."""


class LogSets(msgspec.Struct, array_like=True, frozen=True):
    """What an entry has for prediction sets."""

    miss: float
    """The share that the sets were to miss."""
    rows: Annotated[int, Meta(ge=0, le=2**40)]
    """How many rows it is of."""
    bins: bytes = b""
    """Where their belief is, uint16, and how much, float32; see
    :class:`stream_can.trust.sets.Belief`."""
    belief: bytes = b""
    known: bytes = b""
    """Of each label what its row gave it, float32: less than 0 where the set missed it, NaN where
    that is not known."""
    before: bytes = b""
    """Of each label how many rows had been counted before its own, int64."""


def sets_under(
    kept: float | None, corrector: Corrector, sets: PredictionSets | None = None
) -> PredictionSets | None:
    """The sets of a corrector's rows that keep a share: those there are, where they do.

    Raises
    ------
    ValueError
        That is no share.
    """
    m, half_life = len(corrector.classes), float(corrector.settings["half_life"])
    if kept is None or m < 2:
        return None
    miss = miss_of(kept)
    if sets is None or sets.miss != miss or len(sets.classes) != m:
        return PredictionSets(m, miss, half_life=half_life)
    sets.half_life = half_life
    return sets


def packed_sets(miss: float, belief: Belief, told: Sequence[Told | None]) -> LogSets | None:
    """What an entry says; None where there is nothing to say."""
    if not belief.rows and not any(told):
        return None
    sums = belief.sums.astype("<f4")
    bins = np.flatnonzero(sums)
    known, before = b"", b""
    if any(told):
        each = [(math.nan, 0) if one is None else (_signed(one), one.row) for one in told]
        known = np.array([p for p, _ in each], "<f4").tobytes()
        before = np.array([row for _, row in each], "<i8").tobytes()
    return LogSets(
        miss, belief.rows, bins.astype("<u2").tobytes(), sums[bins].tobytes(), known, before
    )


def _signed(told: Told) -> float:
    """What a row gave its label, less than 0 where its set missed it."""
    return -max(told.p, 1e-30) if told.missed else told.p


class Opened(NamedTuple):
    """What an entry has for prediction sets, checked."""

    miss: float
    belief: Belief
    told: list[Told | None]


def opened_sets(one: LogSets, labels: int) -> Opened:
    """What an entry of so many labels says.

    Raises
    ------
    ValueError
        It cannot be.
    """
    belief = Belief()
    bins = np.frombuffer(one.bins, "<u2")
    with np.errstate(invalid="ignore"):
        much = np.frombuffer(one.belief, "<f4").astype(np.float64)
        known = np.frombuffer(one.known, "<f4").astype(np.float64)
    before = np.frombuffer(one.before, "<i8")
    if len(bins) != len(much) or not (np.diff(bins.astype(int)) > 0).all():
        raise ValueError("what rows believe in: bins that are none")
    if not (bins < BINS).all() or not ((much > 0) & (much < one.rows + 1.0)).all():
        raise ValueError("what rows believe in is out of range")
    if len(known) not in (0, labels) or len(before) != len(known):
        raise ValueError(f"{labels} labels, and sets of {len(known)}")
    if not ((abs(known) <= 1.001) | np.isnan(known)).all() or not (before >= 0).all():
        raise ValueError("what rows gave labels of sets is no probability")
    belief.rows, belief.sums[bins] = one.rows, much
    told = [
        None if math.isnan(p) else Told(min(abs(p), 1.0), p < 0, row)
        for p, row in zip(known.tolist(), before.tolist(), strict=True)
    ]
    return Opened(one.miss, belief, told)


def learn(sets: PredictionSets, one: Opened) -> None:
    """Learn what an entry has: its rows, then those of its labels; where its sets were
    to miss another share, its rows alone."""
    if one.belief.rows:
        sets.observe(one.belief)
    if one.miss != sets.miss:
        return
    for told in one.told:
        if told is not None:
            sets.learn_known(*told)
