"""Prediction sets over a replay: the plain loop's, to the bit, and what is told of them."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

from stream_can import Corrector, LabelRequests
from stream_can.dense.result import DenseReplay
from stream_can.method.receipts import NOT_FAIR, OF_ROW
from stream_can.replay import (
    Recording,
    from_arrays,
    replay,
    steps,
    verdict,
)
from stream_can.replay.steps import DRAW, learner_of
from stream_can.report import report
from tests.cli.command import stream_can
from tests.replay.streams import stream
from tests.report.pages import Page, look

fast = pytest.mark.fast


@pytest.fixture(params=[50, 333, 10_000])
def chunked(request, monkeypatch):
    monkeypatch.setattr("stream_can.recording.arrays.CHUNK", request.param)


def by_row(corrector, P, y, teaches, due_before, after=(), fair=None):
    """The order in its plainest form: what each row's set is, and which labels taught."""
    inside, receipts, learned = [], [], []

    def learn(labels):
        for j in labels:
            if teaches[j] and j not in learned:
                receipt = receipts[j]
                if fair is not None and not fair[j]:
                    receipt = receipt.copy()
                    receipt[OF_ROW] = NOT_FAIR
                corrector.learn_one(P[j], int(y[j]), receipt=receipt)
                learned.append(j)

    for i in range(len(P)):
        learn(due_before(i))
        row, receipt = corrector.process_one(P[i], receipt=True)
        inside.append(corrector.sets_of(row[None], receipt[None])[0])
        receipts.append(receipt)
    learn(after)
    return np.array(inside), [j for j in learned if fair is None or fair[j]]


def played(chunks, sets=0.9, ask=None, corrector=None, **options):
    learner = learner_of(corrector or Corrector(4, sets=sets), ask)
    result = DenseReplay(learner)
    sent = []
    for step in steps(chunks, learner, explain=False, **options):
        result.add(step)
        sent.append(step.corrected)
    return result, np.concatenate(sent)


def check(result, inside, learned, y):
    scores, n = result.sets, len(y)
    known = np.flatnonzero(y >= 0)
    kept = inside[known, y[known]]
    assert (scores.all_rows.rows, scores.known, scores.learned) == (n, len(known), len(learned))
    assert scores.kept == pytest.approx(kept.mean())
    assert scores.mean_size == pytest.approx(inside.sum(axis=1).mean())
    assert scores.singletons == pytest.approx((inside.sum(axis=1) == 1).mean())
    if learned:
        assert scores.kept_learned == pytest.approx(inside[learned, y[learned]].mean())
    windows = np.lib.stride_tricks.sliding_window_view(kept, 500).mean(axis=1)
    assert scores.worst == (windows.min(), known[windows.argmin() + 499] + 1)
    assert sum(one.covered for one in scores.moments) == kept.sum()
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
    result, _ = played(from_arrays(P, y), label_delay=delay, label_rate=rate, seed=5)
    plain, n = Corrector(4, sets=0.9), len(y)
    after = range(max(0, n - delay - 1), max(0, n - delay))
    inside, learned = by_row(plain, P, y, teaches, lambda i: range(i - delay)[-1:], after)
    assert result.corrector.to_bytes() == plain.to_bytes()
    check(result, inside, learned, y)
    assert len(result.sets._waiting) == teaches.sum() - len(learned)


@fast
@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("share", [None, 0.3])
def test_labels_at_their_own_time_and_those_asked_for_equal_the_plain_loop(share):
    """Of labels that are asked for only those at random teach."""
    P, y = stream(600, sharpness=2, seed=1)
    rng = np.random.default_rng(0)
    time = np.sort(rng.integers(0, 280, 600))
    label_time = np.where(np.arange(600) % 5 == 0, np.nan, time + rng.integers(-3, 40, 600))
    result, sent = played(from_arrays(P, y, time, label_time), 0.8, share)
    teaches, fair = ~np.isnan(label_time), None
    if share is not None:
        again, could = LabelRequests(share), np.flatnonzero(teaches)
        asked = again.ask_many(could.tolist(), sent[could])
        teaches[could] = [one is not None for one in asked]
        fair = np.zeros(len(y), bool)
        fair[could] = [one is not None and one.reason == "random" for one in asked]
        assert {one.reason for one in asked if one} == {"random", "margin"}

    def due_before(i):
        due = np.flatnonzero(label_time[:i] <= time[i]).tolist()
        return sorted(due, key=lambda j: (label_time[j], j))

    plain = Corrector(4, sets=0.8)
    inside, learned = by_row(plain, P, y, teaches, due_before, fair=fair)
    assert result.corrector.to_bytes() == plain.to_bytes()
    check(result, inside, learned, y)
    assert len(learned) > 40


@fast
def test_a_replay_without_them_is_as_ever():
    P, y = stream(800)
    corrector = Corrector(4)
    playing = learner_of(corrector)
    plain = DenseReplay(playing)
    for step in steps(from_arrays(P, y), playing, label_delay=9, explain=False):
        plain.add(step)
    with_sets, _ = played(from_arrays(P, y), label_delay=9)
    assert plain.sets is None
    assert "sets" not in plain.to_dict()
    assert plain.corrected.summary() == with_sets.corrected.summary()


@fast
def test_what_is_said():
    P, y = stream(4000, sharpness=2)
    said = verdict(played(from_arrays(P, y), label_delay=20)[0])
    assert re.search(
        r"Prediction sets promise 90 % and keep \d\d\.\d % \(standard error \d\.\d\) of the 4,000"
        r" rows whose label is known, \d\d\.\d % of the 3,980 whose label taught them: \d\.\d\d"
        r" classes on average, \d+ % of the sets have one; worst 500 rows in a row \d\d\.\d %; of"
        r" rows predicted as \d \d\d\.\d %, the least of any with 100 labels\.$",
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
        recording, Corrector(["a", "b", "c"], sets=0.8), label_delay=100,
        ask=0.2,
    )  # fmt: skip
    assert said["sets"] == expected.sets.to_dict()
    assert said["sets"]["learned"] < expected.corrector.n_labels
    assert "Prediction sets promise 80 %" in said["verdict"]
    assert "Prediction sets" in Page(page.read_text()).texts["h2"]
    out, _ = stream_can(*given, "--label-rate", 0.5)
    assert "Prediction sets promise 80 % and keep" in " ".join(out.split())
    plain = json.loads(stream_can("replay", file, "--label-delay", 100, "--json")[0])
    assert "sets" not in plain
    _, err = stream_can("replay", file, "--label-delay", 1, "--sets", 1, code=2)
    assert err == (
        "stream-can: sets: 1.0, expected a number > 0 and < 1: share of the labelled rows whose"
        " prediction set should contain the label, such as 0.9; rows then get sets\n"
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


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_the_page_is_readable_in_a_browser(browser, tmp_path, width, dark):
    P, y = stream(6000, sharpness=2)
    seen = look(browser, tmp_path, report(played(from_arrays(P, y), label_delay=9)[0], "sets"),
                width, dark)  # fmt: skip
    assert seen["wide"] <= width
    assert seen["table"] <= 0
    assert seen["outside"] == []
    assert seen["smallest"] > 8
