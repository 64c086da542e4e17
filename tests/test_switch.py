"""Correction is switched off and on; what is learned is the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from stream_can import Corrector, Learner
from stream_can.learner.model_name import ONLY
from stream_can.learner.model_versions import adapter_of
from stream_can.learner.switch import ON, CorrectionSwitch
from stream_can.multilabel import MultiLabelCorrector
from stream_can.row_kinds import KINDS
from stream_can.sparse import SparseCorrector

pytestmark = pytest.mark.fast

OFF = CorrectionSwitch(all=False)


def corrector_of(kind: str) -> Any:
    if kind == "dense":
        return Corrector(["a", "b", "c"], train_counts=[50, 30, 20], sets=0.8)
    if kind == "multilabel":
        return MultiLabelCorrector(["a", "b", "c"])
    return SparseCorrector("any", max_classes=50)


def stream_of(kind: str, n: int = 200) -> list[tuple[Any, Any]]:
    """Rows of a classifier that is sure of too much, and their labels."""
    rng, found = random.Random(1), list[tuple[Any, Any]]()
    for _ in range(n):
        truth = rng.choice("abc")
        p = np.array([0.5 + 0.4 * rng.random() if c == truth else 0.3 for c in "abc"])
        if kind != "multilabel":
            p /= p.sum() * (1.2 if kind == "sparse" else 1)
        row = dict(zip("abc", p.tolist(), strict=True)) if kind == "sparse" else p
        label = [truth] if kind == "multilabel" else rng.choice("ab")
        found.append((row, label))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_rows_go_out_as_they_came_and_what_is_learned_is_the_same(kind: str) -> None:
    switched, always = Learner(corrector_of(kind)), Learner(corrector_of(kind))
    for i, (row, label) in enumerate(stream_of(kind)):
        switched.switch = OFF if 50 <= i < 150 else ON
        got, expected = (one.process(i, row) for one in (switched, always))
        if 50 <= i < 150:
            given = got[0] if kind == "sparse" else got
            assert list(given) == list(row)
            if kind == "sparse":
                assert given == row
                assert got.rest == pytest.approx(1 - sum(row.values()))
        else:
            assert repr(got) == repr(expected)
        for one in (switched, always):
            one.label(i, label)
    assert switched.live[ONLY].corrector.to_bytes() == always.live[ONLY].corrector.to_bytes()
    restored = Learner.from_bytes(switched.to_bytes())
    assert restored.switch == ON
    raw, sent = switched.scores[None, None]
    assert raw.n == sent.n == 200
    assert raw.log_loss != sent.log_loss  # of half of the rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_does_not_learn_passes_rows_too(kind: str) -> None:
    learner = Learner(corrector_of(kind))
    stream = stream_of(kind)
    for i, (row, label) in enumerate(stream):
        learner.process(i, row)
        learner.label(i, label)
    adapter = adapter_of(learner.live[ONLY].corrector)
    raw = adapter.given_rows([row for row, _ in stream[:5]])
    _, expected, _ = adapter.corrected(raw, None)
    adapter.passes = True
    sent, receipts, names = adapter.corrected(raw, None)
    np.testing.assert_array_equal(np.array(receipts), np.array(expected))
    assert [list(one[0] if kind == "sparse" else one) for one in sent] == [
        list(row) for row, _ in stream[:5]
    ]
    if kind == "multilabel":
        assert [sorted(one) for one in names] == [
            [c for c, p in zip("abc", row, strict=True) if p >= 0.5] for row, _ in stream[:5]
        ]


def test_one_model_is_switched_off() -> None:
    learner = Learner(corrector_of("dense"))
    learner.switch = CorrectionSwitch(models={"m": False})
    for i, (row, label) in enumerate(stream_of("dense")):
        m, n = (learner.process(i, row, model=model) for model in "mn")
        learner.label(i, label)
        assert m.tolist() == row.tolist()
    assert n.tolist() != row.tolist()
    assert (
        learner.live["m", None].corrector.to_bytes() == learner.live["n", None].corrector.to_bytes()
    )


def test_both_of_two_switches() -> None:
    one = CorrectionSwitch(models={"m": False, "n": True})
    other = CorrectionSwitch(all=False, models={"n": True, "o": True})
    both = one.both(other)
    assert [both.is_on(model) for model in (None, "m", "n", "o", "p")] == [
        False, False, True, True, False,
    ]  # fmt: skip
