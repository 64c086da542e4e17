"""What is shown of a message that could not be read has no text of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can.app.letters import letter, without_payload
from tests.app.small import dead


@pytest.mark.parametrize(
    ("error", "message", "shown"),
    [
        ("UnknownClass", "label: se'cret is none of the 3 classes", "a name is none of the 3"),
        (
            "UnknownClass",
            "'sec is none of the 9 cret' is none of the 3 classes",
            "of the 3 classes",
        ),
        ("BadMessage", "no field 'probs'", "no field 'probs'"),
        ("BadMessage", "probs: at 'secret': it", "probs: at '…': it"),
        ("BadMessage", "at \"se\\\"cr'et\" or 's\\'ecret'", "at '…' or '…'"),
        ("InvalidPrediction", "probabilities sum to 1.3, expected 1", "sum to 1.3"),
    ],
)
def test_a_dead_letter_shows_nothing_of_what_was_in_it(
    error: str, message: str, shown: str
) -> None:
    found = letter(dead(error, message), 5.0, ["probs"])
    assert shown in found.reason
    assert "cret" not in msgspec.json.encode(found).decode()
    assert (found.topic, found.partition, found.offset, found.error) == ("in", 3, 17, error)


@given(st.text(max_size=40))
def test_no_text_of_a_record_gets_through(text: str) -> None:
    said = without_payload("BadMessage", f"probs: at {text!r}: what", ["probs"])
    assert said == ("probs: at 'probs': what" if text == "probs" else "probs: at '…': what")
