"""Snapshots: what they refuse, and that old ones stay readable."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, SnapshotMismatch, StreamCANError, snapshot
from stream_can.stream import task
from stream_can.stream.task import Task
from tests.fixtures import make
from tests.test_corrector import GOOD, lived_in

pytestmark = pytest.mark.fast

FIXTURES = Path(__file__).parent / "fixtures"
NOW = f"format-{snapshot.VERSION}-task-{task.FORMAT}"
OUTPUTS = {"format-1-task-1": None, "format-2-task-1": 0.0}
"""How far from those kept the outputs of a format may be; where it has none only the state counts:
this release corrects otherwise than the one that wrote it."""

FILES = [
    pytest.param(file, id=f"{file.parent.name}-{file.stem}")
    for file in sorted(FIXTURES.glob("*/*.snapshot"))
]


def close(have: Any, want: Any, tolerance: float) -> None:
    """Equal, but for floats (as hexadecimal text) that differ by the tolerance at most."""
    if isinstance(want, dict | list):
        assert type(have) is type(want)
        assert len(have) == len(want)
        for key in want if isinstance(want, dict) else range(len(want)):
            close(have[key], want[key], tolerance)
    elif have != want:
        assert abs(float.fromhex(have) - float.fromhex(want)) <= tolerance


@pytest.mark.parametrize("file", FILES)
def test_every_released_format_stays_readable(file):
    gives = json.loads(file.with_suffix(".json").read_text())
    tolerance = OUTPUTS.get(file.parent.name)
    data = file.read_bytes()
    if file.stem in make.TASKS:
        found = Task.from_bytes(data, labels_topic="labels")
        close(make.state_of_task(found), gives["state"], 0)
        if tolerance is not None:
            close(make.outputs_of_task(found, gives["in"]), gives["out"], tolerance)
    else:
        corrector = Corrector.from_bytes(data)
        close(make.state_of(corrector), gives["state"], 0)
        types = [type(name) for name in gives["state"]["classes"]]
        assert [type(name) for name in corrector.classes] == types
        if tolerance is not None:
            close(make.outputs_of(corrector, gives["in"]), gives["out"], tolerance)


def test_every_kind_of_this_format_is_kept():
    """Where this fails a format has risen: `python tests/fixtures/make.py` makes its files."""
    assert {file.stem for file in (FIXTURES / NOW).glob("*.snapshot")} == {
        *make.CORRECTORS,
        *make.TASKS,
    }
    assert NOW in OUTPUTS


@pytest.mark.parametrize("file", sorted((FIXTURES / NOW).glob("*.snapshot")), ids=lambda f: f.stem)
def test_what_is_read_is_written_again(file):
    data = file.read_bytes()
    if file.stem in make.CORRECTORS:
        assert Corrector.from_bytes(data).to_bytes() == data
    else:
        recent = bool(snapshot.decode(data)[0]["ids"] is not None)
        assert Task.from_bytes(data, labels_topic="labels").to_bytes(recent=recent) == data


def test_every_byte_of_the_header_counts():
    data = lived_in().to_bytes()
    for at in range(snapshot.ENVELOPE.size):
        for value in set(range(256)) - {data[at]}:
            with pytest.raises(SnapshotMismatch, match="snapshot: "):
                Corrector.from_bytes(data[:at] + bytes([value]) + data[at + 1 :])


@given(st.data())
def test_truncated_or_flipped_bytes_are_refused(draw):
    data = lived_in().to_bytes()
    at = draw.draw(st.integers(0, len(data) - 1))
    with pytest.raises(SnapshotMismatch, match="snapshot: "):
        Corrector.from_bytes(data[:at])
    flipped = bytearray(data)
    flipped[at] ^= 1 << draw.draw(st.integers(0, 7))
    with pytest.raises(SnapshotMismatch, match="snapshot: "):
        Corrector.from_bytes(bytes(flipped))


def test_other_bytes_are_refused():
    data = lived_in().to_bytes()
    for other, why in [
        (b"", "too short"),
        (b"x" * 100, "no stream_can snapshot"),
        (data + b"x", "bytes behind it"),
        (data[:8] + b"\x00" + data[9:], "format 0, which never was"),
        (data[:8] + b"\x63" + data[9:], "format 99, this release reads up to 2; upgrade"),
    ]:
        with pytest.raises(SnapshotMismatch, match=why) as caught:
            Corrector.from_bytes(other)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, StreamCANError)


def test_the_snapshot_of_a_task_is_named():
    with pytest.raises(SnapshotMismatch, match="a task's, of one partition"):
        Corrector.from_bytes(Task(lived_in()).to_bytes())


def test_other_classes_or_paths_are_refused():
    data = lived_in().to_bytes()
    with pytest.raises(SnapshotMismatch, match=r"classes differ at 1: it has 'b', expected 'x'"):
        Corrector.from_bytes(data, ["a", "x", "c"])
    with pytest.raises(SnapshotMismatch, match="3 classes, expected 4"):
        Corrector.from_bytes(data, 4)
    with pytest.raises(SnapshotMismatch, match="8 paths, expected 1"):
        Corrector.from_bytes(data, paths=["can"])
    with pytest.raises(
        SnapshotMismatch, match=r"train_counts differ at 0: it has 5\.0, expected 6\.0"
    ):
        Corrector.from_bytes(data, train_counts=[6, 3, 2])
    with pytest.raises(TypeError, match="unknown setting 'halflife'"):
        Corrector.from_bytes(data, halflife=3)
    with pytest.raises(ValueError, match="half_life: -1"):
        Corrector.from_bytes(data, half_life=-1)
    same = Corrector.from_bytes(
        data, ["a", "b", "c"], paths=reversed(lived_in().paths), train_counts=[5, 3, 2]
    )
    assert same.to_bytes() == data


def test_settings_may_change_on_a_live_state():
    changed = Corrector.from_bytes(
        lived_in().to_bytes(),
        half_life=math.inf,
        uncertainty="margin",
        k=2,
        threshold=0.5,
        pseudo_count=1,
        prior_strength=math.inf,
    )
    assert changed.settings == {
        "half_life": math.inf,
        "uncertainty": "margin",
        "k": 2,
        "threshold": 0.5,
        "pseudo_count": 1,
        "prior_strength": math.inf,
    }
    assert changed.weights == lived_in().weights
    assert changed.prior == pytest.approx([6 / 13, 4 / 13, 3 / 13])
    assert changed.correct_one(GOOD).sum() == pytest.approx(1)
