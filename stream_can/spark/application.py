"""Send rows corrected by Spark to the learner of an application between Kafka topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_can.corrector import Corrector
from stream_can.spark.columns import (
    arrays,
    check_columns,
    check_segments,
    matrix,
    refuse,
    segments_of,
)
from stream_can.spark.fixed import Errors, OfApplication

if TYPE_CHECKING:
    from stream_can.kafka import ApplicationState

SECONDS = 60.0
"""Time limit for the brokers to accept an Arrow batch's rows."""


def one_label(state: OfApplication) -> Corrector:
    """The corrector of an application's state; ValueError for multilabel rows."""
    corrector = state.corrector()
    if not isinstance(corrector, Corrector):
        raise ValueError("state: it is for multilabel rows; Spark corrects rows of one label")
    return corrector


def send(
    df: DataFrame,
    state: ApplicationState,
    bootstrap_servers: Sequence[str],
    *,
    id: str,
    probs: str = "probability",
    time: str | None = None,
    topic: str | None = None,
    client: Mapping[str, Any] | None = None,
    errors: Errors = "fail",
) -> int:
    """Append rows corrected by a state to the topic of sent batches, from the executors; an action.

    `correct` with the same state gives the same rows, bit for bit. A task that Spark repeats
    appends its rows again: they are observed twice, and a label counts for the last.

    Parameters
    ----------
    df
        Predictions, as for `correct`.
    state
        State of an application without models.
    bootstrap_servers
        Brokers as seen from the executors.
    id
        Column of ids, by which labels name rows.
    probs, errors
        See `correct`; a row that is null there is left out.
    time
        Column with timestamps of the predictions.
    topic
        Topic of sent batches, if not ``application_id-sent``.
    client
        Options of kafka-python.

    Returns
    -------
    Number of rows appended.

    Raises
    ------
    ValueError, TypeError
        A column is missing or has another type.
    InvalidPrediction, ClientError
        Within Spark's own error.
    """
    data, corrector = state.to_bytes(), one_label(state)
    to, servers, options = topic or f"{state.application_id}-sent", [*bootstrap_servers], client
    check_columns(df, probs, id, *([] if time is None else [time]))
    check_segments(df, corrector.segments)
    rows = df.select(
        arrays(df, probs).alias("probs"),
        F.col(id).cast("string").alias("id"),
        (F.lit(None) if time is None else F.col(time)).cast("double").alias("time"),
        *(F.col(name).alias(f"segment {k}") for k, name in enumerate(corrector.segments)),
    )

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Correct and append a partition, on an executor."""
        from stream_can.kafka.client.options import Options
        from stream_can.kafka.client.producer import Appended, Producer
        from stream_can.kafka.engine import read_state

        executor_state, producer = read_state(data), Producer(Options(servers, options))
        corrector = one_label(executor_state)
        try:
            for batch in batches:
                P, bad = matrix(batch.column("probs"), corrector.classes)
                if errors == "fail":
                    refuse(bad, probs, batch.column("id"), id)
                if bad:
                    good = [i for i in range(len(P)) if i not in bad]
                    P, batch = P[good], batch.take(pa.array(good, pa.int64()))
                segments = [batch.column(f"segment {k}") for k in range(len(corrector.segments))]
                corrected = executor_state.correct(
                    P,
                    ids=batch.column("id").to_pylist(),
                    times=pc.fill_null(batch.column("time"), float("nan")).to_numpy(),
                    segments=segments_of(segments, corrector.segments),
                )
                records = [Appended(to, 0, None, *sent) for sent in corrected.sent]
                producer.append(records, SECONDS)
                yield pa.RecordBatch.from_pydict({"n": pa.array([len(P)], pa.int64())})
        finally:
            producer.close()

    (total,) = rows.mapInArrow(run, "n long").agg(F.sum("n")).collect()
    return int(total[0] or 0)
