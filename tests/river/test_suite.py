"""The suite of `tests.check_corrector`: the wrapper around a classifier that is trained."""

from __future__ import annotations

import copy

import pytest

from stream_can.river import CorrectedClassifier, FrozenClassifier
from tests.check_corrector import CHECKS, Adapter, Seen, counts_of, when_labelled

pytestmark = pytest.mark.fast


def says(x):
    return dict(zip(x["classes"], x["p"], strict=True))


class Wrapper(Adapter):
    plain = staticmethod(when_labelled)
    refuses = False  # what says nothing is answered with the class mix, and classes appear
    threads = False

    def __init__(self, classes, **settings):
        self.classes = classes
        counts = settings.pop("train_counts", counts_of(classes))  # its classes are known
        self.model = CorrectedClassifier(FrozenClassifier(says), train_counts=counts, **settings)

    def x(self, one):
        given = {} if one.given is None else {k: v for k, v in one.given.items() if v is not None}
        return {"p": one.p, "classes": self.classes} | given

    def play(self, events):
        found = Seen({}, {})
        for one in events:
            x = self.x(one)
            if one.is_label:
                self.model.learn_one(x, one.label)
                continue
            found.rows[one.i] = [*self.model.predict_proba_one(x).values()]
            if self.model.sets is not None:
                found.sets[one.i] = {*self.model.predict_set_one(x)}
        return found

    def state(self):
        return self.model.corrector.to_bytes()

    def restart(self):
        again = copy.copy(self)
        again.model = copy.deepcopy(self.model)
        return again

    def set_of(self, p):
        return self.model.predict_set_one({"p": p, "classes": self.classes})


@pytest.mark.parametrize("check", CHECKS)
def test_suite(check):
    check(Wrapper)
