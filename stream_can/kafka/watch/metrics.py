"""What a worker has done and knows, as numbers that Prometheus can scrape.

The loop counts when a transaction is committed, so that what is given up and done again counts
once; a scrape sees all of a commit or nothing of it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterator, Mapping
from typing import NamedTuple

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector

from stream_can.kafka.watch.history import DELAYS, History
from stream_can.kafka.watch.letters import KEPT, Letter, letter
from stream_can.stream.replica import Replica
from stream_can.stream.requests import reason_of
from stream_can.stream.task import Result, Task
from stream_can.version import __version__

COMMITS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
RESTORES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)


class Registry(CollectorRegistry):
    """The metrics of one worker, collected while its loop changes none of them.

    Parameters
    ----------
    look
        Called before each collection: sets what is not counted but looked at.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """Every metric, without the times at which its counters were made."""
        with self.lock:
            self._look()
            found = list(super().collect())
        for metric in found:
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            for sample in metric.samples:
                if sample.labels.get("le", "+Inf") != "+Inf":
                    # As ever: 2592000.0 and prometheus_client's 2.592e+06 would be two series.
                    sample.labels["le"] = str(float(sample.labels["le"]))
        yield from found


class Committed(NamedTuple):
    """What a task had counted when it was committed last."""

    counts: dict[str, int]
    """`Counts`, since its state began."""
    scored: int
    """Since this process has it, as are those below."""
    hits: dict[str, int]
    log_loss: dict[str, float]
    requests: tuple[int, int | None] | None
    """How many are open and the timestamp of the oldest, in milliseconds; None where no label is
    asked for."""

    @classmethod
    def of(cls, task: Task) -> Committed:
        sides = {"before": task.raw_scores, "after": task.sent_scores}
        return cls(
            msgspec.to_builtins(task.counts),
            task.raw_scores.n,
            {stage: scores.hits for stage, scores in sides.items()},
            {stage: scores.log_loss_sum for stage, scores in sides.items()},
            None if task.requests is None else (len(task.open_requests), task.open_requests.oldest),
        )


def age(timestamp: int, now: float | None = None) -> float:
    """Seconds since a timestamp of Kafka's, which is in milliseconds."""
    return max(0.0, (time.time() if now is None else now) - timestamp / 1000)


class Metrics:
    """The numbers of one worker; its loop writes them, whoever has ``registry`` reads them.

    Parameters
    ----------
    replicas
        What corrects now, by partition of the learned log.
    shown
        Texts of the settings, which the reason of a dead letter may show.
    """

    def __init__(
        self,
        replicas: Callable[[], Mapping[int, Replica]] = dict,
        shown: Container[str] = (),
    ) -> None:
        self.registry = registry = Registry(self._look)
        self._replicas = replicas

        def counter(name: str, help_: str, label: str = "", *values: str) -> Counter:
            made = Counter(f"stream_can_{name}", help_, [label] if label else [], registry=registry)
            for value in values:  # there before the first of them, or rate() misses it
                made.labels(value)
            return made

        def gauge(name: str, help_: str, *labels: str) -> Gauge:
            return Gauge(f"stream_can_{name}", help_, labels, registry=registry)

        def histogram(name: str, help_: str, ends: tuple[float, ...]) -> Histogram:
            return Histogram(f"stream_can_{name}", help_, buckets=ends, registry=registry)

        self._predictions = counter(
            "predictions", "Input records committed", "result",
            "corrected", "tombstone", "dead_letter",
        )  # fmt: skip
        self._labels = counter(
            "labels", "Label records committed", "result",
            "matched", "unmatched", "tombstone", "dead_letter",
        )  # fmt: skip
        self._normalised = counter("normalised_rows", "Predictions divided by their sum")
        self._requests = counter("label_requests", "Labels asked for", "reason", "random", "margin")
        self._answered = counter("label_requests_answered", "Labels that came as asked for")
        self._transactions = counter(
            "transactions", "Transactions", "outcome", "committed", "aborted", "unknown"
        )
        self._rebalances = counter("rebalances", "Assignments taken over")
        self._snapshot_bytes = counter(
            "snapshot_bytes", "Bytes of positions, shared records and entries committed"
        )
        self._scored = counter("scored", "Predictions sent whose label came")
        self._hits = counter(
            "hits", "Scored predictions whose likeliest class was the label", "stage",
            "before", "after",
        )  # fmt: skip
        self._log_loss = counter(
            "log_loss", "Sum of the scored predictions' log loss, in nats", "stage",
            "before", "after",
        )  # fmt: skip
        self._delay = histogram(
            "label_delay_seconds", "From a prediction to its label, by their timestamps", DELAYS
        )
        self._commit = histogram(
            "commit_seconds", "From the positions to the committed transaction", COMMITS
        )
        self._restore = histogram(
            "restore_seconds", "To restore the partitions of one assignment", RESTORES
        )
        self._assigned = gauge("partitions", "Partitions assigned and restored")
        self._size = gauge(
            "effective_sample_size", "Decayed sum of the labels learned", "partition"
        )
        self._weight = gauge("path_weight", "Weight of a path in the mixture", "partition", "path")
        self._final = gauge(
            "final_weight",
            "Share of anchor, mixture and tempered in the output",
            "partition",
            "row",
        )
        self._temperature = gauge(
            "last_temperature", "Temperature of the tempered mixture", "partition"
        )
        self._coverage = gauge(
            "coverage", "Share of the correction that the labels let out of late", "partition"
        )
        # Their number alone: a series for each of thousands of classes would be too many.
        self._silent = gauge(
            "silent_classes", "Classes left out of learning: none of their labels came", "partition"
        )
        self._offset = gauge(
            "learned_offset", "Offset of the learned log up to which it is folded", "partition"
        )
        self._learned_labels = gauge(
            "learned_labels", "Labels behind what corrects now", "partition"
        )
        self._age = gauge(
            "learned_age_seconds", "Age of the newest entry behind what corrects now", "partition"
        )
        self._open_requests = gauge(
            "open_label_requests", "Labels asked for that have not come", "partition"
        )
        self._oldest_request = gauge(
            "oldest_label_request_seconds", "Age of the oldest label asked for", "partition"
        )
        self._lag = gauge("lag_records", "Offsets not yet taken", "source", "partition")
        gauge("build_info", "The release that runs", "version").labels(__version__).set(1)
        ProcessCollector(registry=registry)

        self.history = History()
        self.lag: dict[tuple[str, int], int] = {}
        """(input or labels, partition) -> records not yet taken, when they were asked for last."""
        self.partitions: dict[int, Committed] = {}
        """Those that are assigned."""
        self.letters: deque[Letter] = deque(maxlen=KEPT)
        self._shown = shown
        self._close()

    def restored(self, tasks: Mapping[int, Task], seconds: float) -> None:
        """These partitions are ours now."""
        with self.registry.lock:
            self._rebalances.inc()
            self._restore.observe(seconds)
            self._forget()
            self.partitions = {partition: Committed.of(task) for partition, task in tasks.items()}
            self._assigned.set(len(tasks))

    def handled(self, result: Result) -> None:
        """A batch is in the transaction that is open."""
        self._open = True
        self._outputs += len(result.outputs)
        self._delays += result.delays
        self._divided += result.normalised
        self._answers += result.answered
        self._asked.update(reason_of(request) for request in result.requests)
        for out in result.dead_letters[-KEPT:]:
            self._letters.append(letter(out, time.time(), self._shown))

    def committed(self, tasks: Mapping[int, Task], seconds: float, snapshot_bytes: int) -> None:
        """The transaction with these tasks' records is committed."""
        with self.registry.lock:
            self._transactions.labels("committed").inc()
            self._commit.observe(seconds)
            self._snapshot_bytes.inc(snapshot_bytes)
            done: Tally[str] = Tally()
            scores: defaultdict[str, float] = defaultdict(float)
            for partition, task in tasks.items():
                now, before = Committed.of(task), self.partitions[partition]
                done.update({name: n - before.counts[name] for name, n in now.counts.items()})
                scores["scored"] += now.scored - before.scored
                for stage in now.hits:
                    scores[f"hits_{stage}"] += now.hits[stage] - before.hits[stage]
                    loss = now.log_loss[stage] - before.log_loss[stage]
                    scores[f"log_loss_{stage}"] += loss
                self.partitions[partition] = now
            self._scored.inc(scores["scored"])
            for stage in ("before", "after"):
                self._hits.labels(stage).inc(scores[f"hits_{stage}"])
                self._log_loss.labels(stage).inc(scores[f"log_loss_{stage}"])
            dead = done["predictions"] - self._outputs
            self._predictions.labels("corrected").inc(done["corrected"])
            self._predictions.labels("tombstone").inc(self._outputs - done["corrected"])
            self._predictions.labels("dead_letter").inc(dead)
            dead = done["dead_letters"] - dead
            self._labels.labels("matched").inc(done["matched"])
            self._labels.labels("unmatched").inc(done["unmatched"])
            self._labels.labels("dead_letter").inc(dead)
            self._labels.labels("tombstone").inc(
                done["labels"] - done["matched"] - done["unmatched"] - dead
            )
            self._normalised.inc(self._divided)
            for reason, asked in self._asked.items():
                self._requests.labels(reason).inc(asked)
            self._answered.inc(self._answers)
            # A label stamped before its prediction came at once.
            delays = [max(delay, 0) / 1000 for delay in self._delays]
            for delay in delays:
                self._delay.observe(delay)
            counts = {
                name: done[name]
                for name in ("predictions", "labels", "matched", "unmatched", "dead_letters")
            }
            counts["asked"], counts["answered"] = self._asked.total(), self._answers
            times = {"commits": 1, "commit_seconds": seconds, "commit_longest": seconds}
            self.history.add(time.time(), delays, **counts, **scores, **times)
            self.letters += self._letters
            self._close()

    def given_up(self, outcome: str) -> None:
        """The transaction, if one is open, is "aborted", or "unknown"; its tasks are dropped."""
        with self.registry.lock:
            if self._open:
                self._transactions.labels(outcome).inc()
                self.history.add(time.time(), given_up=1)
            self._close()
            self._forget()

    def _close(self) -> None:
        """No transaction is open."""
        self._open = False
        self._outputs = self._divided = self._answers = 0
        self._delays: list[int] = []
        self._asked: Tally[str] = Tally()
        self._letters: deque[Letter] = deque(maxlen=KEPT)

    def lags(self, lag: Mapping[tuple[str, int], int]) -> None:
        """(input or labels, partition) -> records not yet taken."""
        with self.registry.lock:
            self._lag.clear()
            self.lag = dict(lag)
            waiting = sum(records for (source, _), records in lag.items() if source == "input")
            self.history.add(time.time(), lag=waiting)
            for (source, partition), records in lag.items():
                self._lag.labels(source, partition).set(records)

    def _forget(self) -> None:
        """Nothing is assigned."""
        self.partitions, self.lag = {}, {}
        self._assigned.set(0)
        self._lag.clear()

    def _look(self) -> None:
        """What the partitions that are ours have made so far, of the learned log and of input."""
        learned = (self._size, self._weight, self._final, self._temperature, self._coverage)
        entries = (self._silent, self._offset, self._learned_labels, self._age)
        for gauge in (*learned, *entries, self._open_requests, self._oldest_request):
            gauge.clear()
        if not self.partitions:
            return
        for partition, replica in dict(self._replicas()).items():
            if not replica.started:
                continue
            corrector = replica.corrector
            self._offset.labels(partition).set(replica.offset)
            self._learned_labels.labels(partition).set(corrector.n_labels)
            if replica.newest is not None:
                self._age.labels(partition).set(age(replica.newest))
            self._size.labels(partition).set(corrector.effective_sample_size)
            for path, share in corrector.weights.items():
                self._weight.labels(partition, path).set(share)
            for row, share in corrector.final_weights.items():
                self._final.labels(partition, row).set(share)
            self._temperature.labels(partition).set(corrector.last_temperature)
            self._coverage.labels(partition).set(corrector.coverage)
            self._silent.labels(partition).set(len(corrector.silent_classes))
        for partition, found in self.partitions.items():
            n, oldest = found.requests or (0, None)
            self._open_requests.labels(partition).set(n)
            self._oldest_request.labels(partition).set(0 if oldest is None else age(oldest))
