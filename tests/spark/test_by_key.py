"""`correct_by_key`: each key as one corrector makes it that sees its rows in order."""

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.spark import by_key, correct_by_key
from tests.spark.tenants import CLASSES, SCHEMA, events, folded, run, stream, write


def test_each_key_is_one_corrector_that_saw_its_rows_in_order(spark, tmp_path):
    rows, start = events(400, seed=3), Corrector(CLASSES, half_life=50)
    write(spark, rows, tmp_path / "in")
    corrected = correct_by_key(stream(spark, tmp_path / "in"), "tenant", start)
    assert "label" not in corrected.columns
    run(corrected, tmp_path, tmp_path / "out")
    found = {row.id: row.corrected for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    expected, correctors = folded(rows, start)
    assert correctors.keys() == {*"ab"}
    assert all(own.n_labels > 100 for own in correctors.values())
    assert len(found) == 400
    assert found == expected


def test_labels_have_weights(spark, tmp_path):
    weights = np.random.default_rng(0).uniform(0.01, 100, 30).tolist()
    p, own = [0.2, 0.3, 0.5], Corrector(CLASSES)
    rows = [("a", i, float(i), p, CLASSES[i % 3], w) for i, w in enumerate(weights)]
    rows.append(("a", 30, 30.0, p, None, None))
    schema = "tenant string, id long, time double, probs array<double>, label string, w double"
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    run(correct_by_key(source, "tenant", Corrector(CLASSES), weight="w"), tmp_path,
        tmp_path / "out")  # fmt: skip
    for i, w in enumerate(weights):
        own.learn_one(p, CLASSES[i % 3], weight=w)
    (row,) = spark.read.parquet(str(tmp_path / "out")).collect()
    assert row.corrected == own.process_one(p).tolist()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a", 1, None, [0.2, 0.3, 0.5], None, 0), "tenant = a: 1 rows have no time"),
        (("a", 1, 2.0, None, None, 0), "tenant = a, time = 2.0: null"),
        (("a", 1, 2.0, [0.2, 0.3, 0.5], "d", 0), "tenant = a: label 'd' is none of the 3 classes"),
    ],
)
def test_what_cannot_be_used_stops_the_query_by_name(spark, tmp_path, row, message):
    write(spark, [row], tmp_path / "in")
    corrected = correct_by_key(stream(spark, tmp_path / "in"), "tenant", Corrector(CLASSES))
    with pytest.raises(Exception, match=message):
        run(corrected, tmp_path, tmp_path / "out")


def test_what_cannot_be_used_may_be_passed_over(spark, tmp_path):
    good = [0.2, 0.3, 0.5]
    rows = [
        ("a", 1, 1.0, [0.2, 0.3], None, 0),
        ("a", 2, 2.0, good, "d", 0),
        ("a", 3, 3.0, [1.0], "a", 0),
        ("a", 4, 4.0, good, None, 0),
    ]
    write(spark, rows, tmp_path / "in")
    start = Corrector(CLASSES)
    corrected = correct_by_key(stream(spark, tmp_path / "in"), "tenant", start, errors="null")
    run(corrected, tmp_path, tmp_path / "out")
    found = {row.id: row.corrected for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert found == {1: None, 4: start.process_one(good).tolist()}


def of_many_keys():
    """Rows of more keys from batch to batch, most of one; some without a key, some labels late."""
    rng, rows = np.random.default_rng(8), []
    for batch, n_keys in enumerate((30, 300, 900)):
        tenants = [*map(str, range(n_keys)), *["0"] * 500, *[None] * 20]
        P = rng.dirichlet([0.6, 0.6, 0.6], len(tenants)).tolist()
        for i, (tenant, p) in enumerate(zip(tenants, P, strict=True)):
            time = float(batch * 1000 + rng.integers(500))
            rows.append((tenant, batch * 10_000 + i, time, p, None, batch))
            if i % 2:  # at the time of its row, later, or in a batch that comes before times of it
                time += float(rng.choice([0, 40, 2000]))
                rows.append((tenant, -1, time, p, CLASSES[int(np.argmin(p))], batch))
    return rows


@pytest.mark.parametrize("groups", [1, 256])
def test_keys_are_many_and_unequal_and_some_rows_have_none(spark, tmp_path, monkeypatch, groups):
    monkeypatch.setattr(by_key, "GROUPS", groups)
    rows, start = of_many_keys(), Corrector(CLASSES, half_life=50)
    write(spark, rows, tmp_path / "in")
    corrected = correct_by_key(stream(spark, tmp_path / "in"), "tenant", start)
    run(corrected, tmp_path, tmp_path / "out")
    found = {row.id: row.corrected for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    expected, correctors = folded(rows, start)
    assert len(correctors) == 901
    assert found == expected


def test_other_columns_pass_unchanged(spark, tmp_path):
    schema = SCHEMA + ", big long, one struct<a: int, b: string>, `odd name.` date"
    made = [(2**60 + 1, (1, "x"), None), (None, None, None), (-(2**60) - 1, (None, None), None)]
    rows = [("a", i, float(i), [0.2, 0.3, 0.5], None, 0, *more) for i, more in enumerate(made)]
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    corrected = correct_by_key(source, "tenant", Corrector(CLASSES))
    assert corrected.schema["big"] == source.schema["big"]
    run(corrected, tmp_path, tmp_path / "out")
    out = spark.read.parquet(str(tmp_path / "out")).sort("id").collect()
    assert [(row.big, row.one and tuple(row.one), row["odd name."]) for row in out] == made


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ("tenant", "double", "column tenant is double, expected text, integers, booleans or dates"),
        ("time", "boolean", "column time is boolean, expected times, numbers or text"),
        ("label", "array<string>", "column label is array<string>, expected names of classes"),
        ("probs", "string", "column probs is string, expected vectors or arrays of numbers"),
        ("corrected", "int", "there is a column corrected already"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_before_anything_runs(spark, column, kind, message):
    fields = dict(field.split(" ") for field in SCHEMA.split(", ")) | {column: kind}
    df = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in fields.items()))
    with pytest.raises((TypeError, ValueError), match=message):
        correct_by_key(df, "tenant", Corrector(CLASSES))
