"""Help of settings: their descriptions in options, signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable
from typing import (
    Annotated,
    Any,
    TypeVar,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from stream_can.method.settings import (
    DEFAULTS,
    SETTINGS,
    CorrectorKeywords,
    description_of,
    kind_of,
)


def about(name: str, default: Any = None) -> str:
    """Describe a setting with its default: the help text of an option."""
    meaning = description_of(name)
    default = default or getattr(DEFAULTS, name)
    return meaning if default is None or default is False else f"{meaning} ({default})"


def sentence(name: str) -> str:
    """:func:`about` as a sentence."""
    text = about(name)
    return f"{text[0].upper()}{text[1:]}."


IN = 8 * " "

_C = TypeVar("_C", bound=type)


def takes_settings(kind: _C) -> _C:
    """Decorate a class whose ``__init__`` takes settings as ``**``: expand them in its signature
    and docstring."""
    init = kind.__init__  # type: ignore[misc]
    signature = inspect.signature(init)
    annotations = get_type_hints(CorrectorKeywords)
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    settings = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=getattr(DEFAULTS, name),
            annotation=annotations[name],
        )
        for name in SETTINGS
    ]  # fmt: skip
    init.__signature__ = signature.replace(parameters=[*parameters, *settings])
    entries = "".join(f"    {name}\n{_entry(name)}\n" for name in SETTINGS)
    kind.__doc__ = re.sub(
        r"    \*\*settings\n(        .*\n)+", lambda _: entries, kind.__doc__ or ""
    )
    return kind


def _entry(name: str) -> str:
    return textwrap.fill(sentence(name), 100, initial_indent=IN, subsequent_indent=IN)


def given_settings(names: Iterable[str] = SETTINGS, **defaults: Any) -> type[msgspec.Struct]:
    """A struct of settings that are None unless given, as in files and the environment.
    ``defaults`` are the caller's, for help texts."""
    fields = [
        (
            name,
            Annotated[_plain(name) | None, Meta(description=about(name, defaults.get(name)))],
            None,
        )
        for name in names
    ]
    return msgspec.defstruct(
        "GivenSettings", fields, module=__name__, kw_only=True, forbid_unknown_fields=True,
        frozen=True, omit_defaults=True,
    )  # fmt: skip


def _plain(name: str) -> Any:
    kind = kind_of(name)
    return list[str] if kind is list else kind
