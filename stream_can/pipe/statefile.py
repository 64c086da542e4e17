"""The state of a task in a file that is whole at every moment."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.stream.sets import without_sets
from stream_can.stream.task import Task

__all__ = ["StateInUse", "locked", "next_line", "open_task"]


class StateInUse(StreamCANError):
    """Another pipe has the state file."""


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Hold the state file for this process alone; folders that are missing are made.

    The lock is on a file beside it, ``<name>.lock``, since each save replaces the state file. The
    operating system releases it however the process ends.

    Raises
    ------
    StateInUse
        Another process holds it.
    """
    if path is None:
        yield
        return
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    name = Path(f"{path}.lock")
    while True:
        # A link that lies there leads to somebody else's file, which is not ours to write.
        with open(os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise StateInUse(
                    f"state file {path}: in use by process {file.read().strip()}; "
                    "give each pipe its own"
                ) from None
            # Between our open and our lock its owner may have removed the file, and another process
            # may have made a new one: then we hold a lock that nobody looks at.
            if not name.exists() or not os.path.samestat(os.fstat(file.fileno()), name.stat()):
                continue
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                name.unlink(missing_ok=True)
            return


def open_task(
    path: Path | None,
    classes: int | Iterable[Hashable] | None,
    settings: dict[str, Any],
    options: dict[str, Any],
    validation: tuple[Any, ...] | None,
) -> Task:
    """The task of the state file, or a new one, saved at once so that a bad path shows now."""
    try:
        data = None if path is None else snapshot.read(path)
    except FileNotFoundError:
        data = None
    if data is None:
        if classes is None:
            where = "" if path is None else f" in {path}"
            raise ValueError(f"classes: not given, and there is no state{where} to take them from")
        corrector = Corrector(classes, **settings)
        if validation is not None:
            P, y, *given = validation
            corrector.fit(P, y, segments=given[0] if given else None)
        task = Task(corrector, **options)
        if path is not None:
            snapshot.save(task.to_bytes(recent=True), path)
        return task
    try:
        if "task" in snapshot.decode(data)[0]:
            return Task.from_bytes(data, classes=classes, settings=settings, **options)
        return Task(without_sets(Corrector.from_bytes(data, classes, **settings)), **options)
    except SnapshotMismatch as error:
        raise SnapshotMismatch(f"state file {path}: {error}; move it away to start anew") from None


def next_line(task: Task) -> int:
    """The number, from 0, of the next line that the task takes, over the life of its state."""
    return max(task.next_prediction, task.next_label)
