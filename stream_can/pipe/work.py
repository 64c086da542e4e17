"""Process lines with a learner, and save the state."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from stream_can import snapshot
from stream_can.errors import StreamCANError
from stream_can.learner import Corrected, LateLabel
from stream_can.learner.kinds import hit_rate, total
from stream_can.learner.lane import ONLY, Name
from stream_can.messages.columns import table
from stream_can.messages.messages import BadMessage, Label, Messages, Prediction
from stream_can.messages.naming import Naming
from stream_can.messages.opening import Opened, OpenedLabels, OpenedPredictions, rows_at
from stream_can.messages.ordinary import OrdinaryBatch
from stream_can.messages.records import Line
from stream_can.method.state import rows_at_once
from stream_can.pipe.output import complain, letter_of, naming, write_all
from stream_can.pipe.statefile import PipeState
from stream_can.trust.alarm import Episode

__all__ = ["BadLine", "HowRead", "Run", "Saver"]

MOST_MODELS = 1000
"""Maximum number of models and versions; more suggest that a wrong field is named."""

MANY_LABELS = 100
"""Labels from which on it is said at once that most of them find no prediction."""
SECONDS, SHARE = 1.0, 0.1
"""Minimum time between saves, and maximum share of the time spent saving."""


class Saver:
    """Saves a state after a number of lines or a time, which grows with the cost of a save."""

    def __init__(self, state: PipeState, path: Path | None, save_every: int) -> None:
        self.state, self.path, self.save_every = state, path, save_every
        self.unsaved = 0
        self.due = time.monotonic() + SECONDS

    @property
    def lines_left(self) -> int:
        """Number of lines until the next save."""
        return self.save_every - self.unsaved

    def seconds_left(self) -> float | None:
        """Seconds until a save is due; None where nothing needs saving."""
        if self.path is None or not self.unsaved:
            return None
        return max(0.0, self.due - time.monotonic())

    def count_lines(self, lines: int) -> None:
        """Count processed lines."""
        self.unsaved += lines
        if self.unsaved >= self.save_every:
            self.save()

    def save_if_due(self) -> None:
        """Save if the time has come."""
        if self.seconds_left() == 0:
            self.save()

    def save(self) -> None:
        """Save now, if a state is kept."""
        started = time.monotonic()
        if self.path is not None:
            snapshot.save(self.state.to_bytes(), self.path)
        ended = time.monotonic()
        self.due = ended + max(SECONDS, (ended - started) * (1 / SHARE - 1))
        self.unsaved = 0


class BadLine(StreamCANError):
    """The line at which ``errors="fail"`` stopped."""


class OpenedLines(NamedTuple):
    """Parsed lines."""

    content: list[Opened]
    names: list[Name]
    """Model and version of each, where configured."""
    rows: Any
    """Rows of the predictions."""
    label_rows: Any
    """Rows that labels carry."""


class HowRead(NamedTuple):
    """How lines are parsed."""

    messages: Messages
    labelled: bool
    """Whether a prediction's line may carry its own label."""
    stops: bool
    """Whether the first bad line ends the run."""


class Run:
    """Passes the lines of one run through the learner.

    Line numbers continue over the life of the state file.
    """

    def __init__(
        self,
        saver: Saver,
        how: HowRead,
        write: Callable[[list[bytes]], None],
        letters: BinaryIO,
        skip: bool,
        *,
        lines: bool = True,
    ) -> None:
        self.saver, self.state, self.learner = saver, saver.state, saver.state.learner
        self.messages, self.labelled, self.stops = how
        self.write, self.letters = write, letters
        self.of_lines, self.unit = lines, "line" if lines else "record"
        self.covered = self.state.lines
        self.most = rows_at_once(self.messages.widest)
        self.first = self.line = 0 if skip else self.covered
        self.warned_of_both = self.warned_of_sums = self.warned_of_values = self.warned_of_ids = (
            False
        )
        self.outcomes: Counter[str] = Counter()
        """Outcomes of the labels of this run."""
        self.normalised = 0
        self.episodes: dict[Name, Episode] = dict(self.learner.episodes)
        fields = self.messages.fields
        self.naming = Naming(fields) if (fields.model or fields.version) else None
        self.ordinary = lines and self.naming is None
        name = self.messages.label_path[-1]
        quoted = msgspec.json.encode(name)
        # A line without this text has no label, which saves a search. A name that JSON can write in
        # several ways, such as one with an umlaut, proves nothing; then a colon is searched, which
        # every line has.
        self.in_labels = quoted if quoted == f'"{name}"'.encode("ascii", "ignore") else b":"

    def take(self, lines: Sequence[bytes]) -> None:
        """Process lines, write their output, save when due.

        Called with no lines after a time without input: a save may be due.
        """
        start = 0
        while start < len(lines):
            batch = lines[start : start + min(self.saver.lines_left, self.most)]
            start += len(batch)
            self.handle(batch)
            self.saver.count_lines(len(batch))
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
        if self.ordinary:
            runs = self.messages.runs([line for _, line in numbered], labelled=self.labelled)
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
            lines = self.parse(numbered)
            opened = lines.content
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
        self.warn(numbered, opened)
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

    def parse(self, numbered: Sequence[tuple[int, bytes]]) -> OpenedLines:
        """Parse lines."""
        predictions = OpenedPredictions(self.messages, labelled=self.labelled)
        labels, are_labels, contents = OpenedLabels(self.messages), list[bool](), list[Any]()
        for _, line in numbered:
            message, is_label = self.open_line(line)
            (labels if is_label else predictions).add(Line(line), message)
            are_labels.append(is_label)
            contents.append(message)
        of_predictions, P, off = predictions.checked()
        of_labels, label_rows = labels.checked()
        by_kind = iter(of_predictions), iter(of_labels)
        opened: list[Opened] = [next(by_kind[is_label]) for is_label in are_labels]
        self.count_normalised(off)
        names = []
        if self.naming is not None:
            known = set(self.learner.models)
            for i, (parsed, message) in enumerate(zip(opened, contents, strict=True)):
                names.append(ONLY)
                if isinstance(parsed, StreamCANError) or parsed is None:
                    continue
                try:
                    names[i] = self.name_of(parsed, message, known)
                except BadMessage as error:
                    opened[i] = error
        return OpenedLines(opened, names, P, label_rows)

    def count_normalised(self, n: int) -> None:
        """Count rows that were divided by their sum, and say so once."""
        self.normalised += n
        if n and not self.warned_of_sums:
            self.warned_of_sums = True
            complain("rows that do not sum to 1 are divided by their sum; see normalise")

    def name_of(self, parsed: Opened, message: Any, known: set[Name]) -> Name:
        """Model and version of a line; BadMessage where it names none, or too many."""
        naming, find = self.naming, self.messages.predictions.find
        assert naming is not None
        if isinstance(parsed, Label):
            return naming.of_label(find, message, ())
        model, version = naming.of_prediction(find, message, ())
        name = model or None, version or None
        known.add(name)
        if len(known) > MOST_MODELS:
            known.discard(name)
            raise BadMessage(
                f"{' '.join(filter(None, name))!r} would be one more than {MOST_MODELS} models and"
                " versions; does --model or --version name the field that it should?"
            )
        return name

    def learn(self, lines: OpenedLines) -> list[bytes]:
        """Correct the predictions and learn the labels, in order; return the output lines."""
        learner, messages = self.learner, self.messages
        opened, names, P, label_rows = lines
        columns = learner.segments
        predictions, labels, lanes = list[Prediction](), list[LateLabel](), list[Name]()
        for i, parsed in enumerate(opened):
            if isinstance(parsed, Prediction):
                predictions.append(parsed)
                if names:
                    lanes.append(names[i])
                if parsed.label is not None:
                    due = len(predictions)
                    labels.append(LateLabel(None, messages.label_of(parsed.label), due, due - 1))
            elif isinstance(parsed, Label):
                late = LateLabel(parsed.id, messages.label_of(parsed.index), len(predictions))
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
            self.warn_of_ids()
        return corrected

    def warn_of_ids(self) -> None:
        """Say once that most labels of this run find no prediction."""
        unknown, labels = self.outcomes["unknown"], self.outcomes.total()
        if self.warned_of_ids or unknown <= self.outcomes["learned"]:
            return
        self.warned_of_ids = True
        complain(
            f"{unknown} of {labels} labels so far name no prediction before them: is"
            f" {self.messages.fields.id!r} the field of the id in both?"
        )

    def warn(self, numbered: Sequence[tuple[int, bytes]], opened: Sequence[Opened]) -> None:
        """Report noteworthy things about the lines and the classifier on standard error."""
        if not self.warned_of_values:
            for (number, _), parsed in zip(numbered, opened, strict=False):
                if isinstance(parsed, Prediction) and parsed.fault is not None:
                    self.warned_of_values = True
                    at = number - self.first + 1
                    complain(f"{self.unit} {at}: {parsed.fault}; others are not told of")
                    break
        for name, episode in self.learner.episodes.items():
            if self.episodes.get(name) is not episode:
                self.episodes[name] = episode
                complain(episode.text(" ".join(filter(None, name))))

    def open_line(self, line: bytes) -> tuple[Any, bool]:
        """Open a line, or return its error; and tell whether it is a label.

        A label has the label field and no probabilities, or echoes the raw row (``probs_raw``)
        beside them.
        """
        messages = self.messages
        try:
            message = messages.open(line)
        except BadMessage as error:
            return error, False
        if self.labelled or (self.of_lines and self.in_labels not in line):
            return message, False
        find = messages.predictions.find
        label, probs = find(message, messages.label_path), find(message, messages.probs_path)
        if probs is None or bytes(probs) == b"null":
            return message, label is not None
        if label is None or bytes(label) == b"null":
            return message, False
        raw = None if messages.raw_path is None else find(message, messages.raw_path)
        if raw is not None and bytes(raw) != b"null":
            return message, True
        if not self.warned_of_both:
            self.warned_of_both = True
            names, unit = messages.fields, self.unit
            complain(
                f"a {unit} has both {names.probs!r} and {names.label!r}: it is corrected, its"
                f" label is not learned; if {unit}s carry their own label, say so with labelled"
            )
        return message, False

    def finish(self) -> None:
        """Save what is unsaved, and say what was counted."""
        self.saver.save()
        self.warn_of_ids()
        counts = self.state.counts
        text = (
            f"{counts.predictions} predictions, {counts.learned} labels learned with theirs, "
            f"{counts.unknown} without, {counts.dead_letters} bad {self.unit}s"
        )
        if counts.repeated:
            text += f", {counts.repeated} labels of predictions that had theirs"
        if self.normalised:
            text += f", {self.normalised} rows divided by their sum"
        if changed := self.learner.changed_labels:
            text += f", {changed} that said otherwise than the first"
        complain(text + self.gain())

    def gain(self) -> str:
        """Describe the scores of all models together."""
        raw, sent = total(self.learner.scores)
        if not sent.n:
            return ""
        name = hit_rate(sent)
        labels = "labels" if self.learner.ask is None else "labels asked for at random"
        return (
            f"; over {sent.n} {labels}: {name.replace('_', ' ')} {getattr(raw, name):.4f} -> "
            f"{getattr(sent, name):.4f}, log loss {raw.log_loss:.4f} -> {sent.log_loss:.4f}"
        )
