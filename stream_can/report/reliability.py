"""Reliability diagram: accuracy against confidence."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from stream_can.report.svg import INK, MUTED
from stream_can.scores import Reliability

LARGEST = 260
"""Area of a point with all rows, in square points."""


def diagram(axes: Axes, bins: Reliability, color: str, title: str, size: float) -> None:
    """Draw points with areas proportional to their rows; `size` is the title's font size."""
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
    at = bins.rows > 0
    share = bins.rows[at] / max(bins.rows.sum(), 1)
    x, y = 100 * bins.confidence[at], 100 * bins.accuracy[at]
    axes.vlines(x, np.minimum(x, y), np.maximum(x, y), color=color, alpha=0.35, linewidth=3)
    axes.scatter(x, y, 10 + LARGEST * share, color=color, alpha=0.85, linewidth=0)
    # Leave room for half of the largest point outside 0 to 100 %.
    ticks = [0, 50, 100]
    axes.set(xlim=(-9, 109), ylim=(-9, 109), aspect="equal", xticks=ticks, yticks=ticks)
    axes.set_xlabel("confidence, %")
    axes.set_title(title, color=INK, fontsize=size)
