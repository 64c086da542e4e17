"""ModelMessages: the messages of an application's models, by their classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy import float64
from numpy.typing import NDArray

from stream_can.errors import StreamCANError
from stream_can.learner.kinds import Id
from stream_can.learner.model_name import Name
from stream_can.learner.recent import LONGEST_ID
from stream_can.messages.fields import Fields
from stream_can.messages.formats import Formats
from stream_can.messages.kinds import messages_of
from stream_can.messages.messages import BadMessage, Messages
from stream_can.messages.naming import Naming
from stream_can.messages.sparse_formats import Numbering

Array = NDArray[float64]
Classes = tuple[Any, ...]
Bad = list[tuple[int, StreamCANError]]
"""Unreadable messages by position, with the reason."""


class Models(Protocol):
    """Models and versions in use."""

    @property
    def alike(self) -> bool:
        """Whether all models have the same classes, including future ones."""

    def classes(self) -> Mapping[Name, Classes]:
        """Classes of each model and version."""

    def train(self, classes: Classes) -> Array | None:
        """Training prior, shape (m,), of a model with these classes, where known."""

    def begin(self, name: Name, named: Sequence[Any] | None) -> Classes:
        """Classes of a new model and version, given those named in its first message, if any.

        Raises
        ------
        BadMessage
            It may not begin, or its classes are unknown.
        """

    def holders(self, id: Id, name: Name) -> list[Name]:
        """Models and versions that keep a prediction of an id, among those to which a label for
        ``name`` can belong."""


class ModelMessages:
    """The messages of an application's models, by their classes.

    Parameters
    ----------
    classes
        Classes of the model; with several models, those that most have.
    fields, formats
        Fields and formats of the messages.
    segments
        Names of the declared columns.
    models
        Models and versions in use.
    rows
        Name of the kind of rows.
    numbering
        What numbers the classes of rows as they appear, where they are not declared.
    """

    def __init__(
        self,
        classes: Classes,
        fields: Fields,
        formats: Formats,
        segments: Sequence[str],
        models: Models,
        *,
        rows: str,
        numbering: Numbering | None = None,
    ) -> None:
        self._rows, self._numbering, self._formats = rows, numbering, formats
        self.fields, self.segments, self.models = fields, segments, models
        self.naming = Naming(fields) if fields.model or fields.version else None
        """Which model a message names; None where they name none."""
        self._by_classes: dict[Classes, Messages] = {}
        self.first = self.of_classes(classes)
        """Those of the common classes; also extract the model of a message."""

    @property
    def widest(self) -> int:
        """Largest number of classes of a row."""
        return max(messages.widest for messages in self._by_classes.values())

    def of_classes(self, classes: Classes) -> Messages:
        """Messages of models with these classes."""
        messages = self._by_classes.get(classes)
        if messages is None:
            train = self.models.train(classes)
            messages = messages_of(
                self._rows, classes, self.fields, train, self.segments, self._formats,
                numbering=self._numbering,
            )  # fmt: skip
            self._by_classes[classes] = messages
        return messages


def too_long(id: bytes) -> BadMessage:
    """The error of an id that no learner keeps."""
    return BadMessage(f"id: {len(id):,} bytes, expected at most {LONGEST_ID:,}")
