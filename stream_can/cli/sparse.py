"""``stream-can replay --sparse``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from stream_can.cli.other_rows import OtherRows
from stream_can.errors import StreamCANError
from stream_can.recording.sparse import SparseRecording
from stream_can.replay.sparse import SparseReplay, judge_sparse, sparse_replay
from stream_can.sparse import SparseCorrector, SparseScores
from stream_can.sparse.corrector import SETTINGS

__all__ = ["SPARSE", "classes_of", "sparse_settings"]


def classes_of(text: str | None) -> Any:
    """Classes of ``--sparse``: "any", or their number."""
    return "any" if text is None else int(text) if text.isdigit() else text


def sparse_settings(
    *, sparse: bool, max_classes: int | None, memory_mb: float | None
) -> dict[str, float]:
    """Settings that only ``--sparse`` has; StreamCANError where given without it."""
    given = {"max_classes": max_classes, "memory_mb": memory_mb}
    found = {name: value for name, value in given.items() if value is not None}
    for name in found:
        if not sparse:
            raise StreamCANError(f"--{name.replace('_', '-')} needs --sparse")
    return found


def _open(
    file: Path, places: Mapping[str, str], classes: str | None, settings: dict[str, Any]
) -> tuple[SparseRecording, SparseCorrector]:
    corrector = SparseCorrector(classes_of(classes), **settings)
    recording = SparseRecording(file, numbered=corrector.names is None, **places)
    return recording, corrector


def _head(result: SparseReplay) -> str:
    listed = result.classes_listed / max(result.rows, 1)
    return (
        f"{result.rows:,} rows of {listed:.1f} classes, {result.raw.n:,} with a label,"
        f" {result.corrector.n_classes:,} classes; labels {result.delay},"
        f" {result.learned:,} learned"
    )


def _table(result: SparseReplay) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in ("accuracy %", "top 5 %", "listed %", "log loss"):
        table.add_column(name, justify="right")
    table.add_row("before", *_cells(result.raw))
    table.add_row("after", *_cells(result.corrected), style="bold")
    return table


def _cells(scores: SparseScores) -> list[str]:
    shares = (scores.accuracy, scores.top5, scores.listed)
    return [*(f"{100 * one:.2f}" for one in shares), f"{scores.log_loss:.4f}"]


def _notes(result: SparseReplay) -> Iterator[str]:
    yield (
        "log loss in nats; a label that a row does not list has its share of the rest, before alike"
        " for all such classes, after as the tail has it"
    )


def _report() -> Callable[..., None]:
    from stream_can.report.sparse import write_sparse_report

    return write_sparse_report


SPARSE = OtherRows(
    name="rows of very many classes",
    options=["--sparse"],
    settings=SETTINGS,
    open=_open,
    classes=lambda _, given: given,
    served=lambda classes: {"n_classes": classes} if str(classes).isdigit() else {},
    play=sparse_replay,
    has_rates=False,
    judge=judge_sparse,
    head=_head,
    nothing="No row has a label, so there is nothing to compare.",
    table=_table,
    notes=_notes,
    write_report=_report,
)
"""Rows of the likeliest of very many classes."""
