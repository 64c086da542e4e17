"""Segments: what the labels of a column's values say, in the oracle and in the corrector."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_can import Corrector
from stream_can.method.receipts import blank
from stream_can.row_sums import RowSums
from tests.equal import compare, corrector_of, same_values
from tests.examples import examples
from tests.oracle import Oracle, text_of
from tests.strategies import events_of, receipt_of, rows, segmented

pytestmark = pytest.mark.fast

FLOOR = 1e-6
CAP = 1.5


def softplus(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0)


class Account:
    """What the rows sent lost against "without", a value, and what the guarantee allows."""

    def __init__(self, half_life=Oracle.ODDS_HALF_LIFE):
        self.gamma = 2 ** (-1 / half_life)
        self.lost, self.allowed, self.before = {}, {}, {}

    def add(self, value, c, without, with_, sent):
        """A label: min(o, cap) when it came, and what was given to its class."""
        rho = math.log(max(with_, FLOOR) / max(without, FLOOR))
        if value not in self.before:
            self.lost[value], self.allowed[value] = 0.0, softplus(CAP)
        else:
            self.allowed[value] += max(0.0, c - self.before[value]) / self.gamma
        self.before[value] = c
        self.allowed[value] += (1 / self.gamma - 1) * softplus(c + rho)
        self.lost[value] += math.log(max(without, FLOOR) / (sent + FLOOR))
        assert self.lost[value] <= self.allowed[value] + 1e-6


def uncalibrated(oracle, given_, segments):
    """min(o, cap), and what "without", "with" and s, the mixture of both, gave the label.

    s is before the calibrated row: that is mixed in without looking at the value.
    """
    own, with_ = slice(oracle.own), slice(oracle.own, -1)
    (a, log_a), (b, log_b) = oracle.group(own), oracle.group(with_)
    s = oracle.shares(segments) @ given_[:-1]
    return min(log_b - log_a, CAP), a @ given_[own], b @ given_[with_], s


probabilities = st.sampled_from([1e-7, 1e-6, 1e-3, 0.1, 0.5, 1.0])
GOOD, BAD = (0.1,) * 6 + (1.0, 1.0, 0.1), (1.0,) * 6 + (1e-6, 1e-6, 1.0)
"""What the rows give the label: those with columns are right, or wrong. The calibrated one is last:
what it gives is in neither group."""
EVEN = (0.5,) * 9
LEARNS_AND_FORGETS = [("b", GOOD)] * 40 + ([("a", BAD)] + [("a", EVEN)] * 19) * 4


@example([("b", GOOD)] * 5 + [("a", BAD)], 1, math.inf, 500)  # needs the log(1 + e^1.5)
@example([("a", BAD), *[("b", GOOD)] * 9], 1, math.inf, 500)  # what o rises between labels of a
@example(LEARNS_AND_FORGETS, 1, math.inf, 5)  # what S forgets
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.tuples(*[probabilities] * 9)), min_size=1, max_size=6
    ),
    st.integers(1, 20),
    st.sampled_from([5.0, 100.0, math.inf]),
    st.sampled_from([5, 500]),
)
def test_a_value_costs_no_more_than_is_promised_whatever_the_rows_are(
    pattern, length, half_life, odds_half_life
):
    """One column, prompt labels; receipts made up to be hard, each part `length` labels long."""
    oracle = Oracle(2, paths=["raw", "vector"], half_life=half_life, segments=["x"])
    oracle.ODDS_HALF_LIFE = odds_half_life
    account = Account(odds_half_life)
    labels = [part for part in pattern for _ in range(length)]
    for t in range(max(60, min(120, len(labels)))):
        value, given_ = labels[t % len(labels)]
        account.add(value, *uncalibrated(oracle, np.array(given_), {"x": value}))
        rows = [[q, 1 - q] for q in given_]
        receipt = np.append(rows, 0.5).astype(np.float32)  # the top: what it is moves no weight
        oracle.learn([0.5, 0.5], 0, receipt, {"x": value})


@settings(max_examples=examples(8))
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 30]), st.sampled_from([0.0, 0.5, 1.0]))
def test_it_holds_on_streams(seed, n_values, told):
    """Rows of a stream whose values say something of the class in a share `told` of the rows."""
    rng = np.random.default_rng(seed)
    oracle, account = Oracle(3, paths=["raw", "temperature", "vector"], segments=["x"]), Account()
    for _ in range(60):
        value, y = int(rng.integers(n_values)), int(rng.integers(3))
        y = value % 3 if rng.random() < told else y
        p = rng.dirichlet(np.exp(rng.normal(size=3)))
        _, receipt = oracle.process(p, {"x": value})  # moves no weight
        given_ = receipt[:-1].reshape(-1, 3)[:, y].astype(float)
        account.add(value, *uncalibrated(oracle, given_, {"x": value}))
        oracle.learn(p, y, receipt, {"x": value})


def test_a_value_is_its_text():
    for value in (12, 12.0, "12", np.int8(12), np.float32(12), np.str_("12")):
        assert text_of(value) == "12"
    assert text_of(True) == text_of(np.True_) == "true"
    assert text_of(-0.0) == "0"
    for value in (None, math.nan, np.float32("nan")):
        assert text_of(value) is None
    for value in (0.5, math.inf, b"12", [1], 1j):
        with pytest.raises(ValueError, match="no value of a column"):
            text_of(value)


def test_the_value_whose_last_label_is_oldest_goes_first():
    size = Oracle(2, segments=["x"]).size_of((0, "a"))
    oracle = Oracle(2, segments=["x", "y"], segments_bytes=3 * size)
    p = [0.4, 0.6]
    oracle.learn(p, 0, segments={"x": "a", "y": "b"})
    oracle.learn(p, 0, segments={"y": "c"})
    assert [key[1] for key in oracle.values] == ["a", "b", "c"]
    oracle.learn(p, 0, segments={"x": "d"})  # a and b are as old: x was declared first
    assert [key[1] for key in oracle.values] == ["b", "c", "d"]
    oracle.learn(p, 0, segments={"y": "b"})
    oracle.learn(p, 0, segments={"x": "a"})
    assert sorted(key[1] for key in oracle.values) == ["a", "b", "d"]


@settings(max_examples=examples(10))
@given(segmented())
def test_equals_the_oracle(stream):
    m, settings, P, events, columns, limit, values = stream
    oracle = Oracle(m, segments=columns, segments_bytes=limit, **settings)
    corrector = corrector_of(m, settings, columns, limit)
    tolerance = 1e-6
    compare(oracle, corrector, P, events, tolerance, values)
    same_values(oracle, corrector, 100 * tolerance)


@settings(max_examples=examples(8))
@given(segmented(), st.data())
def test_equals_the_oracle_with_a_class_that_appears_on_the_way(stream, data):
    m, settings, P, events, columns, limit, values = stream
    oracle = Oracle(m, segments=columns, segments_bytes=limit, **settings)
    corrector = corrector_of(m, settings, columns, limit)
    half = len(events) // 2
    compare(oracle, corrector, P, events[:half], 1e-6, values)
    oracle.add_class()
    corrector._add_class(m)
    P = data.draw(rows(m + 1, len(P)))
    compare(oracle, corrector, P, data.draw(events_of(P)), 1e-6, values)
    same_values(oracle, corrector, 1e-4)


def run(corrector, P, events, values):
    """One call at a time; the rows and the receipts."""
    out, kept = [], {}
    for verb, i, y, kind in events:
        if verb == "process":
            better, kept[i] = corrector.process_one(P[i], receipt=True, segments=values[i])
            out += [better, kept[i]]
        elif verb == "observe":
            corrector.observe_one(P[i], segments=values[i])
        elif verb == "learn":
            receipt = receipt_of(kind, kept.get(i), P.shape[1])
            corrector.learn_one(P[i], y, receipt=receipt, segments=values[i])
        else:
            corrector.learn_one(None, y)
    return [array.tobytes() for array in out]


@given(segmented(), st.data())
def test_any_cut_into_batches_gives_the_same_bits(stream, data):
    m, settings, P, events, columns, limit, values = stream
    one, many = (corrector_of(m, settings, columns, limit) for _ in range(2))
    expected, got, kept = run(one, P, events, values), [], {}
    while events:
        verb = events[0][0]
        same = next((i for i, event in enumerate(events) if event[0] != verb), len(events))
        cut = data.draw(st.integers(1, same))
        at, y = [event[1] for event in events[:cut]], [event[2] for event in events[:cut]]
        table = {name: [values[i].get(name) for i in at] for name in columns}
        if verb == "process":
            better, receipts = many.process_many(P[at], receipt=True, segments=table)
            for i, row, receipt in zip(at, better, receipts, strict=True):
                got += [row.tobytes(), receipt.tobytes()]
                kept[i] = receipt
        elif verb == "observe":
            many.observe_many(P[at], segments=table)
        elif verb == "learn":
            unknown = blank(1, m, many.n_sent)[0]
            back = [receipt_of(kind, kept.get(i), m) for _, i, _, kind in events[:cut]]
            receipts = np.array([unknown if receipt is None else receipt for receipt in back])
            many.learn_many(P[at], y, receipts=receipts, segments=table)
        else:
            many.learn_many(None, y)
        events = events[cut:]
    assert expected == got
    assert one.to_bytes() == many.to_bytes()


@given(segmented())
def test_a_replay_is_those_calls_in_one(stream):
    m, settings, P, events, columns, limit, values = stream
    one, many = (corrector_of(m, settings, columns, limit) for _ in range(2))
    events = [(verb, i, y, "as sent") for verb, i, y, _ in events if verb != "observe"]
    expected = run(one, P, events, values)
    processed = [i for verb, i, _, _ in events if verb == "process"]
    labelled = [i for verb, i, _, _ in events if verb == "learn"]
    at, found, seen, earlier = {}, [], 0, 0
    for verb, i, y, _ in events:
        if verb == "process":
            at[i] = len(labelled) + seen
            seen += 1
            continue
        found.append((y, -1 if verb == "label" else at.get(i, earlier), seen))
        earlier += verb == "learn"
    ys, of, due = np.array(found, int).reshape(-1, 3).T
    order = [*labelled, *processed]
    table = {name: [values[i].get(name) for i in order] for name in columns}
    first = len(labelled)
    played = many.play(P[order], ys, of, due, first=first, receipt=True, segments=table)
    assert expected[::2] == [row.tobytes() for row in played.rows]
    assert expected[1::2] == [row.tobytes() for row in played.receipts]
    assert one.to_bytes() == many.to_bytes()


@given(segmented())
def test_a_snapshot_continues_bit_for_bit(stream):
    m, settings, P, events, columns, limit, values = stream
    corrector = corrector_of(m, settings, columns, limit)
    half = len(events) // 2
    run(corrector, P, events[:half], values)
    copy = Corrector.from_bytes(corrector.to_bytes())
    assert copy.segments == corrector.segments
    assert copy.to_bytes() == corrector.to_bytes()
    assert run(corrector, P, events[half:], values) == run(copy, P, events[half:], values)
    assert corrector.to_bytes() == copy.to_bytes()


@given(segmented())
def test_looking_changes_nothing_and_predictions_no_value(stream):
    m, settings, P, events, columns, limit, values = stream
    corrector = corrector_of(m, settings, columns, limit)
    run(corrector, P, events, values)
    before, kept = corrector.to_bytes(), corrector._values.dump()[1].tobytes()
    table = {name: [row.get(name) for row in values] for name in columns}
    many, explained = (
        corrector.correct_many(P, segments=table),
        corrector.explain_many(P, segments=table),
    )
    for i, p in enumerate(P):
        assert corrector.correct_one(p, segments=values[i]).tobytes() == many[i].tobytes()
        for path, r in corrector.explain_one(p, segments=values[i]).items():
            assert r.tobytes() == explained[path][i].tobytes()
    np.testing.assert_allclose(many.sum(axis=1), 1, atol=1e-9)
    assert corrector.to_bytes() == before
    corrector.process_many(P, segments=table)
    assert corrector._values.dump()[1].tobytes() == kept


@pytest.mark.parametrize("n", [40, 600])
def test_fit_teaches_the_segmented_base_and_the_values(n):
    rng = np.random.default_rng(n)
    P, y = rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n)
    x = np.where(rng.random(n) < 0.5, y, rng.integers(0, 4, n)).tolist()
    values = [{"x": value} for value in x]
    oracle, corrector = Oracle(3, segments=["x"]), Corrector(3, segments=["x"])
    oracle.fit(P, y, values)
    corrector.fit(P, y, segments={"x": x})
    assert corrector.paths == oracle.paths
    events = [(verb, i, y[i], "as sent") for i in range(30) for verb in ("process", "learn")]
    compare(oracle, corrector, P, events, 1e-6, values)
    same_values(oracle, corrector, 1e-4)
    assert Corrector.from_bytes(corrector.to_bytes()).to_bytes() == corrector.to_bytes()


def test_without_given_values_it_is_not_told_apart_from_values_without_labels():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 20)
    corrector = Corrector(3, segments=["x"])
    for how in (None, {}, {"x": None}, {"x": math.nan}, {"x": "new"}):
        assert (
            corrector.correct_one(P[0], segments=how).tobytes()
            == corrector.correct_one(P[0]).tobytes()
        )


BAD = [
    ({"z": 1}, "'z' was not declared; declared: x, y"),
    ({"x": 0.5}, "'x': 0.5 is a measurement"),
    ({"x": [1]}, "list"),
    ({"x": b"a"}, "bytes"),
    ({"x": "\ud800"}, "Unicode"),
    (["x"], "expected {segment: value}"),
]


@pytest.mark.parametrize(("segments", "fault"), BAD)
def test_what_is_no_value_is_refused_and_changes_nothing(segments, fault):
    corrector = Corrector(2, segments=["x", "y"])
    before, p = corrector.to_bytes(), [0.3, 0.7]
    for call in (
        lambda: corrector.process_one(p, segments=segments),
        lambda: corrector.correct_one(p, segments=segments),
        lambda: corrector.explain_one(p, segments=segments),
        lambda: corrector.learn_one(p, 0, segments=segments),
    ):
        with pytest.raises(ValueError, match="segments") as raised:
            call()
        assert fault in str(raised.value)
    assert corrector.to_bytes() == before


def test_many_rows_name_the_row_and_count_the_values():
    corrector = Corrector(2, segments=["x"])
    P = [[0.3, 0.7]] * 3
    with pytest.raises(ValueError, match=r"'x' of row 2: 0\.5 is a measurement"):
        corrector.process_many(P, segments={"x": [1, 2.0, 0.5]})
    with pytest.raises(ValueError, match="'x' has 2 values for 3 rows"):
        corrector.learn_many(P, [0, 1, 0], segments={"x": ["a", "b"]})
    with pytest.raises(ValueError, match="expected a value for each row, got 'abc'"):
        corrector.process_many(P, segments={"x": "abc"})
    with pytest.raises(ValueError, match="was not declared; declared: none"):
        Corrector(2).process_one(P[0], segments={"x": 1})


@pytest.mark.parametrize(
    ("columns", "paths", "fault"),
    [
        ("carrier", None, "expected a list of names"),
        (["a", "a"], None, "named twice"),
        ([1], None, "expected the name of a segment"),
        ([""], None, "expected the name of a segment"),
        (["a"], ["vector"], "segments"),
        (["a"], ["raw", "matrix"], "vector"),
    ],
)
def test_columns_that_cannot_be(columns, paths, fault):
    with pytest.raises(ValueError, match=fault):
        Corrector(3, segments=columns, paths=paths)


def test_a_column_whose_values_come_once_is_warned_about_once():
    corrector = Corrector(2, segments=["x"], segments_mb=1)
    P = np.full((100_001, 2), 0.5)
    corrector.learn_many(P, [0] * len(P), segments={"x": np.arange(len(P))})
    with pytest.warns(UserWarning, match="segment 'x' has 100,000 values, of which most come once"):
        corrector.process_one(P[0], segments={"x": 1})
    corrector.process_one(P[0], segments={"x": 1})
    assert corrector.evicted_values + len(corrector.segment_values("x")) == len(P)


def test_odd_names_go_through_a_snapshot():
    names = ["", " ", "\x00", "a\nb", "é", "日本", "x" * 1000, "'", '"', "12", "true"]
    corrector = Corrector(2, segments=["x"])
    corrector.learn_many([[0.3, 0.7]] * len(names), [0] * len(names), segments={"x": names})
    copy = Corrector.from_bytes(corrector.to_bytes())
    assert list(copy.segment_values("x")) == names


def test_odd_names_of_columns_go_through_a_snapshot():
    names = [" ", "\x00", "a\nb", "é", "日本", "x" * 1000, "'", '"', "a.b", "..", "12", "header:X"]
    corrector = Corrector(2, segments=names)
    where = {name: name for name in names}
    for _ in range(3):
        corrector.learn_one([0.3, 0.7], 0, segments=where)
    copy = Corrector.from_bytes(corrector.to_bytes())
    assert copy.segments == tuple(names)
    assert all(list(copy.segment_values(name)) == [name] for name in names)
    better = corrector.process_one([0.3, 0.7], segments=where)
    assert better.tobytes() == copy.process_one([0.3, 0.7], segments=where).tobytes()


def test_a_column_that_no_row_gives_costs_nothing():
    """The same bits as if it had not been declared, whether it is left out or empty."""
    rng = np.random.default_rng(3)
    P, y, x = rng.dirichlet(np.ones(3), 200), rng.integers(3, size=200), rng.integers(5, size=200)
    without = Corrector(3, segments=["x"])
    expected = []
    for start in range(0, 200, 20):
        cut = slice(start, start + 20)
        expected.append(without.process_many(P[cut], segments={"x": x[cut]}))
        without.learn_many(P[cut], y[cut], segments={"x": x[cut]})
    for empty in ({}, {"gone": [None] * 20}, {"gone": np.full(20, np.nan)}, {"gone": None}):
        corrector = Corrector(3, segments=["x", "gone"])
        for i, start in enumerate(range(0, 200, 20)):
            cut = slice(start, start + 20)
            better = corrector.process_many(P[cut], segments={"x": x[cut]} | empty)
            assert better.tobytes() == expected[i].tobytes()
            corrector.learn_many(P[cut], y[cut], segments={"x": x[cut]} | empty)
        assert corrector.segment_values("x") == without.segment_values("x")
        assert corrector.segment_values("gone") == {}


def test_very_many_values_take_the_memory_that_they_are_given():
    corrector = Corrector(2, segments=["x"], segments_mb=1)
    P, y = np.tile([[0.3, 0.7]], (100_000, 1)), np.zeros(100_000, int)

    def take(start):
        values = np.arange(start, start + len(P))
        corrector.learn_many(P, y, segments={"x": values})
        corrector.process_many(P, segments={"x": values})

    with pytest.warns(UserWarning, match="most come once"):
        take(0)
    for start in range(len(P), 300_000, len(P)):
        take(start)
    kept = corrector.segment_values("x")
    assert list(kept) == [str(value) for value in range(300_000 - len(kept), 300_000)]
    assert corrector.evicted_values == 300_000 - len(kept)
    size = 8 * 11 + 16 + len("299999")
    assert len(kept) == (1 << 20) // size
    assert len(corrector.to_bytes()) < 3 << 20


def test_a_value_that_changed_on_the_way_is_learned_as_it_was_handed_back():
    """What is handed back with the label counts: the prediction's value, and the other one knows
    nothing of it."""
    corrector, plain = (Corrector(2, segments=["x"]) for _ in range(2))
    p = [0.3, 0.7]
    _, receipt = corrector.process_one(p, receipt=True, segments={"x": "old"})
    plain.process_one(p, segments={"x": "old"})
    corrector.correct_one(p, segments={"x": "new"})  # its next prediction
    corrector.learn_one(p, 0, receipt=receipt, segments={"x": "old"})
    plain.learn_one(p, 0, receipt=receipt, segments={"x": "old"})
    assert list(corrector.segment_values("x")) == ["old"]
    assert corrector.to_bytes() == plain.to_bytes()
    assert (
        corrector.correct_one(p, segments={"x": "new"}).tobytes()
        == corrector.correct_one(p).tobytes()
    )


STRANGE = [np.datetime64("2026-01-01"), object(), {"a": 1}, 1j, np.inf, -np.inf, np.float32(0.1)]


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
def test_one_strange_value_among_many_is_named_and_nothing_is_learned(value):
    corrector = Corrector(2, segments=["x"])
    before, P = corrector.to_bytes(), [[0.3, 0.7]] * 3
    table = {"x": np.array(["a", "b", value], object)}
    for call in (
        lambda: corrector.process_many(P, segments=table),
        lambda: corrector.observe_many(P, segments=table),
        lambda: corrector.learn_many(P, [0, 1, 0], segments=table),
        lambda: RowSums(corrector).correct(P, RowSums(corrector).zeros(), segments=table),
        lambda: corrector.fit(P, [0, 1, 0], segments=table),
    ):
        with pytest.raises(ValueError, match="segments: 'x' of row 2"):
            call()
    assert corrector.to_bytes() == before
