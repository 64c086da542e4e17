"""Task: the same bytes however a stream is cut, restored or disturbed by what cannot be read."""

from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stream_can
from stream_can import Corrector, SnapshotMismatch, snapshot
from stream_can.messages.fields import Fields
from stream_can.stream import entry
from stream_can.stream.replica import Replica
from stream_can.stream.task import Record, Task
from tests.stream.records import (
    BAD,
    BAD_LABELS,
    CLASSES,
    COLUMNS,
    M,
    bare,
    batches,
    kept,
    label,
    new,
    prediction,
    record_streams,
    whole,
)

pytestmark = pytest.mark.fast


any_columns = st.sampled_from([(), COLUMNS[:1], COLUMNS])


def given_of(message, record, columns):
    """What a message gives of the columns, as its description says."""
    country = message["customer"] if isinstance(message.get("customer"), dict) else {}
    header = dict(record.headers).get("X")
    found = {
        "carrier": message.get("carrier"),
        "customer.country": country.get("country"),
        "header:X": None if header in (None, b"\xff") else header.decode(),
    }
    strange = [0.5, [1], {"a": 1}, "x" * 1001]
    return {name: found[name] for name in columns if found[name] not in strange}


def lengths(given):
    texts = {True: "true", 7.0: "7", 0.0: "0"}
    return sum(
        len(texts.get(value, str(value)) if not isinstance(value, str) else value)
        for value in given.values()
        if value is not None
    )


def plainly(records, recent_bytes, columns):
    """The outputs as one Corrector and a dict give them, record by record."""
    corrector, recent, outputs = Corrector(CLASSES, segments=columns), {}, []
    done = set()  # ids whose prediction has had its label
    for record in records:
        try:
            message = json.loads(record.value) if record.value else None
        except (ValueError, RecursionError):
            message = None
        if record.topic == "in":
            if record.value is None and record.key is not None:
                outputs.append(None)
            p = message.get("probs") if message else None
            if not isinstance(p, list) or len(p) != M or not all(map(math.isfinite, p)):
                continue
            if min(p) < 0 or abs(sum(p) - 1) > 1e-3:
                continue
            given = given_of(message, record, columns)
            row, receipt = corrector.process_one(p, receipt=True, segments=given)
            outputs.append(row.tolist())
            if record.key is not None:
                recent.pop(record.key, None)
                recent[record.key] = p, receipt, given
                done.discard(record.key)
                while (
                    sum(8 * M + len(key) + lengths(kept[2]) for key, kept in recent.items())
                    > recent_bytes
                ):
                    del recent[next(iter(recent))]
        else:
            if not message or message["label"] not in CLASSES:
                continue
            kept, receipt, given = recent.get(record.key, (None, None, None))
            p = message.get("probs_raw", kept)
            if p is None or sum(p) < 2:
                if kept is not None and record.key in done:
                    continue
                if kept is not None:
                    done.add(record.key)
                if p != kept:  # the prediction's values count, not its label's
                    receipt, given = None, given_of(message, record, columns)
                corrector.learn_one(p, message["label"], receipt=receipt, segments=given)
    return outputs, corrector.to_bytes()


@given(record_streams(), st.sampled_from([0, 60, 100, 1 << 20]), any_columns)
def test_a_task_is_a_corrector_and_a_dict(records, recent_bytes, columns):
    task = new(Corrector(CLASSES, segments=columns), recent_bytes=recent_bytes)
    result = task.handle(records)
    outputs, state = plainly(records, recent_bytes, columns)
    got = []
    for output in result.outputs:
        headers = dict(output.headers)
        if output.value is None:
            got.append(None)
        else:
            got.append(json.loads(output.value)["probs"])
        assert headers["stream-can-version"] == stream_can.__version__.encode()
    assert got == outputs
    assert task.corrector.to_bytes() == state
    ins = [r for r in records if r.topic == "in"]
    assert len(result.outputs) + len(
        [d for d in result.dead_letters if dict(d.headers)["__connect.errors.topic"] == b"in"]
    ) == len(ins)
    assert task.counts.predictions == len(ins)
    assert task.counts.labels == len(records) - len(ins)
    assert task.counts.dead_letters == len(result.dead_letters)


@given(
    record_streams(),
    st.lists(st.integers(1, 7), min_size=1),
    st.sampled_from([60, 1 << 20]),
    any_columns,
)
def test_cut_anywhere_the_bytes_are_the_same(records, cuts, recent_bytes, columns):
    whole, parts = (
        new(Corrector(CLASSES, segments=columns), recent_bytes=recent_bytes) for _ in range(2)
    )
    expected = whole.handle(records)
    outputs, letters, delays = [], [], []
    for batch in batches(records, cuts):
        result = parts.handle(batch)
        outputs += result.outputs
        letters += result.dead_letters
        delays += result.delays
    assert bare(outputs) == bare(expected.outputs)
    assert bare(letters) == bare(expected.dead_letters)
    assert delays == expected.delays
    assert parts.to_bytes() == whole.to_bytes()
    assert kept(parts) == kept(whole)
    assert parts.sent_scores.n == whole.sent_scores.n


def labels_of(task):
    """The labels that a task has to teach, but for their receipts."""
    part, end = task.take()
    ((piece, given, _),) = part.pieces(0, end, 1000)
    return piece.offsets, piece.taken, piece.classes, piece.rows, given


@given(record_streams(), st.integers(0, 40), st.sampled_from([60, 1 << 20]), any_columns)
def test_positions_and_the_records_continue_a_task_of_a_log(records, cut, recent_bytes, columns):
    """All but the receipts of what was sent before: those are gone."""
    options = {"recent_bytes": recent_bytes, "labels_topic": "labels"}
    replica = Replica(Corrector(CLASSES, segments=columns), 7)
    whole, first = Task(replica, **options), Task(replica, **options)
    whole.handle(records[:cut])
    first.handle(records[:cut])
    assert labels_of(whole) == labels_of(first)
    second = Task.from_bytes(first.positions(7), replica=replica, **options)
    assert second.learned_offset == 7
    assert second.oldest == first.oldest
    kept = [
        r for r in records if r.topic == "in" and first.oldest <= r.offset < first.next_prediction
    ]
    for record in kept:  # one by one: a history comes in several polls
        second.rebuild([record])
    assert second.positions() == first.positions()
    a, b = whole.handle(records[cut:]), second.handle(records[cut:])
    assert bare(a.outputs) == bare(b.outputs)
    assert bare(a.dead_letters) == bare(b.dead_letters)
    assert a.delays == b.delays
    assert labels_of(whole) == labels_of(second)
    assert whole.positions() == second.positions()
    assert second.sent_scores.n <= whole.sent_scores.n


@given(record_streams())
def test_a_task_of_a_log_changes_nothing_that_was_learned(records):
    replica = Replica(Corrector(CLASSES), 3)
    before = replica.corrector.to_bytes()
    result = Task(replica, labels_topic="labels").handle(records)
    assert replica.corrector.to_bytes() == before
    rows = [json.loads(r.value)["probs_raw"] for r in result.outputs if r.value is not None]
    sent = [json.loads(r.value)["probs"] for r in result.outputs if r.value is not None]
    assert sent == replica.corrector.correct_many(np.array(rows).reshape(-1, M)).tolist()
    headers = [dict(output.headers) for output in result.outputs]
    assert all(h["stream-can-learned"] == b"3" for h in headers)


@given(record_streams(), any_columns)
def test_a_log_of_single_records_makes_what_a_task_alone_makes(records, columns):
    """Each an entry, folded before the next: only single precision is left of a difference."""
    alone = new(Corrector(CLASSES, segments=columns))
    replica = Replica(Corrector(CLASSES, segments=columns), 0)
    task = Task(replica, labels_topic="labels")
    outputs = []
    for record in records:
        outputs += task.handle([record]).outputs
        part, end = task.take()
        for data in entry.entries(
            replica.corrector, replica.offset, [(0, part, end)], app=b"12345678"
        ):
            replica.fold(Record("log", 0, replica.offset, 0, None, data))
    expected = alone.handle(records).outputs
    assert len(outputs) == len(expected)
    for got, want in zip(outputs, expected, strict=True):
        if want.value is not None:
            np.testing.assert_allclose(
                json.loads(got.value)["probs"], json.loads(want.value)["probs"], atol=1e-5
            )
    assert replica.corrector.n_labels == alone.corrector.n_labels
    assert replica.corrector.n_predictions == alone.corrector.n_predictions
    for name in columns:
        kept = replica.corrector.segment_values(name)
        assert list(kept) == list(alone.corrector.segment_values(name))


def test_a_share_of_the_labels_is_learned_and_all_are_scored():
    replica = Replica(Corrector(CLASSES), 0)
    task = Task(replica, labels_topic="labels", learn_share=0.25)
    n = 400
    task.handle([prediction(i, [0.2, 0.3, 0.5], b"%d" % i) for i in range(n)])
    labels = [label(i, "a", b"%d" % i) for i in range(n)]
    task.handle(labels)
    part, _ = task.take()
    assert 60 < len(part.offsets) < 140
    assert task.counts.matched == task.sent_scores.n == n
    again = Task(replica, labels_topic="labels", learn_share=0.25)
    again.handle(labels)
    assert again.take()[0].offsets == part.offsets  # whoever takes them, they are the same ones


@pytest.mark.parametrize("value", BAD)
def test_a_bad_prediction_is_a_dead_letter_and_changes_nothing(value):
    good = [prediction(i, [0.2, 0.3, 0.5], b"k") for i in (0, 2)]
    bad = Record("in", 0, 1, 77, b"k", value, [("h", None), ("h", b"x"), ("h", b"y")])
    with_bad, without = new(), new()
    result = with_bad.handle([good[0], bad, good[1]])
    assert bare(result.outputs) == bare(without.handle(good).outputs)
    assert with_bad.corrector.to_bytes() == without.corrector.to_bytes()
    (letter,) = result.dead_letters
    assert (letter.key, letter.value, letter.timestamp) == (b"k", value, 77)
    assert letter.headers[:3] == [("h", None), ("h", b"x"), ("h", b"y")]
    headers = dict(letter.headers[3:])
    assert headers["__connect.errors.topic"] == b"in"
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["__connect.errors.exception.class.name"] in (
        b"stream_can.messages.BadMessage",
        b"stream_can.errors.InvalidPrediction",
    )
    assert headers["__connect.errors.exception.message"]


def test_the_reason_names_the_field():
    result = new().handle([Record("in", 0, 0, 0, b"k", b'{"probs":[2,-1,0]}')])
    reason = dict(result.dead_letters[0].headers)["__connect.errors.exception.message"]
    assert reason == b"probs: entry 1 is -1.0, expected a finite number >= 0"


@pytest.mark.parametrize("value", BAD_LABELS)
def test_a_bad_label_is_a_dead_letter_and_changes_nothing(value):
    task = new()
    task.handle([prediction(0, [0.2, 0.3, 0.5], b"k")])
    before = task.corrector.to_bytes()
    result = task.handle([Record("labels", 0, 0, 0, b"k", value)])
    assert task.corrector.to_bytes() == before
    assert dict(result.dead_letters[0].headers)["__connect.errors.topic"] == b"labels"
    assert task.next_label == 1
    # and the labels around it are learned
    many = new()
    many.handle([label(0, "a", b"x"), Record("labels", 0, 1, 0, b"k", value), label(2, "b", b"x")])
    assert (many.counts.unmatched, many.counts.dead_letters, many.counts.labels) == (2, 1, 3)


def test_null_key_and_null_value_cannot_be_sent_on():
    result = new().handle([Record("in", 0, 0, 5, None, None)])
    (letter,) = result.dead_letters
    assert letter.value == b""
    reason = dict(letter.headers)["__connect.errors.exception.message"]
    assert b"key and value are both null" in reason


def test_a_tombstone_passes_through():
    task = new()
    before = task.corrector.to_bytes()
    (output,) = task.handle([Record("in", 0, 0, 5, b"k", None, [("h", None)])]).outputs
    assert (output.key, output.value, output.timestamp) == (b"k", None, 5)
    assert output.headers[0] == ("h", None)
    assert task.corrector.to_bytes() == before


@pytest.mark.parametrize("at", [0, 1, 5])
@pytest.mark.parametrize("value", BAD)
def test_fail_stops_at_the_first_bad_record(value, at):
    records = [prediction(i, [0.2, 0.3, 0.5], b"k") for i in range(6)]
    records[at] = Record("in", 0, at, 0, b"k", value)
    task, before = new(errors="fail"), new()
    result = task.handle([*records, label(0, "a", b"k")])
    expected = before.handle(records[:at])
    assert bare(result.outputs) == bare(expected.outputs)
    assert result.dead_letters == []
    assert result.stopped[0] is records[at]
    assert whole(task) == whole(before)
    assert before.next_prediction == at


@pytest.mark.parametrize("value", BAD_LABELS)
def test_fail_stops_at_the_first_bad_label(value):
    start = [prediction(0, [0.2, 0.3, 0.5], b"k"), prediction(1, [0.2, 0.3, 0.5], b"l")]
    good = [label(0, "a", b"k"), label(1, "b", b"l"), label(2, "b", b"none")]
    bad = Record("labels", 0, 3, 0, b"k", value)
    task, before = new(errors="fail"), new()
    result = task.handle([*start, *good, bad, label(4, "c", b"k")])
    before.handle([*start, *good])
    assert result.stopped[0] is bad
    assert whole(task) == whole(before)
    assert task.sent_scores.n == 2


def test_an_output_that_could_be_too_large_is_a_dead_letter():
    small = prediction(0, [0.2, 0.3, 0.5], b"k")
    large = prediction(1, [0.2, 0.3, 0.5], b"k", x="y" * 900)
    with_large, without = new(max_bytes=1000), new()
    result = with_large.handle([small, large])
    assert bare(result.outputs) == bare(without.handle([small]).outputs)
    assert with_large.corrector.to_bytes() == without.corrector.to_bytes()
    reason = dict(result.dead_letters[0].headers)["__connect.errors.exception.message"]
    assert b"more than the 1000 that a record may have" in reason


@given(st.integers(0, 400), st.integers(200, 500))
def test_no_output_is_larger_than_it_may_be(padding, limit):
    task = new(max_bytes=limit)
    record = prediction(0, [1 / 3, 1 / 3, 1 / 3], b"key", x="y" * padding)
    result = task.handle([record])
    for output in result.outputs:
        assert len(output.key) + len(output.value) <= limit
    # It is refused for a few bytes at most: three numbers that could have been 23 characters wide.
    if result.dead_letters:
        (output,) = new().handle([record]).outputs
        assert len(output.key) + len(output.value) + 3 * 23 > limit


def test_scores_are_of_what_was_sent():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(M), 60)
    y = [int(rng.choice(M, p=p)) for p in P]
    task = new(fields=Fields(digits=3))
    sent = []
    for i, p in enumerate(P.tolist()):
        sent += task.handle([prediction(i, p, b"%d" % i)]).outputs
        if i >= 10:
            j = i - 10
            result = task.handle([label(j, CLASSES[y[j]], b"%d" % j)])
            assert result.delays == [5000 + j - 1000 - j]
    task.handle([label(50, "a", b"unknown")])
    Q = np.array([json.loads(o.value)["probs"] for o in sent])
    assert np.array_equal(Q, Q.round(3))
    assert (Q.round(2) != Q).any()
    n = 50
    assert task.sent_scores.n == task.raw_scores.n == n
    loss = -np.log(Q[np.arange(n), y[:n]]).mean()
    assert task.sent_scores.log_loss == pytest.approx(loss)
    assert task.raw_scores.log_loss == pytest.approx(-np.log(P[np.arange(n), y[:n]]).mean())
    assert task.sent_scores.accuracy == (Q[:n].argmax(1) == y[:n]).mean()
    assert (task.counts.matched, task.counts.unmatched) == (50, 1)


def test_the_first_label_of_an_id_counts():
    """A later one teaches nothing, also after a restart, until another prediction has that id."""
    task, corrector = new(), Corrector(CLASSES)
    p = [0.2, 0.3, 0.5]
    task.handle([prediction(0, p, b"k"), label(0, "a", b"k"), label(1, "b", b"k")])
    _, receipt = corrector.process_one(p, receipt=True)
    corrector.learn_one(p, "a", receipt=receipt)
    assert task.corrector.to_bytes() == corrector.to_bytes()
    rebuilt = Task.from_bytes(task.to_bytes(), labels_topic="labels")
    rebuilt.rebuild([prediction(0, p, b"k")])
    for one in (task, rebuilt):
        one.handle([label(2, "b", b"k"), label(3, "b", b"k", raw=p)])
        assert one.corrector.to_bytes() == corrector.to_bytes()
        assert one.sent_scores.n == (one is task)
        counts = one.counts
        assert (counts.labels, counts.matched, counts.unmatched, counts.repeated) == (4, 1, 0, 3)
        one.handle([prediction(1, p, b"k"), label(4, "b", b"k"), label(5, "b", b"k")])
        assert (one.counts.matched, one.counts.repeated) == (2, 4)


def test_the_latest_prediction_of_an_id_is_the_one():
    task = new()
    task.handle([prediction(0, [0.2, 0.3, 0.5], b"k"), prediction(1, [0.5, 0.3, 0.2], b"k")])
    before = Corrector(CLASSES)
    before.process_one([0.2, 0.3, 0.5])
    _, receipt = before.process_one([0.5, 0.3, 0.2], receipt=True)
    task.handle([label(0, "a", b"k")])
    before.learn_one([0.5, 0.3, 0.2], "a", receipt=receipt)
    assert task.corrector.to_bytes() == before.to_bytes()
    assert task.oldest == 1


def test_the_oldest_predictions_go_first_at_8_m_and_the_id():
    task = new(recent_bytes=3 * (8 * M + 2))
    records = [prediction(i, [0.2, 0.3, 0.5], b"%02d" % i) for i in range(5)]
    task.handle(records)
    assert task.oldest == 2
    task.handle([prediction(5, [0.2, 0.3, 0.5], b"02"), prediction(6, [0.2, 0.3, 0.5], b"999")])
    assert task.oldest == 5  # 03 went for the longer id, and 04 with it
    result = task.handle(
        [label(i, "a", key) for i, key in enumerate([b"02", b"03", b"04", b"999"])]
    )
    assert (task.counts.matched, task.counts.unmatched) == (2, 2)
    assert len(result.delays) == 2


@pytest.mark.parametrize("records", [
    [prediction(1, [1, 0, 0]), prediction(1, [1, 0, 0])],
    [prediction(0, [1, 0, 0])],
    [label(1, "a"), label(0, "a")],
])  # fmt: skip
def test_a_record_that_was_taken_before_is_refused(records):
    task = new(next_prediction=1)
    before = task.corrector.to_bytes()
    with pytest.raises(ValueError, match="taken before, the task is at"):
        task.handle(records)
    assert task.corrector.to_bytes() == before


def test_a_record_that_is_to_come_cannot_be_rebuilt():
    with pytest.raises(ValueError, match="in-0 offset 3: cannot be rebuilt before it was handled"):
        new(next_prediction=3).rebuild([prediction(3, [1, 0, 0])])


def test_without_labels_nothing_is_kept_and_no_position_is_told():
    task = Task(Corrector(CLASSES))
    (output,) = task.handle([prediction(0, [0.2, 0.3, 0.5], b"k")]).outputs
    assert dict(output.headers).keys() == {"stream-can-version"}
    assert task.oldest == task.next_prediction == 1


def test_a_snapshot_that_does_not_fit_is_refused():
    task = new()
    task.handle([prediction(0, [0.2, 0.3, 0.5], b"k")])
    data = task.to_bytes()
    assert Task.from_bytes(data, labels_topic="labels").to_bytes() == data
    for n in (0, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(SnapshotMismatch):
            Task.from_bytes(data[:n])
    for i in range(0, len(data), 7):
        with pytest.raises(SnapshotMismatch):
            Task.from_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
    with pytest.raises(SnapshotMismatch, match="classes differ at 2"):
        Task.from_bytes(data, classes=["a", "b", "x"])
    with pytest.raises(SnapshotMismatch, match="paths"):
        Task.from_bytes(data, settings={"paths": ["raw"]})
    with pytest.raises(SnapshotMismatch, match="a corrector's alone"):
        Task.from_bytes(task.corrector.to_bytes())
    head, arrays = snapshot.decode(data)
    with pytest.raises(SnapshotMismatch, match=r"task format 4, and stream_can .* reads 3 alone"):
        Task.from_bytes(snapshot.encode(head | {"task": 4}, arrays))
    fresh = new()
    assert Task.from_bytes(fresh.to_bytes()).counts == fresh.counts
    for name in head:
        if name not in ("task", "learned"):
            less = {k: v for k, v in head.items() if k != name}
            with pytest.raises(SnapshotMismatch):
                Task.from_bytes(snapshot.encode(less, arrays), labels_topic="labels")


def test_a_part_of_a_state_is_refused_by_what_the_other_part_would_be():
    replica = Replica(Corrector(CLASSES), 7)
    positions = Task(replica, labels_topic="labels").positions()
    with pytest.raises(SnapshotMismatch, match="positions alone; what was learned is in a log"):
        Task.from_bytes(positions)
    with pytest.raises(SnapshotMismatch, match="of a partition that learned alone"):
        Task.from_bytes(new().to_bytes(), replica=replica)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"errors": "skip"}, "errors: 'skip', expected 'dead-letter' or 'fail'"),
        ({"recent_bytes": -1}, "recent_bytes: -1, expected 0 or more"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(ValueError, match=f"^{says}$"):
        Task(Corrector(CLASSES), **settings)


def test_settings_of_a_live_state_may_change():
    data = new().to_bytes()
    assert Task.from_bytes(data, settings={"half_life": 9}).corrector.settings["half_life"] == 9


def test_a_kafka_record_will_do():
    fetcher = pytest.importorskip("kafka.consumer.fetcher", reason="needs the kafka extra")
    fields = {name: None for name in fetcher.ConsumerRecord._fields}
    value = b'{"probs":[0.2,0.3,0.5]}'
    mine = {"topic": "in", "partition": 0, "offset": 4, "timestamp": 9, "headers": [("a", b"b")]}
    record = fetcher.ConsumerRecord(**fields | mine | {"key": b"k", "value": value})
    (output,) = new().handle([record]).outputs
    assert output.headers[0] == ("a", b"b")
    assert msgspec.json.decode(output.value)["probs_raw"] == [0.2, 0.3, 0.5]


def test_a_probability_near_the_largest_number_is_a_dead_letter_without_a_warning():
    record = Record("in", 0, 0, 1, b"k", b'{"probs": [1e302, 0.1]}')
    (letter,) = Task(Corrector(2)).handle([record]).dead_letters  # a warning would be an error
    reason = dict(letter.headers)["__connect.errors.exception.message"]
    assert b"probabilities sum to 1e+302, expected 1" in reason


def test_what_became_of_labels_is_kept_where_somebody_takes_it():
    records = [prediction(0, [0.7, 0.2, 0.1], b"x"), prediction(1, [0.5, 0.3, 0.2], b"y"),
               label(0, "b", b"x"), label(1, "c", b"gone")]  # fmt: skip
    task = new(count_values=True)
    sent = [json.loads(out.value)["probs"] for out in task.handle(records).outputs]
    (((wrong, loss, times),),) = task.take_watched().values()
    assert wrong.tolist() == [[1, 1]]
    assert loss.tolist() == [pytest.approx([-math.log(0.2), -math.log(sent[0][1])])]
    assert times.tolist() == [1000]
    assert task.take_watched() == {}
    without = new()
    without.handle(records)
    assert without.take_watched() == {}
