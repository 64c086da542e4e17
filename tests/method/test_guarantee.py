"""What docs/method.md guarantees: the rows sent lose little against those of the anchor."""

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
ANCHOR = 0.5
"""Prior weight of the anchor."""
ROUNDING = 1e-6
"""Receipts are float32."""


def bound(n, half_life):
    """log 2 for the prior, and for each label what forgetting may hand back; docs/method.md."""
    g = 2 ** (-1 / half_life)
    return -math.log(ANCHOR) + n * (1 - g) / g * math.log(1 + 1 / FLOOR)


def moved(then, now):
    """What a delay can cost: how far a weight has risen while the label was on its way."""
    return max(
        (math.log(b / a) if a > 0 else math.inf) for a, b in zip(then, now, strict=True) if b > 0
    )


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


@given(delayed())
def test_what_was_sent_loses_no_more_against_the_anchor_than_is_promised(stream):
    m, half_life, P, y, order = stream
    corrector = Corrector(m, half_life=half_life)
    guards = Oracle(m, half_life=half_life)  # only to know lambda
    excess = late = withheld = 0.0
    n, then = 0, {}
    for t, is_row in order:
        p = P[t]
        if is_row:
            v, share = np.array(list(corrector.final_weights.values())), guards.trust(p.argmax())
            out, receipt = corrector.process_one(p, receipt=True)
            guards.process(p)
            then[t] = v, share, out, receipt
            continue
        v, share, out, receipt = then[t]
        now = np.array(list(corrector.final_weights.values()))
        corrector.learn_one(p, y[t], receipt=receipt)
        guards.learn(p, y[t], receipt)
        three = receipt[:, y[t]].astype(float)
        anchor = share * three[0] + (1 - share) * p[y[t]]
        n += 1
        excess += math.log(max(anchor, FLOOR) / (out[y[t]] + FLOOR))
        late += moved(v, now)
        if share < 1:
            clipped = np.maximum(three, FLOOR)
            withheld += max(0.0, math.log(v @ clipped / clipped[0]))
        assert excess <= bound(n, half_life) + late + withheld + ROUNDING * n


probabilities = st.sampled_from([1e-7, 1e-6, 2e-6, 1e-3, 0.1, 0.5, 1.0])

SEESAW = [(1e-6, 1.0, 1.0, 1.0, 0.5), (1.0, 1e-6, 1e-6, 1.0, 0.5)]
"""What the three rows give the label, lambda, and what the guards' row gives it: label by label."""
WITHHELD = [(1e-6, 1.0, 1.0, 0.1, 0.5), *[(1.0, 0.25, 0.25, 1.0, 0.5)] * 10]


@example(SEESAW, 1, 0, 5.0)  # needs the half-life's share of the bound
@example(SEESAW, 20, 10, math.inf)  # needs what the delay cost
@example(WITHHELD, 1, 0, math.inf)  # needs what the guards hold back
@given(
    st.lists(
        st.tuples(*[probabilities] * 3, st.sampled_from([1.0, 0.5, 0.0]), probabilities),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 20),
    st.sampled_from([0, 1, 10]),
    st.sampled_from([5.0, 100.0, math.inf]),
)
def test_it_holds_whatever_the_three_rows_are(pattern, length, delay, half_life):
    """Receipts made up to be as hard as can be: a pattern, each part `length` labels long."""
    corrector = Corrector(2, half_life=half_life)
    weights, excess, late, withheld = [], 0.0, 0.0, 0.0
    labels = [part for part in pattern for _ in range(length)]
    for t in range(300):
        *three, share, back = labels[t % len(labels)]
        weights.append(np.array(list(corrector.final_weights.values())))
        now, then = weights[-1], weights[max(0, t - delay)]
        receipt = np.array([[q, 1 - q] for q in three], np.float32)
        corrector.learn_one([0.5, 0.5], 0, receipt=receipt)
        sent = share * (then @ three) + (1 - share) * back
        anchor = share * three[0] + (1 - share) * back
        excess += math.log(max(anchor, FLOOR) / (sent + FLOOR))
        late += moved(then, now)
        if share < 1:
            clipped = np.maximum(three, FLOOR)
            withheld += max(0.0, math.log(then @ clipped / clipped[0]))
        assert excess <= bound(t + 1, half_life) + late + withheld + ROUNDING * (t + 1)
