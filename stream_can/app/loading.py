"""Load settings: a TOML file, environment variables and options.

An option overrides an environment variable (``STREAM_CAN_`` + the name in capitals), which
overrides the file. ``[client]`` passes options to a client; in the environment they are
``STREAM_CAN_CLIENT_...``. Names of secrets may end in ``_from_file``, naming a file with the value.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from stream_can.app.refused_value import in_words
from stream_can.app.settings import AppSettings, SettingsError
from stream_can.method.costs import costs_of_text
from stream_can.method.settings import SETTINGS, kind_of

S = TypeVar("S", bound=AppSettings)
LISTS = {"bootstrap_servers", "classes"}
LISTS |= {name for name in SETTINGS if kind_of(name) is list}
PREFIX = "STREAM_CAN_"
INJECTED = re.compile(r"(_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)$")
ADDRESS = re.compile(r"(tcp|udp|sctp)://")
"""Variables that Kubernetes sets in every pod for a Service named ``stream-can...``."""


def load_as(
    kind: type[S],
    path: str | Path | None,
    overrides: Mapping[str, Any],
    env: Mapping[str, str],
    client: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ignored_names: Collection[str] = (),
) -> S:
    """Load a program's settings from a file, the environment and the command line.

    Parameters
    ----------
    kind
        The struct of settings.
    path
        TOML file, or None.
    overrides
        Values by name, as given on the command line (strings are converted; None means not given);
        ``client`` may be a dict or a list of ``NAME=VALUE``.
    env
        Usually ``os.environ``.
    client
        Reads the options of the table ``client``, where there is one.
    ignored_names
        Settings of another program in the same places, to be ignored.

    Raises
    ------
    SettingsError
        A setting is unknown or invalid; names the setting and the nearest known name.
    """
    known = known_names(kind) | {*ignored_names}
    values: dict[str, Any] = {}
    if path is not None:
        values = settings_of(path)
        refuse_unknown(values, known, f"{path}: ")
        defaults = {field.name: field.default for field in msgspec.structs.fields(cast(Any, kind))}
        files = {*kind.files} - {*ignored_names}
        for name in files:  # relative to the file of settings
            if isinstance(relative_path := values.get(name, defaults[name]), str):
                values[name] = str(Path(path).parent / relative_path)
    passed = values.pop("client", {})
    if not isinstance(passed, dict):
        raise SettingsError(f"{path}: client is a table of kafka-python's options: [client]")
    kubernetes_variables = injected(env)
    for variable, text in env.items():
        if variable in kubernetes_variables:
            continue
        if variable.startswith(PREFIX + "CLIENT_"):
            passed[variable.removeprefix(PREFIX + "CLIENT_").lower()] = text
        elif variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower()
            refuse_unknown([name], known, f"environment variable {variable}: ")
            values[name] = text
    for name, value in overrides.items():
        if value is not None and name != "client":
            refuse_unknown([name], known, "")
            values[name] = value
    passed |= _pairs(overrides.get("client") or {})
    values = {name: value for name, value in values.items() if name not in ignored_names}
    for secret in kind.secret_names:
        if (file := values.pop(f"{secret}_from_file", None)) is not None:
            values[secret] = secret_in(file, secret)
    values = {name: _listed(name, value) for name, value in values.items()}
    if passed:
        refuse_unknown(["client"], known, "")
    if client is not None and "client" not in ignored_names:
        values["client"] = client(passed)
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings: {in_words(kind, str(error))}") from None


def known_names(kind: type[AppSettings]) -> set[str]:
    """Names of a program's settings, including ``..._from_file`` of secrets."""
    return {*kind.names(), *(f"{name}_from_file" for name in kind.secret_names)}


def given_names(
    path: str | Path | None, overrides: Mapping[str, Any], env: Mapping[str, str]
) -> set[str]:
    """Names of all given settings, known or not."""
    names = {name for name, value in overrides.items() if value is not None}
    kubernetes_variables = injected(env)
    names |= {
        variable.removeprefix(PREFIX).lower()
        for variable in env
        if variable.startswith(PREFIX) and variable not in kubernetes_variables
    }
    if path is not None:
        names |= settings_of(path).keys()
    return names


def settings_of(path: str | Path) -> dict[str, Any]:
    """Read a TOML file; SettingsError where that fails."""
    try:
        return tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None


def injected(env: Mapping[str, str]) -> list[str]:
    """Variables with our prefix that Kubernetes set for a Service."""
    return sorted(
        name
        for name, text in env.items()
        if name.startswith(PREFIX)
        and (INJECTED.search(name) or (name.endswith("_PORT") and ADDRESS.match(text)))
    )


def refuse_unknown(names: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise SettingsError for the first unknown name, with the nearest known one."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(f"{where}unknown setting {name!r}{hint}")


def _pairs(client_options: Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    if isinstance(client_options, Mapping):
        return dict(client_options)
    pairs = [text.partition("=") for text in client_options]
    for name, equals, _ in pairs:
        if not equals:
            raise SettingsError(f"client option {name!r}: expected NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _listed(name: str, value: Any) -> Any:
    """Split comma-separated lists."""
    if name == "train_counts" and isinstance(value, str):
        return counts_of(value)
    if name == "label_map" and not isinstance(value, dict):
        return _map_of(value)
    if name == "costs" and not isinstance(value, dict):
        try:
            return costs_of_text(value)
        except ValueError as error:
            raise SettingsError(str(error)) from None
    if name == "classes" and isinstance(value, str) and value.startswith("["):
        try:
            return msgspec.json.decode(value, type=list[str | int | float])
        except msgspec.MsgspecError as error:
            raise SettingsError(f"classes: {error}") from None
    if name in LISTS and isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _map_of(value: Any) -> dict[str, Any]:
    """Parse a map: TEXT=CLASS, several with commas or as a list, or a JSON object."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return msgspec.json.decode(value, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise SettingsError(f"label_map: {error}") from None
    parts = value.split(",") if isinstance(value, str) else value
    pairs = [part.strip().rpartition("=") for part in parts]
    if lonely := next((name for _, equals, name in pairs if not equals), None):
        raise SettingsError(f"label_map: {lonely!r}, expected TEXT=CLASS")
    return {text: name for text, _, name in pairs}


def counts_of(text: str) -> dict[str, float] | list[float]:
    """Parse rows per class: 900,80,20, or cat=900,dog=80,eel=20, or a JSON object.

    Raises
    ------
    SettingsError
        A count is no number.
    """
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, float])
        except msgspec.MsgspecError as error:
            raise SettingsError(f"train_counts: {error}") from None
    parts = [part.strip().rpartition("=") for part in text.split(",") if part.strip()]
    try:
        if any(equals for _, equals, _ in parts):
            return {name: float(count) for name, _, count in parts}
        return [float(count) for _, _, count in parts]
    except ValueError as error:
        raise SettingsError(f"train_counts: {error}") from None


def secret_in(path: str, name: str) -> str:
    """Read a secret from the file named by ``<name>_from_file``."""
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        text = f"{error.filename}: {error.strerror}"
        raise SettingsError(f"{name}_from_file: {text}") from None
    except UnicodeDecodeError:  # its message would show the content
        raise SettingsError(f"{name}_from_file: {path}: not UTF-8") from None
