"""Records of predictions and labels, good and bad, and what a worker makes of them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

from stream_can.app.label_reader import LabelReader
from stream_can.app.model_messages import ModelMessages
from stream_can.kafka.current_state import CurrentState
from stream_can.kafka.record_corrector import RecordCorrector
from stream_can.kafka.state import Index
from stream_can.learner.model_name import ONLY
from stream_can.learner.switch import ON
from stream_can.messages.fields import Fields
from stream_can.messages.formats import JSON
from stream_can.messages.records import Record

CLASSES = ["a", "b", "c"]
M = len(CLASSES)
COLUMNS = ("carrier", "customer.country", "header:X")


def prediction(offset, p, key=None, headers=(), **more):
    value = json.dumps({"probs": p} | more).encode()
    return Record("in", 0, offset, 1000 + offset, key, value, headers)


def label(offset, name, key=None, headers=(), **more):
    value = json.dumps({"label": name} | more).encode()
    return Record("labels", 0, offset, 5000 + offset, key, value, headers)


def corrected(corrector, records, *, fields=None, formats=JSON, max_bytes=None):
    """Outputs and dead letters of records, by a state that holds one corrector."""
    index = Index(1, "", {}, {}, [], [], [], False, 1000, False, ON, [], 0.0)
    state = CurrentState(0, index, {ONLY: corrector}, {None: corrector})
    segments = getattr(corrector, "segments", ())
    worker = RecordCorrector(
        fields or Fields(), formats, segments, max_bytes=max_bytes, rows=corrector.row_kind
    )
    return worker.correct_records(records, state)


def label_reader(classes, segments):
    """A reader of the labels of one model in JSON, and the messages that it reads."""
    models = SimpleNamespace(train=lambda classes: None)
    messages = ModelMessages(tuple(classes), Fields(), JSON, segments, models, rows="dense")
    return LabelReader(messages), messages.first


def batches(records, cuts):
    """The records, cut into pieces of these lengths as far as they go."""
    start = 0
    while start < len(records):
        size = cuts[start % len(cuts)]
        yield records[start : start + size]
        start += size


BAD = [
    b"",
    b"{",
    b"[" * 10_000,
    b'{"probs":[1,0]}',
    b'{"probs":[2,-1,0]}',
    b'{"probs":[0.5,0.5,0.5]}',
    b'{"probs":[NaN,0,1]}',
    b'{"probs":[1e999,0,0]}',
    b'{"probs":{"a":0.1}}',
    b'{"x":1}',
]
BAD_LABELS = [b"", b"[", b'{"label":"z"}', b'{"label":null}', b'{"label":"a","probs_raw":[3,0,0]}']


VALUES = ["AA", "B6", "日本", "", 7, 7.0, True, None, -0.0, 2**70, 0.5, [1], {"a": 1}, "x" * 1001]


@st.composite
def given_values(draw):
    """What a message gives of the columns, as its fields and headers: all, some or none, or bad."""
    fields, headers = {}, []
    if draw(st.booleans()):
        fields["carrier"] = draw(st.sampled_from(VALUES))
    if draw(st.booleans()):
        fields["customer"] = draw(st.sampled_from([{"country": "NL"}, {"country": 7}, {}, 3]))
    if draw(st.booleans()):
        headers.append(("X", draw(st.sampled_from([b"a", b"b", b"\xff", None]))))
    return fields, headers


@st.composite
def record_streams(draw, most=40):
    """Predictions and labels of every kind, good and bad, in one order; offsets with gaps."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    records = []
    offsets = {"in": draw(st.integers(0, 5)), "labels": draw(st.integers(0, 5))}
    keys = st.sampled_from([None, b"1", b"2", b"3", b"4", b"a long one"])
    for _ in range(draw(st.integers(1, most))):
        kind = draw(
            st.sampled_from(["good"] * 5 + ["label"] * 4 + ["echo", "bad", "bad label", "null"])
        )
        topic = "labels" if "label" in kind or kind == "echo" else "in"
        offset = offsets[topic]
        offsets[topic] += draw(st.integers(1, 3))
        key = draw(keys)
        fields, headers = draw(given_values())
        row = rng.dirichlet(np.full(M, 0.7)).tolist()
        if kind == "good":
            records.append(prediction(offset, row, key, headers, n=offset, **fields))
        elif kind == "label":
            records.append(label(offset, draw(st.sampled_from(CLASSES)), key, headers, **fields))
        elif kind == "echo":
            name = draw(st.sampled_from(CLASSES))
            records.append(label(offset, name, key, headers, probs_raw=row, **fields))
        elif kind == "null":
            topic = draw(st.sampled_from(["in", "labels"]))
            offset = max(offset, offsets[topic])
            offsets[topic] = offset + 1
            records.append(Record(topic, 0, offset, 0, key, None))
        else:
            value = draw(st.sampled_from(BAD if kind == "bad" else BAD_LABELS))
            records.append(Record(topic, 0, offset, 0, key, value, [("h", None), ("h", b"2")]))
    return records
