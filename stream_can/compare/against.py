"""Rivals beside a replay: other methods on the same rows with the same labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.change import Changes
from stream_can.compare.outcome import Outcome, compare
from stream_can.compare.rivals import Rival, rivals
from stream_can.compare.stream import load
from stream_can.recording.recording import Recording
from stream_can.replay.effect import NATS
from stream_can.replay.player import Player
from stream_can.replay.result import Replay
from stream_can.replay.steps import arrivals_rng
from stream_can.replay.variant_table import VariantTable

HEADS = (
    "against", "accuracy %", "log loss", "stream_can: points", "±", "nats", "±", "Brier", "ECE %",
    "µs/row",
)  # fmt: skip
"""µs/row is processor time, fits included."""


class Against(NamedTuple):
    """A replay compared to a rival."""

    outcome: Outcome
    changes: Changes
    """Of stream_can against it."""
    labelled: NDArray[np.int64]
    """Number of labelled rows of each step."""
    sums: list[NDArray[np.float64]]
    """Sums over the labelled rows of each step: its right predictions, and its log loss."""

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON."""
        outcome = self.outcome
        scores = outcome.scores.summary() | {"microseconds": outcome.microseconds}
        return {
            "name": outcome.name,
            "needs": outcome.needs,
            **scores,
            "change": self.changes.summary(),
        }


def other_rivals(
    names: str | Sequence[str], *, fitted: bool, classes: int | None = None
) -> list[Rival]:
    """Rivals by name, see :func:`stream_can.compare.rivals`, without stream_can.

    Where ``fitted`` is false, "default" and "all" are those that need no validation rows.

    Raises
    ------
    ValueError
        A name is unknown, or its rival plays fewer classes, or needs validation rows while
        ``fitted`` is false.
    """
    chosen = [rival for rival in rivals(names=names, classes=classes) if rival.is_other]
    if names in ("default", "all") and not fitted:
        return [rival for rival in chosen if not rival.is_fitted]
    for rival in chosen:
        if rival.is_fitted and not fitted:
            raise ValueError(
                f"--against: {rival.key} is fitted to validation rows; name a file of them,"
                " --validation FILE, or leave it out"
            )
    return chosen


def play_against(
    player: Player,
    playing: Sequence[Rival],
    result: Replay,
    validation: Recording | None = None,
) -> Iterator[Against]:
    """Play a replay's recording with rivals; it is then in memory as a whole.

    Parameters
    ----------
    player
        Player of the replay.
    playing
        Rivals from :func:`other_rivals`.
    result
        The replay, with the same rows and labels.
    validation
        Rows to which rivals are fitted.

    Yields
    ------
    Against
        Of each rival in turn; none without labelled rows.
    """
    if not result.raw.n:
        return
    stream = load(player.recording, label_delay=player.label_delay, validation=validation)
    drawn = arrivals_rng(player.seed).random(len(stream.P)) < player.label_rate
    stream = stream._replace(arrives=stream.arrives & drawn)
    ends = np.cumsum([moment.n for moment in result.moments])
    for outcome in compare(stream, playing, player.progress):
        sums = [_sums(each, ends) for each in (outcome.hits, outcome.losses)]
        changes = Changes.of_sums(result.labelled, sums, result.sums(1))
        assert changes is not None
        yield Against(outcome, changes, np.diff(ends, prepend=0), sums)


def _sums(values: NDArray[Any], ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums over the labelled rows of each step."""
    return np.diff(np.append(0.0, np.cumsum(values))[ends], prepend=0.0)


def against_table(comparisons: Sequence[Against]) -> VariantTable:
    """Rivals as a table."""
    rows = []
    for comparison in comparisons:
        scores = comparison.outcome.scores
        rows.append((
            comparison.outcome.name, f"{100 * scores.accuracy:.2f}", f"{scores.log_loss:.4f}",
            *comparison.changes.cells, f"{scores.brier:.4f}", f"{100 * scores.ece:.2f}",
            f"{comparison.outcome.microseconds:.1f}",
        ))  # fmt: skip
    return VariantTable(
        "Against what else one could do",
        HEADS,
        rows,
        _in_words(comparisons),
        [comparison.to_dict() for comparison in comparisons],
    )


def better_rival(comparisons: Sequence[Against]) -> str:
    """The sentence that a verdict begins with where one of the rivals has a smaller log loss, by as
    much as matters: which one, by how much, and whether that is sure; empty without one."""
    best = max(comparisons, key=lambda comparison: comparison.changes.log_loss.value, default=None)
    if best is None or best.changes.log_loss.value < NATS:
        return ""
    points, nats = best.changes
    numbers = (
        f"log loss {nats.before:.4f}, stream_can {nats.after:.4f} ({nats.value:+.4f} nats, standard"
        f" error {nats.error:.4f}), accuracy {100 * points.before:.2f} %, stream_can"
        f" {100 * points.after:.2f} %"
    )
    certainty = "the difference is beyond chance" if nats.rose else "the difference may be chance"
    return (
        f"{best.outcome.key} does better on this stream: {numbers}; {certainty}. It needs"
        f" {best.outcome.needs}."
    )


def _in_words(comparisons: Sequence[Against]) -> str:
    """Describe which of the rivals do better, beyond chance."""
    if not comparisons:
        return "No row has a label, so nothing can be compared."
    kinds = {
        "Better than stream_can": [c for c in comparisons if c.changes.loss > c.changes.gain],
        "Better in one score and worse in the other": [
            c for c in comparisons if c.changes.loss and c.changes.gain
        ],
        "Not clearly apart from it": [
            c for c in comparisons if not c.changes.loss and not c.changes.gain
        ],
        "Worse than stream_can": [c for c in comparisons if c.changes.gain > c.changes.loss],
    }
    return " ".join(
        f"{kind}: {', '.join(c.outcome.key for c in members)}."
        for kind, members in kinds.items()
        if members
    )
