"""``stream-can replay``: would it help my stream?"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from stream_can import snapshot
from stream_can.app.settings import SettingsError
from stream_can.cli.arguments import (
    COMMAND_LINE,
    Whole,
    argument_errors,
    as_option,
    refuse_to_overwrite,
)
from stream_can.cli.deploy import deployment, is_lines
from stream_can.cli.options import NO_OPTIONS, CorrectorOptions
from stream_can.cli.replayed import show_replay
from stream_can.cli.terminal import print_json, progress_bar
from stream_can.corrector import Corrector
from stream_can.method.costs import Costs, costs_of_text
from stream_can.method.rows import Normalise
from stream_can.recording.names import listed
from stream_can.replay.asking import asking_for
from stream_can.replay.noise_variants import noise_table
from stream_can.replay.noise_variants import try_label_noise as play_noise
from stream_can.replay.player import Player
from stream_can.replay.run import is_fitted, number_of_replays, replay
from stream_can.replay.segment_variants import segments_table
from stream_can.replay.segment_variants import try_segments as play_tries
from stream_can.replay.shown import verdict
from stream_can.replay.step import Step
from stream_can.replay.steps import check_arrival, check_labels
from stream_can.replay.variant_table import VariantTable
from stream_can.row_kinds import part, refuse_others, row_kind

INTERRUPTED = 130
"""Exit code after Ctrl-C."""
RATES = (0.01, 0.05, 0.2, 1.0)
"""Label rates in a report's figure of the effect of labels."""


def replay_command(
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    *,
    probs: str | None = None,
    label: str | None = None,
    label_delay: Whole | None = None,
    time: str | None = None,
    label_time: str | None = None,
    label_rate: float = 1.0,
    ask: float | None = None,
    seed: Whole = 0,
    id: str | None = None,
    model: str | None = None,
    version: str | None = None,
    weight: str | None = None,
    classes: str | None = None,
    normalise: Normalise = "rounded",
    logits: Annotated[bool, Parameter(negative="")] = False,
    costs: Annotated[list[str] | None, Parameter(negative="")] = None,
    validation: Path | None = None,
    rows: str = "dense",
    train_rows: float | None = None,
    max_classes: Whole | None = None,
    memory_mb: float | None = None,
    config: Path | None = None,
    corrector: CorrectorOptions = NO_OPTIONS,
    try_segments: str | None = None,
    try_label_noise: str | None = None,
    against: str | None = None,
    state: Path | None = None,
    output: Path | None = None,
    report: Path | None = None,
    verbose: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Would it help my stream? Replay recorded predictions and labels, and compare the scores.

    Labels arrive --label-delay rows after their prediction, or at their own times (--time and
    --label-time). Rows with an empty label never get one.

    Parameters
    ----------
    file
        Recorded predictions, in the order they were made: .csv, .tsv, .jsonl, .json, .parquet,
        .feather, .avro, .npz or .npy, also compressed (.gz); - for standard input.
    probs
        Column of the probabilities (probs; scores for multilabel): a list in the order of the
        classes, an object {class: probability}, a list of label and score, or one number for two
        classes. For one column per class, give what their names begin with: probs for probs_cat and
        probs_dog; or a pattern, where a star stands for the class: P(*).
    label
        Column of the labels (label; labels for multilabel, or the columns whose names begin so).
        For .npy, the file of the labels.
    label_delay
        Number of rows between a prediction and the arrival of its label.
    time
        Column of the time of each prediction: numbers, or ISO 8601 dates.
    label_time
        Column of the time at which each label arrived.
    label_rate
        Share of the labels that ever arrive.
    ask
        Share of the rows whose labels to request, such as 0.05; more at first. Half are drawn at
        random, half where the two likeliest classes are close. No other label arrives. Only rows
        with a label can answer; if few have one, a larger share of these is requested.
    seed
        Seed of the draw of labels that arrive (--label-rate) or are requested (--ask).
    id
        In JSON lines, field of the id that joins a label on its own line to its prediction (id).
    model
        Column that names the model, if there are several; each has its own corrector.
    version
        Column that names the version of the model; a new version begins with the corrector
        of the version before, without its fit.
    weight
        Column of the weight of each label, from 0.01 to 100: how many labels it counts as. For
        labels chosen with known probabilities, the smallest of these / that of the row.
    classes
        Names of the classes in the order of the probabilities: cat,dog,eel, a JSON array, or a file
        of names.
    normalise
        Which rows to divide by their sum: those off by rounding, or all (always), as for scores.
    logits
        The columns hold logits: their softmax is corrected, or the logistic function of each
        multilabel score.
    costs
        Costs of an action by class, once for each action: block:fraud=0,fine=20, or review=8 where
        it costs the same for every class. Shows what the cheapest actions cost, before and after.
    validation
        Recording of validation rows, in the form of FILE; they are fitted before the replay.
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
    try_segments
        Segments to try: carrier,origin. Replays with each alone, with all, and with none, to show
        which are worth declaring (--segments).
    try_label_noise
        Shares of wrong labels to try: 0.05,0.2. Replays with each as --label-noise, for comparison.
    against
        Other methods to replay on the same rows and labels, for comparison: default; all, with the
        slow ones; or names: temperature,isotonic,ops. Most are fitted to --validation; without it,
        default and all leave them out. Ctrl-C shows those that are ready.
    state
        File to save the state in, for a deployment to start from.
    output
        File to write the corrected rows to, one per row of FILE: .csv, .tsv, .jsonl or .npy. With
        --costs each has its decision too, except in .npy.
    report
        File to write a page of figures to (HTML).
    verbose
        Also show the scores of each path alone, and commands for Kafka, HTTP and Python.
    as_json
        Print JSON.
    """
    refuse_to_overwrite(
        [file, validation], {"--state": state, "--output": output, "--report": report}
    )
    with argument_errors():
        kind = row_kind(rows)
    shown = part(kind.name, "replay")
    kind_settings = {"max_classes": max_classes, "memory_mb": memory_mb, "train_rows": train_rows}
    settings = corrector.settings() | {k: v for k, v in kind_settings.items() if v is not None}
    model_fields = {"model": model, "version": version}
    models = [name for name in model_fields.values() if name is not None]
    tried_columns = [] if try_segments is None else listed(try_segments)
    noise_shares = [] if try_label_noise is None else listed(try_label_noise)
    with argument_errors():
        only_some = {
            "model": model, "version": version, "validation": validation,
            "try_segments": try_segments, "try_label_noise": try_label_noise, "against": against,
            "output": output, "costs": costs, "weight": weight, "logits": logits,
            "normalise always": normalise == "always",
        }  # fmt: skip
        refuse_others(kind, "replay", only_some | settings, as_option)
        for option, option_value in (("--ask", ask), ("--try-segments", tried_columns or None),
                              ("--try-label-noise", noise_shares or None)):  # fmt: skip
            if models and option_value is not None:
                raise SettingsError(f"{option} plays one model; leave --model and --version out")
        if tried_columns and (corrector.columns or ask is not None):
            other = "--segments" if corrector.columns else "--ask"
            raise SettingsError(f"--try-segments plays with and without columns; leave {other} out")
        if noise_shares and ask is not None:
            raise SettingsError(
                "--try-label-noise compares what the same labels teach, and --ask would ask for"
                " others each time; leave --ask out"
            )
        if against is not None and ask is not None:
            raise SettingsError(
                "--against plays rivals with the labels that arrive, and --ask would ask for those"
                " that stream_can wants; leave --ask out"
            )
        if against is not None and weight is not None:
            raise SettingsError(
                "--against plays rivals that count each label once; leave it or --weight out"
            )
        if ask is not None and label_rate != 1:
            raise SettingsError("--ask and --label-rate both say which labels arrive; give one")
        places = {
            name: field
            for name, field in (("probs", probs), ("label", label), ("id", id))
            if field is not None
        }
        if id is not None and not is_lines(file):
            said = "--id is for JSON lines; each row of this file has its label"
            print(f"stream-can: {said}", file=sys.stderr)
        columns = [*(corrector.columns or tried_columns)]
        row_options = {"normalise": normalise, "logits": logits, "segments": columns}
        column_options = {"segments": [*columns, *models], "time": time, "label_time": label_time}
        column_options |= {} if weight is None else {"weight": weight}
        recording = shown.open_recording(file, classes, places, row_options | column_options)
        if label_rate == 0 and ask is None and label_delay is None and not recording.has_times:
            label_delay = 0  # no label comes
        check_arrival(recording, label_delay)
        check_labels(label_delay, label_rate)
        asks = None if ask is None else asking_for(recording, ask)
        validation_rows = validation_recording = None
        if validation is not None:
            same = classes or json.dumps(recording.classes)
            validation_recording = shown.open_recording(validation, same, places, row_options)
            validation_rows = validation_recording.labelled_with_segments()

        def make(columns: Sequence[str], **overrides: float) -> Any:
            all_settings = settings | ({"segments": columns} if columns else {}) | overrides
            new_corrector = shown.new_corrector(recording, classes, all_settings)
            if validation_rows is not None:
                new_corrector.fit(
                    validation_rows.P,
                    validation_rows.y,
                    segments=validation_rows.segments
                    and {name: validation_rows.segments[name] for name in columns},
                )
            return new_corrector

        start = make(corrector.columns)
        by_action = costs_of_text(costs) if costs else None
        action_costs = None if by_action is None else Costs(recording.classes, by_action)
        noises: Sequence[float] = ()
        if noise_shares:
            own_noise = float(start.settings["label_noise"])
            noises = sorted({own_noise, *(_share(s, recording.classes) for s in noise_shares)})
        rivals = []
        if against is not None:
            from stream_can.compare.against import (
                Against,
                against_table,
                better_rival,
                other_rivals,
                play_against,
            )

            names = against if against in ("default", "all") else listed(against)
            m = len(recording.classes)
            rivals = other_rivals(names, fitted=validation is not None, classes=m)
    if report is not None:
        # Imported before the replay, so that a missing extra is reported at once.
        from stream_can.report.page import write_report
    corrected = None if output is None else shown.corrected_file(output, recording, start)
    if corrected is not None:
        corrected.costs = action_costs

    def write(step: Step) -> None:
        if corrected is not None:
            corrected.write_rows(step.corrected, step.sets)

    if state is not None:
        snapshot.require_replaceable(state)
        state.parent.mkdir(parents=True, exist_ok=True)
    code, rates = 0, () if report is None else RATES
    replays = number_of_replays(
        rates, label_rate=label_rate, ask=asks, models=bool(models), fitted=is_fitted(start)
    )
    replays += len(tried_columns) + (len(tried_columns) > 1) + len(noises) + len(rivals)
    with (
        progress_bar("replay", recording.rows * replays) as progress,
        corrected or nullcontext(),
    ):
        result = replay(
            recording,
            start,
            label_delay=label_delay,
            label_rate=label_rate,
            seed=seed,
            ask=asks,
            rates=rates,
            progress=progress,
            model=model,
            version=version,
            costs=action_costs,
            each=write,
        )
        player = Player(
            recording, label_delay=label_delay, label_rate=label_rate, seed=seed, progress=progress
        )
        variant_tables: dict[str, VariantTable] = {}
        if tried_columns:
            variant_tables["try_segments"] = segments_table(
                play_tries(player, make, result), result.raw.n
            )
        if noises:
            noise = play_noise(
                player,
                lambda share: make(corrector.columns, label_noise=share),
                [*noises],
                own_noise,
            )
            variant_tables["try_label_noise"] = noise_table(noise, result.raw.n)
        if rivals:
            comparisons: list[Against] = []
            try:
                for comparison in play_against(player, rivals, result, validation_recording):
                    comparisons.append(comparison)
            except KeyboardInterrupt:
                print(
                    f"stream-can: interrupted; {len(comparisons)} of {len(rivals)} rivals are"
                    " ready",
                    file=sys.stderr,
                )
                code = INTERRUPTED
            table = against_table(comparisons)
            result.better_rival = better_rival(comparisons)
            if report is not None:
                from stream_can.compare.figures import against_figures

                table = table._replace(figures=against_figures(result, comparisons))
            variant_tables["against"] = table
    if state is not None:
        learner_or_corrector = result.learner if models else result.corrector
        snapshot.save(learner_or_corrector.to_bytes(), state)
    fields: dict[str, Any] = {} if normalise == "rounded" else {"normalise": normalise}
    if is_lines(file):
        line_fields = places
        if not kind.several_labels:
            line_fields = places | {"probs": recording.probs, "label": recording.label}
        fields |= {name: field for name, field in line_fields.items() if field != name}
    fields |= {name: field for name, field in model_fields.items() if field is not None}
    if logits:
        fields["logits"] = True
    if by_action is not None:
        fields["costs"] = by_action
    deploy = deployment(
        shown.deployed(recording, classes, settings),
        state=state,
        fitted=validation is not None,
        fields=fields,
        ask=ask,
        recorded=file,
        labelled=is_lines(file) and not recording.labels_apart,
        numbered=recording.label if recording.labels_are_positions else None,
        command=COMMAND_LINE.get(),
    )
    if report is not None:
        name = Path(recording.name).name
        write_report(
            result,
            name,
            report,
            besides=variant_tables.values(),
            made_from={
                "file": f"{recording.name} ({recording.size:,} bytes)",
                "command": COMMAND_LINE.get(),
            },
            deploy=deploy,
        )
    if as_json:
        tables_as_json = {name: table.to_dict() for name, table in variant_tables.items()}
        print_json(
            result.to_dict() | {"verdict": verdict(result), "deploy": deploy} | tables_as_json
        )
    else:
        show_replay(result, label_rate, variant_tables.values(), deploy=deploy, verbose=verbose)
    return code


def _share(text: str, classes: Sequence[Any]) -> float:
    """Parse a value of --try-label-noise."""
    try:
        value = float(text)
    except ValueError:
        raise SettingsError(f"--try-label-noise: {text[:80]!r} is no number") from None
    Corrector(classes, label_noise=value)  # raises where out of range
    return value
