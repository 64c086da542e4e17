"""LineParser: tells predictions from labels, and reads both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from stream_can.errors import StreamCANError
from stream_can.learner.learner import Learner
from stream_can.learner.model_name import ONLY, Name
from stream_can.messages.label import Label
from stream_can.messages.messages import BadMessage, Messages
from stream_can.messages.naming import Naming
from stream_can.messages.parsing import Opened, OpenedLabels, OpenedPredictions
from stream_can.messages.records import Line
from stream_can.pipe.notices import Notices

MOST_MODELS = 1000
"""Maximum number of models and versions; more suggest that a wrong field is named."""


class OpenedLines(NamedTuple):
    """Parsed lines."""

    content: list[Opened]
    names: list[Name]
    """Model and version of each, where configured."""
    rows: Any
    """Rows of the predictions."""
    label_rows: Any
    """Rows that labels carry."""
    n_divided: int
    """Number of rows that were divided by their sum."""


class LineParser:
    """Reads lines, or records of a container file.

    Parameters
    ----------
    messages
        The parser of messages.
    learner
        Its models and versions are known.
    labelled
        Whether a prediction's line may carry its own label.
    of_lines
        Whether these are lines of JSON.
    notices
        Told of lines with both probabilities and a label.
    """

    def __init__(
        self,
        messages: Messages,
        learner: Learner,
        notices: Notices,
        *,
        labelled: bool,
        of_lines: bool,
    ) -> None:
        self.messages, self.learner, self.notices = messages, learner, notices
        self.labelled, self.of_lines = labelled, of_lines
        fields = messages.fields
        self.naming = Naming(fields) if (fields.model or fields.version) else None
        name = messages.label_path[-1]
        quoted = msgspec.json.encode(name)
        # A line without this text has no label, which saves a search. A name that JSON can write in
        # several ways, such as one with an umlaut, proves nothing; then a colon is searched, which
        # every line has.
        self.in_labels = quoted if quoted == f'"{name}"'.encode("ascii", "ignore") else b":"

    def parse(self, numbered: Sequence[tuple[int, bytes]]) -> OpenedLines:
        """Parse lines."""
        predictions = OpenedPredictions(self.messages, labelled=self.labelled)
        labels, are_labels, contents = OpenedLabels(self.messages), list[bool](), list[Any]()
        for _, line in numbered:
            message, is_label = self.open_line(line)
            (labels if is_label else predictions).append(Line(line), message)
            are_labels.append(is_label)
            contents.append(message)
        of_predictions, P, off = predictions.checked()
        of_labels, label_rows = labels.checked()
        by_kind = iter(of_predictions), iter(of_labels)
        opened: list[Opened] = [next(by_kind[is_label]) for is_label in are_labels]
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
        return OpenedLines(opened, names, P, label_rows, off)

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
        self.notices.both_in_a_line()
        return message, False
