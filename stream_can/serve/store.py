"""Store: events and state of a server's learner in an SQLite file.

Every commit adds a row with a sent batch and labels. From time to time the state is written; older
rows are then needed only for their recent predictions. A restart loads the state and plays the
commits after it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Any, ClassVar

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch
from stream_can.learner import (
    Events,
    SentBatch,
    State,
    write_labels,
)
from stream_can.serve import stored
from stream_can.serve.database import Database
from stream_can.serve.stored import CommitHead, CommitRow, StateRow, StoredFile

COUNT = 68, 72
"""Position of another application-defined number in SQLite's header: the number of commits, which
a truncated ``-wal`` does not reveal."""
TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE commits (number INTEGER PRIMARY KEY, newest INTEGER, head BLOB, sent BLOB);
CREATE TABLE state (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;
"""
MOST_DELETED = 4
"""Maximum number of commits deleted with another: deleting all at once would delay it."""


class Store(Database):
    """The file, open and locked until ``close``."""

    tables: ClassVar[str] = TABLES
    format: ClassVar[int] = 2
    page_size: ClassVar[int] = 8192

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._number = 0
        """Number of the last commit."""
        self._newest: dict[int, int] = {}
        """Last labellable prediction of the commits before the state."""
        self._since: dict[int, int] = {}
        """Last labellable prediction of the commits after it."""
        self._oldest = 0
        """Number of the oldest prediction in the state."""
        self._start = b""
        """Initial correctors as stored."""
        self.label_bytes = 0
        """Bytes of labels in commits after the state."""
        super().__init__(path)

    def load(self) -> StoredFile | None:
        """Read the file; None for a new one.

        Raises
        ------
        StateError
            The file is damaged, or of a newer release.
        """
        run = self._db.execute
        with self.explained():
            rows: dict[bytes, bytes] = dict(run("SELECT key, value FROM state"))
            (last,) = run("SELECT coalesce(max(number), 0) FROM commits").fetchone()
            about = dict(run("SELECT name, value FROM about"))
            counted = int.from_bytes(os.pread(self._file, 4, COUNT[0]))
            if not rows:
                if last or counted or "commits" in about:
                    raise SnapshotMismatch("the state is missing")
                return None
            for key in (stored.MEMORY, stored.START):
                if key not in rows:
                    raise SnapshotMismatch(f"the row {key.decode()!r} of the state is missing")
            head = stored.decode(rows[stored.MEMORY], "state", StateRow)
            correctors = stored.correctors_in(rows)
            self._number, self._oldest = about.get("commits", 0), head.oldest
            if last > self._number or counted > self._number or head.commit > self._number:
                raise SnapshotMismatch(
                    f"{max(last, counted, head.commit)} commits were written, and"
                    f" {self._number} are there"
                )
            batches, notes = list[SentBatch](), list[tuple[int, bytes]]()
            for number, newest in run(
                "SELECT number, newest FROM commits WHERE number <= ? ORDER BY number",
                (head.commit,),
            ):
                if newest >= 0:
                    events, batch_notes = self._commit(number)
                    batches.append(events.sent)
                    notes += batch_notes
                self._newest[number] = newest
            self._start = rows[stored.START]
            state = State(self._start, correctors, head.memory, list(correctors))
        return StoredFile(state, head.identity, batches, self._behind(head.commit, notes), notes)

    def _behind(self, commit: int, notes: list[tuple[int, bytes]]) -> Iterator[Events]:
        for number in range(commit + 1, self._number + 1):
            with self.explained():
                events, batch_notes = self._commit(number)
                self._since[number] = stored.newest_of(events)
            notes += batch_notes
            yield events

    def _commit(self, number: int) -> tuple[Events, list[tuple[int, bytes]]]:
        cursor = self._db.execute("SELECT head, sent FROM commits WHERE number = ?", (number,))
        row = cursor.fetchone()
        if row is None:
            raise SnapshotMismatch(f"commit {number} is missing")
        return stored.commit_in(number, *row)

    def write(
        self, events: Events, notes: Sequence[tuple[int, bytes]] = (), *, sync: bool = True
    ) -> int:
        """Add events; durable when this returns, or with ``sync`` False soon after.

        Parameters
        ----------
        notes
            Notes on predictions, kept as long as their batch.

        Returns
        -------
        Size of the commit in bytes.

        Raises
        ------
        CannotWrite
            The disk is full or the file cannot be written; nothing was stored.
        """
        run, number = self._db.execute, self._number + 1
        row = self._row(events, notes)
        begins = takewhile(lambda entry: entry[1] < self._oldest, self._newest.items())
        obsolete = [old for old, _ in islice(begins, MOST_DELETED)]
        with self.writing(sync):
            run("INSERT INTO commits VALUES (?, ?, ?, ?)", row)
            run("INSERT OR REPLACE INTO about VALUES ('commits', ?)", (number,))
            for old in obsolete:
                run("DELETE FROM commits WHERE number = ?", (old,))
        if sync:  # not yet synced commits may be fewer than counted
            self._count(number)
        self._number, self._since[number] = number, row.newest
        for old in obsolete:
            del self._newest[old]
        return row.size

    def _row(self, events: Events, notes: Sequence[tuple[int, bytes]]) -> CommitRow:
        """Build the next commit."""
        sent, labels = events.sent.to_bytes(), write_labels(events.labels)
        self.label_bytes += len(labels)
        number, begin = self._number + 1, sent[: snapshot.ENVELOPE.size]
        commit = CommitHead(number, begin, labels, events.starts, list(notes))
        return CommitRow(number, stored.newest_of(events), stored.encode(commit), sent)

    def _count(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.pwrite(self._file, (number % 2**32).to_bytes(4), COUNT[0])

    def probe(self) -> None:
        """Write a trivial change, as a test.

        Raises
        ------
        CannotWrite
            Writing still fails.
        """
        with self.writing(sync=True):
            self._db.execute("UPDATE about SET value = value WHERE name = 'release'")

    def write_state(self, state: State, oldest: int, identity: dict[str, Any]) -> None:
        """Write the state after the last commit; only given lanes have their correctors in it.

        Parameters
        ----------
        oldest
            :attr:`Learner.oldest`.
        identity
            Identity of the application.

        Raises
        ------
        CannotWrite
            As for `write`.
        """
        known = self._newest | self._since
        useless = [number for number, newest in known.items() if newest < 0]
        with self.writing(sync=True):
            self._put(state, oldest, identity, self._number)
            for number in useless:  # with labels only
                self._db.execute("DELETE FROM commits WHERE number = ?", (number,))
        for number in useless:
            del known[number]
        self._newest, self._since = known, {}
        self._oldest, self._start, self.label_bytes = oldest, state.start, 0

    def write_anew(
        self,
        state: State,
        recent: SentBatch,
        notes: Sequence[tuple[int, bytes]],
        identity: dict[str, Any],
    ) -> int:
        """Replace everything by a state with each corrector and its recent predictions; return the
        size in bytes.

        Raises
        ------
        CannotWrite
            As for `write`.
        """
        run, number = self._db.execute, self._number + 1
        oldest = int(recent.numbers[0]) if len(recent) else 0
        row = self._row(Events(recent, [], []), notes)
        with self.writing(sync=True):
            run("DELETE FROM commits")
            run("INSERT INTO commits VALUES (?, ?, ?, ?)", row)
            self._put(state, oldest, identity, number)
        self._count(number)
        self._number, self._newest, self._since = number, {number: row.newest}, {}
        self._oldest, self._start = oldest, state.start
        return row.size

    def _put(self, state: State, oldest: int, identity: dict[str, Any], number: int) -> None:
        """Write the rows of a state."""
        run = self._db.execute
        rows = stored.correctors_as_rows(state)
        rows[stored.MEMORY] = stored.encode(StateRow(1, number, oldest, identity, state.memory))
        if state.start != self._start:
            rows[stored.START] = state.start
        known = {stored.MEMORY, stored.START, *map(stored.key_of, state.names)}
        for (key,) in run("SELECT key FROM state").fetchall():
            if key not in known:
                run("DELETE FROM state WHERE key = ?", (key,))
        for key, value in rows.items():
            run("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))
        run("INSERT OR REPLACE INTO about VALUES ('commits', ?)", (number,))
