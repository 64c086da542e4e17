"""Label requests: the budget kept, a fair half, the same in batches and after a restart."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import InvalidPrediction, LabelRequests, SnapshotMismatch, margin, snapshot
from stream_can.method.asking import ROWS
from tests import strategies

pytestmark = pytest.mark.fast

BUDGETS = st.sampled_from([0.0004, 0.01, 0.015, 0.05, 0.1, 0.3, 1.0])
SHARES = st.sampled_from([0.0, 0.1, 0.5, 1.0])
KINDS = ["drawn", "equal", "torn", "sure", "rising", "jumps"]


def scores_of(kind, n, rng):
    """1 - margin of rows of two classes, shape (n,)."""
    drawn = rng.random(n)
    return {
        "drawn": drawn**3,
        "equal": np.full(n, 0.5),
        "torn": np.ones(n),
        "sure": np.zeros(n),
        "rising": np.linspace(0, 1, n),
        "jumps": np.where(np.arange(n) // 700 % 2, drawn, drawn / 100),
    }[kind]


def rows_of(scores):
    return np.stack([1 - scores / 2, scores / 2], axis=1)


def asked(requests, scores, first=0):
    """Which rows are asked for, 0 no, 1 at random, 2 by margin; and with which probability."""
    said = requests.ask_many(range(first, first + len(scores)), rows_of(scores))
    reasons = {None: 0, "random": 1, "margin": 2}
    return (
        np.array([reasons[one and one.reason] for one in said]),
        np.array([0.0 if one is None else one.probability for one in said]),
    )


@given(BUDGETS, SHARES, st.sampled_from(KINDS), st.integers(1, 6000), st.integers(0, 2**32 - 1))
def test_the_budget_holds_over_any_1000_rows(budget, share, kind, n, seed):
    scores = scores_of(kind, n, np.random.default_rng(seed))
    reasons, _ = asked(LabelRequests(budget, share, seed=seed), scores)
    for which, part in ((1, budget * share), (2, budget * (1 - share))):
        most = int(np.ceil(ROWS * part - 1e-9))
        total = np.concatenate([[0], np.cumsum(reasons == which)])
        windows = total[ROWS:] - total[:-ROWS] if n >= ROWS else total[-1:]
        assert windows.max() <= most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [0.01, 0.05, 0.2])
def test_most_of_the_budget_is_spent_and_half_of_it_at_random(kind, budget):
    n = 40_000
    reasons, _ = asked(LabelRequests(budget), scores_of(kind, n, np.random.default_rng(0)))
    assert 0.8 * budget / 2 < (reasons == 1).mean() <= budget / 2
    assert 0.7 * budget / 2 < (reasons == 2).mean() <= budget / 2


def test_by_margin_goes_to_torn_rows_and_at_random_to_any():
    scores = scores_of("drawn", 40_000, np.random.default_rng(1))
    reasons, _ = asked(LabelRequests(0.05), scores)
    later = slice(2000, None)
    rank = (scores[later].argsort().argsort() + 0.5) / len(scores[later])
    by_margin, at_random = rank[reasons[later] == 2], rank[reasons[later] == 1]
    assert np.median(by_margin) > 0.95
    assert abs(at_random.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(at_random))


def test_the_random_half_asks_with_the_probability_that_it_says():
    """Whatever the margins are: the same rows, torn or sure, are drawn at the same rates."""
    scores = scores_of("jumps", 30_000, np.random.default_rng(2))
    reasons, probabilities = asked(LabelRequests(0.1), scores)
    others, _ = asked(LabelRequests(0.1), 1 - scores)
    assert np.array_equal(reasons == 1, others == 1)
    assert not np.array_equal(reasons, others)
    # Of independent draws with probability p each, the sum of 1/p over those drawn is the number of
    # rows, less those where p is 0.
    drawn = reasons == 1
    assert probabilities[reasons == 2].tolist() == [1.0] * int((reasons == 2).sum())
    total = (1 / probabilities[drawn]).sum()
    spread = np.sqrt(((1 - probabilities[drawn]) / probabilities[drawn] ** 2).sum())
    full = sum(drawn[max(0, i - ROWS) : i].sum() >= 50 for i in range(len(drawn)))
    assert abs(total - (len(drawn) - full)) < 4 * spread


@given(
    BUDGETS,
    SHARES,
    st.sampled_from(KINDS),
    st.lists(st.integers(1, 400), min_size=1, max_size=12),
    st.integers(0, 2**32 - 1),
)
def test_batches_and_restarts_equal_the_loop(budget, share, kind, cuts, seed):
    scores = scores_of(kind, sum(cuts), np.random.default_rng(seed))
    whole = LabelRequests(budget, share, seed=seed)
    one_by_one = [whole.ask_one(f"row {i}", row) for i, row in enumerate(rows_of(scores))]
    cut, done, said = LabelRequests(budget, share, seed=seed), 0, []
    for size in cuts:
        ids = [f"row {i}" for i in range(done, done + size)]
        said += cut.ask_many(ids, rows_of(scores[done : done + size]))
        done += size
        data = cut.to_bytes()
        cut = LabelRequests.from_bytes(data)
        assert cut.to_bytes() == data
    assert said == one_by_one
    assert cut.to_bytes() == whole.to_bytes()


@given(st.data())
def test_the_score_is_the_margin_of_the_row(data):
    m = data.draw(strategies.sizes)
    rows = data.draw(strategies.rows(m, 30))
    by_rows, by_margins = LabelRequests(0.2), LabelRequests(0.2)
    said = by_rows.ask_many(range(30), rows)
    assert said == by_margins.ask_many(range(30), rows_of(margin(rows)))


def test_another_process_draws_the_same_rows():
    """Python's own hash of a string is another in every process."""
    code = (
        "from stream_can import LabelRequests\n"
        "requests = LabelRequests(0.2, 1.0, seed=7)\n"
        "print([i for i in range(200) if requests.ask_one(f'é{i}', [0.5, 0.5])])"
    )
    lines = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    requests = LabelRequests(0.2, 1.0, seed=7)
    here = [i for i in range(200) if requests.ask_one(f"é{i}", [0.5, 0.5])]
    assert lines == {f"{here}\n"}
    other = LabelRequests(0.2, 1.0, seed=8)
    assert here != [i for i in range(200) if other.ask_one(f"é{i}", [0.5, 0.5])]


def test_an_id_is_not_asked_for_twice_in_a_window():
    requests = LabelRequests(0.5)
    said = requests.ask_many([b"same"] * 900, rows_of(np.ones(900)))
    assert sum(one is not None for one in said) == 1


def test_ids_of_all_kinds():
    drawn = {
        repr(id): LabelRequests(0.1, 1.0).ask_one(id, [1.0]) for id in ("17", 17, b"17", "\ud800")
    }
    assert drawn["'17'"] == drawn["17"] == drawn["b'17'"]


def test_a_row_that_is_none_changes_nothing():
    requests = LabelRequests(0.1)
    before = requests.to_bytes()
    with pytest.raises(InvalidPrediction):
        requests.ask_many([1, 2], [[0.5, 0.5], [0.5, 0.6]])
    with pytest.raises(ValueError, match="ids: 1 for 2 rows"):
        requests.ask_many([1], [[0.5, 0.5], [0.5, 0.5]])
    assert requests.ask_many([], np.empty((0, 2))) == []
    assert requests.to_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"budget": 0}, "budget: 0"),
        ({"budget": 1.2}, "budget: 1.2"),
        ({"budget": float("nan")}, "budget: nan"),
        ({"budget": 0.1, "random_share": -0.1}, "random_share: -0.1"),
        ({"budget": 0.1, "seed": 2**63}, "seed: "),
    ],
)
def test_arguments_out_of_range(arguments, text):
    with pytest.raises(ValueError, match=text):
        LabelRequests(**arguments)


def damaged(**changes):
    """A snapshot whose checksum is right and whose content is not."""
    requests = LabelRequests(0.1)
    requests.ask_many(range(50), rows_of(np.ones(50)))
    head, arrays, _ = snapshot.decode(requests.to_bytes())
    for name, value in changes.items():
        (arrays if name in arrays else head)[name] = value
    return snapshot.encode(head, {name: a for name, a in arrays.items() if a is not None})


@pytest.mark.parametrize(
    "changes",
    [
        {"label_requests": 2},
        {"budget": 0.0},
        {"budget": float("nan")},
        {"rows": 3},
        {"threshold": float("inf")},
        {"random": None},
        {"random": np.ones((1, 2))},
        {"margin": np.array([[3, 1], [2, 1]])},
        {"margin": np.array([[0, 1]])},
        {"margin": np.array([[i, 1] for i in range(1, 51)] + [[50, 1]])},
        {"random": np.array([[i, i] for i in range(1, 51)] * 2)},
    ],
)
def test_a_snapshot_that_cannot_be_is_refused(changes):
    LabelRequests.from_bytes(damaged())
    with pytest.raises(SnapshotMismatch):
        LabelRequests.from_bytes(damaged(**changes))


def test_another_kind_of_snapshot_is_refused():
    with pytest.raises(SnapshotMismatch, match="no label requests"):
        LabelRequests.from_bytes(snapshot.encode({}, {}))
