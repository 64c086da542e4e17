"""Snapshots: what they refuse, and that old ones stay readable."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, SnapshotMismatch, StreamCANError, snapshot
from stream_can.cli.inspection import read_snapshot
from stream_can.stream.replica import Replica
from stream_can.stream.task import Record, Task
from tests import mutations
from tests.correctors import GOOD, lived_in
from tests.fixtures import make

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parent.parent
NOW, NOW_WITH_COLUMNS, FIXTURES = mutations.NOW, mutations.NOW_WITH_COLUMNS, mutations.FIXTURES
OUTPUTS = {
    "format-1-task-1": None,
    "format-2-task-2": None,
    "format-2-task-3": None,
    "format-3-task-3": 0.0,
    "format-3-task-3-columns": 0.0,
}
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
    if file.stem in mutations.TASKS:
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


@pytest.mark.parametrize("folder", sorted(FIXTURES.glob("*/log.positions")), ids=lambda f: f.parent)
def test_a_log_of_any_release_is_folded(folder):
    folder = folder.parent
    gives, replica = json.loads((folder / "log.json").read_text()), Replica()
    entries = sorted(folder.glob("log-*.entry"), key=lambda file: int(file.stem[4:]))
    assert len(entries) == gives["learned"]
    for offset, file in enumerate(entries):
        replica.fold(Record("log", 0, offset, 0, None, file.read_bytes()))
    task = Task.from_bytes(
        (folder / "log.positions").read_bytes(), replica=replica, labels_topic="labels"
    )
    assert task.learned_offset == replica.offset
    have, want = make.state_of_task(task), gives["state"]
    if OUTPUTS[folder.name] is None:  # this release learns otherwise from it
        same = ("n_predictions", "n_labels", "effective_sample_size", "prior", "counts", "classes")
        have, want = ({name: of[name] for name in same} for of in (have, want))
    close(have, want, 1e-9)


def test_every_kind_of_this_format_is_kept():
    """Where this fails a format has risen: `python tests/fixtures/make.py` makes its files."""
    for folder, kinds in (
        (NOW, {*make.CORRECTORS, *make.TASKS}),
        (NOW_WITH_COLUMNS, {*make.WITH_COLUMNS, *make.TASKS_WITH_COLUMNS}),
    ):
        assert {file.stem for file in (FIXTURES / folder).glob("*.snapshot")} == kinds
        assert folder in OUTPUTS


@pytest.mark.parametrize(
    "file",
    [f for now in (NOW, NOW_WITH_COLUMNS) for f in sorted((FIXTURES / now).glob("*.snapshot"))],
    ids=lambda f: f.stem,
)
def test_what_is_read_is_written_again(file):
    data = file.read_bytes()
    if file.stem not in mutations.TASKS:
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


def test_mutations_with_good_checksums_are_refused_or_give_probabilities():
    """STREAM_CAN_MUTATIONS=100000 makes a long run of it; see tests/mutations.py."""
    count = os.environ.get("STREAM_CAN_MUTATIONS", "4000")
    command = [sys.executable, "-W", "error", "-m", "tests.mutations", "--count", count]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert sum(seen.values()) == int(count)
    for mutation in mutations.MUTATIONS:
        assert seen[f"{mutation.__name__} refused"] > 10
        assert seen[f"{mutation.__name__} taken"] > 10


WRONG_ARRAYS = {
    "short": ({"counts": np.zeros(1, np.int64)}, r"counts is int64 of shape \(1,\), expected"),
    "flat": ({"A.matrix": np.zeros(9, np.float32)}, r"A.matrix is float32 of shape \(9,\)"),
    "type": ({"labels": np.zeros(3, np.float32)}, "labels is float32"),
    "more": ({"Q": np.zeros(4)}, "Q does not belong"),
    "NaN": ({"S.raw": np.array([1, math.nan, 1])}, "S.raw holds a number that is not from 0"),
    "huge": ({"labels": np.full(3, 1e308)}, "labels holds a number"),
    "steep": ({"u.vector": np.array([2.5, 0, 0])}, "u.vector holds a number"),
    "negative": ({"counts": np.array([1, 1, -2])}, "counts holds a number"),
    "weights": ({"weights": np.zeros(8)}, "weights does not sum to 1"),
}


@pytest.mark.parametrize(("arrays", "why"), WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
def test_arrays_are_held_against_the_table(arrays, why):
    head, state, _ = snapshot.decode(lived_in().to_bytes())
    with pytest.raises(SnapshotMismatch, match=f"snapshot: array {why}"):
        Corrector.from_bytes(snapshot.encode(head, state | arrays, snapshot.SINCE_0_3))


def test_an_array_too_few_is_named():
    head, state, _ = snapshot.decode(lived_in().to_bytes())
    for name in state:
        less = {key: array for key, array in state.items() if key != name}
        with pytest.raises(SnapshotMismatch, match=f"array {re.escape(name)} is missing"):
            Corrector.from_bytes(snapshot.encode(head, less, snapshot.SINCE_0_3))


WRONG_HEADS = {
    "classes": ({"classes": "abc"}, r"Expected `array`, got `str` - at `\$.classes`"),
    "twice": ({"classes": ["a", "b", "a"]}, "classes: 'a' is named twice"),
    "none": ({"classes": []}, "classes: expected at least 1"),
    "counts": ({"train_counts": [1, 2]}, "train_counts: 2 counts for 3 classes"),
    "nan": ({"train_counts": [1, 2, math.nan]}, "train_counts: training counts: each must be fin"),
    "order": ({"paths": ["can", "raw"]}, r"paths: \['can', 'raw'\], expected \['raw', 'can'\]"),
    "path": ({"paths": ["raw", "x"]}, "paths: 'x' is not one of"),
    "fitted": ({"paths": ["raw", "fitted", "fitted+can"]}, "paths: .* expected"),
    "fit": ({"fit": {"rows": 3}}, "missing required field `step`"),
    "setting": ({"settings": {"k": 3}}, "settings: 'half_life' is missing or unknown"),
}


@pytest.mark.parametrize(("fields", "why"), WRONG_HEADS.values(), ids=WRONG_HEADS)
def test_heads_are_typed(fields, why):
    head, state, _ = snapshot.decode(lived_in().to_bytes())
    with pytest.raises(SnapshotMismatch, match=f"snapshot: .*{why}"):
        Corrector.from_bytes(snapshot.encode(head | fields, state, snapshot.SINCE_0_3))
    for name in fields.keys() - {"classes"}:
        less = {key: value for key, value in head.items() if key != name}
        with pytest.raises(SnapshotMismatch, match=f"missing required field `{name}`"):
            Corrector.from_bytes(snapshot.encode(less, state, snapshot.SINCE_0_3))


@pytest.mark.parametrize(
    ("setting", "why"), [({"k": 1}, "k: 1, exp"), ({"half_life": math.nan}, "half_life: nan")]
)
def test_settings_of_a_snapshot_are_checked(setting, why):
    head, state, _ = snapshot.decode(lived_in().to_bytes())
    head["settings"] |= setting
    with pytest.raises(SnapshotMismatch, match=f"snapshot: {why}"):
        Corrector.from_bytes(snapshot.encode(head, state, snapshot.SINCE_0_3))


@pytest.mark.parametrize(
    "payload",
    [b"\x91" * 50_000, b"\x82\xa4head\x81\x80\x01\xa6arrays\x80", b"\xdd\xff\xff\xff\xff", b""],
    ids=["nested", "a map as a key", "long", "nothing"],
)
def test_other_payloads_are_refused(payload):
    with pytest.raises(SnapshotMismatch, match="snapshot: unreadable payload"):
        Corrector.from_bytes(mutations.sealed(payload))


def test_heads_of_tasks_are_typed(tmp_path):
    head, arrays, _ = snapshot.decode(make.taken().to_bytes(recent=True))
    file = tmp_path / "state"
    for fields, why in [
        ({"task": 0}, "Expected `int` >= 1"),
        ({"task": "1"}, "Expected `int`, got `str`"),
        ({"next_label": -1}, r"Expected `int` >= 0 - at `\$.next_label`"),
        ({"next_prediction": 1.5}, "Expected `int`, got `float`"),
        ({"oldest": 10**6}, "oldest 1000000 is behind next_prediction 20"),
        ({"counts": {"labels": -1}}, r"at `\$.counts.labels`"),
        ({"corrector": b""}, "0 bytes, too short to be one"),
        ({"corrector": make.taken().to_bytes()}, "a task's"),
        ({"corrector": Corrector([1, "1"]).to_bytes()}, "classes: two are '1' in JSON"),
        ({"ids": "abc"}, r"Expected `array \| null`, got `str`"),
    ]:
        data = snapshot.encode(head | fields, arrays)
        with pytest.raises(SnapshotMismatch, match=why):
            Task.from_bytes(data)
        file.write_bytes(data)
        with pytest.raises(SnapshotMismatch, match=f"state: snapshot: .*{why}"):
            read_snapshot(file)


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (0, math.nan, "offsets and timestamps"),
        (0, 0.5, "offsets and timestamps"),
        (1, math.inf, "offsets and timestamps"),
        (0, 20, "offset is not below 20"),
        (2, 0.9, "recent prediction 3: probabilities sum to"),
        (2, math.nan, "recent prediction 3: entry 0 is nan"),
        (5, math.nan, "corrected row"),
        (5, 7, "corrected row"),
    ],
)
def test_recent_predictions_are_checked(at, value, why):
    head, arrays, _ = snapshot.decode(make.taken().to_bytes(recent=True))
    arrays["recent"][3, at] = value
    with pytest.raises(SnapshotMismatch, match=why):
        Task.from_bytes(snapshot.encode(head, arrays), labels_topic="labels")
    with pytest.raises(SnapshotMismatch, match="20 ids of recent predictions, rows none"):
        Task.from_bytes(snapshot.encode(head, {}), labels_topic="labels")


def test_what_recent_predictions_gave_of_columns_is_checked():
    head, arrays, _ = snapshot.decode(make.taken(make.COLUMNS).to_bytes(recent=True))
    given = head["given"]
    for wrong in (None, [], given[1:], [*given[1:], ["a"]], [*given[1:], ["a", "b", "c"]]):
        with pytest.raises(SnapshotMismatch, match="of columns, expected 20 times 2 values"):
            Task.from_bytes(snapshot.encode(head | {"given": wrong}, arrays), labels_topic="labels")
    with pytest.raises(SnapshotMismatch, match=r"\$.given"):
        Task.from_bytes(snapshot.encode(head | {"given": [[1, 2]]}, arrays), labels_topic="labels")
    plain, arrays, _ = snapshot.decode(make.taken().to_bytes(recent=True))
    with pytest.raises(SnapshotMismatch, match="of columns"):
        Task.from_bytes(snapshot.encode(plain | {"given": given}, arrays), labels_topic="labels")


def test_other_bytes_are_refused():
    data = lived_in().to_bytes()
    for other, why in [
        (b"", "too short"),
        (b"x" * 100, "no stream_can snapshot"),
        (data + b"x", "bytes behind it"),
        (data[:8] + b"\x00" + data[9:], "format 0, which never was"),
        (data[:8] + b"\x63" + data[9:], "format 99, this release reads up to 3; upgrade"),
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
        label_noise=0.1,
    )
    assert changed.settings == {
        "half_life": math.inf,
        "uncertainty": "margin",
        "k": 2,
        "threshold": 0.5,
        "pseudo_count": 1,
        "prior_strength": math.inf,
        "label_noise": 0.1,
    }
    assert changed.weights == lived_in().weights
    assert changed.prior == pytest.approx([6 / 13, 4 / 13, 3 / 13])
    assert changed.correct_one(GOOD).sum() == pytest.approx(1)
