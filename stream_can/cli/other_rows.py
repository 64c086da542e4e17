"""``stream-can replay`` of rows with several labels or very many classes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from stream_can import snapshot
from stream_can.cli.arguments import argument_errors
from stream_can.cli.deploy import (
    STATE,
    free_name,
    is_lines,
    next_command,
    options,
    serve_command,
)
from stream_can.cli.recorded import RATES, made_from
from stream_can.cli.terminal import print_json, progress_bar, text_console
from stream_can.errors import StreamCANError
from stream_can.replay.steps import check_arrival, check_labels
from stream_can.replay.verdict import Verdict

__all__ = ["OtherRows", "ReplayOptions", "replay_other"]


class OtherRows(NamedTuple):
    """How rows of a sort are replayed and shown."""

    name: str
    options: Sequence[str]
    """Options with which the pipe reads them."""
    settings: Sequence[str]
    """Settings of their corrector."""
    open: Callable[[Path, Mapping[str, str], str | None, dict[str, Any]], tuple[Any, Any]]
    """Opens the recording and creates a corrector, from the file, its fields, ``--classes`` and the
    settings, to which the file's are added."""
    classes: Callable[[Any, str | None], str | None]
    """Value of the pipe's ``--classes``, given a recording and those of the command line."""
    served: Callable[[str | None], Mapping[str, Any]]
    """Settings of a server with this value."""
    play: Callable[..., Any]
    has_rates: bool
    """Whether other label rates are played too."""
    judge: Callable[[Any], Verdict]
    head: Callable[[Any], str]
    """Describes rows, labels and classes of a result."""
    nothing: str
    """Message where no label is known."""
    table: Callable[[Any], Table]
    notes: Callable[[Any], Iterable[str]]
    """Lines under the table."""
    write_report: Callable[[], Callable[..., None]]
    """Imports the writer of the page."""


class ReplayOptions(NamedTuple):
    """How labels arrive, and what is written."""

    label_delay: int | None
    label_rate: float
    seed: int
    state: Path | None
    report: Path | None
    as_json: bool


def replay_other(
    kind: OtherRows,
    file: Path,
    places: Mapping[str, str | None],
    classes: str | None,
    settings: dict[str, Any],
    others: Mapping[str, Any],
    wanted: ReplayOptions,
) -> int:
    """Replay such rows and show the result.

    Parameters
    ----------
    places
        Fields of the file; None where not given.
    settings
        The corrector's settings.
    others
        Options that only dense rows with one label have; None where not given.
    """
    delay, rate, seed, state, report, as_json = wanted
    with argument_errors():
        refused = {**others} | {k: v for k, v in settings.items() if k not in kind.settings}
        for name, value in refused.items():
            if value is not None:
                option = name.replace("_", "-")
                raise StreamCANError(f"--{option}: not of {kind.name}; leave it out")
        given = {name: place for name, place in places.items() if place is not None}
        recording, corrector = kind.open(file, given, classes, settings)
        check_arrival(recording, delay)
        check_labels(delay, rate)
    # Imported before the replay, so that a missing extra is reported at once.
    write_report = None if report is None else kind.write_report()
    if state is not None:
        snapshot.require_replaceable(state)
        state.parent.mkdir(parents=True, exist_ok=True)
    rates = RATES if report is not None and kind.has_rates else ()
    more = {"rates": rates} if kind.has_rates else {}
    with progress_bar("replay", recording.rows * (1 + len({*rates} - {rate}))) as progress:
        result = kind.play(
            recording,
            corrector,
            label_delay=delay,
            label_rate=rate,
            seed=seed,
            progress=progress,
            **more,
        )
    if state is not None:
        snapshot.save(corrector.to_bytes(), state)
    deploy = _deployment(kind, recording, kind.classes(recording, classes), settings, given, state)
    if write_report is not None and report is not None:
        name = Path(recording.name).name
        write_report(result, name, report, made_from=made_from(recording), pipe=deploy["next"])
    if as_json:
        text = kind.judge(result).text
        print_json(result.to_dict() | {"verdict": text, "deploy": deploy})
    else:
        _show(kind, result, rate, deploy["next"])
    return 0


def _deployment(
    kind: OtherRows,
    recording: Any,
    classes: str | None,
    settings: Mapping[str, Any],
    places: Mapping[str, str],
    state: Path | None,
) -> dict[str, str]:
    """Commands for the pipe and a server, and which of them is next."""
    file = Path(recording.name)
    given: list[str] = []
    labelled: list[str] = []
    if is_lines(file):
        said = {name: place for name, place in places.items() if "time" not in name}
        if said.get("id") == "id":
            del said["id"]
        given = options(said)
        labelled = [] if recording.labels_apart else ["--labelled"]
    begins = [*kind.options]
    if state is None:
        begins += options({"classes": classes} if classes else {}) + options(settings)
    kept = ["--state", str(state or free_name(STATE))]
    resume = f"stream-can pipe {shlex.join([*begins, *given, *kept])}"
    pipe = f"stream-can pipe {shlex.join([*begins, *given, *labelled, *kept])}"
    from_file = f"{pipe} < {shlex.quote(str(file) if is_lines(file) else 'lines.jsonl')}"
    serve = serve_command([*kind.options, *options({**kind.served(classes), **settings})])
    # A server begins with no state of such rows; and what a state has learned the recording must
    # not teach again.
    following = resume if state is not None else from_file if is_lines(file) else ""
    return {"pipe": from_file, "serve": serve, "next": next_command(following, serve)}


def _show(kind: OtherRows, result: Any, label_rate: float, command: str) -> None:
    console = text_console()
    console.print(
        kind.head(result)
        + (f" (label rate {label_rate:g})" if label_rate < 1 else "")
        + f"; {result.rows / max(result.seconds, 1e-9):,.0f} rows/s"
    )
    if not result.raw.n:
        console.print(kind.nothing)
        return
    found = kind.judge(result)
    console.print()
    console.print(found.use, style="bold")
    if found.gains:
        console.print(found.gains)
    # Not wrapped, so that the command can be copied.
    console.print(
        f"Next: {command}" if found.deploy else "Next: nothing to deploy here.", soft_wrap=True
    )
    console.print()
    console.print(kind.table(result))
    for line in kind.notes(result):
        console.print(line)
    if found.why:
        console.print()
    for one in found.why:
        console.print(f"- {one}")
