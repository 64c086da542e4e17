"""The settings of a corrector: one statement, and everything that goes by it."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stream_can import Corrector, batch_can, topk_entropy
from stream_can.cli.options import CorrectorOptions
from stream_can.kafka import SettingsError, load, options
from stream_can.method.settings import DEFAULTS, LOOP, SETTINGS
from stream_can.method.settings_help import about
from stream_can.method.uncertain import UNCERTAINTIES
from stream_can.river import CorrectedClassifier
from stream_can.sklearn import StreamCalibrator

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[1]
PAIR = [[0.5, 0.5], [0.9, 0.1]]

TAKE_K = {
    "Corrector": lambda k: Corrector(2, k=k).correct_many(PAIR),
    "from_bytes": lambda k: Corrector.from_bytes(Corrector(2).to_bytes(), k=k).correct_many(PAIR),
    "batch_can": lambda k: batch_can(PAIR, [0.5, 0.5], k=k),
    "topk_entropy": lambda k: topk_entropy(PAIR, k=k),
}
"""Every call that takes k."""


@pytest.mark.parametrize(
    "call", [Corrector, CorrectedClassifier, StreamCalibrator, batch_can, topk_entropy]
)
def test_signatures_have_the_defaults(call):
    parameters = inspect.signature(call).parameters
    own = [name for name in SETTINGS if name in parameters]
    assert own == list(SETTINGS) if inspect.isclass(call) else "k" in own
    for name in own:
        if inspect.isclass(call) or name != "prior":  # that of batch_can is the training prior
            assert parameters[name].default == getattr(DEFAULTS, name)


ADDED = """    damping: Annotated[float, _is(0.5, "a number for a test", ge=0, le=1)]
    segments: Annotated[
"""
FOUND = """
import inspect, os, sys
from pathlib import Path
import pytest
from stream_can import Corrector
from stream_can.cli.main import main
from stream_can.kafka import SettingsError, load, options
from stream_can.river import CorrectedClassifier
from stream_can.serve.settings import load as load_serve, options as serve_options
from stream_can.sklearn import StreamCalibrator

for kind in (Corrector, CorrectedClassifier, StreamCalibrator):
    assert inspect.signature(kind).parameters["damping"].default == 0.5
    assert "    damping\\n        A number for a test (0.5).\\n" in kind.__doc__
assert Corrector.from_bytes(Corrector(2, damping=0.3).to_bytes(), damping=1).classes == (0, 1)
with pytest.raises(ValueError, match="damping: 7, expected a number >= 0 and <= 1: a number for"):
    Corrector(2, damping=7)
assert StreamCalibrator(None, damping=0.1).get_params()["damping"] == 0.1
assert CorrectedClassifier(None, damping=0.1)._get_params()["damping"] == 0.1
given = {"bootstrap_servers": "a:1", "application_id": "a", "input": "i", "output": "o"}
Path("a.toml").write_text("damping = 0.25\\n")
for path, option, env in [
    ("a.toml", {}, {}), (None, {"damping": "0.25"}, {}), (None, {}, {"STREAM_CAN_DAMPING": "0.25"}),
]:
    assert load(path, given | {"classes": "x,y"} | option, env).corrector == {"damping": 0.25}
    assert load_serve(path, {"classes": "x,y"} | option, env).corrector == {"damping": 0.25}
for those in (options(), serve_options()):  # the tables of the reference
    assert {one.name: one.help for one in those}["damping"] == "a number for a test (0.5)"
for command in ("pipe", "replay", "run", "serve"):
    try:
        main([command, "--help"])
    except SystemExit:
        pass
"""


def test_a_setting_is_added_in_one_place(tmp_path):
    """And found in every other."""
    package = tmp_path / "stream_can"
    (package / "method").mkdir(parents=True)
    for folder in (ROOT / "stream_can", ROOT / "stream_can" / "method"):
        to = package / folder.relative_to(ROOT / "stream_can")
        for one in folder.iterdir():
            if one.name not in ("method", "settings.py", "__pycache__"):
                (to / one.name).symlink_to(one)
    text = (ROOT / "stream_can" / "method" / "settings.py").read_text()
    changed = text.replace("    segments: Annotated[\n", ADDED)
    assert changed != text
    (package / "method" / "settings.py").write_text(changed)
    done = subprocess.run(
        [sys.executable, "-c", FOUND], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "COLUMNS": "200"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("--damping") == 4
    assert done.stdout.count("number for a test (0.5)") == 4


def test_a_setting_that_is_none_is_named():
    with pytest.raises(TypeError, match="unknown setting 'half_live'; did you mean half_life"):
        Corrector(2, half_live=3)
    with pytest.raises(TypeError, match="unknown setting 'x'; known: paths, half_life"):
        Corrector.from_bytes(Corrector(2).to_bytes(), x=3)


def test_every_setting_is_an_option_and_a_setting_of_kafka_with_its_help():
    fields = {field.name: field for field in dataclasses.fields(CorrectorOptions)}
    kafka = {option.name: option.help for option in options()}
    assert fields.keys() == {"train_counts", *SETTINGS}
    for name in LOOP:
        assert kafka[name] == about(name)


def test_help_says_the_default():
    assert about("half_life").endswith("(5000)")
    assert about("uncertainty").endswith("(topk_entropy)")
    assert all(name in about("uncertainty") for name in UNCERTAINTIES)


@pytest.mark.parametrize("name", UNCERTAINTIES)
def test_every_measure_of_the_kernel_is_taken(name):
    assert Corrector(2, uncertainty=name).settings["uncertainty"] == name


@pytest.mark.parametrize("call", TAKE_K.values(), ids=TAKE_K)
def test_whole_numbers_are_integers_everywhere(call):
    expected = call(3)
    for k in (3.0, np.int8(3), np.float64(3)):
        np.testing.assert_array_equal(call(k), expected)


@pytest.mark.parametrize("call", TAKE_K.values(), ids=TAKE_K)
@pytest.mark.parametrize("k", [1, 2.5, 10**30, math.inf, math.nan, "3", True, None, [3], 1 << 62])
def test_no_other_k_is_taken_anywhere(call, k):
    with pytest.raises(ValueError, match=r"k: .*, expected an integer >= 2"):
        call(k)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            {"half_life": 0},
            "half_life: 0, expected a number >= 0.001: events",
        ),
        ({"half_life": 10**400}, "half_life: 1000"),
        ({"half_life": np.float32("nan")}, "half_life: nan"),
        ({"uncertainty": ["margin"]}, r"uncertainty: \['margin'\], expected one of topk_entropy, "),
        ({"threshold": -0.1}, "threshold: -0.1, expected a number >= 0 and <= 1: uncertainty"),
        ({"pseudo_count": math.inf}, r"pseudo_count: inf, expected a number >= 0 and <= 1e\+300"),
        ({"prior_strength": "5"}, "prior_strength: '5', expected a number > 0"),
    ],
)
def test_errors_say_name_value_and_what_is_expected(setting, message):
    with pytest.raises(ValueError, match=message):
        Corrector(3, **setting)


def test_kafka_refuses_a_setting_with_the_same_words():
    given = {"bootstrap_servers": "a:1", "application_id": "a", "input": "i", "output": "o"}
    given["classes"] = "x,y"
    with pytest.raises(
        SettingsError, match=r"half_life: -1\.0, expected a number >= 0\.001: events"
    ):
        load(None, given | {"half_life": "-1"}, {})
    with pytest.raises(SettingsError, match="uncertainty: 'sure', expected one of"):
        load(None, given | {"uncertainty": "sure"}, {})
    with pytest.raises(SettingsError, match="raw: 'probs', expected"):
        load(None, given | {"raw": "probs"}, {})
    assert load(None, given | {"k": "4"}, {}).corrector == {"k": 4}


def test_settings_are_kept_as_given():
    corrector = Corrector(2, half_life=7, k=np.int64(4), threshold=np.float64(0.5))
    kept = corrector.settings
    assert list(kept) == list(LOOP)
    assert [type(kept[name]) for name in ("half_life", "k", "threshold")] == [int, int, float]
    assert Corrector.from_bytes(corrector.to_bytes()).settings == kept


def test_a_number_beyond_the_integers_of_a_snapshot_is_kept():
    corrector = Corrector(2, half_life=10**30, prior_strength=10**30)
    assert Corrector.from_bytes(corrector.to_bytes()).settings == corrector.settings


@pytest.mark.parametrize("classes", [2**62, 10**30, 2**24 + 1])
def test_a_number_of_classes_beyond_all_memory(classes):
    with pytest.raises(ValueError, match=r"classes: \d+ classes, expected at least 1 and at most"):
        Corrector(classes)
