"""What pages show of the code stands in them, so that they are whole wherever they are read.

    python docs/fill.py    # after a change of options, settings, examples or docstrings

Between ``<!-- KIND NAME -->`` and ``<!-- end -->`` a page has what this script makes: the source of
an example, the help of a command, a table of settings, the public names of a module. A test fails
where it is old. The site (``conf.py``) shows whole docstrings in place of the names.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

with warnings.catch_warnings():  # kafka-python 3.0.12 reads its schemas with importlib's old call
    warnings.simplefilter("ignore", DeprecationWarning)
    from stream_can.kafka import Settings, options
    from stream_can.kafka.identity import IDENTITY
    from stream_can.method.settings import SETTINGS
    from stream_can.method.settings_help import about
    from stream_can.row_kinds import KINDS, row_kind
    from stream_can.serve import options as serve_options


class NotInstalled(types.ModuleType):
    """A module of which every name is an empty class."""

    __path__ = ()

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


PYSPARK = [f"pyspark{name}" for name in ("", ".ml", ".ml.functions", ".ml.linalg", ".sql")]
PYSPARK += [f"pyspark.sql.{name}" for name in ("functions", "streaming", "types")]
sys.modules |= {name: NotInstalled(name) for name in PYSPARK}  # 450 MB, for four docstrings
importlib.import_module("stream_can.spark")
for name in PYSPARK:
    del sys.modules[name]

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"^<!-- (program|help|settings|names|cells) (.+) -->\n(?:(?!<!--).*\n)*?<!-- end -->$", re.M
)
"""A comment that asks for something, and what stands there: its kind and its name."""


def filled(text: str) -> str:
    """A page with what its comments ask for."""
    return BLOCK.sub(
        lambda m: f"<!-- {m[1]} {m[2]} -->\n{MADE[m[1]](m[2]).strip()}\n<!-- end -->", text
    )


def program(name: str) -> str:
    """The source of an example."""
    return f"```{'python' if name.endswith('.py') else 'sh'}\n{(ROOT / name).read_text()}```"


def command_help(command: str) -> str:
    """What ``stream-can COMMAND --help`` says."""
    env = os.environ | {"COLUMNS": "90", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [sys.executable, "-m", "stream_can", command, "--help"],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"


def settings(of: str) -> str:
    """Every setting of ``stream-can run``, ``serve`` or a corrector."""
    if of == "of run":
        return settings_of_run()
    if of == "of a corrector":
        found = [(name, about(name)) for name in SETTINGS]
    else:
        found = [(option.name, option.help) for option in serve_options()]
    rows = [f"| `{name}` | {text} |" for name, text in found]
    return "\n".join(["| setting | what it says |", "|---|---|", *rows])


FIRST = (
    "bootstrap_servers", "application_id", "input", "output", "labels", "classes", "train_counts",
    "id", "label", "learn", "correct", "http_port",
)  # fmt: skip
"""Settings that matter first."""
FORGETS = {
    *IDENTITY, "classes", "classes_from_file", "train_counts", "segments", "paths", "monotone",
    "max_classes", "n_classes",
}  # fmt: skip
"""Settings that an application keeps, unless it starts over."""
OTHERS = {"application_id", "state_topic", "sent_topic"}
"""Settings of which another value is another application."""


def settings_of_run() -> str:
    """Every setting of ``stream-can run``: type, default, and whether it may change."""
    helps = {one.name: one.help for one in options()}
    hints = get_type_hints(Settings)
    defaults = {one.name: one.default for one in msgspec.structs.fields(Settings)}
    rows = [
        "| setting | type | default | may change | what it says |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name in (*FIRST, *(name for name in helps if name not in FIRST)):
        default = defaults[name]
        shown = "" if default in (None, "", {}, msgspec.NODEFAULT) else f"`{_toml(default)}`"
        may = "no: `--reset`" if name in FORGETS else "yes"
        may = "no: another application" if name in OTHERS else may
        says = helps[name].removesuffix(f" ({'yes' if default is True else default})")
        rows.append(f"| `{name}` | {_kind(hints[name])} | {shown} | {may} | {says} |")
    return "\n".join(rows)


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else msgspec.json.encode(value).decode()


def _kind(hint: Any) -> str:
    """A type in TOML's words."""
    found = [one for one in get_args(hint) or (hint,) if one is not type(None)]
    if get_origin(hint) is Literal:
        return "text"
    words = {str: "text", int: "integer", float: "number", bool: "true, false"}
    origin = get_origin(hint)
    if origin in (list, dict):
        return "list" if origin is list else "table"
    several = [_kind(one) if get_args(one) else words.get(one, "table") for one in found]
    return " or ".join(dict.fromkeys(several))


FEATURES = {
    "label requests": ("ask", "pipe replay server topics"),
    "models and versions": ("model", "pipe replay server topics"),
    "segments": ("segments", "pipe replay server topics river sklearn spark"),
    "prediction sets": ("sets", "pipe replay server topics river sklearn spark"),
    "sets by group": ("sets_by", "pipe replay server topics river sklearn spark"),
    "scores that do not sum to 1": ("normalise always", "pipe replay server topics"),
    "logits": ("logits", "pipe replay server topics"),
    "validation rows": ("validation", "pipe replay"),
    "rivals": ("against", "replay"),
    "corrected rows in a file": ("output", "replay"),
    "a snapshot to begin with": ("classes_from_file", "server topics"),
    "Avro": ("format avro", "pipe topics"),
    "Protobuf": ("format protobuf", "topics"),
    "JSON Schema": ("format json-schema", "topics"),
}
"""What pages call a setting or option that not all kinds of rows have, its name in
`stream_can.row_kinds.RowKind.has`, and the places that there are for it."""
PLACES = {
    "pipe": "pipe", "replay": "replay", "server": "serve", "topics": "between topics",
    "river": "river", "sklearn": "scikit-learn", "spark": "Spark (`correct`)",
}  # fmt: skip


def cells(of: str) -> str:
    """Which kinds of rows have what, by place."""
    kinds = [row_kind(name) for name in KINDS]
    lines = [f"| {of} | {' | '.join(PLACES.values())} |", "|---" * (len(PLACES) + 1) + "|"]
    for feature, (name, places) in {"": ("", " ".join(PLACES)), **FEATURES}.items():
        found = []
        for place in PLACES:
            some = [
                one.name for one in kinds
                if place in one.has and (name in one.has[place] or name in ("", "ask"))
            ]  # fmt: skip
            found.append(", ".join(some) if place in places.split() else "")
        lines.append(f"| {feature or 'rows'} | {' | '.join(found)} |")
    return "\n".join(lines)


def names(module_name: str) -> str:
    """The public names of a module, each with its first sentence; of classes the members too."""
    module = importlib.import_module(module_name)
    rows = []
    for name in public_names(module):
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or callable(thing)):
            continue
        rows.append(f"| `{name}{arguments(thing)}` | {sentence(thing)} |")
        if inspect.isclass(thing) and not is_typeddict(thing):
            rows += [f"| {one} | {said} |" for one, said in members(thing)]
    return "\n".join([f"| `{module_name}` | |", "|---|---|", *rows])


def parts_of(thing: type) -> list[type]:
    """The classes of its room that a class alone is made of: its bases that are not public."""
    room = thing.__module__.rpartition(".")[0]
    public = vars(importlib.import_module(room)).get("__all__", ()) if room else ()
    return [
        base
        for base in thing.__mro__[1:]
        if base.__module__.rpartition(".")[0] == room and base.__name__ not in public
    ]


def members(thing: type) -> list[tuple[str, str]]:
    """Public methods and properties of a class of ours, and of those in its room that it alone is
    made of, as they stand there."""
    found = []
    for name, member in [pair for part in (thing, *parts_of(thing)) for pair in vars(part).items()]:
        if name.startswith("_") or not inspect.getdoc(getattr(thing, name, None)):
            continue
        if isinstance(member, property):
            found.append((f"`.{name}`", sentence(member)))
        elif inspect.isroutine(member):
            found.append((f"`.{name}{arguments(getattr(thing, name))}`", sentence(member)))
    return found


def arguments(thing: Any) -> str:
    """The names of what a call takes."""
    if inspect.isclass(thing) and "__init__" not in vars(thing):
        return ""
    try:
        found = inspect.signature(thing).parameters.values()
    except ValueError:
        return "(...)"
    said = [one for one in found if one.name != "self"]
    text = []
    for at, one in enumerate(said):
        if one.kind is one.KEYWORD_ONLY and not any(
            other.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL) for other in said[:at]
        ):
            text.append("*")
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        text.append(f"{star}{one.name}{'=...' if one.default is not one.empty else ''}")
    return f"({', '.join(text)})"


def sentence(thing: Any) -> str:
    """The first sentence of a docstring, without its roles."""
    text = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
    text = re.sub(r":\w+:`~?([^`]*)`", lambda m: f"`{m[1].rpartition('.')[2]}`", text)
    return text.replace("``", "`").replace("|", "\\|")


def public_names(module: Any) -> list[str]:
    """``__all__``, or what a module without one defines itself."""
    own = [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module.__name__
    ]
    return sorted(getattr(module, "__all__", own))


MADE = {
    "program": program, "help": command_help, "settings": settings, "names": names, "cells": cells,
}  # fmt: skip


def main() -> None:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        if (new := filled(text)) != text:
            page.write_text(new)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
