"""What an application began with and what its settings would begin now: fits, or is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_can import Corrector, SnapshotMismatch
from stream_can.app.model_settings import ModelSettings
from stream_can.app.start import Start, start_of
from stream_can.learner.model_name import ONLY
from stream_can.multilabel import MultiLabelCorrector
from stream_can.serve.settings import ServeSettings
from stream_can.sparse import SparseCorrector

pytestmark = pytest.mark.fast

CLASSES = ["cat", "dog", "eel"]


def started(**given: Any) -> Start:
    return start_of(ServeSettings(application_id="app", state="x.sqlite", **given))


def taught(rows: str, times: int) -> Any:
    """A corrector that has learned so many labels."""
    if rows == "sparse":
        sparse = SparseCorrector("any", max_classes=50)
        for _ in range(times):
            sparse.learn_one({"cat": 0.7, "dog": 0.3}, "dog")
        return sparse
    if rows == "multilabel":
        several = MultiLabelCorrector(CLASSES)
        for _ in range(times):
            several.learn_one([0.7, 0.2, 0.4], [0, 1, 0])
        return several
    dense = Corrector(CLASSES)
    for _ in range(times):
        dense.learn_one([0.7, 0.2, 0.1], "dog")
    return dense


@pytest.mark.parametrize("rows", ["dense", "sparse", "multilabel"])
def test_another_snapshot_is_named(tmp_path: Path, rows: str) -> None:
    """It would be ignored. The same, under other settings, and the classes alone go on."""
    path, here = tmp_path / "warm.bin", {"rows": rows, "classes_from_file": f"{tmp_path}/warm.bin"}
    path.write_bytes(taught(rows, 5).to_bytes())
    begin = started(**here).corrector()
    started(**here).require_fits(begin)
    if rows != "sparse":
        started(**here, half_life=50).require_fits(begin)
        started(rows=rows, classes=CLASSES).require_fits(begin)
    path.write_bytes(taught(rows, 6).to_bytes())
    with pytest.raises(SnapshotMismatch, match="classes_from_file: not the snapshot with which"):
        started(**here).require_fits(begin)
    running = started(**here)
    running.require_fits(running.corrector())
    running.require_fits(begin)  # somebody started over, and it goes on
    if rows == "dense":  # models may begin with it
        started(**here, model="model").require_fits(begin)


def test_tables_of_models_in_use_are_compared() -> None:
    def with_table(**own: Any) -> Start:
        return started(classes=CLASSES, model="model", models={"x": ModelSettings(**own)})

    before = with_table(train_counts=[8, 1, 1])
    begin, live = before.corrector(), [(("x", "1"), before.of_model("x"))]
    with_table(train_counts={"cat": 8, "dog": 1, "eel": 1}, half_life=9).require_fits(begin, live)
    with_table(k=2).require_fits(begin, live)
    for own, says in (
        ({"train_counts": [1, 1, 8]}, r"models\.x: train_counts: \[0\.1.*take train_counts out"),
        ({"classes": ["a", "b"]}, r"models\.x: classes"),
    ):
        with_table(**own).require_fits(begin)  # not in use
        with pytest.raises(SnapshotMismatch, match=says):
            with_table(**own).require_fits(begin, live)


def test_memory_of_segments_and_the_mix_of_a_snapshot(tmp_path: Path) -> None:
    """Memory that changes is taken up; the mix of a file stays without the setting."""
    before, after = (started(classes=CLASSES, segments=["x"], segments_mb=mb) for mb in (None, 2))
    assert before.changed([(ONLY, before.corrector())]) == {}
    assert after.changed([(ONLY, before.corrector())]) == {"segments_mb": 2}
    assert after.changed([(ONLY, after.with_settings(before.snapshot))]) == {}
    path = tmp_path / "snapshot"
    path.write_bytes(Corrector(CLASSES, prior=[8, 1, 1]).to_bytes())
    from_file = started(classes_from_file=str(path))
    known = from_file.with_settings(from_file.snapshot)
    assert from_file.changed([(ONLY, known)]) == {}
    assert known.known_prior is not None
    assert started(classes=CLASSES).with_settings(from_file.snapshot).known_prior is None
