"""When the classifier itself was worse, as a replay says it."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from stream_can import Corrector
from stream_can.replay import Recording, replay, verdict
from stream_can.trust.alarm import Alarm
from tests.cli.command import stream_can

pytestmark = pytest.mark.fast


def rows(rng, n, accuracy):
    ys = rng.integers(0, 3, n)
    top = np.where(rng.random(n) < accuracy, ys, (ys + rng.integers(1, 3, n)) % 3)
    P = np.full((n, 3), 0.1)
    P[np.arange(n), top] = 0.8
    return P, ys


@pytest.fixture
def broken(tmp_path):
    """A classifier that reads two classes for each other from row 2000 to 4000."""
    P, ys = rows(np.random.default_rng(0), 6000, 0.9)
    P[2000:4000] = P[2000:4000][:, [1, 0, 2]]
    labels = ys.astype(float)
    labels[::7] = np.nan
    frame = pl.DataFrame({f"probs_{k}": P[:, k] for k in range(3)}).with_columns(
        label=pl.Series([None if np.isnan(y) else str(int(y)) for y in labels]),
        time=pl.datetime_range(
            pl.datetime(2026, 1, 1), pl.datetime(2026, 1, 1) + pl.duration(seconds=5999), "1s",
            eager=True,
        ),
    )  # fmt: skip
    frame = frame.with_columns(told=pl.col("time") + pl.duration(seconds=50))
    path = tmp_path / "recorded.csv"
    frame.write_csv(path)
    return path, P, labels


def test_the_verdict_says_since_when_and_how_much_is_held(broken):
    path, _, labels = broken
    out, _ = stream_can("replay", str(path), "--time", "time", "--label-time", "told")
    said = " ".join(out.split())
    assert "The classifier itself was worse than it used to be from 2026-01-01T00:33" in said
    assert "right in 3" in said
    assert "instead of 9" in said
    assert "the correction makes up for" in said
    found = json.loads(stream_can("replay", str(path), "--label-delay", "50", "--json")[0])
    (episode,) = found["episodes"]
    known = ~np.isnan(labels)
    assert abs(episode["since"] - known[:2000].sum()) < 30
    assert known[:4000].sum() < episode["until"] < known[:5000].sum()
    assert 0.7 < episode["holds"] < 1


def test_it_is_the_alarm_over_the_labelled_rows(broken):
    path, P, labels = broken
    recording = Recording(path)
    result = replay(recording, Corrector(recording.classes), label_delay=50)
    again = replay(recording, Corrector(recording.classes), label_delay=50)
    assert result.alarm.to_bytes() == again.alarm.to_bytes()
    assert result.alarm.n == (~np.isnan(labels)).sum()
    own = Alarm()
    known = ~np.isnan(labels)
    own.learn_many(P[known], P[known], labels[known].astype(int))
    raw = [one.before[:2] + one.after[:2] for one in result.alarm.episodes]
    assert [one.since for one in own.episodes] == [one.since for one in result.alarm.episodes]
    assert len(raw) == 1


def test_a_still_classifier_has_no_sentence(tmp_path):
    P, ys = rows(np.random.default_rng(1), 3000, 0.8)
    np.savez(tmp_path / "a.npz", probs=P, labels=ys)
    recording = Recording(tmp_path / "a.npz", label="labels")
    result = replay(recording, Corrector(3), label_delay=10, rates=[0.5])
    assert "worse from" not in verdict(result)
    assert result.to_dict()["episodes"] == []
