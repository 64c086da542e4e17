"""``stream-can run``: every setting of the Kafka worker is an option, and says its own help."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from . import kafka

__all__ = ["run"]


def run(config: Path | None = None, **given: Any) -> int:
    """Work between Kafka topics: predictions in, corrected predictions out, exactly once.

    Each option is also a key of the TOML file and an environment variable (STREAM_CAN_ and its name
    in capitals). An option wins over the variable, and that one over the file.
    """
    try:
        settings = kafka.load(config, given, os.environ)
    except kafka.SettingsError as error:
        print(f"stream-can run: {error}", file=sys.stderr)
        return 2
    return kafka.run(settings)


def _signature() -> inspect.Signature:
    path = Annotated[Path | None, Parameter(help="TOML file of settings")]
    parameters = [
        inspect.Parameter(
            "config", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=path
        )
    ]
    for option in kafka.options():
        kinds: dict[type, Any] = {bool: bool | None, dict: list[str] | None}
        kind = kinds.get(option.kind, str | None)
        shown = Parameter(help=option.help, negative="")
        parameters.append(
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[kind, shown],
            )
        )
    return inspect.Signature(parameters, return_annotation=int)


run.__signature__ = _signature()  # type: ignore[attr-defined]
run.__annotations__ = {name: p.annotation for name, p in run.__signature__.parameters.items()}  # type: ignore[attr-defined]
