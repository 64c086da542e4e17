"""Results of a replay in a terminal: verdict, scores, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from stream_can.cli.terminal import text_console
from stream_can.column_scores import ColumnScores
from stream_can.replay.names import readable
from stream_can.replay.result import Replay
from stream_can.replay.shown import ScoreTable, judge, shown
from stream_can.replay.variant_table import VariantTable

VALUES = 10
"""Number of values shown per column."""


def show_replay(
    result: Replay,
    label_rate: float,
    variant_tables: Iterable[VariantTable] = (),
    *,
    deploy: Mapping[str, str],
    verbose: bool = False,
) -> None:
    """Show the verdict in three lines, scores before and after, and notes.

    ``verbose``: also each path alone, and every way to deploy.
    """
    console, kind = text_console(), shown(result)
    console.print(
        kind.head(result)
        + (f" (label rate {label_rate:g})" if label_rate < 1 else "")
        + f"; {result.rows / max(result.seconds, 1e-9):,.0f} rows/s"
    )
    if result.read_as:
        console.print(result.read_as)
    if not result.raw.n:
        console.print(kind.NOTHING)
        for doubt in result.doubts:
            console.print(f"- {doubt}")
        return
    verdict = judge(result)
    console.print()
    console.print(verdict.use, style="bold")
    if verdict.gains:
        console.print(verdict.gains)
    if verdict.deploy:
        # Not wrapped, so that the command can be copied.
        console.print(f"Next: {deploy['next']}", soft_wrap=True)
    elif verdict.gains:
        console.print(f"Next: {verdict.instead or 'nothing to deploy here.'}")
    console.print()
    console.print(_scores(kind.table(result, verbose=verbose)))
    for line in kind.notes(result):
        console.print(line)
    for name, column in result.columns.items():
        _show_segments(console, name, column)
    if verdict.why:
        console.print()
    for note in verdict.why:
        console.print(f"- {note}")
    if verbose and verdict.deploy:
        if "first" in deploy:
            console.print(f"\nBefore:\n{deploy['first']}", soft_wrap=True)
        console.print(f"\nFrom standard input:\n{deploy['pipe']}", soft_wrap=True)
        console.print(f"\nOver HTTP:\n{deploy['serve']}", soft_wrap=True)
        if "run" in deploy:
            console.print(f"\nWith Kafka:\n{deploy['run']}", soft_wrap=True)
        console.print(f"\nIn Python:\n{deploy['python']}", soft_wrap=True)
    elif verdict.deploy:
        console.print(
            "\n--verbose shows each path alone, and how to deploy it with a pipe, Kafka or Python"
        )
    for table in variant_tables:
        _show_variants(console, table)


def _scores(scores: ScoreTable) -> Table:
    """Scores before and after."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for head in scores.heads:
        table.add_column(head, justify="right")
    for row in scores.rows:
        table.add_row(row.name, *row.cells, style=row.style, end_section=row.last)
    return table


def _show_segments(console: Console, title: str, column: ColumnScores) -> None:
    """The most frequent values of a column."""
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(readable(title, 40))
    for head in ("rows", "labels", "accuracy %", "change", "log loss", "change", "calibration %"):
        table.add_column(head, justify="right")
    segment_scores = column.values()
    for segment in segment_scores[:VALUES]:
        (a, b), (c, d), (e, f) = segment.accuracy, segment.log_loss, segment.calibration
        numbers = (
            [f"{100 * b:.2f}", f"{100 * (b - a):+.2f}", f"{d:.4f}", f"{d - c:+.4f}",
             f"{100 * e:.1f} -> {100 * f:.1f}"]
            if segment.scored else []
        )  # fmt: skip
        table.add_row(
            readable(segment.value, 40), f"{segment.rows:,}", f"{segment.labels:,}", *numbers
        )
    console.print(table)
    if len(segment_scores) > VALUES:
        console.print(f"and {len(segment_scores) - VALUES:,} more values; --report shows them")


def _show_variants(console: Console, variants: VariantTable) -> None:
    """Show variants that were played beside the replay."""
    console.print()
    shown_table = Table(box=None, pad_edge=False, header_style="bold")
    for k, head in enumerate(variants.heads):
        words = k == 0 or not head
        shown_table.add_column(head, justify="left" if words else "right", overflow="fold")
    for row in variants.rows:
        shown_table.add_row(*row)
    console.print(shown_table)
    console.print(variants.summary)
