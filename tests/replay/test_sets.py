"""Prediction sets over a replay: the plain loop's, to the bit, and what is told of them."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

from stream_can import Corrector, LabelRequests
from stream_can.replay import (
    Recording,
    Replay,
    SetScores,
    from_arrays,
    replay,
    sets_for,
    steps,
    verdict,
)
from stream_can.replay.steps import DRAW
from stream_can.report import report
from stream_can.trust.promise import miss_of
from stream_can.trust.sets import PredictionSets
from tests.cli.command import stream_can
from tests.replay.streams import stream
from tests.report.pages import Page, look

fast = pytest.mark.fast


@pytest.fixture(params=[50, 333, 10_000])
def chunked(request, monkeypatch):
    monkeypatch.setattr("stream_can.recording.recording.CHUNK", request.param)


def by_row(sets, sent, y, teaches, due_before, after=()):
    """The order in its plainest form: what each row's set is, and which labels taught."""
    inside, tickets, learned = [], [], []

    def learn(labels):
        for j in labels:
            if teaches[j] and j not in learned:
                sets.learn_one(sent[j], int(y[j]), tickets[j])
                learned.append(j)

    for i in range(len(sent)):
        learn(due_before(i))
        found, (ticket,) = sets.set_many(sent[i : i + 1])
        inside.append(found[0])
        tickets.append(ticket)
    learn(after)
    return np.array(inside), learned


def played(chunks, miss=0.1, requests=None, sets=None, **options):
    corrector = Corrector(4)
    result = Replay(corrector, requests, sets or PredictionSets(4, miss))
    sent = []
    for step in steps(chunks, corrector, requests=requests, explain=False, **options):
        result.add(step)
        sent.append(step.corrected)
    return result, np.concatenate(sent)


def check(result, inside, learned, y):
    scores, n = result.sets, len(y)
    known = np.flatnonzero(y >= 0)
    kept = inside[known, y[known]]
    assert (scores.rows, scores.known, scores.learned) == (n, len(known), len(learned))
    assert scores.kept == pytest.approx(kept.mean())
    assert scores.mean_size == pytest.approx(inside.sum(axis=1).mean())
    assert scores.singletons == pytest.approx((inside.sum(axis=1) == 1).mean())
    if learned:
        assert scores.kept_learned == pytest.approx(inside[learned, y[learned]].mean())
    windows = np.lib.stride_tricks.sliding_window_view(kept, 500).mean(axis=1)
    assert scores.worst == (windows.min(), known[windows.argmin() + 499] + 1)
    assert sum(one.kept for one in scores.moments) == kept.sum()
    assert sum(one.known for one in scores.moments) == len(known)
    assert sum(one.size for one in scores.moments) == inside.sum()
    assert [one.row for one in scores.moments] == [one.row for one in result.moments]


@fast
@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize(("delay", "rate"), [(0, 1), (7, 1), (100, 0.3), (1499, 1), (4000, 1)])
def test_a_delay_in_rows_equals_the_plain_loop(delay, rate):
    P, y = stream(1500, sharpness=2)
    y = np.where(np.arange(len(y)) % 7 == 0, -1, y)
    teaches = (np.random.default_rng([5, *DRAW]).random(len(y)) < rate) & (y >= 0)
    result, sent = played(from_arrays(P, y), label_delay=delay, label_rate=rate, seed=5)
    plain, n = PredictionSets(4), len(y)
    after = range(max(0, n - delay - 1), max(0, n - delay))
    inside, learned = by_row(plain, sent, y, teaches, lambda i: range(i - delay)[-1:], after)
    assert result.sets.sets.to_bytes() == plain.to_bytes()
    check(result, inside, learned, y)
    assert len(result.sets._waiting) == teaches.sum() - len(learned)


@fast
@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("share", [None, 0.3])
def test_labels_at_their_own_time_and_those_asked_for_equal_the_plain_loop(share):
    """Of labels that are asked for only those at random teach."""
    P, y = stream(1500, sharpness=2, seed=1)
    rng = np.random.default_rng(0)
    time = np.sort(rng.integers(0, 700, 1500))
    label_time = np.where(np.arange(1500) % 5 == 0, np.nan, time + rng.integers(-3, 40, 1500))
    requests = None if share is None else LabelRequests(share)
    result, sent = played(from_arrays(P, y, time, label_time), 0.2, requests)
    teaches = ~np.isnan(label_time)
    if share is not None:
        again, could = LabelRequests(share), np.flatnonzero(teaches)
        asked = again.ask_many(could.tolist(), sent[could])
        teaches[could] = [one is not None and one.reason == "random" for one in asked]
        assert {one.reason for one in asked if one} == {"random", "margin"}

    def due_before(i):
        due = np.flatnonzero(label_time[:i] <= time[i]).tolist()
        return sorted(due, key=lambda j: (label_time[j], j))

    plain = PredictionSets(4, 0.2)
    inside, learned = by_row(plain, sent, y, teaches, due_before)
    assert result.sets.sets.to_bytes() == plain.to_bytes()
    check(result, inside, learned, y)
    assert len(learned) > 100


@fast
def test_sets_go_on_from_an_earlier_replay():
    P, y = stream(1200)
    first, _ = played(from_arrays(P[:600], y[:600]), label_delay=20)
    kept = PredictionSets.from_bytes(first.sets.sets.to_bytes())
    second, sent = played(from_arrays(P[600:], y[600:]), label_delay=20, sets=kept)
    plain = PredictionSets.from_bytes(first.sets.sets.to_bytes())
    by_row(plain, sent, y[600:], [True] * 600, lambda i: range(i - 20)[-1:], [579])
    assert second.sets.sets.to_bytes() == plain.to_bytes()


@fast
def test_a_replay_without_them_is_as_ever():
    P, y = stream(800)
    corrector = Corrector(4)
    plain = Replay(corrector)
    for step in steps(from_arrays(P, y), corrector, label_delay=9, explain=False):
        plain.add(step)
    with_sets, _ = played(from_arrays(P, y), label_delay=9)
    assert plain.sets is None
    assert "sets" not in plain.to_dict()
    assert plain.corrected.summary() == with_sets.corrected.summary()
    assert plain.corrector.to_bytes() == with_sets.corrector.to_bytes()


@fast
@pytest.mark.parametrize("share", [0, 1, 1.2, -0.1, float("nan"), 90, True, "0.9", 1e-17])
def test_a_promise_that_is_no_share_is_refused(share):
    with pytest.raises(ValueError, match=r"sets: .*expected the share that sets promise, above 0"):
        sets_for("ab", share)


@fast
def test_the_promise_is_what_was_said():
    for share, miss in ((0.9, 0.1), (0.95, 0.05), (np.float64(0.8), 0.2), (0.999, 0.001)):
        assert miss_of(share) == miss
        assert SetScores(sets_for("ab", share), "ab").promised == share
    with pytest.raises(ValueError, match=r"sets: of classes \['a', 'b'\], but the corrector has"):
        SetScores(sets_for("ab", 0.9), "abc")


@fast
def test_what_is_said():
    P, y = stream(4000, sharpness=2)
    said = verdict(played(from_arrays(P, y), label_delay=20)[0])
    assert re.search(
        r"Prediction sets promise 90 % and keep \d\d\.\d % \(standard error \d\.\d\) of the 4,000"
        r" rows whose label is known, \d\d\.\d % of the 3,980 whose label taught them: \d\.\d\d"
        r" classes on average, \d+ % of the sets have one; worst 500 rows in a row \d\d\.\d %\.$",
        said,
    )
    result, _ = played(from_arrays(P, y), label_delay=20, label_rate=0)
    assert "whose label is known; no label came that could teach them: " in verdict(result)
    found = json.loads(json.dumps(result.to_dict()["sets"], allow_nan=False))
    assert (found["kept_learned"], found["learned"], found["known"]) == (None, 0, 4000)
    few, _ = played(from_arrays(P[:300], y[:300]), label_delay=20)
    assert few.sets.to_dict()["worst_window"] is None
    assert "worst 500" not in verdict(few)
    none, _ = played(from_arrays(P, np.full(len(y), -1)), label_delay=20)
    found = json.loads(json.dumps(none.to_dict()["sets"], allow_nan=False))
    assert (found["kept"], found["known"], found["singletons"] > 0) == (None, 0, True)


def write(folder, n=3000):
    P, y = stream(n, 3, sharpness=2)
    table = pl.DataFrame({f"probs_{name}": P[:, k] for k, name in enumerate("abc")})
    table = table.with_columns(label=pl.Series(list("abc"))[y])
    table.write_parquet(folder / "stream.parquet")
    return folder / "stream.parquet"


@fast
def test_the_command_says_what_the_library_says(tmp_path):
    file, page = write(tmp_path), tmp_path / "report.html"
    given = ("replay", file, "--label-delay", 100, "--sets", 0.8)
    said = json.loads(stream_can(*given, "--json", "--report", page, "--ask", 0.2)[0])
    recording = Recording(file)
    expected = replay(
        recording, Corrector(["a", "b", "c"]), label_delay=100, requests=LabelRequests(0.2),
        sets=sets_for("abc", 0.8),
    )  # fmt: skip
    assert said["sets"] == expected.sets.to_dict()
    assert said["sets"]["learned"] < expected.corrector.n_labels
    assert "Prediction sets promise 80 %" in said["verdict"]
    assert "Prediction sets" in Page(page.read_text()).texts["h2"]
    out, _ = stream_can(*given, "--label-rate", 0.5)
    assert "Prediction sets promise 80 % and keep" in " ".join(out.split())
    plain = json.loads(stream_can("replay", file, "--label-delay", 100, "--json")[0])
    assert "sets" not in plain
    _, err = stream_can("replay", file, "--label-delay", 1, "--sets", 1, code=1)
    assert err == (
        "stream-can: sets: 1.0, expected the share that sets promise, above 0 and below 1: 0.9\n"
    )


@fast
def test_the_page_has_a_figure_and_the_numbers():
    P, y = stream(4000, sharpness=2)
    result, _ = played(from_arrays(P, y), label_delay=20)
    page = Page(report(result, "sets"))
    assert not page.loads
    assert {"Prediction sets", "Prediction sets in numbers"} <= {*page.texts["h2"]}
    assert {"promised", "kept", "mean size"} <= {*page.texts["dt"]}
    assert f"{result.sets.mean_size:.2f} classes" in page.texts["dd"]
    assert "nan" not in "".join(page.texts["dd"])
    plain, _ = played(from_arrays(P, y), label_delay=20)
    plain.sets = None
    assert "rediction set" not in report(plain, "none")


@fast
@pytest.mark.parametrize(("n", "labelled"), [(30, 1.0), (900, 0.02), (900, 1.0)])
def test_the_figure_of_few_rows_and_few_labels(n, labelled):
    P, y = stream(n)
    y = np.where(np.arange(n) < max(1, labelled * n), y, -1)
    text = report(played(from_arrays(P, y), label_delay=3)[0], "few")
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_the_page_is_readable_in_a_browser(browser, tmp_path, width, dark):
    P, y = stream(6000, sharpness=2)
    seen = look(browser, tmp_path, report(played(from_arrays(P, y), label_delay=9)[0], "sets"),
                width, dark)  # fmt: skip
    assert seen["wide"] <= width
    assert seen["table"] <= 0
    assert seen["outside"] == []
    assert seen["smallest"] > 8
