"""Database: a server's SQLite file, verified to be complete and its own, or refused with advice.

While a server runs, and after it was killed, the latest changes are in ``FILE-wal``. So that they
are not lost silently, the file's header tells whether it needs that file: `OPEN` is set before the
first change and cleared once the file is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import msgspec

from stream_can import snapshot
from stream_can.errors import SnapshotMismatch, StreamCANError
from stream_can.version import __version__

WAL_BYTES = 16 << 20
"""Approximate size of the ``-wal`` at which it is written into the file."""
USER_VERSION = 60, 64
"""Position of an application-defined number in SQLite's header."""
WRITE_VERSION = 18
"""Position of the format, 2 for a file with a ``-wal``; a copy by VACUUM INTO has 1."""
WHOLE, OPEN = bytes(4), b"\0\0\0\1"
"""Values of that number: the file is complete, or its latest changes are in the ``-wal``."""


class StateError(StreamCANError):
    """The state file cannot be used; the message says why and what to do."""


class CannotWrite(StreamCANError):
    """A commit failed; the file has none of it."""


class Database:
    """The file, open and locked until ``close``.

    Parameters
    ----------
    path
        Its path; created if missing.

    Raises
    ------
    StateError
        Another process uses it; it is not such a file, damaged, or of a newer release; or it cannot
        be written.
    """

    tables: ClassVar[str]
    """SQL statements that create the tables."""
    format: ClassVar[int]
    page_size: ClassVar[int]
    """Page size in bytes: large pages favour large commits."""
    unreadable: ClassVar[tuple[type[Exception], ...]] = (
        SnapshotMismatch, msgspec.MsgspecError, ValueError, TypeError,
    )  # fmt: skip
    """Errors of content that cannot be stored."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self.explained():
            if not self.path.parent.is_dir():
                raise StateError(f"state {self.path}: folder {self.path.parent} does not exist")
            snapshot.require_replaceable(self.path)
            self._wal = Path(os.path.realpath(self.path) + "-wal")
            # SQLite's own locks end when any descriptor of the file is closed; this one stays.
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                needs_wal = self._lock()
                if not needs_wal:  # inspected in place: a foreign file is not changed
                    with contextlib.closing(self._connect("?immutable=1")) as self._db:
                        has_tables = self._check_tables()
                    if has_tables:
                        self._wal.touch()
                        self._mark(OPEN)
                # One connection shared by all threads in turn.
                self._db = self._connect("")
            except BaseException:
                os.close(self._file)
                raise
            try:
                if needs_wal:
                    has_tables = self._check_tables()
                self._prepare(has_tables)
            except BaseException:
                self.close()
                raise

    def _connect(self, how: str) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path.absolute().as_uri() + how, uri=True, timeout=0, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip

    def _lock(self) -> bool:
        """Lock the file, and check that it is complete; return whether it needs its ``-wal``."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                f"state {self.path}: another process has it; each server needs a file of its own"
            ) from None
        header = os.pread(self._file, 100, 0)
        wal_size = self._wal.stat().st_size if self._wal.exists() else None
        if not header and wal_size:
            raise StateError(
                f"state {self.path}: missing, and {self._wal.name} is there, with what a killed"
                " server had learned last: put the file back beside it, or move both away to start"
                " over"
            )
        if len(header) < 100:
            return False  # new, or not SQLite
        needs_wal = header[slice(*USER_VERSION)] == OPEN and header[WRITE_VERSION] == 2
        if needs_wal and wal_size is None:
            raise StateError(
                f"state {self.path}: its server was killed, or runs, and {self._wal.name} with"
                " what it learned last is missing: put it beside the file. Where another program"
                f" has opened the file since, nothing is missing: make an empty {self._wal.name}"
            )
        if not needs_wal and wal_size:
            raise StateError(
                f"state {self.path}: it was closed in order, so {self._wal.name} is of another"
                " file: move that one away, or put its own file back"
            )
        return needs_wal

    def _mark(self, mark: bytes) -> None:
        os.pwrite(self._file, mark, USER_VERSION[0])
        os.fsync(self._file)

    def _prepare(self, has_tables: bool) -> None:
        run = self._db.execute
        if not has_tables:
            run(f"PRAGMA page_size = {self.page_size}")
            run(f"PRAGMA user_version = {int.from_bytes(OPEN)}")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA wal_autocheckpoint = {WAL_BYTES // self.page_size}")
        run("BEGIN EXCLUSIVE")
        if not has_tables:
            for statement in filter(str.strip, self.tables.split(";")):
                run(statement)
            about = self.format, __version__
            run("INSERT INTO about VALUES ('format', ?), ('release', ?)", about)
        run("UPDATE about SET value = ? WHERE name = 'release'", (__version__,))
        run("COMMIT")

    def _check_tables(self) -> bool:
        """Whether the tables exist; StateError where there are others, or of another format."""
        run = self._db.execute
        tables = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return False
        if "about" not in tables:
            raise StateError(f"state {self.path}: an SQLite file of something else")
        about = dict(run("SELECT name, value FROM about"))
        if about.get("format") != self.format:
            raise StateError(
                f"state {self.path}: of format {about.get('format')}, written by stream_can"
                f" {about.get('release')}; {__version__} reads format {self.format}: upgrade, or"
                " name another file"
            )
        (verdict,) = run("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        return True

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise errors of SQLite and of decoding as StateError."""
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
                f"state {path}: damaged ({error}); move it away to start over, or put a copy back"
            ) from None
        except self.unreadable as error:
            raise StateError(
                f"state {path}: {error}; move it away to start over, or put a copy back"
            ) from None

    @contextlib.contextmanager
    def writing(self, sync: bool) -> Iterator[None]:
        run = self._db.execute
        try:
            if not os.path.samestat(os.stat(self.path), os.fstat(self._file)):
                raise FileNotFoundError
        except FileNotFoundError:
            raise CannotWrite(
                f"state {self.path}: was moved away or deleted while its server runs; put it back,"
                " or start again without it"
            ) from None
        except OSError as error:
            raise CannotWrite(f"state {self.path}: {error.strerror}") from None
        if not self._wal.exists():
            raise CannotWrite(
                f"state {self.path}: {self._wal.name} was moved away or deleted while its server"
                " runs; put it back, or stop the server, which writes all it has learned"
            )
        try:
            # With FULL a commit survives a crash of the machine, otherwise only of the process.
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
        """Close the file, which is complete from here on."""
        try:
            with contextlib.suppress(sqlite3.Error):  # disk full: left as after a kill
                busy, _, _ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    self._mark(WHOLE)
            self._db.close()
        finally:
            os.close(self._file)
