"""`InTurn` beside `Corrector.from_bytes`: the same corrector, whatever was there before."""

import numpy as np
import pytest

from stream_can import Corrector, SnapshotMismatch
from stream_can.spark.in_turn import InTurn
from tests import snapshots


def lived_in(classes, n, seed, fitted=False, **settings):
    """A corrector that has seen rows and labels, none of the last class, which so falls silent."""
    rng = np.random.default_rng(seed)
    P, m = rng.dirichlet(np.full(len(classes), 0.5), 400), len(classes)
    corrector = Corrector(list(classes), **settings)
    if fitted:
        corrector.fit(P, [classes[k] for k in rng.integers(0, m, 400)])
    for p in P[:n]:
        corrector.process_one(p, segments={name: "x" for name in corrector.segments} or None)
        if p.argmax() < m - 1:
            corrector.learn_one(p, classes[rng.integers(0, max(1, m - 1))])
    return corrector


KINDS = {
    "plain": ("abcd", {}),
    "two classes": ("ab", {}),
    "sets": ("abcd", {"sets": 0.8}),
    "fitted": ("abcd", {"fitted": True}),
    "segments": ("abcd", {"segments": ["s"]}),
    "few paths": ("abcd", {"paths": ["raw", "can"]}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_goes_on_as_it_was(kind):
    classes, settings = KINDS[kind]
    P = np.random.default_rng(5).dirichlet(np.full(len(classes), 0.5), 60)
    given = {"s": ["x", "y"] * 30} if kind == "segments" else None
    in_turn = InTurn()
    for seed, n in enumerate((0, 200, 3, 90, 0, 40)):
        data = lived_in(classes, n, seed, **settings).to_bytes()
        one, other = in_turn.load(data), Corrector.from_bytes(data)
        assert in_turn.dump() == data
        assert (one.correct_many(P, segments=given) == other.correct_many(P, segments=given)).all()
        for corrector in (one, other):
            corrector.process_many(P, segments=given)
            corrector.learn_many(P, [classes[0]] * len(P), segments=given)
        assert in_turn.dump() == one.to_bytes() == other.to_bytes()


def test_arrays_are_replaced_where_nothing_else_differs():
    in_turn = InTurn()
    first = in_turn.load(lived_in("abcd", 50, 1).to_bytes())
    assert in_turn.load(lived_in("abcd", 90, 2).to_bytes()) is first
    assert in_turn.load(lived_in("abcd", 90, 2, half_life=70).to_bytes()) is not first


def test_kinds_may_alternate():
    in_turn = InTurn()
    kinds = {name: data for name, data in snapshots.kinds().items() if _is_one(data)}
    assert len(kinds) > 5
    for name in [*kinds, *reversed(kinds), *kinds]:
        in_turn.load(kinds[name])
        assert in_turn.dump() == kinds[name], name


def _is_one(data):
    try:
        return Corrector.from_bytes(data).to_bytes() == data
    except SnapshotMismatch:
        return False


def test_settings_replace_those_of_the_bytes():
    in_turn, data = InTurn(sets=0.9), lived_in("abc", 30, 1).to_bytes()
    for _ in range(2):
        assert in_turn.load(data).sets == 0.9
        assert Corrector.from_bytes(in_turn.dump()).sets == 0.9


def test_damaged_bytes_are_refused_and_the_next_are_taken():
    in_turn, data = InTurn(), lived_in("abcd", 50, 1).to_bytes()
    in_turn.load(data)
    for at in (0, 10, 40, len(data) // 2, len(data) - 1):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(SnapshotMismatch):
            in_turn.load(damaged)
    in_turn.load(data)
    assert in_turn.dump() == data
