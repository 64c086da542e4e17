"""Tables that pages have."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from stream_can.column_scores import ColumnScores
from stream_can.replay.names import readable
from stream_can.replay.variant_table import VariantTable

NONE = "\N{EN DASH}"
MOST_VALUES = 1000
"""Maximum number of rows in a table of values."""


def tiles_of(
    scores: Iterable[tuple[str, float, float, float | None, str, tuple[str, str]]],
) -> str:
    """Tiles of scores, each with name, values before and after, error of the change, number format,
    and units of the change and the score."""
    tiles = []
    for name, raw, sent, error, form, unit in scores:
        change = f"{sent - raw:+{form}}".replace("-", "\N{MINUS SIGN}")
        if error is not None and error == error:
            change += f" <i>± {error:{form}}</i>"
        change += f" <i>{unit[0]}</i>" * bool(unit[0])
        pair = f"{raw:{form}} → {sent:{form}} {unit[1]}"
        tiles.append(
            f'<div class="tile"><span>{name}</span><b>{change}</b><span>{pair}</span></div>'
        )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def values(column: ColumnScores) -> str:
    """Scores by value of a column, the one with most rows first."""
    by_value = column.values()
    body = "".join(
        f"<tr><td class=name><bdi>{html.escape(readable(scores.value, 120))}</bdi></td>"
        f"<td>{scores.rows:,}</td><td>{scores.labels:,}</td>"
        f"{before_and_after(scores.accuracy, 100, 1)}{before_and_after(scores.log_loss, 1, 3)}"
        f"{before_and_after(scores.calibration, 100, 1)}</tr>"
        for scores in by_value[:MOST_VALUES]
    )
    if rest := by_value[MOST_VALUES:]:
        rows, labels = sum(scores.rows for scores in rest), sum(scores.labels for scores in rest)
        noun = "other" if len(rest) == 1 else "others"
        body += (
            f"<tr><td class=name>{len(rest):,} {noun}</td><td>{rows:,}</td><td>{labels:,}</td>"
            "<td colspan=6></td></tr>"
        )
    head = (
        "<tr><th></th><th></th><th></th><th colspan=2>accuracy</th><th colspan=2>log loss</th>"
        "<th colspan=2>calibration</th></tr><tr><th>value</th><th>rows</th><th>labels</th>"
        + "<th>before</th><th>after</th>" * 3
        + "</tr>"
    )
    return f'<div class="scroll tall"><table><thead>{head}</thead>{body}</table></div>'


def beside(table: VariantTable) -> str:
    """Variants played beside a replay."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.heads)
    body = "".join(
        f"<tr><td class=name><bdi>{html.escape(row[0])}</bdi></td>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>{body}</table></div>'


def before_and_after(pair: Iterable[float], times: float, digits: int) -> str:
    """A cell for each number, with a dash for nan."""
    return "".join(
        f"<td>{NONE if number != number else format(times * number, f'.{digits}f')}</td>"
        for number in pair
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and descriptions."""
    entries = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in pairs
    )
    return f"<dl>{entries}</dl>"


def percentages(values: dict[str, Any]) -> str:
    """A cell for each share, with a dash for None."""
    shown = [NONE if value is None else f"{100 * value:.1f}" for value in values.values()]
    return "".join(f"<td>{value}</td>" for value in shown)
