"""Snapshots: what they refuse, and that old ones stay readable."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, SnapshotMismatch, StreamCANError
from stream_can.stream.task import Task
from tests.test_corrector import GOOD, lived_in

pytestmark = pytest.mark.fast

FIXTURES = Path(__file__).parent / "fixtures"


def released() -> Corrector:
    """The corrector whose snapshot is kept in fixtures/, one file per released format."""
    rng = np.random.default_rng(5)
    corrector = Corrector(["a", "b", "c", 4, 5.5], train_counts=[1, 2, 3, 4, 5], half_life=100)
    P = rng.dirichlet(np.ones(5), 60)
    with np.errstate(all="ignore"):
        corrector.fit(P[:30], [corrector.classes[i % 5] for i in range(30)])
    corrector.process_many(P[30:])
    corrector.learn_many(P[30:], [corrector.classes[i % 4] for i in range(30)])
    return corrector


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*.snapshot")), ids=lambda file: file.stem)
def test_every_released_format_stays_readable(file):
    old = Corrector.from_bytes(file.read_bytes(), ["a", "b", "c", 4, 5.5])
    assert (old.n_predictions, old.n_labels) == (30, 30)
    assert old.fit_report["rows"] == 30
    p = [0.1, 0.2, 0.3, 0.2, 0.2]
    np.testing.assert_allclose(old.correct_one(p), released().correct_one(p), atol=1e-9)


def test_there_is_a_fixture_of_this_format():
    assert (FIXTURES / "format-1.snapshot").exists()


@given(st.data())
def test_truncated_or_flipped_bytes_are_refused(data):
    snapshot = lived_in().to_bytes()
    at = data.draw(st.integers(0, len(snapshot) - 1))
    with pytest.raises(SnapshotMismatch, match="snapshot: "):
        Corrector.from_bytes(snapshot[:at])
    flipped = bytearray(snapshot)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(SnapshotMismatch, match="snapshot: "):
        Corrector.from_bytes(bytes(flipped))


def test_other_bytes_are_refused():
    snapshot = lived_in().to_bytes()
    for data, why in [
        (b"", "too short"),
        (b"x" * 100, "no stream_can snapshot"),
        (snapshot + b"x", "bytes behind it"),
        (snapshot[:8] + b"\x63" + snapshot[9:], "format 99, this release reads up to 1; upgrade"),
    ]:
        with pytest.raises(SnapshotMismatch, match=why) as caught:
            Corrector.from_bytes(data)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, StreamCANError)


def test_the_snapshot_of_a_task_is_named():
    with pytest.raises(SnapshotMismatch, match="a task's, of one partition"):
        Corrector.from_bytes(Task(lived_in()).to_bytes())


def test_other_classes_or_paths_are_refused():
    snapshot = lived_in().to_bytes()
    with pytest.raises(SnapshotMismatch, match=r"classes differ at 1: it has 'b', expected 'x'"):
        Corrector.from_bytes(snapshot, ["a", "x", "c"])
    with pytest.raises(SnapshotMismatch, match="3 classes, expected 4"):
        Corrector.from_bytes(snapshot, 4)
    with pytest.raises(SnapshotMismatch, match="8 paths, expected 1"):
        Corrector.from_bytes(snapshot, paths=["can"])
    with pytest.raises(
        SnapshotMismatch, match=r"train_counts differ at 0: it has 5\.0, expected 6\.0"
    ):
        Corrector.from_bytes(snapshot, train_counts=[6, 3, 2])
    with pytest.raises(TypeError, match="unknown setting 'halflife'"):
        Corrector.from_bytes(snapshot, halflife=3)
    with pytest.raises(ValueError, match="half_life: -1"):
        Corrector.from_bytes(snapshot, half_life=-1)
    same = Corrector.from_bytes(
        snapshot, ["a", "b", "c"], paths=reversed(lived_in().paths), train_counts=[5, 3, 2]
    )
    assert same.to_bytes() == snapshot


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
