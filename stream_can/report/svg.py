"""A figure as inline SVG that follows the colors of the page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from stream_can.replay.result import Replay

__all__ = ["AFTER", "BEFORE", "INK", "MUTED", "SERIES", "Shown", "draw"]

# Drawn in these, then replaced by the page's CSS variables, so that one SVG is both light and dark.
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
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "patch.linewidth": 0,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.major.size": 3,
    "ytick.color": MUTED,
    "ytick.major.size": 0,
}


class Shown(NamedTuple):
    """A figure of the page."""

    title: str
    caption: str
    plot: Callable[[Replay, Figure], None]
    has_data: Callable[[Replay], bool] = lambda result: True


def draw(shown: Shown, result: Replay) -> str:
    """One figure as an `<svg>` element without ids that another figure on the page could share."""
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": shown.plot.__name__}):
        figure = Figure(figsize=(4.9, 3.1), layout="constrained")
        shown.plot(result, figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'<g id="[A-Za-z0-9_.]+_\d+"', "<g", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 role="img"', svg, count=1)
    svg = svg.replace("<svg", f'<svg aria-label="{html.escape(shown.title)}"', 1)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    for color, name in VARIABLES.items():
        svg = svg.replace(color, f"var({name})")
    return svg
