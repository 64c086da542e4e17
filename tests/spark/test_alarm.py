"""Whether the classifier itself has become worse, by the labels of a stream in Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.spark import Learning
from stream_can.trust.alarm import Alarm

START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(n):
    """Of batch n, 600 predictions and their classes; from batch 3 on two are read for another."""
    rng = np.random.default_rng(n)
    ys = rng.integers(0, 3, 600)
    top = np.where(rng.random(600) < 0.9, ys, (ys + rng.integers(1, 3, 600)) % 3)
    P = np.full((600, 3), 0.1)
    P[np.arange(600), top] = 0.8
    return (P if n < 3 else P[:, [1, 0, 2]]), ys


def batch(spark, n):
    """Predictions, and the labels of the batch before with some that cannot be used."""
    if not n:
        data = [(START, row.tolist(), None) for row in rows(0)[0]]
    else:
        data = [
            (START + timedelta(seconds=600 * n + i), row.tolist(), str(y))
            for i, (row, y) in enumerate(zip(*rows(n - 1), strict=True))
        ]
        data += [
            (START, [0.3, 0.3, 0.4], "none"),
            (START, None, "1"),
            (START, [2.0, 1.0, 1.0], "2"),
        ]
    return spark.createDataFrame(data, "time timestamp, probs array<double>, label string")


def play(learning, spark, n):
    learning.then(lambda out, n: out.collect())(batch(spark, n), n)


def test_it_is_the_alarm_over_the_labels_in_their_order(spark, tmp_path):
    learning = Learning(Corrector(["0", "1", "2"]), tmp_path, errors="null")
    own = Alarm()
    assert learning.alarm.n == 0
    for n in range(7):
        before = learning.corrector
        play(learning, spark, n)
        if n:
            P, ys = rows(n - 1)
            ms = [int(START.timestamp() * 1000) + 1000 * (600 * n + i) for i in range(600)]
            own.learn_many(P, before.correct_many(P), ys, ms)
        assert learning.alarm.to_bytes() == own.to_bytes()
        if n > 4:  # the batch comes again, as after a failure before its state was there
            (tmp_path / f"{n}.state").unlink()
            play(learning, spark, n)
            assert learning.alarm.to_bytes() == own.to_bytes()
    (episode,) = learning.alarm.episodes
    assert abs(episode.since - 1800) < 20
    assert episode.until is None
    assert episode.time == pytest.approx(
        (START + timedelta(seconds=2400)).timestamp() * 1000, abs=20_000
    )
    assert {path.suffix for path in tmp_path.iterdir()} == {"", ".state", ".alarm"}


def test_a_folder_without_goes_on(spark, tmp_path):
    learning = Learning(Corrector(["0", "1", "2"]), tmp_path, errors="null")
    for n in range(2):
        play(learning, spark, n)
    for path in tmp_path.glob("*.alarm"):
        path.unlink()
    play(learning, spark, 2)
    assert learning.alarm.n == 600
