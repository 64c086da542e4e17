"""The commands of ``stream-can``: their arguments, and which function each hands them to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from stream_can import snapshot
from stream_can.cli.inspection import describe, read_snapshot
from stream_can.cli.terminal import progress_bar, show_inspection, show_replay
from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.replay.run import Recording, label_rates, replay
from stream_can.replay.verdict import verdict
from stream_can.version import __version__

__all__ = ["app"]

RATES = (0.01, 0.05, 0.2, 1.0)
"""The shares of labels of the report's figure of what labels buy."""

app = App(
    name="stream-can",
    help="Correct a deployed classifier's probabilities as they stream by, from late labels.",
    version=__version__,
)
CORRECTOR = Group("Corrector", help="Every default is good; see docs/method.md for what each does.")


@Parameter(name="*", group=CORRECTOR)
@dataclass(frozen=True, kw_only=True)
class CorrectorOptions:
    """The settings of a corrector, as options."""

    train_counts: str | None = None
    """Training rows per class, in the order of the classes: 900,80,20."""
    paths: str | None = None
    """Paths to mix: raw,can,temperature,... (all)."""
    half_life: float | None = None
    """Events after which what was learned counts half (5000)."""
    uncertainty: str | None = None
    """topk_entropy, entropy, margin or any_topk_entropy (topk_entropy)."""
    k: int | None = None
    """How many of the largest probabilities topk_entropy looks at (3)."""
    threshold: float | None = None
    """From which uncertainty on CAN corrects (0.9)."""
    pseudo_count: float | None = None
    """Rows that the prior weighs in CAN's column sums (the number of classes)."""
    prior_strength: float | None = None
    """Labels that the training prior weighs (the number of classes); inf keeps it fixed."""

    def settings(self) -> dict[str, Any]:
        """What was given, as keyword arguments of Corrector."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if "train_counts" in given:
            given["train_counts"] = [float(count) for count in _listed(given["train_counts"])]
        if "paths" in given:
            given["paths"] = _listed(given["paths"])
        return given


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


NO_OPTIONS = CorrectorOptions()


@app.command(name="replay")
def replay_command(
    file: Path,
    *,
    probs: str = "probs",
    labels: str = "label",
    label_delay: int | None = None,
    time: str | None = None,
    label_time: str | None = None,
    label_rate: float = 1.0,
    seed: int = 0,
    classes: str | None = None,
    validation: Path | None = None,
    corrector: CorrectorOptions = NO_OPTIONS,
    state: Path | None = None,
    report: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Would it help my stream? Replay recorded predictions and late labels, before and after.

    Labels arrive --label-delay rows after their prediction, or at their own time (--time and
    --label-time). A label that is empty never arrives.

    Parameters
    ----------
    file
        Recorded predictions: .csv, .jsonl, .parquet or .npz, in the order they were made.
    probs
        The column of the probabilities (a list in the order of the classes, or an object {class:
        probability}), or the beginning of the names of one column per class: probs_cat, probs_dog.
    labels
        The column of the labels.
    label_delay
        How many rows late labels arrive.
    time
        The column that says when a row was predicted: numbers, or dates (ISO 8601).
    label_time
        The column that says when its label was known.
    label_rate
        Share of the labels that arrive at all.
    seed
        Which labels arrive at a label rate below 1.
    classes
        Names of the classes in the order of a list: cat,dog,eel.
    validation
        A file like FILE with validation rows to fit before the stream starts.
    state
        Keep what was learned here, for a deployment to start from.
    report
        Write an HTML page of figures here.
    as_json
        Print the result as JSON.
    """
    names = None if classes is None else _listed(classes)
    recording = Recording(
        file, probs=probs, label=labels, time=time, label_time=label_time, classes=names
    )
    if label_delay is None and not recording.has_times:
        raise StreamCANError(
            "say when labels arrive: --label-delay ROWS, or --time COLUMN and --label-time COLUMN"
        )
    if report is not None:
        from stream_can.report.page import (
            write_report,  # says now, not after an hour, that an extra is missing
        )
    settings = corrector.settings()
    if recording.train_counts is not None:
        settings.setdefault("train_counts", recording.train_counts)
    start = Corrector(names or recording.classes, **settings)
    if validation is not None:
        start.fit(*Recording(validation, probs=probs, label=labels, classes=names).labelled())
    fresh = start.to_bytes()
    rates = [] if report is None else [rate for rate in RATES if rate != label_rate]
    with progress_bar("replay", recording.rows * (1 + len(rates))) as progress:
        result = replay(
            recording,
            start,
            label_delay=label_delay,
            label_rate=label_rate,
            seed=seed,
            progress=progress,
        )
        result.rates = label_rates(
            recording,
            lambda: Corrector.from_bytes(fresh),
            rates,
            label_delay=label_delay,
            seed=seed,
            progress=progress,
        )
        if rates:
            result.rates = dict(sorted({**result.rates, label_rate: result.corrected}.items()))
    if state is not None:
        snapshot.save(start.to_bytes(), state)
    if report is not None:
        write_report(result, file.name, report)
    if as_json:
        print(json.dumps(result.to_dict() | {"verdict": verdict(result)}, indent=1, default=_plain))
    else:
        show_replay(result, label_rate)
    return 0


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


@app.command(name="pipe")
def pipe_command(
    *,
    classes: str | None = None,
    probs: str = "probs",
    raw: str = "probs_raw",
    label: str = "label",
    id: str = "id",
    digits: int | None = None,
    labelled: Annotated[bool, Parameter(negative="")] = False,
    state: Path | None = None,
    save_every: int = 50_000,
    skip: Annotated[bool, Parameter(negative="")] = False,
    dead_letters: Path | None = None,
    errors: Literal["dead-letter", "fail"] = "dead-letter",
    recent_mb: float = 64,
    validation: Path | None = None,
    corrector: CorrectorOptions = NO_OPTIONS,
) -> int:
    """Correct JSON lines from standard input to standard output, as they come.

    A line with probabilities comes out corrected; a line with a label and no probabilities is
    learned. tail -f predictions.jsonl | stream-can pipe --classes cat,dog --state state.bin

    Parameters
    ----------
    classes
        Names of the classes in the order of the probabilities: cat,dog,eel. Not needed where the
        state file exists.
    probs
        The field of the probabilities; dots reach inside.
    raw
        The field that keeps the original; empty keeps none.
    label
        The field of the label.
    id
        The field that joins labels to predictions.
    digits
        Round the output to so many digits.
    labelled
        Each line carries both: it is corrected first, then its label is learned.
    state
        Keep what was learned here and go on from it at the next start.
    save_every
        Lines between two saves of the state.
    skip
        The input begins at its first line again: pass over the lines that the state covers.
    dead_letters
        Append lines that cannot be read to this file (standard error).
    errors
        What to do with a line that cannot be read.
    recent_mb
        Memory for predictions that wait for their label.
    validation
        A file as replay takes it, with validation rows to fit; only for a new state.
    """
    from stream_can.pipe.run import pipe
    from stream_can.stream.fields import Fields

    names = None if classes is None else _listed(classes)
    rows = None
    if validation is not None:
        rows = Recording(validation, probs=probs, label=label, classes=names).labelled()
    return pipe(
        names,
        fields=Fields(probs=probs, raw=raw, label=label, id=id, digits=digits),
        labelled=labelled,
        state=state,
        save_every=save_every,
        skip=skip,
        dead_letters=dead_letters,
        errors=errors,
        recent_bytes=int(recent_mb * (1 << 20)),
        validation=rows,
        **corrector.settings(),
    )


@app.command(name="inspect")
def inspect_command(
    snapshot: Path | None = None,
    *,
    topic: str | None = None,
    bootstrap_servers: str | None = None,
    config: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Show what a corrector has learned: one in a file, or those of every partition of a topic.

    Parameters
    ----------
    snapshot
        A file that replay --state or pipe --state wrote, or that holds Corrector.to_bytes().
    topic
        The state topic of run: the newest snapshot of every partition.
    bootstrap_servers
        The brokers that have it, host:port,...
    config
        The settings of run, which name both.
    as_json
        Print it as JSON.
    """
    if (snapshot is None) == (topic is None and config is None):
        raise StreamCANError("give either the file of a snapshot, or --topic or --config")
    found: dict[str, Any]
    if snapshot is not None:
        found = {"": read_snapshot(snapshot)}
    else:
        from stream_can.cli.kafka import newest_states

        found = newest_states(topic, bootstrap_servers, config)
    found = {
        name: describe(corrector) | ({"stream": stream} if stream else {})
        for name, (corrector, stream) in found.items()
    }
    if as_json:
        shown = found if snapshot is None else found[""]
        print(json.dumps(shown, indent=1, default=_plain))
    else:
        for name, one in found.items():
            print(f"{name}\n" if name else "", end="")
            show_inspection(one)
    return 0


# Looked up when it is called: kafka-python is an extra, and takes a while to import.
app.command(
    "stream_can.cli.kafka:run",
    name="run",
    help="Work between Kafka topics: predictions in, corrected predictions out, exactly once.",
)
app.command(
    "stream_can.cli.kafka:backfill",
    name="backfill",
    help="Learn from what Kafka topics hold, offline, so that a deployment starts warm.",
)
