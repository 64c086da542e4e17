"""Corrected rows as a file: read back they are the rows, to the bit."""

import contextlib
import csv
import json
from pathlib import Path

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.errors import StreamCANError
from stream_can.recording.output import CorrectedFile
from stream_can.recording.recording import Recording
from tests.cli.command import stream_can

P = np.random.default_rng(0).dirichlet([1, 1, 1], 200)
NAMES = ["cat", "dög", "a,b"]


def read(path):
    if path.suffix == ".npy":
        return np.load(path), None
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return np.array([one["probs"] for one in lines]), [one.get("set") for one in lines]
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with open(path, newline="") as file:
        head, *rows = csv.reader(file, delimiter=delimiter)
    assert head[:3] == [f"probs_{name}" for name in NAMES]
    sets = [json.loads(row[3]) if len(row) > 3 else None for row in rows]
    return np.array([list(map(float, row[:3])) for row in rows]), sets


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "npy"])
@pytest.mark.parametrize("sets", [False, True])
def test_rows_come_back(tmp_path, suffix, sets):
    path, inside = tmp_path / f"a.{suffix}", P > 0.3
    names_of = [[n for n, one in zip(NAMES, row, strict=True) if one] for row in inside]
    with CorrectedFile(path, NAMES, sets="set" if sets else None) as file:
        for part in (slice(0, 7), slice(7, 7), slice(7, None)):
            file.write_rows(P[part], names_of[part] if sets else None)
        assert not path.exists()
    found, names = read(path)
    assert found.tobytes() == P.tobytes()
    if sets and suffix != "npy":
        assert names == names_of
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_what_is_broken_off_leaves_nothing(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"before")
    with contextlib.suppress(KeyError), CorrectedFile(path, NAMES) as file:
        file.write_rows(P)
        raise KeyError
    assert path.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_another_suffix_is_refused():
    with pytest.raises(StreamCANError, match=r"a\.txt: expected one of \.csv, \.tsv, "):
        CorrectedFile(Path("a.txt"), NAMES)


def test_a_replay_writes_what_a_stream_would_have_sent(tmp_path):
    y = np.random.default_rng(1).integers(0, 3, len(P))
    np.savez(tmp_path / "a.npz", probs=P, label=y)
    out = tmp_path / "a.npy"
    stream_can("replay", tmp_path / "a.npz", "--label-delay", "0", "--output", out)
    corrector, expected = Corrector(3), []
    (chunk,) = Recording(tmp_path / "a.npz").chunks()
    for p, k in zip(chunk.P, y.tolist(), strict=True):
        better, receipt = corrector.process_one(p, receipt=True)
        corrector.learn_one(p, k, receipt=receipt)
        expected.append(better)
    assert np.load(out).tobytes() == np.array(expected).tobytes()
    _, err = stream_can("replay", tmp_path / "a.npz", "--label-delay", "0", "--output",
                        tmp_path / "a.npz", code=2)  # fmt: skip
    assert "this file is read" in err
