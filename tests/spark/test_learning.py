"""`Learning`: what it learns of a batch, and which folders and batches it refuses."""

import numpy as np
import pytest
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F

from stream_can import Corrector, SnapshotMismatch, StreamCANError
from stream_can.row_sums import RowSums
from stream_can.spark import Learning
from tests.spark.streams import CLASSES, SCHEMA, label, learn, start


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


def rows(n=300, seed=0, first=0):
    """Predictions, then the labels of two in three of them."""
    P = np.random.default_rng(seed).dirichlet(np.full(4, 0.7), n).tolist()
    predictions = [(first + i, float(i), p, None) for i, p in enumerate(P)]
    labels = [(i, time + 500, p, label(p)) for i, time, p, _ in predictions if i % 3]
    return predictions + labels


def frame(spark, data, parts=2):
    return spark.createDataFrame(data, SCHEMA).repartition(parts)


def corrected(learning, df, n):
    """{id: row} of what a batch gives out."""
    found = {}
    learning.then(lambda out, n: found.update({row.id: row for row in out.collect()}))(df, n)
    return found


def test_vectors_teach_what_arrays_do(spark, tmp_path):
    df = frame(spark, rows())
    vectors = df.withColumn("probs", array_to_vector("probs"))
    learning = [Learning(start(), tmp_path / name) for name in "ab"]
    a = corrected(learning[0], df, 0)
    b = corrected(learning[1], vectors, 0)
    assert {i: row.corrected for i, row in a.items()} == {
        i: row.corrected.toArray().tolist() for i, row in b.items()
    }
    assert learning[0].corrector.n_labels == 200
    assert learning[0].corrector.n_predictions == 300
    assert learning[0].corrector.to_bytes() == learning[1].corrector.to_bytes()


def test_where_labels_lie_changes_nothing(spark, tmp_path):
    """Their times are equal here, so what they hold decides."""
    data = [(i, 1.0, p, y) for i, _, p, y in rows() if y is not None]
    states = []
    for parts in (1, 2, 5):
        learning = Learning(start(), tmp_path / str(parts))
        corrected(learning, frame(spark, data, parts), 0)
        states.append(learning.corrector.to_bytes())
    assert states[0] == states[1] == states[2]


def test_labels_without_their_prediction_teach_the_prior(spark, folder):
    labels = [(i, time, None, y) for i, time, _, y in rows(60) if y is not None]
    learning = Learning(start(False), folder)
    corrected(learning, frame(spark, labels), 0)
    expected = start(False)
    for _, _, _, y in labels:
        expected.learn_one(None, y)
    assert learning.corrector.to_bytes() == expected.to_bytes()


def test_labels_have_weights(spark, tmp_path):
    weights = np.random.default_rng(0).uniform(0.01, 100, 30).tolist()
    weights[3] = None
    labels = [row for row in rows(45) if row[3] is not None]
    labels[5] = (*labels[5][:2], None, labels[5][3])
    data = [(*row, weight) for row, weight in zip(labels, weights, strict=True)]
    schema = f"{SCHEMA}, w double"
    learning = Learning(start(), tmp_path / "a", weight="w")
    corrected(learning, spark.createDataFrame(data, schema).repartition(2), 0)
    own, sent = start(), start()
    for _, _, p, y, weight in data:
        learn(own, sent, p, y, weight)
    assert learning.corrector.to_bytes() == own.to_bytes()
    bad = spark.createDataFrame([(*labels[0], 0.0)], schema)
    with pytest.raises(ValueError, match=r"batch 1: weight: 0.0, expected a number from 0.01"):
        corrected(learning, bad, 1)
    passing = Learning(start(), tmp_path / "b", weight="w", errors="null")
    corrected(passing, bad, 0)
    assert passing.corrector.n_labels == 0


def test_receipts_come_back(spark, folder):
    """What was sent is judged: as with a corrector that hands receipts out."""
    data = [(*row, None) for row in rows() if row[3] is None]
    schema = f"{SCHEMA}, receipt array<float>"
    learning = Learning(start(False), folder, receipt="receipt")
    sent = corrected(learning, spark.createDataFrame(data, schema), 0)
    corrected(learning, spark.createDataFrame(rows_with(sent, data), schema), 1)
    # After labels, anchor and mixture differ; so do their receipts and what is learned by them.
    again = corrected(learning, spark.createDataFrame(data, schema), 2)
    before = Corrector.from_bytes(learning.corrector.to_bytes())
    late = rows_with(again, data)
    corrected(learning, spark.createDataFrame([*late[:50], (*late[50][:4], None)], schema), 3)
    own = Corrector.from_bytes(before.to_bytes())
    for _, _, p, y, receipt in late[:50]:
        before.learn_one(p, y, receipt=np.float32(receipt))
    learn(before, own, late[50][2], late[50][3])
    assert learning.corrector.to_bytes() == before.to_bytes()
    # What was handed out is not what the state before this batch would have sent.
    P = [p for _, _, p, _, _ in late]
    receipts = RowSums(own).correct(P, RowSums(own).zeros(), receipt=True)[1]
    assert (receipts != [receipt for *_, receipt in late]).any()


def rows_with(sent, data):
    """Labels with the receipts that were handed out."""
    return [(i, t + 500, p, label(p), sent[i].receipt) for i, t, p, _, _ in data]


def test_a_share_of_the_labels_is_chosen_by_what_they_hold(spark, tmp_path):
    data = rows(900)
    n = []
    for parts in (1, 3):
        learning = Learning(start(), tmp_path / str(parts), learn_share=0.25)
        corrected(learning, frame(spark, data, parts), 0)
        n.append(learning.corrector.n_labels)
        assert learning.corrector.n_predictions == 900
    assert n[0] == n[1]
    assert 110 < n[0] < 190  # of 600


def test_no_more_labels_than_the_driver_takes(spark, tmp_path):
    states = []
    for parts in (1, 3):
        learning = Learning(start(False), tmp_path / str(parts), most_labels=70)
        data = [row for row in rows(300) if row[3] is not None]
        corrected(learning, frame(spark, data, parts), 0)
        assert learning.corrector.n_labels == 70
        states.append(learning.corrector.to_bytes())
    assert states[0] == states[1]


BAD_LABELS = {
    "batch 0: label 'x' is none of the 4 classes": (1, 2.0, [0.1, 0.2, 0.3, 0.4], "x"),
    "column probs, label = a: 2 numbers for 4 classes": (1, 2.0, [0.1, 0.9], "a"),
    "batch 0: 1 labels have no time": (1, None, [0.1, 0.2, 0.3, 0.4], "a"),
}


@pytest.mark.parametrize("message", BAD_LABELS)
def test_a_bad_label_stops_the_batch_before_its_state(spark, folder, message):
    learning = Learning(start(False), folder)
    df = frame(spark, [*rows(20), BAD_LABELS[message]])
    with pytest.raises((StreamCANError, ValueError), match=message):
        corrected(learning, df, 0)
    assert learning.corrector.to_bytes() == start(False).to_bytes()
    corrected(learning, frame(spark, rows(20)), 0)  # mended
    assert learning.corrector.n_labels == 13


def test_bad_rows_may_be_passed_over(spark, tmp_path):
    bad = [*list(BAD_LABELS.values())[:2], (77, 1.0, [0.1], None), (78, 1.0, None, None)]
    learning = [Learning(start(), tmp_path / name, errors="null") for name in "ab"]
    with_bad = corrected(learning[0], frame(spark, rows(30) + bad), 0)
    corrected(learning[1], frame(spark, rows(30)), 0)
    assert {i for i, row in with_bad.items() if row.corrected is None} == {77, 78}
    assert learning[0].corrector.n_labels == learning[1].corrector.n_labels == 20
    assert learning[0].corrector.n_predictions == 30


# ---- folders


def test_a_batch_that_comes_again_gives_the_same_and_teaches_nothing(spark, folder):
    learning, frames = Learning(start(), folder), [frame(spark, rows(seed=n)) for n in range(5)]
    for n, df in enumerate(frames):
        first = corrected(learning, df, n)
        state = learning.corrector.to_bytes()
        assert corrected(learning, df, n) == first
        assert learning.corrector.to_bytes() == state
    kept = {f"{n}.{kind}" for n in (2, 3, 4) for kind in ("state", "alarm")}
    assert {path.name for path in folder.iterdir()} == {"checkpoint", *kept}
    # A new process goes on, whatever it is given to begin with but for classes and sets.
    other = Learning(Corrector(CLASSES, half_life=7, sets=0.8), folder)
    assert other.corrector.to_bytes() == state
    assert corrected(other, frames[4], 4) == first
    without = Learning(Corrector(CLASSES), folder)
    assert without.corrector.to_bytes() == Corrector.from_bytes(state, sets=None).to_bytes()
    assert "set" not in next(iter(corrected(without, frames[4], 4).values()))
    with pytest.raises(SnapshotMismatch, match="classes"):
        corrected(Learning(Corrector(["x", "y"]), folder), frames[4], 5)


def test_a_new_checkpoint_is_refused_an_old_folder(spark, folder):
    learning, df = Learning(start(), folder), frame(spark, rows(20))
    sc = spark.sparkContext
    for n in range(2):
        corrected(learning, df, n)
    with pytest.raises(
        StreamCANError, match=r"batch 0: .* another checkpoint, up to 1; .*1\.state"
    ):
        corrected(learning, df, 0)
    sc.setLocalProperty("sql.streaming.queryId", "another")
    try:
        with pytest.raises(StreamCANError, match=r"batch 2: .* another checkpoint"):
            corrected(learning, df, 2)
    finally:
        sc.setLocalProperty("sql.streaming.queryId", None)
    corrected(learning, df, 2)
    # The way out that the message names.
    last = Corrector.from_bytes((folder / "2.state").read_bytes())
    fresh = Learning(last, folder.parent / "new")
    corrected(fresh, df, 0)
    assert fresh.corrector.n_labels == last.n_labels + 13


def test_a_gap_is_refused(spark, folder):
    learning, df = Learning(start(), folder), frame(spark, rows(20))
    with pytest.raises(StreamCANError, match="batch 3: there is no state in"):
        corrected(learning, df, 3)
    corrected(learning, df, 0)
    with pytest.raises(StreamCANError, match="batch 2: state 1 is missing"):
        corrected(learning, df, 2)


def test_settings_are_checked(folder):
    with pytest.raises(ValueError, match="learn_share: 0, expected more than 0"):
        Learning(start(False), folder, learn_share=0)
    with pytest.raises(ValueError, match="most_labels: 0, expected at least 1"):
        Learning(start(False), folder, most_labels=0)


def test_a_column_that_is_missing_is_named(spark, folder):
    df = frame(spark, rows(20)).withColumn("p", F.col("probs")).drop("probs")
    with pytest.raises(ValueError, match="there is no column probs; the columns are id, time"):
        corrected(Learning(start(False), folder), df, 0)
