"""`correct` with a state of each kind of rows: what `correct_one` of its corrector gives."""

import re

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import types as T

from stream_can.multilabel import MultiLabelCorrector
from stream_can.row_kinds import KINDS, row_kind
from stream_can.spark import correct
from stream_can.sparse import SparseCorrector

LABELS = ["a", "b", "c"]
NAMES = [f"class {i}" for i in range(40)]


@pytest.fixture(scope="module")
def multilabel():
    rng = np.random.default_rng(0)
    corrector = MultiLabelCorrector(LABELS, half_life=500)
    P = rng.beta(0.5, 1, (600, 3))
    corrector.process_many(P)
    corrector.learn_many(P, (rng.random((600, 3)) < P**0.5).astype(int))
    return corrector


def listed(n, classes, seed=0):
    """Rows that list six classes each."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        ids = rng.choice(40, 6, replace=False).tolist()
        p = rng.dirichlet(np.full(7, 0.5))[:6].tolist()
        yield {classes[i]: q for i, q in zip(ids, p, strict=True)}


@pytest.fixture(scope="module", params=["by name", "by number"])
def sparse(request):
    named = request.param == "by name"
    corrector = SparseCorrector("any" if named else 40, **({"max_classes": 50} if named else {}))
    for row in listed(400, NAMES if named else range(40), seed=1):
        corrector.process_one(row)
        corrector.learn_one(row, "class 0" if named else 0)
    return corrector


@pytest.mark.parametrize("vectors", [False, True])
def test_rows_of_several_labels(spark, multilabel, vectors, tmp_path):
    P = np.random.default_rng(1).random((300, 3))
    rows = [(i, Vectors.dense(p) if vectors else p.tolist()) for i, p in enumerate(P)]
    df = spark.createDataFrame(rows, ["id", "scores"]).repartition(3)
    path = tmp_path / "state"
    path.write_bytes(multilabel.to_bytes())
    found = []
    for state in (multilabel, multilabel.to_bytes(), path):
        better = correct(df, state, probs="scores").orderBy("id")
        assert better.schema["corrected"].dataType == (
            df.schema["scores"].dataType if vectors else T.ArrayType(T.DoubleType(), False)
        )
        found.append(np.array([[*row.corrected] for row in better.collect()]))
    assert (np.array(found) == multilabel.correct_many(P)).all()


def test_rows_of_very_many_classes(spark, sparse):
    named = sparse.names is not None
    rows = [*enumerate(listed(300, NAMES if named else range(40)))]
    if named:
        rows.append((300, {"never seen": 0.4, "class 1": 0.3}))
    keys = T.StringType() if named else T.LongType()
    schema = T.StructType().add("id", T.LongType()).add("probs", T.MapType(keys, T.DoubleType()))
    df = spark.createDataFrame(rows, schema).repartition(3)
    better = correct(df, sparse, probs="probs").orderBy("id")
    assert better.schema["corrected"].dataType == T.MapType(keys, T.DoubleType(), False)
    promoted = 0
    for (_, row), out in zip(rows, better.collect(), strict=True):
        assert out.probs == row
        in_order = dict(sorted(row.items(), key=lambda pair: (-pair[1], pair[0])))
        assert out.corrected == sparse.correct_one(in_order).probabilities
        promoted += len(out.corrected) > len(row)
    assert promoted


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (None, "null"),
        ([0.2, 0.3], "2 numbers for 3 labels"),
        ([0.2, 0.3, 1.5], "the probability of label 'c' is 1.5, expected a number from 0 to 1"),
        ([0.2, None, 0.5], "the probability of label 'b' is nan, expected a number from 0 to 1"),
    ],
)
def test_bad_rows_of_several_labels(spark, multilabel, bad, reason):
    check_bad(spark, multilabel, "array<double>", [0.2, 0.3, 0.9], bad, reason)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (None, "null"),
        ({}, "no class is listed"),
        ({"a": 0.9, "b": 0.9}, "probabilities sum to 1.8"),
        ({"a": None}, "a probability is null"),
    ],
)
def test_bad_rows_of_very_many_classes(spark, bad, reason):
    check_bad(spark, SparseCorrector("any"), "map<string,double>", {"a": 0.5}, bad, reason)


def check_bad(spark, corrector, kind, good, bad, reason):
    df = spark.createDataFrame([(1, good), (2, bad), (3, good)], f"id long, p {kind}").coalesce(1)
    with pytest.raises(Exception, match=f"column p, id = 2: {re.escape(reason)}"):
        correct(df, corrector, probs="p", key="id").collect()
    found = correct(df, corrector, probs="p", errors="null").orderBy("id").collect()
    assert [row.corrected is None for row in found] == [False, True, False]
    assert found[0].corrected == found[2].corrected


@pytest.mark.parametrize(
    ("corrector", "kind", "message"),
    [
        (MultiLabelCorrector(2), "map<string,double>", "column p is map<string,double>, expected"
         " vectors or arrays of numbers"),
        (SparseCorrector("any"), "array<double>", "column p is array<double>, expected maps of"
         " names of classes to numbers"),
        (SparseCorrector(9), "map<string,double>", "expected maps of classes, which are whole"),
        (SparseCorrector("any"), "map<string,string>", "column p is map<string,string>, expected"),
    ],
)  # fmt: skip
def test_columns_of_another_type_are_refused_at_once(spark, corrector, kind, message):
    df = spark.createDataFrame([], f"p {kind}")
    with pytest.raises(TypeError, match=message):
        correct(df, corrector, probs="p")


@pytest.mark.parametrize("corrector", [MultiLabelCorrector(2), SparseCorrector("any")])
def test_receipts_are_of_rows_of_one_label(spark, corrector):
    df = spark.createDataFrame([], "p array<double>")
    with pytest.raises(ValueError, match=r"receipt: not of (multilabel|sparse) rows; leave it out"):
        correct(df, corrector, probs="p", receipt="receipt")


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_kinds_is_true_of_spark(spark, kind):
    """Each cell of the table in docs/package.md, as tests/test_cells.py does elsewhere."""
    named, column, row = {
        "dense": (["a", "b"], "array<double>", [0.4, 0.6]),
        "multilabel": (["a", "b"], "array<double>", [0.4, 0.9]),
        "sparse": (None, "map<string,double>", {"a": 0.4, "b": 0.5}),
    }[kind]
    df = spark.createDataFrame([(row, "x")], f"p {column}, s string")
    has = row_kind(kind).has["spark"]
    corrector = row_kind(kind).new(named, {})
    assert correct(df, corrector, probs="p").columns == ["p", "s", "corrected"]
    for name, given in {"segments": {"segments": ["s"]}, "sets": {"sets": 0.9}}.items():
        if name not in has:
            with pytest.raises(TypeError, match=name):
                row_kind(kind).new(named, given)
            continue
        (out,) = correct(df, row_kind(kind).new(named, given), probs="p").collect()
        assert len(out.corrected) == 2
        assert ("set" in out) == (name == "sets")
    if "receipt" in has:
        assert correct(df, corrector, probs="p", receipt="r").columns[-1] == "r"
