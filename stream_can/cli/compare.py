"""``stream-can compare``: is it better than what I would do today?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from stream_can.cli.arguments import Whole, argument_errors, refuse_to_overwrite
from stream_can.cli.options import NO_OPTIONS, CorrectorOptions
from stream_can.cli.recorded import form_of, made_from
from stream_can.cli.terminal import print_json, progress_bar
from stream_can.compare.outcome import Outcome, against, compare, per_class
from stream_can.compare.rivals import BOTH
from stream_can.compare.rivals import rivals as chosen
from stream_can.compare.stream import Stream, load
from stream_can.compare.verdict import best, highlighted, verdict
from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.method.rows import Normalise
from stream_can.recording.names import listed
from stream_can.recording.recording import Recording
from stream_can.replay.steps import check_labels

__all__ = ["compare_command"]

INTERRUPTED = 130


def compare_command(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    *,
    probs: str = "probs",
    label: str = "label",
    label_delay: Whole | None = None,
    time: str | None = None,
    label_time: str | None = None,
    id: str = "id",
    classes: str | None = None,
    normalise: Normalise = "rounded",
    validation: Path | None = None,
    validation_rows: Whole = 0,
    refit_every: Whole = 500,
    rivals: Annotated[str, Parameter(name="--rivals")] = "default",
    config: Path | None = None,
    corrector: CorrectorOptions = NO_OPTIONS,
    report: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Is it better than what I would do today? Play a recording once for each rival.

    Rivals: nothing; histogram binning, isotonic, BBQ, Platt, temperature, vector and matrix scaling
    fitted to validation rows; some of them refitted by hand as labels come in; batch CAN; and
    stream_can. Ctrl-C shows what is ready.

    Parameters
    ----------
    file
        Recorded predictions in the order they were made: .csv, .tsv, .jsonl, .json, .parquet,
        .feather, .avro, .npz or .npy, also packed (.gz); - for standard input.
    probs
        The column of the probabilities, or the beginning of the names of one column per class:
        probs_cat, probs_dog; a star stands for the class: P(*).
    label
        The column of the labels; for npy their file.
    label_delay
        How many rows late labels arrive.
    time
        The column that says when a row was predicted: numbers, or dates (ISO 8601).
    label_time
        The column that says when its label was known.
    id
        In JSON lines: what joins labels on lines of their own to their predictions.
    classes
        Names of the classes in the order of a list: cat,dog,eel, a JSON array, or a file of names.
    normalise
        Divide by their sum rows that rounding explains, or always, as for scores.
    validation
        A file like FILE with the validation rows that the rivals are fitted to.
    validation_rows
        Without one: fit to the first so many labelled rows of FILE, which are scored for nobody.
    refit_every
        Rows between two refits of the rivals that are refitted.
    rivals
        default; all, which adds structured-vector, structured-matrix, matrix-refitted, ops,
        ops-tracking, vector-refitted-by-adwin and, up to 20 classes, kalman and kalman-fitted; or
        some by their names with dashes: temperature,ops.
    config
        TOML file of these options: classes = ["cat", "dog"]; those that are typed win, then the
        environment (STREAM_CAN_CLASSES).
    report
        Write an HTML page of figures here.
    as_json
        Print the result as JSON.
    """
    refuse_to_overwrite([file, validation], {"--report": report})
    form = form_of(probs, label, id, classes, normalise, corrector.columns)
    with argument_errors():
        check_labels(label_delay, 1)
        settings = corrector.settings()
        if "sets" in settings:
            raise StreamCANError("--sets: rivals make none; stream-can replay --sets has ours")
        names = rivals if rivals in ("default", "all") else listed(rivals)
        recording = Recording(file, time=time, label_time=label_time, **form)
        playing = chosen(refit_every, names=names, classes=len(recording.classes), **settings)
        held = None if validation is None else Recording(validation, **form)
        stream = load(
            recording, label_delay=label_delay, validation=held, validation_rows=validation_rows
        )
        Corrector(stream.classes, **settings)  # raises for invalid settings
    if report is not None:
        # Imported before the work, so that a missing extra is reported at once.
        from stream_can.compare.page import write_page
    outcomes: list[Outcome] = []
    code = 0
    try:
        with progress_bar("compare", len(stream.P) * len(playing)) as progress:
            for outcome in compare(stream, playing, progress):
                outcomes.append(outcome)
    except KeyboardInterrupt:
        if not outcomes:
            raise
        print(
            f"stream-can: interrupted; {len(outcomes)} of {len(playing)} are ready", file=sys.stderr
        )
        code = INTERRUPTED
    if as_json:
        print_json(as_dict(stream, outcomes))
    else:
        show(stream, outcomes)
    if report is not None:
        name = Path(recording.name).name
        write_page(stream, outcomes, name, report, made_from=made_from(recording))
    return code


def as_dict(stream: Stream, outcomes: list[Outcome]) -> dict[str, Any]:
    """The comparison as JSON."""
    raw = outcomes[0]
    last = next((one for one in outcomes if one.name == BOTH), outcomes[-1])
    return {
        "rows": len(stream.P),
        "scored": raw.scores.n,
        "validation_rows": len(stream.validation[1]),
        "classes": stream.classes,
        "rivals": [
            {"name": one.name, "needs": one.needs}
            | one.scores.summary()
            | against(one, raw).summary()
            | {"microseconds": one.microseconds}
            for one in outcomes
        ],
        "verdict": verdict(outcomes),
        "per_class": {"of": last.name, "classes": per_class(stream, raw, last)},
    }


def show(stream: Stream, outcomes: list[Outcome]) -> None:
    """Print the table."""
    console = Console(
        width=None if sys.stdout.isatty() else 140, highlight=False, markup=False, emoji=False
    )
    raw = outcomes[0]
    console.print(
        f"{len(stream.P):,} rows, {raw.scores.n:,} scored, {len(stream.classes)} classes; "
        f"{len(stream.validation[1]):,} validation rows"
    )
    console.print()
    console.print(verdict(outcomes))
    console.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for name in ("accuracy %", "change", "±", "log loss", "change", "±", "Brier", "ECE %", "MCE %"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("µs/row", justify="right", no_wrap=True)
    table.add_column("needs", style="dim", overflow="fold")
    first = best(outcomes)
    for one in outcomes:
        scores = one.scores
        changes = ("",) * 4 if one is raw else against(one, raw).cells
        table.add_row(
            one.name,
            f"{100 * scores.accuracy:.2f}",
            *changes[:2],
            f"{scores.log_loss:.4f}",
            *changes[2:],
            f"{scores.brier:.4f}",
            f"{100 * scores.ece:.2f}",
            f"{100 * scores.mce:.1f}",
            f"{one.microseconds:.1f}",
            one.needs,
            style="bold" if one is first else None,
        )
    console.print(table)
    console.print(
        "Change against raw, ± its standard error over 30 stretches of the stream. µs/row: "
        f"processor time, fits included. {highlighted(outcomes)}"
    )
