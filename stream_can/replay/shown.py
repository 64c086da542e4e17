"""What a kind of rows shows of its replays: `Shown`, with the tables of a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from stream_can.replay.labels import RecordedRows
from stream_can.replay.result import Replay
from stream_can.replay.verdict import Verdict, errors
from stream_can.row_kinds import part


class Cells(NamedTuple):
    """A row of a table."""

    name: str
    cells: Sequence[str]
    style: str | None = None
    last: bool = False
    """Whether a section of the table ends after it."""


class ScoreTable(NamedTuple):
    """A table of scores; its first column has no head."""

    heads: Sequence[str]
    rows: Sequence[Cells]


class Shown(Protocol):
    """What a kind of rows shows of its replays: the module ``replay`` of its room."""

    Result: type[Any]
    """Its `Replay`."""
    NOTHING: str
    """Message where no label is known."""

    def events(self, chunk: Any) -> RecordedRows:
        """Rows and labels of a chunk of its recording."""

    def judge(self, result: Any) -> Verdict:
        """Whether to use the corrector on this stream, how certain that is, and why."""

    def head(self, result: Any) -> str:
        """Rows, labels and classes of a result."""

    def table(self, result: Any, *, verbose: bool = False) -> ScoreTable:
        """Scores before and after."""

    def notes(self, result: Any) -> Iterable[str]:
        """Lines under the table."""


def shown(result: Replay) -> Shown:
    """What is shown of a replay."""
    room: Shown = part(result.corrector.row_kind, "replay")
    return room


def judge(result: Replay) -> Verdict:
    """Judge whether to use the corrector on this stream, how certain that is, and why.

    A change counts beyond its 95 % interval, taken over 30 stretches of the stream (neighbouring
    rows are alike), and from 0.1 point of accuracy or 0.002 nats of log loss on; a loss must be
    five times as large for advice against using it. Where rows and labels look as if they were
    joined wrongly there is no verdict, but a question. Where another method that was played
    beside it does better, the verdict begins with that.
    """
    if result.doubts:
        first, *other_doubts = result.doubts
        return Verdict(f"No verdict: {first}", "", tuple(other_doubts), False)
    judged = shown(result).judge(result)
    if result.better_rival:
        return judged._replace(use=f"{result.better_rival} {judged.use}")
    return judged


def verdict(result: Replay) -> str:
    """One paragraph on whether to use the corrector on this stream, and why: the text of
    :func:`judge`."""
    return judge(result).text


def changes_by_rate(result: Replay) -> Iterator[str]:
    """A line for each share of the labels that was played: changes of accuracy and log loss."""
    for how, rates in (("", result.rates), (", asked for", result.asked_rates)):
        for rate, scores in rates.items():
            points = f"{100 * (scores.accuracy - result.raw.accuracy):+.2f} points"
            nats = f"{scores.log_loss - result.raw.log_loss:+.4f} nats"
            changes = result.rate_changes.get((rate, bool(how)))
            if changes is not None and not math.isnan(changes.log_loss.error):
                points += f" ± {100 * changes.accuracy.error:.2f}"
                nats += f" ± {changes.log_loss.error:.4f}"
            yield f"{100 * rate:g} % of the labels{how}: {points}, {nats}"


def with_errors(result: Replay, *cells: str) -> list[Cells]:
    """A row with the standard errors of the changes of accuracy and log loss, and ``more``, where
    known."""
    points, nats = errors(result)
    if points != points:  # nan, as for a single stretch
        return []
    return [Cells("±", [f"{100 * points:.2f}", f"{nats:.4f}", *cells], None, last=True)]
