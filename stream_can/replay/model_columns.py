"""ModelColumns: columns of a recording that name the model and version of each row."""

from __future__ import annotations

from typing import NamedTuple

from stream_can.errors import StreamCANError
from stream_can.learner.model_name import Name
from stream_can.replay.labels import RecordedRows


class ModelColumns(NamedTuple):
    """Columns that name the model and version of each row; one may be None."""

    model: str | None
    version: str | None

    @property
    def columns(self) -> list[str]:
        """Those that are named."""
        return [name for name in self if name is not None]

    @property
    def title(self) -> str:
        """Name of the column with the scores of each model."""
        return " ".join(self.columns)

    def of_rows(self, events: RecordedRows) -> list[Name]:
        """Model and version of each row; StreamCANError where a row names none."""
        names_by_column: list[list[str | None]] = []
        for named_part, name in zip(("model", "version"), self, strict=True):
            if name is None:
                names_by_column.append([None] * len(events.rows))
                continue
            texts = (events.segments or {})[name].tolist()
            if None in texts:
                row = events.first + texts.index(None) + 1
                raise StreamCANError(f"row {row}: no {name!r}, which names the {named_part}")
            names_by_column.append(texts)
        return list(zip(*names_by_column, strict=True))
