"""``label_noise`` tried on a recording: the replays' own scores, and what they cannot say."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from stream_can import Corrector
from stream_can.replay import Player, Recording, replay
from stream_can.replay.noise_variants import BY_THE_RECORDED, noise_in_words, try_label_noise
from tests.cli.command import stream_can

pytestmark = pytest.mark.fast

M = 4


def write(folder, share=0.0, n=5000):
    """A recording of mostly sure rows, of which a share of the labels is any class."""
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.full(M, 0.1), n)
    y = (rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(0, M - 1)
    P = np.maximum(truth, 1e-4) ** 0.5
    P /= P.sum(axis=1, keepdims=True)
    y = np.where(rng.random(n) < share, rng.integers(M, size=n), y)
    table = pl.DataFrame({f"probs_{name}": P[:, k] for k, name in enumerate("abcd")})
    table = table.with_columns(label=pl.Series(list("abcd"))[y])
    table.write_parquet(folder / "stream.parquet")
    return folder / "stream.parquet", P, y


def tried(file, values=(0.05, 0.2), own=0.0, **options):
    recording = Recording(file)

    def make(share):
        return Corrector(recording.classes, label_noise=share)

    return try_label_noise(Player(recording, label_delay=50, **options), make, values, own)


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_each_is_a_replay_of_its_own(tmp_path, rate):
    file, P, y = write(tmp_path, 0.1, n=2000)
    shown = []
    found = tried(file, own=0.1, label_rate=rate, seed=3, progress=shown.append)
    assert [one.label_noise for one in found] == [0.05, 0.1, 0.2]
    assert [one.is_own for one in found] == [False, True, False]
    assert sum(shown) == 3 * 2000
    scores = [
        replay(Recording(file), Corrector(list("abcd"), label_noise=one.label_noise),
               label_delay=50, label_rate=rate, seed=3).corrected
        for one in found
    ]  # fmt: skip
    for one, own in zip(found, scores, strict=True):
        assert one.accuracy.after == pytest.approx(own.accuracy)
        assert one.log_loss.after == pytest.approx(own.log_loss)
        assert one.accuracy.value == pytest.approx(own.accuracy - scores[1].accuracy)
        assert one.log_loss.value == pytest.approx(own.log_loss - scores[1].log_loss)
    if rate == 1:
        at = np.arange(2000)
        due = np.minimum(at + 51, 2000)[: 2000 - 50]
        for one in found:
            corrector = Corrector(M, label_noise=one.label_noise)
            sent = corrector.play(P, y[: len(due)], at[: len(due)], due, receipt=True).rows
            u = (1 - one.label_noise) * sent[at, y] + one.label_noise / M
            assert one.expected.after == pytest.approx(-np.log(u).mean())


def test_wrong_labels_of_any_class_are_found_and_right_ones_too(tmp_path):
    """Though by the log loss of the recorded labels 0 is best, whatever the labels are."""
    for share, best in ((0.0, 0.0), (0.2, 0.2)):
        file, *_ = write(tmp_path, share)
        found = tried(file)
        assert min(found, key=lambda one: one.log_loss.after).label_noise == 0
        assert min(found, key=lambda one: one.expected.after).label_noise == best
        said = noise_in_words(found, 5000)
        assert said.endswith(BY_THE_RECORDED)
        first = "Of those that were tried label_noise 0.2" if best else "No label_noise that was"
        assert said.startswith(first)
    assert "against 0. Scores are by the labels as recorded" in said


def test_what_cannot_be_said(tmp_path):
    file, *_ = write(tmp_path, n=150)
    said = noise_in_words(tried(file), 150)
    assert said == "Too few labels to say what label_noise gives: 150 rows have one."
    assert noise_in_words([], 0).startswith("No row has a label")
    file, *_ = write(tmp_path, n=150)
    pl.read_parquet(file).with_columns(label=pl.lit(None, pl.String)).write_parquet(file)
    assert tried(file) == []


def test_the_command_shows_them_side_by_side(tmp_path):
    file, *_ = write(tmp_path, 0.2)
    given = ("replay", file, "--label-delay", 50)
    out, _ = stream_can(*given, "--try-label-noise", "0.05,0.2")
    plain = stream_can(*given)[0]
    assert out.splitlines()[1:5] == plain.splitlines()[1:5]  # the replay itself is without
    table = out[out.index("label_noise  accuracy %") :].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["0", "0.05", "0.2"]
    assert [len(line.split()) for line in table[1:4]] == [4, 10, 10]
    assert "accuracy is understated" in " ".join(out.split())
    options = ("--try-label-noise", "0.2,0,0.1", "--label-noise", 0.1, "--json")
    found = json.loads(stream_can(*given, *options)[0])
    expected = tried(file, [0.2, 0], 0.1)
    assert found["try_label_noise"]["tried"] == [one.to_dict() for one in expected]
    assert found["try_label_noise"]["said"] == noise_in_words(expected, 5000)
    assert found["corrected"]["log_loss"] == pytest.approx(
        next(one.log_loss.after for one in expected if one.is_own)
    )
    assert "label_noise" not in json.loads(stream_can(*given, "--json")[0])
    for more, said in (
        (["--try-label-noise", "1.2"], "label_noise: 1.2, expected a number >= 0 and <= 0.9"),
        (["--try-label-noise", "0.1,x"], "--try-label-noise: 'x' is no number"),
        (["--try-label-noise", "0.1", "--ask", "0.1"], "leave --ask out"),
    ):
        _, error = stream_can(*given, *more, code=2)
        assert said in " ".join(error.split())


def test_validation_rows_and_columns_are_played_in_each(tmp_path):
    file, *_ = write(tmp_path, 0.2, n=1500)
    table = pl.read_parquet(file).with_columns(tenant=pl.int_range(1500) % 3)
    table.write_parquet(file)
    table.write_parquet(tmp_path / "validation.parquet")
    options = ("--validation", tmp_path / "validation.parquet", "--segments", "tenant")
    out, _ = stream_can(
        "replay", file, "--label-delay", 50, *options, "--try-label-noise", "0.2", "--json"
    )
    found = json.loads(out)
    own = found["try_label_noise"]["tried"][0]
    assert own["own"]
    assert own["log_loss"]["value"] == pytest.approx(found["corrected"]["log_loss"])
