"""What the command line shows: a progress bar, the table of a replay, what a corrector learned."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from stream_can.replay.names import readable
from stream_can.replay.result import Replay
from stream_can.replay.tried import Tried, worth_in_words
from stream_can.replay.verdict import verdict
from stream_can.scores import Scores
from stream_can.stream.values import ColumnScores

__all__ = ["print_json", "progress_bar", "show_inspection", "show_replay", "two_columns"]
VALUES, MATTER = 10, 20
"""Values of each column that a replay shows, and an inspection."""


class _Rate(ProgressColumn):
    """Rows per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rows/s", style="progress.data.speed")


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left on standard error, where that is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda rows: progress.update(bar, advance=rows)


def show_replay(result: Replay, label_rate: float, tried: Sequence[Tried] = ()) -> None:
    """Scores before and after, the tables of paths, values and tried columns, and the verdict."""
    console = _console()
    console.print(
        f"{result.rows:,} rows, {result.raw.n:,} with a label, {len(result.classes)} classes; "
        f"labels {result.delay}, {result.corrector.n_labels:,} learned"
        + (f" (label rate {label_rate:g})" if label_rate < 1 else "")
        + f"; {result.rows / max(result.seconds, 1e-9):,.0f} rows/s"
    )
    if not result.raw.n:
        console.print("No row has a label, so there is nothing to compare.")
        return
    weights = result.mean_weights
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in ("accuracy %", "log loss", "Brier", "ECE %", "weight %"):
        table.add_column(name, justify="right")
    table.add_row("before", *_cells(result.raw))
    table.add_row("after", *_cells(result.corrected), style="bold")
    table.add_row("change", *_cells(result.corrected, result.raw), style="cyan", end_section=True)
    for name, scores in result.paths.items():
        if scores.n:
            table.add_row(f"  {name}", *_cells(scores), f"{100 * weights[name]:.1f}", style="dim")
    console.print(table)
    for how, rates in (("", result.rates), (", asked for", result.asked_rates)):
        for rate, scores in rates.items():
            change = 100 * (scores.accuracy - result.raw.accuracy)
            nats = scores.log_loss - result.raw.log_loss
            console.print(
                f"{100 * rate:g} % of the labels{how}: {change:+.2f} points, {nats:+.4f} nats"
            )
    for name, column in result.columns.items():
        _show_values(console, name, column)
    console.print()
    console.print(verdict(result))
    if tried:
        _show_tried(console, tried)
        console.print(worth_in_words(tried, result.raw.n))


def _show_values(console: Console, name: str, column: ColumnScores) -> None:
    """The heaviest values of a column."""
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


def _show_tried(console: Console, tried: Sequence[Tried]) -> None:
    """What each column is worth."""
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("with", overflow="fold")
    for head in ("values", "points", "±", "nats", "±"):
        table.add_column(head, justify="right")
    table.add_column("")
    for one in tried:
        table.add_row(
            ", ".join(readable(name, 40) for name in one.columns),
            f"{one.values:,}",
            f"{100 * one.accuracy.value:+.2f}",
            f"{100 * one.accuracy.error:.2f}",
            f"{one.log_loss.value:+.4f}",
            f"{one.log_loss.error:.4f}",
            one.said,
        )
    console.print(table)


def show_inspection(found: dict[str, Any]) -> None:
    """What :func:`stream_can.cli.inspection.describe` says, for people."""
    console = _console()
    recent = found["recent_log_loss"]
    facts = [
        ("predictions seen", f"{found['predictions']:,}"),
        ("labels learned", f"{found['labels']:,}"),
        ("labels it rests on", f"{found['effective_sample_size']:,.0f} (older ones count less)"),
        ("temperature", f"{found['temperature']:.3f} (above 1: the classifier is overconfident)"),
    ]
    if recent["raw"] is not None:
        helps = f"{recent['raw']:.4f} before, {recent['corrected']:.4f} after"
        facts.append(("recent log loss", helps + " (of what was sent, where that is known)"))
    sent = ", ".join(f"{name} {100 * w:.0f} %" for name, w in found["final_weights"].items())
    facts.append(("what goes out", f"{sent}; last temperature {found['last_temperature']:.3f}"))
    if found["coverage"] < 0.995:
        facts.append(
            (
                "labels",
                f"no fair sample: {100 * found['coverage']:.0f} % of the correction goes out",
            )
        )
    if found["silent_classes"]:
        names = ", ".join(map(str, found["silent_classes"]))
        facts.append(("left out of learning", f"{names}: no label of theirs has ever come"))
    if found["fit"] is not None:
        fit = found["fit"]
        facts.append(("fitted on", f"{fit['rows']:,} validation rows: {fit['step']}; {fit['why']}"))
        for step in fit["ladder"]:
            facts.append(("", ", ".join(f"{name} {_plain(value)}" for name, value in step.items())))
        if fit["missing"]:
            facts.append(("", f"no validation row of: {', '.join(map(readable, fit['missing']))}"))
    for name, value in (found.get("stream") or {}).items():
        facts.append((name.replace("_", " "), _plain(value)))
    facts += [(name.replace("_", " "), _plain(value)) for name, value in found["settings"].items()]
    console.print(two_columns(facts))
    console.print()
    mix = sorted(zip(found["classes"], found["prior"], strict=True), key=lambda pair: -pair[1])
    console.print(
        _bars("class", "class mix %", [(readable(name, 40), 100 * q) for name, q in mix[:20]])
    )
    if len(mix) > 20:
        rest = 100 * sum(q for _, q in mix[20:])
        console.print(f"and {len(mix) - 20} more classes with {rest:.2f} % together")
    console.print()
    weights = [(name, 100 * w) for name, w in found["weights"].items()]
    console.print(_bars("path", "weight %", weights))
    for name, odds in found.get("segments", {}).items():
        console.print()
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(readable(name, 40))
        table.add_column("odds, nats", justify="right")
        for value, nats in list(odds.items())[:MATTER]:
            table.add_row(readable(value, 40), f"{nats:+.2f}")
        console.print(table)
        more = f", and {len(odds) - MATTER:,} nearer to 0" if len(odds) > MATTER else ""
        console.print(f"{len(odds):,} values{more}; above 0 its labels spoke for its column")


def print_json(found: Any) -> None:
    """A result for programs."""
    print(json.dumps(found, indent=1, default=_as_json))


def _as_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _console() -> Console:
    # Output into a pipe or a file must not be wrapped at 80 columns. Names of classes are text:
    # rich would take [brackets] for markup and :words: for emoji.
    return Console(
        width=None if sys.stdout.isatty() else 120, highlight=False, markup=False, emoji=False
    )


def _cells(scores: Scores, before: Scores | None = None) -> list[str]:
    """Four scores as text, or where ``before`` is given how they changed."""
    values = [100 * scores.accuracy, scores.log_loss, scores.brier, 100 * scores.ece]
    if before is None:
        return [f"{value:.{digits}f}" for value, digits in zip(values, (2, 4, 4, 2), strict=True)]
    raw = [100 * before.accuracy, before.log_loss, before.brier, 100 * before.ece]
    changes = [a - b for a, b in zip(values, raw, strict=True)]
    return [f"{change:+.{digits}f}" for change, digits in zip(changes, (2, 4, 4, 2), strict=True)]


def two_columns(facts: Iterable[tuple[str | Text, str | Text]]) -> Table:
    """Names and what is said of each."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value)
    return table


def _bars(what: str, unit: str, rows: list[tuple[str, float]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(what)
    table.add_column(unit, justify="right")
    table.add_column("")
    top = max((value for _, value in rows), default=1) or 1
    for name, value in rows:
        table.add_row(name, f"{value:.2f}", "█" * round(30 * value / top))
    return table


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(entry)}" for name, entry in value.items())
    if value is None:
        return "the number of classes"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
