"""The workflow for a public forge runs what CI runs, and names no place to fetch from."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent


def test_the_workflow_runs_what_ci_runs():
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    (job,) = yaml.safe_load(text)["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == "${{ matrix.script }}"
    assert job["strategy"]["matrix"]["script"] == [".ci/run", ".ci/release-check"]
    for script in ("run", "release-check", "programs", "sanitize"):
        assert (ROOT / ".ci" / script).stat().st_mode & 0o111
    assert "://" not in text
