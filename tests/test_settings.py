"""The settings of a corrector: one statement, and everything that goes by it."""

from __future__ import annotations

import dataclasses
import inspect
import math

import numpy as np
import pytest

from stream_can import Corrector, batch_can, topk_entropy
from stream_can.cli.options import CorrectorOptions
from stream_can.kafka import SettingsError, load, options
from stream_can.method.settings import DEFAULTS, Settings, about
from stream_can.method.uncertain import UNCERTAINTIES
from stream_can.river import CorrectedClassifier
from stream_can.sklearn import StreamCalibrator

pytestmark = pytest.mark.fast

NAMES = Settings.__struct_fields__
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
    own = [name for name in NAMES if name in parameters]
    assert own == list(NAMES) if inspect.isclass(call) else "k" in own
    for name in own:
        assert parameters[name].default == getattr(DEFAULTS, name)


def test_every_setting_is_an_option_and_a_setting_of_kafka_with_its_help():
    fields = {field.name: field for field in dataclasses.fields(CorrectorOptions)}
    kafka = {option.name: option.help for option in options()}
    assert fields.keys() == {"train_counts", "paths", "segments", "segments_mb", *NAMES}
    for name in NAMES:
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
            "half_life: 0, expected a number > 0: events",
        ),
        ({"half_life": 10**400}, "half_life: 1000"),
        ({"half_life": np.float32("nan")}, "half_life: nan"),
        ({"uncertainty": ["margin"]}, r"uncertainty: \['margin'\], expected one of topk_entropy, "),
        ({"threshold": -0.1}, "threshold: -0.1, expected a number >= 0 and <= 1: the uncertainty"),
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
    with pytest.raises(SettingsError, match=r"half_life: -1\.0, expected a number > 0: events"):
        load(None, given | {"half_life": "-1"}, {})
    with pytest.raises(SettingsError, match="uncertainty: 'sure', expected one of"):
        load(None, given | {"uncertainty": "sure"}, {})
    with pytest.raises(SettingsError, match="raw: 'probs', expected"):
        load(None, given | {"raw": "probs"}, {})
    assert load(None, given | {"k": "4"}, {}).corrector == {"k": 4}


def test_settings_are_kept_as_given():
    corrector = Corrector(2, half_life=7, k=np.int64(4), threshold=np.float64(0.5))
    kept = corrector.settings
    assert list(kept) == list(NAMES)
    assert [type(kept[name]) for name in ("half_life", "k", "threshold")] == [int, int, float]
    assert Corrector.from_bytes(corrector.to_bytes()).settings == kept


def test_a_number_beyond_the_integers_of_a_snapshot_is_kept():
    corrector = Corrector(2, half_life=10**30, prior_strength=10**30)
    assert Corrector.from_bytes(corrector.to_bytes()).settings == corrector.settings


@pytest.mark.parametrize("classes", [2**62, 10**30, 2**24 + 1])
def test_a_number_of_classes_beyond_all_memory(classes):
    with pytest.raises(ValueError, match=r"classes: \d+ classes, expected at least 1 and at most"):
        Corrector(classes)
