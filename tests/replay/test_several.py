"""The replay of multilabel rows: against a loop over the corrector, and what it says."""

import json

import numpy as np
import polars as pl
import pytest

from stream_can.learner import Learner
from stream_can.learner.call import Explained
from stream_can.multilabel import LabelScores, MultiLabelCorrector
from stream_can.multilabel.result import MultiLabelReplay, decided_of
from stream_can.recording.several import MultiLabelRecording
from stream_can.replay import Step, judge, replay, steps
from stream_can.replay.steps import learner_of

pytestmark = pytest.mark.fast

NAMES = ["invoice", "urgent", "spam", "7"]


def stream(n, seed=0, known=1.0):
    """Rows that are surer than they are right, and labels of which some are known."""
    rng = np.random.default_rng(seed)
    shares = np.array([0.5, 0.3, 0.1, 0.02])
    logits = np.log(shares / (1 - shares)) + rng.normal(0, 1.5, (n, 4))
    Y = (rng.random((n, 4)) < 1 / (1 + np.exp(-logits))).astype(np.int8)
    P = 1 / (1 + np.exp(-2.5 * logits))
    return P, np.where(rng.random((n, 4)) < known, Y, np.int8(-1))


def rows_of(steps):
    """What all steps made of the rows, and decided."""
    found = [(step.corrected, decided_of(step)) for step in steps]
    return [np.concatenate(part) for part in zip(*found, strict=True)]


@pytest.mark.parametrize(("delay", "known"), [(0, 1.0), (1, 0.4), (37, 1.0), (250, 0.3), (900, 1)])
def test_is_a_loop_over_the_corrector(tmp_path, delay, known):
    P, Y = stream(700, known=known)
    np.savez(tmp_path / "a.npz", scores=P, labels=Y, classes=np.array(NAMES))
    ours, plain = MultiLabelCorrector(NAMES), MultiLabelCorrector(NAMES)
    chunks = MultiLabelRecording(tmp_path / "a.npz").chunks(150)
    rows, decided = rows_of(steps(chunks, ours, label_delay=delay))
    receipts = {}
    for i, p in enumerate(P):
        threshold = plain.threshold
        row, receipts[i] = plain.process_one(p, receipt=True)
        assert (rows[i] == row).all()
        assert (decided[i] == (row >= threshold)).all()
        if i >= delay and (Y[i - delay] >= 0).any():
            plain.learn_one(P[i - delay], Y[i - delay], receipt=receipts[i - delay])
    assert ours.to_bytes() == plain.to_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_labels_on_lines_of_their_own_are_those_of_a_learner(tmp_path, seed):
    P, Y = stream(400, seed)
    rng = np.random.default_rng(seed)
    learner, lines, rows = Learner(MultiLabelCorrector(NAMES)), [], []
    for i, p in enumerate(P):
        lines.append({"id": i, "scores": p.tolist()})
        rows.append(learner.process(i, p))
        # Those that come between two rows are learned in the order of their own rows.
        several = rng.integers(3) if i < len(P) - 1 else 0
        for at in sorted(rng.integers(max(0, i - 60), i + 1, several).tolist()):
            said = rng.random(4) < 0.5
            label = {n: bool(y) for n, y, s in zip(NAMES, Y[at], said, strict=True) if s}
            if rng.random() < 0.2:
                label = [n for n, y in zip(NAMES, 1 - Y[at], strict=True) if y == 1]
            lines.append({"id": at, "labels": label})
            learner.label(at, label)
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recording = MultiLabelRecording(file, classes=NAMES)
    ours = MultiLabelCorrector(NAMES)
    playing = learner_of(ours)
    result = MultiLabelReplay(playing)
    made = []
    for step in steps(recording.chunks(90), playing):
        result.add(step)
        made.append(step.corrected)
    assert (np.concatenate(made) == rows).all()
    assert ours.to_bytes() == learner.correctors[None, None]
    assert recording.changed_labels == learner.changed_labels


def test_labels_at_their_own_time(tmp_path):
    P, Y = stream(300)
    rng = np.random.default_rng(3)
    time = np.cumsum(rng.integers(0, 3, 300))
    late = np.where(rng.random(300) < 0.2, np.nan, time + rng.integers(0, 40, 300))
    np.savez(tmp_path / "a.npz", scores=P, labels=Y, time=time, known=late)
    recording = MultiLabelRecording(tmp_path / "a.npz", time="time", label_time="known")
    ours, plain = MultiLabelCorrector(4), MultiLabelCorrector(4)
    rows, _ = rows_of(steps(recording.chunks(70), ours))
    receipts, waiting = {}, []
    for i, p in enumerate(P):
        waiting.sort()
        while waiting and waiting[0][0] <= time[i]:
            _, at = waiting.pop(0)
            plain.learn_one(P[at], Y[at], receipt=receipts[at])
        row, receipts[i] = plain.process_one(p, receipt=True)
        assert (rows[i] == row).all()
        if not np.isnan(late[i]):
            waiting.append((late[i], i))


def write(folder, form, P, Y):
    """The same stream in some form; the file."""
    cells = [dict(zip(NAMES, p, strict=True)) for p in P.tolist()]
    has = [[n for n, y in zip(NAMES, row, strict=True) if y] for row in Y]
    table = {f"scores_{n}": P[:, k] for k, n in enumerate(NAMES)}
    table |= {f"labels_{n}": Y[:, k] for k, n in enumerate(NAMES)}
    file = folder / f"a.{form.split()[0]}"
    if form == "npz":
        np.savez(file, scores=P, labels=Y, classes=np.array(NAMES))
    elif form == "jsonl":
        lines = [{"scores": p, "labels": y} for p, y in zip(cells, has, strict=True)]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif form == "csv":
        pl.DataFrame(table).write_csv(file)
    elif form == "csv of texts":
        texts = {"scores": map(json.dumps, cells), "labels": map(json.dumps, has)}
        pl.DataFrame({name: [*values] for name, values in texts.items()}).write_csv(file)
    elif form == "parquet":
        pl.DataFrame(table).cast({f"labels_{n}": pl.Boolean for n in NAMES}).write_parquet(file)
    else:
        pl.DataFrame({"scores": cells, "labels": has}).write_parquet(file)
    return file


@pytest.mark.parametrize(
    "form", ["jsonl", "csv", "csv of texts", "parquet", "parquet of structs and lists"]
)
def test_every_form_holds_the_same(tmp_path, form):
    P, Y = stream(300)
    results = [
        replay(
            MultiLabelRecording(write(tmp_path, one, P, Y)), MultiLabelCorrector(NAMES),
            label_delay=20,
        )
        for one in ("npz", form)
    ]  # fmt: skip
    first, second = (result.to_dict() | {"seconds": 0} for result in results)
    assert first == second


def test_scores_are_those_of_all_rows(tmp_path):
    P, Y = stream(3000, known=0.8)
    file = tmp_path / "a.npz"
    np.savez(file, scores=P, labels=Y, classes=np.array(NAMES))
    corrector = MultiLabelCorrector(NAMES)
    recording = MultiLabelRecording(file)
    result = replay(recording, corrector, label_delay=50, rates=[0.05, 1.0])
    again = MultiLabelCorrector(NAMES)
    rows, decided = rows_of(steps(recording.chunks(), again, label_delay=50))
    for found, R, yes in [(result.raw, P, None), (result.corrected, rows, None),
                          (result.decided, rows, decided)]:  # fmt: skip
        expected = LabelScores(4)
        expected.add(R, Y, yes)
        assert found.micro_f1 == expected.micro_f1
        assert found.log_loss == pytest.approx(expected.log_loss, rel=1e-12)
    assert sum(m.losses[1] for m in result.moments) / result.corrected.n == pytest.approx(
        result.corrected.log_loss, rel=1e-12
    )
    assert result.rates[1.0] is result.corrected
    assert result.corrected.log_loss < result.rates[0.05].log_loss < result.raw.log_loss
    found = judge(result)
    assert found.use.startswith("Use it: ")
    assert "of the gain in log loss" in found.text
    assert result.per_label()[3]["there"] == (Y[:, 3] == 1).sum()


def test_what_it_says(tmp_path):
    P, Y = stream(600)

    def said(P, Y, **options):
        np.savez(tmp_path / "a.npz", scores=P, labels=Y)
        recording = MultiLabelRecording(tmp_path / "a.npz")
        corrector = MultiLabelCorrector(recording.classes)
        return judge(replay(recording, corrector, **{"label_delay": 5} | options))

    assert said(P[:150], Y[:150]).use.startswith("Too few labels to say: 150 rows have a known")
    positives = said(P, np.where(Y == 1, Y, np.int8(-1)))
    assert positives.use.startswith("No verdict: all known labels are true")
    assert not positives.deploy
    one_sided = Y.copy()
    one_sided[:, 2] = np.where(Y[:, 2] == 1, 1, -1)
    one_sided[:, 3] = -1
    why = said(P, one_sided).text
    assert "1 label is known only where true" in why
    assert "1 label is never known." in why
    assert "labels come so late" in said(P, Y, label_delay=500).text
    right = 1 / (1 + np.exp(-(np.log(P / (1 - P)) / 2.5)))  # as the labels were drawn
    assert said(right[:300], Y[:300]).use.startswith("It ")
    assert not said(right[:300], Y[:300]).deploy


def test_each_side_is_decided_at_a_threshold_of_its_own_found_the_same_way():
    """Against a search of all thresholds over the steps before."""
    rng, m = np.random.default_rng(5), 3
    rows = np.round(rng.beta(0.6, 2, (400, m)), 3)
    known = rng.random((400, m)) < 0.8
    truth = np.where(known, rng.random((400, m)) < rows**1.5, -1).astype(np.int8)
    sides = rows, rows**1.5
    result = MultiLabelReplay(learner_of(MultiLabelCorrector(m)))
    every = np.arange(1000) / 1000
    expected = [np.zeros((3, m)), np.zeros((3, m))]
    at = [0.5, 0.5]
    for first in range(0, 400, 40):
        cut = slice(first, first + 40)
        result.add(Step(first, rows[cut], truth[cut], sides[1][cut],
                        [Explained(slice(0, 40), sides[1][cut] >= 0.5)]))  # fmt: skip
        Y, Z = truth[cut], truth[: first + 40]
        for side, sums in enumerate(expected):
            said = (sides[side][cut] >= at[side]) & (Y >= 0)
            sums += [said.sum(0), (said & (Y == 1)).sum(0), (Y == 1).sum(0)]
            so_far = sides[side][: first + 40]
            there, known_so_far = Z == 1, Z >= 0
            found = [
                2 * (yes & there).sum() / ((yes & known_so_far).sum() + there.sum())
                for yes in (so_far >= t for t in every)
            ]
            at[side] = every[int(np.argmax(found))]
    for own, best, sums, threshold in zip(result.own, result.best, expected, at, strict=True):
        said, right, there = sums.sum(axis=1)
        assert own.micro_f1 == 2 * right / (said + there)
        assert best.value == threshold
