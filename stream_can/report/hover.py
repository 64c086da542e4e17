"""Axis ticks, and tooltips with the values of curves."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, MaxNLocator

STRIPS = 60
"""Number of strips of a figure, each with a tooltip."""


def round_ticks(figure: Figure) -> None:
    """Use ticks at 1, 2 or 5 times powers of ten, not 72.5."""
    for axes in figure.axes:
        if isinstance(axes.yaxis.get_major_locator(), AutoLocator):
            axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))


def hover(figure: Figure) -> str:
    """SVG strips over a figure, whose tooltips have the values of its curves.

    Only curves whose label begins with a space are included; a leading _ would hide the label.
    """
    width, height = 72 * figure.get_size_inches()
    strips = []
    for axes in figure.axes:
        lines = [line for line in axes.lines if str(line.get_label()).startswith(" ")]
        if not lines:
            continue
        x = np.asarray(lines[0].get_xdata(orig=True))
        at = np.asarray(lines[0].get_xdata(orig=False), np.float64)
        shown = np.asarray(axes.transData.transform(np.stack([at, 0 * at], axis=1)))
        middles = shown[:, 0] / figure.bbox.width * width
        box = axes.get_position()
        for k in np.linspace(0, len(x) - 1, min(STRIPS, len(x))).astype(np.intp):
            values = [
                f"{str(line.get_label())[1:]} {y:.4g}"
                for line in lines
                if (y := float(np.asarray(line.get_ydata(orig=True))[k])) == y
            ]
            step = box.width * width / STRIPS
            title = html.escape("\n".join([_place(x[k]), *values]))
            strips.append(
                f'<rect x="{middles[k] - step / 2:.1f}" y="{(1 - box.y1) * height:.1f}" '
                f'width="{step:.1f}" height="{box.height * height:.1f}" fill="none" '
                f'pointer-events="all"><title>{title}</title></rect>'
            )
    return "".join(strips)


def _place(x: Any) -> str:
    if isinstance(x, np.datetime64):
        return str(x.astype("datetime64[m]")).replace("T", " ")
    return f"row {x:,.0f}"
