"""A corrector per key of a stream, kept in Spark's state store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import ArrayType, DoubleType, StringType, StructType

from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.method.class_names import json_name
from stream_can.method.promise import promise_of
from stream_can.spark.columns import (
    NAMES,
    arrays,
    check_columns,
    check_segments,
    check_types,
    lists,
    map_in_arrow,
    matrix,
    quoted,
    refuse,
)
from stream_can.spark.fixed import Errors
from stream_can.spark.in_turn import InTurn
from stream_can.spark.key_states import KeyStates
from stream_can.spark.packing import pack_rows, rows_of, stream_of, unpack_rows

GROUPS = 256
"""Number of groups of keys by their hash: what Spark does for each key of a state takes it 1.3 ms,
so a state is a group's. A checkpoint belongs to this number."""
ROWS = 10_000
"""Most rows of a group that become one value."""


def correct_by_key(
    df: DataFrame,
    key: str,
    start: Corrector,
    *,
    probs: str = "probs",
    label: str = "label",
    order: str = "time",
    weight: str | None = None,
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
        Column of keys: text, numbers, dates or the like. Rows without a key are of one key, null.
    start
        Initial corrector of each key.
    probs, label, order, weight, into, set_into, errors
        See :class:`Learning`; with "null" for ``errors`` invalid rows and labels teach nothing.
        Segments of ``start`` are columns too; each key has its own values. A label judges the set
        that would be sent when it is learned.

    Returns
    -------
    The predictions, in order within each key, without ``label`` and with the new array columns; a
    streaming DataFrame for the output mode "append".

    Raises
    ------
    ValueError, TypeError
        A column is missing, has another type, or exists already.
    StreamCANError
        Within Spark's own error, when a micro-batch is computed: a row without a time, and unless
        ``errors`` is "null" a row that is no probability vector and a label that is no class.
    """
    if errors not in ("fail", "null"):
        raise ValueError(f"errors: {errors!r}, expected 'fail' or 'null'")
    new_columns = [into] if start.sets is None else [into, set_into]
    text, group = f"{into} key", f"{into} group"
    check_columns(df, key, probs, label, order, weight, new=[*new_columns, text, group])
    check_segments(df, start.segments)
    check_types(df, key, order, label)
    df = df.withColumn(probs, arrays(df, probs))
    schema = StructType([field for field in df.schema.fields if field.name != label])
    schema.add(into, ArrayType(DoubleType(), containsNull=False))
    if start.sets is not None:
        schema.add(set_into, ArrayType(StringType(), containsNull=False))
    keys = quoted(key)
    df = df.withColumns({text: keys.cast("string"), group: F.pmod(F.xxhash64(keys), F.lit(GROUPS))})
    names = _Names(df.columns[:-2], key, probs, label, order, weight, into, set_into)
    processor = _GroupProcessor(start, names, errors)
    groups = map_in_arrow(df, pack_rows, "group long, rows binary").groupBy("group")
    corrected = groups.transformWithStateInPandas(processor, "rows binary", "append", "none")
    return corrected.mapInArrow(unpack_rows, schema)


class _Names(NamedTuple):
    """Columns of the stream, and which of them hold what."""

    all: list[str]
    key: str
    probs: str
    label: str
    order: str
    weight: str | None
    into: str
    set_into: str


class _GroupProcessor(StatefulProcessor):  # type: ignore[misc]
    """The processor that Spark calls with the rows of each group."""

    def __init__(self, start: Corrector, names: _Names, errors: Errors) -> None:
        self._start, self._promise = start.to_bytes(), promise_of(start)
        self._sets = start.sets
        self._classes, self._segments = start.classes, start.segments
        self._names, self._errors = names, errors

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = KeyStates(handle)
        self._in_turn = InTurn(**self._promise)

    def handleInputRows(  # noqa: N802, Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Process the rows of a group's keys in one micro-batch."""
        corrected = self._process(rows_of(value for frame in rows for value in frame.iloc[:, 1]))
        for start in range(0, corrected.num_rows, ROWS):
            yield pd.DataFrame({"rows": [stream_of(corrected.slice(start, ROWS))]})

    def _process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The predictions, corrected, in order within each key.

        A label without its row teaches the class mix alone, so a missing row is no error there.
        Predictions that are no probability vectors become null.
        """
        columns = dict(zip(self._names.all, batch.columns, strict=False))
        _, key, probs, label, order, weight, into, set_into = self._names
        keys, times = batch.column(len(columns)).to_pylist(), columns[order]
        self._check_times(times, keys)
        P, bad = matrix(columns[probs], self._classes)
        labels, is_null = columns[label].to_pylist(), columns[probs].is_null().to_pylist()
        is_label = [not empty for empty in columns[label].is_null(nan_is_null=True).to_pylist()]
        bad = {i: why for i, why in bad.items() if not (is_label[i] and is_null[i])}
        if self._errors == "fail":
            refuse(bad, probs, {i: f"{keys[i]}, {order} = {times[i]}" for i in bad}, key)
        weights = [None] * len(P) if weight is None else columns[weight].to_pylist()
        segments: list[Any] = [None] * len(P)
        if self._segments:
            segments = pa.table({name: columns[name] for name in self._segments}).to_pylist()

        def tie(i: int) -> tuple[Any, ...]:
            """Spark's own order must not matter; rows equal in all of this are interchangeable."""
            return str(labels[i]), P[i].tobytes(), str(segments[i]), str(weights[i])

        sent: list[int] = []
        sets: list[Any] = []
        states = self._store.states_of({_text(name) for name in keys})
        for places in _in_order(keys, times, is_label, tie):
            name = keys[places[0]]
            state = states.get(_text(name), self._start)
            corrector = self._in_turn.load(state)
            for i in places:
                if not is_label[i]:
                    sent.append(i)
                    sets.append(None)
                    if i not in bad:
                        P[i], receipt = corrector.process_one(
                            P[i], receipt=True, segments=segments[i]
                        )
                        if self._sets is not None:
                            sets[-1] = [json_name(y) for y in corrector.set_of(P[i], receipt)]
                elif i not in bad:
                    try:
                        p = None if is_null[i] else P[i]
                        corrector.learn_one(p, labels[i], segments=segments[i], weight=weights[i])
                    except ValueError as error:  # no class, or no weight
                        if self._errors == "fail":
                            raise type(error)(f"{key} = {name}: {error}") from None
            states[_text(name)] = self._in_turn.dump()
        self._store.write(states)
        output = {
            name: columns[name].take(pa.array(sent, pa.int64()))
            for name in columns
            if name != label
        }
        output[into] = lists(P[sent], {at: bad[i] for at, i in enumerate(sent) if i in bad})
        if self._sets is not None:
            output[set_into] = pa.array(sets, NAMES)
        return pa.RecordBatch.from_arrays(list(output.values()), names=list(output))

    def _check_times(self, times: pa.Array, keys: list[str | None]) -> None:
        missing = times.is_null(nan_is_null=True).to_pylist()
        if any(missing):
            name = keys[missing.index(True)]
            n = sum(has_none for has_none, key in zip(missing, keys, strict=True) if key == name)
            raise StreamCANError(
                f"{self._names.key} = {name}: {n} rows have no {self._names.order}, "
                "so their order is not known; leave them out or give them one"
            )


def _text(key: str | None) -> str:
    """A key in the state store, where null is no key."""
    return "" if key is None else f"={key}"


def _in_order(
    keys: list[str | None], times: pa.Array, is_label: list[bool], tie: Callable[[int], Any]
) -> Iterator[list[int]]:
    """Rows of each key by time, predictions first."""
    ranks = pc.rank(times, tiebreaker="dense").to_numpy()
    numbers = {name: number for number, name in enumerate(dict.fromkeys(keys))}
    codes = np.array([[numbers[name] for name in keys], ranks, is_label], np.int64)
    places = np.lexsort(codes[::-1])
    new = np.diff(codes[:, places]) != 0
    for run in np.split(places, np.flatnonzero(new.any(0)) + 1):
        if len(run) > 1:
            run[:] = sorted(run.tolist(), key=tie)
    for run in np.split(places, np.flatnonzero(new[0]) + 1):
        yield run.tolist()
