"""The rivals: what each is fitted to, what it may not know yet, and how they are scored."""

import numpy as np
import polars as pl
import pytest

from stream_can import Corrector, batch_can, laplace
from stream_can.calibration import IsotonicCalibration, VectorScaling
from stream_can.compare import compare, load, rivals
from stream_can.compare.outcome import against
from stream_can.compare.rivals import BOTH
from stream_can.recording import InvalidRecording, Recording
from stream_can.replay import replay
from stream_can.scores import Scores
from tests.compare.streams import drifting, stream_of

pytestmark = pytest.mark.fast

P, Y = drifting()
STREAM = stream_of(P, Y)
NAMES = [one.name for one in rivals()]
ALL = [one.name for one in rivals(names="all")]


@pytest.fixture(scope="module")
def outcomes():
    return {one.name: one for one in compare(STREAM, rivals(300))}


def rows_of(stream, name, every=300):
    rival = next(one for one in rivals(every, names="all") if one.name == name)
    return np.concatenate(list(rival.play(stream)))


def test_every_rival_is_there_and_raw_is_raw(outcomes):
    assert list(outcomes) == NAMES
    assert len(NAMES) == 18
    raw = Scores()
    raw.add(P[400:], Y[400:])
    assert outcomes["raw"].scores.summary() == raw.summary()
    assert outcomes["raw"].hits.mean() == raw.accuracy
    for one in outcomes.values():
        assert one.scores.n == 1500
        assert one.losses.mean() == pytest.approx(one.scores.log_loss)
        assert one.hits.mean() == pytest.approx(one.scores.accuracy)
        assert one.microseconds >= 0


def test_rivals_are_chosen_by_name():
    keys = [one.key for one in rivals(names="all")]
    assert len({*keys}) == len(keys) == len(NAMES) + 9
    assert not any(set(key) - set("abcdefghijklmnopqrstuvwxyz0123456789_-") for key in keys)
    some = rivals(names=["ops-tracking", "isotonic-refitted"])
    assert [one.name for one in some] == ["raw", "isotonic, refitted", "OPS, tracking", BOTH]
    with pytest.raises(ValueError, match="rivals: 'isotonc' is none of default, all, raw, hist"):
        rivals(names=["isotonc"])


def test_a_refit_by_adwin_follows_a_classifier_that_changes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 6000)
    Q = np.exp(rng.normal(size=(6000, 3)) + 2 * np.eye(3)[y])
    Q[3000:, 0] *= 30  # from then on it favours a class
    Q /= Q.sum(axis=1, keepdims=True)
    stream = stream_of(Q, y, classes=[0, 1, 2])
    found = rows_of(stream, "vector, refitted by ADWIN")
    once = rows_of(stream, "vector")
    late = slice(5000, None)
    right = [(rows[late].argmax(1) == y[400:][late]).mean() for rows in (found, once)]
    assert right[0] > right[1] + 0.1
    assert (found[:2000] == once[:2000]).all()


def test_what_is_fitted_once_sees_the_validation_rows_alone():
    expected = IsotonicCalibration().fit(P[:400], Y[:400]).transform(P[400:])
    assert rows_of(STREAM, "isotonic") == pytest.approx(expected, abs=1e-12)


def test_a_refit_sees_the_validation_rows_and_the_last_labels_that_arrived():
    found = rows_of(STREAM, "vector, refitted")
    # Before row 600 the labels of the rows up to 600 - 20 - 1 have come.
    known = slice(0, 400 + 600 - 20)
    expected = VectorScaling().fit(P[known], Y[known]).transform(P[400 + 600 : 400 + 900])
    assert found[600:900] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in ALL if name != "batch CAN"])
def test_no_rival_knows_a_label_before_it_arrives(name):
    other = Y.copy()
    other[400 + 700 :] = (other[400 + 700 :] + 1) % 4
    before, after = (rows_of(stream_of(P, y), name, 100) for y in (Y, other))
    assert (before[: 700 + 20] == after[: 700 + 20]).all()


@pytest.mark.parametrize(
    ("name", "fit", "rate"),
    [
        ("stream_can: fit", True, 0),
        ("stream_can: labels", False, 1),
        ("stream_can: fit, labels", True, 1),
        ("stream_can: fit, 1 label in 20", True, 0.05),
    ],
)
def test_ours_is_what_replay_says(outcomes, tmp_path, name, fit, rate):
    np.savez(tmp_path / "stream.npz", probs=P[400:], label=Y[400:])
    corrector = Corrector(4)
    if fit:
        corrector.fit(P[:400], Y[:400])
    recording = Recording(tmp_path / "stream.npz")
    expected = replay(recording, corrector, label_delay=20, label_rate=rate).corrected
    assert outcomes[name].scores.summary() == pytest.approx(expected.summary(), abs=1e-9)


def test_batch_can_has_the_training_prior():
    counts = np.array([10, 20, 30, 40])
    found = rows_of(STREAM._replace(train_counts=counts), "batch CAN")
    assert (found == batch_can(P[400:], laplace(counts))).all()
    found = rows_of(STREAM, "batch CAN")
    assert (found == batch_can(P[400:], laplace(np.bincount(Y[:400])))).all()


def test_only_scored_rows_count(outcomes):
    scored = np.arange(1500) % 3 == 0
    raw, best = compare(STREAM._replace(scored=scored), [rivals()[0], rivals()[6]])
    assert raw.scores.n == best.scores.n == 500
    assert (best.hits == outcomes["vector"].hits[scored]).all()


def test_a_change_and_its_standard_error(outcomes):
    raw, vector = outcomes["raw"], outcomes["vector"]
    found = against(vector, raw).summary()
    stretches = (vector.losses - raw.losses).reshape(30, 50).mean(1)
    assert found["nats"] == pytest.approx(vector.scores.log_loss - raw.scores.log_loss)
    assert found["nats_error"] == pytest.approx(stretches.std(ddof=1) / np.sqrt(30))
    assert found["points"] == pytest.approx(100 * (vector.scores.accuracy - raw.scores.accuracy))
    assert set(against(raw, raw).summary().values()) == {0}


# ---- loading


@pytest.fixture
def file(tmp_path):
    table = pl.DataFrame({f"probs_{k}": P[:, i] for i, k in enumerate("abcd")}).with_columns(
        label=pl.Series([None if i % 10 == 3 else "abcd"[y] for i, y in enumerate(Y)]),
        at=pl.int_range(len(Y)),
        known=pl.int_range(len(Y)) + 50,
    )
    table.write_parquet(tmp_path / "stream.parquet")
    return tmp_path / "stream.parquet"


def test_labels_at_their_own_time_are_due_when_a_row_is_as_late(file):
    recording = Recording(file, time="at", label_time="known")
    stream = load(recording, validation=Recording(file))
    assert (stream.due == np.minimum(np.arange(len(Y)) + 50, len(Y))).all()
    late = load(Recording(file), label_delay=7, validation=Recording(file))
    assert (late.due == np.arange(len(Y)) + 8).all()
    found = list(compare(stream, [one for one in rivals() if one.name == "stream_can: labels"]))
    expected = replay(recording, Corrector(list("abcd"))).corrected
    assert found[0].scores.summary() == pytest.approx(expected.summary(), abs=1e-9)


def test_refused(file, tmp_path):
    recording = Recording(file)
    with pytest.raises(ValueError, match="say when labels arrive"):
        load(recording)
    np.savez(tmp_path / "other.npz", probs=P, label=Y)
    with pytest.raises(InvalidRecording, match="the same ones in the same order"):
        load(recording, label_delay=5, validation=Recording(tmp_path / "other.npz"))
    np.savez(tmp_path / "none.npz", probs=P, label=np.full(len(Y), np.nan))
    none, some = Recording(tmp_path / "none.npz"), Recording(tmp_path / "other.npz")
    with pytest.raises(InvalidRecording, match=r"none.npz: no row has a label, so nothing"):
        load(none, label_delay=5, validation=some)
    with pytest.raises(InvalidRecording, match=r"none.npz: no row has a label$"):
        load(some, label_delay=5, validation=none)
    with pytest.raises(ValueError, match="refit_every: expected at least 1"):
        rivals(0)
