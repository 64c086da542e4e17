"""What works without the parts of POSIX that Windows lacks, but for the lock of compiled code."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.programs import PATIENCE

pytestmark = pytest.mark.fast

WITHOUT = """
import os, sys
sys.modules["fcntl"] = None
for name in ("fchmod", "pread", "O_NONBLOCK", "O_NOFOLLOW", "O_DIRECTORY"):
    delattr(os, name)
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code],
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


@pytest.fixture
def recorded(tmp_path):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 500)
    np.savez(tmp_path / "a.npz", probs=P, label=[rng.choice(3, p=p) for p in P])
    return tmp_path


@pytest.mark.parametrize(
    "code",
    [
        """
from stream_can import Corrector, Learner, snapshot
learner = Learner(Corrector(3))
learner.process("a", [0.5, 0.3, 0.2])
learner.label("a", 2)
snapshot.save(learner.to_bytes(), "state")
snapshot.save(learner.to_bytes(), "state")
assert Learner.from_bytes(snapshot.read("state")).to_bytes() == learner.to_bytes()
""",
        "import stream_can.river, stream_can.sklearn, stream_can.trust, stream_can.replay",
        """
from stream_can.cli.main import main
arguments = ["replay", "a.npz", "--label-delay", "10", "--state", "s", "--report", "r.html"]
assert main(arguments) == 0
assert main(["inspect", "s"]) == 0
""",
    ],
    ids=["library", "wrappers", "replay"],
)
def test_library_and_replay_work(recorded, code):
    done = run(code, recorded)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments", [["pipe", "--classes", "a,b", "--state", "s"], ["serve", "--classes", "a,b"]]
)
def test_what_locks_a_file_says_so(tmp_path, arguments):
    done = run(f"from stream_can.cli.main import main; sys.exit(main({arguments!r}))", tmp_path)
    assert done.returncode == 1
    assert "on Windows use WSL" in done.stderr
    assert "Traceback" not in done.stderr
