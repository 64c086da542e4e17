"""Labels of JSON lines that stand on lines of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stream_can.messages.ids import id_of_float, id_of_text
from stream_can.messages.probability_formats import BadMessage
from stream_can.recording.cells import field
from stream_can.recording.table import InvalidRecording, LabelLines, Names


class JoinedLabels:
    """Joins labels on lines of their own to the rows before them; ids and labels stay in memory.

    Parameters
    ----------
    name
        Name of the file.
    names
        Names of the fields.
    """

    def __init__(self, name: str, names: Names) -> None:
        self._name, self._names = name, names
        self.by_row: dict[int, list[tuple[Any, int]]] = {}
        """Row -> its labels, each with the number of rows before its line."""
        self.lines = LabelLines()

    def is_label(self, row: dict[str, Any]) -> bool:
        """Whether a line has a label and no probabilities."""
        probs, label, _ = self._names
        return (
            field(row, label) is not None
            and field(row, probs) is None
            and not any(
                name.startswith(probs.partition("*")[0])
                for name, cell in row.items()
                if name != label and cell is not None
            )
        )

    def join(self, objects: Iterable[dict[str, Any]]) -> int:
        """Find the row of each label on a line of its own; return the number of rows.

        It is the latest row before the label with its id.

        Raises
        ------
        InvalidRecording
            No row has the field that the user named for the ids.
        """
        rows = labels = unjoined = 0
        first_unjoined, may_be_rows = "", False
        latest: dict[str, int] = {}
        for number, row in enumerate(objects, 1):
            is_label = self.is_label(row)
            key = self._id(row, number if is_label else None)
            if not is_label:
                if key is not None:
                    latest[key] = rows
                rows += 1
                continue
            labels += 1
            may_be_rows |= key is None or any(
                isinstance(cell, float | list | dict)
                for name, cell in row.items()
                if name not in (self._names.label, self._names.id)
            )
            if key in latest:
                row_labels = self.by_row.setdefault(latest[key], [])
                row_labels.append((field(row, self._names.label), rows))
            else:
                unjoined += 1
                first_unjoined = first_unjoined or f"line {number}: {key!r}"
        if labels and not latest and self._names.id != "id":
            raise InvalidRecording(
                f"{self._name}: no prediction has the field {self._names.id!r} (--id), by which a"
                " label on a line of its own finds its prediction"
            )
        if self.by_row or not may_be_rows:
            first_id = next(iter(latest), "")
            self.lines = LabelLines(labels, unjoined, first_unjoined, first_id)
        return rows

    def _id(self, row: dict[str, Any], line: int | None) -> str | None:
        """The id of a row as text, or of the label on this line; None where it can join nothing.

        Raises
        ------
        InvalidRecording
            The id of a label is a float that stands for several ids, or for none.
        """
        id = field(row, self._names.id)
        if id is None or isinstance(id, list | dict | bool):
            return None
        try:
            return id_of_float(id) if isinstance(id, float) else id_of_text(str(id))
        except BadMessage as error:
            if line is None:
                return None
            raise InvalidRecording(f"{self._name}: line {line}: {error}") from None
