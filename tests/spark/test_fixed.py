"""`correct`: each kind of column, bit for bit what `correct_many` gives."""

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql import types as T

from stream_can import Corrector, SnapshotMismatch
from stream_can.spark import correct
from tests.spark.frames import CLASSES, KINDS, frame, rows


@pytest.fixture(scope="module")
def corrector():
    """One that has learned, so that every path takes part."""
    P = rows(3000, seed=1)
    found = Corrector(CLASSES, train_counts=[4, 3, 2, 1], half_life=500)
    found.fit(P[:1000], np.array(CLASSES)[P[:1000, ::-1].argmax(1)].tolist())
    found.process_many(P)
    found.learn_many(P, np.array(CLASSES)[P[:, ::-1].argmax(1)].tolist())
    return found


def matrix(rows, name="corrected"):
    return np.array(
        [row[name].toArray() if hasattr(row[name], "toArray") else row[name] for row in rows]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_column_is_corrected_bit_for_bit(spark, corrector, kind):
    P = rows(1000)
    df = frame(spark, P, kind)
    better = correct(df, corrector).orderBy("id")
    found = better.collect()
    if kind == "array<float>":
        P = P.astype(np.float32)
    assert (matrix(found) == corrector.correct_many(P)).all()
    assert better.columns == ["id", "probability", "s", "corrected"]
    vectors = isinstance(df.schema["probability"].dataType, VectorUDT)
    assert isinstance(better.schema["corrected"].dataType, VectorUDT) == vectors
    for before, after in zip(df.orderBy("id").collect(), found, strict=True):
        assert before == after[:3]


def test_a_state_is_a_corrector_its_bytes_or_their_file(spark, corrector, tmp_path):
    df = frame(spark, rows(50), "array<double>")
    path = tmp_path / "state.bin"
    path.write_bytes(corrector.to_bytes())
    expected = correct(df, corrector).collect()
    for state in (corrector.to_bytes(), path, str(path)):
        assert correct(df, state).collect() == expected
    path.write_bytes(b"x" * 100)
    with pytest.raises(SnapshotMismatch):
        correct(df, path)


def test_where_the_rows_lie_changes_nothing(spark, corrector):
    df = frame(spark, rows(300), "array<double>")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 7)
    try:
        cut = correct(df.repartition(5), corrector).orderBy("id").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert cut == correct(df.coalesce(1), corrector).orderBy("id").collect()


def test_receipts_are_those_of_process(spark, corrector):
    P = rows(200)
    df = correct(frame(spark, P, "array<double>"), corrector, receipt="receipt").orderBy("id")
    found = df.collect()
    assert (matrix(found) == corrector.correct_many(P)).all()
    for row, p in zip(found[:20], P, strict=False):
        again = Corrector.from_bytes(corrector.to_bytes())
        _, receipt = again.process_one(p, receipt=True)
        assert (np.float32(row.receipt) == receipt).all()


BAD = {
    "null": None,
    "3 numbers for 4 classes": [0.2, 0.3, 0.5],
    "probabilities sum to 1.5": [0.5, 0.5, 0.5, 0.0],
    "the probability of class 'b' is missing": [0.5, None, 0.5, 0.0],
    "the probability of class 'a' is -1": [-1.0, 1.0, 1.0, 0.0],
}


def broken(spark, bad):
    data = [(i, p) for i, p in enumerate([*rows(10).tolist(), bad, *rows(3).tolist()])]
    return spark.createDataFrame(data, "id long, p array<double>").coalesce(1)


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_row_is_named_by_its_key(spark, corrector, reason):
    df = broken(spark, BAD[reason])
    with pytest.raises(Exception, match=f"InvalidPrediction: column p, id = 10: {reason}"):
        correct(df, corrector, probs="p", key="id").collect()
    with pytest.raises(Exception, match="name its key column with key="):
        correct(df, corrector, probs="p").collect()


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_row_becomes_null_where_it_may(spark, corrector, reason):
    df = broken(spark, BAD[reason])
    found = correct(df, corrector, probs="p", errors="null", receipt="r").collect()
    assert [row.corrected is None for row in found] == [i == 10 for i in range(14)]
    assert [row.r is None for row in found] == [i == 10 for i in range(14)]
    good = np.vstack([rows(10), rows(3)])
    expected = corrector.correct_many(good)
    assert (matrix(row for row in found if row.corrected) == expected).all()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_null_vector_becomes_null(spark, corrector, kind):
    df = frame(spark, rows(5), kind, null=[2])
    found = correct(df, corrector, errors="null").orderBy("id").collect()
    assert [row.corrected is None for row in found] == [False, False, True, False, False]


def test_a_vector_of_another_length_is_bad(spark, corrector):
    df = spark.createDataFrame(
        [(1, Vectors.sparse(3, {0: 1.0}))],
        T.StructType().add("id", T.LongType()).add("probability", VectorUDT()),
    )
    with pytest.raises(Exception, match="id = 1: 3 numbers for 4 classes"):
        correct(df, corrector, key="id").collect()


def test_no_rows_and_a_stream(spark, corrector, tmp_path):
    df = frame(spark, rows(0), "array<double>")
    assert correct(df, corrector).collect() == []
    P = rows(100)
    frame(spark, P, "array<double>").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    query = correct(stream, corrector).writeStream.format("memory").queryName("out")
    query.trigger(availableNow=True).start().awaitTermination()
    found = spark.table("out").orderBy("id").collect()
    assert (matrix(found) == corrector.correct_many(P)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probs": "p"}, "there is no column p; the columns are id, probability, s"),
        ({"key": "key"}, "there is no column key"),
        ({"into": "s"}, "there is a column s already"),
        ({"receipt": "id"}, "there is a column id already"),
        ({"probs": "s"}, "column s is string, expected vectors or arrays of numbers"),
        ({"errors": "skip"}, "errors: 'skip', expected 'fail' or 'null'"),
    ],
)
def test_what_cannot_be_is_said_at_once(spark, corrector, arguments, message):
    df = frame(spark, rows(2), "array<double>")
    with pytest.raises((ValueError, TypeError), match=message):
        correct(df, corrector, **arguments)


def test_the_original_can_be_dropped_in_the_plan(spark, corrector):
    df = correct(frame(spark, rows(20), "dense"), corrector)
    assert df.select(F.max("id")).first()[0] == 19
    assert df.drop("probability").columns == ["id", "s", "corrected"]


def test_names_of_columns_may_have_a_dot(spark, corrector):
    df = spark.createDataFrame([(1, rows(1)[0].tolist())], "`a.b` long, `p.q` array<double>")
    (row,) = correct(df, corrector, probs="p.q", into="x.y").collect()
    assert row["x.y"] == corrector.correct_one(row["p.q"]).tolist()
