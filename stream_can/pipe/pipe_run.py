"""PipeRun: passes lines through a learner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

from stream_can.errors import StreamCANError
from stream_can.learner import Corrected, LateLabel
from stream_can.learner.model_name import Name
from stream_can.messages.columns import table
from stream_can.messages.label import Label
from stream_can.messages.messages import Messages, Prediction
from stream_can.messages.ordinary import OrdinaryBatch
from stream_can.messages.parsing import Opened, rows_at
from stream_can.method.state import rows_at_once
from stream_can.pipe.line_parser import LineParser, OpenedLines
from stream_can.pipe.notices import MANY_LABELS, Notices
from stream_can.pipe.output import complain, letter_of, naming, write_all
from stream_can.pipe.saver import Saver


class BadLine(StreamCANError):
    """The line at which ``errors="fail"`` stopped."""


class PipeRun:
    """Passes the lines of one run through the learner.

    Line numbers continue over the life of the state file.

    Parameters
    ----------
    saver
        The state, and when it is saved.
    messages
        The parser of messages.
    write
        Writes output lines.
    letters
        File of the dead letters.
    labelled
        Whether a prediction's line may carry its own label.
    stops
        Whether the first bad line ends the run.
    skip
        Whether the input starts at its first line again.
    lines
        Whether the input is lines of JSON, or else records.
    """

    def __init__(
        self,
        saver: Saver,
        messages: Messages,
        write: Callable[[list[bytes]], None],
        letters: BinaryIO,
        *,
        labelled: bool,
        stops: bool,
        skip: bool,
        lines: bool = True,
    ) -> None:
        self.saver, self.state, self.learner = saver, saver.state, saver.state.learner
        self.messages, self.labelled, self.stops = messages, labelled, stops
        self.write, self.letters = write, letters
        self.of_lines, self.unit = lines, "line" if lines else "record"
        self.covered = self.state.lines
        self.most = rows_at_once(messages.widest)
        self.first = self.line = 0 if skip else self.covered
        self.outcomes: Counter[str] = Counter()
        """Outcomes of the labels of this run."""
        self.normalised = 0
        self.notices = Notices(self.learner, messages.fields, self.unit)
        self.parser = LineParser(
            messages, self.learner, self.notices, labelled=labelled, of_lines=lines
        )
        self.is_ordinary = lines and self.parser.naming is None

    def take(self, lines: Sequence[bytes]) -> None:
        """Process lines, write their output, save when due; no lines after a time without input."""
        start = 0
        while start < len(lines):
            batch = lines[start : start + min(self.saver.lines_left, self.most)]
            start += len(batch)
            begin = max(self.line, self.covered)  # what is skipped needs no saving
            self.handle(batch)
            self.saver.count_lines(self.state.lines - begin)
        self.saver.save_if_due()

    def handle(self, lines: Sequence[bytes]) -> None:
        """Process a batch: write outputs, then dead letters.

        Raises
        ------
        BadLine
            ``errors="fail"``: everything before the line is written and saved.
        """
        numbered = [
            (number, line)
            for number, line in enumerate(lines, self.line)
            if number >= self.covered and (not self.of_lines or (line and not line.isspace()))
        ]
        runs: Iterable[tuple[int, int, OrdinaryBatch | None]] = [(0, len(numbered), None)]
        if self.is_ordinary:
            runs = self.messages.ordinary.runs(
                [line for _, line in numbered], labelled=self.labelled
            )
        for first, last, batch in runs:
            self.handle_run(numbered[first:last], batch)
        self.line += len(lines)
        self.state.lines = max(self.line, self.covered)

    def handle_run(
        self, numbered: Sequence[tuple[int, bytes]], batch: OrdinaryBatch | None
    ) -> None:
        """Process numbered lines, which are ordinary where ``batch`` holds them."""
        opened, errors = list[Opened](), dict[int, StreamCANError]()
        if batch is None:
            lines = self.parser.parse(numbered)
            opened = lines.content
            self.count_normalised(lines.n_divided)
            errors = {i: line for i, line in enumerate(opened) if isinstance(line, StreamCANError)}
        else:
            self.count_normalised(batch.off)
        bad = list(errors)
        if bad and self.stops:
            opened = opened[: bad[0]]
        values = (
            self.learn(lines._replace(content=opened)) if batch is None
            else self.learn_ordinary(batch)
        )  # fmt: skip
        if values:
            with naming("standard output"):
                self.write(values)
        self.notices.faults(opened, numbered, self.first)
        self.notices.new_episodes()
        if bad and self.stops:
            number, _ = numbered[bad[0]]
            self.state.lines = number
            self.saver.save()
            saved = f"; the {self.unit}s before it are out and saved" if self.saver.path else ""
            error = errors[bad[0]]
            raise BadLine(
                f"{self.unit} {number - self.first + 1}: {type(error).__name__}: {error}{saved}"
            )
        with naming("dead letters"):
            for i in bad:
                number, line = numbered[i]
                letter = letter_of(self.unit, number - self.first + 1, line, errors[i])
                write_all(self.letters, letter)
        self.state.counts.dead_letters += len(bad)

    def learn(self, lines: OpenedLines) -> list[bytes]:
        """Correct the predictions and learn the labels, in order; return the output lines."""
        learner, messages = self.learner, self.messages
        opened, names, P, label_rows, _ = lines
        columns = learner.segments
        predictions, labels, lanes = list[Prediction](), list[LateLabel](), list[Name]()
        for i, parsed in enumerate(opened):
            if isinstance(parsed, Prediction):
                predictions.append(parsed)
                if names:
                    lanes.append(names[i])
                if parsed.label is not None:
                    due = len(predictions)
                    label = messages.label_of(parsed.label)
                    labels.append(LateLabel(None, label, due, due - 1, weight=parsed.weight))
            elif isinstance(parsed, Label):
                label = messages.label_of(parsed.index)
                late = LateLabel(parsed.id, label, len(predictions), weight=parsed.weight)
                if parsed.number >= 0:
                    late.row = label_rows[parsed.number]
                    if parsed.segments is not None:
                        late.segments = dict(zip(columns, parsed.segments, strict=True))
                if names:
                    late.model, late.version = names[i]
                labels.append(late)
        rows = P
        if len(P) != len(predictions):
            rows = rows_at(P, [prediction.number for prediction in predictions])
        segments = None
        if columns:
            segments = table(columns, [prediction.segments for prediction in predictions])
        corrected = self.play(
            [messages.id_of(prediction.message, None) for prediction in predictions],
            rows,
            labels,
            segments=segments,
            lanes=lanes if names else None,
        )
        sent = messages.finished(corrected.rows)
        for prediction, reason in zip(predictions, corrected.asked, strict=True):
            prediction.ask_reason = reason
        for prediction, names_ in zip(predictions, corrected.sets or (), strict=False):
            prediction.set = names_
        return messages.write_all(predictions, sent)

    def learn_ordinary(self, batch: OrdinaryBatch) -> list[bytes]:
        """Correct and learn a batch of ordinary lines; return the output lines."""
        labelled = batch.labelled
        labels = [
            LateLabel(None if labelled else id, name, due, due - 1 if labelled else None)
            for id, name, due in batch.labels
        ]
        corrected = self.play(batch.ids, batch.rows, labels)
        return batch.write(self.messages.finished(corrected.rows), corrected.asked, corrected.sets)

    def play(
        self, ids: Sequence[bytes | None], rows: Any, labels: Sequence[LateLabel], **options: Any
    ) -> Corrected:
        """Pass rows and labels through the learner, and count."""
        corrected = self.learner.play(ids, rows, labels, **options)
        counts = self.state.counts
        counts.predictions += len(ids)
        for outcome, n in Counter(corrected.outcomes).items():
            self.outcomes[outcome] += n
            setattr(counts, outcome, getattr(counts, outcome) + n)
        if labels and self.outcomes.total() >= MANY_LABELS:
            self.notices.unknown_ids(self.outcomes)
        return corrected

    def count_normalised(self, n: int) -> None:
        """Count rows that were divided by their sum."""
        self.normalised += n
        if n:
            self.notices.divided_rows()

    def finish(self) -> None:
        """Save what is unsaved, and say what was counted."""
        self.saver.save()
        self.notices.unknown_ids(self.outcomes)
        counts = self.state.counts
        text = (
            f"{counts.predictions} prediction{'s' * (counts.predictions != 1)}, {counts.learned}"
            f" label{'s' * (counts.learned != 1)} learned with theirs, {counts.unknown} without,"
            f" {counts.dead_letters} bad {self.unit}{'s' * (counts.dead_letters != 1)}"
        )
        if self.covered:
            text += " since the state began"
        if counts.repeated:
            text += f", {counts.repeated} more for predictions that had theirs"
        if self.normalised:
            text += f", {self.normalised} rows divided by their sum"
        if changed := self.learner.changed_labels:
            text += f", {changed} that said otherwise than the first"
        complain(text + self.notices.gain())
