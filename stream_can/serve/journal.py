"""All that a server keeps, in one SQLite file; one process at a time has it.

What was learned is a log of entries and, from time to time, its fold: as the learned log and the
state topic of ``stream-can run``, and of the same bytes. Beside it lie the predictions that wait
for their labels. Everything that one commit adds is there, or nothing of it.

While a server runs, and after it was killed, what came last lies in ``FILE-wal``. So that nobody
loses it without a word, the header of the file says whether it needs that one: `OPEN` is written
before the first change and taken back once the file is all there is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

import msgspec

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.kafka import shared
from stream_can.messages.columns import Given
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Record
from stream_can.stream.entry import BadEntry, NewerEntry
from stream_can.stream.replica import Replica
from stream_can.version import __version__

__all__ = ["CannotWrite", "Commit", "Journal", "Kept", "StateError", "Stored"]

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
USER_VERSION = 60, 64
"""Where SQLite's header has a number that is ours to use."""
WRITE_VERSION = 18
"""Where it says 2 for a file with a ``-wal``; a copy made by VACUUM INTO has 1."""
WHOLE, OPEN = bytes(4), b"\0\0\0\1"
"""That number: the file is all there is, or what came last lies in its ``-wal``."""
MOST_UNKNOWN = 100_000
"""Ids of labels without a prediction that are remembered, and commits that have some."""
MOST_FORGOTTEN = 4
"""Commits whose predictions are left out with another one."""


class StateError(StreamCANError):
    """The state file cannot be used; the message says why, and the way out."""


class CannotWrite(StreamCANError):
    """Nothing of a commit is in the file."""


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


class Journal:
    """The file, open and ours until ``close``.

    Parameters
    ----------
    path
        Where it is; made where it is not.

    Raises
    ------
    StateError
        Another process has it; it is no such file, damaged, or of a newer release; or it cannot be
        written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._made_of: dict[LaneName, int] = {}
        self._number = 0
        self._holding: deque[tuple[int, int]] = deque()
        """Commits with predictions that may wait still: number, and the last one's offset."""
        with self.explained():
            if not self.path.parent.is_dir():
                raise StateError(f"state {self.path}: folder {self.path.parent} does not exist")
            snapshot.require_replaceable(self.path)
            self._wal = Path(os.path.realpath(self.path) + "-wal")
            # SQLite's own locks end where any descriptor of the file is closed: this one stays.
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                needs = self._take()
                if not needs:  # looked at as it lies there: what is not ours is not changed
                    with contextlib.closing(self._connect("?immutable=1")) as self._db:
                        made = self._look()
                    if made:
                        self._wal.touch()
                        self._mark(OPEN)
                # One connection for all threads, which take turns.
                self._db = self._connect("")
            except BaseException:
                os.close(self._file)
                raise
            try:
                if needs:
                    made = self._look()
                self._open(made)
            except BaseException:
                self.close()
                raise

    def _connect(self, how: str) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path.absolute().as_uri() + how, uri=True, timeout=0, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip

    def _take(self) -> bool:
        """Make the file ours, and see that nothing of it is missing; whether it needs its
        ``-wal``."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                f"state {self.path}: another process has it; each server needs a file of its own"
            ) from None
        header = os.pread(self._file, 100, 0)
        left = self._wal.stat().st_size if self._wal.exists() else None
        if not header and left:
            raise StateError(
                f"state {self.path}: missing, and {self._wal.name} is there, with what a killed"
                " server had learned last: put the file back beside it, or move both away to begin"
                " anew"
            )
        if len(header) < 100:
            return False  # new, or no SQLite file
        needs = header[slice(*USER_VERSION)] == OPEN and header[WRITE_VERSION] == 2
        if needs and left is None:
            raise StateError(
                f"state {self.path}: its server was killed, or runs, and {self._wal.name} with"
                " what it learned last is missing: put it beside the file. Where another program"
                f" has opened the file since, nothing is missing: make an empty {self._wal.name}"
            )
        if not needs and left:
            raise StateError(
                f"state {self.path}: it was closed in order, so {self._wal.name} is of another"
                " file: move that one away, or put its own file back"
            )
        return needs

    def _mark(self, what: bytes) -> None:
        os.pwrite(self._file, what, USER_VERSION[0])
        os.fsync(self._file)

    def _open(self, made: bool) -> None:
        run = self._db.execute
        if not made:
            run(f"PRAGMA user_version = {int.from_bytes(OPEN)}")
        run("PRAGMA journal_mode = WAL")
        run("BEGIN EXCLUSIVE")
        if not made:
            for statement in filter(str.strip, TABLES.split(";")):
                run(statement)
            run("INSERT INTO about VALUES ('format', ?), ('release', ?)", (FORMAT, __version__))
        run("UPDATE about SET value = ? WHERE name = 'release'", (__version__,))
        run("COMMIT")

    def _look(self) -> bool:
        """Whether the tables are there; StateError where others are, or of another format."""
        run = self._db.execute
        tables = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return False
        if "about" not in tables:
            raise StateError(f"state {self.path}: an SQLite file of something else")
        about = dict(run("SELECT name, value FROM about"))
        if about.get("format") != FORMAT:
            raise StateError(
                f"state {self.path}: of format {about.get('format')}, written by stream_can"
                f" {about.get('release')}; {__version__} reads format {FORMAT}: upgrade, or name"
                " another file"
            )
        (said,) = run("PRAGMA quick_check(1)").fetchone()
        if said != "ok":
            raise sqlite3.DatabaseError(said)
        return True

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """StateError for what SQLite and the fold may raise."""
        path = self.path
        try:
            yield
        except OSError as error:
            raise StateError(f"state {path}: {error.strerror}") from None
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StateError(
                    f"state {path}: another process has it; each server needs a file of its own"
                ) from None
            raise StateError(f"state {path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise StateError(
                f"state {path}: damaged ({error}); move it away to begin anew, or put a copy back"
            ) from None
        except (
            SnapshotMismatch, BadEntry, NewerEntry, msgspec.MsgspecError, ValueError, TypeError,
        ) as error:  # fmt: skip
            raise StateError(
                f"state {path}: {error}; move it away to begin anew, or put a copy back"
            ) from None

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
        with self._writing(sync):
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
        with self._writing(sync=True):
            for key, value in records.items():
                if value is None:
                    run("DELETE FROM folded WHERE key = ?", (key,))
                else:
                    run("INSERT OR REPLACE INTO folded VALUES (?, ?)", (key, value))
            run("DELETE FROM learned WHERE offset < ?", (replica.offset,))
        self._made_of = at

    @contextlib.contextmanager
    def _writing(self, sync: bool) -> Iterator[None]:
        run = self._db.execute
        try:
            if not os.path.samestat(os.stat(self.path), os.fstat(self._file)):
                raise FileNotFoundError
        except FileNotFoundError:
            raise CannotWrite(
                f"state {self.path}: was moved away or deleted while its server runs; put it back,"
                " or start again without it"
            ) from None
        try:
            # Without it a commit survives the end of the process, and with it that of the machine.
            run(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            run("BEGIN IMMEDIATE")
            try:
                yield
                run("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    run("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise CannotWrite(f"state {self.path}: {error}") from None

    def close(self) -> None:
        """Let go of the file, which is all there is from here on."""
        try:
            with contextlib.suppress(sqlite3.Error):  # a full disk: it stays as after a kill
                busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    self._mark(WHOLE)
            self._db.close()
        finally:
            os.close(self._file)
