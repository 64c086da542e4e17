"""``stream-can replay --labels-per-row several``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from stream_can import snapshot
from stream_can.cli.arguments import argument_errors
from stream_can.cli.deploy import options, written_names
from stream_can.cli.recorded import RATES, made_from
from stream_can.cli.terminal import print_json, progress_bar, text_console
from stream_can.errors import StreamCANError
from stream_can.multilabel import LabelScores, MultiLabelCorrector
from stream_can.recording.several import MultiLabelRecording
from stream_can.replay.several import MultiLabelReplay, multilabel_replay
from stream_can.replay.several_verdict import judge_several
from stream_can.replay.steps import check_arrival, check_labels

__all__ = ["replay_several"]

SETTINGS = ("train_counts", "train_rows", "half_life")


def replay_several(
    file: Path,
    places: Mapping[str, str | None],
    classes: Sequence[Any] | None,
    settings: dict[str, Any],
    others: Mapping[str, Any],
    *,
    label_delay: int | None,
    label_rate: float,
    seed: int,
    state: Path | None,
    report: Path | None,
    as_json: bool,
) -> int:
    """Replay rows of several labels and show what came of it.

    Parameters
    ----------
    places
        Where in the file everything is; None where nothing is said of it.
    settings
        What was said of the corrector.
    others
        Options that only rows of one label have; None where not given.
    """
    with argument_errors():
        refused = {**others} | {k: v for k, v in settings.items() if k not in SETTINGS}
        for name, value in refused.items():
            if value is not None:
                option = name.replace("_", "-")
                raise StreamCANError(f"--{option}: not of rows of several labels; leave it out")
        given = {name: place for name, place in places.items() if place is not None}
        recording = MultiLabelRecording(file, classes=classes, **given)
        check_arrival(recording, label_delay)
        check_labels(label_delay, label_rate)
        for name in ("train_counts", "train_rows"):
            if (stored := getattr(recording, name)) is not None:
                settings.setdefault(name, stored if name == "train_rows" else stored.tolist())
        corrector = MultiLabelCorrector(recording.classes, **settings)
    if report is not None:
        # Imported now, so that a missing extra is said before the replay and not behind it.
        from stream_can.report.several import write_multilabel_report
    if state is not None:
        snapshot.require_replaceable(state)
        state.parent.mkdir(parents=True, exist_ok=True)
    rates = () if report is None else RATES
    with progress_bar("replay", recording.rows * (1 + len({*rates} - {label_rate}))) as progress:
        result = multilabel_replay(
            recording,
            corrector,
            label_delay=label_delay,
            label_rate=label_rate,
            seed=seed,
            rates=rates,
            progress=progress,
        )
    if state is not None:
        snapshot.save(corrector.to_bytes(), state)
    command = _pipe(recording, settings, given, state)
    if report is not None:
        write_multilabel_report(
            result, Path(recording.name).name, report, made_from=made_from(recording), pipe=command
        )
    if as_json:
        text = judge_several(result).text
        print_json(result.to_dict() | {"verdict": text, "deploy": {"pipe": command}})
    else:
        _show(result, label_rate, command)
    return 0


def _pipe(
    recording: MultiLabelRecording,
    settings: Mapping[str, Any],
    places: Mapping[str, str],
    state: Path | None,
) -> str:
    """The command that corrects lines like these."""
    more = ["--labels-per-row", "several"]
    if state is None:
        more += ["--classes", written_names(recording.classes), *options(settings)]
    if Path(recording.name).suffix in (".jsonl", ".ndjson"):  # lines as the pipe reads them
        more += options(
            {
                name: place
                for name, place in places.items()
                if "time" not in name and (name, place) != ("id", "id")
            }
        )
    kept = state or Path("corrector.state")
    return f"stream-can pipe {shlex.join([*more, '--state', str(kept)])} < lines.jsonl"


def _show(result: MultiLabelReplay, label_rate: float, command: str) -> None:
    console = text_console()
    console.print(
        f"{result.rows:,} rows, of {result.raw.n:,} a label is known, {len(result.labels)} labels; "
        f"labels {result.delay}, {result.corrector.n_labels:,} messages learned"
        + (f" (label rate {label_rate:g})" if label_rate < 1 else "")
        + f"; {result.rows / max(result.seconds, 1e-9):,.0f} rows/s"
    )
    if not result.raw.n:
        console.print("Of no row a label is known, so there is nothing to compare.")
        return
    found = judge_several(result)
    console.print()
    console.print(found.use, style="bold")
    if found.gains:
        console.print(found.gains)
    # Not wrapped: a command is there to be copied.
    console.print(
        f"Next: {command}" if found.deploy else "Next: nothing to deploy here.", soft_wrap=True
    )
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in ("log loss", "ECE %", "micro F1 %", "macro F1 %"):
        table.add_column(name, justify="right")
    table.add_row("before, yes from 0.5 on", *_cells(result.raw))
    table.add_row("after, yes from 0.5 on", *_cells(result.corrected), style="bold")
    table.add_row("after, yes from the threshold on", *_cells(result.decided), style="bold")
    console.print(table)
    console.print("log loss in nats, of a row over its known labels")
    for rate, scores in result.rates.items():
        nats = scores.log_loss - result.raw.log_loss
        console.print(f"labels of {100 * rate:g} % of the rows: {nats:+.4f} nats")
    if found.why:
        console.print()
    for one in found.why:
        console.print(f"- {one}")


def _cells(scores: LabelScores) -> list[str]:
    return [
        f"{scores.log_loss:.4f}",
        *(f"{100 * one:.2f}" for one in (scores.ece, scores.micro_f1, scores.macro_f1)),
    ]
