"""``stream-can serve``: correct a model's predictions over HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from stream_can.app.settings import SettingsError
from stream_can.cli.options import typed_options
from stream_can.serve import load, options, serve

NAMES = {"http_port": ["--http-port", "--port"], "http_host": ["--http-host", "--host"]}
"""Settings that also have a short option."""
TypedOptions: Any = typed_options(options(), __name__, NAMES)
NOTHING = TypedOptions()
Config = Annotated[Path | None, Parameter(help="TOML file of settings")]


def serve_command(
    config: Config = None, *, typed: Annotated[TypedOptions, Parameter(name="*")] = NOTHING
) -> int:
    """Serve HTTP: correct predictions, learn labels by id, keep the state in one file.

    Each option is also a key of the TOML file and an environment variable (STREAM_CAN_ and its name
    in capitals). An option overrides the variable, and the variable the file.
    """
    try:
        settings = load(config, vars(typed), os.environ)
    except SettingsError as error:
        print(f"stream-can serve: {error}", file=sys.stderr)
        return 2
    return serve(settings)
