"""A replayed corrector as commands and code write it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LONG = 200
"""Maximum length of class names in a command."""


@dataclass(frozen=True)
class Deployed:
    """A corrector of a kind of rows.

    Parameters
    ----------
    imports, name
        The line that imports its class, and the class's name.
    classes
        First argument of the class.
    settings
        Its keyword arguments.
    flags
        Options that name the kind of rows.
    begins, serves
        Options with which a pipe and a server begin without a state.
    serves_state
        Whether a server can begin with a corrector's state.
    in_topics
        Whether topics hold such rows.
    """

    imports: str
    name: str
    classes: Any
    settings: Mapping[str, Any]
    flags: Sequence[str] = ()
    begins: Mapping[str, Any] = field(default_factory=dict)
    serves: Mapping[str, Any] = field(default_factory=dict)
    serves_state: bool = False
    in_topics: bool = True

    @property
    def unwritable(self) -> bool:
        """Whether a command cannot name the classes: they are long, or would not survive a
        terminal, as tabs and ends of lines."""
        names = self.begins.get("classes", "")
        every = self.classes if isinstance(self.classes, list | tuple) else ()
        return len(names) > LONG or not all(str(name).isprintable() for name in every)

    def python(self, state: Path | None) -> str:
        """Lines of code that make the corrector, correct a row and learn its label."""
        lines = [self.imports]
        if state is not None:
            lines.insert(0, "from pathlib import Path")
            constructor = f"{self.name}.from_bytes(Path({str(state)!r}).read_bytes())"
        else:
            arguments = "".join(
                f", {name}={_literal(setting)}" for name, setting in self.settings.items()
            )
            constructor = f"{self.name}({self.classes!r}{arguments})"
        columns = self.settings.get("segments", ())
        fields = ", ".join(f"{name!r}: record[{name!r}]" for name in columns)
        with_columns = f", segments={{{fields}}}" if columns else ""
        lines += [
            f"corrector = {constructor}",
            f"better, receipt = corrector.process_one(p, receipt=True{with_columns})",
            f"corrector.learn_one(p, label, receipt=receipt{with_columns})  # as late as it comes",
            f"state = corrector.to_bytes()  # keep it: {self.name}.from_bytes(state) goes on",
        ]
        return "\n".join(lines)


def written_names(classes: Sequence[Any]) -> str:
    """Class names as ``--classes`` parses them."""
    plain = all(isinstance(name, str) and name == name.strip() != "" for name in classes)
    if plain and not any("," in name or name.startswith("[") for name in classes):
        return ",".join(classes)
    return json.dumps(list(classes), ensure_ascii=False)


def _literal(value: Any) -> str:
    return f'float("{value}")' if isinstance(value, float) and math.isinf(value) else repr(value)
