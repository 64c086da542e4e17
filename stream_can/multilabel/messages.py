"""Messages of multilabel rows, each with a score of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stream_can.errors import UnknownClass
from stream_can.messages.messages import BadMessage, Messages


class MultiLabelMessages(Messages):
    """Messages with a score for each label; labels are a list, or an object of true and false."""

    of_scores = True
    may_be_ordinary = False

    def _rounded(self, rows: Any, digits: int) -> Any:
        return np.round(rows, digits)

    def label_of(self, index: Any) -> Any:
        """The labels of a row, as `Learner.label` takes them."""
        return index

    def _index_of(self, label: Any, text: Raw) -> list[Any] | dict[Any, bool]:
        """Parse a list of labels, or {label: whether the row has it}; null means unknown."""
        where = self.fields.label
        if isinstance(label, dict):
            for name, is_there in label.items():
                if is_there is not None and not isinstance(is_there, bool):
                    raise BadMessage(
                        f"{where}: {_shown(name)} is {_shown(is_there)}, expected true, false or"
                        " null"
                    )
        elif not isinstance(label, list):
            type_name = "null" if label is None else type(label).__name__
            raise BadMessage(f"{where}: {type_name}, expected a list of labels, or {{label: true}}")
        columns = []
        for name in label:
            if not isinstance(name, str | int | float):
                raise BadMessage(f"{where}: {_shown(name)}, expected the name of a label")
            try:
                columns.append(self._index[name])
            except UnknownClass:
                why = f"{where}: {_shown(name)} is none of the {self._m} labels"
                raise UnknownClass(why) from None
        names = [self.classes[k] for k in columns]
        if isinstance(label, list):
            return names
        pairs = zip(names, label.values(), strict=True)
        return {name: is_there for name, is_there in pairs if is_there is not None}

    def rows_of(self, rows: Sequence[Any]) -> tuple[Any, dict[int, str], int]:
        """Stack parsed rows; also return faults, {row: reason}."""
        if self.fields.logits:
            return super().rows_of(rows)
        P = np.frombuffer(bytearray().join(rows)).reshape(-1, self._m)
        return P, _bad_scores(P, self.classes), 0


def _shown(value: Any) -> str:
    """What a label message says, cut as in other errors."""
    return repr(value)[:80]


def _bad_scores(P: NDArray[np.float64], labels: Sequence[Any]) -> dict[int, str]:
    """Faults of multilabel rows: {row: reason}."""
    with np.errstate(invalid="ignore"):
        outside = ~((P >= 0) & (P <= 1))
    columns = outside.argmax(axis=1)
    return {
        i: f"the score of label {labels[columns[i]]!r} is {P[i, columns[i]]}, expected 0 to 1"
        for i in np.flatnonzero(outside.any(axis=1)).tolist()
    }


MESSAGES = MultiLabelMessages
