"""Settings as options of a command, with their help texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import make_dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from stream_can.app.settings import Option

__all__ = ["given_of"]

# Options are text, which `load` converts, except switches and repeatable ones.
KINDS: dict[type, Any] = {bool: bool | None, dict: list[str] | None}


def given_of(
    options: Iterable[Option], module: str, names: Mapping[str, list[str]] | None = None
) -> Any:
    """Create the dataclass of a command's options: every setting, None where not given.

    Parameters
    ----------
    options
        The settings.
    module
        The command's module.
    names
        All names of settings that also have a short option.
    """
    short = names or {}
    fields = [
        (
            one.name,
            Annotated[
                KINDS.get(one.kind, str | None),
                Parameter(
                    name=short.get(one.name),
                    help=one.help,
                    negative=None if one.kind is bool else "",
                ),
            ],
            None,
        )
        for one in options
    ]
    # Without a module, Python 3.11 attributes it to its own library.
    return make_dataclass("Given", fields, kw_only=True, namespace={"__module__": module})
