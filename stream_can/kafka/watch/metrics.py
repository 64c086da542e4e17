"""What a worker has done and knows, as numbers that Prometheus can scrape.

The loop counts with plain numbers, when a transaction is committed, so that what is given up and
done again counts once. ``prometheus_client`` is imported where somebody scrapes.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stream_can.stream.task import Result, Task
from stream_can.version import __version__

if TYPE_CHECKING:
    from prometheus_client import Metric

    from stream_can.scores import Scores

DELAYS = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400)
"""Upper ends, in seconds, of the buckets of the label delay."""
COMMITS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
RESTORES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)


class Buckets:
    """Counts of values by size, and their sum."""

    def __init__(self, ends: Sequence[float]) -> None:
        self.ends = ends
        self.counts = [0] * (len(ends) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.ends, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper end, values up to it), the form that Prometheus wants."""
        found, total = [], 0
        for end, count in zip((*map(float, self.ends), "+Inf"), self.counts, strict=True):
            total += count
            found.append((str(end), float(total)))
        return found


class _Before(msgspec.Struct):
    """What a task had counted when it was committed last."""

    counts: dict[str, int]
    scores: tuple[float, ...]

    @classmethod
    def of(cls, task: Task) -> _Before:
        return cls(msgspec.to_builtins(task.counts), _sums(task.raw_scores, task.sent_scores))


def _sums(raw: Scores, sent: Scores) -> tuple[float, ...]:
    """Rows, hits before and after, log loss before and after."""
    if not raw.n:
        return (0, 0, 0, 0.0, 0.0)
    sides = (raw, sent)
    return (
        raw.n,
        *(round(side.accuracy * side.n) for side in sides),
        *(side.log_loss * side.n for side in sides),
    )


class Metrics:
    """The numbers of one worker; its loop writes them, `collect` reads them from any thread."""

    def __init__(self) -> None:
        self.predictions: Counter[str] = Counter(corrected=0, tombstone=0, dead_letter=0)
        self.labels: Counter[str] = Counter(matched=0, unmatched=0, tombstone=0, dead_letter=0)
        self.transactions: Counter[str] = Counter(committed=0, aborted=0, unknown=0)
        self.scored = [0.0] * 5
        self.rebalances = 0
        self.snapshot_bytes = 0
        self.delays, self.commits = Buckets(DELAYS), Buckets(COMMITS)
        self.restores = Buckets(RESTORES)
        self.learned: dict[int, tuple[float, dict[str, float]]] = {}
        """Partition -> effective sample size, path weights."""
        self.lag: dict[tuple[str, int], int] = {}
        """(input or labels, partition) -> records not yet taken."""
        self._before: dict[int, _Before] = {}
        self._open = False
        self._outputs = 0
        self._delays: list[int] = []
        self._lock = threading.Lock()

    # -- called by the loop ----------------------------------------------------------------------

    def restored(self, tasks: Mapping[int, Task], seconds: float) -> None:
        """These partitions are ours now."""
        with self._lock:
            self.rebalances += 1
            self.restores.add(seconds)
            self._before = {partition: _Before.of(task) for partition, task in tasks.items()}
            self.learned, self.lag = {}, {}
            self._learn(tasks)

    def handled(self, result: Result) -> None:
        """A batch is in the transaction that is open."""
        self._open = True
        self._outputs += len(result.outputs)
        self._delays += result.delays

    def committed(self, tasks: Mapping[int, Task], seconds: float, snapshot_bytes: int) -> None:
        """The transaction with these tasks' records is committed."""
        with self._lock:
            self.transactions["committed"] += 1
            self.commits.add(seconds)
            self.snapshot_bytes += snapshot_bytes
            done: Counter[str] = Counter()
            for partition, task in tasks.items():
                now, before = _Before.of(task), self._before[partition]
                done.update({name: n - before.counts[name] for name, n in now.counts.items()})
                steps = zip(self.scored, now.scores, before.scores, strict=True)
                self.scored = [total + new - old for total, new, old in steps]
                self._before[partition] = now
            dead = done["predictions"] - self._outputs
            self.predictions["corrected"] += done["corrected"]
            self.predictions["tombstone"] += self._outputs - done["corrected"]
            self.predictions["dead_letter"] += dead
            dead = done["dead_letters"] - dead
            self.labels["matched"] += done["matched"]
            self.labels["unmatched"] += done["unmatched"]
            self.labels["dead_letter"] += dead
            self.labels["tombstone"] += done["labels"] - done["matched"] - done["unmatched"] - dead
            for delay in self._delays:  # a label stamped before its prediction came at once
                self.delays.add(max(delay, 0) / 1000)
            self._open, self._outputs, self._delays = False, 0, []
            self._learn(tasks)

    def given_up(self, outcome: str) -> None:
        """The transaction, if one is open, is "aborted", or "unknown"; its tasks are dropped."""
        with self._lock:
            if self._open:
                self.transactions[outcome] += 1
            self._open, self._outputs, self._delays = False, 0, []
            self._before = {}
            self.learned, self.lag = {}, {}

    def _learn(self, tasks: Mapping[int, Task]) -> None:
        for partition, task in tasks.items():
            corrector = task.corrector
            self.learned[partition] = corrector.effective_sample_size, corrector.weights

    # -- called by whoever scrapes ---------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        """Every metric, for a ``prometheus_client`` registry."""
        from prometheus_client.core import CounterMetricFamily as Counted
        from prometheus_client.core import GaugeMetricFamily as Gauge
        from prometheus_client.core import HistogramMetricFamily as Histogram

        def by(name: str, help_: str, label: str, counts: Mapping[str, float]) -> Metric:
            family = Counted(name, help_, labels=[label])
            for value, count in counts.items():
                family.add_metric([value], count)
            return family

        def histogram(name: str, help_: str, buckets: Buckets) -> Metric:
            return Histogram(name, help_, buckets=buckets.cumulative(), sum_value=buckets.sum)

        with self._lock:
            rows, hits_before, hits_after, loss_before, loss_after = self.scored
            families = [
                by("stream_can_predictions", "Input records committed", "result",
                   self.predictions),
                by("stream_can_labels", "Label records committed", "result", self.labels),
                by("stream_can_transactions", "Transactions", "outcome", self.transactions),
                Counted("stream_can_rebalances", "Assignments taken over", value=self.rebalances),
                Counted("stream_can_snapshot_bytes", "Bytes of state committed",
                        value=self.snapshot_bytes),
                Counted("stream_can_scored", "Predictions sent whose label came", value=rows),
                by("stream_can_hits", "Scored predictions whose likeliest class was the label",
                   "stage", {"before": hits_before, "after": hits_after}),
                by("stream_can_log_loss", "Sum of the scored predictions' log loss, in nats",
                   "stage", {"before": loss_before, "after": loss_after}),
                histogram("stream_can_label_delay_seconds",
                          "From a prediction to its label, by their timestamps", self.delays),
                histogram("stream_can_commit_seconds",
                          "From the snapshots to the committed transaction", self.commits),
                histogram("stream_can_restore_seconds",
                          "To restore the partitions of one assignment", self.restores),
                Gauge("stream_can_partitions", "Partitions assigned and restored",
                      value=len(self._before)),
            ]  # fmt: skip
            families += self._partitions(Gauge)
        yield from families

    def _partitions(self, gauge: Any) -> list[Metric]:
        size = gauge("stream_can_effective_sample_size", "Decayed sum of the labels learned",
                     labels=["partition"])  # fmt: skip
        weight = gauge("stream_can_path_weight", "Share of a path in the output",
                       labels=["partition", "path"])  # fmt: skip
        lag = gauge(
            "stream_can_lag_records", "Offsets not yet taken", labels=["source", "partition"]
        )
        for partition, (sample, weights) in self.learned.items():
            size.add_metric([str(partition)], sample)
            for path, share in weights.items():
                weight.add_metric([str(partition), path], share)
        for (source, partition), records in self.lag.items():
            lag.add_metric([source, str(partition)], records)
        info = gauge("stream_can_build_info", "The release that runs", labels=["version"])
        info.add_metric([__version__], 1)
        return [size, weight, lag, info]
