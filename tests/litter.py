"""Which files lie in the repository, to see what a test leaves there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {"__pycache__", "out", "build", "dist"}
"""What tools make, beside what begins with a dot or ends with .egg-info."""


class Litter:
    """The names in each folder of the repository, and in the working folder.

    A folder is read again only where its time of change is another one, so that a look costs less
    than a millisecond.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Folder] = {}
        self.new()

    def new(self) -> list[str]:
        """The files and folders that are new since the last look."""
        found: list[str] = []
        waiting = [str(ROOT), *({os.getcwd()} - {str(ROOT)})]
        while waiting:
            path = waiting.pop()
            before = self._seen.get(path)
            try:
                now = before
                if before is None or os.stat(path).st_mtime_ns != before.changed:
                    now = self._seen[path] = _Folder.of(path)
            except FileNotFoundError:
                self._seen.pop(path, None)
                continue
            if before is not None and now is not before:
                found += [f"{path}/{name}" for name in sorted(now.names - before.names)]
            waiting += now.folders
        return found


class _Folder(NamedTuple):
    changed: int
    names: frozenset[str]
    folders: list[str]

    @classmethod
    def of(cls, path: str) -> _Folder:
        changed = os.stat(path).st_mtime_ns
        with os.scandir(path) as entries:
            counted = [one for one in entries if _counts(one.name)]
        folders = [one.path for one in counted if one.is_dir(follow_symlinks=False)]
        return cls(changed, frozenset(one.name for one in counted), folders)


def _counts(name: str) -> bool:
    return not (
        name.startswith(".")
        or name in OUTSIDE
        or name.endswith((".egg-info", ".pyc", ".so", ".c", ".cpp"))
    )
