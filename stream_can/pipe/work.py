"""The lines of a pipe through its task, and when the state is saved."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from stream_can import snapshot
from stream_can.errors import StreamCANError
from stream_can.method.state import rows_at_once
from stream_can.pipe.output import complain, letter_of, naming, write_all
from stream_can.pipe.statefile import next_line
from stream_can.stream.messages import BadMessage
from stream_can.stream.records import Record
from stream_can.stream.task import Task

__all__ = ["LABELS", "BadLine", "Run", "Saver"]

LABELS = "labels"

SECONDS, SHARE = 1.0, 0.1
"""The least time between two saves, and the share of the time that saving may take."""


class Saver:
    """Saves a task after so many lines, or after a while: the longer, the more a save costs."""

    def __init__(self, task: Task, path: Path | None, save_every: int) -> None:
        self.task, self.path, self.save_every = task, path, save_every
        self.unsaved = 0
        self.due = time.monotonic() + SECONDS

    @property
    def lines_left(self) -> int:
        """How many lines may come before the next save."""
        return self.save_every - self.unsaved

    def seconds_left(self) -> float | None:
        """How long until a save is due; None where nothing is to be saved."""
        if self.path is None or not self.unsaved:
            return None
        return max(0.0, self.due - time.monotonic())

    def add(self, lines: int) -> None:
        """So many lines were handled."""
        self.unsaved += lines
        if self.unsaved >= self.save_every:
            self.save()

    def save_if_due(self) -> None:
        """Save where seconds have passed since the last."""
        if self.seconds_left() == 0:
            self.save()

    def save(self) -> None:
        """Save now, where a state is kept."""
        started = time.monotonic()
        if self.path is not None:
            snapshot.save(self.task.to_bytes(recent=True), self.path)
        ended = time.monotonic()
        self.due = ended + max(SECONDS, (ended - started) * (1 / SHARE - 1))
        self.unsaved = 0


class BadLine(StreamCANError):
    """The line at which ``errors="fail"`` stopped."""


class Run:
    """The lines of one run through the task.

    Lines are numbered over the life of the state file: these numbers are the task's offsets.
    """

    def __init__(
        self,
        task: Task,
        saver: Saver,
        write: Callable[[list[bytes]], None],
        letters: BinaryIO,
        skip: bool,
        *,
        lines: bool = True,
    ) -> None:
        self.task, self.saver = task, saver
        self.write, self.letters = write, letters
        self.of_lines, self.unit = lines, "line" if lines else "record"
        self.covered = next_line(task)
        self.most = rows_at_once(len(task.corrector.classes))
        self.first = self.line = 0 if skip else self.covered
        self.told_of_both = self.told_of_sums = self.told_of_values = False
        self.normalised = 0
        name = task.lane.messages.label_path[-1]
        quoted = msgspec.json.encode(name)
        # A line without this text has no label, which saves parsing it. A name that JSON can write
        # in several ways, such as one with an umlaut, proves nothing; then look for a colon, which
        # every line has.
        self.in_labels = quoted if quoted == f'"{name}"'.encode("ascii", "ignore") else b":"

    def take(self, lines: Sequence[bytes]) -> None:
        """Handle lines, write what comes of them, save when it is time.

        Called without lines where none came in time: a save may be due all the same.
        """
        start = 0
        while start < len(lines):
            batch = lines[start : start + min(self.saver.lines_left, self.most)]
            start += len(batch)
            self.handle(batch)
            self.saver.add(len(batch))
        self.saver.save_if_due()

    def handle(self, lines: Sequence[bytes]) -> None:
        """One batch through the task: outputs, then dead letters, are written.

        Raises
        ------
        BadLine
            ``errors="fail"``: what came before the line is written and saved.
        """
        records = [
            Record(self.topic_of(line), 0, number, 0, None, line)
            for number, line in enumerate(lines, self.line)
            if number >= self.covered and (not self.of_lines or (line and not line.isspace()))
        ]
        result = self.task.handle(records)
        if result.outputs:
            with naming("standard output"):
                lines_out = [output.value for output in result.outputs if output.value is not None]
                self.write(lines_out)
        if result.normalised:
            self.normalised += result.normalised
            if not self.told_of_sums:
                self.told_of_sums = True
                complain("rows that do not sum to 1 are divided by their sum; see normalise")
        if result.faults and not self.told_of_values:
            self.told_of_values = True
            at, fault = result.faults[0]
            complain(f"{self.unit} {at.offset - self.first + 1}: {fault}; others are not told of")
        with naming("dead letters"):
            for letter in result.dead_letters:
                write_all(self.letters, letter_of(letter, self.first, self.unit))
        self.line += len(lines)
        if result.stopped is not None:
            record, error = result.stopped
            self.saver.save()
            number = record.offset - self.first + 1
            saved = (
                "" if self.saver.path is None else f"; the {self.unit}s before it are out and saved"
            )
            raise BadLine(f"{self.unit} {number}: {type(error).__name__}: {error}{saved}")

    def topic_of(self, line: bytes) -> str:
        """The topic that a line stands for, "predictions" or "labels".

        A label has its field and no probabilities, or brings the original row (``probs_raw``) with
        them. Lines that cannot be read count as predictions, so that the task makes them dead
        letters.
        """
        if self.task.reading.labelled or (self.of_lines and self.in_labels not in line):
            return "predictions"
        messages = self.task.lane.messages
        find = messages.predictions.find
        try:
            message = messages.open(line)
        except BadMessage:
            return "predictions"
        label, probs = find(message, messages.label_path), find(message, messages.probs_path)
        if label is None or bytes(label) == b"null":
            return "predictions"
        if probs is None or bytes(probs) == b"null":
            return LABELS
        raw = None if messages.raw_path is None else find(message, messages.raw_path)
        if raw is not None and bytes(raw) != b"null":
            return LABELS
        if not self.told_of_both:
            self.told_of_both = True
            names, what = messages.fields, self.unit
            complain(
                f"a {what} has both {names.probs!r} and {names.label!r}: it is corrected, its"
                f" label is not learned; if {what}s carry their own label, say so with labelled"
            )
        return "predictions"

    def finish(self) -> None:
        """Save what is not yet saved, and say what happened to whoever watches."""
        self.saver.save()
        if sys.stderr.isatty():
            counts, raw, sent = self.task.counts, self.task.raw_scores, self.task.sent_scores
            text = (
                f"{counts.corrected} predictions, {counts.matched} labels learned with theirs, "
                f"{counts.unmatched} without, {counts.dead_letters} bad {self.unit}s"
            )
            if counts.repeated:
                text += f", {counts.repeated} labels of predictions that had theirs"
            if self.normalised:
                text += f", {self.normalised} rows divided by their sum"
            if sent.n:
                which = (
                    "labels" if self.task.lane.requests is None else "labels asked for at random"
                )
                text += (
                    f"; this run over {sent.n} {which}: accuracy {raw.accuracy:.4f} -> "
                    f"{sent.accuracy:.4f}, log loss {raw.log_loss:.4f} -> {sent.log_loss:.4f}"
                )
            complain(text)
