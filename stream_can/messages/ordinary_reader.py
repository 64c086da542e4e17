"""OrdinaryReader: messages that compiled code can read, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw

from stream_can.errors import UnknownClass
from stream_can.messages.fields import HEADER, Fields
from stream_can.messages.ordinary import Ordinary, OrdinaryBatch
from stream_can.messages.probability_formats import BadMessage
from stream_can.method.checks import all_fine, bad_rows
from stream_can.method.class_names import json_name
from stream_can.method.logits import of_logits
from stream_can.method.normalise import divided

__all__ = ["OrdinaryReader"]

FEW = 16
"""Messages that are not worth a batch of their own."""


class OrdinaryReader:
    """Reads runs of ordinary messages: JSON objects with all fields at the top, and with
    probabilities that are valid, perhaps divided by their sum, or a label of a known class, which
    it names.

    Parameters
    ----------
    classes, fields
        As for `Messages`.
    index_of
        Parses the text of a label to the index of its class; BadMessage, UnknownClass.
    possible
        Whether any message can be ordinary, by its format, kind of rows and columns.
    """

    def __init__(
        self,
        classes: Sequence[Any],
        fields: Fields,
        index_of: Callable[[Raw], int],
        *,
        possible: bool,
    ) -> None:
        self._classes, self._fields = classes, fields
        self._index_of, self._possible = index_of, possible
        self._known: dict[bytes, int] = {}
        """Text of a label -> index of its class."""

    @cached_property
    def _compiled(self) -> Ordinary | None:
        """Compiled reader; None where no message is ordinary."""
        fields = self._fields
        names = [name for name in (fields.probs, fields.raw, fields.label, fields.id) if name]
        if not self._possible or len({*names}) < len(names):
            return None
        if any("." in name or name.startswith(HEADER) or _plain(name) is None for name in names):
            return None
        raw = msgspec.json.encode(fields.raw) if fields.raw else None
        id = None if fields.id is None else fields.id.encode()
        classes = tuple(_plain(json_name(name)) for name in self._classes)
        return Ordinary(classes, fields.probs.encode(), raw, fields.label.encode(), id)

    def runs(
        self, values: Sequence[bytes | None], *, labelled: bool = False, labels: bool = True
    ) -> Iterator[tuple[int, int, OrdinaryBatch | None]]:
        """Cut messages into runs, (first, last, batch): ordinary ones, which are read together, and
        others without a batch. These get longer while others are frequent. See :meth:`read`."""
        at, n, stretch = 0, len(values), FEW
        while at < n:
            batch = self.read(values[at:], labelled=labelled, labels=labels)
            if batch is None:
                yield at, n, None
                return
            size = batch.size
            if size >= FEW or size == n - at:
                yield at, at + size, batch
                if size > 4 * stretch:
                    stretch = FEW
                at, size = at + size, 0
            if at < n:
                last = min(n, at + size + stretch)
                yield at, last, None
                at, stretch = last, 2 * stretch

    def read(
        self, values: Sequence[bytes | None], *, labelled: bool = False, labels: bool = True
    ) -> OrdinaryBatch | None:
        """Read messages up to the first that is not ordinary.

        Parameters
        ----------
        values
            The messages; None is not ordinary.
        labelled
            Whether predictions may carry their own label.
        labels
            Whether labels are ordinary.

        Returns
        -------
        The batch of those before it, perhaps empty; None where none of such messages is ordinary.
        """
        batch = None if self._compiled is None else self._compiled.read(values, labelled)
        if batch is None:
            return None
        end = batch.size
        if self._fields.logits:
            batch.rows, bad = of_logits(batch.rows)
            if bad:
                end = batch.line_of(min(bad))
        elif not all_fine(batch.rows):
            batch.rows, batch.off = divided(batch.rows, self._fields.normalise)
            if bad := bad_rows(batch.rows):
                end = batch.line_of(min(bad))
        if batch.labels and not labels:
            end = min(end, batch.labels[0][2])
            batch.labels.clear()
        known = self._known
        for k, (id, text, due) in enumerate(batch.labels):
            index = known.get(text)
            if index is None:
                try:
                    index = self._index_of(Raw(text))
                except (BadMessage, UnknownClass):
                    end = min(end, due - 1 if labelled else due + k)
                    break
                if len(known) > 4 * len(self._classes) + 100:  # 1, 1.0, 1.00 ...
                    known.clear()
                known[text] = index
            batch.labels[k] = id, self._classes[index], due
        if end < batch.size:
            return self.read(values[:end], labelled=labelled, labels=labels)
        return batch


def _plain(name: str) -> bytes | None:
    """A name in JSON without its quotes; None where something in it is escaped."""
    text = name.encode()
    return text if msgspec.json.encode(name) == b'"%b"' % text else None
