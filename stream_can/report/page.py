"""A replay as one HTML page that needs nothing beside it."""

from __future__ import annotations

import html
from importlib import resources
from pathlib import Path

from stream_can.errors import StreamCANError
from stream_can.replay.result import Replay
from stream_can.replay.verdict import verdict
from stream_can.report.figures import FIGURES
from stream_can.report.svg import draw
from stream_can.scores import Scores

__all__ = ["NoLabels", "report", "write_report"]

TABLE_NOTE = (
    "Accuracy and ECE in percent, log loss in nats; weight in the mixture in percent, "
    "mean over the stream."
)


class NoLabels(StreamCANError, ValueError):
    """A replay without a labelled row: there is nothing to compare."""


def report(result: Replay, title: str) -> str:
    """The page as text: figures, the table of paths, and one paragraph on whether to use it.

    Parameters
    ----------
    result
        A replay with at least one labelled row; with :attr:`Replay.rates` filled there is a figure
        of what labels buy.
    title
        What was replayed.

    Raises
    ------
    NoLabels
        No row of the replay has a label.
    """
    if not result.raw.n:
        raise NoLabels("report: no row has a label, so there is nothing to compare")
    style = resources.files("stream_can.report").joinpath("page.css").read_text("utf-8")
    cards = [
        _card(shown.title, draw(shown, result), shown.caption)
        for shown in FIGURES
        if shown.has_data(result)
    ]
    labels = f"{result.raw.n:,} with a label" + (f", labels {result.delay}" if result.delay else "")
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
<div class="tiles">{_tiles(result)}</div>
<div class="grid">
{"".join(cards)}
{_card("The mixture and each path alone", _table(result), TABLE_NOTE)}
</div>
</main>
</body>
</html>
"""


def write_report(result: Replay, title: str, path: str | Path) -> None:
    """Write :func:`report` to a file; its folder is made."""
    path = Path(path)
    text = report(result, title)
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


def _tiles(result: Replay) -> str:
    raw, corrected = result.raw, result.corrected
    tiles = []
    for name, before, after, form, unit in [
        ("accuracy", 100 * raw.accuracy, 100 * corrected.accuracy, ".2f", ("points", "%")),
        ("log loss", raw.log_loss, corrected.log_loss, ".4f", ("", "nats")),
        ("Brier", raw.brier, corrected.brier, ".4f", ("", "")),
        ("ECE", 100 * raw.ece, 100 * corrected.ece, ".2f", ("points", "%")),
    ]:
        change = f"{after - before:+{form}} {unit[0]}".replace("-", "\N{MINUS SIGN}")
        both = f"{before:{form}} → {after:{form}} {unit[1]}"
        tiles.append(
            f'<div class="tile"><span>{name}</span><b>{change}</b><span>{both}</span></div>'
        )
    return "".join(tiles)


def _table(result: Replay) -> str:
    weights = result.mean_weights
    rows: list[tuple[str, Scores, str]] = [
        ("before", result.raw, ""),
        ("mixture", result.corrected, ""),
    ]
    rows += [(name, s, f"{100 * weights[name]:.1f}") for name, s in result.paths.items() if s.n]
    body = "".join(
        f"<tr{' class=mixture' if scores is result.corrected else ''}><td>{html.escape(name)}</td>"
        f"<td>{100 * scores.accuracy:.2f}</td><td>{scores.log_loss:.4f}</td>"
        f"<td class=spare>{scores.brier:.4f}</td><td>{100 * scores.ece:.2f}</td>"
        f"<td>{weight}</td></tr>"
        for name, scores, weight in rows
    )
    head = (
        "<th></th><th>accuracy</th><th>log loss</th><th class=spare>Brier</th><th>ECE</th>"
        "<th>weight</th>"
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
