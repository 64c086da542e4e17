"""Trials of ``label_noise``: replays with several values, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Change, change
from stream_can.corrector import Corrector
from stream_can.replay.effect import NATS, Effect
from stream_can.replay.player import Player
from stream_can.replay.step import Step
from stream_can.replay.variant_table import VariantTable
from stream_can.replay.verdict import FEW
from stream_can.scores import log_losses

BY_THE_RECORDED = (
    "Scores are by the labels as recorded. Wrong ones among them count right predictions as wrong:"
    " accuracy is understated, and log loss speaks against a label_noise even where it is right,"
    " since rows that were learned with it do not foretell wrong labels. The last log loss does: of"
    " labels of which that share is any class, right or wrong. Where wrong labels are of another"
    " kind, one class called another, it cannot tell either."
)


class NoiseVariant(NamedTuple):
    """A replay with one value of ``label_noise``, compared to the replay's own value."""

    label_noise: float
    is_own: bool
    """Whether it is the replay's own value."""
    accuracy: Change
    log_loss: Change
    expected: Change
    """Log loss of (1 - label_noise) u + label_noise / m, where the row gives the label u."""

    def to_dict(self) -> dict[str, Any]:
        """The trial as JSON."""
        return {
            "label_noise": self.label_noise,
            "own": self.is_own,
            **{
                name: {"value": score.after, "change": score.value, "error": _plain(score.error)}
                for name, score in (
                    ("accuracy", self.accuracy),
                    ("log_loss", self.log_loss),
                    ("log_loss_expecting_wrong", self.expected),
                )
            },
        }


def try_label_noise(
    player: Player,
    make: Callable[[float], Corrector],
    values: Sequence[float],
    own_noise: float = 0.0,
) -> list[NoiseVariant]:
    """Replay a recording with several values of ``label_noise``.

    Parameters
    ----------
    player
        Player of the recording, whose labels may be partly wrong.
    make
        Creates the initial corrector for a ``label_noise``.
    values
        The values.
    own_noise
        The value to compare with; it is played too.

    Returns
    -------
    A trial for each value including ``own_noise``, in order; none without labelled rows.
    """
    played = {value: _played(player, make(value), value) for value in sorted({own_noise, *values})}
    rows, own_sums = played[own_noise]
    variants = []
    for value, (_, sums) in played.items():
        changes = [change(rows, a, b) for a, b in zip(own_sums, sums, strict=True)]
        accuracy, log_loss, expected = changes
        if accuracy is not None and log_loss is not None and expected is not None:
            variants.append(NoiseVariant(value, value == own_noise, accuracy, log_loss, expected))
    return variants


def _played(
    player: Player, corrector: Corrector, noise: float
) -> tuple[list[float], NDArray[np.float64]]:
    """Labelled rows of each step; their hits, their log losses, and the log losses where a share
    ``noise`` of the labels is of any class, shape (3, steps)."""
    expected = list[float]()

    def add(step: Step) -> None:
        at = np.flatnonzero(step.truth >= 0)
        rows = step.corrected
        u = (1 - noise) * rows[at, step.truth[at]] + noise / rows.shape[1]
        losses = log_losses(u)
        if step.weights is not None:
            losses *= step.weights[at]
        expected.append(float(losses.sum()))

    result = player.play(corrector, each=add)
    return result.labelled, np.concatenate([result.sums(1), [expected]])


def noise_in_words(variants: Sequence[NoiseVariant], labelled: int) -> str:
    """A paragraph on what the figures show and what they cannot."""
    if not variants:
        return "No row has a label, so nothing can be said of label_noise."
    if labelled < FEW:
        return f"Too few labels to say what label_noise gives: {labelled:,} rows have one."
    own_variant = next(variant for variant in variants if variant.is_own)
    best = min(variants, key=lambda variant: variant.expected.after)
    if best is own_variant or not Effect(best.expected, NATS).down:
        first = (
            "No label_noise that was tried explains these labels better than"
            f" {own_variant.label_noise:g}, beyond chance."
        )
    else:
        first = (
            f"Of those that were tried label_noise {best.label_noise:g} explains these labels best:"
            f" {best.expected.value:+.4f} nats (standard error {best.expected.error:.4f}) against"
            f" {own_variant.label_noise:g}."
        )
    return f"{first} {BY_THE_RECORDED}"


def noise_table(variants: Sequence[NoiseVariant], labelled: int) -> VariantTable:
    """Trials of ``label_noise`` as a table."""
    rows = []
    for variant in variants:
        cells = [f"{variant.label_noise:g}"]
        pairs = ((variant.accuracy, 100, 2), (variant.log_loss, 1, 4), (variant.expected, 1, 4))
        for score, times, digits in pairs:
            cells.append(f"{times * score.after:.{digits}f}")
            change_cells = f"{times * score.value:+.{digits}f}", f"{times * score.error:.{digits}f}"
            cells += ("", "") if variant.is_own else change_cells
        rows.append(cells)
    return VariantTable(
        "Other shares of wrong labels",
        (
            "label_noise", "accuracy %", "change", "±", "log loss", "change", "±",
            "log loss, that share wrong", "change", "±",
        ),
        rows,
        noise_in_words(variants, labelled),
        [variant.to_dict() for variant in variants],
    )  # fmt: skip


def _plain(value: float) -> float | None:
    """A number, or None for nan, which JSON lacks."""
    return None if value != value else value
