"""Parsing of command-line arguments: strict numbers and clear errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from stream_can import snapshot
from stream_can.app.settings import SettingsError
from stream_can.errors import StreamCANError

COMMAND_LINE: ContextVar[str] = ContextVar("COMMAND_LINE", default="")
"""The command line, for reports."""


def _whole(type_: Any, tokens: Sequence[Token]) -> int:
    """Parse an integer; cyclopts would round 1.5 to 2."""
    text = tokens[0].value
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        if (value := float(text)).is_integer():
            return int(value)
    raise ValueError(f"{text!r} is not a whole number")


Whole = Annotated[int, Parameter(converter=_whole)]


@contextmanager
def argument_errors() -> Iterator[None]:
    """Turn ValueErrors of calls that check user input into SettingsError.

    Any other ValueError is a bug and keeps its traceback.
    """
    try:
        yield
    except StreamCANError:
        raise
    except ValueError as error:
        raise SettingsError(str(error)) from error


def refuse_to_overwrite(inputs: Sequence[Path | None], outputs: Mapping[str, Path | None]) -> None:
    """Raise SettingsError where an output is also an input, or two outputs are the same file.

    Parameters
    ----------
    inputs
        Input files.
    outputs
        Output files by option.
    """
    named_files = [(path, "is read") for path in inputs if path is not None]
    for option, path in outputs.items():
        if path is None:
            continue
        for named_file, use in named_files:
            if snapshot.same_file(path, named_file):
                raise SettingsError(f"{option} {path}: this file {use}; name another one")
        named_files.append((path, f"is written by {option}"))


def as_option(name: str) -> str:
    """An option as it is typed: "--label-delay" for "label_delay"; "format avro" has its value."""
    return f"--{name.replace('_', '-')}"
