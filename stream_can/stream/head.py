"""What a snapshot of a task says beside its arrays: positions, counts, and the corrector if any."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.messages.records import Counts
from stream_can.version import __version__

__all__ = ["FORMAT", "TaskHead", "read_head"]

FORMAT = 3
"""Version of the head; the envelope around it has its own."""

Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class TaskFormat(msgspec.Struct):
    """As much of a head as any version can read."""

    task: int


class TaskHead(msgspec.Struct):
    """The corrector stands here, or in a learned log."""

    corrector: bytes | None
    next_prediction: Position
    next_label: Position
    oldest: Position
    counts: Counts
    folded_to: Position = msgspec.field(default=0, name="learned")
    """The offset of the learned log up to which the task had folded."""
    requests: bytes | None = None
    lanes: list[tuple[str, str, bytes | None]] = []
    """Model, version, and where the label requests of that lane stood; of those that had requests,
    or that the learned log did not have by then."""
    labelled: tuple[Position, bytes] | None = None
    """Which of the recent predictions have had their label: :meth:`Marks.dump`."""
    sets: bytes | None = None
    """Prediction sets, where outputs have them."""

    @property
    def stream(self) -> dict[str, Any]:
        """Positions and counts, for whoever looks on."""
        return {
            "next_prediction": self.next_prediction,
            "next_label": self.next_label,
            "counts": msgspec.to_builtins(self.counts),
        }


def read_head(data: bytes) -> TaskHead:
    """The head of a task's snapshot.

    Raises
    ------
    SnapshotMismatch
        The bytes are truncated, corrupt, of another version or no task's.
    """
    content, _ = snapshot.decode(data)
    if "task" not in content:
        raise SnapshotMismatch("snapshot: a corrector's alone, without the positions of a stream")
    if snapshot.typed(content, TaskFormat).task != FORMAT:
        raise SnapshotMismatch(
            f"snapshot: task format {content['task']}, and stream_can {__version__} reads {FORMAT}"
            " alone; use the version that wrote it, or begin anew"
        )
    head = snapshot.typed(content, TaskHead)
    if head.oldest > head.next_prediction:
        raise SnapshotMismatch(
            f"snapshot: oldest {head.oldest} is behind next_prediction {head.next_prediction}"
        )
    return head
