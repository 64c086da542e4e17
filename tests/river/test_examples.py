"""Every river example runs as a user would run it, and its wrapped model has the lower log loss."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stream_can.river import frozen, wrapper

EXAMPLES = Path(__file__).parents[2] / "examples"


def log_losses(name, folder):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(
        r"^(.+?) +log loss ([\d.]+)  Brier [\d.]+  accuracy 0\.\d+$", done.stdout, re.M
    )
    return {model: float(value) for model, value in found}


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("river_delayed_labels.py", [("plain", "corrected")]),
        (
            "river_class_mix.py",
            [("balanced", "balanced, corrected"), ("plain", "balanced, corrected")],
        ),
        ("river_label_requests.py", [("at random", "asked for")]),
        ("river_adwin.py", [("plain", "corrected"), ("ADWIN", "ADWIN, corrected")]),
    ],
)
def test_the_wrapper_helps(name, pairs, tmp_path):
    scores = log_losses(name, tmp_path)
    for without, corrected in pairs:
        assert scores[corrected] < scores[without] - 0.03


def test_the_page_about_river():
    page = EXAMPLES.parent / "docs" / "river.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 8
    assert failed == 0


def test_doctests():
    for module in (wrapper, frozen):
        failed, tried = doctest.testmod(module)
        assert tried > 3
        assert failed == 0
