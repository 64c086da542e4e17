"""Load the settings of ``stream-can run``, and the options of kafka-python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import msgspec
from kafka.net.sasl.oauth import AbstractTokenProvider

from stream_can.app.loading import load_as, refuse_unknown, secret_in
from stream_can.app.refused_value import WORDS
from stream_can.app.settings import Option, SettingsError, options_of
from stream_can.kafka.client.options import OURS, option_defaults
from stream_can.kafka.settings import Settings


def options() -> list[Option]:
    """List every setting, for a command line."""
    return options_of(Settings)


def load(path: str | Path | None, overrides: Mapping[str, Any], env: Mapping[str, str]) -> Settings:
    """Load settings from a file, the environment and the command line.

    Parameters
    ----------
    path
        TOML file, or None.
    overrides
        Values by name, as given on the command line (strings are converted; None is "not given");
        ``client`` may be a dict or a list of ``NAME=VALUE``.
    env
        Usually ``os.environ``.

    Raises
    ------
    SettingsError
        An unknown or invalid setting, with the nearest known name; or one that topics do not
        support, with the alternative.
    """
    return load_as(Settings, path, overrides, env, client_options)


def client_options(named_options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options of kafka-python to the types of their defaults; read secrets from files, and
    create what provides tokens."""
    defaults, converted = option_defaults(), {}
    for name, value in named_options.items():
        if name not in defaults and name.endswith("_from_file"):
            name = name.removesuffix("_from_file")
            value = secret_in(value, f"client.{name}")
        if name in OURS:
            way = "; use the setting compression" if name == "compression_type" else ""
            raise SettingsError(f"client.{name}: stream_can sets it itself{way}")
        refuse_unknown([name], defaults, "client: ")
        kind = type(defaults[name])
        if isinstance(value, str) and kind in (bool, int, float):
            try:
                value = msgspec.convert(value, kind, strict=False)
            except msgspec.ValidationError:
                expected = WORDS[kind.__name__]
                raise SettingsError(f"client.{name}: {value!r}, expected {expected}") from None
        if (
            name.startswith(("sasl_", "ssl_"))
            and kind is not bool
            and isinstance(value, int | float)
        ):
            raise SettingsError(f"client.{name}: not text; write it in quotes")  # may be a secret
        if name == TOKENS and isinstance(value, str):
            value = _token_provider(value)
        converted[name] = value
    return converted


TOKENS = "sasl_oauth_token_provider"
"""Option whose value is an object: a file names its class."""


def _token_provider(where: str) -> AbstractTokenProvider:
    """Create an object of the class named, as ``package.module:Class``."""
    try:
        provider = resolve_name(where)()
    except Exception as error:
        raise SettingsError(
            f"client.{TOKENS}: {where!r}: {type(error).__name__}: {error}; expected"
            " package.module:Class, a class that is created without arguments"
        ) from None
    if not isinstance(provider, AbstractTokenProvider):
        raise SettingsError(
            f"client.{TOKENS}: {where!r} is no kafka.net.sasl.oauth.AbstractTokenProvider"
        )
    return provider
