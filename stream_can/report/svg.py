"""Convert figures to inline SVG that follows the page's colors."""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from stream_can.report.hover import hover, round_ticks

# Drawn in these colors, then replaced by CSS variables, so that one SVG serves light and dark.
INK, MUTED, GRID, BEFORE, AFTER = "#010101", "#020202", "#030303", "#040404", "#050505"
SERIES = [f"#0{i}0a0b" for i in range(8)]
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    BEFORE: "--before",
    AFTER: "--after",
} | {color: f"--series-{i}" for i, color in enumerate(SERIES)}
STYLE: dict[Any, Any] = {
    "axes.edgecolor": GRID,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": MUTED,
    "axes.prop_cycle": cycler(color=SERIES),
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.size": 10.5,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "patch.linewidth": 0,
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.major.size": 3,
    "ytick.color": MUTED,
    "ytick.major.size": 0,
}


Data = TypeVar("Data")
"""Data of a figure."""


class Key(NamedTuple):
    """An entry of a legend.

    Legends are HTML beside the figure: a browser has fonts for every name, shapes and wraps it, and
    names are not interpreted as markup.
    """

    name: str
    color: str
    kind: Literal["line", "wide", "area"] = "line"


class ShownPoints(NamedTuple, Generic[Data]):
    """A figure of a page."""

    title: str
    caption: str
    """One or two sentences; {window} is the width of the sliding window."""
    plot: Callable[[Data, Figure], list[Key]]
    has_data: Callable[[Data], bool] = lambda result: True


def draw(title: str, plot: Callable[[Data, Figure], list[Key]], data: Data) -> str:
    """A figure as `<svg>` without ids that might clash on the page, and its legend."""
    style = STYLE | {"svg.hashsalt": plot.__name__}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a browser has it
        figure = Figure(figsize=(4.9, 2.9), layout="constrained")
        keys = plot(data, figure)
        round_ticks(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace("</svg>", f"{hover(figure)}</svg>")
    svg = re.sub(r'<g id="[A-Za-z0-9_.]+_\d+"', "<g", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 role="img"', svg, count=1)
    svg = svg.replace("<svg", f'<svg aria-label="{html.escape(title)}"', 1)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    return _in_colors_of_the_page(_legend(keys) + svg)


def _legend(keys: list[Key]) -> str:
    entries = "".join(
        f'<li><i class="{key.kind}" style="--c:{key.color}"></i>'
        f"<bdi>{html.escape(key.name)}</bdi></li>"
        for key in keys
    )
    return f'<ul class="legend">{entries}</ul>' if keys else ""


def _in_colors_of_the_page(text: str) -> str:
    for color, name in VARIABLES.items():
        text = text.replace(color, f"var({name})")
    return text
