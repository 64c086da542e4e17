"""Columns of segments: taken from the DataFrame by name, and each value learns from its labels."""

import numpy as np
import pytest
from pyspark.sql import functions as F

from stream_can import Corrector
from stream_can.row_sums import RowSums
from stream_can.spark import Learning, correct, correct_by_key
from stream_can.spark.sums import of_batch, without_decay

CLASSES = ["a", "b", "c", "d"]
NAMES = ["tenant", "zip code"]
SCHEMA = "id long, time double, probs array<double>, label string, tenant string, `zip code` long"
LARGE = 1 << 60
"""No float holds what is near it."""


def start(**settings):
    return Corrector(CLASSES, half_life=300, segments=NAMES, **settings)


def rows(n, seed=0, first=0):
    """Predictions and the labels of three in four; what is true depends on the tenant."""
    rng = np.random.default_rng(seed)
    found = []
    for i, p in enumerate(rng.dirichlet(np.full(4, 0.7), n).tolist()):
        tenant, code = ("x", "ü", None)[i % 3], (None, LARGE + i % 2)[i % 5 > 0]
        found.append((first + i, float(first + i), p, None, tenant, code))
        label = CLASSES[int(np.argmax(p[::-1] if tenant == "x" else p))]
        if i % 4:
            found.append((first + i, first + i + 500.0, p, label, tenant, code))
    return found


def frame(spark, data, parts=2):
    return spark.createDataFrame(data, SCHEMA).repartition(parts)


def of(row):
    """The segments of a row."""
    return dict(zip(NAMES, row[4:6], strict=True))


def many(data):
    return {name: [row[4 + i] for row in data] for i, name in enumerate(NAMES)}


@pytest.fixture(scope="module")
def taught():
    found = start()
    for row in rows(2000, seed=1):
        if row[3] is None:
            found.process_one(row[2], segments=of(row))
        else:
            found.learn_one(row[2], row[3], segments=of(row))
    return found


def test_a_fixed_state_takes_them_from_the_columns_with_their_names(spark, taught):
    data = [row for row in rows(300, seed=2) if row[3] is None]
    P = [row[2] for row in data]
    df = correct(frame(spark, data, 3), taught, probs="probs", receipt="receipt").orderBy("id")
    found = df.collect()
    assert [row.corrected for row in found] == taught.correct_many(P, segments=many(data)).tolist()
    assert [row.corrected for row in found] != taught.correct_many(P).tolist()
    own = Corrector.from_bytes(taught.to_bytes())
    for row, given in zip(found[:20], data, strict=False):
        again = Corrector.from_bytes(own.to_bytes())
        _, receipt = again.process_one(given[2], receipt=True, segments=of(given))
        assert (np.float32(row.receipt) == receipt).all()


def test_batches_are_those_of_a_fold_without_spark(spark, tmp_path):
    """Outputs and states, bit for bit, where the rows lie in one partition."""
    learning, own = Learning(start(), tmp_path / "state"), start()
    for n in range(4):
        data = rows(300, seed=n, first=300 * n)
        outputs = {}
        learning.then(
            lambda out, n, outputs=outputs: outputs.update(
                {row.id: row.corrected for row in out.collect()}
            )
        )(frame(spark, data, 1).sortWithinPartitions("id"), n)
        predictions = [row for row in data if row[3] is None]
        P = [row[2] for row in predictions]
        expected = own.correct_many(P, segments=many(predictions)).tolist()
        assert [outputs[row[0]] for row in predictions] == expected
        before, free = Corrector.from_bytes(own.to_bytes()), without_decay(own.to_bytes())
        sums = RowSums(free).zeros()
        RowSums(free).correct(P, sums, segments=many(predictions))
        RowSums(own).add(of_batch(own, [sums]))
        for row in sorted((row for row in data if row[3] is not None), key=lambda row: row[1]):
            _, (receipt,) = RowSums(before).correct(
                [row[2]],
                RowSums(before).zeros(),
                receipt=True,
                segments=many([row]),
            )
            own.learn_one(row[2], row[3], receipt=receipt, segments=of(row))
        assert learning.corrector.to_bytes() == own.to_bytes()
    assert set(own.segment_values("tenant")) == {"x", "ü"}
    assert set(own.segment_values(NAMES[1])) == {str(LARGE), str(LARGE + 1)}


def test_where_labels_lie_changes_nothing(spark, tmp_path):
    """They are equal here but for their columns, so these decide."""
    data = [(i, 1.0, [0.1, 0.2, 0.3, 0.4], "a", f"t{i % 7}", i % 3) for i in range(60)]
    states = []
    for parts in (1, 2, 5):
        learning = Learning(start(), tmp_path / str(parts), most_labels=20)
        learning.then(lambda out, n: out.collect())(frame(spark, data, parts), 0)
        assert learning.corrector.n_labels == 20
        states.append(learning.corrector.to_bytes())
    assert states[0] == states[1] == states[2]


def test_each_key_has_values_of_its_own(spark, tmp_path):
    data = rows(400, seed=3)
    frame(spark, [row for row in data if row[0] < 200], 1).write.parquet(str(tmp_path / "in"))
    later = frame(spark, [row for row in data if row[0] >= 200], 1)
    later.write.mode("append").parquet(str(tmp_path / "in"))
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    stream = stream.withColumn("key", F.lit("k"))
    query = correct_by_key(stream, "key", start()).writeStream.format("parquet")
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.option("path", str(tmp_path / "out")).trigger(
        availableNow=True
    ).start().awaitTermination()
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.columns == ["id", "time", "probs", *NAMES, "key", "corrected"]
    found, own = {row.id: row.corrected for row in out.collect()}, start()
    for row in sorted(data, key=lambda row: (row[1], row[3] is not None)):
        if row[3] is None:
            assert found[row[0]] == own.process_one(row[2], segments=of(row)).tolist()
        else:
            own.learn_one(row[2], row[3], segments=of(row))
    assert len(found) == 400


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (None, "there is no column tenant; the columns are"),
        ("1.5D", "column tenant is double, expected text, integers or booleans"),
        ("array('x')", "column tenant is array<string>, expected text"),
    ],
)
def test_a_column_that_cannot_be_one_is_refused_at_once(spark, tmp_path, column, said):
    df = frame(spark, rows(10))
    df = df.drop("tenant") if column is None else df.withColumn("tenant", F.expr(column))
    with pytest.raises((ValueError, TypeError), match=said):
        correct(df, start(), probs="probs")
    with pytest.raises((ValueError, TypeError), match=said):
        correct_by_key(df, "id", start())
    learning = Learning(start(), tmp_path / "state")
    with pytest.raises((ValueError, TypeError), match=said):
        learning.then(lambda out, n: out.collect())(df, 0)
    assert learning.corrector.n_predictions == 0
