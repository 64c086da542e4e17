"""Metrics: counts and learned state of a worker for Prometheus.

Counters change when a transaction commits, so repeated work counts once; a scrape sees all of a
commit or nothing of it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter as Tally
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import ProcessCollector

from stream_can.app import table
from stream_can.app.commit import SIDES, Commit
from stream_can.app.correctors_in_use import CorrectorsInUse
from stream_can.app.counts import Committed, Handled, MetricsSource
from stream_can.app.history import History
from stream_can.app.lane_metrics import LaneMetrics
from stream_can.app.letters import KEPT, Letter
from stream_can.app.metrics_registry import MetricsRegistry
from stream_can.app.open_transaction import OpenTransaction
from stream_can.app.status import Backlog
from stream_can.app.tally import MOST_VALUES
from stream_can.column_scores import ColumnScores
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Source, place
from stream_can.trust.episode import Episode
from stream_can.version import __version__

log = logging.getLogger(__name__)

LEARNER = -1
"""Key in place of a partition for counts of the application's learner."""
IN_HISTORY = ("predictions", "labels", "matched", "unmatched", "repeated", "early", "dead_letters",
              "without_id")  # fmt: skip
"""Counts of `Committed` that the history has as well."""


class Metrics:
    """The metrics of a worker; written by its loop, read from ``registry`` by any thread.

    Parameters
    ----------
    known
        Returns the correctors in use; None before the first state.
    episodes
        Returns open episodes of the alarm.
    waits_for
        Returns why records wait for a schema registry.
    """

    def __init__(
        self,
        known: Callable[[], CorrectorsInUse | None] = lambda: None,
        episodes: Callable[[], Mapping[LaneName, Episode]] = dict,
        waits_for: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.registry = registry = MetricsRegistry(self._set_gauges)
        self._known, self._waits_for = known, waits_for
        self._metrics = table.make(registry)
        self._metrics["build_info"].labels(__version__).set(1)
        ProcessCollector(registry=registry)

        self.history = History()
        self._lags: dict[int, dict[tuple[str, int], int]] = {}
        self.lag: dict[tuple[str, int], int] = {}
        """(input or labels, partition) -> lag when last queried."""
        self.backlog: Backlog | None = None
        self.unlearned_batches: Backlog | None = None
        """What was handed over to the learner, and what that of this process has yet to learn."""
        self.partitions: dict[int, Committed] = {}
        """Counts of the assigned partitions."""
        self.values: dict[str, ColumnScores] = {}
        """Scores by value of each declared column, since the last assignment."""
        self.lanes = LaneMetrics(self._metrics)
        self.letters: deque[Letter] = deque(maxlen=KEPT)
        self._episodes = episodes
        self._named_kinds: set[str] = set()
        """What the log has named the first of."""
        self._opened: defaultdict[int, OpenTransaction] = defaultdict(OpenTransaction)
        """Open transactions: 0 for the partitions, and the learner's."""

    def restored(
        self, sources: Mapping[int, MetricsSource], seconds: float, skew: float = 0.0
    ) -> None:
        """Record newly assigned partitions."""
        with self.registry.lock:
            self._metrics["rebalances"].inc()
            self._metrics["restore_seconds"].observe(seconds)
            self._metrics["clock_skew_seconds"].set(skew)
            self._forget()
            self.partitions |= {number: source.committed() for number, source in sources.items()}
            self._add_values(sources)
            self._metrics["partitions"].set(len(sources))

    def learns(self, source: MetricsSource | None) -> None:
        """Record that this process became the application's learner, or no longer is."""
        with self.registry.lock:
            self.partitions.pop(LEARNER, None)
            self._opened.pop(LEARNER, None)
            self.values, self.unlearned_batches = {}, None
            if source is not None:
                self.partitions[LEARNER] = source.committed()
                self._add_values({LEARNER: source})
            self._metrics["learning"].set(source is not None)

    def cannot_learn(self) -> None:
        """Record that this process can no longer learn."""
        with self.registry.lock:
            self._metrics["learning_failed"].set(1)

    def handled(self, batch: Handled, of: int = 0) -> None:
        """Add a batch to the open transaction of the partitions or of the learner."""
        self._opened[min(of, 0)].include(batch)

    def committed(
        self, sources: Mapping[int, MetricsSource], seconds: float, snapshot_bytes: int
    ) -> None:
        """Count what these sources committed."""
        with self.registry.lock:
            opened = self._opened.pop(min(0, *sources), None) or OpenTransaction()
            done: Tally[str] = Tally()
            scores: defaultdict[str, float] = defaultdict(float)
            for partition, source in sources.items():
                current, previous = source.committed(), self.partitions[partition]
                done.update({name: n - previous.counts[name] for name, n in current.counts.items()})
                for name, amount in current.scores_since(previous).items():
                    scores[name] += amount
                self.partitions[partition] = current
            self._add_values(sources)
            for source in sources.values():
                self.lanes.include(source.take_seen())
                self.history.record_confusion(time.time(), source.take_confusion())
            # A label stamped before its prediction has no delay.
            delays = [max(delay, 0) / 1000 for delay in opened.delays]
            commit = Commit(
                done, scores, opened.outputs, opened.divided, opened.faults, opened.requested,
                opened.answers, delays, seconds, snapshot_bytes,
            )  # fmt: skip
            for row in table.COMMITTED:
                table.count(self._metrics[row.name], row.of(commit))
            counts = {name: done[name] for name in IN_HISTORY}
            counts["asked"], counts["answered"] = opened.requested.total(), opened.answers
            times = {"commits": 1, "commit_seconds": seconds, "commit_longest": seconds}
            self.history.record(time.time(), delays, **counts, **scores, **times)
            self.letters += opened.letters

    def tell(
        self,
        faults: Sequence[tuple[Source, str]] = (),
        without_id: Sequence[Source] = (),
        letters: Sequence[Letter] = (),
        divided: Sequence[Source] = (),
    ) -> None:
        """Name in the log the first prediction with an invalid column value, that no label can
        find, of those divided by their sum, and the first dead letter; others are counted."""
        if faults:
            self._tell_first("fault", f"{place(faults[0][0])}: {faults[0][1]}")
        if without_id:
            where = place(without_id[0])
            self._tell_first("id", f"{where}: no id (the key, or as id says), so no label finds it")
        for letter in letters:
            where = f"{letter.topic}-{letter.partition} offset {letter.offset}"
            self._tell_first(f"letter {letter.topic}", f"{where}: a dead letter: {letter.reason}")
        if divided:
            self._tell_first("sum", f"from {place(divided[0])} on: rows divided by their sum")

    def _tell_first(self, kind: str, event: str) -> None:
        if kind not in self._named_kinds:
            self._named_kinds.add(kind)
            log.warning("%s; further ones are only counted, see /metrics", event)

    def given_up(self, outcome: str) -> None:
        """End the partitions' open transaction, if any, as "aborted" or "unknown", and drop the
        partitions."""
        with self.registry.lock:
            if self._opened.pop(0, None) is not None:
                self._metrics["transactions"].labels(outcome).inc()
                self.history.record(time.time(), given_up=1)
            self._forget()

    def left_out(self) -> None:
        """Count a sent batch that cannot be played."""
        self._metrics["left_out_batches"].inc()

    def handed_over(self, backlog: Backlog | None) -> None:
        """Record what was handed over to the learner and is not answered."""
        self.backlog = backlog
        self._metrics["handed_over_records"].set(0 if backlog is None else backlog.waiting)

    def lost(self, offsets: int) -> None:
        """Count offsets that topics no longer hold, though nobody has learned them."""
        self._metrics["lost_records"].inc(offsets)

    def lags(self, lag: Mapping[tuple[str, int], int], of: int = 0) -> None:
        """Record the lag by (input, labels or sent, partition), from the partitions or the
        learner."""
        with self.registry.lock:
            self._metrics["lag_records"].clear()
            self._lags[of] = dict(lag)
            lag = self.lag = {place: n for lags in self._lags.values() for place, n in lags.items()}
            waiting = sum(records for (source, _), records in lag.items() if source == "input")
            self.history.record(time.time(), lag=waiting)
            for (source, partition), records in lag.items():
                self._metrics["lag_records"].labels(source, partition).set(records)

    def _add_values(self, sources: Mapping[int, MetricsSource]) -> None:
        """Add scores of column values since the last commit."""
        for source in sources.values():
            for name, scores in source.take_values().items():
                self.values.setdefault(name, ColumnScores(MOST_VALUES)).update(scores)

    @property
    def episodes(self) -> dict[LaneName, Episode]:
        """Open episodes of the alarm."""
        return dict(self._episodes())

    def _forget(self) -> None:
        """Drop everything that belongs to assigned partitions."""
        learner = self.partitions.get(LEARNER)
        self.backlog = None
        self.partitions, self.lag = {} if learner is None else {LEARNER: learner}, {}
        self._lags.pop(0, None)
        if learner is None:
            self.values = {}
        self._metrics["partitions"].set(0)
        self._metrics["lag_records"].clear()

    def _set_gauges(self) -> None:
        """Set the gauges of correctors and open requests."""
        for row in (*table.LEARNED, *table.REQUESTS):
            self._metrics[row.name].clear()
        self._metrics["registry_away"].set(bool(self._waits_for()))
        table.set_expected(self._metrics["expected_accuracy"], self.history)
        sides = {episode.side for episode in self.episodes.values()}
        for side, stage in enumerate(SIDES):
            self._metrics["worse"].labels(stage).set(side in sides)
        if not self.partitions:
            return
        known = self._known()
        requests = {n: committed.requests or (0, None) for n, committed in self.partitions.items()}
        for row in table.LEARNED if known else ():
            table.set_to(self._metrics[row.name], 0, row.of(known))
        for row in table.REQUESTS:
            for partition, source in requests.items():
                table.set_to(self._metrics[row.name], partition, row.of(source))
