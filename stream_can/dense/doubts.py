"""Doubts: what about dense rows and their labels looks as if they were joined wrongly."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.replay.names import readable

__all__ = ["Renaming", "doubts", "renaming"]

SIGMAS = 3
"""Standard deviations beyond which something is not chance."""
LEAST_GAIN = 0.05
"""Share of the labels that other names of the classes must explain besides."""
FEWEST_ROWS = 50
"""Rows from which on all of them in descending order are doubted."""
NAMED = 3


class Renaming(NamedTuple):
    """Other names of the predicted classes, under which they agree with the labels."""

    of: NDArray[np.int64]
    """For each class the one that its predictions are labelled with, shape (m,)."""
    right: int
    """Number of labels that agree under these names."""


def renaming(pairs: NDArray[np.int64]) -> Renaming | None:
    """Find classes whose names look exchanged.

    At least two classes, whose predictions make their own labels no likelier than other predictions
    do, and together significantly less likely, but other labels significantly likelier: a class mix
    that has moved, or a weak classifier, does not do that.

    Parameters
    ----------
    pairs
        Number of labelled rows by predicted class and label, shape (m, m).
    """
    n = pairs.sum()
    expected = pairs.sum(1, keepdims=True) * pairs.sum(0) / max(n, 1)
    excess = (pairs - expected) / np.sqrt(np.maximum(expected, 1))
    own = np.arange(len(pairs))
    wrong, free = excess[own, own] <= 0, excess[own, own] < SIGMAS
    of = np.full(len(pairs), -1)
    for place in np.argsort(-excess, axis=None, kind="stable").tolist():
        i, j = divmod(place, len(pairs))
        if excess[i, j] < SIGMAS:
            break
        if wrong[i] and free[j] and of[i] < 0:
            of[i], free[j] = j, False
    told = of >= 0
    chance = expected[own, own][told].sum()
    if told.sum() < 2 or pairs[own, own][told].sum() > chance - SIGMAS * np.sqrt(chance):
        return None
    taken = np.isin(own, of)
    of = np.where((of < 0) & ~taken, own, of)
    of[of < 0] = np.setdiff1d(own, of)  # whose name another has: one that is left
    moved = of != own
    then, now = int(pairs[own[moved], of[moved]].sum()), int(pairs[own[moved], own[moved]].sum())
    gain = then - now
    if gain < LEAST_GAIN * n or gain < SIGMAS * np.sqrt(then + now):
        return None
    right, by_chance = pairs.trace(), expected.trace()
    guessing = right < max(pairs.sum(0).max(), by_chance + SIGMAS * np.sqrt(by_chance))
    if not guessing and 2 * then < pairs[moved].sum():
        return None
    return Renaming(of, int(pairs[own, of].sum()))


def doubts(result: Any, recording: Any) -> list[str]:
    """Questions about the classes of a recording that was played; empty without any."""
    return [*_exchanged(result, recording), *_sorted(result)]


def _exchanged(result: Any, recording: Any) -> list[str]:
    if result.pairs is None or (found := renaming(result.pairs)) is None:
        return []
    names, own = result.classes, np.arange(len(result.classes))
    moved = np.flatnonzero(found.of != own)
    order = moved[np.argsort(-result.pairs[moved, found.of[moved]], kind="stable")]
    said = [
        f"{readable(names[i], 40)} are labelled {readable(names[found.of[i]], 40)}"
        for i in order[:NAMED].tolist()
    ]
    more = f", and so on for {len(moved) - NAMED:,} more" if len(moved) > NAMED else ""
    n = result.raw.n
    by_position = recording.labels_are_positions
    other = np.argsort(found.of) if by_position else found.of
    command = json.dumps([names[k] for k in other.tolist()], ensure_ascii=False)
    options = f" --classes '{command}' says so." if len(names) <= 50 and "'" not in command else ""
    return [
        f"rows predicted as {', those as '.join(said)}{more}: with the classes named so"
        f" {100 * found.right / n:.1f} % of the labels would be right, not"
        f" {100 * result.raw.accuracy:.1f} %. Are the probabilities or the labels in another order"
        f" of the classes?{options}"
    ]


def _sorted(result: Any) -> list[str]:
    """All rows descend, and not because the first class is so common."""
    if len(result.classes) < 3 or result.rows < FEWEST_ROWS or not result.all_descend:
        return []
    n, scores = result.raw.n, result.raw
    if not n:
        return []
    less = scores.mean_confidence - scores.accuracy
    if less < 0.1 or less < SIGMAS * np.sqrt(0.25 / n):
        return []
    return [
        f"all {result.rows:,} rows descend, as if each were sorted, and the first class is right in"
        f" {100 * scores.accuracy:.1f} % of them, not the {100 * scores.mean_confidence:.1f} % that"
        " they say. Were the probabilities sorted without their names? Keep the names beside them:"
        ' {"cat": 0.9, "dog": 0.1}, or lists of label and score.'
    ]
