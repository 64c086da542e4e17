"""What is shown of a replay of sparse rows: verdict, table, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stream_can.recording.names import classes_of
from stream_can.recording.output import CorrectedFile
from stream_can.recording.sparse import SparseChunk, SparseRecording
from stream_can.replay.deployed import Deployed
from stream_can.replay.effect import Effects
from stream_can.replay.episodes import worse_in_words
from stream_can.replay.labels import RecordedRows
from stream_can.replay.shown import Cells, ScoreTable, changes_by_rate
from stream_can.replay.verdict import FEW, Verdict, conclusion, few_labels, labels_in_words
from stream_can.sparse.corrector import SparseCorrector
from stream_can.sparse.result import SparseReplay
from stream_can.sparse.scores import SparseScores

Result = SparseReplay

NOTHING = "No row has a label, so there is nothing to compare."


def events(chunk: SparseChunk) -> RecordedRows:
    """Rows and labels of a chunk."""
    arrived = np.flatnonzero(chunk.arrives)
    labels = np.empty(len(arrived), object)
    labels[:] = [chunk.labels[i] for i in arrived.tolist()]
    at = None if chunk.label_time is None else chunk.label_time[arrived]
    return RecordedRows(
        chunk.first, chunk.rows, chunk.labels, chunk.time, arrived + chunk.first, labels, at
    )


def head(result: SparseReplay) -> str:
    """Rows, labels and classes."""
    listed = result.classes_listed / max(result.rows, 1)
    return (
        f"{result.rows:,} rows of {listed:.1f} classes, {result.raw.n:,} with a label,"
        f" {result.corrector.n_classes:,} classes; labels {result.delay},"
        f" {result.learned:,} learned"
    )


def table(result: SparseReplay, *, verbose: bool = False) -> ScoreTable:
    """Scores before and after."""
    return ScoreTable(
        ("accuracy %", "top 5 %", "listed %", "log loss"),
        [Cells("before", _cells(result.raw)), Cells("after", _cells(result.corrected), "bold")],
    )


def _cells(scores: SparseScores) -> list[str]:
    shares = (scores.accuracy, scores.top5, scores.listed)
    return [*(f"{100 * share:.2f}" for share in shares), f"{scores.log_loss:.4f}"]


def notes(result: SparseReplay) -> Iterator[str]:
    """Notes under the table, and changes by label rate."""
    yield (
        "log loss in nats; a label that is not among the classes of a row has a share of the rest:"
        " before, an equal one; after, the corrector's estimate"
    )
    yield from changes_by_rate(result)


def judge(result: SparseReplay) -> Verdict:
    """Judge by accuracy and log loss, see :func:`stream_can.replay.judge`."""
    raw, sent, changes = result.raw, result.corrected, result.changes()
    if raw.n < FEW or changes is None:
        return few_labels(f"{raw.n:,} rows have one")
    effects = Effects.of(changes)
    numbers = (
        f"accuracy {100 * raw.accuracy:.2f} % before and {100 * sent.accuracy:.2f} % after, log"
        f" loss {raw.log_loss:.4f} before and {sent.log_loss:.4f} after: {changes.in_words()}"
    )
    lists = (
        f"The label is among the classes of a row in {100 * raw.listed:.1f} % of the rows before"
        f" and {100 * sent.listed:.1f} % after; among the first five in {100 * raw.top5:.1f} %"
        " before"
        f" and {100 * sent.top5:.1f} % after."
    )
    deploys = effects.better
    why = [*labels_in_words(result), *worse_in_words(result.alarm, dates=result.dates)]
    return Verdict(conclusion(*effects, numbers), lists, tuple(why), deploys)


# ---- what is replayed


def open_recording(
    file: Path, classes: str | None, places: Mapping[str, str], form: Mapping[str, Any]
) -> SparseRecording:
    """Open a file, see :func:`stream_can.dense.replay.open_recording`."""
    numbered = classes_of(classes, declared=False) != "any"
    times = {name: value for name, value in form.items() if "time" in name}
    return SparseRecording(file, numbered=numbered, **places, **times)


def new_corrector(
    recording: SparseRecording, classes: str | None, settings: dict[str, Any]
) -> SparseCorrector:
    """A corrector for a recording."""
    return SparseCorrector(classes_of(classes, declared=False), **settings)


def corrected_file(
    path: Path, recording: SparseRecording, corrector: SparseCorrector
) -> CorrectedFile:
    """A file for the corrected rows."""
    return CorrectedFile(path, None)


def deployed(
    recording: SparseRecording, classes: str | None, settings: Mapping[str, Any]
) -> Deployed:
    """The corrector as commands write it."""
    return Deployed(
        "from stream_can.sparse import SparseCorrector",
        "SparseCorrector",
        classes_of(classes, declared=False),
        settings,
        flags=["--rows", "sparse"],
        begins={} if classes is None else {"classes": classes},
        serves={"n_classes": classes} if str(classes).isdigit() else {},
        in_topics=False,
    )
