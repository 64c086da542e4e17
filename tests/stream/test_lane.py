"""Lanes: a task with two is the two tasks that each would be, in the order of the records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, LabelRequests
from stream_can.stream.fields import Fields
from stream_can.stream.lane import Lane, Lanes
from stream_can.stream.task import Task
from tests.stream.records import CLASSES, bare, batches, record_streams

pytestmark = pytest.mark.fast

FIELDS = Fields(digits=4)


class ByKey(Lanes):
    """A second lane, for the records of some keys: all that it takes to have one."""

    def __init__(self, only: Lane, other: Lane) -> None:
        super().__init__(only)
        self.other = other

    def __iter__(self):
        return iter((self.only, self.other))

    def of(self, record):
        return self.other if is_other(record) else self.only

    def open(self, records, reading):
        lanes, said, off = [self.of(record) for record in records], {}, 0
        for lane in self:
            own = [i for i, of in enumerate(lanes) if of is lane]
            opened, divided = lane.open([records[i] for i in own], reading)
            said |= zip(own, opened, strict=True)
            off += divided
        return [said[i] for i in range(len(records))], lanes, off


def is_other(record):
    return record.key is not None and record.key >= b"3"


def made(corrector=None, **options):
    return Task(corrector or Corrector(CLASSES), labels_topic="labels", **options)


def other_corrector():
    return Corrector(CLASSES, train_counts=[1, 2, 30])


@given(record_streams(), st.lists(st.integers(1, 7), min_size=1))
def test_two_lanes_are_two_tasks(records, cuts):
    """With other settings and fields, and each with its own requests and scores."""
    first = made(requests=LabelRequests(0.5))
    second = made(other_corrector(), fields=FIELDS, requests=LabelRequests(1.0, seed=3))
    both = made(requests=LabelRequests(0.5))
    both.lanes = ByKey(
        both.lane,
        Lane(other_corrector(), fields=FIELDS, recent_bytes=64 << 20,
             requests=LabelRequests(1.0, seed=3)),
    )  # fmt: skip
    for batch in batches(records, cuts):
        of_first = first.handle([r for r in batch if not is_other(r)])
        of_second = second.handle([r for r in batch if is_other(r)])
        result = both.handle(batch)
        for got, of in (
            (result.outputs, lambda result: result.outputs),
            (result.dead_letters, lambda result: result.dead_letters),
        ):
            offsets = [(out.source.topic, out.source.offset) for out in got]
            order = [(r.topic, r.offset) for r in batch]
            assert offsets == sorted(offsets, key=order.index)
            apart = {(o.source.topic, o.source.offset): o
                     for o in (*of(of_first), *of(of_second))}  # fmt: skip
            assert bare(got) == bare(apart[at] for at in offsets)
            assert len(apart) == len(got)
        assert bare(result.requests) == bare([*of_first.requests, *of_second.requests])
        assert result.answered == of_first.answered + of_second.answered
    assert both.counts.matched == first.counts.matched + second.counts.matched
    assert both.counts.unmatched == first.counts.unmatched + second.counts.unmatched
    for lane, task in zip(both.lanes, (first, second), strict=True):
        assert lane.corrector.to_bytes() == task.corrector.to_bytes()
        assert lane.sent_scores.n == task.sent_scores.n
        assert lane.sent_scores.log_loss_sum == task.sent_scores.log_loss_sum
        assert [len(lane.recent), len(lane.open_requests)] == [
            len(task.lane.recent), len(task.lane.open_requests)
        ]  # fmt: skip


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
