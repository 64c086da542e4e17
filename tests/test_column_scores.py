"""What becomes of the values of columns: sums by value, of any batches, added up and bounded."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import Corrector, Learner
from stream_can.app.tally import Tally
from stream_can.column_scores import ColumnScores, outcomes
from stream_can.learner import Events
from stream_can.scores import score_rows
from tests.messages.stream import (
    CLASSES,
    COLUMNS,
    batches,
    corrected,
    label_reader,
    record_streams,
)

pytestmark = pytest.mark.fast


def summed(parts, name):
    """What several calls of ``take_values`` say of a column."""
    whole = ColumnScores()
    for part in parts:
        whole.update(part[name])
    return whole


class Stream:
    """Records of predictions and labels, corrected and learned one after the other."""

    def __init__(self):
        self.corrector = Corrector(CLASSES, segments=COLUMNS)
        self.learner = Learner(self.corrector)
        self._labels, self.messages = label_reader(CLASSES, COLUMNS)
        self.tally = Tally(COLUMNS, lambda name: 3, named=False, sets=False, rows="dense")
        self.outputs, self.refused = [], set()

    def take(self, record):
        if record.topic == "in":
            answers = corrected(self.corrector, [record])
            self.outputs += answers.outputs
            if answers.sent is not None:
                self.learner.play_sent(Events(answers.sent, []))
                self.tally.observed(len(answers.sent), None, answers.sent.segments, 0)
            return
        read = self._labels.parse([record])
        self.refused |= {(record.topic, record.offset) for _ in read.bad}
        played = self.learner.play([], None, read.labels)
        self.tally.labelled(played.outcomes, played.taught)


def one_by_one(messages, records, outputs, refused):
    """Rows, labels and scores of each value of each column, by a plain loop over what went out."""
    sent = {out.source.offset: json.loads(out.value) for out in outputs if out.value is not None}
    rows, labels, scores, kept = Counter(), Counter(), defaultdict(list), {}
    done = set()
    for record in records:
        if record.topic == "in" and record.offset in sent:
            given = messages.read(record.value, record.headers).segments
            said = list(zip(COLUMNS, given, strict=True))
            rows.update(said)
            if record.key is not None:
                kept[record.key] = said, sent[record.offset]
                done.discard(record.key)
        labels_one = record.topic == "labels" and (record.topic, record.offset) not in refused
        if labels_one and record.value is not None and record.key in kept:
            if record.key in done:
                continue
            done.add(record.key)
            said, message = kept[record.key]
            labels.update(said)
            y = CLASSES.index(json.loads(record.value)["label"])
            sides = []
            for field in ("probs_raw", "probs"):
                p = np.array(message[field]) / np.sum(message[field])
                sides += [p.argmax() == y, -math.log(max(p[y], 1e-6)), p.max()]
            for one in said:
                scores[one].append(sides)
    return rows, labels, scores


@given(record_streams(), st.lists(st.integers(1, 9), min_size=1))
def test_each_value_has_what_a_plain_loop_finds(records, cuts):
    """Labels come in the batch of their prediction and in later ones."""
    stream, parts = Stream(), []
    for batch in batches(records, cuts):
        for record in batch:
            stream.take(record)
        stream.tally.committed()
        parts.append(stream.tally.take_values())
    rows, labels, scores = one_by_one(stream.messages, records, stream.outputs, stream.refused)
    for name in COLUMNS:
        column = summed(parts, name)
        found = {(name, one.value): one for one in column.values()}
        assert set(found) == {one for one in rows if one[0] == name and one[1] is not None}
        assert column.rows == sum(one.rows for one in found.values())
        for key, one in found.items():
            assert (one.rows, one.labels) == (rows[key], labels[key])
            assert one.scored == len(scores[key])
            if one.scored:
                hit, loss, sure, hit_after, loss_after, sure_after = np.mean(scores[key], axis=0)
                assert one.accuracy == pytest.approx((hit, hit_after))
                assert one.log_loss == pytest.approx((loss, loss_after))
                gaps = abs(hit - sure), abs(hit_after - sure_after)
                assert one.calibration == pytest.approx(gaps, abs=1e-12)


def column(texts, seed=0, most=None):
    """Rows of these, all labelled and scored, but None's."""
    rng, made = np.random.default_rng(seed), ColumnScores(most)
    P, y = rng.dirichlet([1, 1, 1], len(texts)), rng.integers(3, size=len(texts))
    made.came(texts)
    made.learned(texts)
    made.scored(texts, outcomes(*(score_rows(rows, y) for rows in (P, P[:, ::-1]))))
    return made


def said(found):
    return {one.value: one._replace(value="") for one in found.values() if one.scored}


def test_columns_add_up_by_text():
    a, b = column(["x", None, "y", "x"]), column(["z", "y", None], seed=1)
    both = a.copy()
    both.update(b)
    assert [(one.value, one.rows) for one in both.values()] == [("x", 2), ("y", 2), ("z", 1)]
    assert both.rows == both.labels == 5
    of_a, of_b, of_both = said(a), said(b), said(both)
    for name in ("accuracy", "log_loss"):
        for side in (0, 1):
            x, y = getattr(of_a["y"], name)[side], getattr(of_b["y"], name)[side]
            assert getattr(of_both["y"], name)[side] == pytest.approx((x + y) / 2)
    assert of_both["x"] == of_a["x"]
    assert of_both["z"] == of_b["z"]
    assert [(one.value, one.rows) for one in a.values()] == [("x", 2), ("y", 1)]


@given(st.lists(st.lists(st.sampled_from([*map(str, range(30)), None]), max_size=60), max_size=8))
def test_of_too_many_values_the_heaviest_stay_and_the_totals_hold(parts):
    bounded, whole = ColumnScores(5), ColumnScores()
    for i, texts in enumerate(parts):
        before = {one.value: one.rows for one in bounded.values()}
        bounded.update(column(texts, i))
        whole.update(column(texts, i))
        assert len(bounded) < 10
        now = Counter(before) + Counter(text for text in texts if text is not None)
        if len(now) < 10:
            assert {one.value: one.rows for one in bounded.values()} == now
        else:
            kept = [one.rows for one in bounded.values()]
            assert kept == sorted(now.values(), reverse=True)[:5]
    assert (bounded.rows, bounded.labels) == (whole.rows, whole.labels)
    exact = said(whole)
    for value, one in said(bounded).items():
        assert one.rows <= exact[value].rows


def test_labels_of_few_values_are_found_among_those_that_went():
    """99 of 100 rows are of values that come once; all labels are of one."""
    rows = ["heavy" if i % 100 == 0 else f"once {i}" for i in range(30_000)]
    found = ColumnScores(100)
    for first in range(0, len(rows), 300):
        found.came(rows[first : first + 300])
        found.learned([text for text in rows[first : first + 300] if text == "heavy"])
    for one in (found, found.copy()):
        values, of_labels, of_rows = one.one_sided()
        assert [heavy.value for heavy in values] == ["heavy"]
        assert (of_labels, of_rows) == (1.0, 0.01)
    few = ColumnScores()
    few.learned(["before"] * 500)  # of rows that are not known
    assert few.one_sided() is None


def test_scores_of_a_value_as_json():
    """A value without a scored row has no means; NaN is no JSON."""
    scores = column(["x", "y"])
    scores.came(["z"])
    x, _, z = (one.to_dict() for one in scores.values())
    (found,) = (one for one in scores.values() if one.value == "x")
    assert (x["value"], x["rows"], x["labels"]) == ("x", 1, 1)
    assert x["log_loss"] == {"raw": found.log_loss[0], "corrected": found.log_loss[1]}
    assert (z["rows"], z["labels"]) == (1, 0)
    assert z["accuracy"] == z["calibration"] == {"raw": None, "corrected": None}
    json.dumps([x, z], allow_nan=False)


@pytest.mark.parametrize("way", ["came", "learned", "scored"])
def test_values_are_bounded_whatever_adds_them(way):
    scores = ColumnScores(5)
    for k in range(100):
        scores.scored([str(k)], np.ones((1, 6))) if way == "scored" else getattr(scores, way)(
            [str(k)]
        )
        assert len(scores) < 10
