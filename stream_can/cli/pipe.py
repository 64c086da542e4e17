"""``stream-can pipe``: JSON lines or Avro records from standard input to standard output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from stream_can.cli.arguments import Whole, argument_errors
from stream_can.cli.options import NO_OPTIONS, CorrectorOptions
from stream_can.method.rows import Normalise
from stream_can.recording.names import WAYS, classes_of
from stream_can.recording.recording import Recording
from stream_can.row_kinds import refuse_few_classes, row_kind

__all__ = ["pipe_command"]


def pipe_command(
    *,
    classes: str | None = None,
    probs: str | None = None,
    raw: str | None = None,
    label: str | None = None,
    id: str = "id",
    model: str | None = None,
    version: str | None = None,
    digits: Whole | None = None,
    normalise: Normalise = "rounded",
    labelled: Annotated[bool, Parameter(negative="")] = False,
    state: Path | None = None,
    save_every: Whole = 50_000,
    skip: Annotated[bool, Parameter(negative="")] = False,
    dead_letters: Path | None = None,
    errors: Literal["dead-letter", "fail"] = "dead-letter",
    recent_mb: float = 64,
    ask: float | None = None,
    format: Literal["json", "avro"] = "json",
    validation: Path | None = None,
    rows: str = "dense",
    train_rows: float | None = None,
    max_classes: Whole | None = None,
    memory_mb: float | None = None,
    config: Path | None = None,
    corrector: CorrectorOptions = NO_OPTIONS,
) -> int:
    """Correct JSON lines from standard input to standard output, as they come.

    A line with probabilities comes out corrected; a line with a label and no probabilities is
    learned. tail -f predictions.jsonl | stream-can pipe --classes cat,dog --state state.bin

    Parameters
    ----------
    classes
        Names of the classes in the order of the probabilities: cat,dog,eel, a JSON array, or a file
        of names. Not needed where the state file exists.
    probs
        The field of the probabilities, probs if not given; dots reach inside.
    raw
        The field that keeps the original, probs_raw; empty keeps none.
    label
        The field of the label, label.
    id
        The field that joins labels to predictions.
    model
        The field of the model, where lines are of several: each has a corrector of its own.
    version
        The field of its version.
    digits
        Round the output to so many digits.
    normalise
        Divide by their sum rows that rounding explains, or always, as for scores.
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
    ask
        Ask for the labels of about this share of the predictions, more at first: these lines say
        "ask": "random" or "ask": "margin".
    format
        JSON lines, or an Avro object container file in and one out.
    validation
        A file as replay takes it, with validation rows to fit; only for a new state.
    rows
        Kind of rows: dense, a probability for each class; multilabel, a score for each of several
        labels; or sparse, the likeliest of very many classes.
    train_rows
        With --rows multilabel, how many training rows there were, for --train-counts.
    max_classes
        With --rows sparse, how many classes there may be; 1,000,000 if not given. --classes is any,
        so where not given, or their number.
    memory_mb
        With --rows sparse, the most that classes may take, in MiB; 1024 if not given.
    config
        TOML file of these options: classes = ["cat", "dog"]; those that are typed win, then the
        environment (STREAM_CAN_CLASSES).
    """
    from stream_can.messages.fields import fields_of
    from stream_can.pipe.run import pipe

    with argument_errors():
        kind = row_kind(rows)
        names: Any = classes_of(classes, declared=kind.declares_classes)
        refuse_few_classes(kind, names, ways=WAYS)
        of_rows = {"train_rows": train_rows, "max_classes": max_classes, "memory_mb": memory_mb}
        settings = corrector.settings() | {k: v for k, v in of_rows.items() if v is not None}
        fields = fields_of(
            rows,
            probs=probs,
            raw=raw,
            label=label,
            id=id,
            digits=digits,
            normalise=normalise,
            model=model,
            version=version,
        )
    held = None
    if validation is not None:
        held = Recording(
            validation,
            probs=fields.probs,
            label=fields.label,
            classes=names,
            normalise=normalise,
            segments=corrector.columns,
        ).labelled_with_segments()
    return pipe(
        names,
        fields=fields,
        labelled=labelled,
        state=state,
        save_every=save_every,
        skip=skip,
        dead_letters=dead_letters,
        errors=errors,
        recent_mb=recent_mb,
        ask=ask,
        format=format,
        validation=held,
        rows=rows,
        **settings,
    )
