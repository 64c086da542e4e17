"""A replay as one HTML page that needs nothing beside it."""

from __future__ import annotations

import html
import inspect
from pathlib import Path

from stream_can.replay.run import Replay
from stream_can.replay.verdict import verdict
from stream_can.report import figures
from stream_can.scores import Scores

__all__ = ["report"]

STYLE = """
:root { color-scheme: light dark;
  --page: #fbfaf8; --card: #ffffff; --ink: #1c1e21; --muted: #6a6f76; --grid: #e3e2de;
  --before: #c2703d; --after: #1f6fb2;
  --series-0: #1f6fb2; --series-1: #d9822b; --series-2: #2e9e6b; --series-3: #a1509a;
  --series-4: #b59a1f; --series-5: #4fb0c6; --series-6: #8a6d5a; --series-7: #7a7fd1; }
@media (prefers-color-scheme: dark) { :root {
  --page: #15171a; --card: #1e2125; --ink: #eceae6; --muted: #a0a5ac; --grid: #353a40;
  --before: #e79a67; --after: #69b1ee;
  --series-0: #69b1ee; --series-1: #f0a85c; --series-2: #5cc795; --series-3: #d08ac9;
  --series-4: #d9c255; --series-5: #86d3e4; --series-6: #bfa08b; --series-7: #a9adf2; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 20px 56px; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 0 0 8px; }
p { margin: 0 0 12px; max-width: 75ch; }
.sub, .note { color: var(--muted); }
.note { font-size: .875rem; margin: 6px 0 0; }
.verdict { font-size: 1.06rem; border-left: 4px solid var(--after); padding-left: 14px;
  margin: 20px 0; }
.tiles, .grid { display: grid; gap: 16px; }
.tiles { margin: 20px 0; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); }
.grid { grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
.tile, .card { background: var(--card); border: 1px solid var(--grid); border-radius: 8px; }
.tile { padding: 12px 14px; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: .875rem; }
.card { padding: 16px; min-width: 0; }
.card svg { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9375rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 6px 8px; border-bottom: 1px solid var(--grid);
  white-space: nowrap; }
th { color: var(--muted); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr.mixture td { font-weight: 700; color: var(--after); }
@media (max-width: 520px) {
  main { padding: 20px 12px 40px; }
  table { font-size: .75rem; }
  th, td { padding: 5px 3px; }
  .card { padding: 12px; }
  .tiles { grid-template-columns: 1fr 1fr; gap: 12px; }
  .tile b { font-size: 1.1rem; }
  .spare { display: none; } }
"""


TABLE_NOTE = (
    "Accuracy and ECE in percent, log loss in nats; weight in the mixture in percent, "
    "mean over the stream."
)


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
    ValueError
        No row of the replay has a label.
    """
    if not result.raw.n:
        raise ValueError("report: no row has a label, so there is nothing to compare")
    cards = []
    for name, plot in figures.FIGURES:
        if plot is figures.label_rates and not result.rates:
            continue
        if plot is figures.temperature and "temperature" not in result.paths:
            continue
        note = html.escape(inspect.getdoc(plot) or "")
        svg = figures.draw(plot, result).replace(
            "<svg", f'<svg aria-label="{html.escape(name)}"', 1
        )
        cards.append(_card(name, svg, note))
    labels = f"{result.raw.n:,} with a label" + (f", labels {result.delay}" if result.delay else "")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}: replay</title>
<style>{STYLE}</style>
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
        f'<p class="note">{note}</p></section>\n'
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
