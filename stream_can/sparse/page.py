"""What the page of a replay of sparse rows shows."""

from __future__ import annotations

from typing import Any

from stream_can.report.figures import CHANGE, LABEL_RATES, rolling_accuracy, rolling_log_loss
from stream_can.report.origin import delay
from stream_can.report.svg import ShownPoints
from stream_can.report.tables import tiles_of
from stream_can.sparse.result import SparseReplay

NOTHING = "report: no row has a label, so there is nothing to compare"

FIGURES: list[ShownPoints[Any]] = [
    ShownPoints(
        "Accuracy over time",
        "Share of the labelled rows whose likeliest class is the label, in a window of {window}"
        " rows, with two standard errors.",
        rolling_accuracy,
    ),
    ShownPoints(
        "Log loss over time",
        "Mean log loss in a window of {window} rows, with two standard errors.",
        rolling_log_loss,
    ),
    CHANGE,
    LABEL_RATES,
]
GLOSSARY = {
    "listed": "The label is among the classes of the row.",
    "top 5": "The label is among the five likeliest classes of the row.",
    "log loss": "The negative logarithm of the label's probability, in nats. A label that is not"
    " among the classes of the row gets a share of the rest: before, an equal one; after, the"
    " corrector's estimate.",
    "before, after": "The rows of the classifier, and the corrected rows.",
}


def sub(result: SparseReplay) -> str:
    """What was replayed."""
    labels = f"{result.raw.n:,} with a label, labels {result.delay}"
    return f"{result.rows:,} rows, {labels}, {result.corrector.n_classes:,} classes"


def tiles(result: SparseReplay) -> str:
    """Changes of the scores, with their values before and after."""
    raw, sent, changes = result.raw, result.corrected, result.changes()
    assert changes is not None
    points = ("points", "%")
    return tiles_of([
        ("accuracy", 100 * raw.accuracy, 100 * sent.accuracy, 100 * changes.accuracy.error, ".2f",
         points),
        ("top 5", 100 * raw.top5, 100 * sent.top5, None, ".2f", points),
        ("listed", 100 * raw.listed, 100 * sent.listed, None, ".2f", points),
        ("log loss", raw.log_loss, sent.log_loss, changes.log_loss.error, ".4f", ("", "nats")),
    ])  # fmt: skip


def cards(result: SparseReplay) -> list[str]:
    """No tables."""
    return []


def tail(result: SparseReplay) -> str:
    """Nothing more."""
    return ""


def facts(result: SparseReplay) -> list[tuple[str, str]]:
    """Settings and labels."""
    corrector = result.corrector
    return [
        ("settings", f"half_life {corrector.half_life:g}, at most {corrector.m:,} classes"),
        ("labels", f"{result.learned:,} learned; {delay(result)}"),
    ]


def glossary(result: SparseReplay) -> dict[str, str]:
    """What the words mean."""
    return GLOSSARY
