"""Terminal output: progress bars, and the state of a corrector."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
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

MATTER = 20
"""Number of values shown per column."""


class _Rate(ProgressColumn):
    """Rows per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rows/s", style="progress.data.speed")


@contextmanager
def progress_bar(task_name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar with rate and time left, where standard error is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(task_name, total=total)
        yield lambda rows: progress.update(bar, advance=rows)


def show_inspection(description: dict[str, Any]) -> None:
    """Print the result of :func:`stream_can.cli.inspection.describe` as text."""
    console = text_console()
    recent = description.get("recent_log_loss", {"raw": None})
    facts = [
        ("predictions seen", f"{description['predictions']:,}"),
        ("labels learned", f"{description['labels']:,}"),
    ]
    if "known_classes" in description:
        facts.append(("classes that came", f"{description['known_classes']:,}"))
    else:
        sample_size = f"{description['effective_sample_size']:,.0f} (older ones count less)"
        temperature = f"{description['temperature']:.3f} (above 1: the classifier is overconfident)"
        facts += [("labels it rests on", sample_size), ("temperature", temperature)]
    if recent["raw"] is not None:
        recent_losses = f"{recent['raw']:.4f} before, {recent['corrected']:.4f} after"
        facts.append(
            ("recent log loss", recent_losses + " (of what was sent, where that is known)")
        )
        if (fitted := description.get("fitted_log_loss")) is not None:
            worse = ": worse than as they came" if fitted > recent["raw"] else ""
            facts.append(("", f"{fitted:.4f} by `fit` alone{worse}"))
    sent = ", ".join(f"{name} {100 * w:.0f} %" for name, w in description["final_weights"].items())
    if "last_temperature" in description:
        sent += f", mixed and tempered by {description['last_temperature']:.3f}"
    facts.append(("what goes out", sent))
    if "threshold" in description:
        facts.append(("said to have a label", f"from {description['threshold']:.3f} on"))
    if description.get("coverage", 1) < 0.995:
        facts.append(
            (
                "labels",
                f"no fair sample: {100 * description['coverage']:.0f} % of the correction goes out",
            )
        )
    if description.get("silent_classes"):
        names = ", ".join(map(str, description["silent_classes"]))
        facts.append(("left out of learning", f"{names}: no label of theirs has ever come"))
    if description.get("fit") is not None:
        fit = description["fit"]
        facts.append(("fitted on", f"{fit['rows']:,} validation rows: {fit['step']}; {fit['why']}"))
        for step in fit["ladder"]:
            facts.append(("", ", ".join(f"{name} {_plain(value)}" for name, value in step.items())))
        if (share := description.get("follows_mix")) is not None:
            facts.append(("", f"{share:.0%} of what it says follows the class mix of the stream"))
        if fit["missing"]:
            facts.append(("", f"no validation row of: {', '.join(map(readable, fit['missing']))}"))
    for name, value in (description.get("stream") or {}).items():
        facts.append((name.replace("_", " "), _plain(value)))
    facts += [
        (name.replace("_", " "), _plain(value)) for name, value in description["settings"].items()
    ]
    console.print(two_columns(facts))
    console.print()
    if "classes" in description:
        _show_classes(console, description)
    weights = [(name, 100 * w) for name, w in description["weights"].items()]
    console.print(_bars("path", "weight %", weights))
    for name, odds in description.get("segments", {}).items():
        console.print()
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(readable(name, 40))
        table.add_column("odds, nats", justify="right")
        for value, nats in list(odds.items())[:MATTER]:
            table.add_row(readable(value, 40), f"{nats:+.2f}")
        console.print(table)
        omitted = f", and {len(odds) - MATTER:,} nearer to 0" if len(odds) > MATTER else ""
        console.print(f"{len(odds):,} values{omitted}; above 0 its labels spoke for its column")


def _show_classes(console: Console, description: Mapping[str, Any]) -> None:
    """The class mix, or the frequency of each label."""
    if "prior" in description:
        shares, heads = description["prior"], ("class", "class mix %")
    else:
        pairs = zip(description["yes"], description["known"], strict=True)
        shares = [yes / known if known else 0.0 for yes, known in pairs]
        heads = ("label", "of rows %")
    mix = sorted(zip(description["classes"], shares, strict=True), key=lambda pair: -pair[1])
    console.print(_bars(*heads, [(readable(name, 40), 100 * q) for name, q in mix[:20]]))
    if len(mix) > 20:
        together = f" classes with {100 * sum(q for _, q in mix[20:]):.2f} % together"
        console.print(f"and {len(mix) - 20} more{together if 'prior' in description else ''}")
    console.print()


def print_json(output: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(output, indent=1, default=_as_json))


def _as_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def text_console() -> Console:
    # Output to pipes and files must not be wrapped at 80 columns. Class names are plain text: rich
    # would interpret [brackets] as markup and :words: as emoji.
    return Console(
        width=None if sys.stdout.isatty() else 120, highlight=False, markup=False, emoji=False
    )


def two_columns(facts: Iterable[tuple[str | Text, str | Text]]) -> Table:
    """A table of names and descriptions."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, value)
    return table


def _bars(head: str, unit: str, rows: list[tuple[str, float]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(head)
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
