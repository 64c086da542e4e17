"""Declared columns in the status document, with the scores of their values."""

from __future__ import annotations

from stream_can.app.shown_name import shown_name
from stream_can.app.status import Column, FewValues, Value
from stream_can.column_scores import HEAVIEST, ColumnScores, ValueScores


def column_of(name: str, column: ColumnScores) -> Column:
    """Scores by value of a column; of many values only the most frequent are named."""
    few = column.one_sided()
    return Column(
        name=shown_name(name),
        rows=column.rows,
        labels=column.labels,
        values=[_value(value) for value in column.values(HEAVIEST)],
        few=few and FewValues([shown_name(value.value) for value in few[0]], *few[1:]),
    )


def _value(value: ValueScores) -> Value:
    pairs = (*value.accuracy, *value.log_loss, *value.calibration)
    scores = pairs if value.scored else (None,) * len(pairs)
    return Value(shown_name(value.value), value.rows, value.labels, value.scored, *scores)
