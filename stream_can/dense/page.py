"""What the page of a replay of dense rows shows."""

from __future__ import annotations

import html
import math
from typing import Any

from stream_can.dense.class_changes import losing
from stream_can.dense.figures import FIGURES
from stream_can.dense.result import DenseReplay
from stream_can.replay.costs import costs_facts
from stream_can.replay.names import readable
from stream_can.replay.verdict import BY_WEIGHT, errors
from stream_can.report.document import card, words
from stream_can.report.glossary import GLOSSARY, OF_SETS
from stream_can.report.origin import delay
from stream_can.report.sets import sets_facts
from stream_can.report.tables import percentages, tiles_of
from stream_can.scores import FLOOR, Scores

__all__ = ["FIGURES", "NOTHING", "cards", "facts", "glossary", "sub", "tail", "tiles"]

NOTHING = "report: no row has a label, so there is nothing to compare"
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
    note = PLUS_MINUS + (f" {BY_WEIGHT.capitalize()}." if result.has_weights else "")
    return tiles_of([
        ("accuracy", 100 * raw.accuracy, 100 * corrected.accuracy, 100 * points, ".2f",
         ("points", "%")),
        ("log loss", raw.log_loss, corrected.log_loss, nats, ".4f", ("", "nats")),
        ("Brier", raw.brier, corrected.brier, brier and brier.error, ".4f", ("", "")),
        ("ECE", 100 * raw.ece, 100 * corrected.ece, ece and 100 * ece.error, ".2f",
         ("points", "%")),
    ]) + f'\n<p class="note">{note}</p>'  # fmt: skip


def cards(result: DenseReplay) -> list[str]:
    """Tables of classes and paths."""
    lost = len(losing(result))
    first = f"first the {lost:,} that lose right predictions beyond chance, then " * bool(lost)
    note = f"{len(result.classes):,} classes, {first}the most frequent first. {CLASSES_NOTE}"
    return [
        card("Each class", classes(result), note),
        card("Before, after, and each path alone", paths(result), PATHS_NOTE),
    ]


def tail(result: DenseReplay) -> str:
    """Costs and prediction sets in numbers, if any."""
    parts = []
    if result.costs is not None:
        parts.append(words("Decisions by costs", costs_facts(result.costs, result.cost_change)))
    if result.sets is not None:
        parts.append(words("Prediction sets in numbers", sets_facts(result.sets)))
    return "".join(parts)


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
    scores, change = result.per_class(), result.class_changes.gain
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
