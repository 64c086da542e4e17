"""``stream-can replay --labels-per-row several``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from stream_can.cli.deploy import written_names
from stream_can.cli.options import names_of
from stream_can.cli.other_rows import OtherRows
from stream_can.multilabel import LabelScores, MultiLabelCorrector
from stream_can.recording.several import MultiLabelRecording
from stream_can.replay.several import MultiLabelReplay, multilabel_replay
from stream_can.replay.several_verdict import judge_several

__all__ = ["SEVERAL"]


def _open(
    file: Path, places: Mapping[str, str], classes: str | None, settings: dict[str, Any]
) -> tuple[MultiLabelRecording, MultiLabelCorrector]:
    recording = MultiLabelRecording(file, classes=names_of(classes), **places)
    for name in ("train_counts", "train_rows"):
        if (stored := getattr(recording, name)) is not None:
            settings.setdefault(name, stored if name == "train_rows" else stored.tolist())
    return recording, MultiLabelCorrector(recording.classes, **settings)


def _head(result: MultiLabelReplay) -> str:
    return (
        f"{result.rows:,} rows, of {result.raw.n:,} a label is known, {len(result.labels)} labels; "
        f"labels {result.delay}, {result.corrector.n_labels:,} messages learned"
    )


def _table(result: MultiLabelReplay) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in ("log loss", "ECE %", "micro F1 %", "macro F1 %"):
        table.add_column(name, justify="right")
    table.add_row("before, yes from 0.5 on", *_cells(result.raw))
    table.add_row("after, yes from 0.5 on", *_cells(result.corrected), style="bold")
    table.add_row("after, yes from the threshold on", *_cells(result.decided), style="bold")
    return table


def _cells(scores: LabelScores) -> list[str]:
    return [
        f"{scores.log_loss:.4f}",
        *(f"{100 * one:.2f}" for one in (scores.ece, scores.micro_f1, scores.macro_f1)),
    ]


def _notes(result: MultiLabelReplay) -> Iterator[str]:
    yield "log loss in nats, of a row over its known labels"
    for rate, scores in result.rates.items():
        nats = scores.log_loss - result.raw.log_loss
        yield f"labels of {100 * rate:g} % of the rows: {nats:+.4f} nats"


def _report() -> Callable[..., None]:
    from stream_can.report.several import write_multilabel_report

    return write_multilabel_report


SEVERAL = OtherRows(
    name="rows of several labels",
    options=["--labels-per-row", "several"],
    settings=("train_counts", "train_rows", "half_life"),
    open=_open,
    classes=lambda recording, _: written_names(recording.classes),
    served=lambda classes: {"classes": classes},
    play=multilabel_replay,
    has_rates=True,
    judge=judge_several,
    head=_head,
    nothing="Of no row a label is known, so there is nothing to compare.",
    table=_table,
    notes=_notes,
    write_report=_report,
)
"""Rows of several labels, each with a score of its own."""
