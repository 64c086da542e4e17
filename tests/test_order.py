"""Events of several partitions in one order: equal to the plain one, however they were read."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import Corrector, Learner
from stream_can.learner import LateLabel, in_order, read_sent
from tests.examples import examples

pytestmark = pytest.mark.fast

CLASSES = ["a", "b", "c"]


def plain(sent, labels):
    """The order, from the text: every event with its key, one after the other."""
    events = []
    for kind, partitions in enumerate((sent, labels)):
        for partition, found in partitions.items():
            latest = -math.inf
            times = [time for time, _ in found]
            for offset, (time, what) in enumerate(found):
                behind = sorted(x for x in times[offset + 1 : offset + 9] if x is not None)
                if time is not None and behind:
                    time = min(time, behind[(len(behind) - 1) // 2])
                latest = latest if time is None else max(latest, time)
                events.append((latest, kind, partition, offset, what))
    return [(kind, what) for _, kind, _, _, what in sorted(events, key=lambda one: one[:4])]


def batches(rows, rng):
    """The sent batches of a partition, cut anywhere, as a corrector would send them."""
    corrector, found, at = Learner(Corrector(CLASSES, segments=["t"])), [], 0
    corrector.keep_events()
    while at < len(rows):
        n = int(rng.integers(1, 6))
        for time, (id, p, model, text) in rows[at : at + n]:
            corrector.process(id, p, model=model, segments=text and {"t": text}, time=time)
        at += n
        found.append(read_sent(corrector.take_events().sent.to_bytes()))
    return found


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_equals_the_plain_order(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    times = [None, 0.0, 1.0, 1.0, 2.0, 5.0, 3.0]  # equal ones, none, and such as go backwards

    def partition(what):
        n = data.draw(st.integers(0, 12))
        return [(times[rng.integers(len(times))], what(k)) for k in range(n)]

    def row(_):
        id = [None, f"i{rng.integers(9)}"][int(rng.random() < 0.8)]
        return id, rng.dirichlet(np.ones(3)), "mn"[rng.integers(2)], [None, "x"][rng.integers(2)]

    sent = {p: partition(row) for p in data.draw(st.permutations(range(3)))}
    labels = {
        p: partition(lambda _: (f"i{rng.integers(9)}", CLASSES[rng.integers(3)]))
        for p in data.draw(st.permutations(range(4)))
    }
    events = in_order(
        {p: batches(rows, rng) for p, rows in sent.items()},
        {
            p: [LateLabel(id, y, time=time) for time, (id, y) in found]
            for p, found in labels.items()
        },
        100,
    )
    assert events.sent.numbers.tolist() == list(range(100, 100 + len(events.sent)))
    expected, merged = plain(sent, labels), Learner(Corrector(CLASSES, segments=["t"]))
    for kind, what in expected:
        if kind == 0:
            id, p, model, text = what
            merged.process(id, p, model=model, segments=text and {"t": text})
        else:
            merged.label(*what)
    found = Learner(Corrector(CLASSES, segments=["t"]))
    found.play_events(events)
    assert found.correctors == merged.correctors
    at, told = iter(range(len(events.sent))), iter(events.labels)
    for kind, what in expected:
        if kind == 0:
            assert events.sent.ids[next(at)] == what[0]
        else:
            one = next(told)
            assert (one.id, one.label) == what
