"""The verdict is true: it weighs effect and error, and does not trust labels that look wrong."""

import re
from dataclasses import replace as with_fields

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.change import Changes
from stream_can.dense.result import DenseReplay
from stream_can.replay import Recording, Step, from_arrays, judge, replay, verdict
from stream_can.replay.asking import asking_for
from stream_can.replay.shown import shown
from stream_can.replay.steps import learner_of
from stream_can.replay.verdict import judge_changes
from stream_can.scores import Scores
from tests.replay.streams import ODD_NAMES, replay_of, replayed, stream

pytestmark = pytest.mark.fast


def result_of(change, n=3000, seed=0, can=None):
    """A replay whose corrected rows are `change` of the raw ones."""
    P, y = stream(n, sharpness=2.5, seed=seed)
    result = DenseReplay(learner_of(Corrector(4)))
    for first in range(0, n, 100):
        part, labels = P[first : first + 100], y[first : first + 100]
        result.add(Step(first, part, labels, change(part, labels)))
    if can is not None:
        result.paths["can"] = Scores()
        result.paths["can"].add(can(P, y), y)
    return result


def judged(change, **options):
    return verdict(result_of(change, **options))


def cool(P, y):
    P = P**0.4
    return P / P.sum(1, keepdims=True)


def mix(P, y, share, to):
    return (1 - share) * P + share * np.eye(P.shape[1])[to]


def test_it_says_what_happened():
    assert judged(lambda P, y: P).startswith("It does nothing here")
    assert judged(cool).startswith("Use it where the probabilities themselves matter")
    assert judged(lambda P, y: mix(P, y, 0.3, y)).startswith("Use it: more predictions are right")
    assert judged(lambda P, y: mix(P, y, 0.6, (y + 1) % 4)).startswith("Do not use it")
    steps = iter(range(30))
    slight = judged(lambda P, y: swapped(P, closest(P, y, True)[: next(steps) % 3 == 0]))
    assert slight.startswith("It costs a little here"), slight
    trade = judged(lambda P, y: cool(mix(P, y, 0.5 * (y == 1)[:, None], 2), y))
    assert trade.startswith("It is a trade")
    assert judged(lambda P, y: P, n=150).startswith("Too few labels")


def test_what_always_saying_the_commonest_class_gives_as_well_is_no_gain():
    """A classifier trained where one class was frequent, and it is rare here: accuracy rises as the
    class is found less often."""
    rng, n = np.random.default_rng(0), 5000
    y = (rng.random(n) < 0.036).astype(int)
    odds = np.exp(1.6 * (rng.normal(size=n) + 1.6 * y) - 1.28) * 0.54
    P = np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1)
    result = replayed(P, y, rates=False, delay=100)
    assert result.corrected.accuracy - result.raw.accuracy > 0.08
    text = verdict(result)
    assert text.startswith("Use it: the probabilities are closer to the truth, log loss 0.31")
    assert "Always saying 0 is right in 96.24 %, so accuracy is no measure here: log loss" in text
    assert "Recall of other classes: 1 68 % before, 13 % after." in text
    assert "more predictions are right" not in text


def test_a_calibrated_stream_that_stands_still_is_left_in_peace():
    found = []
    for seed in range(40):
        P, y = stream(3000, m=(2, 4, 10)[seed % 3], seed=seed)
        text = verdict(replayed(P, y, rates=False, delay=(20, 500)[seed % 2]))
        found.append(text.partition(" here")[0])
    assert found.count("It does nothing") >= 35, found
    others = set(found) - {"It does nothing", "It changes nothing", "It costs a little"}
    assert len(others) <= 1, others  # 95 of 100 are right: of 120 such streams one said "Use it"


def swapped(P, at):
    """The rows with their two largest probabilities exchanged in some."""
    out, (second, best) = P.copy(), np.argsort(P, axis=1)[:, -2:].T
    out[at, best[at]], out[at, second[at]] = P[at, second[at]], P[at, best[at]]
    return out


def closest(P, y, right):
    """Rows that are right, or whose second class is, by how close the two largest are."""
    second, best = np.argsort(P, axis=1)[:, -2:].T
    rows = np.arange(len(P))
    margin = P[rows, best] - P[rows, second]
    return np.where((best if right else second) == y, margin, 9).argsort()


def test_a_sure_change_of_nothing_is_nothing():
    steps = iter(range(300))

    def a_little_worse(P, y):
        return swapped(P, closest(P, y, True)[:1]) if next(steps) % 12 == 0 else P

    text = judged(a_little_worse, n=30_000)
    assert "-0.08 points, standard error 0.01" in text
    assert text.startswith("It does nothing here")


def test_a_change_that_may_be_chance_is_called_so():
    rng = np.random.default_rng(0)

    def up_and_down(P, y):
        return swapped(P, closest(P, y, rng.random() < 0.5)[:3])

    text = judged(up_and_down, n=2000)
    assert text.startswith("It changes nothing here that stands out of the noise"), text


def test_it_names_the_harm_of_can_only_where_the_mixture_does_none():
    def harm(P, y):
        return mix(P, y, 0.6, (y + 1) % 4)

    kept = judged(cool, can=harm)
    assert "CAN alone would have cost" in kept
    assert "keeps it from doing harm" in kept
    harmed = judged(harm, can=harm)
    assert harmed.startswith("Do not use it")
    assert "keeps it from doing harm" not in harmed


def test_it_says_what_few_labels_buy_only_where_there_is_a_gain():
    result = result_of(cool)
    result.rates = {0.05: result.corrected}
    assert "With one label in 20 it would keep 100 % of the gain" in verdict(result)
    worse = result_of(lambda P, y: P**4 / (P**4).sum(1, keepdims=True)).corrected
    result.rates = {0.05: worse}
    assert "it would keep none of the gain in log loss" in verdict(result)
    harmed = result_of(lambda P, y: mix(P, y, 0.6, (y + 1) % 4))
    harmed.rates = {0.05: harmed.raw}
    assert "one label in 20" not in verdict(harmed)


def test_it_sees_a_moving_class_mix():
    P, y = stream(3000)
    order = np.argsort(y, kind="stable")
    assert "The class mix drifts: 100 %" in verdict(replayed(P[order], y[order], rates=False))


def test_many_classes_that_stand_still_do_not_move():
    P, y = stream(4000, m=300)
    assert "class mix drifts" not in verdict(replayed(P, y, rates=False))


@pytest.mark.parametrize("name", ["cat", *ODD_NAMES])
def test_one_label_for_every_row_gets_no_verdict(name):
    P, _ = stream(1000)
    text = verdict(replayed(P, np.full(1000, 2), ["a", "b", name, "c"], rates=False))
    assert text.startswith("No verdict: all 1,000 labels are of one class, " + name[:39])


def test_labels_that_are_the_predictions_get_no_verdict():
    P, _ = stream(1000)
    text = verdict(replayed(P, P.argmax(axis=1), rates=False))
    assert text.startswith("No verdict: all 1,000 labels equal the predicted class")


def test_labels_that_are_too_late_are_warned_of():
    P, y = stream(3000, sharpness=2.5)
    assert "Warning" not in verdict(replayed(P, y, rates=False, delay=1400))
    assert "only 1,400 of 3,000 were there" in verdict(replayed(P, y, rates=False, delay=1600))
    assert "only 0 of 3,000 were there" in verdict(replayed(P, y, rates=False, delay=5000))


def one_sided(come, seed=0, n=4000, **options):
    """A replay of which only the labels that are chosen come."""
    P, y = stream(n, sharpness=2.5, seed=seed)
    return replayed(P, np.where(come(P, y), y, -1), ["a", "b", "c", "d"], rates=False, **options)


def test_a_class_of_which_no_label_comes_is_named():
    result = one_sided(lambda P, y: y != 1)
    text = verdict(result)
    assert "Class b has no label yet, so it is left out of learning." in text
    assert "of the labelled rows alone" in text
    assert result.to_dict()["silent_classes"] == ["b"] == list(result.moments[-1].silent)
    text = verdict(one_sided(lambda P, y: y > 1))
    assert "2 classes have no label yet (a, b), so they are left out of learning." in text


def test_many_silent_classes_are_counted():
    P, y = stream(6000, m=12)
    text = verdict(replayed(P, np.where(y < 6, y, -1), rates=False))
    assert "6 classes have no label yet (6, 7, 8 and 3 more)" in text


def test_a_class_whose_labels_come_late_was_left_out_until_then():
    result = one_sided(lambda P, y: (y != 1) | (np.arange(len(y)) > 2000))
    silent = [moment.silent for moment in result.moments if 200 < moment.row < 2000]
    assert set(silent) == {("b",)}
    assert result.moments[-1].silent == ()
    assert "left out" not in verdict(result)


@pytest.mark.parametrize(
    "come", [lambda P, y: P.argmax(1) != y, lambda P, y: P.argmax(1) > 1], ids=["wrong", "half"]
)
def test_labels_that_are_no_fair_sample_are_said_to_be_none(come):
    result = one_sided(come)
    share = result.corrector.coverage
    assert share < 0.9
    said = f"The labels are no fair sample, so only {100 * share:.0f} % of the correction is"
    assert said in verdict(result)
    assert result.to_dict()["mean_coverage"] == result.mean_coverage < 0.95


@pytest.mark.parametrize("share", [1, 0.2, 0.05])
def test_labels_drawn_at_random_are_a_fair_sample(share):
    rng = np.random.default_rng(7)
    for seed in range(5):
        result = one_sided(lambda P, y: rng.random(len(y)) < share, seed=seed)
        assert result.mean_coverage > 0.99
        assert "fair sample" not in verdict(result)
        assert "left out" not in verdict(result)


def test_it_says_of_what_the_scores_are_where_labels_are_asked_for():
    P, y = stream(3000, sharpness=2.5)
    result = replay_of(from_arrays(P, y), Corrector(4), ask=0.1, label_delay=5)
    text = verdict(result)
    at_random, by_margin = result.asked.values()
    assert f"Labels of {at_random + by_margin} rows were asked for, {at_random} at random" in text
    assert "are of all 3,000 rows whose label the recording has, asked for or not" in text
    assert "random half alone" in text
    assert "asked for" not in verdict(replayed(P, y))


def test_it_says_what_asking_keeps_of_the_gain():
    P, y = stream(3000, sharpness=2.5)
    result = replayed(P, y)
    few = Scores()
    few.add(cool(P, y), y)
    result.rates[0.05] = few
    assert re.search(r"keep \d+ % of the gain in log loss\.", verdict(result))
    result.asked_rates[0.05] = result.corrected
    text = verdict(result)
    assert re.search(r"keep \d+ % of the gain in log loss; with requested labels, 100 % of", text)


# ---- labels that are asked for


@pytest.mark.parametrize("labelled", [1, 0.15])
def test_a_budget_is_a_share_of_all_rows(tmp_path, labelled):
    P, y = stream(20_000, sharpness=2)
    y[np.random.default_rng(1).random(len(y)) >= labelled] = -1
    names = np.array([*"abcd", None], object)[y]
    np.savez(tmp_path / "a.npz", probs=P, label=names, classes=[*"abcd"])
    recording = Recording(tmp_path / "a.npz")
    ask = asking_for(recording, 0.03)
    result = replay(recording, Corrector(recording.classes), label_delay=50, ask=ask)
    assert sum(result.asked.values()) == pytest.approx(600, rel=0.15)
    said = verdict(result)
    assert ("rows with a label can be answered here" in said) == (labelled < 1)
    assert "than random here" in said
    assert result.possible == (y >= 0).sum()


def test_a_budget_that_the_labels_do_not_reach(tmp_path):
    P, y = stream(3000)
    names = np.where(np.arange(3000) % 20 == 0, np.array([*"abcd"], object)[y], None)
    np.savez(tmp_path / "a.npz", probs=P, label=names, classes=[*"abcd"])
    assert asking_for(Recording(tmp_path / "a.npz"), 0.5) == 1
    with pytest.raises(ValueError, match="budget: 5"):
        asking_for(Recording(tmp_path / "a.npz"), 5)


@pytest.mark.parametrize(("hits", "said"), [(-40, "does worse"), (40, "does better"), (0, "nor")])
def test_it_says_where_asking_does_worse_than_random(hits, said):
    """What as many at random did is taken from what asking did, and moved."""
    P, y = stream(4000, sharpness=2)
    result = replay_of(from_arrays(P, y), Corrector(4), ask=0.1, label_delay=9)
    result.at_random = DenseReplay(learner_of(Corrector(4)))
    result.at_random.moments = [
        with_fields(one, hits=(one.hits[0], one.hits[1] - hits * one.labelled / 64))
        for one in result.moments
    ]
    assert f"Asking {said}" in verdict(result).replace("does neither better ", "")


def test_it_names_the_class_that_gains_and_the_one_that_loses():
    def moved(P, y):
        return mix(mix(P, y, 0.6 * (y == 1)[:, None], 1), y, 0.6 * (y == 2)[:, None], 3)

    result = result_of(moved)
    found = judge(result).gains
    rows = result.raw_classes.rows
    assert f"Class 1 gains most: {result.class_changes.right[1]:,} of its {rows[1]:,} rows" in found
    assert f"Class 2 loses most: 0 of its {rows[2]:,} rows made right" in found
    assert "No class gains or loses" in judge(result_of(cool)).gains


def fitted_to(Q, z, P, y, folder, rate=1.0):
    """A replay of P by a corrector that was fitted to Q."""
    corrector = Corrector(4)
    corrector.fit(Q, z)
    np.savez(folder / "stream.npz", probs=P, label=y)
    recording = Recording(folder / "stream.npz")
    return replay(recording, corrector, label_delay=20, label_rate=rate)


def test_what_fit_alone_gives_or_costs_stands_beside_the_whole(tmp_path):
    P, y = stream(5000, sharpness=2.5)
    fair = fitted_to(P[:1000], y[:1000], P[1000:], y[1000:], tmp_path)
    expected = fitted_to(P[:1000], y[:1000], P[1000:], y[1000:], tmp_path, rate=0.0)
    assert fair.fit_alone.corrected.summary() == expected.corrected.summary()
    assert expected.fit_alone is None  # it is the replay itself
    said = judge(fair)
    assert [one for one in said.why if one.startswith("`fit` alone, without labels, changes ")]
    assert "do harm" not in said.use
    assert "fit alone" in [row.name for row in shown(fair).table(fair).rows]
    assert fair.to_dict()["fit_alone"]["change"]["nats"] < -0.01
    # Validation rows of an unsure classifier; that of the stream is sure and right.
    flat = P[:1000] ** 0.2 / (P[:1000] ** 0.2).sum(1, keepdims=True)
    harmed = fitted_to(flat, y[:1000], cool(P[1000:], 0), y[1000:], tmp_path)
    found = judge(harmed)
    assert found.use.startswith(
        "The validation rows do harm here: `fit` alone changes the predictions by +0."
    )
    assert not found.deploy
    assert found.instead.startswith("replay without --validation")
    # Labels of other rows: far surer than right, the classifier gains in log loss by being doubted.
    sure = P**8 / (P**8).sum(1, keepdims=True)
    mixed = np.random.default_rng(0).permutation(y[:1000])
    harmed = fitted_to(sure[:1000], mixed, sure[1000:], y[1000:], tmp_path)
    changes = harmed.fit_alone.changes()
    assert changes.log_loss.fell
    assert changes.accuracy.value < -0.05
    found = judge(harmed)
    assert found.use.startswith("The validation rows do harm here")
    assert not found.deploy


def test_advice_by_changes_alone_knows_the_commonest_class():
    """A corrector that says more often what is nearly always so is right more often, and no use."""
    rng = np.random.default_rng(0)
    rows = np.full(30, 100)
    before, after = rng.normal(90, 1, 30), rng.normal(96, 1, 30)
    losses = [rng.normal(20, 0.5, 30), rng.normal(20, 0.5, 30)]
    changes = Changes.of_sums(rows, [before, losses[0]], [after, losses[1]])
    assert judge_changes(changes, 3000).startswith("Use it: more predictions are right")
    assert judge_changes(changes, 3000, ("b", 0.5)).startswith("Use it: more predictions are right")
    text = judge_changes(changes, 3000, ("dry", 0.97))
    assert not text.startswith("Use it")
    assert "Always saying dry is right in 97.00 %" in text


def test_a_gain_over_the_commonest_class_must_be_sure(tmp_path):
    """Before, 88 -> 98.3 % was praised where always saying one class is right in 98.1 %."""
    rng = np.random.default_rng(307)
    y = (rng.random(20_000) < 0.02).astype(int)
    z = rng.normal(size=(20_000, 2)) + 1.7 * np.eye(2)[y]
    P = np.exp(1.7 * z)
    P /= P.sum(axis=1, keepdims=True)
    names = np.array(["ok", "bad"])
    file = tmp_path / "stream.npz"
    np.savez(file, probs=P, label=names[y])
    found = replay(Recording(file, classes=list(names)), Corrector(list(names)), label_delay=100)
    share = 1 - y.mean()
    assert found.corrected.accuracy > share > found.raw.accuracy + 0.05
    text = judge(found).use
    assert "more predictions are right" not in text
    assert "Always saying ok is right in" in text
    assert "Recall of other classes: bad " in text
