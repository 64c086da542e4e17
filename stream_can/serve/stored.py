"""Rows of a server's file: a commit, a corrector, the state; how they are encoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.learner import Events, Learner, SentBatch, State, read_labels, read_sent
from stream_can.learner.model_name import Name

MEMORY, START = b"memory", b"start"
"""Keys of the rows of a state that are no correctors."""


class StoredFile(NamedTuple):
    """Content of a file."""

    state: State
    identity: dict[str, Any]
    """Identity of the application."""
    batches: list[SentBatch]
    """Sent batches before the state, with all predictions that it keeps."""
    behind: Iterator[Events]
    """Events after the state."""
    notes: list[tuple[int, bytes]]
    """Notes on predictions: number and note."""

    def learner(self) -> Learner:
        """The learner, after playing the events that follow the state."""
        learner = Learner.from_state(self.state, self.batches)
        for events in self.behind:
            learner.play_events(events)
        return learner


class CommitHead(msgspec.Struct):
    commit: int
    sent: bytes
    """Beginning of its sent batch, which contains its checksum."""
    labels: bytes
    starts: list[tuple[int, Name, bytes]]
    notes: list[tuple[int, bytes]]


class CommitRow(NamedTuple):
    """A commit in its table."""

    number: int
    newest: int
    """Number of its last labellable prediction; -1 without one."""
    head: bytes
    sent: bytes

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.head) + len(self.sent)


class StoredCorrector(msgspec.Struct):
    lane: Name
    corrector: bytes


class StateRow(msgspec.Struct):
    state: Literal[1]
    commit: int
    """The last commit that it includes."""
    oldest: int
    """Number of the oldest labellable prediction."""
    identity: dict[str, Any]
    """Identity of the application."""
    memory: bytes


def commit_in(number: int, head: bytes, sent: bytes) -> tuple[Events, list[tuple[int, bytes]]]:
    """Decode a commit; SnapshotMismatch where it is another one."""
    commit = decode(head, "commit", CommitHead)
    if commit.commit != number:
        raise SnapshotMismatch(f"commit {commit.commit} in the place of {number}")
    sent = bytes(sent)
    if sent[: len(commit.sent)] != commit.sent:
        raise SnapshotMismatch(f"the sent batch of another commit in the place of {number}")
    return Events(read_sent(sent), read_labels(commit.labels), commit.starts), commit.notes


def key_of(name: Name) -> bytes:
    """Key of the row of a model's corrector."""
    return b"lane" + msgspec.msgpack.encode(name)


def correctors_as_rows(state: State) -> dict[bytes, bytes]:
    """Rows of the correctors of a state."""
    return {
        key_of(name): encode(StoredCorrector(name, corrector))
        for name, corrector in state.correctors.items()
    }


def correctors_in(rows: Mapping[bytes, bytes]) -> dict[Name, bytes]:
    """Correctors of a state's rows, by model and version."""
    of_models = [row for key, row in rows.items() if key not in (MEMORY, START)]
    stored = [decode(row, "lane", StoredCorrector) for row in of_models]
    return {row.lane: row.corrector for row in stored}


def newest_of(events: Events) -> int:
    """Number of the last labellable prediction; -1 without one."""
    sent = events.sent
    places = [i for i, id in enumerate(sent.ids) if id is not None]
    return int(sent.numbers[places[-1]]) if places else -1


def encode(struct: msgspec.Struct) -> bytes:
    return snapshot.encode(msgspec.to_builtins(struct, builtin_types=(bytes,)), {})


def decode(data: bytes, name: str, kind: type[Any]) -> Any:
    return snapshot.of_kind(data, name, f"{name} of a server", kind)[0]
