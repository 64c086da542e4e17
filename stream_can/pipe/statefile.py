"""The state of a task in a file that is whole at every moment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import SnapshotMismatch
from stream_can.stream.task import Task

__all__ = ["next_line", "open_task"]


def open_task(
    path: Path | None,
    classes: int | Iterable[Hashable] | None,
    settings: dict[str, Any],
    options: dict[str, Any],
    validation: tuple[Any, Any] | None,
) -> Task:
    """The task of the state file, or a new one, saved at once so that a bad path shows now."""
    try:
        data = None if path is None else path.read_bytes()
    except FileNotFoundError:
        data = None
    if data is None:
        if classes is None:
            where = "" if path is None else f" in {path}"
            raise ValueError(f"classes: not given, and there is no state{where} to take them from")
        corrector = Corrector(classes, **settings)
        if validation is not None:
            corrector.fit(*validation)
        task = Task(corrector, **options)
        if path is not None:
            snapshot.save(task.to_bytes(recent=True), path)
        return task
    try:
        if "task" in snapshot.decode(data)[0]:
            return Task.from_bytes(data, classes=classes, settings=settings, **options)
        return Task(Corrector.from_bytes(data, classes, **settings), **options)
    except SnapshotMismatch as error:
        raise SnapshotMismatch(f"state file {path}: {error}; move it away to start anew") from None


def next_line(task: Task) -> int:
    """Lines that the task has taken, over the life of its state; counted from 0, the next one."""
    return max(task.next_prediction, task.next_label)
