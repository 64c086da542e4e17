"""What docs/method.md guarantees: the rows sent lose little against those of the anchor."""

import functools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_can import Corrector
from tests.oracle import Oracle
from tests.strategies import LABELS

pytestmark = pytest.mark.fast

FLOOR = 1e-6
ROUNDING = 1e-6
"""Receipts are float32."""
PRIOR = {
    "anchor": 1 / 2, "mixture": 1 / 4, "tempered": 1 / 4, "moving": 0.02, "plain": 0.01,
    "known": 4.06, "raw": 1 / 2, "calibrated": 1 / 2,
}  # fmt: skip
"""Prior weights of the rows that are mixed; after fit there is no "moving"."""
KINDS = ["", "fit", "prior"]
"""What a corrector begins with: nothing, validation rows, a known class mix."""


def most(corrector):
    """K, one over the prior weight of the anchor: 4.06, 3.02 after fit, 12.18 with a known mix."""
    return sum(PRIOR[name] for name in corrector.final_weights) / PRIOR["anchor"]


def forgotten(n, half_life, K):
    """What forgetting may hand back: the same for each of n labels; docs/method.md."""
    g = 2 ** (-1 / half_life)
    return n * (1 - g) / g * math.log(1 + (K - 1) / FLOOR)


def moved(then, now):
    """What a delay can cost: how far a weight has risen while the label was on its way."""
    return max(
        (math.log(b / a) if a > 0 else math.inf) for a, b in zip(then, now, strict=True) if b > 0
    )


def weights_of(corrector):
    return np.array(list(corrector.final_weights.values()))


class Account:
    """What was sent lost against the anchor's row, and the terms of what is allowed."""

    def __init__(self, corrector, half_life):
        self.half_life, self.K = half_life, most(corrector)
        self.prior = np.array([PRIOR[name] for name in corrector.final_weights])
        self.n, self.excess, self.late, self.withheld = 0, 0.0, 0.0, 0.0
        self.largest, self.all_weights = 1.0, 0.0

    def add(self, then, now, rows, share, back, weight=1.0):
        """A label: weights when its row was sent and when it came; what each row gave it, lambda,
        and what the guards' row gave it; how many labels it counts as."""
        sent, anchor = (share * given + (1 - share) * back for given in (then @ rows, rows[0]))
        left, self.largest = min(1.0, self.largest / weight), max(self.largest, weight)
        odds = self.prior * (now / self.prior) ** left
        self.n += 1
        self.all_weights += weight
        self.excess += weight * math.log(max(anchor, FLOOR) / (sent + FLOOR))
        self.late += weight * moved(then, odds / odds.sum())
        if share < 1:
            clipped = np.maximum(rows, FLOOR)
            self.withheld += weight * max(0.0, math.log(then @ clipped / clipped[0]))

    @property
    def terms(self):
        return {
            "prior": self.largest * math.log(self.K),
            "half-life": self.largest * forgotten(self.n, self.half_life, self.K),
            "late": self.late,
            "withheld": self.withheld,
        }

    def over(self, left_out=None):
        """By how much it lost more than allowed, if that had no such term."""
        terms = self.terms
        terms.pop(left_out, None)
        return self.excess - sum(terms.values()) - ROUNDING * self.all_weights


@functools.cache
def fitted(m):
    """A corrector with a few validation rows, as bytes."""
    rng = np.random.default_rng(m)
    corrector = Corrector(m)
    corrector.fit(rng.dirichlet(np.ones(m), 40), np.arange(40) % m)
    return corrector.to_bytes()


def corrector_of(m, half_life, kind):
    if kind == "fit":
        return Corrector.from_bytes(fitted(m), half_life=half_life)
    prior = 4 ** np.arange(m) if kind == "prior" else None
    return Corrector(m, half_life=half_life, prior=prior)


@pytest.mark.parametrize(("kind", "K"), [("", 4.06), ("fit", 3.02), ("prior", 12.18)])
def test_prior_weights_are_those_that_the_bound_takes(kind, K):
    corrector = corrector_of(3, 5000.0, kind)
    assert most(corrector) == pytest.approx(K)
    share = {name: PRIOR[name] / PRIOR["anchor"] / K for name in corrector.final_weights}
    assert corrector.final_weights == pytest.approx(share)


@st.composite
def delayed(draw):
    """(settings, rows, classes, order): order holds (t, True) at row t and (t, False) at its label.

    The rows lean to a class that turns in a cycle, as the labels do or against them.
    """
    m, n = draw(st.integers(2, 6)), draw(st.integers(1, 200))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    period = draw(st.sampled_from([4, 20, 100, 1e9]))
    turn = np.sin(2 * np.pi * (np.arange(n)[:, None] / period + np.arange(m) / m))
    mix = np.exp(draw(st.sampled_from([0.0, 2.0])) * turn)
    y = np.array([rng.choice(m, p=share / share.sum()) for share in mix])
    signal = draw(st.sampled_from([-2.0, 0.0, 1.0, 5.0]))
    z = rng.normal(size=(n, m)) + signal * np.eye(m)[y]
    P = np.exp(draw(st.sampled_from([0.3, 1.0, 4.0])) * z)
    P /= P.sum(1, keepdims=True)
    policy = draw(st.sampled_from(LABELS))
    guess = P.argmax(1)
    comes = {
        "any": y >= 0,
        "right": guess == y,
        "wrong": guess != y,
        "of some classes": y % 2 == 0,
        "of some predictions": guess % 2 == 0,
    }[policy]
    longest = draw(st.sampled_from([0, 1, 10, 100]))
    late = rng.integers(0, longest + 1, n) if draw(st.booleans()) else np.full(n, longest)
    order = sorted(
        [(t, 0, t) for t in range(n)] + [(t + late[t], 1, t) for t in range(n) if comes[t]]
    )
    half_life = draw(st.sampled_from([5.0, 100.0, 5000.0, math.inf]))
    return m, half_life, P, y, [(t, verb == 0) for _, verb, t in order]


@given(delayed(), st.sampled_from(KINDS))
def test_what_was_sent_loses_no_more_against_the_anchor_than_is_promised(stream, kind):
    m, half_life, P, y, order = stream
    corrector = corrector_of(m, half_life, kind)
    guards = Oracle(m, half_life=half_life, paths=["raw", "temperature"])  # only to know lambda
    account, then = Account(corrector, half_life), {}
    for t, is_row in order:
        p = P[t]
        if is_row:
            v, share = weights_of(corrector), guards.trust(p.argmax())
            back = corrector.explain_one(p)["fitted"] if kind == "fit" else p
            out, receipt = corrector.process_one(p, receipt=True)
            guards.process(p)
            rows = receipt[:-1].reshape(-1, m).astype(float)
            np.testing.assert_allclose(share * v @ rows + (1 - share) * back, out, atol=1e-6)
            then[t] = v, share, rows, back, receipt
            continue
        v, share, rows, back, receipt = then[t]
        now = weights_of(corrector)
        corrector.learn_one(p, y[t], receipt=receipt)
        guards.learn(p, y[t])
        account.add(v, now, rows[:, y[t]], share, back[y[t]])
        assert account.over() <= 0


probabilities = st.sampled_from([1e-7, 1e-6, 2e-6, 1e-3, 0.1, 0.5, 1.0])


def part(anchor, others, share=1.0, back=0.5):
    """A label that all rows but the anchor's give the same."""
    return [anchor, *[others] * 7], share, back


SURPRISE = [part(1.0, 1e-7)]
SEESAW = [part(1e-6, 1.0), part(1.0, 1e-6)]
WITHHELD = [part(1e-6, 1.0, 0.1), *[part(1.0, 0.25)] * 10]
HARD = {
    "prior": (SURPRISE, 1, 0, math.inf),
    "half-life": (SEESAW, 1, 0, 5.0),
    "late": (SURPRISE, 1, 10, math.inf),
    "withheld": (WITHHELD, 1, 0, math.inf),
}
"""What needs each term of the bound: what the rows give the label, lambda, and what the guards' row
gives it, label by label; how often each, how late they come, the half-life."""


def accounts(pattern, length, delay, half_life, kind, label_weights=(1.0,)):
    """After each of 300 labels: a pattern, each part `length` labels long; with weights in turn."""
    corrector = corrector_of(2, half_life, kind)
    account, weights = Account(corrector, half_life), []
    labels = [part for part in pattern for _ in range(length)]
    for t in range(300):
        rows, share, back = labels[t % len(labels)]
        rows = np.array(rows)[: corrector.n_sent]
        weights.append(weights_of(corrector))
        weight = label_weights[t % len(label_weights)]
        account.add(weights[max(0, t - delay)], weights[-1], rows, share, back, weight)
        receipt = np.append(np.stack([rows, 1 - rows], axis=1), 0.5).astype(np.float32)
        corrector.learn_one([0.5, 0.5], 0, receipt=receipt, weight=weight)
        yield account


@given(
    st.lists(
        st.tuples(
            st.lists(probabilities, min_size=8, max_size=8),
            st.sampled_from([1.0, 0.5, 0.0]),
            probabilities,
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 20),
    st.sampled_from([0, 1, 10]),
    st.sampled_from([5.0, 100.0, math.inf]),
    st.sampled_from(KINDS),
)
@example(SEESAW, 20, 10, math.inf, "")
@example(SEESAW, 20, 10, math.inf, "fit")
@example(SEESAW, 20, 10, math.inf, "prior")
def test_it_holds_whatever_the_rows_are(pattern, length, delay, half_life, kind):
    """Receipts made up to be as hard as can be."""
    for account in accounts(pattern, length, delay, half_life, kind):
        assert account.over() <= 0


HEAVY = [1.0] * 30 + [40.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hard", HARD.values())
@pytest.mark.parametrize("weights", [HEAVY, [100.0, 0.01], [0.3], [1.0, 2.0, 7.0], [1.0]])
def test_it_holds_for_labels_with_weights(hard, weights, kind):
    for account in accounts(*hard, kind, weights):
        assert account.over() <= 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("term", HARD)
def test_it_would_not_hold_without_any_one_of_its_terms(term, kind):
    assert max(account.over(term) for account in accounts(*HARD[term], kind)) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_one_label_can_lose_nearly_what_the_prior_allows(kind):
    account = next(accounts(*HARD["prior"], kind))
    assert account.terms == {"prior": math.log(account.K), "half-life": 0, "late": 0, "withheld": 0}
    assert account.excess > math.log(account.K) - 1e-4
    assert account.excess > math.log(2) + 0.4  # enough where there is no calibrated row
