"""Learning on a stream, with each micro-batch as a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_can.corrector import Corrector
from stream_can.errors import StreamCANError
from stream_can.method.classes import ClassIndex
from stream_can.row_sums import RowSums
from stream_can.spark.columns import (
    arrays,
    check_columns,
    check_segments,
    matrix,
    quoted,
    refuse,
    segments_of,
)
from stream_can.spark.fixed import Errors, correct
from stream_can.spark.states import StateFolder
from stream_can.spark.sums import of_batch, without_decay
from stream_can.trust.alarm import Alarm


class Learning:
    """Corrects a stream of predictions with the knowledge from its labels, exactly once.

    Batch n is corrected with state n - 1, the result of all batches before. Then the output is
    written, then state n: with sums of the batch's predictions, then its labels in order. A batch
    that Spark repeats after a failure uses the same state, so its output is the same; and state n
    is a function of state n - 1 and the rows of batch n. Their partitioning changes only the last
    bits.

    Parameters
    ----------
    start
        The initial corrector and its settings. Once ``folder`` has states, these continue, and of
        ``start`` only the classes are compared, and its prediction sets are made.
    folder
        Folder of the states, ``<n>.state``: it must be visible to the driver under this path, also
        after the driver has moved. One for each checkpoint.
    probs, label, order
        Columns. A row without a label is a prediction. A row with one is a label: its ``probs`` is
        the classifier's own prediction, or null where that is gone (then it teaches the prior
        alone); labels of a batch are learned in the order of ``order``. Segments of ``start`` are
        columns of the same names; a label must repeat those of its prediction.
    into, key, errors
        See :func:`correct`. With "null" an invalid label is left out.
    receipt
        Column of receipts, which predictions get and labels may return: then the sent row is
        judged. Without one, or with null, the row by state n - 1 is judged; they are the same if a
        label arrives in the batch of its prediction.
    weight
        Column of weights of labels: how many one counts as, from 0.01 to 100; null is 1.
    set_into
        Column of prediction sets, if ``start`` makes them (``Corrector(..., sets=0.9)``): arrays of
        class names. A label judges the set of its receipt; without one the set by state n - 1.
    learn_share
        Learn this share of the labels, chosen by a hash of order, label and prediction.
    most_labels
        Maximum number of labels per batch sent to the driver, chosen in the same way.

    Raises
    ------
    ValueError
        An argument is out of range.

    See Also
    --------
    correct_by_key : a state for each key.
    """

    def __init__(
        self,
        start: Corrector,
        folder: str | Path,
        *,
        probs: str = "probs",
        label: str = "label",
        order: str = "time",
        into: str = "corrected",
        receipt: str | None = None,
        weight: str | None = None,
        set_into: str = "set",
        key: str | None = None,
        errors: Errors = "fail",
        learn_share: float = 1.0,
        most_labels: int = 100_000,
    ) -> None:
        if not 0 < learn_share <= 1:
            raise ValueError(f"learn_share: {learn_share}, expected more than 0 and at most 1")
        if most_labels < 1:
            raise ValueError(f"most_labels: {most_labels}, expected at least 1")
        self._states = StateFolder(Path(folder), start)
        self._probs, self._label, self._order = probs, label, order
        self._receipt, self._weight, self._errors = receipt, weight, errors
        self._share, self._most = learn_share, most_labels
        self._correct = partial(
            correct, probs=probs, into=into, receipt=receipt, set_into=set_into, key=key,
            errors=errors,
        )  # fmt: skip

    def then(self, output: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], None]:
        """Return the function for ``foreachBatch``.

        ``output`` receives the predictions of a batch with the new column, and the batch's number.
        It may receive a batch twice, with the same rows, and must store them once: overwrite what
        exists for that number.
        """

        def batch(df: DataFrame, n: int) -> None:
            """Correct with state n - 1, write the output, then save state n.

            A batch that is repeated after state n was saved only writes its output again.
            """
            check_columns(df, self._probs, self._label, self._order, self._receipt, self._weight)
            # Spark keeps a query's id in its checkpoint, and sets it on a batch's thread.
            query = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
            newest = self._states.check(n, query)
            state = self._states.state(n - 1)
            check_segments(df, state.segments)
            df.persist()  # read once, for output, sums and labels
            try:
                is_label = F.col(self._label).isNotNull()
                predictions = df.filter(~is_label)
                sendable = predictions if self._receipt is None else predictions.drop(self._receipt)
                output(self._correct(sendable, state), n)
                if newest < n:
                    labels = self._labels(df.filter(is_label), state.segments)
                    alarm = self._states.alarm(n - 1)
                    self._learn(state, alarm, self._sums(predictions, state), labels, n)
                    self._states.save(state, n, alarm)
            finally:
                df.unpersist()

        return batch

    @property
    def corrector(self) -> Corrector:
        """The newest state in the folder, for inspection; ``start`` before the first."""
        return self._states.last()

    @property
    def alarm(self) -> Alarm:
        """Whether the classifier itself has become worse, by the labels of all batches so far.

        The row by state n - 1 counts as sent. Episodes have times if ``order`` is a timestamp:
        those of the labels.
        """
        return self._states.last_alarm()

    # ---- batches

    def _sums(self, predictions: DataFrame, state: Corrector) -> NDArray[np.float64]:
        """Sums of the valid predictions; each partition contributes one row."""
        data = state.to_bytes()

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            corrector = without_decay(data)
            sums = RowSums(corrector).zeros()
            for batch in batches:
                P, bad = matrix(batch.column(0), corrector.classes)
                good = np.delete(np.arange(len(P)), list(bad))
                segments = segments_of(batch.take(pa.array(good)).columns[1:], corrector.segments)
                RowSums(corrector).correct(P[good], sums, segments=segments)
            yield pa.RecordBatch.from_arrays([[sums.tobytes()]], names=["sums"])

        rows = predictions.select(
            arrays(predictions, self._probs).alias("p"), *map(quoted, state.segments)
        )
        partials = rows.mapInArrow(run, "sums binary").collect()
        shape = RowSums(state).zeros().shape
        return of_batch(state, [np.frombuffer(row.sums).reshape(shape) for row in partials])

    def _labels(self, df: DataFrame, segments: Sequence[str]) -> pa.Table:
        """Labels for the driver, in order; the choice depends on the rows' content only.

        The columns of segments come last.
        """
        columns = {
            "order": F.col(self._order),
            "label": F.col(self._label),
            "p": arrays(df, self._probs),
            "weight": F.lit(None) if self._weight is None else F.col(self._weight),
            "receipt": F.lit(None) if self._receipt is None else F.col(self._receipt),
        }
        columns |= {f"segment {i}": quoted(name) for i, name in enumerate(segments)}
        keys = [name for name in columns if name != "receipt"]
        chosen = df.select(*(column.alias(name) for name, column in columns.items()))
        chosen = chosen.withColumn("hash", F.xxhash64(*keys))
        if self._share < 1:
            chosen = chosen.filter(F.pmod("hash", F.lit(1 << 30)) < int(self._share * (1 << 30)))
        chosen = chosen.orderBy("hash").limit(self._most).coalesce(1)
        return chosen.sortWithinPartitions(*keys).drop("hash").toArrow()

    def _learn(
        self, state: Corrector, alarm: Alarm, sums: NDArray[np.float64], labels: pa.Table, n: int
    ) -> None:
        """Update state n - 1 by batch n: sums of its predictions, then its labels."""
        if missing := labels["order"].null_count:
            raise StreamCANError(
                f"batch {n}: {missing} labels have no {self._order}, so their order is not known; "
                "leave them out or give them one"
            )
        P, bad = matrix(labels["p"].combine_chunks(), state.classes)
        is_null = labels["p"].is_null().to_pylist()
        bad = {i: reason for i, reason in bad.items() if not is_null[i]}
        if self._errors == "fail":
            refuse(bad, self._probs, labels["label"], self._label)
        # All predictions labelled here were sent by this state or an earlier one. So without a
        # receipt use the row by this state, before any label of the batch.
        segments = segments_of(labels.columns[5:], state.segments)
        rows, receipts = RowSums(state).correct(
            P, RowSums(state).zeros(), receipt=True, segments=segments
        )
        for i, sent in enumerate(labels["receipt"].to_pylist()):
            if sent is not None and len(sent) == receipts.shape[1]:
                receipts[i] = sent
        RowSums(state).add(sums)
        known, weights = list[int](), labels["weight"].to_pylist()
        for i, name in enumerate(labels["label"].to_pylist()):
            if i in bad:
                continue
            try:
                if is_null[i]:
                    state.learn_one(None, name, weight=weights[i])
                else:
                    known_with = {"receipt": receipts[i], "weight": weights[i]}
                    texts = segments and {column: segments[column][i] for column in segments}
                    state.learn_one(P[i], name, **known_with, segments=texts)
                    known.append(i)
            except ValueError as error:  # no class, or no weight
                if self._errors == "fail":
                    raise type(error)(f"batch {n}: {error}") from None
        index = ClassIndex(state.classes)
        ys = [index[labels["label"][i].as_py()] for i in known]
        times = labels["order"] if pa.types.is_timestamp(labels["order"].type) else None
        if times is not None:
            times = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
            times = times.take(pa.array(known, pa.int64())).to_pylist()
        alarm.learn_many(P[known], rows[known], np.array(ys, np.int64), times)
