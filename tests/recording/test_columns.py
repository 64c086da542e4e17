"""Columns of a recording: the same texts from every format, and what is none is named."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from stream_can.recording import Recording, from_arrays
from stream_can.recording.table import InvalidRecording

pytestmark = pytest.mark.fast

N = 40
P = np.random.default_rng(0).dirichlet(np.ones(2), N)
CARRIER = [["AA", "B6", None, "7"][i % 4] for i in range(N)]
HOUR = [i % 24 for i in range(N)]
WHOLE = [float(i % 5) for i in range(N)]
WET = [i % 3 == 0 for i in range(N)]
TEXTS = {
    "carrier": CARRIER,
    "hour": [str(hour) for hour in HOUR],
    "whole": [str(int(number)) for number in WHOLE],
    "wet": [str(wet).lower() for wet in WET],
}
COLUMNS = list(TEXTS)


def table():
    return pl.DataFrame(
        {"probs_a": P[:, 0], "probs_b": P[:, 1], "label": ["a", "b"] * (N // 2)}
        | {"carrier": CARRIER, "hour": HOUR, "whole": WHOLE, "wet": WET}
    )


def write(folder, form):
    file, found = folder / f"stream.{form}", table()
    if form == "npz":
        arrays = {name: np.array(found[name].to_list()) for name in COLUMNS[1:]}
        carrier = np.array(CARRIER, object)
        np.savez(file, probs=P, label=found["label"].to_list(), carrier=carrier, **arrays)
        return file
    write = {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}
    getattr(found, write.get(form, "write_ipc"))(file)
    return file


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "feather", "npz"])
def test_every_format_gives_the_same_texts(tmp_path, form):
    classes = {"classes": ["a", "b"]} if form == "npz" else {}
    recording = Recording(write(tmp_path, form), segments=COLUMNS, **classes)
    assert len(recording.classes) == 2
    chunks = list(recording.chunks(16))
    for name, expected in TEXTS.items():
        assert [text for chunk in chunks for text in chunk.segments[name]] == expected
    assert recording.labelled_with_segments().segments["hour"].tolist() == TEXTS["hour"]
    assert all(chunk.segments is None for chunk in Recording(recording.path, **classes).chunks())


def test_columns_inside_of_fields_and_beside_labels_on_lines_of_their_own(tmp_path):
    file = tmp_path / "stream.jsonl"
    lines = [
        {"id": i, "probs": P[i].tolist(), "customer": {"country": "NL" if i % 2 else None}}
        for i in range(6)
    ] + [{"id": i, "label": 1, "customer": {"country": "no"}} for i in range(6)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (chunk,) = Recording(file, segments=["customer.country"]).chunks()
    assert chunk.segments["customer.country"].tolist() == [None, "NL"] * 3
    assert chunk.arrives.all()


def test_a_code_that_looks_like_a_number_keeps_its_digits_and_may_become_a_word(tmp_path):
    file = tmp_path / "stream.csv"
    rows = [f"0.5,0.5,a,{i % 1000:03d}" for i in range(200_000)] + ["0.5,0.5,a,XY"]
    file.write_text("probs_a,probs_b,label,code\n" + "\n".join(rows) + "\n")
    chunks = list(Recording(file, segments=["code"]).chunks())
    assert chunks[0].segments["code"][:1000].tolist() == [f"{i:03d}" for i in range(1000)]
    assert chunks[-1].segments["code"][-1] == "XY"


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "npz"])
def test_a_measurement_is_named_with_its_row(tmp_path, form):
    file = tmp_path / f"stream.{form}"
    age = np.arange(N) + 0.5 * (np.arange(N) == 20)
    found = table().with_columns(age=age)
    if form == "npz":
        np.savez(file, probs=P, label=[0, 1] * (N // 2), age=age)
    else:
        write = {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}[form]
        getattr(found, write)(file)
    with pytest.raises(InvalidRecording, match=r"row 21: segments: age: 20\.5 is a measurement"):
        list(Recording(file, segments=["age"]).chunks(7))


def test_columns_that_are_not_there_or_are_something_else(tmp_path):
    file = write(tmp_path, "csv")
    with pytest.raises(InvalidRecording, match="no column 'gone' for segments; the file has"):
        Recording(file, segments=["gone"])
    for name in ("label", "probs_a"):
        with pytest.raises(InvalidRecording, match=f"'{name}' holds labels, times or prob"):
            Recording(file, segments=[name])
    with pytest.raises(ValueError, match="'hour' is named twice"):
        Recording(file, segments=["hour", "hour"])


def test_columns_of_arrays_are_checked():
    y = np.zeros(N, int)
    with pytest.raises(ValueError, match="'x': expected 40 values"):
        from_arrays(P, y, segments={"x": ["a"]})
    with pytest.raises(ValueError, match=r"'x' of row 0: 0\.5 is a measurement"):
        from_arrays(P, y, segments={"x": np.full(N, 0.5)})
