"""``stream-can pipe``: JSON lines or Avro records from standard input to standard output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from stream_can.app.settings import SettingsError
from stream_can.cli.arguments import Whole, argument_errors
from stream_can.cli.options import NO_OPTIONS, CorrectorOptions
from stream_can.method.costs import costs_of_text
from stream_can.method.rows import Normalise
from stream_can.recording.names import WAYS, classes_of
from stream_can.recording.recording import Recording
from stream_can.row_kinds import refuse_few_classes, row_kind


def pipe_command(
    file: Annotated[Path | None, Parameter(show=False)] = None,
    *,
    classes: str | None = None,
    probs: str | None = None,
    raw: str | None = None,
    label: str | None = None,
    id: str = "id",
    model: str | None = None,
    version: str | None = None,
    weight: str | None = None,
    digits: Whole | None = None,
    costs: Annotated[list[str] | None, Parameter(negative="")] = None,
    normalise: Normalise = "rounded",
    logits: Annotated[bool, Parameter(negative="")] = False,
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

    A line with probabilities comes out corrected. A line with a label and no probabilities is
    learned. Example: tail -f predictions.jsonl | stream-can pipe --classes cat,dog --state s.bin

    Parameters
    ----------
    classes
        Names of the classes in the order of the probabilities: cat,dog,eel, a JSON array, or a file
        of names. Not needed if the state file exists.
    probs
        Field of the probabilities (probs); outer.inner for a nested field.
    raw
        Field to keep the original probabilities in (probs_raw); empty to drop them.
    label
        Field of the label (label).
    id
        Field of the id that joins a label to its prediction.
    model
        Field that names the model, if there are several; each has its own corrector.
    version
        Field that names the version of the model; each has its own corrector.
    weight
        Field of the weight of a label, from 0.01 to 100; a label without it counts once.
    digits
        Number of digits to round the output to.
    costs
        Costs of an action by class, once for each action: block:fraud=0,fine=20, or review=8 where
        it costs the same for every class. Output lines get the cheapest action in "decision".
    normalise
        Which rows to divide by their sum: those off by rounding, or all (always), as for scores.
    logits
        The lines hold logits where probabilities are expected; outputs have probabilities.
    labelled
        Lines carry probabilities and label together; each is corrected before its label is learned.
    state
        File to keep the state in; the next start goes on from it.
    save_every
        Most lines between two saves of the state.
    skip
        Skip the lines that the state has already seen; use it if the input starts at line 1 again.
    dead_letters
        File to append unreadable lines to (standard error).
    errors
        On an unreadable line: write a dead letter, or fail.
    recent_mb
        Memory for predictions that wait for their label, in MiB.
    ask
        Share of the predictions whose labels to request, such as 0.05; more at first. Their lines
        get "ask": "random" or "ask": "margin".
    format
        Format of input and output: JSON lines, or one Avro object container file.
    validation
        Recording (see replay) of validation rows to fit first; only for a new state.
    rows
        Kind of rows: dense, a probability per class; multilabel, a score per label, where a row may
        have several; sparse, only the likeliest of thousands of classes.
    train_rows
        With --rows multilabel: number of training rows behind --train-counts.
    max_classes
        With --rows sparse: most classes to keep, by name (1,000,000). If classes are numbers, give
        their count as --classes instead.
    memory_mb
        With --rows sparse: most memory for classes, in MiB (1024).
    config
        TOML file of these options: classes = ["cat", "dog"]. The command line overrides environment
        variables (STREAM_CAN_CLASSES), and these override the file.
    """
    from stream_can.messages.fields import fields_of
    from stream_can.pipe.run import pipe

    if file is not None:
        raise SettingsError(f"pipe reads standard input: stream-can pipe ... < {file}")
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
            costs=None if costs is None else costs_of_text(costs),
            normalise=normalise,
            logits=logits,
            model=model,
            version=version,
            weight=weight,
        )
    held = None
    if validation is not None:
        held = Recording(
            validation,
            probs=fields.probs,
            label=fields.label,
            classes=names,
            normalise=normalise,
            logits=logits,
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
