"""Expected accuracy: its definition in plain sums, its coverage, and what a replay says of it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from stream_can import Corrector, InvalidPrediction, UnknownClass
from stream_can.replay import Recording, replay, verdict
from stream_can.trust import ExpectedAccuracy
from stream_can.trust.expected import Gap, expected_accuracy
from tests.cli.command import stream_can

pytestmark = pytest.mark.fast


def stream(n, m=3, seed=0, overconfident=1.0):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(m, 0.5), n) + 1e-9
    truth /= truth.sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(0, m - 1)
    P = truth**overconfident
    return P / P.sum(axis=1, keepdims=True), y


def plain(rows, gaps):
    """The definition, row by row: ``rows`` with their ages in rows; ``gaps`` of labels with their
    weights."""
    n = sum(w for _, w in rows)
    c = sum(w * p for p, w in rows) / n
    variance = sum(w * p * (1 - p) for p, w in rows) / n**2
    g = 0.0
    if gaps:
        N = sum(w for _, w in gaps)
        noise = 0.02**2 + 1 / (4 * N)
        g = 0.25**2 / (0.25**2 + noise) * sum(w * x for x, w in gaps) / N
        variance += 1 / (1 / 0.25**2 + 1 / noise) + 0.02**2
    else:
        variance += 0.25**2
    value = min(max(c + g / 2, 0), 1)
    reach = 1.96 * math.sqrt(variance + g * g / 4)
    return value, max(0, value - reach), min(1, value + reach)


def test_it_is_the_definition():
    P, y = stream(900, overconfident=1.7)
    expected = ExpectedAccuracy(3)
    rows, gaps, counts = [], [], np.zeros((3, 3))
    for first in range(0, 900, 90):  # labels of the rows of the batch before
        batch = P[first : first + 90]
        expected.add_rows(batch)
        for p in batch:
            rows = [(x, w * 0.5**0.0005) for x, w in rows] + [(p.max(), 1.0)]
            gaps = [(x, w * 0.5**0.0005) for x, w in gaps]
            counts *= 0.5**0.0005
            counts[p.argmax()] += p
        if first:
            before = slice(first - 90, first - 45)
            expected.add_labels(P[before], y[before])
            for p, k in zip(P[before], y[before], strict=True):
                gaps = [(x, w * 0.5**0.0025) for x, w in gaps]
                gaps.append((float(p.argmax() == k) - p.max(), 1.0))
    assert expected.accuracy == pytest.approx(plain(rows, gaps), rel=1e-9)
    n = sum(w for _, w in rows)
    np.testing.assert_allclose(expected.confusion, counts / n, rtol=1e-9)


def test_without_labels_next_to_nothing_is_promised():
    value, low, high = expected_accuracy(1000, 700.0, 200.0, Gap())
    assert value == 0.7
    assert (low, high) == (pytest.approx(0.7 - 0.491, abs=1e-3), 1)
    assert math.isnan(ExpectedAccuracy(2).accuracy.value)


def test_labels_that_stop_widen_the_interval():
    P, y = stream(4000)
    expected = ExpectedAccuracy(3)
    expected.add_rows(P[:1000])
    expected.add_labels(P[:1000], y[:1000])
    widths = []
    for first in range(1000, 4000, 1000):
        widths.append(expected.accuracy.high - expected.accuracy.low)
        expected.add_rows(P[first : first + 1000])
    assert widths == sorted(widths)
    for _ in range(20):
        expected.add_rows(P[:1000])
    assert expected.accuracy.high - expected.accuracy.low > 0.7


@pytest.mark.parametrize("overconfident", [1.0, 1.8, 0.6])
def test_the_interval_holds_what_labels_show_later(overconfident):
    inside = []
    for seed in range(12):
        P, y = stream(3000, seed=seed, overconfident=overconfident)
        expected = ExpectedAccuracy(3)
        expected.add_rows(P)
        expected.add_labels(P[:2000], y[:2000])
        _, low, high = expected.accuracy
        inside.append(low <= (P[2000:].argmax(axis=1) == y[2000:]).mean() <= high)
    assert sum(inside) >= 11


def test_bad_input_is_refused_and_changes_nothing():
    P, y = stream(10)
    expected = ExpectedAccuracy(3)
    expected.add_rows(P)
    before = expected.accuracy
    with pytest.raises(InvalidPrediction, match="row 1: "):
        expected.add_rows([[1, 0, 0], [0.5, 0.6, 0.7]])
    with pytest.raises(InvalidPrediction, match=r"shape \(1, 2\), expected \(n, 3\)"):
        expected.add_rows([[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"classes: \['a'\], expected their number"):
        ExpectedAccuracy(["a"])
    with pytest.raises(ValueError, match="classes: 1, expected their number, 2 or more"):
        ExpectedAccuracy(1)
    with pytest.raises(UnknownClass, match="row 0: label 3"):
        expected.add_labels(P, y + 3)
    assert expected.accuracy == before


# ---- in a replay


def test_a_replay_expects_by_the_labels_that_had_arrived(tmp_path, monkeypatch):
    """Whatever the parts of the file, by the rows as they were sent and labels 150 rows late."""
    monkeypatch.setattr("stream_can.recording.arrays.CHUNK", 333)
    P, y = stream(3000, overconfident=2.0)
    y[::9] = -1
    np.savez(tmp_path / "s.npz", probs=P, label=np.array(["0", "1", "2", ""])[y])
    sent = []
    result = replay(
        Recording(tmp_path / "s.npz", classes=[0, 1, 2]), Corrector(3), label_delay=150,
        each=lambda step: sent.append(step.corrected),
    )  # fmt: skip
    R = np.concatenate(sent)
    told = result.to_dict()["expected_accuracy"]
    assert sum(part["rows"] for part in told) == (y >= 0).sum()
    for start, part in zip([0] + [part["until_row"] for part in told], told, strict=False):
        end = part["until_row"]
        known = np.flatnonzero(y[start:end] >= 0) + start
        hits = R[known].argmax(axis=1) == y[known]
        assert part["accuracy"] == pytest.approx(hits.mean())
        gap = Gap()
        ends = np.cumsum([len(rows) for rows in sent])
        for first, last in zip(np.append(0, ends), ends, strict=False):
            if last > end:
                break
            due = [j for j in range(last) if first <= j + 150 < last and y[j] >= 0]
            gap = gap.after_rows(last - first)
            gap = gap.with_labels(
                np.array([float(R[j].argmax() == y[j]) - np.float32(R[j].max()) for j in due])
            )
        top = R[known].max(axis=1)
        expected = expected_accuracy(len(known), top.sum(), (top * (1 - top)).sum(), gap)
        assert [*part["expected"].values()] == pytest.approx(expected, abs=2e-3)
    assert "was foretold before its labels came" in verdict(result)


def test_labels_asked_for_at_the_margin_say_nothing_of_others(tmp_path):
    """Only those that were drawn count, as for prediction sets."""
    P, y = stream(2000, overconfident=3.0)
    np.savez(tmp_path / "s.npz", probs=P, label=y)
    result = replay(
        Recording(tmp_path / "s.npz", classes=[0, 1, 2]), Corrector(3), label_delay=10, ask=0.2
    )
    last = result.expected.moments[-1].gap
    assert result.asked["margin"] > 100
    assert last.labels < result.asked["random"]


def test_months_of_a_recording_with_dates(tmp_path):
    P, y = stream(1200)
    lines = []
    for i, (p, k) in enumerate(zip(P.tolist(), y.tolist(), strict=True)):
        day = f"2024-{1 + i // 200:02}-{1 + i % 28:02}T00:{i % 60:02}:00"
        lines.append(json.dumps({"probs": p, "label": k, "t": day, "u": day}))
    lines.sort(key=lambda line: json.loads(line)["t"])
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    options = ["--time", "t", "--label-time", "u", "--json"]
    out, _ = stream_can("replay", tmp_path / "s.jsonl", *options)
    told = json.loads(out)["expected_accuracy"]
    assert [part["month"] for part in told] == [f"2024-0{k}" for k in range(1, 7)]
    assert [part["rows"] for part in told] == pytest.approx([200] * 6, abs=40)  # whole steps
