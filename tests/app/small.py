"""The numbers of a program without the program: what metrics, document and page are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_can import Corrector
from stream_can.app.correctors_in_use import CorrectorsInUse
from stream_can.app.counts import Committed
from stream_can.app.health import Health
from stream_can.app.metrics import LEARNER, Metrics
from stream_can.app.status_report import StatusReport
from stream_can.app.tally import Tally
from stream_can.column_scores import ColumnScores, outcomes
from stream_can.messages.records import Output, Record
from stream_can.scores import score_rows

BEGIN = 1_800_000_000.0
ODD = ["<img src=x onerror=alert(1)>", "</script><script>document.title='owned'</script>", "refund"]
# What a browser finds on the page.
HEADS = "[...document.querySelectorAll('#values h3')].map(e => e.textContent)"
VALUES = "[...document.querySelectorAll('#values td bdi')].map(e => e.textContent)"
VERDICT = "document.getElementById('verdict')?.textContent"
TITLE = "document.getElementById('title')?.textContent"


def dead(error: str, message: str) -> Output:
    says = {
        "topic": "in", "partition": "3", "offset": "17",
        "exception.class.name": f"stream_can.{error}", "exception.message": message,
    }  # fmt: skip
    headers = [(f"__connect.errors.{name}", text.encode()) for name, text in says.items()]
    source = Record("in", 3, 17, 1_700_000_000_000, b"key-secret", b"value-secret")
    return Output(source.key, source.value, [("h", b"secret"), *headers], source.timestamp, source)


class Small:
    """A worker's numbers without a worker."""

    def __init__(
        self,
        classes: Any = ("a", "b", "refund"),
        *,
        has_labels: bool = True,
        corrects: bool = True,
    ) -> None:
        self.health, self.metrics = Health(60), Metrics()
        self.health.ready = True
        zero = {"before": 0, "after": 0}
        counts = Tally((), len, named=False, sets=False, rows="dense").counts
        one = Committed(counts, 0, zero, {**zero}, None)
        self.metrics.partitions = {LEARNER: one}
        if corrects:
            nothing = Committed(dict.fromkeys(counts, 0), 0, zero, {**zero}, None)
            self.metrics.partitions = {0: one, LEARNER: nothing}
        self.known = CorrectorsInUse(Corrector(classes), 3, None, None)
        self.status_report = StatusReport(
            "app", "0", has_labels=has_labels, health=self.health,
            metrics=self.metrics, known=lambda: self.known, corrects=corrects,
        )  # fmt: skip
        self.status_report._since = BEGIN - 7200

    def add(self, seconds: float, **amounts: float) -> None:
        self.metrics.history.record(BEGIN - seconds, **amounts)

    def first(self) -> str:
        said = self.status_report.status(BEGIN).problems[0]
        return f"{said.level}: {said.what}"

    def labelled(self, after: float, hits: int = 26) -> None:
        """An hour of labels: log loss from 1 to ``after``, hits of 50 from 25 to ``hits``."""
        for slot in reversed(range(100)):
            self.add(30 * slot, predictions=50, labels=50, matched=50, scored=50, hits_before=25,
                     hits_after=hits, log_loss_before=50, log_loss_after=50 * after + slot % 2,
                     commits=10)  # fmt: skip


def counted(rows: dict[str, int], labels: dict[str, int]) -> ColumnScores:
    """A column in which every label is scored."""
    column, rng = ColumnScores(), np.random.default_rng(0)
    column.came([text for text, n in rows.items() for _ in range(n)])
    texts = [text for text, n in labels.items() for _ in range(n)]
    P, y = rng.dirichlet([1, 1, 1], len(texts)), rng.integers(3, size=len(texts))
    column.learned(texts)
    column.scored(texts, outcomes(*(score_rows(rows, y) for rows in (P, P[:, ::-1]))))
    return column
