"""The alarm: below the slow statement, still where nothing changes, soon where it gets worse."""

from __future__ import annotations

import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_can import InvalidPrediction, SnapshotMismatch, snapshot
from stream_can.trust import change_tests, evidence
from stream_can.trust.alarm import Alarm
from stream_can.trust.episode import Episode
from tests.examples import examples
from tests.trust.alarm_oracle import change_of_errors, rise_of_losses

pytestmark = pytest.mark.fast


def stream(rng, n, accuracy, m=4):
    """Rows of which such a share is right, and labels."""
    ys = rng.integers(0, m, n)
    top = np.where(rng.random(n) < accuracy, ys, (ys + rng.integers(1, m, n)) % m)
    sure = 0.3 + 0.7 * rng.beta(5, 2, n)
    P = np.repeat(((1 - sure) / (m - 1))[:, None], m, axis=1)
    P[np.arange(n), top] = sure
    return P, ys


def of_label(rows, ys):
    """Errors and losses."""
    p = rows[np.arange(len(ys)), ys]
    return (rows.argmax(axis=1) != ys).astype(int), -np.log(np.maximum(p, 1e-6))


def quiet(monkeypatch):
    """No test ever passes, so that nothing starts over."""
    monkeypatch.setattr(Alarm, "_notice", lambda self, found: None)


@given(st.integers(0, 2**32 - 1), st.integers(2, 130), st.floats(0.2, 0.95), st.floats(0.05, 0.95))
@settings(max_examples=examples(20), deadline=None)
def test_errors_are_those_of_the_slow_statement(seed, n, before, after):
    """Equal while every start is kept, and never above it."""
    rng = np.random.default_rng(seed)
    P, ys = (np.concatenate(both) for both in zip(
        stream(rng, n // 2, before), stream(rng, n - n // 2, after), strict=True))  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        quiet(patch)
        one = Alarm()
        one.learn_many(P, P, ys)
    one._gather()
    want, start = change_of_errors(of_label(P, ys)[0].tolist())
    got, at = one._errors(0)
    if n < 2 * change_tests.PER_OCTAVE:
        assert got == pytest.approx(want, abs=1e-8)
        assert math.isinf(got) or one._starts[at] == start
    assert got <= want + 1e-8


@given(st.integers(0, 2**32 - 1), st.integers(1, 90), st.floats(0.2, 0.95))
@settings(max_examples=examples(6), deadline=None)
def test_losses_are_those_of_the_slow_statement(seed, n, after):
    rng = np.random.default_rng(seed)
    P, ys = (np.concatenate(both) for both in zip(
        stream(rng, 1000, 0.8), stream(rng, n, after), strict=True))  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        quiet(patch)
        one = Alarm()
        one.learn_many(P, P[:, ::-1], 3 - ys)
    one._gather()
    for side, rows in enumerate((P, P[:, ::-1])):
        want, start = rise_of_losses(of_label(rows, 3 - ys)[1].tolist())
        got, at = one._bets(side, change_tests.REFERENCE)
        if n < 2 * change_tests.PER_OCTAVE:
            assert got == pytest.approx(want, abs=1e-8)
            assert one._starts[at] == start
        assert got <= want + 1e-8


def test_starts_are_few_and_of_every_age():
    alarm = Alarm()
    alarm.learn_many(*(np.full((20_000, 2), 0.5),) * 2, np.arange(20_000) % 2)
    alarm._gather()
    alarm._thin()
    ages = 20_000 - alarm._starts
    assert len(ages) < 16 * 14 + 32
    for octave in range(5, 14):
        inside = (ages >= 2**octave) & (ages < 2 ** (octave + 1))
        assert 8 <= inside.sum() <= 33


def test_still_streams_are_still():
    """8 of 3,000 labels: one false alarm in 100 is promised; of 200 longer ones see RESULTS."""
    found = 0
    for seed in range(examples(8)):
        rng = np.random.default_rng(seed)
        P, ys = stream(rng, 3000, (0.5, 0.8, 0.95, 0.99)[seed % 4])
        alarm = Alarm()
        alarm.learn_many(P, P, ys)
        found += len(alarm.episodes)
    assert found <= examples(8) // 20


def test_a_fall_is_noticed_said_and_ends():
    rng = np.random.default_rng(0)
    P, ys = (np.concatenate(both) for both in zip(
        stream(rng, 2000, 0.85), stream(rng, 1500, 0.6), stream(rng, 2500, 0.85), strict=True,
    ))  # fmt: skip
    sent = P.copy()
    sent[2000:3500] = 0.5 * P[2000:3500] + 0.5 * np.eye(4)[ys[2000:3500]]  # which holds much of it
    alarm = Alarm()
    times = [10_000 + i for i in range(len(ys))]
    alarm.learn_many(P[:3400], sent[:3400], ys[:3400], times[:3400])
    episode = alarm.episode
    assert episode is not None
    assert 1900 < episode.since < 2150
    assert episode.time == 10_000 + episode.since
    assert episode.noticed < 2600
    assert episode.by[0] == "raw accuracy"
    assert episode.side == 0
    assert episode.before[0] == pytest.approx(0.85, abs=0.04)
    assert episode.after[0] == pytest.approx(0.6, abs=0.05)
    assert episode.before[1] < episode.after[1] - 0.2
    assert episode.holds > 0.8
    alarm.learn_many(P[3400:], sent[3400:], ys[3400:], times[3400:])
    assert alarm.episode is None
    (ended,) = alarm.episodes
    assert not ended.stays
    assert 3500 < ended.until < 4500


def test_what_gets_better_is_no_episode():
    rng = np.random.default_rng(1)
    P, ys = (np.concatenate(both) for both in zip(
        stream(rng, 1500, 0.5), stream(rng, 1500, 0.9), strict=True))  # fmt: skip
    alarm = Alarm()
    alarm.learn_many(P, P, ys)
    assert alarm.episodes == []


def test_only_what_is_sent_gets_worse():
    rng = np.random.default_rng(2)
    P, ys = stream(rng, 3500, 0.9)
    sent = P.copy()
    sent[1500:] = P[1500:][:, [1, 0, 2, 3]]
    alarm = Alarm()
    alarm.learn_many(P, sent, ys)
    (episode,) = alarm.episodes
    assert episode.side == 1
    assert all(name.startswith("sent") for name in episode.by)
    assert episode.before[2] > episode.after[2] + 0.3


@pytest.mark.parametrize("seed", range(5))
def test_a_fall_that_what_is_sent_shows_first_is_the_classifiers_own(seed):
    """The rows sent are surer, so their loss may say it sooner; then what is sent adapts, which
    does not end what the classifier has."""
    rng = np.random.default_rng(seed)
    P, ys = (np.concatenate(both) for both in zip(
        stream(rng, 1000, 0.9), stream(rng, 2000, 0.3), strict=True))  # fmt: skip
    sent = P**1.3
    sent /= sent.sum(axis=1, keepdims=True)
    sent[1100:] = 0.25
    alarm = Alarm()
    alarm.learn_many(P, sent, ys)
    (episode,) = alarm.episodes
    assert episode.side == 0
    assert episode.until is None


@pytest.mark.parametrize("least", [0.05, 1e-3, 1e-4, 1e-12])
def test_what_stays_worse_is_not_over_however_sure_the_rows_are(least):
    """Losses are tested as clipped, so the middle that ends an episode is one of clipped losses."""
    rng = np.random.default_rng(0)
    ys = rng.integers(0, 10, 6000)
    wrong = rng.random(6000) > np.where(np.arange(6000) < 2000, 0.7, 0.05)
    wrong[5000:] = rng.random(1000) > 0.7
    rows = np.full((6000, 10), least)
    rows[np.arange(6000), (ys + wrong * rng.integers(1, 10, 6000)) % 10] = 1 - 9 * least
    alarm = Alarm()
    alarm.learn_many(rows[:5000], rows[:5000], ys[:5000])
    (episode,) = alarm.episodes
    assert episode.until is None
    alarm.learn_many(rows[5000:], rows[5000:], ys[5000:])
    assert 5000 < episode.until < 5500


def test_what_lasts_is_usual(monkeypatch):
    monkeypatch.setattr("stream_can.trust.alarm.STAYS", 1000)
    rng = np.random.default_rng(3)
    P, ys = (np.concatenate(both) for both in zip(
        stream(rng, 1500, 0.9), stream(rng, 3500, 0.6), strict=True))  # fmt: skip
    alarm = Alarm()
    alarm.learn_many(P, P, ys)
    (episode,) = alarm.episodes
    assert episode.stays
    assert episode.until == episode.noticed + 1000


@given(st.integers(0, 99), st.lists(st.integers(1, 400), min_size=1, max_size=20))
@settings(max_examples=examples(6), deadline=None)
def test_however_it_is_cut_and_kept_the_bits_are_the_same(seed, cuts):
    rng = np.random.default_rng(seed)
    P, ys = (np.concatenate(both) for both in zip(
        stream(rng, 1100, 0.9), stream(rng, 400, 0.3), strict=True))  # fmt: skip
    whole, cut = Alarm(), Alarm()
    whole.learn_many(P, P, ys, list(range(1500)))
    at = 0
    for k in range(1500):
        if at >= 1500:
            break
        end = min(1500, at + cuts[k % len(cuts)])
        cut.learn_many(P[at:end], P[at:end], ys[at:end], list(range(at, end)))
        cut, at = Alarm.from_bytes(cut.to_bytes()), end
    assert cut.to_bytes() == whole.to_bytes()
    assert len(whole.episodes) == 1


def test_one_and_many():
    rng = np.random.default_rng(4)
    P, ys = stream(rng, 60, 0.7)
    one, many = Alarm(), Alarm()
    for row, y in zip(P, ys, strict=True):
        one.learn_one(row, row, int(y))
    many.learn_many(P, P, ys)
    assert one.to_bytes() == many.to_bytes()
    assert pickle.loads(pickle.dumps(one)).to_bytes() == one.to_bytes()


def test_what_was_never_likely():
    """Rows that give the label nothing, and rows that are certain."""
    alarm = Alarm()
    rows = np.tile([1.0, 0.0], (1200, 1))
    alarm.learn_many(rows, rows, np.zeros(1200, int))
    alarm.learn_many(rows[:100], rows[:100], np.ones(100, int))
    assert alarm.episode is not None
    assert alarm.episode.after[0] < 0.1
    assert alarm.episode.holds == pytest.approx(0)


BAD = [
    (lambda a: a.learn_one([0.5, 0.6], [0.5, 0.5], 0), InvalidPrediction, "raw: row 0"),
    (lambda a: a.learn_one([0.5, 0.5], [math.nan, 1], 0), InvalidPrediction, "sent: row 0"),
    (lambda a: a.learn_one([0.5, 0.5], [0.2, 0.2, 0.6], 0), ValueError, "classes 0 to 1 of both"),
    (lambda a: a.learn_one([0.5, 0.5], [0.5, 0.5], 2), ValueError, "classes 0 to 1"),
    (lambda a: a.learn_one([0.5, 0.5], [0.5, 0.5], -1), ValueError, "classes 0 to 1"),
    (lambda a: a.learn_many([[0.5, 0.5]], [[0.5, 0.5]], [0.5]), ValueError, "expected integers"),
    (lambda a: a.learn_many([[0.5, 0.5]] * 2, [[0.5, 0.5]], [0]), InvalidPrediction, "raw: shape"),
    (lambda a: a.learn_many([[0.5, 0.5]], [[0.5, 0.5]], [0], [1, 2]), ValueError, "times: 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "why"), BAD)
def test_bad_input_changes_nothing(call, error, why):
    alarm = Alarm()
    alarm.learn_many([[0.5, 0.5]] * 3, [[0.4, 0.6]] * 3, [0, 1, 0])
    before = alarm.to_bytes()
    with pytest.raises(error, match=why):
        call(alarm)
    assert alarm.to_bytes() == before
    with pytest.raises(ValueError, match="level"):
        Alarm(1.0)


def test_a_copy_is_its_own():
    """A copy, also in an episode, learns on as the alarm does, and leaves it unchanged."""
    rng = np.random.default_rng(1)
    alarm = Alarm()
    for accuracy in (0.9, 0.4, 0.9):
        P, ys = stream(rng, 1503, accuracy)
        copied, before = alarm.copy(), alarm.to_bytes()
        assert copied.to_bytes() == before
        copied.learn_many(P, P, ys)
        assert alarm.to_bytes() == before
        alarm.learn_many(P, P, ys)
        assert copied.to_bytes() == alarm.to_bytes()
    assert alarm.episodes


def test_no_labels():
    alarm = Alarm()
    alarm.learn_many(np.empty((0, 3)), np.empty((0, 3)), np.empty(0, int))
    assert alarm.n == 0
    assert Alarm.from_bytes(alarm.to_bytes()).to_bytes() == alarm.to_bytes()


@given(st.data())
@settings(max_examples=examples(20), deadline=None)
def test_a_snapshot_that_was_changed_is_refused_or_goes_on(data):
    alarm = Alarm()
    rng = np.random.default_rng(0)
    P, ys = stream(rng, 45, 0.5)
    alarm.learn_many(P, P, ys)
    content, arrays = snapshot.decode(alarm.to_bytes())
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from([*content]))
        content[name] = data.draw(st.sampled_from([None, -1, 2**60, "x", [], 0.5]))
    else:
        name = data.draw(st.sampled_from([*arrays]))
        values = data.draw(st.sampled_from([np.nan, -1, 1e300]))
        arrays[name] = data.draw(st.sampled_from([
            arrays[name][:-1], np.full_like(arrays[name], values) if arrays[name].dtype.kind == "f"
            else arrays[name] * 0, arrays[name].astype(np.float32), np.zeros((2, 2, 2)),
        ]))  # fmt: skip
    changed = snapshot.encode(content, arrays)
    try:
        again = Alarm.from_bytes(changed)
    except SnapshotMismatch:
        return
    with np.errstate(all="ignore"):
        again.learn_many(P, P, ys)


def test_an_episode_as_json_would_have_it():
    import msgspec

    one = Episode(since=1, time=None, noticed=2, by=["sent log loss"], before=[0.0] * 4,
                  after=[1.0] * 4)  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(one), type=Episode) == one


def test_no_rows_are_no_labels():
    alarm = Alarm()
    before = alarm.to_bytes()
    alarm.learn_many(np.zeros((0, 3)), np.zeros((0, 3)), [])
    assert alarm.to_bytes() == before


def test_threads_share_one():
    """Labels of several threads, while others look and save: each counts once."""
    rng = np.random.default_rng(0)
    P, ys = stream(rng, 50, 0.8)
    alarm, saved, stop = Alarm(), [], threading.Event()

    def look():
        while not stop.is_set():
            saved.append(Alarm.from_bytes(alarm.to_bytes()).n)

    looking = threading.Thread(target=look)
    looking.start()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(200):
            pool.submit(alarm.learn_many, P, P, ys)
    stop.set()
    looking.join()
    assert alarm.n == 200 * 50
    assert all(n % 50 == 0 for n in saved)
    assert Alarm.from_bytes(alarm.to_bytes()).to_bytes() == alarm.to_bytes()


def test_evidence_of_very_many_labels():
    """The gamma function of small and of large numbers, against the standard library's."""
    for n, i, before, wrong in [(12, 5, 1, 6), (5_000, 900, 80, 700), (10**9, 10**8, 10**6, 10**8)]:
        later = wrong - before
        x = [before, i - before, later, n - i - later]
        expected = sum(math.lgamma(each + 0.5) for each in x) - 2 * math.log(math.pi)
        expected -= math.lgamma(i + 1) + math.lgamma(n - i + 1) + math.log(i * (i + 1))
        expected -= wrong * math.log(wrong / n) + (n - wrong) * math.log((n - wrong) / n)
        starts, sums = np.array([0, i]), np.array([[0.0], [before]])
        e, place = evidence.more_errors(starts, sums, 0, wrong, n)
        assert (e, place) == (pytest.approx(expected, rel=1e-12, abs=1e-5 * (n > 10**6)), 1)
