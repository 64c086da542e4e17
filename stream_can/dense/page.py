"""What the page of a replay of dense rows shows."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from stream_can.dense.result import DenseReplay
from stream_can.dense.verdict import losing
from stream_can.replay.names import readable
from stream_can.replay.verdict import errors
from stream_can.report.course import Course
from stream_can.report.curves import along, band, wide
from stream_can.report.document import card, words
from stream_can.report.figures import CHANGE, LABEL_RATES, rolling_accuracy, rolling_log_loss
from stream_can.report.glossary import GLOSSARY, OF_SETS
from stream_can.report.origin import delay
from stream_can.report.reliability import diagram
from stream_can.report.sets import kept_and_size, sets_facts
from stream_can.report.svg import AFTER, BEFORE, MUTED, SERIES, Key, ShownPoints
from stream_can.report.tables import percentages, tiles_of
from stream_can.scores import FLOOR, Scores

__all__ = ["FIGURES", "NOTHING", "cards", "facts", "glossary", "sub", "tail", "tiles"]

NOTHING = "report: no row has a label, so there is nothing to compare"
SHOWN = 6
"""Maximum number of paths with colors of their own."""
TOGETHER, PANELS = 4, (4, 3)
"""Number of classes up to which one panel shows the class mix; rows and columns of panels, of a
class each, above."""
PATHS_NOTE = (
    "Accuracy and ECE in percent, log loss in nats; weight of the path in the mixture in percent, "
    "mean over the stream."
)
PLUS_MINUS = (
    "±: standard error of the change, over 30 stretches of the stream. Log loss in nats;"
    f" probabilities below {FLOOR:f} count as that."
)
CLASSES_NOTE = (
    "In percent, over the labelled rows; a dash where a class has no row, or is never predicted."
)


def sub(result: DenseReplay) -> str:
    """What was replayed."""
    labels = f"{result.raw.n:,} with a label" + (f", labels {result.delay}" if result.delay else "")
    return f"{result.rows:,} rows, {labels}, {len(result.classes)} classes"


def tiles(result: DenseReplay) -> str:
    """Changes of the scores, with their values before and after."""
    raw, corrected = result.raw, result.corrected
    points, nats = errors(result)
    brier, ece = result.calibration_changes() or (None, None)
    return tiles_of([
        ("accuracy", 100 * raw.accuracy, 100 * corrected.accuracy, 100 * points, ".2f",
         ("points", "%")),
        ("log loss", raw.log_loss, corrected.log_loss, nats, ".4f", ("", "nats")),
        ("Brier", raw.brier, corrected.brier, brier and brier.error, ".4f", ("", "")),
        ("ECE", 100 * raw.ece, 100 * corrected.ece, ece and 100 * ece.error, ".2f",
         ("points", "%")),
    ]) + f'\n<p class="note">{PLUS_MINUS}</p>'  # fmt: skip


def cards(result: DenseReplay) -> list[str]:
    """Tables of classes and paths."""
    lost = len(losing(result))
    first = f"the {lost:,} that lose right predictions beyond chance first, then " * bool(lost)
    note = f"{len(result.classes):,} classes, {first}the commonest first. {CLASSES_NOTE}"
    return [
        card("Each class", classes(result), note),
        card("Before, after, and each path alone", paths(result), PATHS_NOTE),
    ]


def tail(result: DenseReplay) -> str:
    """Prediction sets in numbers, if any."""
    if result.sets is None:
        return ""
    return words("Prediction sets in numbers", sets_facts(result.sets))


def glossary(result: DenseReplay) -> dict[str, str]:
    """What the words mean."""
    return GLOSSARY | ({} if result.sets is None else OF_SETS)


def facts(result: DenseReplay) -> list[tuple[str, str]]:
    """Settings and labels."""
    corrector = result.corrector
    settings = ", ".join(f"{name} {_shown(value)}" for name, value in corrector.settings.items())
    known = [
        ("settings", settings),
        ("paths", ", ".join(corrector.paths)),
        ("labels", f"{corrector.n_labels:,} learned of {result.raw.n:,}; {delay(result)}"),
    ]
    if corrector.fit_report is not None:
        fitted = corrector.fit_report
        known.append(("fitted on", f"{fitted['rows']:,} validation rows: {fitted['step']}"))
    return known


def _shown(value: Any) -> str:
    if value is None:
        return "the number of classes"
    return "inf" if value == math.inf else f"{value:g}" if isinstance(value, float) else str(value)


def paths(result: DenseReplay) -> str:
    """Scores before and after, and of each path alone."""
    weights = result.mean_weights
    rows: list[tuple[str, Scores, str]] = [
        ("before", result.raw, ""),
        ("after", result.corrected, ""),
    ]
    if result.fit_alone is not None:
        rows.append(("fit alone, without a label", result.fit_alone.corrected, ""))
    rows += [(name, s, f"{100 * weights[name]:.1f}") for name, s in result.paths.items() if s.n]
    body = "".join(
        f"<tr{' class=after' if scores is result.corrected else ''}><td>{html.escape(name)}</td>"
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


def classes(result: DenseReplay) -> str:
    """Rows, recall and precision of each class: first those that lose right predictions beyond
    chance, the one that loses most first; then the most frequent."""
    scores, change = result.per_class(), result.made_right - result.made_wrong
    loses = set(losing(result).tolist())
    order = sorted(
        range(len(scores)),
        key=lambda k: (k not in loses, change[k] * (k in loses), -scores[k]["rows"]),
    )
    body = "".join(
        f"<tr{' class=loses' if k in loses else ''}>"
        f"<td class=name><bdi>{html.escape(readable(class_scores['class'], 120))}</bdi></td>"
        f"<td>{class_scores['rows']:,}</td>{percentages(class_scores['recall'])}{percentages(class_scores['precision'])}</tr>"
        for k in order
        for class_scores in (scores[k],)
    )
    head = (
        "<tr><th></th><th></th><th colspan=2>recall</th><th colspan=2>precision</th></tr>"
        "<tr><th>class</th><th>rows</th><th>before</th><th>after</th><th>before</th><th>after</th>"
        "</tr>"
    )
    return f'<div class="scroll tall"><table><thead>{head}</thead>{body}</table></div>'


# ---- figures


def class_mix(result: DenseReplay, figure: Figure) -> list[Key]:
    course = Course(result)
    counts = np.array([moment.counts for moment in result.moments])
    seen = course.sums(counts)
    n = np.maximum(seen.sum(axis=1, keepdims=True), 1)
    truth = seen / n
    error = np.sqrt(truth * (1 - truth) / n)
    prior = np.array([moment.prior for moment in result.moments])
    commonest = np.argsort(-counts.sum(axis=0), kind="stable")
    if alone := len(commonest) > TOGETHER:
        commonest = commonest[: PANELS[0] * PANELS[1]]
        figure.set_figheight(4.4)
    panels = figure.subplots(*(PANELS if alone else (1, 1)), squeeze=False, sharex=True).ravel()
    keys = []
    for i, k in enumerate(commonest):
        axes, color = (panels[i], AFTER) if alone else (panels[0], SERIES[i])
        band(axes, course, 100 * truth[:, k], 100 * error[:, k], color)
        name = readable(result.classes[k])
        wide(axes, course, 100 * truth[:, k], color, name)
        prior_shares = 100 * course.values(prior[:, k])
        axes.plot(course.x, prior_shares, color=color, linewidth=1.4, label=f" {name}, taken for")
        if alone:
            axes.set_title(readable(name, 14), fontsize=9)
        else:
            keys.append(Key(name, color))
    for axes in panels[: len(commonest)]:
        axes.set_ylim(bottom=0)
        along(axes, result, ticks=2 if alone else 5)
        if alone:
            axes.tick_params(labelsize=9)
            axes.set_xlabel("")
    for axes in panels[len(commonest) :]:
        axes.set_axis_off()
    figure.supylabel("share, %", fontsize=10.5, color=MUTED)
    return keys


def reliability(result: DenseReplay, figure: Figure) -> list[Key]:
    pair: list[tuple[str, Scores, str]] = [
        ("before", result.raw, BEFORE),
        ("after", result.corrected, AFTER),
    ]
    for axes, (name, scores, color) in zip(figure.subplots(1, 2, sharey=True), pair, strict=True):
        diagram(axes, scores.reliability, color, f"{name}: ECE {100 * scores.ece:.1f} %", 10.5)
    figure.axes[0].set_ylabel("accuracy, %")
    return []


def path_weights(result: DenseReplay, figure: Figure) -> list[Key]:
    names = list(result.paths)
    share = shares(result, "weights")
    shown = np.argsort(-share.max(axis=1), kind="stable")[:SHOWN]
    shown = np.array([k for k in sorted(shown) if share[k].max() > 0.02])
    parts = [*share[shown]]
    keys = [Key(names[k], SERIES[i], "area") for i, k in enumerate(shown)]
    other = 1 - share[shown].sum(axis=0)
    if other.max() > 0.005:
        parts.append(other)
        keys.append(Key("others", MUTED, "area"))
    return stacked(figure, result, np.array(parts), keys)


def final_weights(result: DenseReplay, figure: Figure) -> list[Key]:
    keys = [
        Key(name, color, "area")
        for name, color in zip(result.mean_final_weights, (MUTED, *SERIES), strict=False)
    ]
    return stacked(figure, result, shares(result, "final_weights"), keys)


def shares(result: DenseReplay, attribute: str) -> NDArray[np.float64]:
    """Weights of the moments, averaged over the window, shape (weights, points)."""
    course = Course(result)
    weights = np.array([getattr(moment, attribute) for moment in result.moments])
    return course.sums(weights * course.lengths[:, None]).T / course.window


def stacked(
    figure: Figure, result: DenseReplay, share: NDArray[np.float64], keys: list[Key]
) -> list[Key]:
    """Draw stacked weights, which sum to one."""
    axes = figure.subplots()
    axes.stackplot(Course(result).x, 100 * share, colors=[key.color for key in keys])
    axes.set(ylabel="weight, %", ylim=(0, 100))
    axes.grid(False)
    along(axes, result)
    return keys


def temperature(result: DenseReplay, figure: Figure) -> list[Key]:
    axes = figure.subplots()
    course = Course(result)
    curves = [("of the mixture", [moment.last_temperature for moment in result.moments], AFTER)]
    if "temperature" in result.paths:
        of_path = [moment.temperature for moment in result.moments]
        curves.insert(0, ("of the predictions", of_path, BEFORE))
    axes.axhline(1, color=MUTED, linewidth=1, linestyle=(0, (2, 3)))
    low = high = 1.0
    for name, values, color in curves:
        curve = course.values(values)
        axes.plot(course.x, curve, color=color, label=f" {name}")
        low, high = min(low, curve.min()), max(high, curve.max())
    pad = max(0.1 * (high - low), 0.05)
    axes.set_ylim(low - pad, high + pad)
    axes.set_ylabel("temperature")
    along(axes, result)
    return [Key(name, color) for name, _, color in curves]


FIGURES: list[ShownPoints[Any]] = [
    ShownPoints(
        "Accuracy",
        "Share of right predictions among the labelled rows of a window of {window} rows that "
        "slides over the stream. Bands: two standard errors of each curve; both curves are of the "
        "same rows, so their difference is surer than the bands.",
        rolling_accuracy,
    ),
    ShownPoints(
        "Log loss",
        "Mean over the labelled rows of a window of {window} rows; lower is better. Bands: two "
        "standard errors of each curve.",
        rolling_log_loss,
    ),
    CHANGE,
    ShownPoints(
        "Class mix",
        "Wide: share of each class among the labels of a window of {window} rows, with two "
        "standard errors. Thin: what the corrector took it for. Of more than four classes the "
        "twelve commonest, each on a scale of its own.",
        class_mix,
    ),
    ShownPoints(
        "Reliability",
        "Accuracy against confidence; the area of a point is its share of the rows, its stem its "
        "distance from what the confidence promised.",
        reliability,
    ),
    ShownPoints(
        "Weight of each path",
        "How much each path has to say in the mixture, on average over a window of {window} rows.",
        path_weights,
    ),
    ShownPoints(
        "What goes out",
        "Weights, in the row that is sent, of the rows that it is mixed from, on average over a "
        "window of {window} rows: each is judged by how well it did as it was sent.",
        final_weights,
        lambda result: len(result.paths) > 1,
    ),
    ShownPoints(
        "Temperature",
        "What the path of this name divides the logarithms of the predictions by, and the last "
        "step those of the mixture: above 1 they were overconfident, below 1 underconfident.",
        temperature,
        lambda result: len(result.paths) > 1,
    ),
    ShownPoints(
        "Prediction sets",
        "Above: share of the rows with a known label that have it in their set, in a window of "
        "{window} rows, with two standard errors; dashed: what was promised. Below: classes in a "
        "set, on average.",
        kept_and_size,
        lambda result: result.sets is not None,
    ),
    LABEL_RATES,
]
