"""A replay as one HTML page that needs nothing beside it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime
from importlib import resources
from pathlib import Path

from stream_can.errors import StreamCANError
from stream_can.replay.result import Replay
from stream_can.replay.verdict import verdict
from stream_can.report import tables
from stream_can.report.course import Course
from stream_can.report.figures import FIGURES
from stream_can.report.glossary import GLOSSARY
from stream_can.report.origin import origin
from stream_can.report.svg import draw

__all__ = ["NoLabels", "report", "write_report"]

PATHS_NOTE = (
    "Accuracy and ECE in percent, log loss in nats; weight of the path in the mixture in percent, "
    "mean over the stream."
)
CLASSES_NOTE = (
    "In percent, over the labelled rows; a dash where a class has no row, or is never predicted."
)


class NoLabels(StreamCANError, ValueError):
    """A replay without a labelled row: there is nothing to compare."""


def report(
    result: Replay,
    title: str,
    *,
    made_from: Mapping[str, str] | None = None,
    date: datetime | None = None,
) -> str:
    """The page as text: figures, tables, one paragraph on whether to use it, a glossary.

    Parameters
    ----------
    result
        A replay with at least one labelled row; with :attr:`Replay.rates` filled there is a figure
        of what labels buy.
    title
        What was replayed.
    made_from
        What else to say of how the page was made: {"file": ..., "command": ...}.
    date
        When it was made; now by default.

    Raises
    ------
    NoLabels
        No row of the replay has a label.
    """
    if not result.raw.n:
        raise NoLabels("report: no row has a label, so there is nothing to compare")
    style = resources.files("stream_can.report").joinpath("page.css").read_text("utf-8")
    window = f"{Course(result).window:,.0f}"
    cards = [
        _card(
            shown.title,
            draw(shown.title, shown.plot, result),
            shown.caption.replace("{window}", window),
        )
        for shown in FIGURES
        if shown.has_data(result)
    ]
    cards += [
        _card("Before, after, and each path alone", tables.paths(result), PATHS_NOTE),
        _card("Each class", tables.classes(result), CLASSES_NOTE),
    ]
    labels = f"{result.raw.n:,} with a label" + (f", labels {result.delay}" if result.delay else "")
    made = origin(result, made_from or {}, date or datetime.now())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}: replay</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{html.escape(title)}</h1>
<p class="sub">{result.rows:,} rows, {labels}, {len(result.classes)} classes</p>
<p class="verdict">{html.escape(verdict(result))}</p>
<div class="tiles">{tables.tiles(result)}</div>
<div class="grid">
{"".join(cards)}
</div>
<section class="card words"><h2>How this page was made</h2>{tables.facts(made)}</section>
<section class="card words"><h2>What the words mean</h2>{tables.facts(GLOSSARY.items())}</section>
</main>
</body>
</html>
"""


def write_report(
    result: Replay,
    title: str,
    path: str | Path,
    *,
    made_from: Mapping[str, str] | None = None,
) -> None:
    """Write :func:`report` to a file; its folder is made."""
    path = Path(path)
    text = report(result, title, made_from=made_from)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(f"report {path}: {error.strerror}") from error


def _card(title: str, content: str, note: str) -> str:
    return (
        f'<section class="card"><h2>{html.escape(title)}</h2>{content}'
        f'<p class="note">{html.escape(note)}</p></section>\n'
    )
