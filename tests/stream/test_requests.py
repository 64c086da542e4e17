"""A task that asks for labels: marks, records of requests, scores of the random half alone."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, LabelRequests
from stream_can.messages.fields import Fields
from stream_can.stream.requests import REASON_HEADER, RequestMessage
from stream_can.stream.task import Task
from tests.stream.records import (
    CLASSES,
    bare,
    batches,
    kept,
    label,
    new,
    prediction,
    record_streams,
)

pytestmark = pytest.mark.fast


def asking(budget=0.5, **options):
    return new(requests=LabelRequests(budget), **options)


@given(record_streams(), st.lists(st.integers(1, 7), min_size=1), st.sampled_from([60, 1 << 20]))
def test_cut_anywhere_it_asks_the_same(records, cuts, recent_bytes):
    whole, parts = asking(recent_bytes=recent_bytes), asking(recent_bytes=recent_bytes)
    expected = whole.handle(records)
    outputs, requests = [], []
    for batch in batches(records, cuts):
        result = parts.handle(batch)
        outputs += result.outputs
        requests += result.requests
    assert bare(outputs) == bare(expected.outputs)
    assert bare(requests) == bare(expected.requests)
    assert parts.to_bytes() == whole.to_bytes()
    assert kept(parts) == kept(whole)


@given(record_streams(), st.lists(st.integers(1, 7), min_size=1), st.sampled_from([60, 1 << 20]))
def test_open_requests_are_those_that_no_label_has_answered(records, cuts, recent_bytes):
    whole, parts = asking(recent_bytes=recent_bytes), asking(recent_bytes=recent_bytes)
    expected, answered, start = whole.handle(records), 0, 0
    while start < len(records):
        size = cuts[start % len(cuts)]
        answered += parts.handle(records[start : start + size]).answered
        start += size
    assert answered == expected.answered
    assert len(parts.lane.open_requests) == len(whole.lane.open_requests)
    assert parts.lane.open_requests.oldest == whole.lane.open_requests.oldest
    forgotten = len(expected.requests) - answered - len(whole.lane.open_requests)
    assert forgotten >= 0
    if recent_bytes > 60 and len({record.key for record in records}) == len(records):
        assert forgotten == 0


def test_a_request_is_open_until_its_label_comes_or_its_prediction_is_dropped():
    task = asking(budget=1, recent_bytes=6 * (8 * 3 + 1))  # keeps six predictions
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 9).tolist()
    predictions = [prediction(i, row, b"%d" % i) for i, row in enumerate(rows)]
    assert len(task.handle(predictions[:3]).requests) == len(task.lane.open_requests) == 3
    assert task.lane.open_requests.oldest == predictions[0].timestamp
    labels = [label(0, "a", b"0"), label(1, "a", b"0"), label(2, "a", b"x")]
    assert task.handle(labels).answered == 1
    assert len(task.lane.open_requests) == 2
    assert task.lane.open_requests.oldest == predictions[1].timestamp
    assert task.handle([predictions[3], label(3, "b", b"3")]).answered == 1
    assert task.handle(predictions[4:]).answered == 0
    assert task.lane.open_requests.oldest == predictions[4].timestamp
    assert len(task.lane.open_requests) == 5  # 1 and 2 were dropped with their predictions


@given(record_streams())
def test_asking_changes_nothing_else(records):
    plain, asks = new(), asking()
    expected, result = plain.handle(records), asks.handle(records)
    marked = 0
    for output, other in zip(result.outputs, expected.outputs, strict=True):
        if output.value is None:
            assert other.value is None
            continue
        message = json.loads(output.value)
        marked += message.pop("ask", None) in ("random", "margin")
        assert message == json.loads(other.value)
    assert marked == len(result.requests)
    assert asks.corrector.to_bytes() == plain.corrector.to_bytes()
    assert expected.requests == []


def rows(n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(3, 0.7), n).tolist()


def test_a_request_says_what_it_takes_to_answer():
    task, alone = asking(0.2), LabelRequests(0.2)
    corrector = Corrector(CLASSES)
    records = [prediction(i, row, b"%d" % i, n=i) for i, row in enumerate(rows(300))]
    result = task.handle(records)
    outputs = {output.key: output for output in result.outputs}
    expected = {}
    for record in records:
        p = json.loads(record.value)["probs"]
        row = corrector.process_one(p)
        if request := alone.ask_one(record.key, row):
            expected[record.key] = request, p, row
    assert [request.key for request in result.requests] == list(expected)
    for record in result.requests:
        message = msgspec.json.decode(record.value, type=RequestMessage)
        request, p, row = expected[record.key]
        assert (message.reason, message.probability) == request
        assert record.headers == [(REASON_HEADER, request.reason.encode())]
        assert message.id.encode() == record.key
        assert message.time == record.timestamp == outputs[record.key].timestamp
        assert message.probs_raw == pytest.approx(p)
        assert message.probs == pytest.approx(row)
        assert bytes(message.message) == outputs[record.key].value
        assert json.loads(outputs[record.key].value)["ask"] == request.reason
    assert {json.loads(request.value)["reason"] for request in result.requests} == {
        "random", "margin"
    }  # fmt: skip


def test_scores_are_of_the_random_half_alone():
    task = asking(0.3)
    predicted = rows(400)
    result = task.handle([prediction(i, row, b"%d" % i) for i, row in enumerate(predicted)])
    reasons = {request.key: json.loads(request.value)["reason"] for request in result.requests}
    at_random = [key for key, reason in reasons.items() if reason == "random"]
    assert 30 < len(at_random) < len(reasons)
    # Labels of rows that nobody asked for come too.
    task.handle([label(i, "b", b"%d" % i) for i in range(400)])
    assert task.corrector.n_labels == 400
    assert task.raw_scores.n == task.sent_scores.n == len(at_random)
    right = np.mean([np.argmax(predicted[int(key)]) == 1 for key in at_random])
    assert task.raw_scores.accuracy == pytest.approx(right)


def test_a_prediction_without_an_id_is_not_asked_for():
    task = asking(1.0, fields=Fields(id="id"))
    records = [
        prediction(i, row, b"key", **({"id": i} if i % 2 else {})) for i, row in enumerate(rows(60))
    ]
    result = task.handle(records)
    asked = [json.loads(output.value) for output in result.outputs if b'"ask"' in output.value]
    assert len(asked) == len(result.requests) > 20
    assert all(message["id"] % 2 for message in asked)
    assert {json.loads(request.value)["id"] for request in result.requests} == {
        str(message["id"]) for message in asked
    }


def test_another_budget_begins_anew():
    task = asking(0.2)
    task.handle([prediction(i, row, b"%d" % i) for i, row in enumerate(rows(50))])
    data = task.to_bytes()
    same = Task.from_bytes(data, labels_topic="labels", requests=LabelRequests(0.2))
    assert same.lane.requests.to_bytes() == task.lane.requests.to_bytes()
    other = Task.from_bytes(data, labels_topic="labels", requests=LabelRequests(0.1))
    assert other.lane.requests.to_bytes() == LabelRequests(0.1).to_bytes()
    assert Task.from_bytes(data, labels_topic="labels").lane.requests is None


def test_the_mark_counts_where_outputs_may_be_too_large():
    record = prediction(0, [1 / 3, 1 / 3, 1 / 3], b"key", x="y" * 100)
    sizes = []
    for limit in range(200, 500):
        for output in asking(1.0, max_bytes=limit).handle([record]).outputs:
            assert b'"ask"' in output.value
            sizes.append(len(output.key) + len(output.value))
            assert sizes[-1] <= limit
    assert 0 < len(sizes) < 300
