"""`correct_by_key`: each key as one corrector makes it that sees its rows in order."""

import pytest

from stream_can import Corrector
from stream_can.spark import correct_by_key
from tests.spark.tenants import CLASSES, events, run, stream, write


def test_each_key_is_one_corrector_that_saw_its_rows_in_order(spark, tmp_path):
    rows, start = events(400, seed=3), Corrector(CLASSES, half_life=50)
    write(spark, rows, tmp_path / "in")
    corrected = correct_by_key(stream(spark, tmp_path / "in"), "tenant", start)
    assert "label" not in corrected.columns
    run(corrected, tmp_path, tmp_path / "out")
    found = {row.id: row.corrected for row in spark.read.parquet(str(tmp_path / "out")).collect()}
    expected = {}
    for tenant in "ab":
        own = Corrector.from_bytes(start.to_bytes())
        for row in sorted(
            (row for row in rows if row[0] == tenant), key=lambda row: (row[2], row[4] is not None)
        ):
            _, i, _, p, label, _ = row
            if label is None:
                expected[i] = own.process_one(p).tolist()
            else:
                own.learn_one(p, label)
        assert own.n_labels > 100
    assert len(found) == 400
    assert found == expected


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
