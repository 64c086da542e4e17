"""The workflow for a public forge runs what CI runs, and names no place to fetch from."""

import tomllib
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


def test_wheels_are_of_every_python_that_is_supported():
    text = (ROOT / ".github/workflows/wheels.yml").read_text()
    assert len(yaml.safe_load(text)["jobs"]["wheels"]["strategy"]["matrix"]["os"]) == 4
    assert "://" not in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = project["project"]["classifiers"]
    versions = [name.rpartition(" ")[2] for name in names if "Python :: 3." in name]
    built = {name.removesuffix("-*") for name in project["tool"]["cibuildwheel"]["build"]}
    assert {f"cp{version.replace('.', '')}" for version in versions} <= built
