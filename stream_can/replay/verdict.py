"""Verdict: whether a replay advises to use the corrector; what all kinds of rows share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from stream_can.change import Change, Changes
from stream_can.replay.asking import asked_labels
from stream_can.replay.effect import POINTS, Effect, Effects
from stream_can.replay.names import readable
from stream_can.replay.result import Replay

FEW = 200
"""Minimum number of labelled rows for a verdict."""

BY_WEIGHT = "scores count each label as its weight, numbers of rows count it once"


class Verdict(NamedTuple):
    """Advice on using the corrector on a stream."""

    use: str
    """Whether to use it, and how certain that is."""
    gains: str
    """Classes that gain and lose; empty where unknown."""
    why: tuple[str, ...]
    """Further notes, a sentence or two each, those on labels first."""
    deploy: bool
    """Whether there is something to deploy."""
    instead: str = ""
    """What to do where there is not, if that is known."""

    @property
    def text(self) -> str:
        """The verdict in one paragraph."""
        return " ".join(part for part in (self.use, self.gains, *self.why) if part)


def few_labels(known: str) -> Verdict:
    """No verdict, for want of labels; ``known`` says how many there are."""
    few = (
        f"Too few labels to say: {known}, and below {FEW} any difference may be chance. Replay a"
        " longer recording."
    )
    return Verdict(few, "", (), False)


def in_numbers(changes: Changes, *, log_loss_first: bool = False) -> str:
    """Accuracy and log loss before and after, as text."""
    points, nats = changes
    clauses = [
        f"accuracy {100 * points.before:.2f} % before and {100 * points.after:.2f} % after "
        f"({100 * points.value:+.2f} points, standard error {100 * points.error:.2f})",
        f"log loss {nats.before:.4f} before and {nats.after:.4f} after "
        f"({nats.value:+.4f} nats, standard error {nats.error:.4f})",
    ]
    return ", ".join(clauses[::-1] if log_loss_first else clauses)


def beside_commonest(name: Any, share: float) -> str:
    """What always saying the commonest class would give."""
    return (
        f"Always saying {readable(name, 40)} is right in {100 * share:.2f} %, so accuracy is no"
        " measure here: log loss is."
    )


def judge_changes(
    changes: Changes | None, n: int, commonest: tuple[Any, float] | None = None
) -> str:
    """Advice by the changes of n labelled rows alone; ``commonest`` is the class with most labels
    and its share of them."""
    if changes is None or n < FEW:
        return few_labels(f"{n:,} rows have one").use
    effects = Effects.of(changes)
    beside = ""
    if commonest is not None:
        name, share = commonest
        least = max(POINTS / 100, 2 * math.sqrt(share * (1 - share) / n))
        if changes.accuracy.after - share < least:
            beside = beside_commonest(name, share)
    if beside:
        effects = effects.without_gain_of_accuracy()
    numbers = in_numbers(changes, log_loss_first=bool(beside))
    return " ".join(filter(None, [conclusion(*effects, numbers), beside]))


def conclusion(points: Effect | None, nats: Effect, numbers: str) -> str:
    """Advice by the effects on accuracy, None where there is none, and on log loss; ``numbers``
    describes them."""
    every = [nats] if points is None else [points, nats]
    good = nats.down or (points is not None and points.up)
    bad = nats.up or (points is not None and points.down)
    if bad and not good:
        much = (nats.up and nats.much) or (points is not None and points.down and points.much)
        return (
            f"Do not use it on this stream: it made the predictions worse, {numbers}."
            if much
            else f"It costs a little here and gains nothing: {numbers}."
        )
    if bad:
        return f"It is a trade on this stream, and yours to weigh: {numbers}."
    if points is not None and points.up:
        return f"Use it: more predictions are right, {numbers}.{_sure(points.change)}"
    if good and points is None:
        return f"Use it: the probabilities are closer to the truth, {numbers}."
    if good:
        return (
            "Use it where the probabilities themselves matter: they are closer to the truth, while "
            f"accuracy shows no clear change, {numbers}."
        )
    if all(effect.small for effect in every):
        return f"It does nothing here, neither good nor bad: {numbers}."
    return (
        f"It changes nothing here that stands out of the noise: {numbers}. A longer recording would"
        " tell."
    )


def errors(result: Replay) -> tuple[float, float]:
    """Standard errors of the changes of accuracy and log loss; nan for a single stretch."""
    changes = result.changes()
    return (
        (math.nan, math.nan)
        if changes is None
        else (changes.accuracy.error, changes.log_loss.error)
    )


def _sure(points: Change) -> str:
    """Interval of the gain in accuracy."""
    low, high = points.interval or (0.0, 0.0)
    return f" The gain is {100 * low:.2f} to {100 * high:.2f} points with 95 % confidence."


def labels_in_words(result: Replay) -> list[str]:
    """Describe which labels were requested, came too late or contradict an earlier one."""
    sentences, learned = asked_labels(result), result.delay_rows.n
    if 2 * learned <= result.coming and result.coming:
        sentences.append(
            f"Warning: labels come so late that only {learned:,} of {result.coming:,} were there "
            "before the recording ended; the replay hardly shows what they teach. Replay a longer"
            " one."
        )
    if n := result.changed_labels:
        verb = "contradicts" if n == 1 else "contradict"
        sentences.append(f"{n:,} label{'s' * (n > 1)} {verb} an earlier one; the first counts.")
    return sentences
