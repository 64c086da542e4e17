"""Columns in a replay: what each value gains, whether a column is worth it, whose labels come."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from stream_can import Corrector
from stream_can.dense.result import DenseReplay
from stream_can.replay import Player, Recording, from_arrays, replay, steps, verdict
from stream_can.replay.segment_variants import try_segments, worth_in_words
from stream_can.replay.steps import learner_of
from stream_can.scores import Scores
from tests.cli.command import stream_can
from tests.equal import calibration_of

pytestmark = pytest.mark.fast


def tenants(n=6000, count=12, seed=0):
    """Rows of tenants that each have a class mix of their own; and a column that says nothing."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, count + 1)
    tenant = rng.choice(count, n, p=share / share.sum())
    mix = rng.dirichlet([2, 2, 2], count)[tenant]
    y = (rng.random((n, 1)) > mix.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    P = np.exp(rng.normal(size=(n, 3)) + 1.3 * np.eye(3)[y])
    table = {"tenant": tenant.astype(str).astype(object), "noise": rng.integers(40, size=n)}
    return P / P.sum(axis=1, keepdims=True), y, table


P, Y, TABLE = tenants()


def played(y=Y, columns=("tenant",), known=None, delay=50, **options):
    corrector = Corrector(3, segments=columns, **options)
    playing = learner_of(corrector)
    result, parts = DenseReplay(playing), []
    labels = y if known is None else np.where(known, y, -1)
    for step in steps(from_arrays(P, labels, segments=TABLE), playing, label_delay=delay):
        result.add(step)
        parts.append(step.corrected)
    return result, np.concatenate(parts)


def write(folder, **changes):
    columns = {f"probs_{name}": P[:, k] for k, name in enumerate("abc")}
    file = folder / "stream.csv"
    labels = {"label": [None if k < 0 else "abc"[k] for k in Y]}
    pl.DataFrame(columns | labels | {"tenant": TABLE["tenant"].tolist(), "noise": TABLE["noise"]}
                 | changes).write_csv(file)  # fmt: skip
    return file


def test_each_value_is_scored_by_itself():
    known = np.random.default_rng(1).random(len(Y)) < 0.5
    result, sent = played(known=known, columns=("tenant", "noise"))
    assert list(result.columns) == ["tenant", "noise"]
    for name, column in result.columns.items():
        texts = np.array([str(value) for value in TABLE[name]])
        found = {one.value: one for one in column.values()}
        assert set(found) == set(texts)
        rows = [one.rows for one in column.values()]
        assert rows == sorted(rows, reverse=True)
        assert sum(rows) == len(Y)
        assert sum(one.labels for one in column.values()) == result.corrector.n_labels
        for value, one in found.items():
            here, at = texts == value, known & (texts == value)
            assert one.rows == here.sum()
            assert one.scored == at.sum()
            assert one.labels == (at[: len(Y) - 50]).sum()
            for side, Q in enumerate((P, sent)):
                scores = Scores()
                scores.add(Q[at], Y[at])
                assert one.accuracy[side] == pytest.approx(scores.accuracy)
                assert one.log_loss[side] == pytest.approx(scores.log_loss)
                assert one.calibration[side] == pytest.approx(calibration_of(Q[at], Y[at]))


def test_a_value_without_labels_is_shown_and_says_nothing_of_its_scores():
    known = TABLE["tenant"] != "3"
    result, _ = played(known=known)
    one = next(one for one in result.columns["tenant"].values() if one.value == "3")
    assert (one.labels, one.scored) == (0, 0)
    said = json.loads(json.dumps(result.to_dict()["segments"]["tenant"], allow_nan=False))
    (other,) = [found for found in said if found["value"] == "3"]
    assert other["log_loss"] == {"raw": None, "corrected": None}


def test_labels_of_few_values_are_warned_of_and_those_of_all_are_not():
    heavy = np.isin(TABLE["tenant"], ["4", "5"])
    said = verdict(played(known=heavy)[0])
    assert "Warning: 100 % of the labels are of " in said
    assert "of the rows, those with tenant 4, 5" in said
    for known in (None, np.random.default_rng(9).random(len(Y)) < 0.1):
        assert "of the rows, those with" not in verdict(played(known=known)[0])
    few = heavy & (np.arange(len(Y)) < 1000)  # fewer than 200: nothing is said yet
    assert "of the rows, those with" not in verdict(played(known=few)[0])


def test_a_column_that_says_something_is_worth_having_and_one_of_chance_is_not(tmp_path):
    recording = Recording(write(tmp_path), segments=["tenant", "noise"])

    def make(columns):
        return Corrector(recording.classes, segments=columns)

    without = replay(recording, make([]), label_delay=50, explain=False)
    tried = try_segments(Player(recording, label_delay=50), make, without)
    assert [one.columns for one in tried] == [("tenant",), ("noise",), ("tenant", "noise")]
    assert [one.worth for one in tried] == [True, False, True]
    assert [one.values for one in tried] == [12, 40, 52]
    with_tenant = replay(recording, make(["tenant"]), label_delay=50, explain=False)
    gain = with_tenant.corrected.log_loss - without.corrected.log_loss
    assert tried[0].changes.log_loss.value == pytest.approx(gain)
    assert tried[0].changes.accuracy.before == pytest.approx(without.corrected.accuracy)
    said = worth_in_words(tried, without.raw.n)
    assert said.startswith("Worth having: --segments tenant, +")
    assert worth_in_words(tried[1:2], without.raw.n).startswith("No column is worth having here")
    assert worth_in_words(tried, 100).startswith("Too few labels to say")


def test_the_command_line_tries_columns_and_says_it(tmp_path):
    file = write(tmp_path)
    validation = tmp_path / "validation.csv"
    validation.write_bytes(file.read_bytes())
    shared = [file, "--label-delay", 50]
    out, _ = stream_can("replay", *shared, "--try-segments", "tenant,noise")
    assert "Worth having: --segments tenant, +" in out
    plain = stream_can("replay", *shared)[0]
    assert out.splitlines()[1:5] == plain.splitlines()[1:5]  # the replay itself is without
    out, _ = stream_can("replay", *shared, "--try-segments", "noise", "--json")
    found = json.loads(out)["try_segments"]
    assert [(one["segments"], one["worth"]) for one in found["tried"]] == [(["noise"], False)]
    assert found["said"].startswith("No column is worth having")
    state = tmp_path / "state"
    options = ["--segments", "tenant", "--validation", validation, "--state", state]
    out, _ = stream_can("replay", *shared, *options)
    assert "tenant  rows  labels  accuracy %" in " ".join(out.split("\n")).replace("   ", "  ")
    learned = Corrector.from_bytes(state.read_bytes())
    assert learned.segments == ("tenant",)
    assert len(learned.segment_values("tenant")) == 12
    assert learned.fit_report is not None
    out, _ = stream_can("inspect", state, "--segments", "tenant")
    odds = learned.segment_values("tenant")
    most = max(odds, key=lambda value: abs(odds[value]))
    assert f"{most:<7} {odds[most]:+10.2f}" in out
    assert "12 values; above 0" in out
    out, _ = stream_can("inspect", state, "--segments", "tenant", "--json")
    assert json.loads(out)["segments"]["tenant"] == odds
    _, error = stream_can("inspect", state, "--segments", "gone", code=2)
    assert "'gone' was not declared; declared: tenant" in " ".join(error.split())
    for more, said in (
        (["--segments", "tenant", "--try-segments", "noise"], "leave --segments out"),
        (["--try-segments", "noise", "--ask", "0.1"], "leave --ask out"),
        (["--try-segments", "gone"], "no column 'gone' for segments"),
        (["--segments", "probs_a"], "holds labels, times or probabilities"),
    ):
        _, error = stream_can(
            "replay", *shared, *more, code=1 if "gone" in more or "probs_a" in more else 2
        )
        assert said in " ".join(error.split())
