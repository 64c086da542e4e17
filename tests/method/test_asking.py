"""Label requests: the budget kept, a fair half, the same in batches and after a restart."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_can import InvalidPrediction, LabelRequests, SnapshotMismatch, margin, snapshot
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


def span_of(share):
    """N: over how many rows a half's share is kept."""
    return max(500, 3 / share)


def greedy(share, n):
    """How many requests each first so many of n rows hold where every chance is taken, (n + 1,)."""
    used, taken = 0.0, np.zeros(n + 1, int)
    for i in range(n):
        used *= 1 - 1 / span_of(share)
        taken[i + 1] = used < share * span_of(share)
        used += taken[i + 1]
    return taken.cumsum()


@given(BUDGETS, SHARES, st.sampled_from(KINDS), st.integers(1, 4000), st.integers(0, 2**32 - 1))
def test_so_many_are_asked_for_in_any_rows_and_no_more(budget, share, kind, n, seed):
    """Also where the bucket was full before: who begins with an empty one can ask for most."""
    scores = scores_of(kind, n, np.random.default_rng(seed))
    reasons, _ = asked(LabelRequests(budget, share, seed=seed), scores)
    for which, part in ((1, budget * share), (2, budget * (1 - share))):
        total = np.concatenate([[0], np.cumsum(reasons == which)])
        if not part:
            assert total[-1] == 0
            continue
        most = greedy(part, n)
        for rows in {1, 2, 30, 500, 1000, 2500, n}:
            windows = total[rows:] - total[:-rows] if rows <= n else total[-1:]
            assert windows.max() <= most[min(rows, n)]
            assert windows.max() <= (part + 1 / span_of(part)) * (rows + span_of(part))


@pytest.mark.parametrize("share", [0.0002, 0.005, 0.025, 0.5, 1.0])
def test_what_is_asked_for_at_most_where_every_chance_is_taken(share):
    """About s (T + N) + 1 in T rows, where the first c do not take long; never what they say."""
    span = span_of(share)
    T = np.arange(1, int(5 * span) + 1)
    most = greedy(share, len(T))[1:]
    assert (most <= (share + 1 / span) * (T + span)).all()
    if share < 0.1:
        assert (most > share * (T + span) - 1)[int(span) :].all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("budget", "most"), [(0.01, 1.01), (0.05, 0.965), (0.2, 0.96), (0.5, 0.96)]
)
def test_each_half_settles_at_95_percent_of_its_budget(kind, budget, most):
    """And a tiny one, which holds three requests, at nearly all of it."""
    n, after = 40_000, 4000
    reasons, _ = asked(LabelRequests(budget), scores_of(kind, n, np.random.default_rng(0)))
    settled = reasons[after:]
    assert 0.94 * budget / 2 < (settled == 1).mean() < most * budget / 2
    if kind == "rising":  # each more torn than all before: every chance is taken
        c = budget / 2 * span_of(budget / 2)
        most = (1 + 0.55 / c) * (1 + 1 / c / 12)
    assert 0.9 * budget / 2 < (settled == 2).mean() < most * budget / 2


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_no_drought(kind):
    """A budget over windows of rows was spent at once and came back at once, rows later."""
    for seed in range(3):
        scores = scores_of(kind, 10_000, np.random.default_rng(seed))
        reasons, _ = asked(LabelRequests(0.05, seed=seed), scores)
        for which, longest in ((reasons > 0, 200), (reasons == 1, 250), (reasons == 2, 300)):
            gaps = np.diff(np.flatnonzero(np.concatenate([[True], which, [True]])))
            assert gaps.max() < longest


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
    drawn = reasons == 1
    assert probabilities[reasons == 2].tolist() == [1.0] * int((reasons == 2).sum())
    # What it says is what the guide says.
    used, rates = 0.0, np.empty(len(drawn))
    for i, one in enumerate(drawn):
        used *= 1 - 1 / 500
        rates[i] = min(1, max(0, 19 * (0.05 - used / 500)))
        used += one
    assert probabilities[drawn] == pytest.approx(rates[drawn], rel=1e-9)
    # Of independent draws with probability p each, the sum of 1/p over those drawn is the number of
    # rows; where p is nearly 0, one draw would say all.
    likely = rates > 0.01
    assert likely.mean() > 0.9
    p = probabilities[drawn & likely]
    assert abs((1 / p).sum() - likely.sum()) < 4 * np.sqrt(((1 - p) / p**2).sum())


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


def test_an_id_is_not_asked_for_twice_in_1000_rows():
    requests = LabelRequests(0.5)
    said = requests.ask_many([b"same"] * 1000, rows_of(np.ones(1000)))
    assert [i for i, one in enumerate(said) if one is not None] == [0]
    assert requests.ask_one(b"same", [0.5, 0.5]) is not None


@given(SHARES, st.integers(50, 1500), st.integers(100, 900))
def test_ids_that_come_again_and_again(share, period, step):
    """No two requests of one are nearer than 1,000 rows, and a restart knows them all."""
    ids = np.arange(3000) % period
    rows = rows_of(np.random.default_rng(period).random(3000))
    requests, said = LabelRequests(1.0, share), []
    for first in range(0, 3000, step):
        requests = LabelRequests.from_bytes(requests.to_bytes())
        said += requests.ask_many(ids[first : first + step].tolist(), rows[first : first + step])
    assert said == LabelRequests(1.0, share).ask_many(ids.tolist(), rows)
    where = np.flatnonzero([one is not None for one in said])
    for one in range(period):
        mine = where[ids[where] == one]
        assert (np.diff(mine) >= 1000).all()
    assert len(where) > len(np.unique(ids[where]))  # and after them they are asked for again


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
    head, arrays = snapshot.decode(requests.to_bytes())
    for name, value in changes.items():
        (arrays if name in arrays else head)[name] = value
    return snapshot.encode(head, {name: a for name, a in arrays.items() if a is not None})


@pytest.mark.parametrize(
    "changes",
    [
        {"label_requests": 0},
        {"label_requests": 1},
        {"label_requests": 3},
        {"budget": 0.0},
        {"budget": float("nan")},
        {"rows": 3},
        {"rows": 2000},
        {"threshold": float("inf")},
        {"used": None},
        {"used": np.ones(3)},
        {"used": np.ones(2, np.int64)},
        {"used": np.array([1.0, np.nan])},
        {"used": np.array([np.inf, 1.0])},
        {"used": np.array([1.0, -1e-9])},
        {"used": np.array([1.0, 26.1])},
        {"asked": None},
        {"asked": np.ones((1, 2))},
        {"asked": np.ones((2, 3), np.int64)},
        {"asked": np.array([[3, 1], [2, 2]])},
        {"asked": np.array([[3, 1], [3, 2]])},
        {"asked": np.array([[2, 1], [3, 1]])},
        {"asked": np.array([[0, 1]])},
        {"asked": np.array([[51, 1]])},
        {"asked": np.array([[2**63 - 1, 1], [-(2**63), 2]])},
    ],
)
def test_a_snapshot_that_cannot_be_is_refused(changes):
    LabelRequests.from_bytes(damaged())
    LabelRequests.from_bytes(damaged(used=np.array([1.0, 25.9])))
    with pytest.raises(SnapshotMismatch):
        LabelRequests.from_bytes(damaged(**changes))


def test_another_kind_of_snapshot_is_refused():
    with pytest.raises(SnapshotMismatch, match="no label requests"):
        LabelRequests.from_bytes(snapshot.encode({}, {}))
