"""Results of a replay in a terminal: verdict, scores, columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console
from rich.table import Table

from stream_can.cli.terminal import text_console
from stream_can.column_scores import ColumnScores
from stream_can.replay.beside import Beside
from stream_can.replay.names import readable
from stream_can.replay.result import Replay
from stream_can.replay.verdict import errors, judge
from stream_can.scores import FLOOR, Scores

__all__ = ["show_replay"]

VALUES = 10
"""Number of values shown per column."""


def show_replay(
    result: Replay,
    label_rate: float,
    besides: Iterable[Beside] = (),
    *,
    deploy: Mapping[str, str],
    verbose: bool = False,
) -> None:
    """Show the verdict in three lines, scores before and after, and notes.

    ``verbose``: also each path alone, and every way to deploy.
    """
    console = text_console()
    console.print(
        f"{result.rows:,} rows, {result.raw.n:,} with a label, {len(result.classes)} classes; "
        f"labels {result.delay}, {result.learned:,} learned"
        + (f" (label rate {label_rate:g})" if label_rate < 1 else "")
        + f"; {result.rows / max(result.seconds, 1e-9):,.0f} rows/s"
    )
    if not result.raw.n:
        console.print("No row has a label, so there is nothing to compare.")
        return
    found = judge(result)
    console.print()
    console.print(found.use, style="bold")
    if found.gains:
        console.print(found.gains)
    if found.deploy:
        # Not wrapped, so that the command can be copied.
        console.print(f"Next: {deploy['next']}", soft_wrap=True)
    elif found.gains:
        console.print("Next: nothing to deploy here.")
    console.print()
    console.print(_scores(result, verbose))
    for line in _notes(result):
        console.print(line)
    for name, column in result.columns.items():
        _show_values(console, name, column)
    if found.why:
        console.print()
    for one in found.why:
        console.print(f"- {one}")
    if verbose and found.deploy:
        if "first" in deploy:
            console.print(f"\nBefore:\n{deploy['first']}", soft_wrap=True)
        console.print(f"\nFrom standard input:\n{deploy['pipe']}", soft_wrap=True)
        console.print(f"\nOver HTTP:\n{deploy['serve']}", soft_wrap=True)
        console.print(f"\nWith Kafka:\n{deploy['run']}", soft_wrap=True)
        console.print(f"\nIn Python:\n{deploy['python']}", soft_wrap=True)
    elif found.deploy:
        console.print(
            "\n--verbose shows each path alone, and how to deploy it with a pipe, Kafka or Python"
        )
    for beside in besides:
        _show_beside(console, beside)


def _scores(result: Replay, verbose: bool) -> Table:
    """Scores before and after, changes with standard errors, and each path if ``verbose``."""
    weights = result.mean_weights
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in ("accuracy %", "log loss", "Brier", "ECE %", *["weight %"] * verbose):
        table.add_column(name, justify="right")
    table.add_row("before", *_cells(result.raw))
    table.add_row("after", *_cells(result.corrected), style="bold")
    table.add_row("change", *_cells(result.corrected, result.raw), style="cyan")
    points, nats = errors(result)
    if points == points:  # not nan, as for a single stretch
        table.add_row("±", f"{100 * points:.2f}", f"{nats:.4f}", end_section=True)
    if verbose:
        for name, scores in result.paths.items():
            if scores.n:
                cells = *_cells(scores), f"{100 * weights[name]:.1f}"
                table.add_row(f"  {name}", *cells, style="dim")
    return table


def _notes(result: Replay) -> Iterator[str]:
    """Notes under the table, and changes by label rate."""
    if (points := errors(result)[0]) == points:
        yield "±: standard error of the change over 30 stretches of the stream"
    yield f"log loss in nats; probabilities below {FLOOR:f} count as that"
    if result.rates or result.asked_rates:
        yield "\nChanges by the share of the labels that come:"
    for how, rates in (("", result.rates), (", asked for", result.asked_rates)):
        for rate, scores in rates.items():
            change = 100 * (scores.accuracy - result.raw.accuracy)
            nats = scores.log_loss - result.raw.log_loss
            yield f"{100 * rate:g} % of the labels{how}: {change:+.2f} points, {nats:+.4f} nats"


def _show_values(console: Console, name: str, column: ColumnScores) -> None:
    """The most frequent values of a column."""
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(readable(name, 40))
    for head in ("rows", "labels", "accuracy %", "change", "log loss", "change", "calibration %"):
        table.add_column(head, justify="right")
    found = column.values()
    for one in found[:VALUES]:
        (a, b), (c, d), (e, f) = one.accuracy, one.log_loss, one.calibration
        numbers = (
            [f"{100 * b:.2f}", f"{100 * (b - a):+.2f}", f"{d:.4f}", f"{d - c:+.4f}",
             f"{100 * e:.1f} -> {100 * f:.1f}"]
            if one.scored else []
        )  # fmt: skip
        table.add_row(readable(one.value, 40), f"{one.rows:,}", f"{one.labels:,}", *numbers)
    console.print(table)
    if len(found) > VALUES:
        console.print(f"and {len(found) - VALUES:,} more values; --report shows them")


def _show_beside(console: Console, beside: Beside) -> None:
    """Show variants that were played beside the replay."""
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for k, head in enumerate(beside.heads):
        words = k == 0 or not head
        table.add_column(head, justify="left" if words else "right", overflow="fold")
    for row in beside.rows:
        table.add_row(*row)
    console.print(table)
    console.print(beside.said)


def _cells(scores: Scores, before: Scores | None = None) -> list[str]:
    """Four scores as text, or their changes if ``before`` is given."""
    values = [100 * scores.accuracy, scores.log_loss, scores.brier, 100 * scores.ece]
    if before is None:
        return [f"{value:.{digits}f}" for value, digits in zip(values, (2, 4, 4, 2), strict=True)]
    raw = [100 * before.accuracy, before.log_loss, before.brier, 100 * before.ece]
    changes = [a - b for a, b in zip(values, raw, strict=True)]
    return [f"{change:+.{digits}f}" for change, digits in zip(changes, (2, 4, 4, 2), strict=True)]
