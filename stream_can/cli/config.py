"""Options of ``pipe`` and ``replay`` from a TOML file and the environment.

As for the other commands, the command line overrides the environment, which overrides the file;
paths in the file are relative to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from cyclopts import App

from stream_can.app.loading import PREFIX, injected, refuse_unknown, settings_of
from stream_can.app.settings import SettingsError

COMMANDS = "pipe", "replay"
NOT_SETTINGS = "config", "file"
"""Options that are not settings."""


def with_settings(app: App, arguments: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Add options from a file or the environment where the command line lacks them.

    Parameters
    ----------
    app
        All commands.
    arguments
        The command line.
    env
        Usually ``os.environ``; variables of other commands' settings are ignored.

    Raises
    ------
    SettingsError
        The file cannot be read, or contains an unknown option; the message names the nearest one.
    """
    if not arguments or arguments[0] not in COMMANDS:
        return list(arguments)
    command, *typed = arguments
    known = {
        name: hint for name, hint in _options_of(app, command).items() if name not in NOT_SETTINGS
    }
    values: dict[str, Any] = {}
    if (path := _config_of(typed)) is not None:
        values = settings_of(path)
        refuse_unknown(values, known, f"{path}: ")
        for name, value in values.items():
            if "Path" in str(known[name]) and isinstance(value, str):
                values[name] = str(Path(path).parent / value)
    injected_names = injected(env)
    values |= {
        name: env[PREFIX + name.upper()]
        for name in known
        if PREFIX + name.upper() in env and PREFIX + name.upper() not in injected_names
    }
    typed_options = {word.partition("=")[0] for word in typed}
    added_words: list[str] = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if option not in typed_options:
            added_words += _option(name, option, value, is_switch=known[name] is bool)
    end = typed.index("--") if "--" in typed else len(typed)  # no options come behind it
    return [command, *typed[:end], *added_words, *typed[end:]]


def hide_others(app: App, arguments: Sequence[str], env: MutableMapping[str, str]) -> None:
    """Remove variables that are options of pipe or replay, and not of the command that runs: one
    that is set for these is no mistake of the other.

    Parameters
    ----------
    app
        All commands.
    arguments
        The command line.
    env
        ``os.environ``, changed.
    """
    if not any(name.startswith(PREFIX) for name in env):
        return
    if arguments and arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
        # The third of these would import scikit-learn.
        other_options = {name for command in COMMANDS[:2] for name in _options_of(app, command)}
        for name in other_options - _options_of(app, arguments[0]).keys():
            env.pop(PREFIX + name.upper(), None)


def _options_of(app: App, command: str) -> dict[str, Any]:
    """The options of a command as settings, and the type of each."""
    return {
        name.removeprefix("--").replace("-", "_"): argument.hint
        for argument in app[command].assemble_argument_collection()
        for name in argument.names
        if name.startswith("--")
    }


def _config_of(typed: Sequence[str]) -> str | None:
    for i, word in enumerate(typed):
        name, equals, value = word.partition("=")
        if name == "--config":
            return value if equals else next(iter(typed[i + 1 :]), None)
    return None


def _option(name: str, option: str, value: Any, *, is_switch: bool) -> list[str]:
    """A setting as command-line words."""
    if is_switch:
        if value not in (True, False, "true", "false", "1", "0"):
            raise SettingsError(f"{name}: {value!r}, expected true or false")
        return [option] if value in (True, "true", "1") else []
    if isinstance(value, list):
        value = json.dumps(value) if name == "classes" else ",".join(map(str, value))
    elif isinstance(value, dict):
        if name not in ("train_counts", "costs"):
            raise SettingsError(f"{name}: a table, expected a value")
        value = json.dumps(value)
    return [f"{option}={value}"]
