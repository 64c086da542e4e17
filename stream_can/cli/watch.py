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
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stream_can import kafka
from stream_can.cli.terminal import two_columns
from stream_can.errors import StreamCANError
from stream_can.kafka.watch.status import VERSION, Score, Status
from stream_can.replay.names import readable

__all__ = ["watch"]

EVERY_SECONDS = 2.0
MOST_BYTES = 4 << 20
COLOURS = {"good": "green", "doubt": "yellow", "bad": "red"}
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

    It asks the worker's http_port on this machine, or the given address. Ends with Ctrl-C.
    """
    where = (url or _local(config)).rstrip("/") + "/status.json"
    width = None if sys.stdout.isatty() else 120
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    if once or not console.is_terminal:
        console.print(shown(ask(where)))
        return 0
    last: Status | None = None
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                last = ask(where)
                live.update(shown(last), refresh=True)
            except NoAnswer as error:
                live.update(_silent(error, last), refresh=True)
            time.sleep(EVERY_SECONDS)


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


def shown(status: Status) -> RenderableType:
    """A status for a terminal."""
    s = status
    title = f"{readable(s.application)} {readable(s.instance)}, {s.n_classes:,} classes,"
    title += f" {len(s.partitions)} partitions, {_clock(s.time)}"
    parts: list[RenderableType] = [Text(title, style="bold")]
    for problem in s.problems:
        said = Text(readable(problem.what, 400), style=f"bold {COLOURS.get(problem.level, '')}")
        parts.append(said + Text(f" {problem.do}", style="default not bold"))
    scores = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "labels", "before", "after", "change", "between"):
        scores.add_column(name, justify="left" if not name else "right")
    for window, found in (("hour", s.hour), ("day", s.day)):
        for name, score, factor, digits in (
            (f"accuracy %, last {window}", found.accuracy, 100, 2),
            (f"log loss, last {window}", found.log_loss, 1, 4),
        ):
            scores.add_row(name, f"{found.scored:,}", *_cells(score, factor, digits))
    parts += ["", scores, "", _facts(s)]
    if s.learned:
        parts += ["", _classes(s)]
    if s.dead_letters:
        parts.append(Text("\nthe last dead letters", style="bold"))
        for letter in s.dead_letters[:3]:
            where = f"{letter.topic}-{letter.partition} offset {letter.offset}"
            reason = readable(f"{letter.error}: {letter.reason}", 200)
            parts.append(Text(f"{_clock(letter.time)}  {readable(where, 120)}  {reason}"))
    return Group(*parts)


def _cells(score: Score | None, factor: float, digits: int) -> list[str]:
    if score is None:
        return ["-"] * 4
    change = f"{factor * (score.after - score.before):+.{digits}f}"
    between = "too early to say"
    if score.low is not None and score.high is not None:
        between = f"{factor * score.low:+.{digits}f} and {factor * score.high:+.{digits}f}"
    means = (f"{factor * mean:.{digits}f}" for mean in (score.before, score.after))
    return [*means, change, between]


def _facts(s: Status) -> Table:
    hour = s.hour
    lag = "-" if s.lag is None else f"{s.lag:,}"
    rows = [("records", f"{s.records_per_second:,.0f} a second, {lag} waiting")]
    joined = f"{hour.matched / hour.labels:.1%}" if hour.labels else "-"
    rows.append(("labels, last hour", f"{hour.labels:,}, {joined} found their prediction"))
    if s.open_requests is not None:
        age = f", the oldest for {s.oldest_request:,.0f} s" if s.oldest_request is not None else ""
        asked = f"{hour.asked:,}, of these came {hour.answered:,}; open {s.open_requests:,}{age}"
        rows.append(("asked for, last hour", asked))
    if hour.commit_mean is not None and hour.commit_longest is not None:
        times = f"{1000 * hour.commit_mean:,.0f} ms, at most {1000 * hour.commit_longest:,.0f} ms"
        rows.append(
            ("commits, last hour", f"{hour.commits:,} of {times}; {hour.given_up} given up")
        )
    for found in s.learned:
        name = "learned" if s.together else f"learned, {found.partition}"
        age = "" if found.age is None else f", the newest {found.age:,.0f} s ago"
        rows.append((name, f"{found.labels:,} labels{age}"))
        rows.append(("what goes out", _shares(found.final_weights)))
        rows.append(("paths", _shares(found.weights)))
    return two_columns(rows)


def _shares(weights: dict[str, float]) -> str:
    largest = sorted(weights.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.1%}" for name, share in largest if share >= 0.0005)


def _classes(s: Status) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("class")
    table.add_column("labels say", justify="right")
    table.add_column("taken for", justify="right")
    for one in s.learned[0].classes[:8]:
        says = "-" if one.labels is None else f"{one.labels:.1%}"
        table.add_row(readable(one.name, 40), says, f"{one.taken:.1%}")
    return table


def _silent(error: NoAnswer, last: Status | None) -> RenderableType:
    said = Text(f"{error}.", style="bold red")
    if last is None:
        return said
    return Group(said, Text(f"As it was at {_clock(last.time)}:\n"), shown(last))


def _clock(when: float) -> str:
    return f"{datetime.fromtimestamp(when):%H:%M:%S}"
