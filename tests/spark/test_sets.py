"""Prediction sets in Spark, beyond what `test_suite` sees: a fixed state, and each key's own."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.ml.functions import array_to_vector

from stream_can import Corrector
from stream_can.spark import Learning, correct, correct_by_key
from tests.spark.streams import CLASSES, label
from tests.spark.tenants import SCHEMA as SCHEMA_BY_KEY
from tests.spark.tenants import events, run, stream, write


def rows(n=200, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(4, 0.7), n).tolist()


def lived_in():
    """A corrector with sets that have learned."""
    P, corrector = rows(300, seed=5), Corrector(CLASSES, sets=0.8)
    for p in P:
        _, receipt = corrector.process_one(p, receipt=True)
        corrector.learn_one(p, label(p), receipt=receipt)
    return corrector


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("receipt", [None, "receipt"])
def test_a_fixed_state_gives_each_row_the_set_of_now(spark, vectors, receipt):
    P, corrector = rows(), lived_in()
    df = spark.createDataFrame(list(enumerate(P)), "id long, probs array<double>").repartition(3)
    df = df.withColumn("probs", array_to_vector("probs")) if vectors else df
    out = correct(df, corrector.to_bytes(), probs="probs", receipt=receipt, set_into="can be")
    assert out.columns[-1] == "can be"
    found = {row.id: row["can be"] for row in out.collect()}
    assert found == {i: corrector.predict_set_one(p) for i, p in enumerate(P)}
    assert {len(names) for names in found.values()} >= {2, 3}


def test_bad_rows_and_classes_that_are_no_text(spark):
    df = spark.createDataFrame([(1, [0.6, 0.3]), (2, [0.6, 0.4])], "id long, probs array<double>")
    out = correct(df, Corrector([True, 7], sets=0.9), probs="probs", errors="null").collect()
    assert [(row.corrected is None, row.set) for row in out] == [
        (True, None),
        (False, ["true", "7"]),
    ]


def test_a_column_that_is_there_already(spark):
    df = spark.createDataFrame([(1, [0.6, 0.4], 1)], "id long, probs array<double>, set long")
    with pytest.raises(ValueError, match="there is a column set already"):
        correct(df, Corrector(["a", "b"], sets=0.9), probs="probs")
    assert correct(df, Corrector(["a", "b"]), probs="probs").count() == 1


SCHEMA = "id long, time double, probs array<double>, label string"


def test_labels_that_cannot_be_used_teach_nothing(spark, tmp_path):
    data = [(1, 1.0, [0.1, 0.2, 0.3, 0.4], "x"), (2, 2.0, [0.1, 0.9], "a"), (3, 3.0, None, "a"),
            (4, 4.0, [0.1, 0.2, 0.3, 0.4], "a"), (5, 5.0, [0.1, 0.9], None)]  # fmt: skip
    learning = Learning(Corrector(CLASSES, sets=0.9), tmp_path / "state", errors="null")
    found = {}
    learning.then(lambda out, n: found.update({row.id: row.set for row in out.collect()}))(
        spark.createDataFrame(data, SCHEMA), 0
    )
    assert found == {5: None}
    assert learning.corrector.n_labels == 2  # one of them without its prediction
    assert learning.corrector.set_counts[1] == 1


def test_sets_may_begin_later_and_another_promise_begins_anew(spark, tmp_path):
    folder, learned = tmp_path / "state", []
    data = [(i, float(i), p, None) for i, p in enumerate(rows(60))]
    data += [(i, 500.0 + i, p, label(p)) for i, p in enumerate(rows(40))]
    for n, sets in enumerate([None, 0.8, 0.8, 0.9]):
        learning = Learning(Corrector(CLASSES, sets=sets), folder)
        learning.then(lambda out, n: out.collect())(spark.createDataFrame(data, SCHEMA), n)
        learned.append(learning.corrector.set_counts[1])
    assert learned == [0, 40, 80, 40]


def test_each_key_has_sets_of_its_own(spark, tmp_path):
    data, start = events(400, seed=3), Corrector(["a", "b", "c"], half_life=50, sets=0.8)
    write(spark, data, tmp_path / "in")
    corrected = correct_by_key(stream(spark, tmp_path / "in"), "tenant", start)
    assert corrected.columns[-2:] == ["corrected", "set"]
    run(corrected, tmp_path, tmp_path / "out")
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    found = {row.id: (row.corrected, row.set) for row in out}
    expected = {}
    for tenant in "ab":
        own = Corrector.from_bytes(start.to_bytes())
        for row in sorted(
            (row for row in data if row[0] == tenant), key=lambda row: (row[2], row[4] is not None)
        ):
            _, i, _, p, y, _ = row
            if y is None:
                sent, receipt = own.process_one(p, receipt=True)
                expected[i] = sent.tolist(), own.set_of(sent, receipt)
                continue
            own.learn_one(p, y)
        assert own.set_counts[1] > 90
    assert len(found) == 400
    assert found == expected


def test_sets_may_be_added_to_the_checkpoint_of_a_query(spark, tmp_path):
    data = events(400, seed=3)
    out = tmp_path / "out"
    write(spark, [row for row in data if row[-1] < 2], tmp_path / "in")
    start = Corrector(["a", "b", "c"], half_life=50)
    run(correct_by_key(stream(spark, tmp_path / "in"), "tenant", start), tmp_path, out)
    later = [row for row in data if row[-1] >= 2]
    spark.createDataFrame(later, SCHEMA_BY_KEY).coalesce(1).write.mode("append").parquet(
        str(tmp_path / "in")
    )
    start = Corrector(["a", "b", "c"], half_life=50, sets=0.8)
    run(correct_by_key(stream(spark, tmp_path / "in"), "tenant", start), tmp_path, out)
    found = spark.read.option("mergeSchema", True).parquet(str(out)).collect()
    assert {row.id for row in found if row.set} == {i for _, i, _, _, y, _ in later if y is None}
    assert len(found) == 400
