"""Folder of the states after micro-batches, and from which one a batch may continue."""

from __future__ import annotations

import re
from pathlib import Path

from stream_can import snapshot
from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.method.promise import promise_of
from stream_can.trust.alarm import Alarm

KEPT = 3
"""The newest, the one before (for a repeated batch), and one more for inspection."""


class StateFolder:
    """A folder with ``<n>.state`` for each of the last batches, and the id of their checkpoint.

    The alarm's state is beside it, in ``<n>.alarm``.

    Parameters
    ----------
    folder
        One for each checkpoint; created if missing.
    start
        The state before the first batch, number -1. Later only its classes are compared, and its
        prediction sets are made: with another coverage they start over.
    """

    def __init__(self, folder: Path, start: Corrector) -> None:
        self._folder, self._start = folder, start

    def check(self, n: int, query: str) -> int:
        """Number of the newest state, n - 1 or n, if batch n of a query may continue from here.

        Raises
        ------
        StreamCANError
            The states belong to another checkpoint, or one is missing.
        """
        owner = self._folder / "checkpoint"
        if n == 0 and not self._numbers():
            self._folder.mkdir(parents=True, exist_ok=True)
            self.save(self._start, -1)
        if self._numbers() == [-1] and not owner.exists():
            snapshot.save(query.encode(), owner)
        numbers = self._numbers()
        if not numbers:
            raise StreamCANError(
                f"batch {n}: there is no state in {self._folder}; "
                "bring it back, or give the new folder a new checkpoint"
            )
        newest, other = numbers[-1], owner.exists() and owner.read_text() != query
        if other or newest > n:
            raise StreamCANError(
                f"batch {n}: {self._folder} has the states of another checkpoint, up to {newest}; "
                "give a new checkpoint a new folder. To go on with what was learned, start it with "
                f"Corrector.from_bytes(Path({str(self._path(newest))!r}).read_bytes())"
            )
        if n - 1 not in numbers:
            raise StreamCANError(
                f"batch {n}: state {n - 1} is missing in {self._folder}, which has {numbers}; "
                "bring it back, or begin with a new checkpoint and a new folder"
            )
        return newest

    def state(self, n: int) -> Corrector:
        """Load state n."""
        data, start = self._path(n).read_bytes(), self._start
        return Corrector.from_bytes(data, start.classes, **promise_of(start))

    def last(self) -> Corrector:
        """The newest state; the initial one before the first."""
        numbers = self._numbers()
        return self.state(numbers[-1]) if numbers else self._start

    def alarm(self, n: int) -> Alarm:
        """The alarm of state n; a new one if missing."""
        path = self._path(n, "alarm")
        return Alarm.from_bytes(path.read_bytes()) if path.exists() else Alarm()

    def last_alarm(self) -> Alarm:
        """The newest alarm; a new one before the first."""
        numbers = self._numbers()
        return self.alarm(numbers[-1]) if numbers else Alarm()

    def save(self, state: Corrector, n: int, alarm: Alarm | None = None) -> None:
        """Write state n atomically, and remove old ones.

        Its alarm is written first: a batch is complete once its state exists.
        """
        if alarm is not None:
            snapshot.save(alarm.to_bytes(), self._path(n, "alarm"))
        snapshot.save(state.to_bytes(), self._path(n))
        first = self._numbers()[-KEPT:][0]
        for kind in ("state", "alarm"):
            for old in self._numbers(kind):
                if old < first:
                    self._path(old, kind).unlink()

    def _numbers(self, kind: str = "state") -> list[int]:
        names = self._folder.glob(f"*.{kind}")
        matches = (re.fullmatch(rf"(-1|\d+)\.{kind}", path.name) for path in names)
        return sorted(int(match[1]) for match in matches if match)

    def _path(self, n: int, kind: str = "state") -> Path:
        return self._folder / f"{n}.{kind}"
