"""``stream-can watch``: what a worker's live page shows, in a terminal."""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from stream_can import kafka
from stream_can.app.status import VERSION, Cell, Name, Sheet, Status, Time
from stream_can.cli.keys import pressed
from stream_can.cli.terminal import two_columns
from stream_can.errors import StreamCANError
from stream_can.replay.names import readable

__all__ = ["watch"]

EVERY_SECONDS = 2.0
MOST_BYTES = 4 << 20
COLOURS = {"good": "green", "doubt": "yellow", "bad": "red"}
CLASSES, VALUES, LETTERS, LANES = 8, 10, 3, 12
"""How many of them a terminal has room for."""
Watched = Annotated[Path | None, Parameter(help="the worker's TOML file of settings")]


class NoAnswer(StreamCANError):
    """The worker does not answer, or not as one of this release."""


def watch(
    config: Watched = None,
    *,
    url: Annotated[
        str | None, Parameter(help="of another machine's worker: http://HOST:PORT")
    ] = None,
    once: Annotated[bool, Parameter(help="show it once and end", negative="")] = False,
) -> int:
    """Show whether a running worker helps, what is wrong, and what it has learned, every 2 s.

    It asks the worker's http_port on this machine, or the given address. The arrow keys, j, k and
    space scroll; q ends it.
    """
    where = (url or _local(config)).rstrip("/") + "/status.json"
    width = None if sys.stdout.isatty() else 120
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    if once or not console.is_terminal:
        console.print(laid_out(ask(where)))
        return 0
    view, asked, last = View(console), -EVERY_SECONDS, None
    with pressed() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if (left := asked + EVERY_SECONDS - time.monotonic()) <= 0:
                asked, left = time.monotonic(), EVERY_SECONDS
                try:
                    last = ask(where)
                    view.content = laid_out(last)
                except NoAnswer as error:
                    view.content = _silent(error, last)
            live.update(view, refresh=True)
            match key(left):
                case "q":
                    return 0
                case "down" | "up" | "page down" | "page up" as way:
                    view.scroll(way)


class View:
    """What is longer than the terminal, a part at a time, and a line that says so."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._first = 0
        self.content: RenderableType = ""

    @property
    def _room(self) -> int:
        return max(1, self._console.height - 1)

    def scroll(self, way: str) -> None:
        """Up or down, by a line or a page."""
        step = self._room - 1 if way.startswith("page") else 1
        self._first = max(0, self._first + (step if way.endswith("down") else -step))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self.content, options.update(height=None), pad=False)
        self._first = max(0, min(self._first, len(lines) - self._room))
        for line in lines[self._first : self._first + self._room]:
            yield from line
            yield Segment.line()
        below = len(lines) - self._first - self._room
        more = f"{below} more {'line' if below == 1 else 'lines'} below, " if below > 0 else ""
        yield Text(f"{more}q ends", style="dim")


def _local(config: Path | None) -> str:
    """The address of the worker with these settings on this machine."""
    if config is None:
        raise StreamCANError(
            "say which worker: stream-can watch app.toml, or --url http://HOST:PORT"
        )
    settings = kafka.load(config, {}, os.environ)
    if not settings.http_port:
        raise StreamCANError(f"{config}: without http_port the worker shows nothing; set it")
    host = settings.http_host
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.http_port}"


def ask(where: str) -> Status:
    """The worker's status.

    Raises
    ------
    NoAnswer
        The message says from where.
    """
    if not where.startswith(("http://", "https://")):
        raise StreamCANError(
            f"--url {where.removesuffix('/status.json')}: expected http://HOST:PORT"
        )
    try:
        with urllib.request.urlopen(where, timeout=10) as answer:
            data = answer.read(MOST_BYTES)
        if msgspec.json.decode(data, type=dict[str, Any]).get("version") != VERSION:
            raise NoAnswer(f"{where}: of another release; use its own stream-can watch")
        return msgspec.json.decode(data, type=Status)
    except (OSError, ValueError) as error:  # urllib and msgspec say one of these
        raise NoAnswer(f"{where}: no answer of a worker: {error}") from None


def laid_out(status: Status) -> RenderableType:
    """A status for a terminal: what the page shows, without its figures and its long tails."""
    said = status.shown
    assert said is not None  # of a status that was made, not of one in the making
    title = Text.assemble(_text(said.title), ", ", _text(said.sub), ", as of ", _clock(status.time))
    title.stylize("bold")
    parts: list[RenderableType] = [title]
    for problem in status.problems:
        what = Text(readable(problem.what, 400), style=f"bold {COLOURS.get(problem.level, '')}")
        parts.append(what + Text(f" {problem.do}", style="default not bold"))
    tiles = ", ".join(f"{tile.what} {tile.value}" for tile in said.tiles[2:])
    sheets = [_table(said.scores), _table(said.flow)]
    parts += ["", Text(tiles), "", Columns(sheets, padding=(0, 4))]
    parts += [Text(line) for line in (said.fair, said.requests) if line]
    for one in said.learned if said.lanes is None else said.learned[:3]:
        name = "learned" if status.together else f"learned, {one.partition}"
        name += f", {readable(one.lane, 120)}" if one.lane else ""
        parts += [
            Text(name, style="bold"),
            two_columns([(_text(a), _text(b)) for a, b in one.facts]),
        ]
    if said.learned:
        mix, classes = said.learned[0].mix, status.learned[0].classes
        rows: list[list[Cell]] = [
            [[Name(entry.name)], *row] for entry, row in zip(classes, mix.rows, strict=True)
        ]
        parts += ["", _table(Sheet(mix.head, rows), CLASSES)]
    if said.lanes is not None:
        for kind, sheet in (
            ("models and versions", said.lanes.lanes),
            ("versions side by side", said.lanes.versions),
        ):
            if sheet.rows:
                parts += [Text(f"\n{kind}", style="bold"), _table(sheet, LANES)]
    for column in said.columns:
        if column.values.rows:
            title = Text.assemble("\nvalues of ", _text(column.name), style="bold")
            parts += [title, _table(column.values, VALUES)]
    if said.letters_note:
        parts += ["", Text(said.letters_note)]
    if said.letters.rows:
        parts += [Text("\nthe last dead letters", style="bold"), _table(said.letters, LETTERS)]
    return Group(*parts)


def _table(sheet: Sheet, most: int | None = None) -> Table:
    """The first rows of a sheet that has some; names stand left, numbers right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    named = [any(isinstance(piece, Name) for piece in cell) for cell in sheet.rows[0]]
    for i, head in enumerate(sheet.head):
        table.add_column(head, justify="left" if i == 0 or named[i] else "right")
    for row in sheet.rows[:most]:
        table.add_row(*map(_text, row))
    if most is not None and (more := len(sheet.rows) - most) > 0:
        table.add_row(Text(f"{more:,} more", style="dim"))
    return table


def _text(cell: Cell) -> Text:
    """A cell's pieces; what others named is made harmless."""
    return Text("").join(_piece(piece) for piece in cell)


def _piece(piece: str | Name | Time) -> Text:
    if isinstance(piece, str):
        return Text(piece)
    if isinstance(piece, Name):
        return Text(readable(piece.text, 120))
    return Text(
        f"{datetime.fromtimestamp(piece.at):%d/%m/%Y, %H:%M:%S}" if piece.date else _clock(piece.at)
    )


def _silent(error: NoAnswer, last: Status | None) -> RenderableType:
    said = Text(f"{error}.", style="bold red")
    if last is None:
        return said
    return Group(said, Text(f"As it was at {_clock(last.time)}:\n"), laid_out(last))


def _clock(when: float) -> str:
    return f"{datetime.fromtimestamp(when):%H:%M:%S}"
