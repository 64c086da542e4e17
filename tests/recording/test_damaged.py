"""Files with bytes changed, lost or cut off: read, or refused by name."""

from __future__ import annotations

import io
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from stream_can.errors import StreamCANError
from stream_can.recording.pickled import read_objects
from stream_can.recording.recording import Recording
from tests.examples import examples

rng = np.random.default_rng(0)
P = rng.dirichlet(np.ones(3), 60)
LABELS = np.array(["cat", "dog", "cow"])[rng.integers(3, size=60)]


def frame() -> pl.DataFrame:
    return pl.DataFrame({"p_cat": P[:, 0], "p_dog": P[:, 1], "p_cow": P[:, 2], "label": LABELS})


FILES: dict[str, Any] = {
    "npz": lambda path: np.savez_compressed(path, probs=P, label=LABELS.astype(object)),
    "parquet": lambda path: frame().write_parquet(path),
    "feather": lambda path: frame().write_ipc(path),
    "csv": lambda path: frame().write_csv(path),
}


def damaged(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 3, 30])):
        found[chance.randrange(len(found))] = chance.randrange(256)
    if chance.random() < 0.2:
        del found[chance.randrange(len(found)) :]
    return bytes(found)


@pytest.mark.parametrize("form", FILES)
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_is_named(
    tmp_path: Path, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And nothing else is said. Before, panics of polars stood on the screen, too."""
    path = tmp_path / f"a.{form}"
    FILES[form](path)
    good, refused, named = path.read_bytes(), 0, 0
    for seed in range(examples(150)):
        path.write_bytes(damaged(good, random.Random(seed)))
        try:
            list(Recording(path, classes=["cat", "dog", "cow"]).chunks())
        except StreamCANError as error:
            refused += 1
            named += path.name in str(error)
        except BaseException as error:
            error.add_note(f"damage {seed}")
            raise
    assert named == refused > 15
    assert capfd.readouterr().err == ""


def test_a_place_that_no_pickle_has_takes_no_memory() -> None:
    """An unpickler makes room for all places before it: here for 2 GB."""
    place = (1 << 27).to_bytes(4, "little")
    for data in (b"\x80\x03X\x04\0\0\0aaaar" + place + b".", b"Vaaaa\np134217728\n."):
        with pytest.raises(ValueError, match="a place far beyond its end"):
            read_objects(io.BytesIO(data), "label")
    labels = np.array([10**9, "a" * 9, None], object)
    data = pickle.dumps(labels, 3)
    assert read_objects(io.BytesIO(data), "label").tolist() == labels.tolist()
