"""Settings as options of a command: each is one, and says its own help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import make_dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from stream_can.app.settings import Option

__all__ = ["given_of"]

# An option is text, which `load` converts, but for switches and those that may be repeated.
KINDS: dict[type, Any] = {bool: bool | None, dict: list[str] | None}


def given_of(
    options: Iterable[Option], module: str, names: Mapping[str, list[str]] | None = None
) -> Any:
    """Make the dataclass of what a user gives: every setting, None where it was not given.

    Parameters
    ----------
    options
        The settings.
    module
        Whose command it is.
    names
        Of settings that have a shorter option too, all of these.
    """
    short = names or {}
    fields = [
        (
            one.name,
            Annotated[
                KINDS.get(one.kind, str | None),
                Parameter(name=short.get(one.name), help=one.help, negative=""),
            ],
            None,
        )
        for one in options
    ]
    # Without its module Python 3.11 calls it a type of its own library.
    return make_dataclass("Given", fields, kw_only=True, namespace={"__module__": module})
