"""What is shown of a replay of multilabel rows: verdict, table, notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stream_can.change import Change, change
from stream_can.multilabel.corrector import MultiLabelCorrector
from stream_can.multilabel.kind import KIND
from stream_can.multilabel.result import MultiLabelReplay
from stream_can.multilabel.scores import LabelScores
from stream_can.recording.names import WAYS, names_of
from stream_can.recording.output import CorrectedFile
from stream_can.recording.several import MultiLabelChunk, MultiLabelRecording
from stream_can.replay.deployed import Deployed, written_names
from stream_can.replay.effect import NATS, Effect
from stream_can.replay.labels import RecordedRows
from stream_can.replay.shown import Cells, ScoreTable
from stream_can.replay.verdict import FEW, Verdict, conclusion, few_labels, labels_in_words
from stream_can.row_kinds import refuse_few_classes

Result = MultiLabelReplay

NOTHING = "No row has a known label, so there is nothing to compare."


def events(chunk: MultiLabelChunk) -> RecordedRows:
    """Rows and label messages of a chunk."""
    messages = np.empty(len(chunk.said), object)
    messages[:] = [label.tobytes() for label in chunk.said]
    return RecordedRows(
        chunk.first, chunk.P, chunk.Y, chunk.time, chunk.of, messages, chunk.at, chunk.segments
    )  # fmt: skip


def head(result: MultiLabelReplay) -> str:
    """Rows and labels."""
    return (
        f"{result.rows:,} rows, {result.raw.n:,} with a known label, {len(result.classes)} labels;"
        f" labels {result.delay}, {result.learned:,} messages learned"
    )


def table(result: MultiLabelReplay, *, verbose: bool = False) -> ScoreTable:
    """Scores before and after."""
    return ScoreTable(
        ("log loss", "ECE %", "micro F1 %", "macro F1 %"),
        [
            Cells("before, from 0.5", _cells(result.raw)),
            Cells("before, from its best threshold", _cells(result.own[0])),
            Cells("after, from 0.5", _cells(result.corrected), "bold"),
            Cells("after, from its best threshold", _cells(result.own[1]), "bold"),
            Cells("after, from the corrector's threshold", _cells(result.decided), "bold"),
        ],
    )


def _cells(scores: LabelScores) -> list[str]:
    return [
        f"{scores.log_loss:.4f}",
        *(f"{100 * share:.2f}" for share in (scores.ece, scores.micro_f1, scores.macro_f1)),
    ]


def notes(result: MultiLabelReplay) -> Iterator[str]:
    """Notes under the table, and changes by label rate."""
    yield "log loss in nats, summed over the known labels of a row; best threshold: for micro F1"
    for how, rates in (("", result.rates), (", asked for", result.asked_rates)):
        for rate, scores in rates.items():
            nats = scores.log_loss - result.raw.log_loss
            yield f"labels of {100 * rate:g} % of the rows{how}: {nats:+.4f} nats"


# ---- verdict


def judge(result: MultiLabelReplay) -> Verdict:
    """Judge by the log loss of a row, see :func:`stream_can.replay.judge`."""
    raw, corrected = result.raw, result.corrected
    if (loss := loss_change(result)) is None:
        return few_labels(f"{raw.n:,} rows have a known one")
    known, positives = raw.of_labels[:2].sum(axis=1)
    if positives == known:
        only = (
            "No verdict: all known labels are true, so nothing is corrected. Negatives are needed:"
            " for example, rows whose labels are all known."
        )
        return Verdict(only, "", (), False)
    nats = Effect(loss, NATS)
    numbers = (
        f"log loss of a row {raw.log_loss:.4f} before and {corrected.log_loss:.4f} after "
        f"({nats.change.value:+.4f} nats, standard error {nats.change.error:.4f})"
    )
    return Verdict(
        conclusion(None, nats, numbers), _decisions(result), tuple(_why(result)), nats.down
    )


def loss_change(result: MultiLabelReplay) -> Change | None:
    """Change of the log loss of a row; None with too few labels for a verdict."""
    if result.raw.n < FEW:
        return None
    rows = [moment.labelled for moment in result.moments]
    loss = change(rows, *zip(*(moment.losses for moment in result.moments), strict=True))
    if loss is None:
        return None
    drawn = [loss, *filter(None, map(loss_change, result.other_draws))]
    return loss.over_draws([draw.value for draw in drawn])


def _decisions(result: MultiLabelReplay) -> str:
    """Sentences on F1: what a threshold gives, and what the correction."""
    raw, decided, (raw_at_best, sent_at_best) = result.raw, result.decided, result.own
    at, threshold, correction = (
        result.best[0].value,
        100 * (raw_at_best.micro_f1 - raw.micro_f1),
        100 * (sent_at_best.micro_f1 - raw_at_best.micro_f1),
    )
    gain = f"{abs(correction):.2f} points {'more' if correction > 0 else 'less'}"
    text = (
        f"Micro F1 before is {100 * raw.micro_f1:.2f} %, predicted from 0.5. A threshold alone"
        f" ({at:.3f} at the end) gives {threshold:+.2f} points, {100 * raw_at_best.micro_f1:.2f} %;"
        f" the correction, at a threshold found the same way, {gain},"
        f" {100 * sent_at_best.micro_f1:.2f} %. At the corrector's own"
        f" threshold ({result.corrector.threshold:.3f} at the end) it is"
        f" {100 * decided.micro_f1:.2f} %."
    )
    if decided.macro_f1 < raw_at_best.macro_f1 - 0.001:
        text += (
            f" Macro F1, in which rare labels count as much as others, falls from"
            f" {100 * raw_at_best.macro_f1:.2f} % at that threshold to"
            f" {100 * decided.macro_f1:.2f} %."
        )
    return text


def _why(result: MultiLabelReplay) -> list[str]:
    sentences = labels_in_words(result)
    known, positives, *_ = result.raw.of_labels
    one_sided = int(((known > 0) & (positives == known)).sum())
    if one_sided:
        noun = "label is" if one_sided == 1 else "labels are"
        sentences.append(
            f"{one_sided:,} {noun} known only where true, and therefore not corrected."
        )
    if never := int((known == 0).sum()):
        sentences.append(f"{never:,} label{'s are' if never > 1 else ' is'} never known.")
    few = result.rates.get(0.05)
    gain = result.raw.log_loss - result.corrected.log_loss
    if few is not None and gain > NATS:
        kept_share = max(0.0, min(1.0, (result.raw.log_loss - few.log_loss) / gain))
        sentences.append(
            f"With the labels of one row in 20 it would keep {100 * kept_share:.0f} % of the gain"
            " in log loss."
        )
    return sentences


# ---- what is replayed


def open_recording(
    file: Path, classes: str | None, places: Mapping[str, str], form: Mapping[str, Any]
) -> MultiLabelRecording:
    """Open a file, see :func:`stream_can.dense.replay.open_recording`."""
    names = names_of(classes)
    refuse_few_classes(KIND, names, ways=WAYS)
    options: dict[str, Any] = {**places, **form}
    del options["normalise"]
    return MultiLabelRecording(file, classes=names, **options)


def new_corrector(
    recording: MultiLabelRecording, classes: str | None, settings: dict[str, Any]
) -> MultiLabelCorrector:
    """A corrector for a recording; what the file knows joins the settings."""
    for name in ("train_counts", "train_rows"):
        if (stored := getattr(recording, name)) is not None:
            settings.setdefault(name, stored if name == "train_rows" else stored.tolist())
    return MultiLabelCorrector(recording.classes, **settings)


def corrected_file(
    path: Path, recording: MultiLabelRecording, corrector: MultiLabelCorrector
) -> CorrectedFile:
    """A file for the corrected rows, and the labels decided on."""
    return CorrectedFile(path, recording.classes, field="scores", sets="labels")


def deployed(
    recording: MultiLabelRecording, classes: str | None, settings: Mapping[str, Any]
) -> Deployed:
    """The corrector as commands write it."""
    names = {"classes": written_names(recording.classes)}
    return Deployed(
        "from stream_can.multilabel import MultiLabelCorrector", "MultiLabelCorrector",
        list(recording.classes), settings, flags=["--rows", "multilabel"], begins=names,
        serves=names,
    )  # fmt: skip
