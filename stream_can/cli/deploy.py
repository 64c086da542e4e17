"""Commands that deploy a replayed corrector, with the replay's options."""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stream_can.replay.deployed import Deployed

__all__ = [
    "STATE", "deployment", "free_name", "is_lines", "next_command", "options", "serve_command",
]  # fmt: skip

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
    found = {}
    settings, flags = deployed.settings, deployed.flags
    again = state is None and (fitted or deployed.unwritable)
    if again:
        state = free_name(STATE)
        found["first"] = with_state(command, state)
    kept = state or free_name(STATE)
    fields, changes = dict(fields or {}), list[str]()
    if "," in fields.get("probs", ""):
        changes.append(names_and_numbers(fields.pop("probs")))
    read = options(fields)
    if ask is not None:
        read += options({"ask": ask})
    # A pipe resumes the settings of a state, but makes the sets that it is asked for.
    made = [*flags]
    made += options({**deployed.begins, **settings} if state is None else _sets(settings))
    both = ["--labelled"] if labelled and ask is None else []
    lines = recorded if recorded is not None and is_lines(recorded) else None
    resume = f"stream-can pipe {shlex.join([*made, *read, '--state', str(kept)])}"
    words = shlex.join([*made, *read, *both, "--state", str(kept)])
    source = shlex.quote(str(lines or "lines.jsonl"))
    found["pipe"] = f"stream-can pipe {words} < {source}"
    if numbered is not None and not deployed.unwritable:
        changes.append(named_labels(numbered, deployed.classes))
    if changes:
        found["pipe"] = f"{rewriting(changes)} < {source} | stream-can pipe {words}"
    begins = deployed.serves
    if state is not None and deployed.serves_state:
        begins = {"classes_from_file": state}
    served = [*flags, *options({**begins, **settings}), *read]
    topics = [
        "--bootstrap-servers", "localhost:9092", "--application-id", "corrector",
        "--input", "predictions", "--output", "corrected", "--labels", "labels",
    ]  # fmt: skip
    if deployed.in_topics:
        found["run"] = f"stream-can run {shlex.join([*topics, *served])}"
    found["serve"] = serve_command(served)
    # What a state has learned the recording must not teach again; and a server begins with one
    # corrector, not with those of several models.
    taught = state is not None or (labelled and ask is not None)
    models = not {"model", "version"}.isdisjoint(fields)
    resumes = state is not None and (models or not deployed.serves_state)
    piped = resume if resumes else "" if taught or not lines else found["pipe"]
    found["next"] = next_command(piped, found["serve"], found.get("first"))
    if again and recorded == STDIN:
        found["next"] = f"save the recording to a file, and replay that with --state {state}"
    found["python"] = deployed.python(state)
    return found


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
    got = "row" + "".join(f".get({_literal(part)}, {{}})" for part in parts[:-1])
    return f"({change} if (y := {got}.get({_literal(parts[-1])})) is not None else {{}})"


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
    kept = shlex.join(["--state", str(state)])
    return f"{name}{kept} {command.removeprefix(name)}"


def free_name(path: Path) -> Path:
    """The name, or one with the next free number: another state would be refused."""
    names = [path, *(path.with_stem(f"{path.stem}-{n}") for n in range(2, 1000))]
    return next((one for one in names if not one.exists()), path)


def is_lines(recorded: Path) -> bool:
    """Whether the pipe can read a recording."""
    return recorded.suffix in LINES


def _sets(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name == "sets"}


def options(values: Mapping[str, Any]) -> list[str]:
    """{name: value} as command-line words."""
    found = []
    for name, value in values.items():
        many = not isinstance(value, str) and isinstance(value, Sequence)
        text = ",".join(_number(one) for one in value) if many else _number(value)
        if isinstance(value, Mapping):
            text = json.dumps(value, ensure_ascii=False)
        option = f"--{name.replace('_', '-')}"
        found += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return found


def _number(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)
