"""The text of an array and its numbers: what msgspec takes, refuses and writes, bit for bit."""

from __future__ import annotations

from array import array

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stream_can.messages import numbers

pytestmark = pytest.mark.fast

decode = msgspec.json.Decoder(list[float]).decode
digits = st.text("0123456789", min_size=1, max_size=25)
whole = digits | st.integers().map(str) | st.sampled_from(["0", "18446744073709551616", "9" * 5000])
fractions = st.just("") | digits.map(".{}".format) | st.sampled_from([".", ".5" + "0" * 5000 + "1"])
exponents = st.just("") | st.builds(
    "{}{}{}".format,
    st.sampled_from(["e", "E"]),
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 400).map(str) | st.sampled_from(["", "00", "007", "99999"]),
)
signs = st.sampled_from(["", "", "", "-", "-", "+"])
plain = st.floats(allow_nan=False, allow_infinity=False).map(repr)
valid = plain | st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 2**70).map(str),
    st.just("") | digits.map(".{}".format),
    st.just("") | st.integers(-400, 250).map("e{}".format) | st.integers(0, 250).map("E+{}".format),
)
other = st.sampled_from(
    ["null", "true", '"1"', "nan", "NaN", "Infinity", "-inf", "[1]", "{}", "-", "", ".5", "0x1p3"]
)
entries = plain | st.builds("{}{}{}{}".format, signs, whole, fractions, exponents) | other
space = st.text(" \n\t\r", max_size=2)
commas = st.sampled_from([",", ",", ",", " ", "", ",,", "\v"])


@st.composite
def array_texts(draw):
    """Arrays of numbers, about half of them broken somewhere."""
    if draw(st.booleans()):
        items = draw(st.lists(valid, max_size=12))
        text = "[" + (draw(space) + "," + draw(space)).join(items) + draw(space) + "]"
    else:
        items = draw(st.lists(entries, max_size=4))
        text = "[" + "".join(item + draw(commas) for item in items)
        text = text.removesuffix(",") + draw(st.sampled_from(["]"] * 6 + ["", ",]", "]]", "]0"]))
    data = (draw(space) + text + draw(space)).encode()
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(data)))
        put = draw(st.sampled_from(list(b'0123456789+-.eE,[]{} "nN\x00\xff')))
        data = data[:at] + bytes([put]) + data[at + draw(st.integers(0, 1)) :]
    return data


def numbers_in(text: bytes) -> list[float] | None:
    """What msgspec reads; None where it refuses."""
    try:
        return decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def array_text(row) -> bytes:
    (text,) = numbers.array_texts(row[None])
    return text


def bits(row) -> bytes:
    return array("d", row).tobytes()


def test_a_text_is_read_as_msgspec_reads_it_or_left_to_it(number_examples):
    seen = {"read": 0, "refused": 0}

    @settings(max_examples=number_examples, suppress_health_check=list(HealthCheck))
    @given(array_texts())
    @example(b"[]")
    @example(b"[-0]")
    @example(b"[-0.0,-0e0]")
    @example(b"[1e400]")
    @example(b"[1e-400]")
    @example(b"[01]")
    @example(b"[0.1.2]")
    @example(b"[1,]")
    @example(b"[1 2]")
    @example(b"[" + b"9" * 400 + b"]")
    @example(b"[0." + b"0" * 5000 + b"1]")
    @example(b"[[1]]")
    @example(b"[" * 10_000)
    @example(b" ]")
    @example(b"1")
    @example(b"")
    def compare(text):
        known = numbers_in(text)
        m = 1 if known is None else len(known)
        got = numbers.read_array(text, m)
        if known is None:
            seen["refused"] += 1
            assert got is None
        elif got is None:  # nothing but what is rounded to zero, and the array of no numbers
            assert m == 0 or 0 in known
        else:
            seen["read"] += 1
            assert got.tobytes() == bits(known)
        for wrong in {0, m - 1, m + 1} - {m, -1}:
            assert numbers.read_array(text, wrong) is None

    compare()
    assert min(seen.values()) > number_examples / 10


def test_every_bit_pattern_is_written_as_msgspec_writes_it_and_reads_back(number_examples):
    @settings(max_examples=number_examples)
    @given(st.lists(st.integers(0, 2**64 - 1), max_size=8))
    def compare(patterns):
        row = np.array(patterns, np.uint64).view(np.float64)
        text = array_text(row)
        assert text == msgspec.json.encode(row.tolist())
        if np.isfinite(row).all() and len(row):
            assert numbers.read_array(text, len(row)).tobytes() == row.tobytes()

    compare()


def test_bits_at_random_and_where_the_form_changes(number_examples):
    rng = np.random.default_rng()
    for start in range(0, number_examples, 1000):
        any_bits = rng.integers(0, 2**64, 1000, np.uint64).view(np.float64)
        decades = 10.0 ** rng.integers(-25, 25, 1000) * rng.choice([1, -1], 1000)
        near = np.nextafter(decades, rng.choice([-np.inf, 0, np.inf], 1000))
        short = np.round(rng.random(1000), rng.integers(17)) * decades
        for row in (any_bits, decades, near, short, rng.dirichlet(np.ones(1000))):
            text = array_text(row)
            assert text == msgspec.json.encode(row.tolist()), start
            row = row[np.isfinite(row)]
            assert numbers.read_array(array_text(row), len(row)).tobytes() == row.tobytes()


def test_a_row_lies_in_one_piece():
    with pytest.raises(ValueError, match="contiguous"):
        next(numbers.array_texts(np.ones((2, 6))[:, ::2]))


def test_a_text_for_each_row():
    rows = np.arange(6.0).reshape(3, 2)
    assert list(numbers.array_texts(rows)) == [b"[0.0,1.0]", b"[2.0,3.0]", b"[4.0,5.0]"]
    assert list(numbers.array_texts(np.empty((0, 2)))) == []
