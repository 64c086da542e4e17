"""Commands that deploy a replayed corrector, with the replay's options."""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stream_can.method.settings import PROMISE
from stream_can.replay.deployed import Deployed

STATE, SERVED, STDIN = Path("corrector.state"), Path("stream_can.sqlite"), Path("-")
"""Where a pipe and a server keep what they learn, if nobody says; standard input."""
LINES = (".jsonl", ".ndjson")


def deployment(
    deployed: Deployed,
    *,
    state: Path | None = None,
    fitted: bool = False,
    fields: Mapping[str, Any] | None = None,
    ask: float | None = None,
    recorded: Path | None = None,
    labelled: bool = False,
    numbered: str | None = None,
    command: str = "stream-can replay ...",
) -> dict[str, str]:
    """Commands for the pipe, a server and a Kafka worker, and Python code.

    Parameters
    ----------
    deployed
        The corrector.
    state
        The file of ``--state``: they then start with what the replay learned.
    fitted
        Whether validation rows were fitted; only a state contains that.
    fields
        Options for reading a line: {"label": "truth"}.
    ask
        Share of the labels to request.
    recorded
        The recording; the pipe can read it where it is JSON lines.
    labelled
        Whether its lines carry their labels.
    numbered
        Field of the labels, where they are numbers of classes that have names, which lines for a
        pipe must not be.
    command
        That of the replay.

    Returns
    -------
    Under "pipe", "serve", "run" (where topics hold such rows) and "python"; under "first" the
    command that must run before, if any; under "next" the first of them that runs as things are,
    with that command before it, or what to do where none does.
    """
    commands = {}
    settings, flags = deployed.settings, deployed.flags
    needs_state = state is None and (fitted or deployed.unwritable)
    if needs_state:
        state = free_name(STATE)
        commands["first"] = with_state(command, state)
    state_file = state or free_name(STATE)
    fields, changes = dict(fields or {}), list[str]()
    if "," in fields.get("probs", ""):
        changes.append(names_and_numbers(fields.pop("probs")))
    field_options = options(fields)
    if ask is not None:
        field_options += options({"ask": ask})
    # A pipe resumes the settings of a state, but makes the sets that it is asked for.
    pipe_options = [*flags]
    pipe_options += options({**deployed.begins, **settings} if state is None else _sets(settings))
    labelled_option = ["--labelled"] if labelled and ask is None else []
    lines = recorded if recorded is not None and is_lines(recorded) else None
    keep = ["--state", str(state_file)]
    resume = f"stream-can pipe {shlex.join([*pipe_options, *field_options, *keep])}"
    words = shlex.join([*pipe_options, *field_options, *labelled_option, *keep])
    source = shlex.quote(str(lines or "lines.jsonl"))
    commands["pipe"] = f"stream-can pipe {words} < {source}"
    if numbered is not None and not deployed.unwritable:
        changes.append(named_labels(numbered, deployed.classes))
    if changes:
        commands["pipe"] = f"{rewriting(changes)} < {source} | stream-can pipe {words}"
    begins = deployed.serves
    if state is not None and deployed.serves_state:
        begins = {"classes_from_file": state}
    serve_options = [*flags, *options({**begins, **settings}), *field_options]
    topics = [
        "--bootstrap-servers", "localhost:9092", "--application-id", "corrector",
        "--input", "predictions", "--output", "corrected", "--labels", "labels",
    ]  # fmt: skip
    if deployed.in_topics:
        commands["run"] = f"stream-can run {shlex.join([*topics, *serve_options])}"
    commands["serve"] = serve_command(serve_options)
    # What a state has learned the recording must not teach again; and a server begins with one
    # corrector, not with those of several models.
    is_learned = state is not None or (labelled and ask is not None)
    models = not {"model", "version"}.isdisjoint(fields)
    resumes = state is not None and (models or not deployed.serves_state)
    piped = resume if resumes else "" if is_learned or not lines else commands["pipe"]
    commands["next"] = next_command(piped, commands["serve"], commands.get("first"))
    if needs_state and recorded == STDIN:
        commands["next"] = f"save the recording to a file, and replay that with --state {state}"
    commands["python"] = deployed.python(state)
    return commands


def rewriting(changes: Sequence[str]) -> str:
    """The command that merges dicts, written in Python, into the ``row`` of each line."""
    row = " | ".join(["row", *changes])
    rows = "for row in map(json.loads, filter(str.strip, sys.stdin))"
    return f"python -c {shlex.quote(f'import json, sys; [print(json.dumps({row})) {rows}]')}"


def names_and_numbers(fields: str) -> str:
    """A dict, written in Python, of two fields of ``row``, names and numbers, as one object."""
    parts = [part.split(".") for part in fields.split(",")]
    pairs = [f"{_literal(part[-1])}: {_item(part)}" for part in parts]
    return f'{{"probs": {{{", ".join(pairs)}}}}}'


def named_labels(field: str, classes: Sequence[Any]) -> str:
    """A dict, written in Python, that gives ``row`` the name of a class for its number."""
    parts, names = field.split("."), ", ".join(map(_literal, classes))
    change = f"[{names}][int(y)]"
    for k in reversed(range(len(parts))):
        outer = f"{_item(parts[:k])} | " if k else ""
        change = f"{outer}{{{_literal(parts[k])}: {change}}}"
    outer_field = "row" + "".join(f".get({_literal(part)}, {{}})" for part in parts[:-1])
    return f"({change} if (y := {outer_field}.get({_literal(parts[-1])})) is not None else {{}})"


def _item(parts: Sequence[str]) -> str:
    return "row" + "".join(f"[{_literal(part)}]" for part in parts)


def _literal(value: Any) -> str:
    """A value in Python, texts in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def next_command(pipe: str, serve: str, first: str | None = None) -> str:
    """The command that goes on from a replay, and runs as it is printed.

    Parameters
    ----------
    pipe
        The command of the pipe; empty where the server goes on.
    serve
        The command of the server. Where its extra is not installed, the line installs it.
    first
        A command that has to run before.
    """
    words = [first] if first else []
    if not pipe and importlib.util.find_spec("uvicorn") is None:
        words.append("pip install 'stream_can[serve]'")
    return " && ".join([*words, pipe or serve])


def serve_command(words: Sequence[str]) -> str:
    """The command of a server with these options, and with a file of its own."""
    state = options({"state": free_name(SERVED)}) if SERVED.exists() else []
    return f"stream-can serve {shlex.join([*words, *state])}"


def with_state(command: str, state: Path) -> str:
    """The command of a replay that keeps what it learned; the option comes before what was typed,
    of which ``--`` may be a part."""
    name = "stream-can replay "
    state_option = shlex.join(["--state", str(state)])
    return f"{name}{state_option} {command.removeprefix(name)}"


def free_name(path: Path) -> Path:
    """The name, or one with the next free number: another state would be refused."""
    names = [path, *(path.with_stem(f"{path.stem}-{n}") for n in range(2, 1000))]
    return next((name for name in names if not name.exists()), path)


def is_lines(recorded: Path) -> bool:
    """Whether the pipe can read a recording."""
    return recorded.suffix in LINES


def _sets(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in PROMISE}


def options(values: Mapping[str, Any]) -> list[str]:
    """{name: value} as command-line words."""
    words = []
    for name, value in values.items():
        is_list = not isinstance(value, str) and isinstance(value, Sequence)
        text = ",".join(_number(entry) for entry in value) if is_list else _number(value)
        if isinstance(value, Mapping):
            text = json.dumps(value, ensure_ascii=False)
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
            continue
        words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return words


def _number(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)
