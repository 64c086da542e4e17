"""All that a server keeps, in one SQLite file; one process at a time has it.

What was learned is a log of entries and, from time to time, its fold: as the learned log and the
state topic of ``stream-can run``, and of the same bytes. Beside it lie the predictions that wait
for their labels. Everything that one commit adds is there, or nothing of it.

"""

from __future__ import annotations

import os
from collections import deque
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec

from stream_can.errors import SnapshotMismatch
from stream_can.kafka import shared
from stream_can.messages.columns import Given
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Record
from stream_can.serve.database import Database
from stream_can.stream.entry import BadEntry, NewerEntry
from stream_can.stream.replica import Replica

__all__ = ["Commit", "Journal", "Kept", "Stored"]

FORMAT = 1
LOG = "learned"
SHARED_KEY = b"shared"
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE learned (offset INTEGER PRIMARY KEY, time INTEGER, entry BLOB);
CREATE TABLE folded (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE commits (
    number INTEGER PRIMARY KEY, last INTEGER, positions BLOB, kept BLOB, unknown BLOB
);
"""
MOST_UNKNOWN = 100_000
"""Ids of labels without a prediction that are remembered, and commits that have some."""
MOST_FORGOTTEN = 4
"""Commits whose predictions are left out with another one."""


class Kept(msgspec.Struct, array_like=True, gc=False):
    """A prediction that waits for its label, as the file has it."""

    offset: int
    time: int
    id: bytes
    m: int
    rows: bytes
    fair: bool
    given: Given | None
    lane: tuple[str, str]
    request: bytes | None = None
    """The request for its label, where that is asked for."""
    ticket: tuple[float, int] | None = None
    """What its prediction set was made with, where it has one."""


class Commit(NamedTuple):
    """What is added at once."""

    entries: list[Record]
    positions: bytes
    """Of the task, see ``Task.positions``."""
    kept: list[Kept]
    unknown: list[bytes]
    """Ids of labels that had none."""
    forget: int = 0
    """No prediction below this offset is kept any more."""


class Stored(NamedTuple):
    """What a file holds."""

    replica: Replica
    positions: bytes | None
    """None where it is new."""
    kept: list[Kept]
    unknown: list[bytes]


_encode = msgspec.msgpack.Encoder().encode
NOTHING = _encode([])
_read_kept = msgspec.msgpack.Decoder(list[Kept]).decode
_read_unknown = msgspec.msgpack.Decoder(list[bytes]).decode


class Journal(Database):
    """The file, open and ours until ``close``."""

    tables = TABLES
    format = FORMAT
    unreadable = (*Database.unreadable, BadEntry, NewerEntry)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._made_of: dict[LaneName, int] = {}
        self._number = 0
        self._holding: deque[tuple[int, int]] = deque()
        """Commits with predictions that may wait still: number, and the last one's offset."""
        super().__init__(path)

    def read(self) -> Stored:
        """All that it holds.

        Raises
        ------
        StateError
            It is damaged, or of a newer release.
        """
        run = self._db.execute
        with self.explained():
            folded: dict[bytes, bytes] = dict(run("SELECT key, value FROM folded"))
            data = folded.get(SHARED_KEY)
            replica = Replica() if data is None else shared.unpack(data, folded)
            if data is not None:
                head = shared.head(data)
                self._made_of = {one.name: one.at for one in head.lanes}
            log = run(
                "SELECT offset, time, entry FROM learned WHERE offset >= ? ORDER BY offset",
                (replica.offset,),
            )
            for offset, time, entry in log:
                if offset != replica.offset:
                    raise SnapshotMismatch(f"entry {replica.offset} is missing")
                left = replica.fold(Record(LOG, 0, offset, time, None, entry))
                if left is not None and left.foreign:
                    raise SnapshotMismatch(left.reason)
            kept: list[Kept] = []
            unknown: list[bytes] = []
            positions = None
            for self._number, last, found, *blobs in run(
                "SELECT number, last, positions, kept, unknown FROM commits ORDER BY number"
            ):
                if last >= 0:
                    self._holding.append((self._number, last))
                positions = found or positions
                kept += _read_kept(blobs[0])
                unknown += _read_unknown(blobs[1])
        return Stored(replica, positions, kept, unknown)

    def write(self, commit: Commit, *, sync: bool = True) -> None:
        """Add a commit; it is on the disk when this returns, or with ``sync`` False soon.

        Raises
        ------
        CannotWrite
            The disk is full, or the file cannot be written: nothing of it is there.
        """
        run = self._db.execute
        number = self._number + 1
        last = max((one.offset for one in commit.kept), default=-1)
        with self.writing(sync):
            self._db.executemany(
                "INSERT INTO learned VALUES (?, ?, ?)",
                [(one.offset, one.timestamp, one.value) for one in commit.entries],
            )
            run("UPDATE commits SET positions = NULL WHERE number = ?", (self._number,))
            run(
                "INSERT INTO commits VALUES (?, ?, ?, ?, ?)",
                (number, last, commit.positions, _encode(commit.kept), _encode(commit.unknown)),
            )
            # A few with each commit: all at once would hold up the labels of a second.
            done = list(
                islice(takewhile(lambda one: one[1] < commit.forget, self._holding), MOST_FORGOTTEN)
            )
            self._db.executemany(
                "UPDATE commits SET kept = ?, last = -1 WHERE number = ?",
                [(NOTHING, old) for old, _ in done],
            )
            # Ids of labels without a prediction are remembered somewhat longer.
            run("DELETE FROM commits WHERE number = ? AND last < 0", (number - MOST_UNKNOWN,))
        self._number = number
        for _ in done:
            self._holding.popleft()
        if commit.kept:
            self._holding.append((number, last))

    def fold(self, replica: Replica) -> None:
        """Put the fold of the log in the place of its entries.

        Raises
        ------
        CannotWrite
            As there.
        """
        lanes, at = shared.records(replica, self._made_of)
        records: dict[bytes, bytes | None] = {**lanes, SHARED_KEY: shared.pack(replica, at)}
        run = self._db.execute
        with self.writing(sync=True):
            for key, value in records.items():
                if value is None:
                    run("DELETE FROM folded WHERE key = ?", (key,))
                else:
                    run("INSERT OR REPLACE INTO folded VALUES (?, ?)", (key, value))
            run("DELETE FROM learned WHERE offset < ?", (replica.offset,))
        self._made_of = at
