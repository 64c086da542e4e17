"""Scores of what a learner sent count a label as its weight: its own scores, and those of metrics
and pages. All by a plain loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stream_can import Corrector, Learner
from stream_can.app.tally import Tally
from stream_can.learner import LateLabel
from stream_can.scores import FLOOR

pytestmark = pytest.mark.fast

CLASSES = ["cat", "dog", "eel"]
WEIGHTS = [0.01, None, 100.0, 7.5]
VERSIONS = ("1", "2")


def loss(p: np.ndarray, y: int) -> float:
    return float(-np.log(max(p[y], FLOOR)))


def test_a_label_counts_as_its_weight() -> None:
    rng = np.random.default_rng(0)
    learner = Learner(Corrector(CLASSES, segments=["shop"], sets=0.8), label_wait=10)
    tally = Tally(["shop"], lambda name: 3, named=True, sets=True, rows="dense")
    sides: list[tuple[str, str, float, list[float], list[float], float]] = []
    totals = np.zeros((2, 7))
    for i in range(600):
        if i == 300:  # a restart: those that were not scored yet keep their weights
            learner = Learner.from_bytes(learner.to_bytes())
        shop, weight, y = "ab"[i % 2], WEIGHTS[rng.integers(4)], int(rng.integers(3))
        held = i % 5 == 0  # the label comes first
        late = LateLabel(i, CLASSES[y], time=float(i), weight=weight)
        if held:
            played = learner.play([], None, [late])
            tally.labelled(played.outcomes, played.taught, learner.held)
        # a mistake is likelier where labels are light
        p = rng.dirichlet(np.where(np.arange(3) == y, 3 if weight == 100 else 0.5, 1))
        sent = []
        for version in VERSIONS:
            played = learner.play(
                [i], [p], [], lanes=[("m", version)], times=[float(i)],
                segments={"shop": [shop]},
            )  # fmt: skip
            tally.labelled([], played.taught, learner.held)
            assert played.sets is not None
            sent.append((played.rows[0].copy(), CLASSES[y] in played.sets[0]))
        if not held:
            played = learner.play([], None, [late])
            assert played.outcomes == ["learned"]
            tally.labelled(played.outcomes, played.taught, learner.held)
        w = 1.0 if weight is None else weight
        # a held label is of the first prediction alone
        known = list(zip(VERSIONS, sent, strict=True))[: 1 if held else 2]
        for version, (row, inside) in known:
            hits = [float(p.argmax() == y), float(row.argmax() == y)]
            losses = [loss(p, y), loss(row, y)]
            sides.append((version, shop, w, hits, losses, float(inside)))
            totals[VERSIONS.index(version)] += (1, w, *np.multiply(w, hits + losses), 0)

    for k, version in enumerate(VERSIONS):
        n, weight_sum, raw_hits, sent_hits, raw_loss, sent_loss, _ = totals[k]
        raw, after = learner.scores["m", version]
        assert (raw.n, after.n) == (n, n)
        assert raw.weight == pytest.approx(weight_sum)
        assert (raw.accuracy, after.accuracy) == pytest.approx(
            (raw_hits / weight_sum, sent_hits / weight_sum)
        )
        assert (raw.log_loss, after.log_loss) == pytest.approx(
            (raw_loss / weight_sum, sent_loss / weight_sum)
        )

    committed = tally.committed()
    assert committed.counts["matched"] == 600
    assert committed.scored == pytest.approx(totals[:, 1].sum())
    assert [*committed.hits.values(), *committed.log_loss.values()] == pytest.approx(
        totals[:, 2:6].sum(axis=0)
    )
    covered = sum(w * inside for _, _, w, _, _, inside in sides)
    assert committed.sets[2:] == pytest.approx([committed.scored, covered])
    assert committed.expected[3] == pytest.approx(committed.scored)

    of_shop = {one.value: one for one in tally.take_values()["shop"].values()}
    for shop in "ab":
        rows = [(w, hits, losses) for _, s, w, hits, losses, _ in sides if s == shop]
        weights = [w for w, _, _ in rows]
        assert of_shop[shop].labels == len(rows)
        assert of_shop[shop].scored == pytest.approx(sum(weights))
        for k in (0, 1):
            expected = np.average([hits[k] for _, hits, _ in rows], weights=weights)
            assert of_shop[shop].accuracy[k] == pytest.approx(expected)

    seen = tally.take_seen()
    assert seen is not None
    for k, version in enumerate(VERSIONS):
        assert seen.tallies["m", version][1:] == pytest.approx(totals[k, 1:6])
    (comparison,) = seen.versions.values()
    both = [
        (one, other)
        for one, other in itertools.pairwise(sides)
        if one[0] == "1" and other[0] == "2"
    ]
    weights = [one[2] for one, _ in both]
    assert comparison.n == round(sum(weights))
    changes = comparison.changes(sent=True)
    assert changes is not None
    expected = np.average([other[3][1] - one[3][1] for one, other in both], weights=weights)
    assert changes.accuracy.value == pytest.approx(expected)
