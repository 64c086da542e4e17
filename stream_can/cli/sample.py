"""``stream-can sample``: files to try the other commands on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from stream_can.cli.terminal import text_console
from stream_can.errors import StreamCANError
from stream_can.recording.sample import make_sample


def sample_command(
    folder: Annotated[Path, Parameter(allow_leading_hyphen=True)] = Path(),
) -> int:
    """Write a small real recording to try the commands on: 10,178 flights from New York.

    Writes three files. recorded.csv: predictions, labels and their times. validation.csv: earlier
    rows, for replay --validation. lines.jsonl: the predictions and labels of recorded.csv as
    messages for pipe, in order of time.

    Parameters
    ----------
    folder
        Folder to write to. Existing files with other content are not overwritten.
    """
    files = make_sample()
    for name, content in files.items():
        path = folder / name
        if path.exists() and (not path.is_file() or path.read_bytes() != content):
            raise StreamCANError(
                f"{path}: exists with other content; move it, or name another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    console = text_console()
    for name, content in files.items():
        (folder / name).write_bytes(content)
        lines = len(content.splitlines())
        size = f"{lines:,} lines" if name.endswith(".jsonl") else f"{lines - 1:,} rows"
        console.print(f"{folder / name}: {size}", soft_wrap=True)
    recorded = shlex.quote(str(folder / "recorded.csv"))
    console.print(
        f"Next: stream-can replay {recorded} --time time --label-time label_time", soft_wrap=True
    )
    return 0
