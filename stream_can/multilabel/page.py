"""What the page of a replay of multilabel rows shows."""

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

NOTHING = "report: no row has a known label, so there is nothing to compare"


def rolling_f1(result: MultiLabelReplay, figure: Figure) -> list[Key]:
    course, axes = Course(result), figure.subplots()
    sums = course.sums([(*m.decided, *m.right, m.positives) for m in result.moments])
    all_of = sums[:, :3] + sums[:, 6:]
    f1 = 200 * sums[:, 3:6] / np.where(all_of > 0, all_of, np.nan)
    wide(axes, course, f1[:, 1], BEFORE, "before, from its best threshold")
    axes.plot(
        course.x,
        f1[:, 2],
        color=AFTER,
        linewidth=1.5,
        label=" after, from the corrector's threshold",
    )
    axes.plot(course.x, f1[:, 0], color=MUTED, label=" before, from 0.5")
    axes.set_ylabel("micro F1, %")
    along(axes, result)
    return [
        Key("before, from its best threshold", BEFORE, "wide"),
        Key("after, from the corrector's threshold", AFTER),
        Key("before, from 0.5", MUTED),
    ]


def reliability(result: MultiLabelReplay, figure: Figure) -> list[Key]:
    pair = [("before", result.raw, BEFORE), ("after", result.corrected, AFTER)]
    for axes, (name, scores, color) in zip(figure.subplots(1, 2, sharey=True), pair, strict=True):
        bins = Reliability(*scores.reliability)
        diagram(axes, bins, color, f"{name}: ECE {100 * scores.ece:.1f} %", 10.5)
        axes.set_xlabel("probability, %")
    figure.axes[0].set_ylabel("true labels, %")
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
        "F1 over all labels of a window of {window} rows: before, predicted from the threshold that"
        " was best so far, and from 0.5; after, predicted from the corrector's threshold.",
        rolling_f1,
    ),
    ShownPoints(
        "Reliability",
        "Share of true labels against their probability. The area of a point is its share of the"
        " labels; its stem is the difference between the two.",
        reliability,
    ),
    ShownPoints(
        "Change by label",
        "Change of each label's log loss, by the share of the rows that have it; below the line is"
        " better.",
        by_label,
    ),
    CHANGE,
    LABEL_RATES,
]
LABELS_NOTE = (
    "Over the rows with this label known. F1 in percent: before, predicted from 0.5 and from the"
    " threshold that was best so far; after, predicted by the corrector; a dash where the label was"
    " neither true nor predicted. Log loss in nats."
)
GLOSSARY = {
    "log loss": "Sum of the negative log probabilities of the known outcomes of a row; the mean"
    " over rows.",
    "F1": "2 right / (predicted + true), where right labels are both. Micro: all labels counted"
    " together. Macro: the mean over labels.",
    "threshold": "The probability from which a label is predicted, chosen for micro F1: half of the"
    " highest F1 in reach. The best threshold is the one with the best micro F1 in the rows"
    " before.",
    "ECE": "Expected calibration error: distance of the share of true labels from their"
    " probability, over 15 bins.",
    "before, after": "The scores of the classifier, and the corrected scores.",
    "known": "It is known whether the row has the label.",
}


def sub(result: MultiLabelReplay) -> str:
    """What was replayed."""
    return (
        f"{result.rows:,} rows, {result.raw.n:,} with a known label, {len(result.classes)} labels,"
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
        ("macro F1 at these", 100 * raw_at_best.macro_f1, 100 * sent_at_best.macro_f1, None, ".2f",
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
        "<tr><th>label</th><th>known</th><th>true</th><th>before, 0.5</th>"
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
