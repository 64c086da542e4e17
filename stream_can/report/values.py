"""Figure of the gain by value of a column, for any number of values."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from stream_can.column_scores import ColumnScores
from stream_can.replay.names import readable
from stream_can.report.svg import AFTER, INK, MUTED, Key

NAMED = 3
"""Number of values named among the most frequent, the most gaining and the most losing."""


def gains(column: ColumnScores, figure: Figure) -> list[Key]:
    """Draw a point for each value: number of labelled rows and change of log loss."""
    scored = [scores for scores in column.values() if scores.scored]
    axes = figure.subplots()
    axes.set_ylabel("change of log loss, nats")
    axes.set_xlabel("labelled rows")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")  # powers of ten would be set as mathematics
    axes.xaxis.set_minor_formatter("")
    axes.axhline(0, color=MUTED, linewidth=0.8)
    rows = np.array([scores.scored for scores in scored])
    changes = np.array([scores.log_loss[1] - scores.log_loss[0] for scores in scored])
    axes.scatter(rows, changes, s=14, color=AFTER, alpha=0.6, linewidths=0)
    # Rank by sums: a large mean over two rows means nothing.
    order = np.argsort(changes * rows, kind="stable").tolist()
    lost = [i for i in order[::-1][:NAMED] if changes[i] > 0]
    gained = [i for i in order[:NAMED] if changes[i] < 0]
    heavy = np.argsort(-rows, kind="stable")[:NAMED].tolist()
    for i in dict.fromkeys([*heavy, *gained, *lost]):
        axes.annotate(
            readable(scored[i].value, 12), (rows[i], changes[i]), xytext=(-4, 3),
            textcoords="offset points", ha="right", fontsize=8.5, color=INK,
        )  # fmt: skip
    axes.margins(x=0.18, y=0.12)
    return []
