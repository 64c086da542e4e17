"""Trials of columns: replays with each, with all, and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stream_can.change import Changes
from stream_can.corrector import Corrector
from stream_can.replay.effect import Effects
from stream_can.replay.names import readable
from stream_can.replay.player import Player
from stream_can.replay.result import Replay
from stream_can.replay.variant_table import VariantTable
from stream_can.replay.verdict import FEW


class SegmentVariant(NamedTuple):
    """A replay with columns, compared to the same without."""

    columns: tuple[str, ...]
    values: int
    """Number of values learned in all columns."""
    changes: Changes

    @property
    def worth(self) -> bool:
        """Whether one score improves beyond chance by a relevant amount, and none becomes worse.

        Follows the rules of :func:`stream_can.replay.verdict.verdict`.
        """
        effects = Effects.of(self.changes)
        return effects.better and not effects.worse

    @property
    def harm(self) -> bool:
        """Whether a score becomes worse and none improves."""
        effects = Effects.of(self.changes)
        return effects.worse and not effects.better

    def to_dict(self) -> dict[str, Any]:
        """The trial as JSON."""
        return {
            "segments": list(self.columns),
            "values": self.values,
            **self.changes.summary(),
            "worth": self.worth,
        }

    @property
    def conclusion(self) -> str:
        """The conclusion in a word or two."""
        return "worth having" if self.worth else "leave out" if self.harm else "no clear gain"


def try_segments(
    player: Player, make: Callable[[Sequence[str]], Corrector], without: Replay
) -> list[SegmentVariant]:
    """Replay a recording with each of its columns alone, and with all together.

    Parameters
    ----------
    player
        Player of the recording, which has the columns.
    make
        Creates the initial corrector with given columns.
    without
        The same replay without columns.

    Returns
    -------
    A trial for each column, and one for all where there are several; none without labelled rows.
    """
    names = player.recording.segments
    column_sets = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    variants = []
    for columns in column_sets:
        corrector = make(columns)
        changes = player.play(corrector).changes(without)
        if changes is not None:
            values = sum(len(corrector.segment_values(name)) for name in columns)
            variants.append(SegmentVariant(tuple(columns), values, changes))
    return variants


def worth_in_words(variants: Sequence[SegmentVariant], labelled: int) -> str:
    """A sentence on which columns to declare."""
    if not variants:
        return "No row has a label, so nothing can be said of columns."
    if labelled < FEW:
        return f"Too few labels to say what columns are worth: {labelled:,} rows have one."
    alone = [variant for variant in variants if len(variant.columns) == 1]
    together = variants[-1]
    best = min(
        (variant for variant in variants if variant.worth),
        key=lambda variant: variant.changes.log_loss.value,
        default=None,
    )
    if best is None:
        return "No column is worth having here: none gains anything that stands out of the noise."
    names = ",".join(best.columns)
    useless = [variant.columns[0] for variant in alone if not variant.worth]
    alone_useless = ""
    if best is together and useless and len(alone) > 1:
        alone_useless = f" Alone {', '.join(useless)} would gain nothing clear."
    numbers = best.changes.in_words()
    return f"Worth having: --segments {names}, {numbers} against the same without.{alone_useless}"


def segments_table(variants: Sequence[SegmentVariant], labelled: int) -> VariantTable:
    """Trials of columns as a table."""
    rows = [
        (
            ", ".join(readable(name, 40) for name in variant.columns),
            f"{variant.values:,}",
            *variant.changes.cells,
            variant.conclusion,
        )
        for variant in variants
    ]
    return VariantTable(
        "With columns, against the same without",
        ("with", "values", "points", "±", "nats", "±", ""),
        rows,
        worth_in_words(variants, labelled),
        [variant.to_dict() for variant in variants],
    )
