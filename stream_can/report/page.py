"""A replay as a self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from stream_can.errors import StreamCANError
from stream_can.replay.beside import Beside
from stream_can.replay.names import readable
from stream_can.replay.result import Replay
from stream_can.replay.several import MultiLabelReplay
from stream_can.replay.sparse import SparseReplay
from stream_can.replay.verdict import Verdict, judge
from stream_can.report import tables
from stream_can.report.course import Course
from stream_can.report.document import also, card, document, words, write
from stream_can.report.figures import FIGURES
from stream_can.report.glossary import GLOSSARY, OF_SETS, OF_VALUES, OF_WORSE
from stream_can.report.origin import delay, made_by, origin
from stream_can.report.sets import sets_facts
from stream_can.report.svg import ShownPoints, draw
from stream_can.report.values import gains
from stream_can.scores import FLOOR

__all__ = ["NoLabels", "cards_of", "other_page", "report", "write_report"]

Played = TypeVar("Played", Replay, MultiLabelReplay, SparseReplay)
"""A replay of rows with one label, several labels, or very many classes."""

PATHS_NOTE = (
    "Accuracy and ECE in percent, log loss in nats; weight of the path in the mixture in percent, "
    "mean over the stream."
)
PLUS_MINUS = (
    "±: standard error of the change, over 30 stretches of the stream. Log loss in nats;"
    f" probabilities below {FLOOR:f} count as that."
)
DEPLOYED = {
    "first": "Before",
    "serve": "HTTP",
    "pipe": "JSON lines",
    "run": "Kafka",
    "python": "Python",
}
CLASSES_NOTE = (
    "In percent, over the labelled rows; a dash where a class has no row, or is never predicted."
)
GAINS = (
    "Change of the log loss of each value's rows, after minus before, by how many labelled rows it "
    "has; below the line is better. The heaviest, and those that gain and lose most, are named."
)
VALUES_NOTE = (
    "Accuracy and calibration in percent, log loss in nats, over the labelled rows of each value; "
    "a dash where it has none."
)


class NoLabels(StreamCANError, ValueError):
    """A replay without a labelled row has nothing to compare."""


def report(
    result: Replay,
    title: str,
    *,
    besides: Iterable[Beside] = (),
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
    if not result.raw.n:
        raise NoLabels("report: no row has a label, so there is nothing to compare")
    cards = cards_of(FIGURES, result)
    note = f"{len(result.classes):,} classes, the commonest first. {CLASSES_NOTE}"
    cards.append(card("Each class", tables.classes(result), note))
    for name, column in result.columns.items():
        title = f"Each value of {readable(name)}"
        if len(column) > 1:
            cards.append(
                card(f"Gain by value of {readable(name)}", draw(title, gains, column), GAINS)
            )
        cards.append(card(title, tables.values(column), VALUES_NOTE))
    cards.append(card("Before, after, and each path alone", tables.paths(result), PATHS_NOTE))
    cards += [card(one.title, tables.beside(one), one.said) for one in besides]
    found = judge(result)
    commands = deploy if deploy and found.deploy else {}
    steps = [f"Next: {commands['next']}"] if "next" in commands else []
    labels = f"{result.raw.n:,} with a label" + (f", labels {result.delay}" if result.delay else "")
    glossary = GLOSSARY | (OF_VALUES if result.columns else {})
    if result.alarm is not None and result.alarm.episodes:
        glossary |= OF_WORSE
    sets = ""
    if result.sets is not None:
        glossary |= OF_SETS
        sets = words("Prediction sets in numbers", sets_facts(result.sets))
    made = origin(result, made_from or {}, date or datetime.now())
    return document(
        title,
        "replay",
        sub=f"{result.rows:,} rows, {labels}, {len(result.classes)} classes",
        verdict=[line for line in (found.use, found.gains) if line] + steps,
        body=f"""<div class="tiles">{tables.tiles(result)}</div>
<p class="note">{PLUS_MINUS}</p>
{also(found.why)}
<div class="grid">
{"".join(cards)}
</div>
{sets}{_commands(commands)}{words("How this page was made", made)}
{words("What the words mean", glossary.items())}""",
    )


def cards_of(figures: Sequence[ShownPoints[Played]], result: Played) -> list[str]:
    """A card for each figure that has something to show."""
    window = f"{Course(result).window:,.0f}"
    return [
        card(
            shown.title,
            draw(shown.title, shown.plot, result),
            shown.caption.replace("{window}", window),
        )
        for shown in figures
        if shown.has_data(result)
    ]


def other_page(
    result: Played,
    title: str,
    found: Verdict,
    *,
    sub: str,
    tiles: str,
    cards: Sequence[str],
    settings: str,
    labels: str,
    glossary: Mapping[str, str],
    made_from: Mapping[str, str] | None,
    pipe: str,
    date: datetime | None,
) -> str:
    """Render the page of a replay with several labels or very many classes.

    Parameters
    ----------
    sub, tiles, cards
        HTML: what was replayed, scores, figures and tables.
    settings, labels
        Descriptions of both.
    pipe
        The next command, if there is something to deploy.
    """
    lines = [line for line in (found.use, found.gains) if line]
    if found.deploy and pipe:
        lines.append(f"Next: {pipe}")
    facts = [
        *(made_from or {}).items(),
        ("settings", settings),
        ("labels", f"{labels}; {delay(result)}"),
        *made_by(date or datetime.now()),
    ]
    return document(
        title,
        "replay",
        sub=sub,
        verdict=lines,
        body=f"""<div class="tiles">{tiles}</div>
{also(found.why)}
<div class="grid">
{"".join(cards)}
</div>
{words("How this page was made", facts)}
{words("What the words mean", glossary.items())}""",
    )


def _commands(commands: Mapping[str, str]) -> str:
    """Commands for all ways to deploy."""
    blocks = "".join(
        f"<h3>{name}</h3><pre>{html.escape(commands[key])}</pre>"
        for key, name in DEPLOYED.items()
        if key in commands
    )
    return f'<section class="card words"><h2>Deploy it</h2>{blocks}</section>' if blocks else ""


def write_report(
    result: Replay,
    title: str,
    path: str | Path,
    *,
    besides: Iterable[Beside] = (),
    made_from: Mapping[str, str] | None = None,
    deploy: Mapping[str, str] | None = None,
) -> None:
    """Write :func:`report` to a file; create its folder."""
    write(report(result, title, besides=besides, made_from=made_from, deploy=deploy), path)
