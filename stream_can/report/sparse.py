"""A replay of rows of very many classes as a self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from stream_can.replay.sparse import SparseReplay, judge_sparse
from stream_can.report.document import write
from stream_can.report.figures import rolling_accuracy, rolling_log_loss
from stream_can.report.page import NoLabels, cards_of, other_page
from stream_can.report.svg import ShownPoints
from stream_can.report.tables import tiles_of

__all__ = ["sparse_report", "write_sparse_report"]

FIGURES: list[ShownPoints[SparseReplay]] = [
    ShownPoints(
        "Accuracy over time",
        "Share of the rows with a label whose likeliest class it is, in a window of {window} rows;"
        " with two standard errors.",
        rolling_accuracy,
    ),
    ShownPoints(
        "Log loss over time",
        "Mean log loss in a window of {window} rows, with two standard errors.",
        rolling_log_loss,
    ),
]
GLOSSARY = {
    "listed": "The row has the label among the classes that it lists.",
    "top 5": "The label is among the five likeliest of them.",
    "log loss": "The negative logarithm of the label's probability, in nats; of a label that is not"
    " listed, of its share of the rest: before, all such classes have the same; after, the tail"
    " says.",
    "before, after": "The rows as the classifier gave them, and as they went out.",
}


def sparse_report(
    result: SparseReplay,
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
        A replay with at least one labelled row.
    title, made_from, date
        See there.
    pipe
        The next command, if there is something to deploy.

    Raises
    ------
    NoLabels
        No row has a label.
    """
    if not result.raw.n:
        raise NoLabels("report: no row has a label, so there is nothing to compare")
    corrector = result.corrector
    labels = f"{result.raw.n:,} with a label, labels {html.escape(result.delay)}"
    return other_page(
        result,
        title,
        judge_sparse(result),
        sub=f"{result.rows:,} rows, {labels}, {corrector.n_classes:,} classes",
        tiles=_tiles(result),
        cards=cards_of(FIGURES, result),
        settings=f"half_life {corrector.half_life:g}, at most {corrector.m:,} classes",
        labels=f"{result.learned:,} learned",
        glossary=GLOSSARY,
        made_from=made_from,
        pipe=pipe,
        date=date,
    )


def write_sparse_report(
    result: SparseReplay,
    title: str,
    path: str | Path,
    *,
    made_from: Mapping[str, str] | None = None,
    pipe: str = "",
) -> None:
    """Write :func:`sparse_report` to a file; create its folder."""
    write(sparse_report(result, title, made_from=made_from, pipe=pipe), path)


def _tiles(result: SparseReplay) -> str:
    raw, after, changes = result.raw, result.corrected, result.changes()
    assert changes is not None
    points = ("points", "%")
    return tiles_of([
        ("accuracy", 100 * raw.accuracy, 100 * after.accuracy, 100 * changes.accuracy.error, ".2f",
         points),
        ("top 5", 100 * raw.top5, 100 * after.top5, None, ".2f", points),
        ("listed", 100 * raw.listed, 100 * after.listed, None, ".2f", points),
        ("log loss", raw.log_loss, after.log_loss, changes.log_loss.error, ".4f", ("", "nats")),
    ])  # fmt: skip
