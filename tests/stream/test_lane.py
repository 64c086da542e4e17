"""What a lane makes of records."""

from __future__ import annotations

import pytest
from hypothesis import given

from stream_can import Corrector, LabelRequests
from stream_can.stream.task import Task
from tests.stream.records import CLASSES, record_streams

pytestmark = pytest.mark.fast


def made(corrector=None, **options):
    return Task(corrector or Corrector(CLASSES), labels_topic="labels", **options)


@given(record_streams())
def test_what_is_made_of_a_record_says_which(records):
    result = made(requests=LabelRequests(1.0)).handle(records)
    stored = {(record.topic, record.offset): record for record in records}
    for out in (*result.outputs, *result.dead_letters, *result.requests):
        assert out.source is stored[out.source.topic, out.source.offset]
        assert (out.key, out.timestamp) == (out.source.key, out.source.timestamp)
    for letter in result.dead_letters:
        headers = dict(letter.headers)
        assert headers["__connect.errors.topic"] == letter.source.topic.encode()
        assert headers["__connect.errors.offset"] == b"%d" % letter.source.offset
