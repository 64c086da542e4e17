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
import pytest

from stream_can.recording import source
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
    monkeypatch.setattr(source, "LEAST_MOST", 2 << 20)
    with pytest.raises(InvalidRecording, match=rf"a.csv{suffix}: unpacks to over 2 MB, more than"):
        Recording(path)
    monkeypatch.setattr(source, "TIMES", 100_000)
    assert Recording(path).rows == 300_000
    assert [*folder.iterdir()] == []


def test_a_container_of_packed_blocks_is_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"x": " " * 10_000}] * 400, codec="deflate")
    monkeypatch.setattr(source, "LEAST_MOST", 2 << 20)
    with pytest.raises(InvalidRecording, match=r"a.avro: unpacks to over 2 MB, more than 100"):
        Recording(path)


def test_the_disk_keeps_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = source.FREE_BYTES - 1

    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(LINES))
    monkeypatch.setattr(source.shutil, "disk_usage", lambda path: Usage)
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
