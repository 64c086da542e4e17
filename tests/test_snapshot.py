"""Snapshots: they go on bit for bit, and what they refuse."""

import json
import math
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, Learner, SnapshotMismatch, StreamCANError, snapshot
from stream_can.pipe.statefile import PipeState
from tests import mutations, snapshots
from tests.correctors import GOOD, lived_in

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("kind", sorted({*snapshots.CORRECTORS, *snapshots.WITH_COLUMNS}))
def test_a_corrector_goes_on_bit_for_bit(kind):
    data = snapshots.kinds()[kind]
    one, again = Corrector.from_bytes(data), Corrector.from_bytes(data)
    assert again.to_bytes() == data
    assert [type(name) for name in again.classes] == [type(name) for name in one.classes]
    made = (snapshots.CORRECTORS | snapshots.WITH_COLUMNS)[kind]()
    P, y = snapshots.stream(len(made.classes), 12, seed=9)
    given = snapshots.values(made.segments, len(P))
    labels = [made.classes[k] for k in y]
    for corrector in (made, one):
        corrector.learn_many(P, labels, segments=given)
    rows = [c.process_many(P, segments=given) for c in (made, one)]
    assert rows[0].tobytes() == rows[1].tobytes()
    assert made.to_bytes() == one.to_bytes()
    assert made.fit_report == one.fit_report


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
    """TESTS_MUTATIONS=100000 makes a long run of it; see tests/mutations.py."""
    count = os.environ.get("TESTS_MUTATIONS", "4000")
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
    "weights": ({"weights": np.zeros(11)}, "weights does not sum to 1"),
}


@pytest.mark.parametrize(("arrays", "why"), WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
def test_arrays_are_held_against_the_table(arrays, why):
    head, state = snapshot.decode(lived_in().to_bytes())
    with pytest.raises(SnapshotMismatch, match=f"snapshot: array {why}"):
        Corrector.from_bytes(snapshot.encode(head, state | arrays))


def test_an_array_too_few_is_named():
    head, state = snapshot.decode(lived_in().to_bytes())
    for name in state:
        less = {key: array for key, array in state.items() if key != name}
        with pytest.raises(SnapshotMismatch, match=f"array {re.escape(name)} is missing"):
            Corrector.from_bytes(snapshot.encode(head, less))


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
    head, state = snapshot.decode(lived_in().to_bytes())
    with pytest.raises(SnapshotMismatch, match=f"snapshot: .*{why}"):
        Corrector.from_bytes(snapshot.encode(head | fields, state))
    for name in fields.keys() - {"classes", "paths"}:
        less = {key: value for key, value in head.items() if key != name}
        with pytest.raises(SnapshotMismatch, match=f"missing required field `{name}`"):
            Corrector.from_bytes(snapshot.encode(less, state))


@pytest.mark.parametrize(
    ("setting", "why"), [({"k": 1}, "k: 1, exp"), ({"half_life": math.nan}, "half_life: nan")]
)
def test_settings_of_a_snapshot_are_checked(setting, why):
    head, state = snapshot.decode(lived_in().to_bytes())
    head["settings"] |= setting
    with pytest.raises(SnapshotMismatch, match=f"snapshot: {why}"):
        Corrector.from_bytes(snapshot.encode(head, state))


@pytest.mark.parametrize(
    "payload",
    [b"\x91" * 50_000, b"\x82\xa4head\x81\x80\x01\xa6arrays\x80", b"\xdd\xff\xff\xff\xff", b""],
    ids=["nested", "a map as a key", "long", "nothing"],
)
def test_other_payloads_are_refused(payload):
    with pytest.raises(SnapshotMismatch, match="snapshot: unreadable payload"):
        Corrector.from_bytes(snapshot.sealed(payload))


@pytest.mark.parametrize("kind", sorted(mutations.LEARNERS))
def test_a_learner_goes_on_byte_for_byte(kind):
    data = snapshots.kinds()[kind]
    again = PipeState.from_bytes(data) if kind == "pipe" else Learner.from_bytes(data)
    assert again.to_bytes() == data


def test_other_bytes_are_refused():
    data = lived_in().to_bytes()
    for other, why in [
        (b"", "too short"),
        (b"x" * 100, "no stream_can snapshot"),
        (data + b"x", "bytes behind it"),
        (
            data[:8] + b"\x02" + data[9:],
            r"format 2, and stream_can 0\.3\S* reads format 3 alone",
        ),
        (data[:8] + b"\x63" + data[9:], "format 99, and stream_can"),
    ]:
        with pytest.raises(SnapshotMismatch, match=why) as caught:
            Corrector.from_bytes(other)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, StreamCANError)


def test_other_classes_or_paths_are_refused():
    data = lived_in().to_bytes()
    with pytest.raises(SnapshotMismatch, match=r"classes differ at 1: it has 'b', expected 'x'"):
        Corrector.from_bytes(data, ["a", "x", "c"])
    with pytest.raises(SnapshotMismatch, match="3 classes, expected 4"):
        Corrector.from_bytes(data, 4)
    with pytest.raises(SnapshotMismatch, match="11 paths, expected 1"):
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


def test_saving_keeps_the_mode_and_follows_no_link_that_lies_in_the_way(tmp_path):
    path, other = tmp_path / "state", tmp_path / "other"
    path.write_bytes(b"old")
    path.chmod(0o600)
    other.write_bytes(b"of somebody else")
    (tmp_path / "state.new").symlink_to(other)
    snapshot.save(b"new", path)
    assert path.read_bytes() == snapshot.read(path) == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert other.read_bytes() == b"of somebody else"
    assert sorted(tmp_path.iterdir()) == [other, path]
    (tmp_path / "link").symlink_to(path)  # the state itself may be one
    snapshot.save(b"newer", tmp_path / "link")
    assert path.read_bytes() == b"newer"


def test_only_a_file_is_replaced_or_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, what in ((pipe, "a pipe or a device"), (tmp_path, "a folder")):
        with pytest.raises(OSError, match=f"{what}, and no file; name another"):
            snapshot.save(b"data", path)
    with pytest.raises(OSError, match="a pipe or a device"):
        snapshot.read(pipe)  # and does not wait for somebody who writes
    with pytest.raises(OSError, match="a pipe or a device"):
        snapshot.read("/dev/zero")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
