"""The suite of `tests.check_corrector`: micro-batches of a stream that learns."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from pyspark.errors import PythonException

from stream_can import Corrector, InvalidPrediction
from stream_can.method.class_names import json_name
from stream_can.row_sums import RowSums
from stream_can.spark import Learning
from stream_can.spark.sums import of_batch, without_decay
from tests.check_corrector import CHECKS, COLUMN, Adapter, Seen

PER_BATCH = 240
SCHEMA = "id long, time double, probs array<double>, tenant string, label {}"


def batches(events):
    return [events[at : at + PER_BATCH] for at in range(0, len(events), PER_BATCH)]


def segments_of(run):
    if not run or run[0].given is None:
        return None
    return {COLUMN: [one.given[COLUMN] for one in run]}


class Batches(Adapter):
    threads = False

    def __init__(self, classes, **settings):
        start = Corrector(classes, **settings)
        self.folder, self.classes, self.n = Path(tempfile.mkdtemp(dir=self.tmp)), classes, 0
        self.start = start
        self.learning = Learning(start, self.folder / "state", errors="fail")

    def play(self, events):
        found = Seen({}, {})
        for batch in batches(events):
            rows = [
                (one.i, float(at), one.p, one.given and one.given[COLUMN], one.label)
                for at, one in enumerate(batch)
            ]
            kind = "long" if isinstance(self.classes[0], int) else "string"
            df = self.spark.createDataFrame(rows, SCHEMA.format(kind)).coalesce(1)
            out = []
            try:
                self.learning.then(lambda df, n, out=out: out.extend(df.collect()))(df, self.n)
            except PythonException as error:
                raise InvalidPrediction(str(error)) from None
            self.n += 1
            found.rows.update({row.id: row.corrected for row in out})
            if self.start.sets is not None:
                names = {json_name(name): name for name in self.classes}
                found.sets.update({row.id: {names[x] for x in row.set} for row in out})
        return found

    @staticmethod
    def plain(corrector, events):
        """Rows by the state before the batch, then their sums, then its labels in their order."""
        found = Seen({}, {})
        for batch in batches(events):
            before = Corrector.from_bytes(corrector.to_bytes())
            rows = [one for one in batch if not one.is_label]
            P, given = np.array([one.p for one in rows]), segments_of(rows)
            if len(rows):
                sent, receipts = RowSums(before).correct(
                    P, RowSums(before).zeros(), receipt=True, segments=given
                )
                found.rows.update(zip([one.i for one in rows], sent.tolist(), strict=True))
            if len(rows) and before.sets is not None:
                for one, row, receipt in zip(rows, sent, receipts, strict=True):
                    found.sets[one.i] = {*before.set_of(row, receipt)}
            free, sums = without_decay(before.to_bytes()), RowSums(before).zeros()
            if len(rows):
                RowSums(free).correct(P, sums, segments=given)
            RowSums(corrector).add(of_batch(corrector, [sums]))
            for one in batch:
                if one.is_label:
                    own = None if one.given is None else segments_of([one])
                    _, (receipt,) = RowSums(before).correct(
                        [one.p], RowSums(before).zeros(), receipt=True, segments=own
                    )
                    corrector.learn_one(one.p, one.label, receipt=receipt, segments=one.given)
        return found

    def state(self):
        return self.learning.corrector.to_bytes()

    def restart(self):
        again = type(self).__new__(type(self))
        again.__dict__.update(self.__dict__)
        again.learning = Learning(self.start, self.folder / "state")
        return again


@pytest.mark.parametrize("check", CHECKS)
def test_suite(check, spark, tmp_path):
    class Here(Batches):
        pass

    Here.spark, Here.tmp = spark, tmp_path
    check(Here)
