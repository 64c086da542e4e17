"""A replay of rows with several labels as a self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime
from math import nan
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from stream_can.replay.effect import NATS
from stream_can.replay.names import readable
from stream_can.replay.several import MultiLabelReplay
from stream_can.replay.several_verdict import judge_several, loss_change
from stream_can.replay.verdict import FEW
from stream_can.report.course import Course
from stream_can.report.curves import along, wide
from stream_can.report.document import card, write
from stream_can.report.figures import rolling_log_loss
from stream_can.report.page import NoLabels, cards_of, other_page
from stream_can.report.reliability import diagram
from stream_can.report.svg import AFTER, BEFORE, INK, MUTED, SERIES, Key, ShownPoints
from stream_can.report.tables import before_and_after, percentages, tiles_of
from stream_can.scores import Reliability

__all__ = ["multilabel_report", "write_multilabel_report"]


def rolling_f1(result: MultiLabelReplay, figure: Figure) -> list[Key]:
    course, axes = Course(result), figure.subplots()
    sums = course.sums([(*m.said, *m.right, m.there) for m in result.moments])
    all_of = sums[:, :3] + sums[:, 6:]
    f1 = 200 * sums[:, 3:6] / np.where(all_of > 0, all_of, np.nan)
    wide(axes, course, f1[:, 0], BEFORE, "before")
    axes.plot(course.x, f1[:, 1], color=AFTER, linewidth=1.5, label=" after, from 0.5 on")
    axes.plot(course.x, f1[:, 2], color=SERIES[2], label=" after, from the threshold on")
    axes.set_ylabel("micro F1, %")
    along(axes, result)
    return [
        Key("before", BEFORE, "wide"),
        Key("after, from 0.5 on", AFTER),
        Key("after, from the threshold on", SERIES[2]),
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
    found = [one for one in result.per_label() if one["known"]]
    axes = figure.subplots()
    share = np.array([100 * one["there"] / one["known"] for one in found])
    change = [one["log_loss"]["corrected"] - one["log_loss"]["raw"] for one in found]
    axes.axhline(0, color=MUTED, linewidth=1)
    axes.scatter(share, change, 18, color=AFTER, alpha=0.7, linewidth=0)
    axes.set_xscale("symlog", linthresh=1)
    ticks = [0, 1, 3, 10, 30, 100]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlim(-0.1, 130)
    axes.set_xlabel("rows with the label, %")
    axes.set_ylabel("change of log loss, nats")
    return []


def label_rates(result: MultiLabelReplay, figure: Figure) -> list[Key]:
    axes, raw = figure.subplots(), result.raw.log_loss
    values = [scores.log_loss - raw for scores in result.rates.values()]
    bars = axes.bar(range(len(values)), values, width=0.6, color=AFTER)
    text = [f"{value:+.3f}".replace("-", "\N{MINUS SIGN}") for value in values]
    axes.bar_label(bars, text, padding=3, fontsize=9, color=INK)
    axes.axhline(0, color=MUTED, linewidth=1)
    axes.set_xticks(range(len(values)), [f"{100 * rate:g} %" for rate in result.rates])
    low, high = min(0.0, *values), max(0.0, *values)
    room = max(0.2 * (high - low), 2 * NATS)
    axes.set_ylim(low - room, high + room)
    axes.set_ylabel("log loss, nats")
    axes.tick_params(axis="y", labelleft=False)
    axes.grid(False)
    return []


FIGURES: list[ShownPoints[MultiLabelReplay]] = [
    ShownPoints(
        "Log loss",
        "Of a row over its known labels, mean over a window of {window} rows; lower is better."
        " Bands: two standard errors of each curve.",
        rolling_log_loss,
    ),
    ShownPoints(
        "Micro F1",
        "F1 over all labels of a window of {window} rows, with a yes from 0.5 on, and from the"
        " threshold on that the corrected rows themselves say.",
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
    ShownPoints(
        "What labels buy",
        "Change of the log loss of a row, by the share of the rows whose labels arrive.",
        label_rates,
        lambda result: bool(result.rates),
    ),
]
LABELS_NOTE = (
    "Over the rows of which the label is known; F1 in percent: before and after with a yes from 0.5"
    " on, and after from the threshold on, a dash where the label was neither there nor said. Log"
    " loss in nats."
)
GLOSSARY = {
    "log loss": "Of a row the sum, over its known labels, of the negative logarithm of the"
    " probability of what is so; the mean over rows.",
    "F1": "2 right / (said + there): of the labels that were said and of those that were there, how"
    " many were both. Micro: all labels counted together. Macro: the mean over labels.",
    "threshold": "From which probability on a yes serves micro F1: half of the F1 that is to be"
    " had.",
    "ECE": "Expected calibration error: how far the share of labels that are there is from their"
    " probability, over 15 bins.",
    "before, after": "The scores as the classifier gave them, and as they went out.",
    "known": "Somebody said whether the row has the label or not.",
}


def multilabel_report(
    result: MultiLabelReplay,
    title: str,
    *,
    made_from: Mapping[str, str] | None = None,
    pipe: str = "",
    date: datetime | None = None,
) -> str:
    """Render the page; see :func:`stream_can.report.report`.

    Parameters
    ----------
    result
        A replay with at least one known label.
    title, made_from, date
        See there.
    pipe
        The next command, if there is something to deploy.

    Raises
    ------
    NoLabels
        No label is known.
    """
    if not result.raw.n:
        raise NoLabels("report: of no row a label is known, so there is nothing to compare")
    corrector = result.corrector
    return other_page(
        result,
        title,
        judge_several(result),
        sub=f"{result.rows:,} rows, of {result.raw.n:,} a label is known, {len(result.labels)}"
        f" labels, {html.escape(result.delay)}",
        tiles=_tiles(result),
        cards=[*cards_of(FIGURES, result), card("Each label", labels_table(result), LABELS_NOTE)],
        settings=f"half_life {corrector.half_life:g}",
        labels=f"{corrector.n_labels:,} messages learned",
        glossary=GLOSSARY,
        made_from=made_from,
        pipe=pipe,
        date=date,
    )


def write_multilabel_report(
    result: MultiLabelReplay,
    title: str,
    path: str | Path,
    *,
    made_from: Mapping[str, str] | None = None,
    pipe: str = "",
) -> None:
    """Write :func:`multilabel_report` to a file; create its folder."""
    write(multilabel_report(result, title, made_from=made_from, pipe=pipe), path)


def _tiles(result: MultiLabelReplay) -> str:
    raw, after, decided = result.raw, result.corrected, result.decided
    error = loss_change(result).error if raw.n >= FEW else None
    points = ("points", "%")
    return tiles_of([
        ("log loss", raw.log_loss, after.log_loss, error, ".4f", ("", "nats")),
        ("micro F1 from 0.5 on", 100 * raw.micro_f1, 100 * after.micro_f1, None, ".2f", points),
        ("micro F1 at the threshold", 100 * raw.micro_f1, 100 * decided.micro_f1, None, ".2f",
         points),
        ("macro F1 at the threshold", 100 * raw.macro_f1, 100 * decided.macro_f1, None, ".2f",
         points),
        ("ECE", 100 * raw.ece, 100 * after.ece, None, ".2f", points),
    ])  # fmt: skip


def labels_table(result: MultiLabelReplay) -> str:
    """Scores of each label, the most frequent first."""
    found = sorted(result.per_label(), key=lambda one: -one["there"])
    body = "".join(
        f"<tr><td class=name><bdi>{html.escape(readable(one['label'], 120))}</bdi></td>"
        f"<td>{one['known']:,}</td><td>{one['there']:,}</td>"
        + percentages(one["f1"])
        + before_and_after(one["log_loss"].values() if one["known"] else (nan, nan), 1, 4)
        + "</tr>"
        for one in found
    )
    head = (
        "<tr><th></th><th></th><th></th><th colspan=3>F1</th><th colspan=2>log loss</th></tr>"
        "<tr><th>label</th><th>known</th><th>there</th><th>before</th><th>after</th>"
        "<th>at threshold</th><th>before</th><th>after</th></tr>"
    )
    return f'<div class="scroll tall"><table><thead>{head}</thead>{body}</table></div>'
