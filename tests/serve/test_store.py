"""The file of a server's learner: what was committed is there after a restart, or it is refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from stream_can import Corrector, Learner, SnapshotMismatch
from stream_can.serve.database import StateError
from stream_can.serve.store import Store
from tests.examples import examples

CLASSES = ["a", "b", "c"]
IDENTITY = {"classes": CLASSES}


def begun(path, **options):
    """A new file, and the learner whose it is."""
    store = Store(path)
    assert store.load() is None
    learner = Learner(Corrector(CLASSES, segments=["t"]), **options)
    store.write_state(learner.state(), learner.oldest, IDENTITY)
    learner.keep_events()
    return store, learner


def give(learner, rng, n=20):
    """Predictions and labels, of two models; some ids come again, some rows have none."""
    for _ in range(n):
        model = "mn"[rng.integers(2)]
        id = [None, f"i{rng.integers(200)}"][int(rng.random() < 0.9)]
        learner.process(
            id, rng.dirichlet(np.ones(3)), model=model, segments={"t": f"v{rng.integers(3)}"}
        )
        learner.label(f"i{rng.integers(200)}", CLASSES[rng.integers(3)])


def again(path):
    """The learner that the file makes, and the file."""
    store = Store(path)
    try:
        found = store.load()
        assert found is not None
        state, identity, batches, behind, _ = found
        assert identity == IDENTITY
        learner = Learner.from_state(state, batches)
        for events in behind:
            learner.play_events(events)
    except BaseException:
        store.close()
        raise
    return store, learner


@pytest.mark.parametrize("recent_mb", [64, 0.05])
def test_a_restart_has_the_same_bits(tmp_path, recent_mb):
    path, rng = tmp_path / "state", np.random.default_rng(1)
    store, learner = begun(path, recent_mb=recent_mb)
    for turn in range(60):
        give(learner, rng)
        store.write(learner.take_events(), sync=turn % 3 > 0)
        if turn % 7 == 3:
            store.write_state(learner.state(), learner.oldest, IDENTITY)
        if turn % 10 == 9:
            store.close()
            store, restarted = again(path)
            assert restarted.to_bytes() == learner.to_bytes()
            learner = restarted
            learner.keep_events()
    (kept,) = store._db.execute("SELECT count(*) FROM commits").fetchone()
    assert (kept == 60) == (recent_mb == 64)
    assert kept < 25 or recent_mb == 64
    store.close()


def test_a_state_may_leave_out_correctors_that_are_there(tmp_path):
    path, rng = tmp_path / "state", np.random.default_rng(1)
    store, learner = begun(path, max_lanes=2)
    give(learner, rng)
    store.write(learner.take_events())
    store.write_state(learner.state(), learner.oldest, IDENTITY)
    learner.process("x", [0.2, 0.3, 0.5], model="m")
    store.write(learner.take_events())
    store.write_state(learner.state(without=[("n", None)]), 0, IDENTITY)
    store.close()
    store, restarted = again(path)
    assert restarted.to_bytes() == learner.to_bytes()
    for model in ("k", "l"):  # those that were dropped are not kept
        restarted.process("x", [0.2, 0.3, 0.5], model=model)
    store.write_state(restarted.state(), 0, IDENTITY)
    assert len(store._db.execute("SELECT key FROM state").fetchall()) == 4
    store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM state WHERE key = CAST('memory' AS BLOB)",
        "DELETE FROM state WHERE key = CAST('start' AS BLOB)",
        "DELETE FROM state",
        "DELETE FROM about WHERE name = 'commits'",
        "DELETE FROM commits WHERE number = 2",
    ],
)
def test_a_row_that_is_missing_is_told_of(tmp_path, statement):
    store, learner = begun(tmp_path / "state")
    for _ in range(2):
        give(learner, np.random.default_rng(1))
        store.write(learner.take_events())
    store._db.execute(statement)
    store.close()
    with pytest.raises(StateError, match=r"missing|2 commits were written, and 0 are there"):
        again(tmp_path / "state")


WRITER = """
import sys
import numpy as np
from tests.serve.test_store import IDENTITY, begun, give

store, learner = begun(sys.argv[1])
rng = np.random.default_rng(5)
for number in range(1, 10_000):
    give(learner, rng, 3)
    store.write(learner.take_events())
    print(number, flush=True)
    if number % 5 == 0:
        store.write_state(learner.state(), learner.oldest, IDENTITY)
"""


def killed(path, commits):
    """A file whose writer was killed behind so many commits, in the midst of something; how many it
    said were written."""
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    with writer:
        for line in writer.stdout:
            if int(line) == commits:
                os.kill(writer.pid, signal.SIGKILL)
                break
        return max([commits, *map(int, writer.stdout)])


def expected(commits):
    """The learner after so many commits."""
    learner, rng = Learner(Corrector(CLASSES, segments=["t"])), np.random.default_rng(5)
    for _ in range(commits):
        give(learner, rng, 3)
    return learner


@pytest.mark.parametrize("commits", [1, 5, 23])
def test_what_was_written_survives_a_kill(tmp_path, commits):
    told = killed(tmp_path / "state", commits)
    store, learner = again(tmp_path / "state")
    assert store._number in (told, told + 1)
    assert learner.to_bytes() == expected(store._number).to_bytes()
    store.close()


@pytest.mark.parametrize("stopped", ["in order", "killed"])
def test_a_damaged_file_is_refused_or_the_same(tmp_path, stopped):
    """Bits that change, and ends that are missing."""
    whole = tmp_path / "whole"
    whole.mkdir()
    told = killed(whole / "state", 12)
    store, learner = again(shutil.copytree(whole, tmp_path / "copy") / "state")
    store.close()
    if stopped == "in order":
        shutil.rmtree(whole)
        (tmp_path / "copy").rename(whole)
        shutil.copytree(whole, tmp_path / "copy")
    of = "state" if stopped == "in order" else "state-wal"
    right = learner.to_bytes(), expected(told).to_bytes()  # one more may be there than was told of
    refused, rng = 0, np.random.default_rng(4)
    data, tries = (whole / of).read_bytes(), examples(300)
    for turn in range(tries):
        shutil.rmtree(tmp_path / "copy")
        shutil.copytree(whole, tmp_path / "copy")
        broken, at = bytearray(data), int(rng.integers(len(data)))
        if turn % 3 == 0:
            del broken[at:]
        elif turn % 3 == 1:
            broken[at] ^= 1 << int(rng.integers(8))
        else:
            broken[at : at + 100] = rng.bytes(min(100, len(data) - at))
        (tmp_path / "copy" / of).write_bytes(broken)
        try:
            store, found = again(tmp_path / "copy/state")
        except (StateError, SnapshotMismatch):
            refused += 1
            continue
        store.close()
        assert found.to_bytes() in right, (turn, at)
    assert refused > tries / 3


def test_a_file_is_written_anew(tmp_path):
    """The state and the recent predictions in place of all that was there, in one step."""
    path, rng = tmp_path / "state", np.random.default_rng(3)
    store, learner = begun(path, recent_mb=0.05)
    for _ in range(5):
        give(learner, rng)
        store.write(learner.take_events(), [(learner.next_number - 1, b"early")])
    give(learner, rng, 100)  # which nobody wrote
    recent, state = learner.keep_events(), learner.state()
    store.write_anew(state, recent, [(learner.oldest, b"kept")], IDENTITY)
    (commits,) = store._db.execute("SELECT count(*) FROM commits").fetchone()
    assert commits == 1
    for _ in range(3):
        give(learner, rng)
        store.write(learner.take_events())
        store.close()
        store, restarted = again(path)
        assert restarted.to_bytes() == learner.to_bytes()
    store.close()
    store = Store(path)
    assert store.load().notes == [(int(recent.numbers[0]), b"kept")]
    store.close()
