"""``stream-can replay --sparse``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from stream_can import snapshot
from stream_can.cli.arguments import argument_errors
from stream_can.cli.deploy import options
from stream_can.cli.recorded import made_from
from stream_can.cli.terminal import print_json, progress_bar, text_console
from stream_can.errors import StreamCANError
from stream_can.recording.sparse import SparseRecording
from stream_can.replay.sparse import SparseReplay, judge_sparse, sparse_replay
from stream_can.replay.steps import check_arrival, check_labels
from stream_can.sparse import SparseCorrector, SparseScores

__all__ = ["classes_of", "replay_sparse"]

SETTINGS = ("train_counts", "half_life", "max_classes", "memory_mb")


def classes_of(text: str | None) -> Any:
    """The classes of ``--sparse``: "any", or how many there are."""
    return "any" if text is None else int(text) if text.isdigit() else text


def replay_sparse(
    file: Path,
    places: Mapping[str, str | None],
    classes: str | None,
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
    """Replay rows of the likeliest of very many classes and show what came of it.

    Parameters
    ----------
    places
        Where in the file everything is; None where nothing is said of it.
    settings
        What was said of the corrector.
    others
        Options that only rows of all classes have; None where not given.
    """
    with argument_errors():
        refused = {**others} | {k: v for k, v in settings.items() if k not in SETTINGS}
        for name, value in refused.items():
            if value is not None:
                option = name.replace("_", "-")
                raise StreamCANError(f"--{option}: not of rows of very many classes; leave it out")
        corrector = SparseCorrector(classes_of(classes), **settings)
        given = {name: place for name, place in places.items() if place is not None}
        recording = SparseRecording(file, numbered=corrector.names is None, **given)
        check_arrival(recording, label_delay)
        check_labels(label_delay, label_rate)
    if report is not None:
        # Imported now, so that a missing extra is said before the replay and not behind it.
        from stream_can.report.sparse import write_sparse_report
    if state is not None:
        snapshot.require_replaceable(state)
        state.parent.mkdir(parents=True, exist_ok=True)
    with progress_bar("replay", recording.rows) as progress:
        result = sparse_replay(
            recording,
            corrector,
            label_delay=label_delay,
            label_rate=label_rate,
            seed=seed,
            progress=progress,
        )
    if state is not None:
        snapshot.save(corrector.to_bytes(), state)
    command = _pipe(recording, classes, settings, given, state)
    if report is not None:
        name = Path(recording.name).name
        write_sparse_report(result, name, report, made_from=made_from(recording), pipe=command)
    if as_json:
        text = judge_sparse(result).text
        print_json(result.to_dict() | {"verdict": text, "deploy": {"pipe": command}})
    else:
        _show(result, label_rate, command)
    return 0


def _pipe(
    recording: SparseRecording,
    classes: str | None,
    settings: Mapping[str, Any],
    places: Mapping[str, str],
    state: Path | None,
) -> str:
    """The command that corrects lines like these."""
    more = ["--sparse"]
    if state is None:
        more += [*(["--classes", classes] if classes else []), *options(settings)]
    if Path(recording.name).suffix in (".jsonl", ".ndjson"):  # lines as the pipe reads them
        more += options(
            {name: place for name, place in places.items() if "time" not in name and name != place}
        )
    kept = state or Path("corrector.state")
    return f"stream-can pipe {shlex.join([*more, '--state', str(kept)])} < lines.jsonl"


def _show(result: SparseReplay, label_rate: float, command: str) -> None:
    console = text_console()
    listed = result.classes_listed / max(result.rows, 1)
    console.print(
        f"{result.rows:,} rows of {listed:.1f} classes, {result.raw.n:,} with a label,"
        f" {result.corrector.n_classes:,} classes; labels {result.delay},"
        f" {result.learned:,} learned"
        + (f" (label rate {label_rate:g})" if label_rate < 1 else "")
        + f"; {result.rows / max(result.seconds, 1e-9):,.0f} rows/s"
    )
    if not result.raw.n:
        console.print("No row has a label, so there is nothing to compare.")
        return
    found = judge_sparse(result)
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
    for name in ("accuracy %", "top 5 %", "listed %", "log loss"):
        table.add_column(name, justify="right")
    table.add_row("before", *_cells(result.raw))
    table.add_row("after", *_cells(result.corrected), style="bold")
    console.print(table)
    console.print(
        "log loss in nats; a label that a row does not list has its share of the rest, before alike"
        " for all such classes, after as the tail has it"
    )
    for one in found.why:
        console.print(f"- {one}")


def _cells(scores: SparseScores) -> list[str]:
    shares = (scores.accuracy, scores.top5, scores.listed)
    return [*(f"{100 * one:.2f}" for one in shares), f"{scores.log_loss:.4f}"]
