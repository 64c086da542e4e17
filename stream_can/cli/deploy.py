"""Commands that deploy a replayed corrector, with the replay's options."""

from __future__ import annotations

import importlib.util
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "STATE", "deployment", "free_name", "is_lines", "next_command", "options", "serve_command",
    "written_names",
]  # fmt: skip

LONG = 200
"""Maximum length of class names in a command."""
STATE, SERVED, STDIN = Path("corrector.state"), Path("stream_can.sqlite"), Path("-")
"""Where a pipe and a server keep what they learn, if nobody says; standard input."""
LINES = (".jsonl", ".ndjson")


def deployment(
    classes: Sequence[Any],
    settings: Mapping[str, Any],
    *,
    state: Path | None = None,
    fitted: bool = False,
    fields: Mapping[str, Any] | None = None,
    ask: float | None = None,
    recorded: Path | None = None,
    labelled: bool = False,
    command: str = "stream-can replay ...",
) -> dict[str, str]:
    """Commands for the pipe, a server and a Kafka worker, and Python code.

    Parameters
    ----------
    classes, settings
        Arguments of the corrector.
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
    command
        That of the replay.

    Returns
    -------
    Under "pipe", "serve", "run" and "python"; under "first" the command that must run before, if
    any; under "next" the first of them that runs as things are, with that command before it, or
    what to do where none does.
    """
    found = {}
    names = written_names(classes)
    again = state is None and (fitted or len(names) > LONG or not printable(classes))
    if again:
        state = free_name(STATE)
        found["first"] = with_state(command, state)
    kept = state or free_name(STATE)
    read = options(fields or {})
    if ask is not None:
        read += options({"ask": ask})
    # A pipe resumes the settings of a state, but makes the sets that it is asked for.
    made = options({"classes": names, **settings} if state is None else _sets(settings))
    both = ["--labelled"] if labelled and ask is None else []
    lines = recorded if recorded is not None and is_lines(recorded) else None
    resume = f"stream-can pipe {shlex.join([*made, *read, '--state', str(kept)])}"
    words = shlex.join([*made, *read, *both, "--state", str(kept)])
    found["pipe"] = f"stream-can pipe {words} < {shlex.quote(str(lines or 'lines.jsonl'))}"
    begins = {"classes": names} if state is None else {"classes_from_file": state}
    served = [*options({**begins, **settings}), *read]
    topics = [
        "--bootstrap-servers", "localhost:9092", "--application-id", "corrector",
        "--input", "predictions", "--output", "corrected", "--labels", "labels",
    ]  # fmt: skip
    found["run"] = f"stream-can run {shlex.join([*topics, *served])}"
    found["serve"] = serve_command(served)
    # What a state has learned the recording must not teach again; and a server begins with one
    # corrector, not with those of several models.
    taught = state is not None or (labelled and ask is not None)
    models = not {"model", "version"}.isdisjoint(fields or {})
    piped = resume if state is not None and models else "" if taught or not lines else found["pipe"]
    found["next"] = next_command(piped, found["serve"], found.get("first"))
    if again and recorded == STDIN:
        found["next"] = f"save the recording to a file, and replay that with --state {state}"
    found["python"] = _python(classes, settings, state)
    return found


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


def printable(classes: Sequence[Any]) -> bool:
    """Whether names survive a terminal, as tabs and ends of lines do not."""
    return all(str(name).isprintable() for name in classes)


def is_lines(recorded: Path) -> bool:
    """Whether the pipe can read a recording."""
    return recorded.suffix in LINES


def _sets(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name == "sets"}


def written_names(classes: Sequence[Any]) -> str:
    """Class names as ``--classes`` parses them."""
    plain = all(isinstance(name, str) and name == name.strip() != "" for name in classes)
    if plain and not any("," in name or name.startswith("[") for name in classes):
        return ",".join(classes)
    return json.dumps(list(classes), ensure_ascii=False)


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


def _python(classes: Sequence[Any], settings: Mapping[str, Any], state: Path | None) -> str:
    lines = ["from stream_can import Corrector"]
    if state is not None:
        lines.insert(0, "from pathlib import Path")
        made = f"Corrector.from_bytes(Path({str(state)!r}).read_bytes())"
    else:
        given = "".join(f", {name}={_literal(value)}" for name, value in settings.items())
        made = f"Corrector({list(classes)!r}{given})"
    columns = settings.get("segments", ())
    more = "".join(f"{name!r}: record[{name!r}], " for name in columns)
    with_columns = f", segments={{{more[:-2]}}}" if columns else ""
    lines += [
        f"corrector = {made}",
        f"better, receipt = corrector.process_one(p, receipt=True{with_columns})",
        f"corrector.learn_one(p, label, receipt=receipt{with_columns})  # as late as it comes",
        "state = corrector.to_bytes()  # keep it: Corrector.from_bytes(state) goes on",
    ]
    return "\n".join(lines)


def _literal(value: Any) -> str:
    return f'float("{value}")' if isinstance(value, float) and math.isinf(value) else repr(value)
