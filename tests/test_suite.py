"""The suite of `tests.check_corrector`: the library, one by one, in batches and by play."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from stream_can import Corrector
from stream_can.method.receipts import gave_all, none_known
from tests.check_corrector import CHECKS, Adapter, Loop, Seen, without_receipts

pytestmark = pytest.mark.fast


class OneByOne(Adapter):
    """Without receipts: the plain loop of who keeps none."""

    plain = staticmethod(without_receipts)

    def __init__(self, classes, **settings):
        self.corrector = Corrector(classes, **settings)

    def play(self, events):
        return without_receipts(self.corrector, events)

    def state(self):
        return self.corrector.to_bytes()

    def restart(self):
        again = type(self).__new__(type(self))
        again.corrector = Corrector.from_bytes(self.corrector.to_bytes())
        return again

    def set_of(self, p):
        return self.corrector.predict_set_one(p)


def segments_of(run):
    if run[0].given is None:
        return None
    return {name: [one.given[name] for one in run] for name in run[0].given}


class Batches(OneByOne):
    """`process_many` and `learn_many` of each run of rows, or of labels."""

    plain = Adapter.plain

    def __init__(self, classes, **settings):
        super().__init__(classes, **settings)
        self.receipts: dict[int, Any] = {}

    def restart(self):
        again = super().restart()
        again.receipts = dict(self.receipts)  # which users keep with their rows
        return again

    def play(self, events):
        found, corrector = Seen({}, {}), self.corrector
        for is_label, group in itertools.groupby(events, lambda one: one.is_label):
            run = [*group]
            P, given = [one.p for one in run], segments_of(run)
            if is_label:
                brought = [self.receipts.pop(one.i, None) for one in run]
                known = next((x for x in brought if x is not None), None)
                receipts = None
                if known is not None:
                    blank = np.full_like(known, np.nan)
                    receipts = np.array([blank if x is None else x for x in brought])
                labels = [one.label for one in run]
                corrector.learn_many(P, labels, receipts=receipts, segments=given)
                continue
            rows, receipts = corrector.process_many(P, receipt=True, segments=given)
            for one, row, receipt in zip(run, rows, receipts, strict=True):
                found.rows[one.i], self.receipts[one.i] = row.tolist(), receipt
            if corrector.sets is not None:
                inside = corrector.sets_of(rows, receipts)
                for one, has in zip(run, inside, strict=True):
                    names = zip(corrector.classes, has, strict=True)
                    found.sets[one.i] = {name for name, there in names if there}
        return found


class Played(Batches):
    """`play` of all at once."""

    threads = False

    def play(self, events):
        corrector, found = self.corrector, Seen({}, {})
        index = {name: k for k, name in enumerate(corrector.classes)}
        rows = [one for one in events if not one.is_label]
        labels = [one for one in events if one.is_label]
        here = {one.i: k for k, one in enumerate(rows)}
        for one in labels:  # of rows that went by before, and what is no class
            index.setdefault(one.label, -1)
        earlier = [one for one in labels if one.i not in here]
        first, due, at = len(earlier), [], 0
        for one in events:
            at += not one.is_label
            due += [at] if one.is_label else []
        before = iter(range(first))
        where = [first + here[one.i] if one.i in here else next(before) for one in labels]
        if any(index[one.label] < 0 for one in labels):
            return super().play(events)  # which refuses it by name
        every = [*earlier, *rows]
        ys = np.array([index[one.label] for one in labels], np.int64)
        played = corrector.play(
            np.array([one.p for one in every]), ys, np.array(where, np.int64),
            np.array(due, np.int64), first=first, receipt=True,
            known=self.known(labels, here, ys), segments=segments_of(every) if every else None,
        )  # fmt: skip
        inside = None
        if corrector.sets is not None:
            inside = corrector.sets_of(played.rows, played.receipts)
        for k, one in enumerate(rows):
            found.rows[one.i], self.receipts[one.i] = played.rows[k].tolist(), played.receipts[k]
            if inside is not None:
                names = zip(corrector.classes, inside[k], strict=True)
                found.sets[one.i] = {name for name, there in names if there}
        return found

    def known(self, labels, here, ys):
        sets, n_sent = self.corrector.sets is not None, self.corrector.n_sent
        known = none_known(len(labels), n_sent, sets=sets)
        for k, one in enumerate(labels):
            if one.i not in here and one.i in self.receipts:
                brought = self.receipts[one.i][None]
                known[k] = gave_all(brought, ys[k : k + 1], n_sent, sets=sets)[0]
        return known


class Kept(OneByOne):
    """The loop of receipts itself, over a restart too."""

    plain = Adapter.plain

    def __init__(self, classes, **settings):
        super().__init__(classes, **settings)
        self.loop = Loop(self.corrector)

    def play(self, events):
        return self.loop.play(events)

    def restart(self):
        again = super().restart()
        again.loop = Loop(again.corrector)
        again.loop.receipts = dict(self.loop.receipts)
        return again


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("make", [OneByOne, Batches, Played, Kept])
def test_suite(check, make):
    check(make)
