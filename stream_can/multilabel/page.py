"""What the page of a replay of rows of several labels shows."""

from __future__ import annotations

import html
from math import nan
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from stream_can.multilabel.replay import loss_change
from stream_can.multilabel.result import MultiLabelReplay
from stream_can.replay.names import readable
from stream_can.report.course import Course
from stream_can.report.curves import along, wide
from stream_can.report.document import card
from stream_can.report.figures import CHANGE, LABEL_RATES, rolling_log_loss
from stream_can.report.origin import delay
from stream_can.report.reliability import diagram
from stream_can.report.svg import AFTER, BEFORE, MUTED, Key, ShownPoints
from stream_can.report.tables import before_and_after, percentages, tiles_of
from stream_can.scores import Reliability

__all__ = ["FIGURES", "NOTHING", "cards", "facts", "glossary", "sub", "tail", "tiles"]

NOTHING = "report: of no row a label is known, so there is nothing to compare"


def rolling_f1(result: MultiLabelReplay, figure: Figure) -> list[Key]:
    course, axes = Course(result), figure.subplots()
    sums = course.sums([(*m.decided, *m.right, m.positives) for m in result.moments])
    all_of = sums[:, :3] + sums[:, 6:]
    f1 = 200 * sums[:, 3:6] / np.where(all_of > 0, all_of, np.nan)
    wide(axes, course, f1[:, 1], BEFORE, "before, from its best threshold on")
    axes.plot(course.x, f1[:, 2], color=AFTER, linewidth=1.5, label=" after, as decided")
    axes.plot(course.x, f1[:, 0], color=MUTED, label=" before, from 0.5 on")
    axes.set_ylabel("micro F1, %")
    along(axes, result)
    return [
        Key("before, from its best threshold on", BEFORE, "wide"),
        Key("after, as decided", AFTER),
        Key("before, from 0.5 on", MUTED),
    ]


def reliability(result: MultiLabelReplay, figure: Figure) -> list[Key]:
    pair = [("before", result.raw, BEFORE), ("after", result.corrected, AFTER)]
    for axes, (name, scores, color) in zip(figure.subplots(1, 2, sharey=True), pair, strict=True):
        bins = Reliability(*scores.reliability)
        diagram(axes, bins, color, f"{name}: ECE {100 * scores.ece:.1f} %", 10.5)
        axes.set_xlabel("probability, %")
    figure.axes[0].set_ylabel("labels that were there, %")
    return []


def by_label(result: MultiLabelReplay, figure: Figure) -> list[Key]:
    known_labels = [label for label in result.per_label() if label["known"]]
    axes = figure.subplots()
    share = np.array([100 * label["there"] / label["known"] for label in known_labels])
    change = [label["log_loss"]["corrected"] - label["log_loss"]["raw"] for label in known_labels]
    axes.axhline(0, color=MUTED, linewidth=1)
    axes.scatter(share, change, 18, color=AFTER, alpha=0.7, linewidth=0)
    axes.set_xscale("symlog", linthresh=1)
    ticks = [0, 1, 3, 10, 30, 100]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlim(-0.1, 130)
    axes.set_xlabel("rows with the label, %")
    axes.set_ylabel("change of log loss, nats")
    return []


FIGURES: list[ShownPoints[Any]] = [
    ShownPoints(
        "Log loss",
        "Of a row over its known labels, mean over a window of {window} rows; lower is better."
        " Bands: two standard errors of each curve.",
        rolling_log_loss,
    ),
    ShownPoints(
        "Micro F1",
        "F1 over all labels of a window of {window} rows: before, with a yes from the threshold on"
        " that was best so far, and from 0.5 on; after, from the threshold on that the corrected"
        " rows themselves say.",
        rolling_f1,
    ),
    ShownPoints(
        "Reliability",
        "How often labels of a probability are there; the area of a point is its share of the"
        " labels, its stem its distance from what was promised.",
        reliability,
    ),
    ShownPoints(
        "Change by label",
        "Change of each label's log loss, by how many of the rows have it; below the line is"
        " better.",
        by_label,
    ),
    CHANGE,
    LABEL_RATES,
]
LABELS_NOTE = (
    "Over the rows of which the label is known; F1 in percent: before with a yes from 0.5 on and"
    " from the threshold on that was best so far, and after as decided; a dash where the label was"
    " neither there nor said. Log loss in nats."
)
GLOSSARY = {
    "log loss": "Of a row the sum, over its known labels, of the negative logarithm of the"
    " probability of what is so; the mean over rows.",
    "F1": "2 right / (said + there): of the labels that were said and of those that were there, how"
    " many were both. Micro: all labels counted together. Macro: the mean over labels.",
    "threshold": "From which probability on a yes serves micro F1: half of the F1 that is to be"
    " had. The best threshold of a side is the one with the best micro F1 in the rows before.",
    "ECE": "Expected calibration error: how far the share of labels that are there is from their"
    " probability, over 15 bins.",
    "before, after": "The scores as the classifier gave them, and as they went out.",
    "known": "Somebody said whether the row has the label or not.",
}


def sub(result: MultiLabelReplay) -> str:
    """What was replayed."""
    return (
        f"{result.rows:,} rows, of {result.raw.n:,} a label is known, {len(result.classes)} labels,"
        f" {result.delay}"
    )


def tiles(result: MultiLabelReplay) -> str:
    """Changes of the scores, with their values before and after."""
    raw, sent, (raw_at_best, sent_at_best) = result.raw, result.corrected, result.own
    change = loss_change(result)
    error = None if change is None else change.error
    points = ("points", "%")
    return tiles_of([
        ("log loss", raw.log_loss, sent.log_loss, error, ".4f", ("", "nats")),
        ("micro F1, each at its best threshold", 100 * raw_at_best.micro_f1,
         100 * sent_at_best.micro_f1, None, ".2f", points),
        ("macro F1 there", 100 * raw_at_best.macro_f1, 100 * sent_at_best.macro_f1, None, ".2f",
         points),
        ("ECE", 100 * raw.ece, 100 * sent.ece, None, ".2f", points),
    ])  # fmt: skip


def labels_table(result: MultiLabelReplay) -> str:
    """Scores of each label, the most frequent first."""
    by_frequency = sorted(result.per_label(), key=lambda label: -label["there"])
    body = "".join(
        f"<tr><td class=name><bdi>{html.escape(readable(label['label'], 120))}</bdi></td>"
        f"<td>{label['known']:,}</td><td>{label['there']:,}</td>"
        + percentages({side: label["f1"][side] for side in ("raw", "raw_best", "decided")})
        + before_and_after(label["log_loss"].values() if label["known"] else (nan, nan), 1, 4)
        + "</tr>"
        for label in by_frequency
    )
    head = (
        "<tr><th></th><th></th><th></th><th colspan=3>F1</th><th colspan=2>log loss</th></tr>"
        "<tr><th>label</th><th>known</th><th>there</th><th>before, 0.5</th>"
        "<th>before</th><th>after</th><th>before</th><th>after</th></tr>"
    )
    return f'<div class="scroll tall"><table><thead>{head}</thead>{body}</table></div>'


def cards(result: MultiLabelReplay) -> list[str]:
    """A table of the labels."""
    return [card("Each label", labels_table(result), LABELS_NOTE)]


def tail(result: MultiLabelReplay) -> str:
    """Nothing more."""
    return ""


def facts(result: MultiLabelReplay) -> list[tuple[str, str]]:
    """Settings and labels."""
    return [
        ("settings", f"half_life {result.corrector.half_life:g}"),
        ("labels", f"{result.learned:,} messages learned; {delay(result)}"),
    ]


def glossary(result: MultiLabelReplay) -> dict[str, str]:
    """What the words mean."""
    return GLOSSARY
