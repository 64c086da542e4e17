"""A comparison as a self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from stream_can.compare.figures import Drawn, lines, panels, rolling
from stream_can.compare.outcome import Outcome, against, per_class
from stream_can.compare.rivals import BOTH
from stream_can.compare.stream import Stream
from stream_can.compare.verdict import best, highlighted, verdict
from stream_can.report.document import card, document, words, write
from stream_can.report.glossary import GLOSSARY
from stream_can.report.origin import made_by
from stream_can.report.svg import VARIABLES, draw

__all__ = ["page", "write_page"]

STYLE = """
.wide { grid-column: 1 / -1; }
.keys { display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 0 0 20px; padding: 0;
  list-style: none; font-size: .9375rem; }
.keys i { display: inline-block; width: 16px; border-top: 3px solid var(--c);
  vertical-align: middle; margin-right: 6px; }
tr.ours td { font-weight: 700; color: var(--after); }
.tall { max-height: 440px; overflow-y: auto; }
@media (max-width: 520px) { td.pm { white-space: normal; }
  .card table { font-size: .72rem; } .card th, .card td { padding: 5px 2px; }
  .card td.name { min-width: 4.5rem; } }
td.name, .needs { white-space: normal; overflow-wrap: anywhere; text-align: left; }
"""
TABLE_NOTE = (
    "Change against raw ± its standard error over 30 stretches of the stream. Accuracy, ECE and "
    "MCE (15 bins) in percent, log loss in nats; µs: processor time for a row, fits included."
)
CLASSES_NOTE = (
    "Recall in percent, over the scored rows; gained: how many more rows of the class are right. "
    "Those that gained most come first, those that lost most last."
)
WORDS = (
    "row", "accuracy", "log loss", "Brier", "confidence", "ECE", "recall", "CAN", "temperature",
    "class mix", "standard error",
)  # fmt: skip
"""Entries taken from a replay's glossary."""
OWN_WORDS = {
    "raw": "The predictions as the classifier made them; a replay calls it before.",
    "MCE": "Maximum calibration error: as ECE, of the bin that is furthest off.",
    "validation rows": "Labelled rows from before the stream, which rivals are fitted to.",
    "scored rows": "Rows with a label, over which every rival is judged.",
    "refitted": "Fitted again and again, to the labels that had come by then.",
}
FIGURES: list[tuple[str, str, Any]] = [
    ("Accuracy over time", "Share of right predictions in a sliding window.", rolling("accuracy")),
    ("Log loss over time", "Log loss in a sliding window.", rolling("log loss")),
    (
        "Reliability",
        "Accuracy against confidence; the area of a point is its share of the rows.",
        panels(0),
    ),
    ("Reliability, refitted and stream_can", "The same for the other two.", panels(2)),
]


def page(
    stream: Stream,
    outcomes: list[Outcome],
    title: str,
    *,
    made_from: Mapping[str, str] | None = None,
) -> str:
    """Render the page: table, the best of each sort over time, their calibration, classes.

    Parameters
    ----------
    stream
        The stream.
    outcomes
        Result of :func:`stream_can.compare.compare`, raw first; it need not be complete.
    title
        Title of the page.
    made_from
        How the page was made: {"file": ..., "command": ...}.
    """
    made = [*(made_from or {}).items(), *made_by(datetime.now())]
    drawn = Drawn(stream, lines(outcomes))
    figures = [
        card(name, draw(name, plot, drawn), note)
        for i, (name, note, plot) in enumerate(FIGURES)
        if i < 3 or len(drawn.lines) > 2
    ]
    raw, last = outcomes[0], next((one for one in outcomes if one.name == BOTH), outcomes[-1])
    rivals = card(
        "Every rival", _table(outcomes), f"{highlighted(outcomes)} {TABLE_NOTE}", "card wide"
    )
    named = f"Each class, raw and {last.name}"
    classes = card(named, _classes(stream, raw, last), CLASSES_NOTE, "card wide")
    return document(
        title,
        "compared",
        sub=f"""{len(stream.P):,} rows, {raw.scores.n:,} scored,
{len(stream.validation[1]):,} validation rows, {len(stream.classes)} classes""",
        verdict=[verdict(outcomes)],
        body=f"""<ul class="keys">{_keys(drawn)}</ul>
<div class="grid">
{rivals}
{"".join(figures)}
{classes}
</div>
{words("How this page was made", made)}
{words("What the words mean", _glossary())}""",
        more_style=STYLE,
    )


def write_page(
    stream: Stream,
    outcomes: list[Outcome],
    title: str,
    path: str | Path,
    *,
    made_from: Mapping[str, str] | None = None,
) -> None:
    """Write :func:`page` to a file; create its folder."""
    write(page(stream, outcomes, title, made_from=made_from), path)


def _glossary() -> list[tuple[str, str]]:
    """Glossary of this page, consistent with a replay's."""
    shared = [(word, GLOSSARY[word]) for word in WORDS]
    return sorted([*shared, *OWN_WORDS.items()], key=lambda pair: pair[0].lower())


def _keys(drawn: Drawn) -> str:
    return "".join(
        f'<li><i style="--c:var({VARIABLES[line.color]})"></i>{html.escape(line.outcome.name)}</li>'
        for line in drawn.lines
    )


def _table(outcomes: list[Outcome]) -> str:
    """A row for each rival; changes are relative to the first, the raw stream."""
    raw = outcomes[0]
    body, first = [], best(outcomes)
    for one in outcomes:
        points = nats = ""
        if one is not raw:
            changes = against(one, raw).cells
            points, nats = (
                "\N{NO-BREAK SPACE}".join((changes[k] + " ±", changes[k + 1])) for k in (0, 2)
            )
        scores = one.scores
        cells = [
            ("", f"{100 * scores.accuracy:.2f}"),
            (" class=pm", points),
            ("", f"{scores.log_loss:.4f}"),
            (" class=pm", nats),
            (" class=spare", f"{scores.brier:.4f}"),
            (" class=spare", f"{100 * scores.ece:.2f}"),
            (" class=spare", f"{100 * scores.mce:.1f}"),
            (" class=spare", f"{one.microseconds:.1f}"),
        ]
        row = "".join(
            f"<td{kind}>{text}</td>".replace("-", "\N{MINUS SIGN}") for kind, text in cells
        )
        body.append(
            f"<tr{' class=ours' if one is first else ''}><td class=name>"
            f'{html.escape(one.name)}</td>{row}<td class="needs spare">{html.escape(one.needs)}'
            "</td></tr>"
        )
    head = (
        "<th></th><th>accuracy</th><th>change</th><th>log loss</th>"
        "<th>change</th><th class=spare>Brier</th><th class=spare>ECE</th>"
        '<th class=spare>MCE</th><th class=spare>µs</th><th class="needs spare">needs</th>'
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(body)}</table></div>'


def _signed(count: int) -> str:
    return f"{count:+,}".replace("-", "\N{MINUS SIGN}")


def _classes(stream: Stream, before: Outcome, after: Outcome) -> str:
    body = "".join(
        f"<tr><td class=name><bdi>{html.escape(str(one['class']))}</bdi></td>"
        f"<td>{one['rows']:,}</td><td>{100 * one['recall_before']:.1f}</td>"
        f"<td>{100 * one['recall_after']:.1f}</td>"
        f"<td>{_signed(one['gained'])}</td></tr>"
        for one in per_class(stream, before, after)
    )
    head = "<tr><th>class</th><th>rows</th><th>recall before</th><th>after</th><th>gained</th></tr>"
    return f'<div class="scroll tall"><table>{head}{body}</table></div>'
