"""A replay as a self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from stream_can.errors import StreamCANError
from stream_can.replay.names import readable
from stream_can.replay.result import Replay
from stream_can.replay.shown import judge
from stream_can.replay.variant_table import VariantTable
from stream_can.report import tables
from stream_can.report.course import Course
from stream_can.report.document import also, card, command, document, words, write
from stream_can.report.glossary import OF_VALUES, OF_WORSE
from stream_can.report.origin import made_by
from stream_can.report.svg import ShownPoints, draw
from stream_can.report.values import gains
from stream_can.row_kinds import part

DEPLOYED = {
    "first": "Before",
    "serve": "HTTP",
    "pipe": "JSON lines",
    "run": "Kafka",
    "python": "Python",
}
GAINS = (
    "Change of each value's log loss, after minus before, by its number of labelled rows; below "
    "the line is better. Named are the most frequent values and those that gain or lose most."
)
VALUES_NOTE = (
    "Accuracy and calibration in percent, log loss in nats, over each value's labelled rows; a "
    "dash if it has none."
)


class NoLabels(StreamCANError, ValueError):
    """A replay without a labelled row has nothing to compare."""


class Page(Protocol):
    """What the page of a kind of rows shows: the module ``page`` of its room."""

    NOTHING: str
    """Message where no label is known."""
    FIGURES: Sequence[ShownPoints[Any]]

    def sub(self, result: Any) -> str:
        """What was replayed."""

    def tiles(self, result: Any) -> str:
        """Changes of the scores, as HTML."""

    def cards(self, result: Any) -> list[str]:
        """Tables, as HTML."""

    def tail(self, result: Any) -> str:
        """More, as HTML."""

    def facts(self, result: Any) -> list[tuple[str, str]]:
        """Settings and labels."""

    def glossary(self, result: Any) -> Mapping[str, str]:
        """What the words mean."""


def report(
    result: Replay,
    title: str,
    *,
    besides: Iterable[VariantTable] = (),
    made_from: Mapping[str, str] | None = None,
    deploy: Mapping[str, str] | None = None,
    date: datetime | None = None,
) -> str:
    """Render the page: figures, tables, a verdict in one paragraph, a glossary.

    Parameters
    ----------
    result
        A replay with at least one labelled row; with :attr:`Replay.rates` filled a figure shows the
        effect of labels.
    title
        Title of the page.
    besides
        Variants played beside it, a table each.
    made_from
        How the page was made: {"file": ..., "command": ...}.
    deploy
        Commands for deployment, if any: {"next": ..., "run": ..., "python": ...}, and under "first"
        a sentence on what to do before.
    date
        Time of creation; now by default.

    Raises
    ------
    NoLabels
        No row of the replay has a label.
    """
    page: Page = part(result.corrector.row_kind, "page")
    if not result.raw.n:
        raise NoLabels(page.NOTHING)
    window = f"{Course(result).window:,.0f}"
    cards = [
        card(
            shown.title,
            draw(shown.title, shown.plot, result),
            shown.caption.replace("{window}", window),
        )
        for shown in page.FIGURES
        if shown.has_data(result)
    ]
    cards += page.cards(result)
    for name, column in result.columns.items():
        of_values = f"Each value of {readable(name)}"
        if len(column) > 1:
            gain = draw(of_values, gains, column)
            cards.append(card(f"Gain by value of {readable(name)}", gain, GAINS))
        cards.append(card(of_values, tables.values(column), VALUES_NOTE))
    for table in besides:
        cards.append(card(table.title, tables.beside(table), table.summary, "card wide"))
        cards += [card(*figure) for figure in table.figures]
    verdict = judge(result)
    commands = deploy if deploy and verdict.deploy else {}
    step = f"<p>Next:</p>{command(commands['next'])}" if "next" in commands else ""
    if not verdict.deploy and verdict.gains:
        step = f"<p>Next: {html.escape(verdict.instead or 'nothing to deploy here.')}</p>"
    glossary = {**page.glossary(result)} | (OF_VALUES if result.columns else {})
    if result.alarm is not None and result.alarm.episodes:
        glossary |= OF_WORSE
    creation = [
        *(made_from or {}).items(), *page.facts(result), *made_by(date or datetime.now())
    ]  # fmt: skip
    return document(
        title,
        "replay",
        sub=html.escape(page.sub(result)),
        verdict=[line for line in (verdict.use, verdict.gains) if line],
        step=step,
        body=f"""{page.tiles(result)}
{also(verdict.why)}
<div class="grid">
{"".join(cards)}
</div>
{page.tail(result)}{_commands(commands)}{words("How this page was made", creation)}
{words("What the words mean", glossary.items())}""",
    )


def _commands(commands: Mapping[str, str]) -> str:
    """Commands for all ways to deploy."""
    blocks = "".join(
        f"<h3>{name}</h3>{command(commands[key])}"
        for key, name in DEPLOYED.items()
        if key in commands
    )
    return f'<section class="card words"><h2>Deploy it</h2>{blocks}</section>' if blocks else ""


def write_report(
    result: Replay,
    title: str,
    path: str | Path,
    *,
    besides: Iterable[VariantTable] = (),
    made_from: Mapping[str, str] | None = None,
    deploy: Mapping[str, str] | None = None,
) -> None:
    """Write :func:`report` to a file; create its folder."""
    write(report(result, title, besides=besides, made_from=made_from, deploy=deploy), path)
