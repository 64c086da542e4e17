"""Wrong labels, where it is known how many there are; the steps are those of the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from stream_can import Corrector, label_noise

pytestmark = pytest.mark.fast

M = 5


def stream(seed, n=6000, knows=1.5):
    """A classifier that is too sure, and mistakes one class for another; its rows and the truth."""
    rng = np.random.default_rng(seed)
    y = rng.choice(M, n, p=[0.4, 0.25, 0.15, 0.1, 0.1])
    z = rng.normal(0, 1, (n, M))
    z[np.arange(n), y] += knows
    z[y == 3, 4] += 1.5
    z *= 2
    P = np.exp(z - z.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True), y


def log_loss(P, y):
    return -np.log(np.maximum(P[np.arange(len(y)), y], 1e-6)).mean()


def played(P, labels, noise):
    at = np.arange(len(P))
    due = np.minimum(at + 100, len(P))
    return Corrector(M, label_noise=noise).play(P, labels, at, due, receipt=True).rows


@pytest.mark.parametrize(("kind", "share", "knows"), [("any", 0.3, 1.5), ("fixed", 0.2, 2.5)])
def test_it_gives_back_what_wrong_labels_cost(kind, share, knows):
    """Of a classifier that is right more often than its labels are wrong in one way."""
    lost = {0.0: [], share: []}
    for seed in range(3):
        P, y = stream(seed, knows=knows)
        rng = np.random.default_rng(100 + seed)  # not that of the stream
        other = rng.integers(0, M, len(y)) if kind == "any" else (y + 2) % M
        labels = np.where(rng.random(len(y)) < share, other, y)
        clean = log_loss(played(P, y, 0.0), y)
        for noise, found in lost.items():
            found.append(log_loss(played(P, labels, noise), y) - clean)
    assert np.mean(lost[0.0]) > 0.1
    assert np.mean(lost[share]) < 0.4 * np.mean(lost[0.0])


def test_clean_labels_lose_little_by_a_mistaken_setting():
    P, y = stream(9)
    assert log_loss(played(P, y, 0.05), y) - log_loss(played(P, y, 0.0), y) < 0.02


def test_two_annotators_say_how_many_are_wrong():
    rng = np.random.default_rng(0)
    for eps, m in [(0.1, 2), (0.3, 10)]:
        y = rng.integers(0, m, 200_000)
        a, b = (np.where(rng.random(len(y)) < eps, rng.integers(0, m, len(y)), y) for _ in "ab")
        assert label_noise((a == b).mean(), m) == pytest.approx(eps, abs=0.01)
    assert label_noise(1, 3) == 0


@pytest.mark.parametrize(
    ("agreement", "m", "says"),
    [(0.5, 2, "agreement: 0.5"), (1.01, 3, "agreement: 1.01"), (float("nan"), 3, "agreement: nan"),
     (0.9, 1, "m: 1")],
)  # fmt: skip
def test_an_agreement_that_is_none(agreement, m, says):
    with pytest.raises(ValueError, match=says):
        label_noise(agreement, m)


@pytest.mark.parametrize("noise", [-0.1, 0.91, float("nan"), "0.1", None])
def test_a_share_that_is_none(noise):
    with pytest.raises(ValueError, match=r"label_noise: .*share of the labels that are wrong"):
        Corrector(3, label_noise=noise)


def test_snapshots_keep_it():
    noisy = Corrector(3, label_noise=0.25)
    assert Corrector.from_bytes(noisy.to_bytes()).settings == noisy.settings
    assert Corrector.from_bytes(Corrector(3).to_bytes()).settings["label_noise"] == 0
    assert Corrector.from_bytes(noisy.to_bytes()).to_bytes() == noisy.to_bytes()
