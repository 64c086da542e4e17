"""Prediction sets in Spark: of a fixed state, of a stream that learns, of each key."""

import math

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.ml.functions import array_to_vector

from stream_can import Corrector, SnapshotMismatch, StreamCANError
from stream_can.spark import Learning, correct, correct_by_key
from stream_can.trust.sets import PredictionSets
from tests.spark.streams import CLASSES, label, next_set
from tests.spark.tenants import SCHEMA as SCHEMA_BY_KEY
from tests.spark.tenants import events, run, stream, write


def learned(classes=CLASSES, n=300, seed=5):
    """Sets, and a corrector, that have learned."""
    rng, sets = np.random.default_rng(seed), PredictionSets(classes, 0.2)
    for p in rng.dirichlet(np.full(len(classes), 0.7), n):
        sets.learn_one(p, classes[int(np.argmax(p[::-1]))], sets.set_one(p)[1])
    return sets


def rows(n=200, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(4, 0.7), n).tolist()


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("receipt", [None, "receipt"])
def test_a_fixed_state_gives_each_row_the_set_of_the_next(spark, tmp_path, vectors, receipt):
    P, sets, corrector = rows(), learned(), Corrector(CLASSES)
    corrector.learn_many(P[:50], [label(p) for p in P[:50]])
    df = spark.createDataFrame(list(enumerate(P)), "id long, probs array<double>").repartition(3)
    df = df.withColumn("probs", array_to_vector("probs")) if vectors else df
    (tmp_path / "sets").write_bytes(sets.to_bytes())
    for given in (sets, sets.to_bytes(), tmp_path / "sets"):
        out = correct(df, corrector, probs="probs", receipt=receipt, sets=given, set_into="can be")
        assert out.columns[-1] == "can be"
        found = {row.id: row["can be"] for row in out.collect()}
        assert found == {i: next_set(sets, row) for i, row in enumerate(corrector.correct_many(P))}
    assert {len(names) for names in found.values()} >= {2, 3}


def test_bad_rows_and_classes_that_are_no_text(spark):
    df = spark.createDataFrame([(1, [0.6, 0.3]), (2, [0.6, 0.4])], "id long, probs array<double>")
    sets = PredictionSets([True, 7], 0.1)
    out = correct(df, Corrector([True, 7]), probs="probs", sets=sets, errors="null").collect()
    assert [(row.corrected is None, row.set) for row in out] == [
        (True, None),
        (False, ["true", "7"]),
    ]


def test_what_a_fixed_state_refuses(spark):
    df = spark.createDataFrame([(1, [0.6, 0.4], 1)], "id long, probs array<double>, set long")
    corrector = Corrector(["a", "b"])
    with pytest.raises(
        TypeError, match=r"sets: 0\.9, but a fixed state learns nothing: .*Learning"
    ):
        correct(df, corrector, probs="probs", sets=0.9, set_into="s")
    with pytest.raises(SnapshotMismatch, match=r"sets: of classes \['a', 'b', 'c', 'd'\], the sta"):
        correct(df, corrector, probs="probs", sets=learned(), set_into="s")
    with pytest.raises(SnapshotMismatch, match="no prediction sets"):
        correct(df, corrector, probs="probs", sets=corrector.to_bytes(), set_into="s")
    with pytest.raises(ValueError, match="there is a column set already"):
        correct(df, corrector, probs="probs", sets=PredictionSets(["a", "b"]))
    assert correct(df, corrector, probs="probs").count() == 1  # without sets it may be there


# ---- a stream that learns


SCHEMA = "id long, time double, probs array<double>, label string"


def batch(spark, n):
    """Predictions of batch n, and labels of two in three rows of the batch before."""
    data = [(i, float(i), p, None) for i, p in enumerate(rows(120, seed=n))]
    late = enumerate(rows(120, seed=n - 1) if n else [])
    data += [(i, 500.0 + i, p, label(p)) for i, p in late if i % 3]
    return spark.createDataFrame(data, SCHEMA).repartition(2)


def played(learning, df, n):
    found = {}
    learning.then(lambda out, n: found.update({row.id: row.set for row in out.collect()}))(df, n)
    return found


def test_labels_teach_them_and_a_batch_that_comes_again_gives_the_same(spark, tmp_path):
    """Bit for bit the plain loop over labels, with the rows as the state before would send them."""
    folder = tmp_path / "state"
    learning, sets = Learning(Corrector(CLASSES), folder, sets=0.8), PredictionSets(CLASSES, 0.2)
    assert learning.prediction_sets is None
    for n in range(5):
        before = learning.corrector
        first = played(learning, batch(spark, n), n)
        sent = before.correct_many(rows(120, seed=n))
        assert first == {i: next_set(sets, row) for i, row in enumerate(sent)}
        for i, p in enumerate(rows(120, seed=n - 1) if n else []):
            if i % 3:
                row = before.correct_one(p)
                sets.learn_one(row, label(p), sets.set_one(row)[1])
        assert learning.prediction_sets.to_bytes() == sets.to_bytes()
        again = Learning(Corrector(CLASSES), folder, sets=0.8)
        assert played(again, batch(spark, n), n) == first
        assert again.prediction_sets.to_bytes() == sets.to_bytes()
    assert {path.name for path in folder.iterdir()} == {"checkpoint"} | {
        f"{n}.{kind}" for n in (2, 3, 4) for kind in ("state", "sets", "alarm")
    }
    plain = Learning(Corrector(CLASSES), tmp_path / "plain")
    for n in range(5):
        plain.then(lambda out, n: out.collect())(batch(spark, n), n)
    assert plain.corrector.to_bytes() == learning.corrector.to_bytes()


def test_a_batch_that_died_between_sets_and_state_comes_again(spark, tmp_path):
    folder = tmp_path / "state"
    learning = Learning(Corrector(CLASSES), folder, sets=0.8)
    for n in range(2):
        first = played(learning, batch(spark, n), n)
        state, sets = learning.corrector.to_bytes(), learning.prediction_sets.to_bytes()
        (folder / f"{n}.state").unlink()
        assert learning.prediction_sets is None or learning.prediction_sets.to_bytes() != sets
        assert played(learning, batch(spark, n), n) == first
        assert learning.corrector.to_bytes() == state
        assert learning.prediction_sets.to_bytes() == sets


def test_sets_may_begin_later_and_a_gap_or_another_promise_is_refused(spark, tmp_path):
    folder = tmp_path / "state"
    played_plain = Learning(Corrector(CLASSES), folder)
    for n in range(2):
        played_plain.then(lambda out, n: out.collect())(batch(spark, n), n)
    learning = Learning(Corrector(CLASSES), folder, sets=0.8)
    for n in (2, 3):
        played(learning, batch(spark, n), n)
    assert learning.prediction_sets._learned == 160
    with pytest.raises(StreamCANError, match=r"sets: .*3\.sets may miss 0\.2, not 0\.1; remove"):
        played(Learning(Corrector(CLASSES), folder, sets=0.9), batch(spark, 4), 4)
    (folder / "3.sets").unlink()
    with pytest.raises(StreamCANError, match=r"sets 3 are missing in .*; bring them back, or remo"):
        played(learning, batch(spark, 4), 4)
    (folder / "2.sets").unlink()  # as it says
    played(learning, batch(spark, 4), 4)
    assert learning.prediction_sets._learned == 80


def test_labels_that_cannot_be_used_teach_nothing(spark, tmp_path):
    data = [(1, 1.0, [0.1, 0.2, 0.3, 0.4], "x"), (2, 2.0, [0.1, 0.9], "a"), (3, 3.0, None, "a"),
            (4, 4.0, [0.1, 0.2, 0.3, 0.4], "a"), (5, 5.0, [0.1, 0.9], None)]  # fmt: skip
    learning = Learning(Corrector(CLASSES), tmp_path / "state", sets=0.9, errors="null")
    assert played(learning, spark.createDataFrame(data, SCHEMA), 0) == {5: None}
    assert learning.corrector.n_labels == 2  # one of them without its prediction
    assert learning.prediction_sets._learned == 1


@pytest.mark.parametrize("sets", [0, 1, 90, "0.9", math.nan])
def test_what_is_no_share_is_refused(spark, tmp_path, sets):
    with pytest.raises(ValueError, match=r"sets: .*expected the share that sets promise"):
        Learning(Corrector(CLASSES), tmp_path, sets=sets)
    df = spark.createDataFrame([], "tenant string, time double, probs array<double>, label string")
    with pytest.raises(ValueError, match=r"sets: .*expected the share that sets promise"):
        correct_by_key(df, "tenant", Corrector(CLASSES), sets=sets)


# ---- a state for each key


def test_each_key_has_sets_of_its_own(spark, tmp_path):
    data, start = events(400, seed=3), Corrector(["a", "b", "c"], half_life=50)
    write(spark, data, tmp_path / "in")
    corrected = correct_by_key(stream(spark, tmp_path / "in"), "tenant", start, sets=0.8)
    assert corrected.columns[-2:] == ["corrected", "set"]
    run(corrected, tmp_path, tmp_path / "out")
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    found = {row.id: (row.corrected, row.set) for row in out}
    expected = {}
    for tenant in "ab":
        own, sets = Corrector.from_bytes(start.to_bytes()), PredictionSets(["a", "b", "c"], 0.2)
        for row in sorted(
            (row for row in data if row[0] == tenant), key=lambda row: (row[2], row[4] is not None)
        ):
            _, i, _, p, y, _ = row
            if y is None:
                sent = own.process_one(p)
                expected[i] = sent.tolist(), sets.set_one(sent)[0]
                continue
            if p is not None:
                now = own.correct_one(p)
                sets.learn_one(now, y, sets.set_one(now)[1])
            own.learn_one(p, y)
        assert sets._learned > 90
    assert len(found) == 400
    assert found == expected


def test_sets_may_be_added_to_the_checkpoint_of_a_query(spark, tmp_path):
    data, start = events(400, seed=3), Corrector(["a", "b", "c"], half_life=50)
    out = tmp_path / "out"
    write(spark, [row for row in data if row[-1] < 2], tmp_path / "in")
    run(correct_by_key(stream(spark, tmp_path / "in"), "tenant", start), tmp_path, out)
    later = [row for row in data if row[-1] >= 2]
    spark.createDataFrame(later, SCHEMA_BY_KEY).coalesce(1).write.mode("append").parquet(
        str(tmp_path / "in")
    )
    run(correct_by_key(stream(spark, tmp_path / "in"), "tenant", start, sets=0.8), tmp_path, out)
    found = spark.read.option("mergeSchema", True).parquet(str(out)).collect()
    assert {row.id for row in found if row.set} == {i for _, i, _, _, y, _ in later if y is None}
    assert len(found) == 400
    more = [(tenant, i + 1000, *rest) for tenant, i, *rest in later]
    spark.createDataFrame(more, SCHEMA_BY_KEY).coalesce(1).write.mode("append").parquet(
        str(tmp_path / "in")
    )
    with pytest.raises(StreamingQueryException, match=r"may miss 0\.2, not 0\.1; another promise"):
        run(
            correct_by_key(stream(spark, tmp_path / "in"), "tenant", start, sets=0.9), tmp_path, out
        )
