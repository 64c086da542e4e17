"""Saved bytes of every released version are read, and what they hold goes on as it did."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from stream_can.method.class_names import preview
from tests.formats.formats import FORMATS, SAMPLES, empty_folder

VERSIONS = sorted(SAMPLES.iterdir())


def assert_near(value: Any, expected: Any, place: str = "") -> None:
    """Alike, but for the last digits of a number, in which machines may differ."""
    if isinstance(expected, dict):
        assert value.keys() == expected.keys(), place
        value, expected = [*value.values()], [*expected.values()]
    if isinstance(expected, list):
        assert len(value) == len(expected), place
        for k, pair in enumerate(zip(value, expected, strict=True)):
            assert_near(*pair, f"{place}[{k}]")
    elif isinstance(expected, float) and math.isfinite(expected):
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12), place
    else:
        assert value == expected or (value != value and expected != expected), place


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("version", VERSIONS, ids=[folder.name for folder in VERSIONS])
def test_a_sample_of_a_version_is_read(version, name):
    with empty_folder() as folder:
        outcome = FORMATS[name].use((version / name).read_bytes(), folder)
    expected = msgspec.json.decode((version / f"{name}.json").read_bytes())
    assert_near(msgspec.json.decode(msgspec.json.encode(outcome)), expected)


def test_every_format_has_a_sample_of_the_newest_version():
    names = {path.stem for path in VERSIONS[-1].iterdir()}
    assert names == {*FORMATS}, preview([*names ^ {*FORMATS}])
