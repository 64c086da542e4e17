"""One Task between standard input and output: JSON lines in, JSON lines out, state in a file."""

from __future__ import annotations

import base64
import os
import select
import signal
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from stream_can import snapshot
from stream_can.errors import StreamCANError
from stream_can.pipe.lines import Stop, read_lines
from stream_can.pipe.statefile import next_line, open_task
from stream_can.stream.messages import BadMessage, Fields, open_object
from stream_can.stream.records import Output, Record
from stream_can.stream.task import Task

__all__ = ["pipe"]

LABELS = "labels"


def pipe(
    classes: int | Iterable[Hashable] | None = None,
    *,
    fields: Fields | None = None,
    labelled: bool = False,
    state: str | os.PathLike[str] | None = None,
    save_every: int = 50_000,
    skip: bool = False,
    dead_letters: str | os.PathLike[str] | None = None,
    errors: Literal["dead-letter", "fail"] = "dead-letter",
    recent_bytes: int = 64 << 20,
    validation: tuple[Any, Any] | None = None,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
    **settings: Any,
) -> int:
    """Correct JSON lines from ``stdin`` to ``stdout`` until the input ends or a signal says stop.

    A line with probabilities is a prediction: it comes out corrected, in its place. A line with a
    label and no probabilities, or with a label and an echoed ``probs_raw``, is a label: it is
    learned and nothing comes out. Blank lines are passed over. What has been read is written at
    once, so that ``tail -f | stream-can pipe`` shows each line as it comes.

    Parameters
    ----------
    classes
        The names of the classes in the order of the columns, or their number. Not needed where the
        state file exists; must match it where given.
    fields
        Where in the lines everything is; labels are joined by the field ``id`` by default.
    labelled
        The lines carry their own label beside the probabilities: corrected first, then learned.
        Labels in lines of their own are bad lines then.
    state
        The file that the state is kept in, recent predictions included: resumed where it exists,
        replaced atomically every ``save_every`` lines, at the end, and on SIGTERM or SIGINT. A
        snapshot of ``replay --state`` may lie there to start from. None keeps nothing.
    save_every
        Lines between two saves. With many recent predictions (up to ``recent_bytes``) a save writes
        all of them.
    skip
        The input starts at its first line again: pass over the lines that the state covers. Without
        it the input is taken to continue behind them.
    dead_letters
        A file that lines which cannot be read are appended to, as
        ``{"line": number, "error": reason, "input": text}`` (``input_base64`` where the text is not
        UTF-8); standard error where not given.
    errors
        "dead-letter", or "fail" to stop at the first bad line: exit code 1, the lines before it
        are out and saved, the state continues at that line.
    recent_bytes
        Bound of the recent predictions, see :class:`stream_can.stream.task.Task`; 0 keeps none.
    validation
        Rows (n, m) and labels (n,) for :meth:`stream_can.Corrector.fit`; only for a new state.
    stdin, stdout
        Binary streams; those of the process by default.
    **settings
        Those of :class:`stream_can.Corrector`, ``train_counts`` included.

    Returns
    -------
    The exit code: 0 the input ended, or SIGTERM; 1 a bad line with ``errors="fail"``, or a file
    that cannot be written; 2 settings or a state file that do not fit; 130 SIGINT; 141 standard
    output was closed, as by ``| head`` (the state file then stays at its last save, since it is
    not known which lines arrived).
    """
    source, sink = stdin or sys.stdin.buffer, stdout or sys.stdout.buffer
    fields = fields or Fields(id="id")
    options = {
        "fields": fields,
        "labels_topic": None if labelled else LABELS,
        "labelled": labelled,
        "recent_bytes": recent_bytes,
        "errors": errors,
    }
    path = None if state is None else Path(state)
    try:
        if save_every < 1:
            raise ValueError(f"save_every: {save_every}, expected at least 1")
        task = open_task(path, classes, settings, options, validation)
    except (StreamCANError, ValueError, TypeError) as error:
        return complain(error, 2)
    except OSError as error:
        return complain(error, 1)
    try:
        with Stop() as stop, ExitStack() as stack:
            letters = sys.stderr.buffer
            if dead_letters is not None:
                letters = stack.enter_context(open(dead_letters, "ab", buffering=0))
            run = Run(task, path, save_every, sink, letters, skip)
            for lines in read_lines(source, stop):
                run.take(lines)
            run.finish()
    except BadLine as error:
        return complain(error, 1)
    except OSError as error:
        # Python flushes at exit and would complain once more.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sink.fileno())
        return 141 if isinstance(error, BrokenPipeError) else complain(error, 1)
    if stop.signum is None or stop.signum == signal.SIGTERM:
        return 0
    return 128 + stop.signum


class BadLine(StreamCANError):
    """The line at which ``errors="fail"`` stopped."""


class Run:
    """The lines of one run through the task.

    Lines are numbered over the life of the state file: these numbers are the task's offsets.
    """

    def __init__(
        self,
        task: Task,
        path: Path | None,
        save_every: int,
        sink: BinaryIO,
        letters: BinaryIO,
        skip: bool,
    ) -> None:
        self.task, self.path, self.save_every = task, path, save_every
        self.sink, self.letters = sink, letters
        self.covered = next_line(task)
        self.first = self.line = 0 if skip else self.covered
        self.unsaved = 0
        self.warned = False
        name = task.messages.label_path[-1]
        quoted = msgspec.json.encode(name)
        # Only lines that hold this text are parsed to see whether they are labels; a name that JSON
        # can write in several ways is no such sign, but every line has a colon.
        self.sign = quoted if quoted == f'"{name}"'.encode("ascii", "ignore") else b":"

    def take(self, lines: Sequence[bytes]) -> None:
        """Handle lines, write what comes of them, save when it is time."""
        start = 0
        while start < len(lines):
            batch = lines[start : start + self.save_every - self.unsaved]
            start += len(batch)
            self.handle(batch)
            self.unsaved += len(batch)
            if self.unsaved >= self.save_every:
                self.save()

    def handle(self, lines: Sequence[bytes]) -> None:
        """One batch through the task."""
        records = [
            Record(self.topic_of(line), 0, number, 0, None, line)
            for number, line in enumerate(lines, self.line)
            if number >= self.covered and line and not line.isspace()
        ]
        result = self.task.handle(records)
        if result.outputs:
            with naming("standard output"):
                lines_out = [output.value for output in result.outputs if output.value is not None]
                write_all(self.sink, b"\n".join([*lines_out, b""]))
        with naming("dead letters"):
            for letter in result.dead_letters:
                write_all(self.letters, letter_of(letter, self.first))
        self.line += len(lines)
        if result.stopped is not None:
            record, error = result.stopped
            self.save()
            number = record.offset - self.first + 1
            saved = "" if self.path is None else "; the lines before it are out and saved"
            raise BadLine(f"line {number}: {type(error).__name__}: {error}{saved}")

    def topic_of(self, line: bytes) -> str:
        """Whether a line is a label, by its fields; a line that cannot be read is no label."""
        if self.task.labelled or self.sign not in line:
            return "predictions"
        messages = self.task.messages
        try:
            fields = open_object(line)
        except BadMessage:
            return "predictions"
        label = messages.find(fields, messages.label_path)
        if label is None or bytes(label) == b"null":
            return "predictions"
        if messages.find(fields, messages.probs_path) is None:
            return LABELS
        if messages.raw_path is not None and messages.find(fields, messages.raw_path) is not None:
            return LABELS
        if not self.warned:
            self.warned = True
            names = messages.fields
            complain(
                f"a line has both {names.probs!r} and {names.label!r}: it is corrected, its label "
                "is not learned; if lines carry their own label, say so with labelled"
            )
        return "predictions"

    def save(self) -> None:
        """Save the state, if it is kept."""
        if self.path is not None:
            snapshot.save(self.task.to_bytes(recent=True), self.path)
        self.unsaved = 0

    def finish(self) -> None:
        """Save what is not yet saved, and say what happened to whoever watches."""
        self.save()
        if sys.stderr.isatty():
            counts, raw, sent = self.task.counts, self.task.raw_scores, self.task.sent_scores
            text = (
                f"{counts.predictions} predictions, {counts.matched} labels learned with theirs, "
                f"{counts.unmatched} without, {counts.dead_letters} bad lines"
            )
            if sent.n:
                text += (
                    f"; this run over {sent.n} labels: accuracy {raw.accuracy:.4f} -> "
                    f"{sent.accuracy:.4f}, log loss {raw.log_loss:.4f} -> {sent.log_loss:.4f}"
                )
            complain(text)


def letter_of(output: Output, first: int) -> bytes:
    """A dead letter as a JSON line; ``first`` is the task's number of the input's first line."""
    headers = {name: value.decode() for name, value in output.headers}
    kind = headers["__connect.errors.exception.class.name"].rpartition(".")[2]
    line = output.value or b""
    letter: dict[str, Any] = {
        "line": int(headers["__connect.errors.offset"]) - first + 1,
        "error": f"{kind}: {headers['__connect.errors.exception.message']}",
    }
    try:
        letter["input"] = line.decode()
    except UnicodeDecodeError:
        letter["input_base64"] = base64.b64encode(line).decode()
    return msgspec.json.encode(letter) + b"\n"


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of it, past the buffer of ``file`` if there is one.

    With PYTHONUNBUFFERED, usual in containers, standard output has none: its ``write`` may take a
    part and say so only in what it returns, as on a disk that is nearly full.
    """
    raw = getattr(file, "raw", file)
    left = memoryview(data)
    while left:
        written = raw.write(left)
        if written is None:  # not blocking, and nobody reads: wait
            select.select([], [raw], [])
        else:
            left = left[written:]


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Name the file in the error of a write; a closed pipe stays what it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"{what}: {error.strerror}") from error


def complain(error: object, code: int = 0) -> int:
    """Say it on standard error and return the exit code."""
    print(f"stream-can pipe: {error}", file=sys.stderr, flush=True)
    return code
