"""docs/formats.md: its schemas are those that the code makes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stream_can.messages.codecs.avro import output_schema
from stream_can.messages.codecs.framing import AnswerFields, SchemaText

pytestmark = pytest.mark.fast

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()


def test_the_output_s_schema_is_the_one_shown() -> None:
    given, shown = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    made = output_schema(SchemaText("AVRO", given), AnswerFields(["model", "probs"], "probs_raw"))
    assert json.loads(made.text) == json.loads(shown)
