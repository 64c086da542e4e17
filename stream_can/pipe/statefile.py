"""State file of a pipe, replaced atomically."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.learner import Learner
from stream_can.learner.changed_settings import NOTICE, changed_limits, changed_settings
from stream_can.learner.saved import corrector as corrector_of
from stream_can.learner.saved import opened, parts, start_in
from stream_can.pipe.output import complain
from stream_can.row_kinds import RowKind, kind_of_snapshot

Count = Annotated[int, Meta(ge=0, le=2**53)]


class StateInUse(StreamCANError):
    """Another pipe uses the state file."""


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Lock the state file for this process; create missing folders.

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
    import fcntl  # not on Windows

    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    name = Path(f"{path}.lock")
    while True:
        # Following a link would write to somebody else's file.
        with open(os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise StateInUse(
                    f"state file {path}: in use by process {file.read().strip()}; "
                    "give each pipe its own"
                ) from None
            # Between our open and our lock the owner may have removed the file, and another process
            # may have created a new one: then our lock has no effect.
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


class Counts(msgspec.Struct):
    """Counts since the state began."""

    predictions: Count = 0
    """Predictions corrected."""
    learned: Count = 0
    """Labels learned with their prediction."""
    unknown: Count = 0
    """Labels whose prediction is unknown."""
    repeated: Count = 0
    """Labels of already labelled predictions."""
    dead_letters: Count = 0


class StateHead(msgspec.Struct):
    """Head of a state file."""

    pipe: Literal[1]
    """The format."""
    lines: Count
    """Lines or records processed."""
    counts: Counts
    learner: bytes


class PipeState:
    """State of a pipe: the learner, the number of lines processed, and counts."""

    def __init__(self, learner: Learner, lines: int = 0, counts: Counts | None = None) -> None:
        self.learner, self.lines, self.counts = learner, lines, counts or Counts()

    def to_bytes(self) -> bytes:
        """Encode the state, versioned and checksummed."""
        head = StateHead(1, self.lines, self.counts, self.learner.to_bytes())
        return snapshot.encode(msgspec.to_builtins(head, builtin_types=(bytes,)), {})

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        classes: int | Iterable[Hashable] | None = None,
        *,
        recent_mb: float | None = None,
        ask: float | Literal["as before"] | None = "as before",
        **settings: Any,
    ) -> Self:
        """Decode :meth:`to_bytes`, or start with the result of `Corrector.to_bytes` or
        `Learner.to_bytes`.

        Raises
        ------
        SnapshotMismatch
            The bytes are none of these, damaged, or have other classes or settings.
        """
        content = snapshot.decode(data).head
        if "pipe" in content or "learner" in content:
            head = snapshot.typed(content, StateHead, "pipe") if "pipe" in content else None
            learner = Learner.from_bytes(
                head.learner if head else data, classes, recent_mb=recent_mb, ask=ask, **settings
            )
            return cls(learner, head.lines, head.counts) if head else cls(learner)
        corrector = corrector_of(data, classes, settings)
        mb = 64 if recent_mb is None else recent_mb
        return cls(Learner(corrector, recent_mb=mb, ask=None if ask == "as before" else ask))


def open_state(
    path: Path | None,
    classes: int | Iterable[Hashable] | None,
    settings: dict[str, Any],
    recent_mb: float,
    ask: float | None,
    validation: tuple[Any, ...] | None,
    kind: RowKind,
) -> PipeState:
    """Load the state file, or create a new state, saved at once so that a bad path is noticed."""
    try:
        data = None if path is None else snapshot.read(path)
    except FileNotFoundError:
        data = None
    if data is None:
        if classes is None and kind.declares_classes:
            where = "" if path is None else f" in {path}"
            raise ValueError(f"classes: not given, and there is no state{where} to take them from")
        corrector = kind.new(classes, settings)
        if validation is not None:
            P, y, *rest = validation
            corrector.fit(P, y, segments=rest[0] if rest else None)
        state = PipeState(Learner(corrector, recent_mb=recent_mb, ask=ask))
        if path is not None:
            snapshot.save(state.to_bytes(), path)
        return state
    try:
        learner = _learner_in(data)
        start = start_in(learner)
        state_kind = kind_of_snapshot(start)
        if state_kind.name != kind.name:
            raise SnapshotMismatch(f"rows is {state_kind.name!r} in it, not {kind.name!r}")
        if not kind.declares_classes:
            classes = None
        if kind.changes is not None:
            settings = {name: value for name, value in settings.items() if name in kind.changes}
        changed = changed_settings(corrector_of(start), settings)
        if start is not learner:
            head, _ = opened(parts(learner)[0].memory)
            changed |= changed_limits(head, {"recent_mb": recent_mb, "ask": ask})
        state = PipeState.from_bytes(data, classes, recent_mb=recent_mb, ask=ask, **settings)
        if changed:
            complain(NOTICE.format(changed))
        return state
    except SnapshotMismatch as error:
        raise SnapshotMismatch(f"state file {path}: {error}; move it away to start over") from None


def _learner_in(data: bytes) -> bytes:
    """The snapshot of a learner, or of a corrector, in whatever a state file may be."""
    content = snapshot.decode(data).head
    return snapshot.typed(content, StateHead, "pipe").learner if "pipe" in content else data
