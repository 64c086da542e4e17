"""The figures of a report, as inline SVG that follows the page's colors."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.replay.run import Replay
from stream_can.scores import Scores

try:
    import matplotlib
    from cycler import cycler
    from matplotlib import dates
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise StreamCANError(
        "the report is drawn by matplotlib: pip install 'stream_can[report]'"
    ) from None

__all__ = ["FIGURES", "draw"]

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
POINTS = 240
SHOWN = 6
"""Classes that get a line of their own."""


def draw(plot: Callable[[Replay, Figure], None], result: Replay) -> str:
    """One figure as an `<svg>` element without ids that another figure on the page could share."""
    salt = plot.__name__
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": salt}):
        figure = Figure(figsize=(4.9, 3.1), layout="constrained")
        plot(result, figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'<g id="[A-Za-z0-9_.]+_\d+"', "<g", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 role="img"', svg, count=1)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    for color, name in VARIABLES.items():
        svg = svg.replace(color, f"var({name})")
    return svg


def rolling_accuracy(result: Replay, figure: Figure) -> None:
    """Share of right predictions in a sliding window, before and after."""
    axes = figure.subplots()
    x, (before, after) = _rolling(result, "hits")
    _pair(axes, x, 100 * before, 100 * after)
    axes.set_ylabel("accuracy, %")
    _course(axes, result)


def rolling_log_loss(result: Replay, figure: Figure) -> None:
    """Log loss in a sliding window, before and after."""
    axes = figure.subplots()
    x, (before, after) = _rolling(result, "losses")
    _pair(axes, x, before, after)
    axes.set_ylabel("log loss, nats")
    _course(axes, result)


def class_mix(result: Replay, figure: Figure) -> None:
    """What the labels were, and what the corrector took the class mix for."""
    axes = figure.subplots()
    grid, window = _grid(result)
    counts = np.cumsum([moment.counts for moment in result.moments], axis=0)
    seen = _window(result, grid, window, counts)
    truth = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    rows = [moment.row for moment in result.moments]
    prior = np.array([moment.prior for moment in result.moments])
    x = _position(result, grid)
    for color, k in zip(SERIES, np.argsort(-counts[-1], kind="stable")[:SHOWN], strict=False):
        name = _short(result.classes[k])
        axes.plot(x, 100 * truth[:, k], color=color, alpha=0.35, linewidth=4)
        axes.plot(
            x, 100 * np.interp(grid, rows, prior[:, k]), color=color, linewidth=1.4, label=name
        )
    axes.set_ylabel("share, %")
    axes.set_ylim(bottom=0)
    _legend(axes, 2)
    _course(axes, result)


def reliability(result: Replay, figure: Figure) -> None:
    """Accuracy against confidence; the area of a point is its share of the rows."""
    pair: list[tuple[str, Scores, str]] = [
        ("before", result.raw, BEFORE),
        ("after", result.corrected, AFTER),
    ]
    for axes, (name, scores, color) in zip(figure.subplots(1, 2, sharey=True), pair, strict=True):
        bins = scores.reliability
        axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
        share = bins.rows / max(bins.rows.sum(), 1)
        at = bins.rows > 0
        x, y = 100 * bins.confidence[at], 100 * bins.accuracy[at]
        axes.vlines(x, np.minimum(x, y), np.maximum(x, y), color=color, alpha=0.35, linewidth=3)
        axes.scatter(x, y, 12 + 500 * share[at], color=color, alpha=0.85, linewidth=0)
        axes.set(
            xlim=(0, 100), ylim=(0, 100), aspect="equal", xticks=[0, 50, 100], yticks=[0, 50, 100]
        )
        axes.set_xlabel("confidence, %")
        axes.set_title(f"{name}: ECE {100 * scores.ece:.1f} %", color=INK, fontsize=10.5)
    figure.axes[0].set_ylabel("accuracy, %")


def path_weights(result: Replay, figure: Figure) -> None:
    """How much each path has to say, on average in a sliding window."""
    axes = figure.subplots()
    grid, window = _grid(result)
    rows = [moment.row for moment in result.moments]
    weights = np.array([moment.weights for moment in result.moments])
    names = list(result.paths)
    sums = np.cumsum(weights * np.diff(rows, prepend=0)[:, None], axis=0)
    share = _window(result, grid, window, sums).T / window
    shown = np.argsort(-share.max(axis=1), kind="stable")[:SHOWN]
    shown = np.array([k for k in sorted(shown) if share[k].max() > 0.02])
    other = 1 - share[shown].sum(axis=0)
    layers, labels, colors = [*share[shown]], [names[k] for k in shown], [*SERIES[: len(shown)]]
    if other.max() > 0.005:
        layers, labels, colors = [*layers, other], [*labels, "others"], [*colors, MUTED]
    axes.stackplot(_position(result, grid), 100 * np.array(layers), labels=labels, colors=colors)
    axes.set(ylabel="weight, %", ylim=(0, 100))
    axes.grid(False)
    _legend(axes, 3)
    _course(axes, result)


def temperature(result: Replay, figure: Figure) -> None:
    """Above 1 the classifier is overconfident."""
    axes = figure.subplots()
    grid, _ = _grid(result)
    rows = [moment.row for moment in result.moments]
    values = np.interp(grid, rows, [moment.temperature for moment in result.moments])
    axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
    axes.plot(_position(result, grid), values, color=AFTER)
    low, high = min(values.min(), 1), max(values.max(), 1)
    pad = max(0.1 * (high - low), 0.05)
    axes.set_ylim(low - pad, high + pad)
    axes.set_ylabel("temperature")
    _course(axes, result)


def label_rates(result: Replay, figure: Figure) -> None:
    """Change against the raw predictions, by the share of rows whose label arrives."""
    names = [f"{100 * rate:g} %" for rate in result.rates]
    panels = [
        (
            "accuracy, points",
            [100 * (s.accuracy - result.raw.accuracy) for s in result.rates.values()],
            "%+.2f",
        ),
        (
            "log loss, nats",
            [s.log_loss - result.raw.log_loss for s in result.rates.values()],
            "%+.3f",
        ),
    ]
    for axes, (title, values, form) in zip(figure.subplots(1, 2), panels, strict=True):
        bars = axes.bar(names, values, width=0.62, color=AFTER)
        axes.bar_label(
            bars,
            [(form % value).replace("-", "\N{MINUS SIGN}") for value in values],
            padding=3,
            fontsize=9,
            color=INK,
        )
        axes.axhline(0, color=MUTED, linewidth=1)
        axes.set_title(title, color=INK, fontsize=10.5)
        axes.margins(y=0.18)
        axes.tick_params(axis="y", labelleft=False)
        axes.tick_params(axis="x", labelsize=9)
        axes.grid(False)


# ---- what the figures share


def _grid(result: Replay) -> tuple[NDArray[np.float64], float]:
    """The rows at which a course is drawn, and the width of the sliding window in rows."""
    window = min(max(result.rows / 25, 500), result.rows / 2)
    return np.linspace(window, result.rows, POINTS), window


def _window(
    result: Replay, grid: NDArray[np.float64], window: float, sums: NDArray[Any]
) -> NDArray[np.float64]:
    """What was added to `sums`, shape (moments, k), in the window before each point of the grid."""
    rows = np.array([0, *(moment.row for moment in result.moments)])
    sums = np.concatenate([np.zeros((1, sums.shape[1])), sums])
    ends = [
        np.stack([np.interp(at, rows, column) for column in sums.T], axis=1)
        for at in (grid, grid - window)
    ]
    return np.asarray(ends[0] - ends[1])


def _rolling(result: Replay, what: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
    grid, window = _grid(result)
    sums = np.cumsum(
        [(*getattr(moment, what), moment.labelled) for moment in result.moments], axis=0
    )
    part = _window(result, grid, window, sums)
    labelled = np.where(part[:, 2] > 0, part[:, 2], np.nan)
    return _position(result, grid), (part[:, :2] / labelled[:, None]).T


def _position(result: Replay, grid: NDArray[np.float64]) -> NDArray[Any]:
    """Where rows are on the x axis: their dates, else their numbers."""
    if not result.dates:
        return grid
    times = np.array([moment.time for moment in result.moments]).astype("datetime64[us]")
    rows = [moment.row for moment in result.moments]
    return np.interp(grid, rows, times.astype(np.int64)).astype(np.int64).astype("datetime64[us]")


def _course(axes: Axes, result: Replay) -> None:
    axes.margins(x=0.01)
    if result.dates:
        locator = dates.AutoDateLocator(maxticks=6)
        axes.xaxis.set_major_locator(locator)
        short = dates.ConciseDateFormatter(locator)
        axes.xaxis.set_major_formatter(short)
        return
    axes.set_xlabel("rows")
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5))
    axes.xaxis.set_major_formatter(lambda value, _: _rows(value))


def _rows(value: float) -> str:
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:g}{unit}"
    return f"{value:g}"


def _pair(axes: Axes, x: NDArray[Any], before: NDArray[Any], after: NDArray[Any]) -> None:
    axes.plot(x, before, color=BEFORE, label="before")
    axes.plot(x, after, color=AFTER, label="after")
    _legend(axes, 2)


def _legend(axes: Axes, columns: int) -> None:
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        handlelength=1.2,
        columnspacing=1.2,
        fontsize=9,
        borderaxespad=0.2,
    )


def _short(name: Any, limit: int = 24) -> str:
    text = str(name)
    return text if len(text) <= limit else text[: limit - 1] + "…"


FIGURES: list[tuple[str, Callable[[Replay, Figure], None]]] = [
    ("Rolling accuracy", rolling_accuracy),
    ("Rolling log loss", rolling_log_loss),
    ("Class mix: labels (wide) and estimate (thin)", class_mix),
    ("Reliability", reliability),
    ("Weight of each path", path_weights),
    ("Temperature", temperature),
    ("What labels buy", label_rates),
]
