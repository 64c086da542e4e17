"""Values of columns in messages: where they stand, what they are called, and what is none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.messages.columns import LONGEST
from stream_can.messages.fields import Fields
from stream_can.messages.messages import Messages
from tests.messages.stream import corrected, label, label_reader, prediction

pytestmark = pytest.mark.fast

ROW = [0.7, 0.3]
SAID = [
    ('"AA"', "AA"),
    ('"\\u00e9\\n"', "é\n"),
    ('""', ""),
    ("7", "7"),
    ("-7", "-7"),
    ("7.0", "7"),
    ("70e-1", "7"),
    ("-0", "0"),
    ("-0.0", "0"),
    ("1e3", "1000"),
    ("9007199254740993", "9007199254740993"),
    ("123456789012345678901234567890", "123456789012345678901234567890"),
    ("true", "true"),
    ("false", "false"),
    ("null", None),
    (json.dumps("x" * LONGEST), "x" * LONGEST),
]
NONE = [
    ("0.5", "a measurement"),
    ("[1]", "an array"),
    ('{"a": 1}', "an object"),
    ("1e999", "more than a float holds"),
    (json.dumps("x" * (LONGEST + 1)), "has 1001 characters"),
    ("7" * (LONGEST + 1), "has 1001 characters"),
]


def read(value, headers=(), columns=("x",)):
    return Messages(["a", "b"], columns=columns).read(value.encode(), headers)


@pytest.mark.parametrize(("text", "called"), SAID)
def test_a_value_is_its_text(text, called):
    found = read(f'{{"x": {text}, "probs": [0.4, 0.6]}}')
    assert (found.segments, found.fault) == ((called,), None)


@pytest.mark.parametrize(("text", "why"), NONE)
def test_what_is_none_is_not_given_and_named(text, why):
    found = read(f'{{"x": {text}, "probs": [0.4, 0.6]}}')
    assert found.segments == (None,)
    assert found.fault.startswith("x: ")
    assert why in found.fault
    assert found.fault.endswith("; not given")


def test_columns_stand_where_their_names_say():
    columns = ("x", "customer.country", "model.name", "é", "header:X-Tenant", "gone", "a.b")
    value = {
        "x": 1,
        "customer": {"country": "NL", "age": 50},
        "model": {"probs": ROW, "name": "m"},
        "é": True,
        "a": 3,
    }
    messages = Messages(["a", "b"], Fields(probs="model.probs"), columns=columns)
    headers = [("X-Tenant", b"old"), ("x", b"no"), ("X-Tenant", b"acme")]
    found = messages.read(json.dumps(value).encode(), headers)
    assert found.segments == ("1", "NL", "m", "true", "acme", None, None)
    assert found.fault is None
    assert json.loads(messages.write(found, np.array([0.5, 0.5])))["customer"] == value["customer"]
    for data, said in ((None, None), (b"\xff", None), ("é".encode(), "é")):
        assert messages.read(json.dumps(value).encode(), [("X-Tenant", data)]).segments[4] == said


def test_a_key_that_occurs_twice_counts_where_it_occurs_last():
    assert read('{"x": 1, "probs": [0.4, 0.6], "x": 2}').segments == ("2",)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (["a..b"], "'a..b' is no field name, dotted path or 'header:NAME'"),
        (["model.probs"], "'model.probs' is the field of the probabilities"),
        (["model"], "'model' is the field of the probabilities"),
        (["model.probs.a"], "'model.probs.a' is the field of the probabilities"),
        (["model.probs_raw"], "is the field of the original probabilities"),
        (["label"], "'label' is the field of the label"),
    ],
)
def test_columns_that_are_no_place_or_another_one_are_refused(columns, why):
    with pytest.raises(ValueError, match=f"segments: .*{why}"):
        Messages(["a", "b"], Fields(probs="model.probs"), columns=columns)


def test_a_bad_value_does_not_stop_its_prediction_and_says_where_it_was():
    records = [
        prediction(0, ROW, b"0", x="AA", y="c"),
        prediction(1, ROW, b"1", x=0.5, y="c"),
        prediction(2, ROW, b"2", x=[], y={}),
        prediction(3, ROW, b"3"),
    ]
    result = corrected(Corrector(["a", "b"], segments=["x", "y"]), records)
    assert len(result.outputs) == 4
    assert result.dead_letters == []
    assert [(record.offset, fault) for record, fault in result.faults] == [
        (1, "x: 0.5 is a measurement; a segment's value is a text or an integer; not given"),
        (2, "x: an array; not given"),
    ]
    sent = {"x": ["AA", None, None, None], "y": ["c", "c", None, None]}
    assert result.sent.segments == sent


def test_a_label_has_values_where_it_brings_a_prediction():
    """Otherwise those of its prediction count."""
    reader, _ = label_reader(["a", "b"], ["x"])
    plain, echo = reader.parse([
        label(0, "b", x="now"), label(1, "b", x="echoed", probs_raw=ROW),
    ]).labels  # fmt: skip
    assert plain.segments is None
    assert echo.segments == {"x": "echoed"}
