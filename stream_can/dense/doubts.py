"""Doubts: what about dense rows and their labels looks as if they were joined wrongly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.dense.unrelated import by_chance, unrelated
from stream_can.replay.names import readable

SIGMAS = 3
"""Standard deviations beyond which something is not chance."""
LEAST_GAIN = 0.05
"""Share of the labels that other names of the classes must explain besides."""
FEWEST_ROWS = 50
"""Rows from which on all of them in descending order are doubted."""
NAMED = 3
SHIFTED_SIGMAS = 5
"""Standard deviations beyond which labels agree better with another row's prediction."""


class Renaming(NamedTuple):
    """Other names of the predicted classes, under which they agree with the labels."""

    of: NDArray[np.int64]
    """For each class the one that its predictions are labelled with, shape (m,)."""
    right: int
    """Number of labels that agree under these names."""
    guessed: NDArray[np.int64]
    """Classes that got a name that was left, for want of labels."""


def as_text(names: Sequence[Any]) -> NDArray[np.int64] | None:
    """The order of the classes 0..m-1 as texts (0, 1, 10, 2), in which libraries that sort names
    write them; None where classes are others, or that is their order."""
    if [str(name) for name in names] != [str(i) for i in range(len(names))]:
        return None
    order = np.array(sorted(range(len(names)), key=str))
    return None if (np.diff(order) > 0).all() else order


def renaming(pairs: NDArray[np.int64], usual: NDArray[np.int64] | None = None) -> Renaming | None:
    """Find classes whose names look exchanged.

    At least two classes, whose predictions make their own labels no likelier than other predictions
    do, and together significantly less likely, but other labels significantly likelier: a class mix
    that has moved, or a weak classifier, does not do that. Nor are under other names twice as many
    labels right there.

    Parameters
    ----------
    pairs
        Number of labelled rows by predicted class and label, shape (m, m).
    usual
        An order that probabilities may have been written in, see :func:`as_text`.
    """
    exchanged = _exchanges(pairs)
    if usual is not None:
        classes = np.arange(len(pairs))
        right_then, right_now = int(pairs[classes, usual].sum()), int(pairs.trace())
        least = (
            2 * right_now
            if exchanged is None
            else exchanged.right - SIGMAS * np.sqrt(exchanged.right)
        )
        if right_then >= least and _outweighs(right_then, right_now, int(pairs.sum())):
            return Renaming(usual, right_then, classes[:0])
    return exchanged


def _outweighs(then: int, now: int, n: int) -> bool:
    """Whether so many more of n labels are right by more than chance."""
    return bool(then - now >= max(LEAST_GAIN * n, SIGMAS * np.sqrt(then + now), 1))


def _exchanges(pairs: NDArray[np.int64]) -> Renaming | None:
    """:func:`renaming`, from the pairs alone."""
    n = pairs.sum()
    expected = by_chance(pairs)
    excess = (pairs - expected) / np.sqrt(np.maximum(expected, 1))
    classes = np.arange(len(pairs))
    wrong, free = excess[classes, classes] <= 0, excess[classes, classes] < SIGMAS
    of = np.full(len(pairs), -1)
    for place in np.argsort(-excess, axis=None, kind="stable").tolist():
        i, j = divmod(place, len(pairs))
        if excess[i, j] < SIGMAS:
            break
        if wrong[i] and free[j] and of[i] < 0:
            of[i], free[j] = j, False
    renamed = of >= 0
    chance = expected[classes, classes][renamed].sum()
    if renamed.sum() < 2:
        return None
    is_taken = np.isin(classes, of)
    of = np.where((of < 0) & ~is_taken, classes, of)
    guessed = np.flatnonzero(of < 0)
    of[guessed] = np.setdiff1d(classes, of)  # whose name another has: one that is left
    moved = of != classes
    then, now = (
        int(pairs[classes[moved], of[moved]].sum()),
        int(pairs[classes[moved], classes[moved]].sum()),
    )
    right, right_by_chance = pairs.trace(), expected.trace()
    likelier = pairs[classes, classes][renamed].sum() > chance - SIGMAS * np.sqrt(chance)
    if likelier and pairs[classes, of].sum() < max(2 * right, n / 4):
        return None
    if not _outweighs(then, now, int(n)):
        return None
    least = right_by_chance + SIGMAS * np.sqrt(right_by_chance)
    guessing = right < max(pairs.sum(0).max(), least)
    if not guessing and 2 * then < pairs[moved].sum():
        return None
    return Renaming(of, int(pairs[classes, of].sum()), guessed)


def doubts(result: Any, recording: Any) -> list[str]:
    """Questions about the classes of a recording that was played; empty without any."""
    exchanged, right = _exchanged(result, recording)
    found = [
        *recording.single_logits.doubts(), *_one_of_several(result, recording), *exchanged,
        *_sorted(result), *_shifted(result, right), *_chosen(result),
    ]  # fmt: skip
    return found or unrelated(result)


def _chosen(result: Any) -> list[str]:
    """Rows with a label whose predictions differ from those of the rows around them."""
    n, chosen = result.raw.n, result.chosen
    if n < FEWEST_ROWS or result.has_weights:
        return []
    if chosen.by_class.is_large(n):
        excess = chosen.by_class
        k = int(np.abs(excess.over).argmax())
        rows, over = excess.rows[k], excess.over[k]
        kind = f"are predicted as {readable(result.classes[k], 40)}"
    elif chosen.by_confidence.is_large(n):
        excess = chosen.by_confidence
        k = int(np.abs(excess.over.cumsum()).argmax())
        rows, over = excess.rows[: k + 1].sum(), excess.over[: k + 1].sum()
        kind = f"have a largest probability below {(k + 1) / len(excess.rows):g}"
    else:
        return []
    among = excess.rows.sum()
    return [
        f"{100 * rows / among:.0f} % of the rows with a label {kind}, and of as many rows drawn at"
        f" random {100 * (rows - over) / among:.0f} % would. Were labels chosen? The figures are of"
        " labelled rows alone, which are no fair sample then. Where you know how likely each label"
        " was, give --weight COLUMN (docs/label-weights.md); or replay a stretch in which every row"
        " has its label."
    ]


def _one_of_several(result: Any, recording: Any) -> list[str]:
    """Labels of 0 and 1, taken as numbers of more classes, may be of one class alone."""
    if result.pairs is None or not recording.labels_are_positions:
        return []
    counts = result.pairs.sum(0)
    alone = len(counts) > 2 and counts[:2].all() and not counts[2:].any()
    if not alone or counts.sum() < FEWEST_ROWS:
        return []
    names = result.classes
    return [
        f"labels are 0 and 1 alone, and were taken as numbers of {len(names)} classes:"
        f" {readable(names[0], 40)} and {readable(names[1], 40)}. Do they say whether a row is of"
        " one certain class? Give a column that names the class of each row: --label COLUMN."
    ]


def _shifted(result: Any, right_renamed: float) -> list[str]:
    """Labels that agree with the prediction before or after their own, and more of them than with
    their own under other names of the classes."""
    for side, right in zip(("after", "before"), result.right_beside.tolist(), strict=True):
        n, in_row = result.beside, result.right_there
        if right <= right_renamed * n:
            continue
        if right - in_row > max(LEAST_GAIN * n, SHIFTED_SIGMAS * np.sqrt(max(right + in_row, 1))):
            return [
                f"{100 * right / n:.1f} % of the labels agree with the prediction of the row"
                f" {side} their own, and {100 * in_row / n:.1f} % with their own. Is one of the two"
                " columns shifted by a row?"
            ]
    return []


def _exchanged(result: Any, recording: Any) -> tuple[list[str], float]:
    """Classes with other names, and the share of labels that agree under these."""
    if result.pairs is None:
        return [], 0.0
    if (names_found := renaming(result.pairs, as_text(result.classes))) is None:
        return [], 0.0
    names, classes = result.classes, np.arange(len(result.classes))
    moved = np.flatnonzero(names_found.of != classes)
    order = moved[np.argsort(-result.pairs[moved, names_found.of[moved]], kind="stable")]
    phrases = [
        f"{readable(names[i], 40)} are labelled {readable(names[names_found.of[i]], 40)}"
        for i in order[:NAMED].tolist()
    ]
    further = f", and so on for {len(moved) - NAMED:,} more" if len(moved) > NAMED else ""
    n = result.raw.n
    by_position = recording.labels_are_positions
    other = np.argsort(names_found.of) if by_position else names_found.of
    command = json.dumps([names[k] for k in other.tolist()], ensure_ascii=False)
    options = (
        f" --classes '{command}' gives this order."
        if len(names) <= 50 and "'" not in command
        else ""
    )
    if recording.columns_name_classes and not by_position:  # --classes would choose among these
        options = " Name the columns as they should be."
    if len(names_found.guessed):
        unsure = ", ".join(readable(names[i], 40) for i in names_found.guessed[:NAMED].tolist())
        ellipsis = ", ..." if len(names_found.guessed) > NAMED else ""
        options += f" {unsure}{ellipsis} have too few labels to tell: look these up."
    return [
        f"rows predicted as {', rows predicted as '.join(phrases)}{further}: with the classes"
        f" renamed so, {100 * names_found.right / n:.1f} % of the labels would agree, not"
        f" {100 * result.pairs.trace() / n:.1f} %. Do the probabilities or the labels have the"
        f" classes in another order?{options}"
    ], names_found.right / n


def _sorted(result: Any) -> list[str]:
    """All rows descend, or ascend, and not because the first class is so common."""
    if len(result.classes) < 3 or result.rows < FEWEST_ROWS:
        return []
    if not (result.all_descend or result.all_ascend):
        return []
    way, place = ("descend", "first") if result.all_descend else ("ascend", "last")
    scores = result.raw
    if not scores.n:
        return []
    squares = sum(moment.by_square.labelled for moment in result.moments)
    less = scores.mean_confidence - scores.accuracy
    if less < 0.1 or less < SIGMAS * np.sqrt(0.25 * squares) / scores.weight:
        return []
    return [
        f"the probabilities of all {result.rows:,} rows {way}, as if sorted; the {place} class is"
        " right in"
        f" {100 * scores.accuracy:.1f} % of them, not the {100 * scores.mean_confidence:.1f} % that"
        " they promise. Were they sorted without the names of their classes? Keep the names with"
        " them:"
        ' {"cat": 0.9, "dog": 0.1}, or lists of label and score.'
    ]
