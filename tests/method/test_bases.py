"""The table of bases is all there is to know of them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stream_can
from stream_can.method import bases
from stream_can.method.paths import default_paths, split
from stream_can.method.state import new_state
from tests import oracle

pytestmark = pytest.mark.fast

WITH_A_TWIN = """
import numpy as np
import stream_can
from stream_can import Corrector
from stream_can.method.paths import PATHS
from stream_can.row_sums import RowSums

assert stream_can.__file__.startswith({folder!r}), stream_can.__file__
assert PATHS[6:8] == ("twin", "twin+can"), PATHS
rng = np.random.default_rng(0)
P = rng.dirichlet(np.ones(5), 700)
y = (rng.random((700, 1)) < (P**2 / (P**2).sum(1, keepdims=True)).cumsum(1)).argmax(1)
corrector = Corrector(5)
corrector.fit(P[:600], y[:600])
for p, k in zip(P[600:], y[600:]):
    together = RowSums(corrector)
    sums = together.zeros()
    together.correct(p[None], sums)
    together.add(sums)
    corrector.learn_one(p, int(k))
rows = corrector.explain_many(P[:50])
for can in ("", "+can"):
    assert rows["twin" + can].tobytes() == rows["vector" + can].tobytes()
assert (rows["twin"] != rows["raw"]).any()
sums = corrector.confident_sums
assert sums["twin"].tobytes() == sums["vector"].tobytes() and sums["twin"].any()
again = Corrector.from_bytes(corrector.to_bytes())
assert again.to_bytes() == corrector.to_bytes()
alone = Corrector(["a", "b"], paths=["twin"])
alone.learn_one([0.5, 0.5], "a")
alone._add_class("c")
assert alone.process_one([0.2, 0.3, 0.5]).shape == (3,)
assert len(Corrector(300).paths) == 10 and len(Corrector(10).paths) == 13
"""


def test_a_base_is_added_by_its_entry_alone(tmp_path):
    """Here a copy of ``vector`` under another name: equal bits, in everything that knows bases."""
    package = tmp_path / "stream_can"
    ignored = shutil.ignore_patterns("__pycache__", "*.c", "*.cpp", "kafka")
    shutil.copytree(Path(stream_can.__file__).parent, package, ignore=ignored)
    table = package / "method" / "bases.py"
    entry = '        Base("vector", 3, "uKcH", centred=True),\n'
    text = table.read_text()
    assert text.count(entry) == 1
    table.write_text(text.replace(entry, entry + entry.replace("vector", "twin")))
    script = tmp_path / "script.py"
    script.write_text(WITH_A_TWIN.format(folder=str(tmp_path)))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_oracle_states_the_same_numbers_once_more():
    for name in ("MATRIX_LIMIT", "MOST_LOG_B", "MOST_T", "MOST_C"):
        assert getattr(oracle, name) == getattr(bases, name)


@pytest.mark.parametrize("m", [2, 256, 257])
def test_paths_and_arrays_come_from_the_table(m):
    paths = default_paths(m)
    assert paths == tuple(
        path for path in bases.PATHS if m <= 256 or split(path)[0] not in ("matrix", "full")
    )
    assert {split(path)[0] for path in bases.PATHS} == set(bases.BASES) - {"fitted", "segmented"}
    state = new_state(m, paths)
    for name, base in bases.BASES.items():
        found = {array for array in state if array.endswith(f".{name}")} - {"odds.raw"}
        expected = {f"{kind}.{name}" for kind in (*base.arrays, *["S"] * base.can)}
        assert found == (expected if base.paths[0] in paths else set())
