"""What was sent, read back from outputs, is what the one who sent it knew."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.messages.fields import Fields
from stream_can.messages.records import Output, Record
from stream_can.method.asking import LabelRequests
from stream_can.stream.task import Task

CLASSES = ["a", "b", "c"]


def array(p):
    return p.tolist()


def named(p):
    return dict(zip(CLASSES, p.tolist(), strict=True))


def scored(p):
    return [{"label": name, "score": x} for name, x in named(p).items()]


def predictions(n, form=array, begin=0, digits=None):
    rng = np.random.default_rng(begin)
    rows = rng.dirichlet([0.5] * 3, n)
    if digits is not None:
        rows = rows.round(digits)
    return [
        Record("in", 0, begin + i, 1000 + i, b"k%d" % (i % 40), json.dumps(
            {"id": i, "probs": form(p)}).encode())
        for i, p in enumerate(rows)
    ]  # fmt: skip


def labels(n):
    return [Record("labels", 0, i, 2000 + i, b"k%d" % i, b'{"label": "b"}') for i in range(n)]


def records(outputs: list[Output]) -> list[Record]:
    return [
        Record("out", 0, 10 * i, o.timestamp, o.key, o.value, o.headers)
        for i, o in enumerate(outputs)
    ]


def restored(task, options, history):
    again = Task.from_bytes(task.to_bytes(), **options)
    again.rebuild([r for r in history if task.oldest <= r.offset])
    return again


@pytest.mark.parametrize("form", [array, named, scored])
@pytest.mark.parametrize(
    "fields",
    [Fields(), Fields(digits=3), Fields(raw=""), Fields(id="id"), Fields(normalise="always")],
    ids=["plain", "digits", "no raw", "id", "normalise"],
)
def test_a_restored_task_knows_what_was_sent(form, fields):
    options = {"labels_topic": "labels", "fields": fields, "recent_bytes": 3000}
    task = Task(Corrector(CLASSES), **options)
    digits = 2 if fields.normalise == "always" else None
    history = predictions(30, form, digits=digits)
    task.handle([*history, *labels(10)])
    more = predictions(90, form, 30, digits)
    outputs = task.handle(more).outputs
    again = restored(task, options, history + more)
    assert all(one.sent is None for _, one in again.lane.recent)
    again.lane.recall(records(outputs))
    ids, sent = zip(*((id, (one.raw, one.sent)) for id, one in task.lane.recent), strict=True)
    assert [(id, (one.raw, one.sent)) for id, one in again.lane.recent] == [
        *zip(ids, sent, strict=True)
    ]
    assert len(ids) == 40 if fields.id is None else len(ids) > 80


def test_what_others_wrote_among_the_outputs_is_left_out():
    options = {"labels_topic": "labels"}
    task = Task(Corrector(CLASSES), **options)
    history = predictions(10)
    outputs = records(task.handle(history).outputs)
    again = restored(task, options, history)
    foreign = [
        outputs[0].value.replace(b'"probs":', b'"probs":[2,-1,0],"x":'),
        outputs[1].value.replace(b'"probs":[', b'"probs":[7'),
        json.dumps({"probs": [1, 0, 0], "probs_raw": [0.2, 0.3, 0.5]}).encode(),
        b"garbage",
        None,
    ]
    for i, value in enumerate(foreign):
        outputs[i].value = value
    again.lane.recall(outputs)
    unknown = [one.sent is None for _, one in again.lane.recent]
    assert unknown == [True] * 5 + [False] * 5


def test_open_requests_are_those_of_before_without_the_answered():
    options = {"labels_topic": "labels"}

    def asking():
        return options | {"requests": LabelRequests(0.2)}

    task = Task(Corrector(CLASSES), **asking())
    history = predictions(40)
    outputs = task.handle(history).outputs
    answers = labels(25)
    task.handle(answers)
    again = restored(task, asking(), history)
    assert len(again.lane.open_requests) == 0
    again.lane.recall(records(outputs))
    assert len(again.lane.open_requests) > len(task.lane.open_requests) > 0
    earlier = Record("labels", 0, 0, 1000 + 38, b"k39", b'{"label": "a"}')
    bad = Record("labels", 0, 0, 9000, b"k39", b'{"label": "zebra"}')
    again.lane.recall_labels([*answers, earlier, bad])
    assert again.lane.open_requests._asked == task.lane.open_requests._asked
    assert [one.sent for _, one in again.lane.recent] == [one.sent for _, one in task.lane.recent]
