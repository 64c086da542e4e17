"""Packed recordings and standard input: copied within bounds, and nothing of them stays behind."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pytest

from stream_can.recording import spool
from stream_can.recording.recording import Recording
from stream_can.recording.table import InvalidRecording

pytestmark = pytest.mark.fast
LINES = b"probs_a,probs_b,label\n" + b".25,.75,a\n" * 300_000
PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of temporary files."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    return found


@pytest.mark.parametrize("suffix", PACKED)
def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Before, 3.6 MB filled the disk."""
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(PACKED[suffix](LINES))
    assert Recording(path).rows == 300_000
    monkeypatch.setattr(spool, "LEAST_MOST", 2 << 20)
    with pytest.raises(InvalidRecording, match=rf"a.csv{suffix}: unpacks to over 2 MB, more than"):
        Recording(path)
    monkeypatch.setattr(spool, "TIMES", 100_000)
    assert Recording(path).rows == 300_000
    assert [*folder.iterdir()] == []


def test_a_container_of_packed_blocks_is_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"x": " " * 10_000}] * 400, codec="deflate")
    monkeypatch.setattr(spool, "LEAST_MOST", 2 << 20)
    with pytest.raises(InvalidRecording, match=r"a.avro: unpacks to over 2 MB, more than 100"):
        Recording(path)


def test_the_disk_keeps_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = spool.FREE_BYTES - 1

    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(LINES))
    monkeypatch.setattr(spool.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(InvalidRecording, match=r"gz: its copy in .*; set TMPDIR to a folder with"):
        Recording(path)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it has a name")
def test_a_copy_has_no_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing stays behind a process that is killed. Before, its file did."""

    class Stdin:
        buffer: Any = io.BytesIO(LINES)

    monkeypatch.setattr(sys, "stdin", Stdin)
    recording = Recording("-")
    assert [*folder.iterdir()] == []
    assert recording.rows == 300_000
    assert sum(len(chunk.y) for chunk in recording.chunks()) == 300_000


def frame(first: int) -> pl.DataFrame:
    rows = [[0.25, 0.75], [0.5, 0.5]]
    return pl.DataFrame({"n": [first, first + 1], "probs": rows, "label": [1, 0]})


def test_the_values_of_sparse_vectors_of_spark_are_taken_with_their_places(tmp_path: Path) -> None:
    vectors = [
        {"type": 1, "size": None, "indices": None, "values": [0.25, 0.5, 0.25]},
        {"type": 0, "size": 3, "indices": [1], "values": [1.0]},
    ]
    file = tmp_path / "a.parquet"
    pl.DataFrame({"probability": vectors, "label": [1, 2]}).write_parquet(file)
    for probs in ("probability.values", "probability"):
        (chunk,) = Recording(file, probs=probs).chunks()
        assert chunk.P.tolist() == [[0.25, 0.5, 0.25], [0, 1, 0]]


def test_a_folder_of_parts_is_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    """As Spark writes it."""
    folder = tmp_path / "written"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for k in (1, 0):
        frame(2 * k).write_parquet(folder / f"part-{k:05}.parquet")
        frame(2 * k).write_ipc_stream(tmp_path / f"data-{k}.arrow")
    recording = Recording(folder, segments=["n"])
    (chunk,) = recording.chunks()
    assert chunk.segments is not None
    assert chunk.segments["n"].tolist() == ["0", "1", "2", "3"]
    (stream,) = Recording(tmp_path / "data-0.arrow").chunks()
    assert stream.y.tolist() == [1, 0]
    (folder / "notes.csv").touch()
    with pytest.raises(InvalidRecording, match=r"a folder with .csv, .parquet, expected parts of"):
        Recording(folder)
    (tmp_path / "lines").mkdir()
    for k in (0, 1):
        (tmp_path / "lines" / f"{k}.jsonl").write_text('{"probs": [0.5, 0.5], "label": 1}\n')
    assert Recording(tmp_path / "lines").rows == 2
