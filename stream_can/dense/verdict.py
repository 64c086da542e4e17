"""Verdict on a replay of dense rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.change import change
from stream_can.dense.class_changes import gains
from stream_can.dense.result import DenseReplay
from stream_can.replay.costs import costs_in_words
from stream_can.replay.effect import NATS, POINTS, Effects
from stream_can.replay.episodes import worse_in_words
from stream_can.replay.expected import expected_in_words
from stream_can.replay.names import readable
from stream_can.replay.set_words import sets_in_words
from stream_can.replay.verdict import (
    FEW,
    Verdict,
    beside_commonest,
    conclusion,
    few_labels,
    in_numbers,
    labels_in_words,
)

FAIR = 0.99
"""Coverage above which labels may be a random sample, given enough of them."""
NAMED = 3
"""Maximum number of classes named; otherwise their number is given."""
NEARLY_ALL = 0.8
"""Share of the commonest class from which on a gain over it must be beyond chance."""
FEWEST = 20
"""Rows of a class whose share found is said."""


def judge(result: DenseReplay) -> Verdict:
    """Judge by accuracy and log loss, see :func:`stream_can.replay.judge`."""
    if result.raw.n < FEW:
        return few_labels(f"{result.raw.n:,} rows have one")
    wrong = _wrong_labels(result)
    if wrong:
        return Verdict(f"No verdict: {wrong}", "", (), False)
    changes = result.changes()
    assert changes is not None, "a replay of too few labels has no verdict"
    effects = Effects.of(changes)
    beside = _beside_commonest(result)
    if beside:
        effects = effects.without_gain_of_accuracy()
    good, bad = effects.better, effects.worse
    numbers = in_numbers(changes, log_loss_first=bool(beside))
    alone, harm = _fit_alone(result)
    first = " ".join(filter(None, [harm, conclusion(*effects, numbers), beside]))
    instead = "replay without --validation, or with other validation rows." if harm else ""
    labels = [*labels_in_words(result), *_one_sided_labels(result)]
    labels += _labels_of_few_values(result)
    reasons = _reasons(result, good=good and not bad, bad=bad)
    why = [
        *labels,
        result.worst.in_words(),
        alone,
        *reasons,
        *expected_in_words(result.expected.stretches(dates=result.dates)),
        *costs_in_words(result.costs, result.cost_change),
        *sets_in_words(result.sets),
        *worse_in_words(result.alarm, dates=result.dates),
    ]
    deploys = good and not harm
    return Verdict(first, gains(result), tuple(filter(None, why)), deploys, instead)


def _wrong_labels(result: DenseReplay) -> str:
    """Why the labels cannot be right; empty where they can."""
    rows = result.raw_classes.rows
    if len(rows) > 1 and rows.max() == result.raw.n:
        name = readable(result.classes[int(rows.argmax())])
        return (
            f"all {result.raw.n:,} labels are of one class, {name}, so always predicting it would"
            " be right every time. Is this the column of the labels, and does it hold every"
            " outcome?"
        )
    if len(rows) > 1 and result.raw.accuracy == 1:
        return (
            f"all {result.raw.n:,} labels equal the predicted class. Either there is nothing to"
            " correct, or the labels were made from the predictions."
        )
    return ""


def _beside_commonest(result: DenseReplay) -> str:
    """What always saying the commonest class would give, and how much is found of the others, where
    what is sent is not right more often than that, and where one class is nearly all not beyond
    chance; empty elsewhere."""
    rows, weight = result.raw_classes.rows, result.raw_classes.weight
    most = int(weight.argmax())
    counts = np.array([moment.counts[most] for moment in result.moments], np.float64)
    gain = change(result.labelled, counts, result.sums(1)[0])
    share = weight[most] / result.raw.weight
    sure = gain is not None and (gain.rose or share < NEARLY_ALL) and gain.value >= POINTS / 100
    if len(rows) < 2 or sure:
        return ""
    first = beside_commonest(result.classes[most], share)
    recalls = []
    recall_before, recall_after = result.raw_classes.recall, result.corrected_classes.recall
    order = np.argsort(-weight, kind="stable").tolist()
    other_classes = [k for k in order if k != most and rows[k] >= FEWEST]
    for k in other_classes[:NAMED]:
        recall = f"{100 * recall_before[k]:.0f} % before, {100 * recall_after[k]:.0f} % after"
        recalls.append(f"{readable(result.classes[k], 40)} {recall}")
    of_others = f" Recall of other classes: {'; '.join(recalls)}." if recalls else ""
    return first + of_others


def _one_sided_labels(result: DenseReplay) -> list[str]:
    sentences = []
    if silent := result.corrector.silent_classes:
        names = ", ".join(readable(name, 40) for name in silent[:NAMED])
        further = f" and {len(silent) - NAMED:,} more" if len(silent) > NAMED else ""
        sentences.append(
            f"Class {names} has no label yet, so it is left out of learning."
            if len(silent) == 1
            else f"{len(silent):,} classes have no label yet ({names}{further}), so they are left"
            " out"
            " of learning."
        )
    if result.corrector.coverage < FAIR:
        share = 100 * result.corrector.coverage
        sentences.append(
            f"The labels are no fair sample, so only {share:.0f} % of the correction is applied"
            " now."
        )
    if sentences and result.raw.n < result.rows:
        sentences.append("Accuracy and log loss are those of the labelled rows alone.")
    return sentences


def _labels_of_few_values(result: DenseReplay) -> list[str]:
    warnings = []
    for name, column in result.columns.items():
        if (one_sided := column.one_sided()) is not None:
            values, of_labels, of_rows = one_sided
            names = ", ".join(readable(segment.value, 40) for segment in values)
            warnings.append(
                f"Warning: {100 * of_labels:.0f} % of the labels are of {100 * of_rows:.0f} % of"
                f" the rows, those with {readable(name, 40)} {names}. They also change how all"
                " other rows are corrected, perhaps wrongly: label rows of every value."
            )
    return warnings


def _fit_alone(result: DenseReplay) -> tuple[str, str]:
    """What the fit to validation rows alone gives or costs, and what the labels add to it; and a
    warning where it costs beyond chance. Empty where nothing was fitted."""
    alone = result.fit_alone
    changes = None if alone is None else alone.changes()
    if changes is None:
        return "", ""
    effects, label_changes = Effects.of(changes), result.changes(alone)
    costly = (points := effects.points) is not None and points.down and points.much
    numbers = f"`fit` alone, without labels, changes the predictions by {changes.in_words()}"
    if label_changes is not None and result.learned:
        numbers += f"; the labels add {label_changes.in_words()}"
    harm = (
        f"The validation rows do harm here: `fit` alone changes the predictions by"
        f" {changes.in_words()}. They are too few, their labels are wrong, or they differ from the"
        " stream in more than the class mix. With them:"
        if effects.worse and (not effects.better or costly)
        else ""
    )
    return f"{numbers}.", harm


def _reasons(result: DenseReplay, *, good: bool, bad: bool) -> list[str]:
    reasons = []
    can = result.paths.get("can")
    if can is not None and can.n and not bad:
        change = 100 * (can.accuracy - result.raw.accuracy)
        if change < -0.5:
            reasons.append(
                f"CAN alone would have cost {-change:.1f} points of accuracy; the mixture keeps it"
                " from doing harm."
            )
    moved, chance = _mix_change(result)
    if moved > max(0.1, 2 * chance):
        reasons.append(
            f"The class mix drifts: {100 * moved:.0f} % of the labels are of other classes in the"
            " last"
            " fifth of the stream than in the first."
        )
    weights = result.mean_weights
    best = max(weights, key=weights.__getitem__)
    reasons.append(
        f"The path with the most weight is {best}: {100 * weights[best]:.0f} % on average over the"
        " stream."
    )
    if (follows := result.corrector.follows_mix) is not None:
        reasons.append(
            f"{100 * follows:.0f} % of what was fitted to the validation rows follows the class mix"
            " of late rows; the rest stays as it was fitted."
        )
    few, requested = result.rates.get(0.05), result.asked_rates.get(0.05)
    every = result.rates.get(1.0, result.corrected)
    gain = result.raw.log_loss - every.log_loss
    if few is not None and result.learner.ask is None and good and gain > NATS:
        kept_gain = result.raw.log_loss - few.log_loss
        of_it = 0.0 if requested is None else result.raw.log_loss - requested.log_loss
        right = every.accuracy - result.raw.accuracy
        of_right = ""
        if right > POINTS / 100:
            share = max(0.0, few.accuracy - result.raw.accuracy) / right
            of_right = f" and {_percent(share)} of the gain in accuracy"
        asking = f"; with requested labels, {_percent(of_it / gain)} of the gain in log loss"
        reasons.append(
            f"With one label in 20 it would keep {_percent(kept_gain / gain)} of the gain in log"
            f" loss{of_right}{asking * (of_it > 0)}."
            if kept_gain > 0
            else "With one label in 20 it would keep none of the gain in log loss."
        )
    return reasons


def _percent(share: float) -> str:
    return f"{100 * min(share, 1):.0f} %"


def _mix_change(result: DenseReplay) -> tuple[float, float]:
    """Half the distance between the class mixes of the first and last fifth, and its value by
    chance.

    Chance alone makes the mixes of n and N labels differ by sum of sqrt((1/n + 1/N) q / (2 pi)); of
    labels with weights n and N are their effective numbers, and q is by the weights' squares.
    """
    rows = np.array([moment.row for moment in result.moments])
    ends = np.searchsorted(rows, [result.rows / 5, 0.8 * result.rows])

    def fifths(attribute: str) -> tuple[NDArray[Any], NDArray[Any]]:
        counts = np.cumsum([getattr(moment, attribute) for moment in result.moments], axis=0)
        return counts[ends[0]], counts[-1] - counts[ends[1]]

    (first, last), squares = fifths("counts"), fifths("squared_counts")
    n, N = first.sum(), last.sum()
    if not n or not squares[1].sum() > 1e-9:
        return 0.0, 0.0
    error = 1 / (n / (squares[0].sum() / n)) + 1 / (N / (squares[1].sum() / N))
    total = squares[0] + squares[1]
    chance = np.sqrt(error * total / total.sum() / (2 * math.pi)).sum()
    return 0.5 * float(np.abs(last / N - first / n).sum()), float(chance)
