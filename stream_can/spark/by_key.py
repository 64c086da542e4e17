"""A corrector per key of a stream, kept in Spark's state store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import ArrayType, DoubleType, StringType, StructType

from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError, UnknownClass
from stream_can.method.classes import json_name
from stream_can.spark.columns import (
    arrays,
    check_columns,
    check_segments,
    matrix,
    quoted,
    refuse,
)
from stream_can.spark.fixed import Errors

__all__ = ["correct_by_key"]


def correct_by_key(
    df: DataFrame,
    key: str,
    start: Corrector,
    *,
    probs: str = "probs",
    label: str = "label",
    order: str = "time",
    into: str = "corrected",
    set_into: str = "set",
    errors: Errors = "fail",
) -> DataFrame:
    """Correct a stream with a state per key: tenants, devices, models.

    The rows of a key in a micro-batch are processed in order: predictions are corrected and
    observed, labels learned; at equal times predictions come first.

    A key's state is one value in Spark's state store, which must be RocksDB
    (``spark.sql.streaming.stateStore.providerClass``). It moves with the key, and is committed with
    the batch.

    Parameters
    ----------
    df
        A streaming DataFrame.
    key
        Column of keys.
    start
        Initial corrector of each key.
    probs, label, order, into, set_into, errors
        See :class:`Learning`; with "null" for ``errors`` invalid rows and labels teach nothing.
        Segments of ``start`` are columns too; each key has its own values. A label judges the set
        that would be sent when it is learned.

    Returns
    -------
    The predictions, in order within each key, without ``label`` and with the new array columns; a
    streaming DataFrame for the output mode "append".
    """
    check_columns(
        df, key, probs, label, order, new=[into, None if start.sets is None else set_into]
    )
    check_segments(df, start.segments)
    df = df.withColumn(probs, arrays(df, probs))
    fields = [field for field in df.schema.fields if field.name != label]
    schema = StructType(fields).add(into, ArrayType(DoubleType(), containsNull=False))
    if start.sets is not None:
        schema = schema.add(set_into, ArrayType(StringType(), containsNull=False))
    # As text, because pandas turns integers beside null into floats.
    texts = {f"{into} segment {i}": quoted(name) for i, name in enumerate(start.segments)}
    df = df.withColumns({name: column.cast("string") for name, column in texts.items()})
    processor = _ByKey(
        start.to_bytes(), df.columns, key, probs, label, order, into, errors, set_into
    )
    return df.groupBy(key).transformWithStateInPandas(processor, schema, "append", "none")


class _ByKey(StatefulProcessor):  # type: ignore[misc]
    """The processor that Spark calls with the rows of each key."""

    def __init__(
        self,
        start: bytes,
        columns: list[str],
        key: str,
        probs: str,
        label: str,
        order: str,
        into: str,
        errors: Errors,
        set_into: str,
    ) -> None:
        self._start, self._columns, self._key, self._errors = start, columns, key, errors
        self._set_into = set_into
        self._probs, self._label, self._order, self._into = probs, label, order, into

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("corrector", "snapshot binary")
        self._sets = Corrector.from_bytes(self._start).sets

    def handleInputRows(  # noqa: N802, Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Process the rows of one key in one micro-batch.

        A label without its row (``gone``) teaches the class mix alone, so a missing row is no error
        there. Predictions that are no probability vectors become None.
        """
        state = self._state.get()[0] if self._state.exists() else self._start
        corrector = Corrector.from_bytes(bytes(state), sets=self._sets)
        frame = pd.concat(list(rows), ignore_index=True)
        frame.columns = pd.Index(self._columns)  # Spark names some "_5", which are not words
        column = pa.array(frame[self._probs], pa.list_(pa.float64()))
        P, bad = matrix(column, corrector.classes)
        gone, is_label = column.is_null().to_pylist(), frame[self._label].notna().tolist()
        if self._errors == "fail":
            keys = [f"{key[0]}, {self._order} = {time}" for time in frame[self._order]]
            wrong = {i: why for i, why in bad.items() if not (is_label[i] and gone[i])}
            refuse(wrong, self._probs, keys, self._key)
        names = corrector.segments
        texts = {name: frame.pop(f"{self._into} segment {i}") for i, name in enumerate(names)}
        given = pd.DataFrame(texts).to_dict("records") or None
        corrected: list[Any] = [None] * len(P)
        found: list[Any] = [None] * len(P)
        places = self._in_order(frame, is_label, P, given, key)
        for i in places:
            if i in bad and not (is_label[i] and gone[i]):
                continue
            if not is_label[i]:
                own = given and given[i]
                if self._sets is None:
                    corrected[i] = corrector.process_one(P[i], segments=own)
                    continue
                corrected[i], receipt = corrector.process_one(P[i], receipt=True, segments=own)
                found[i] = [json_name(name) for name in corrector.set_of(corrected[i], receipt)]
                continue
            try:
                corrector.learn_one(
                    None if gone[i] else P[i],
                    frame[self._label][i],
                    segments=given and given[i],
                )
            except UnknownClass as error:
                if self._errors == "fail":
                    raise UnknownClass(f"{self._key} = {key[0]}: {error}") from None
        self._state.update((corrector.to_bytes(),))
        frame[self._into] = corrected
        if self._sets is not None:
            frame[self._set_into] = found
        kept = frame.loc[[i for i in places if not is_label[i]]]
        yield kept.drop(columns=self._label)

    def _in_order(
        self,
        frame: pd.DataFrame,
        is_label: list[bool],
        P: Any,
        given: list[dict[str, Any]] | None,
        key: tuple[Any, ...],
    ) -> list[int]:
        """Sort rows by time, predictions first; Spark delivers those of a key in no order."""
        times = frame[self._order]
        if times.isna().any():
            raise StreamCANError(
                f"{self._key} = {key[0]}: {times.isna().sum()} rows have no {self._order}, "
                "so their order is not known; leave them out or give them one"
            )
        # Spark's own order must not matter. Rows equal in all of this are interchangeable.
        labels = frame[self._label].astype(str)
        return sorted(
            range(len(P)),
            key=lambda i: (
                times[i], is_label[i], labels[i], P[i].tobytes(), str(given and given[i])
            ),
        )  # fmt: skip
