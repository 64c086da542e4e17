"""One suite for everything that corrects: the library in its kinds of calls, river, scikit-learn,
Spark. Each is an adapter of some lines; what it makes of a stream is, to the bit, what a plain loop
over a `Corrector` makes of it.

    @pytest.mark.parametrize("check", CHECKS)
    def test_suite(check):
        check(Adapter)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from stream_can import Corrector, InvalidPrediction, UnknownClass
from stream_can.method.receipts import only_set

CLASSES = ["a", "b", "c", "d"]
COLUMN = "tenant"


class Event(NamedTuple):
    """A prediction that goes by, or later its label."""

    i: int
    p: list[float]
    given: dict[str, Any] | None
    label: Any = None
    is_label: bool = False


class Seen(NamedTuple):
    """What came of each prediction."""

    rows: dict[int, list[float]]
    sets: dict[int, set[Any]]


class Adapter(ABC):
    """What corrects, in this suite's words.

    Parameters
    ----------
    classes, settings
        Of a `Corrector`.
    """

    refuses: ClassVar[bool] = True
    """Whether a row that is none, and a label of no class, is an error here."""
    threads: ClassVar[bool] = True
    """Whether threads may share it."""

    @abstractmethod
    def __init__(self, classes: list[Any], **settings: Any) -> None: ...

    @abstractmethod
    def play(self, events: list[Event]) -> Seen:
        """Take events in their order; they may come in several calls."""

    @abstractmethod
    def state(self) -> bytes:
        """The snapshot of its corrector."""

    @abstractmethod
    def restart(self) -> Adapter:
        """Another one that goes on from what this one keeps."""

    def set_of(self, p: list[float]) -> object:
        """Ask for a prediction set."""
        raise ValueError("nothing was promised")

    @staticmethod
    def plain(corrector: Corrector, events: list[Event]) -> Seen:
        """The plain loop that it is equal to; here that of receipts."""
        return Loop(corrector).play(events)


class Loop:
    """Calls of one row: receipts are kept until the label comes."""

    def __init__(self, corrector: Corrector) -> None:
        self.corrector, self.receipts = corrector, dict[int, Any]()

    def play(self, events: list[Event]) -> Seen:
        found, corrector = Seen({}, {}), self.corrector
        for one in events:
            if one.is_label:
                receipt = self.receipts.pop(one.i, None)
                corrector.learn_one(one.p, one.label, receipt=receipt, segments=one.given)
                continue
            row, receipt = corrector.process_one(one.p, receipt=True, segments=one.given)
            self.receipts[one.i], found.rows[one.i] = receipt, row.tolist()
            if corrector.sets is not None:
                found.sets[one.i] = {*corrector.set_of(row, receipt)}
        return found


def without_receipts(corrector: Corrector, events: list[Event]) -> Seen:
    """The plain loop of who keeps none: a row is corrected, then it goes by."""
    found = Seen({}, {})
    for one in events:
        if one.is_label:
            corrector.learn_one(one.p, one.label, segments=one.given)
            continue
        found.rows[one.i] = corrector.correct_one(one.p, segments=one.given).tolist()
        if corrector.sets is not None:
            found.sets[one.i] = {*corrector.predict_set_one(one.p, segments=one.given)}
        corrector.observe_one(one.p, segments=one.given)
    return found


def when_labelled(corrector: Corrector, events: list[Event]) -> Seen:
    """The plain loop of river: a row goes by as its label comes."""
    found = Seen({}, {})
    for one in events:
        if not one.is_label:
            found.rows[one.i] = corrector.correct_one(one.p, segments=one.given).tolist()
            if corrector.sets is not None:
                found.sets[one.i] = {*corrector.predict_set_one(one.p, segments=one.given)}
            continue
        receipt = None
        if corrector.sets is None:
            corrector.observe_one(one.p, segments=one.given)
        else:
            _, receipt = corrector.process_one(one.p, receipt=True, segments=one.given)
            receipt = only_set(receipt, len(one.p))
        corrector.learn_one(one.p, one.label, receipt=receipt, segments=one.given)
    return found


def stream(
    n: int = 260, classes: list[Any] = CLASSES, *, columns: bool = False, seed: int = 0
) -> list[Event]:
    """Predictions of a classifier that is too sure, and 1 to 40 rows later 4 in 5 of the labels."""
    rng = np.random.default_rng(seed)
    m, events = len(classes), []
    truth = rng.dirichlet(np.full(m, 0.5), n)
    P = truth**1.6 / (truth**1.6).sum(axis=1, keepdims=True)
    for i in range(n):
        tenant = int(rng.integers(3))
        given = {COLUMN: None if i % 9 == 8 else f"t{tenant}"} if columns else None
        y = tenant if columns and rng.random() < 0.4 else int(rng.choice(m, p=truth[i]))
        events.append((2.0 * i, Event(i, P[i].tolist(), given)))
        if rng.random() < 0.8:
            late = 2.0 * (i + int(rng.integers(1, 40))) + 1
            events.append((late, Event(i, P[i].tolist(), given, classes[y], True)))
    return [event for _, event in sorted(events, key=lambda pair: pair[0])]


def counts_of(classes: list[Any]) -> dict[Any, int]:
    return {name: 3 + k for k, name in enumerate(classes)}


def check_equal(make: type[Adapter], classes: list[Any], events: list[Event], **settings: Any):
    """The adapter and the plain loop, to the bit; what each made."""
    settings = {"train_counts": counts_of(classes), "half_life": 300.0} | settings
    ours, hand = make(classes, **settings), Corrector(classes, **settings)
    found, expected = ours.play(events), make.plain(hand, events)
    assert found.rows == expected.rows
    assert found.sets == expected.sets
    assert ours.state() == hand.to_bytes()
    return ours, found


def check_rows(make):
    """Rows, and what labels teach."""
    _, found = check_equal(make, CLASSES, stream())
    assert len(found.rows) == 260
    assert found.sets == {}


def check_columns(make):
    """Columns that come with rows and labels, some not given."""
    events = stream(columns=True)
    ours, with_them = check_equal(make, CLASSES, events, segments=[COLUMN], segments_mb=1)
    without = check_equal(make, CLASSES, stream())[1]
    assert with_them.rows != without.rows
    assert [*Corrector.from_bytes(ours.state()).segment_values(COLUMN)] != []


def check_sets(make):
    """Prediction sets, which change no row; the promise on the rows of late."""
    events = stream(900, seed=3)
    _, found = check_equal(make, CLASSES, events, sets=0.8)
    _, plain = check_equal(make, CLASSES, events)
    assert found.rows == plain.rows
    labels = {one.i: one.label for one in events if one.is_label and one.i > 300}
    kept = np.mean([label in found.sets[i] for i, label in labels.items()])
    assert kept == pytest.approx(0.8, abs=0.06)
    assert {len(names) for names in found.sets.values()} >= {1, 2}


def check_sets_with_columns(make):
    check_equal(make, CLASSES, stream(columns=True), segments=[COLUMN], sets=0.9)


def check_sets_by_group(make):
    """Groups of sets are those of the plain loop: predicted classes, and values of a segment."""
    events = stream(columns=True)
    _, of_all = check_equal(make, CLASSES, events, segments=[COLUMN], sets=0.8)
    for by in ("class", COLUMN):
        _, found = check_equal(make, CLASSES, events, segments=[COLUMN], sets=0.8, sets_by=by)
        assert found.rows == of_all.rows
        assert found.sets != of_all.sets


def check_settings(make):
    """Every other setting reaches the corrector."""
    changed = {"paths": ["raw", "can", "temperature"], "half_life": 40, "uncertainty": "margin",
               "k": 2, "threshold": 0.4, "pseudo_count": 2.0, "prior_strength": 9.0,
               "label_noise": 0.1}  # fmt: skip
    ours, _ = check_equal(make, CLASSES, stream(), **changed)
    kept = Corrector.from_bytes(ours.state())
    assert kept.paths == ("raw", "can", "temperature")
    assert kept.settings == {name: x for name, x in changed.items() if name != "paths"}


def check_names(make):
    """Classes that are numbers."""
    check_equal(make, [1, 5, 9], stream(classes=[1, 5, 9]), sets=0.9)


def check_wrong_settings(make):
    """A setting out of range is named at the latest as the first row comes."""
    for name, value in {"half_life": -1, "sets": 1.0, "sets ": 0, "k": 1, "label_noise": 2}.items():
        with pytest.raises(ValueError, match=rf"{name.strip()}: .*{value}, expected a"):
            make(CLASSES, **{name.strip(): value}).play(stream(1))
    with pytest.raises(TypeError, match="unknown setting 'half_live'; did you mean half_life"):
        make(CLASSES, half_live=3)


def check_bad_rows(make):
    """They are refused, and nothing has changed."""
    if not make.refuses:
        return
    ours = make(CLASSES, sets=0.9)
    events = stream(60)
    ours.play(events)
    before = ours.state()
    for bad in ([0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 0.0, float("nan")], [1.2, -0.2, 0.0, 0.0]):
        with pytest.raises(InvalidPrediction):
            ours.play([events[0]._replace(i=1000, p=bad)])
        with pytest.raises(InvalidPrediction):
            ours.play([events[0]._replace(i=1000, p=bad, label="a", is_label=True)])
    with pytest.raises(UnknownClass):
        ours.play([events[0]._replace(i=1000, label="teapot", is_label=True)])
    assert ours.state() == before


def check_snapshots(make):
    """It goes on from what it keeps, bit by bit."""
    settings = {"segments": [COLUMN], "sets": 0.9, "sets_by": COLUMN, "half_life": 100.0}
    events = stream(columns=True, seed=5)
    half = len(events) // 2
    whole, first = make(CLASSES, **settings), make(CLASSES, **settings)
    expected = whole.play(events[:half]), whole.play(events[half:])
    found = first.play(events[:half])
    second = first.restart()
    assert (found, second.play(events[half:])) == expected
    assert second.state() == whole.state()


def check_without_sets(make):
    """Nobody is given sets of which nothing was promised."""
    ours = make(CLASSES)
    ours.play(stream(20))
    with pytest.raises(ValueError, match="nothing was promised"):
        ours.set_of([0.25] * 4)


def check_threads(make):
    """Threads share it: every event counts once."""
    if not make.threads:
        return
    ours = make(CLASSES, sets=0.9)
    parts = [stream(80, seed=seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for seen in pool.map(ours.play, [[*part] for part in parts]):
            assert len(seen.rows) == 80
    kept = Corrector.from_bytes(ours.state())
    labels = sum(one.is_label for part in parts for one in part)
    assert kept.n_labels == labels
    assert kept.set_counts[1] == labels


CHECKS = [check_rows, check_columns, check_sets, check_sets_with_columns, check_sets_by_group,
          check_settings, check_names, check_wrong_settings, check_bad_rows, check_snapshots,
          check_without_sets, check_threads]  # fmt: skip
