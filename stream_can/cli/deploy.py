"""Commands that deploy a replayed corrector, with the replay's options."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["deployment", "options", "written_names"]

LONG = 200
"""Maximum length of class names in a command."""
STATE = Path("corrector.state")


def deployment(
    classes: Sequence[Any],
    settings: Mapping[str, Any],
    *,
    state: Path | None = None,
    fitted: bool = False,
    fields: Mapping[str, Any] | None = None,
    ask: float | None = None,
    recorded: str | None = None,
    labelled: bool = False,
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
        The recording, where the pipe can read it.
    labelled
        Whether its lines carry their labels.

    Returns
    -------
    Under "pipe", "serve", "run" and "python"; under "first" what must be done before, if anything;
    under "next" the first of them that runs as things are.
    """
    found = {}
    names = written_names(classes)
    if state is None and (fitted or len(names) > LONG):
        state = STATE
        found["first"] = f"Replay once more with --state {state}, which these begin with."
    kept = state or STATE
    made = [] if state is not None else ["--classes", names]
    made += [] if state is not None else options(settings)
    read = options(fields or {})
    asks = [] if ask is None else ["--ask", f"{ask:g}"]
    if state is not None and "sets" in settings:  # a pipe resumes the sets of a state
        made = options({"sets": settings["sets"]})
    both = ["--labelled"] if labelled and ask is None else []
    words = shlex.join([*made, *read, *asks, *both, "--state", str(kept)])
    found["pipe"] = f"stream-can pipe {words} < {shlex.quote(recorded or 'lines.jsonl')}"
    # Names that a comma-separated list cannot hold are passed in a file.
    from_file = state or (STATE if names.startswith("[") else None)
    worker = [
        "--bootstrap-servers", "localhost:9092", "--application-id", "corrector",
        "--input", "predictions", "--output", "corrected", "--labels", "labels",
        *(["--classes-from-file", str(from_file)] if from_file else ["--classes", names]),
        *options(settings), *read, *asks,
    ]  # fmt: skip
    before = f"# replay with --state {STATE} before\n" if from_file and state is None else ""
    found["run"] = f"{before}stream-can run {shlex.join(worker)}"
    begins = ["--classes-from-file", str(from_file)] if from_file else ["--classes", names]
    found["serve"] = f"stream-can serve {shlex.join([*begins, *options(settings), *read, *asks])}"
    found["next"] = found["serve" if recorded is None else "pipe"]
    found["python"] = _python(classes, settings, state)
    return found


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
        found += [f"--{name.replace('_', '-')}", text]
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
