"""What is shown of a replay of dense rows: verdict, table, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stream_can.corrector import Corrector
from stream_can.dense.kind import KIND
from stream_can.dense.result import DenseReplay
from stream_can.dense.verdict import judge
from stream_can.recording.names import WAYS, names_of
from stream_can.recording.output import CorrectedFile
from stream_can.recording.recording import Chunk, Recording
from stream_can.replay.deployed import Deployed, written_names
from stream_can.replay.labels import RecordedRows
from stream_can.replay.shown import Cells, ScoreTable, changes_by_rate, with_errors
from stream_can.replay.verdict import BY_WEIGHT, errors
from stream_can.row_kinds import refuse_few_classes
from stream_can.scores import FLOOR, Scores

__all__ = [
    "NOTHING",
    "Result",
    "corrected_file",
    "deployed",
    "events",
    "head",
    "judge",
    "new_corrector",
    "notes",
    "open_recording",
    "table",
]  # fmt: skip

Result = DenseReplay


def events(chunk: Chunk) -> RecordedRows:
    """Rows and labels of a chunk."""
    arrived = np.flatnonzero(chunk.arrives)
    at = None if chunk.label_time is None else chunk.label_time[arrived]
    return RecordedRows(
        chunk.first, chunk.P, chunk.y, chunk.time, arrived + chunk.first, chunk.y[arrived], at,
        chunk.segments, weight=chunk.weight,
    )  # fmt: skip


NOTHING = "No row has a label, so there is nothing to compare."


def head(result: DenseReplay) -> str:
    """Rows, labels and classes."""
    return (
        f"{result.rows:,} rows, {result.raw.n:,} with a label, {len(result.classes)} classes; "
        f"labels {result.delay}, {result.learned:,} learned"
    )


def table(result: DenseReplay, *, verbose: bool = False) -> ScoreTable:
    """Scores before and after, changes with standard errors, and each path if ``verbose``."""
    weights = result.mean_weights
    heads = ("accuracy %", "log loss", "Brier", "ECE %", *["weight %"] * verbose)
    rows = [
        Cells("before", _cells(result.raw)),
        Cells("after", _cells(result.corrected), "bold"),
        Cells("change", _cells(result.corrected, result.raw), "cyan"),
        *with_errors(result, *_calibration_errors(result)),
    ]
    if (alone := result.fit_alone) is not None:
        rows += [
            Cells("fit alone", _cells(alone.corrected)),
            Cells("change", _cells(alone.corrected, result.raw), "cyan"),
            *with_errors(alone, *_calibration_errors(alone)),
        ]
    if verbose:
        for name, scores in result.paths.items():
            if scores.n:
                cells = [*_cells(scores), f"{100 * weights[name]:.1f}"]
                rows.append(Cells(f"  {name}", cells, "dim"))
    return ScoreTable(heads, rows)


def notes(result: DenseReplay) -> Iterator[str]:
    """Notes under the table, and changes by label rate."""
    if (points := errors(result)[0]) == points:
        drawn = f", and over {len(result.other_draws) + 1} draws of the labels that come"
        yield "±: standard error of the change over 30 stretches of the stream" + (
            drawn if result.other_draws else ""
        )
    yield f"log loss in nats; probabilities below {FLOOR:f} count as that"
    if result.has_weights:
        yield BY_WEIGHT
    if result.rates or result.asked_rates:
        yield "\nChanges by the share of the labels that come:"
    yield from changes_by_rate(result)


def _calibration_errors(result: DenseReplay) -> list[str]:
    """Standard errors of the changes of Brier score and calibration error, where known."""
    if (changes := result.calibration_changes()) is None:
        return []
    brier, ece = changes
    return [f"{brier.error:.4f}", f"{100 * ece.error:.2f}"]


def _cells(scores: Scores, baseline: Scores | None = None) -> list[str]:
    """Four scores as text, or their changes if ``before`` is given."""
    values = [100 * scores.accuracy, scores.log_loss, scores.brier, 100 * scores.ece]
    if baseline is None:
        return [f"{value:.{digits}f}" for value, digits in zip(values, (2, 4, 4, 2), strict=True)]
    raw = [100 * baseline.accuracy, baseline.log_loss, baseline.brier, 100 * baseline.ece]
    changes = [a - b for a, b in zip(values, raw, strict=True)]
    return [f"{change:+.{digits}f}" for change, digits in zip(changes, (2, 4, 4, 2), strict=True)]


# ---- what is replayed


def open_recording(
    file: Path, classes: str | None, places: Mapping[str, str], form: Mapping[str, Any]
) -> Recording:
    """Open a file.

    Parameters
    ----------
    classes
        Value of ``--classes``.
    places
        Columns or fields of probabilities, label and id, where given.
    form
        ``normalise``, ``segments``, and columns of times.
    """
    names = names_of(classes)
    refuse_few_classes(KIND, names, ways=WAYS)
    options: dict[str, Any] = {**places, **form}
    return Recording(file, classes=names, **options)


def new_corrector(recording: Recording, classes: str | None, settings: dict[str, Any]) -> Corrector:
    """A corrector for a recording; what the file knows joins the settings."""
    if recording.train_counts is not None:
        settings.setdefault("train_counts", recording.train_counts.tolist())
    return Corrector(recording.classes, **settings)


def corrected_file(path: Path, recording: Recording, corrector: Corrector) -> CorrectedFile:
    """A file for the corrected rows."""
    sets = None if corrector.sets is None else "set"
    return CorrectedFile(path, recording.classes, sets=sets)


def deployed(recording: Recording, classes: str | None, settings: Mapping[str, Any]) -> Deployed:
    """The corrector as commands write it."""
    names = {"classes": written_names(recording.classes)}
    return Deployed(
        "from stream_can import Corrector", "Corrector", list(recording.classes), settings,
        begins=names, serves=names, serves_state=True,
    )  # fmt: skip
