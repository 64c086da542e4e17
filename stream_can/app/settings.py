"""Base of every program's settings."""

from __future__ import annotations

from typing import (
    ClassVar,
    NamedTuple,
    Protocol,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec.structs import fields

from stream_can.errors import StreamCANError


class SettingsError(StreamCANError, ValueError):
    """A setting is unknown, missing or out of range; the message names it."""


class AppSettings(Protocol):
    """A struct of settings, each annotated with bounds and help text."""

    secret_names: ClassVar[tuple[str, ...]]
    """Settings that may come from a file, ``<name>_from_file``."""
    files: ClassVar[tuple[str, ...]]
    """Settings that hold a path, relative to the file that contains them."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the settings."""


TABLES = {"models", "label_topics"}
"""Tables of tables, which are only read from a file."""


class Option(NamedTuple):
    """A setting as a command-line option."""

    name: str
    """Name in TOML; the option is ``--`` + the name with dashes."""
    kind: type
    """``bool`` for a switch, ``dict`` for repeatable NAME=VALUE, else ``str`` to be converted."""
    help: str


def options_of(settings: type[AppSettings]) -> list[Option]:
    """List every setting, for a command line, but `TABLES`."""
    hints = get_type_hints(settings, include_extras=True)
    defaults = {field.name: field.default for field in fields(settings)}  # type: ignore[arg-type]
    options = []
    for name in settings.names():
        if name in TABLES:
            continue
        type_, meta = get_args(hints[name])
        kind = type_ if type_ is bool else dict if get_origin(type_) is dict else str
        options.append(Option(name, kind, _with_default(meta.description, defaults[name])))
    return options


def _with_default(text: str, default: object) -> str:
    """A help text with the default, where it does not say it and there is one."""
    if text.endswith(")") or not isinstance(default, str | int | float) or not default:
        return text
    return f"{text} ({'yes' if default is True else default})"
