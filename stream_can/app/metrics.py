"""Metrics: counts and learned state of a worker for Prometheus.

Counters change when a transaction commits, so repeated work counts once; a scrape sees all of a
commit or nothing of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter as Tally
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Metric, ProcessCollector

from stream_can.app import table
from stream_can.app.correctors_in_use import CorrectorsInUse
from stream_can.app.counts import Committed, Handled, MetricsSource
from stream_can.app.history import History
from stream_can.app.letters import KEPT, Letter
from stream_can.app.status import Backlog
from stream_can.app.table import SIDES, Commit
from stream_can.app.tally import MOST_VALUES
from stream_can.app.versions import MOST_PAIRS, Comparison, Pair
from stream_can.column_scores import ColumnScores
from stream_can.messages.naming import LaneName
from stream_can.messages.records import Source, place
from stream_can.trust.alarm import Episode
from stream_can.version import __version__

log = logging.getLogger(__name__)

MOST_SERIES, OTHERS = 50, LaneName("other", "")
"""Maximum number of lanes with series of their own; the rest share one."""
MOST_LANES = 1000
LEARNER = -1
"""Key in place of a partition for counts of the application's learner."""


class MetricsRegistry(CollectorRegistry):
    """The metrics of a worker, collected while its loop does not change them.

    Parameters
    ----------
    look
        Called before each collection: sets gauges that are not counted.
    """

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """Every metric, without creation times of counters."""
        with self.lock:
            self._look()
            metrics = list(super().collect())
        for metric in metrics:
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            for sample in metric.samples:
                if sample.labels.get("le", "+Inf") != "+Inf":
                    # prometheus_client would write 2.592e+06, beside 2592000.0 another series.
                    sample.labels["le"] = str(float(sample.labels["le"]))
        yield from metrics


class _Open:
    """Content of an open transaction."""

    def __init__(self) -> None:
        self.outputs = self.divided = self.faults = self.answers = 0
        self.delays: list[int] = []
        self.requested: Tally[str] = Tally()
        self.letters: deque[Letter] = deque(maxlen=KEPT)

    def include(self, batch: Handled) -> None:
        """Add a batch."""
        self.outputs += batch.outputs
        self.delays += batch.delays
        self.divided += batch.normalised
        self.faults += batch.faults
        self.answers += batch.answered
        self.requested.update(batch.requested)
        self.letters += batch.letters


SETS = ("set_rows", "set_classes", "set_labels", "set_kept")


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
        self.registry = registry = MetricsRegistry(self._look)
        self._known, self._waits_for = known, waits_for
        self._metrics = table.make(registry)
        self._metrics["build_info"].labels(__version__).set(1)
        ProcessCollector(registry=registry)

        self.history = History()
        self._lags: dict[int, dict[tuple[str, int], int]] = {}
        self.lag: dict[tuple[str, int], int] = {}
        """(input or labels, partition) -> lag when last queried."""
        self.backlog: Backlog | None = None
        """What was handed over to the learner when last asked."""
        self.partitions: dict[int, Committed] = {}
        """Counts of the assigned partitions."""
        self.values: dict[str, ColumnScores] = {}
        """Scores by value of each declared column, since the last assignment."""
        self.lanes: dict[LaneName, NDArray[np.float64]] = {}
        """Tally of each lane since this process started."""
        self.versions: dict[Pair, Comparison] = {}
        """Versions of a model on the same labels, since this process started."""
        self.refused: tuple[int, float] = 0, 0.0
        """Predictions refused because of too many models, and the time of the last."""
        self._own_series: dict[LaneName, LaneName] = {}
        self.letters: deque[Letter] = deque(maxlen=KEPT)
        self._episodes = episodes
        self._named_kinds: set[str] = set()
        """What the log has named the first of."""
        self._opened: dict[int, _Open] = {}
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
            self.values = {}
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
        opened = self._opened.get(min(of, 0))
        if opened is None:
            opened = self._opened[min(of, 0)] = _Open()
        opened.include(batch)

    def committed(
        self, sources: Mapping[int, MetricsSource], seconds: float, snapshot_bytes: int
    ) -> None:
        """Count what these sources committed."""
        with self.registry.lock:
            opened = self._opened.pop(min(0, *sources), None) or _Open()
            done: Tally[str] = Tally()
            scores: defaultdict[str, float] = defaultdict(float)
            for partition, source in sources.items():
                current, previous = source.committed(), self.partitions[partition]
                done.update({name: n - previous.counts[name] for name, n in current.counts.items()})
                scores["scored"] += current.scored - previous.scored
                for stage in current.hits:
                    scores[f"hits_{stage}"] += current.hits[stage] - previous.hits[stage]
                    loss = current.log_loss[stage] - previous.log_loss[stage]
                    scores[f"log_loss_{stage}"] += loss
                for name, n, n_before in zip(SETS, current.sets, previous.sets, strict=True):
                    scores[name] += n - n_before
                self.partitions[partition] = current
            self._add_values(sources)
            self._add_lanes(sources)
            # A label stamped before its prediction has no delay.
            delays = [max(delay, 0) / 1000 for delay in opened.delays]
            commit = Commit(
                done, scores, opened.outputs, opened.divided, opened.faults, opened.requested,
                opened.answers, delays, seconds, snapshot_bytes,
            )  # fmt: skip
            for row in table.COMMITTED:
                table.count(self._metrics[row.name], row.of(commit))
            counts = {
                name: done[name]
                for name in (
                    "predictions",
                    "labels",
                    "matched",
                    "unmatched",
                    "repeated",
                    "early",
                    "dead_letters",
                    "without_id",
                )
            }
            counts["asked"], counts["answered"] = opened.requested.total(), opened.answers
            times = {"commits": 1, "commit_seconds": seconds, "commit_longest": seconds}
            self.history.record(time.time(), delays, **counts, **scores, **times)
            self.letters += opened.letters

    def tell(
        self,
        faults: Sequence[tuple[Source, str]] = (),
        without_id: Sequence[Source] = (),
        letters: Sequence[Letter] = (),
    ) -> None:
        """Name in the log the first prediction with an invalid column value, the first that no
        label can find, and the first dead letter; the others are counted."""
        if faults:
            self._tell_first("fault", f"{place(faults[0][0])}: {faults[0][1]}")
        if without_id:
            self._tell_first("id", f"{place(without_id[0])}: no id, so no label finds it")
        if letters:
            letter = letters[0]
            where = f"{letter.topic}-{letter.partition} offset {letter.offset}"
            self._tell_first(
                f"letter of {letter.topic}", f"{where}: a dead letter: {letter.reason}"
            )

    def _tell_first(self, kind: str, event: str) -> None:
        if kind not in self._named_kinds:
            self._named_kinds.add(kind)
            log.warning("%s; further ones are counted, see /metrics", event)

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

    def _add_lanes(self, sources: Mapping[int, MetricsSource]) -> None:
        """Add tallies of lanes since the last commit."""
        for source in sources.values():
            seen = source.take_seen()
            if seen is None:
                return
            for name, tally in seen.tallies.items():
                self.lanes[name] = self.lanes.get(name, 0.0) + tally
                series = self._own_series.get(name, OTHERS)
                if series is OTHERS and len(self._own_series) < MOST_SERIES:
                    series = self._own_series[name] = name
                table.count_lane(self._metrics, series, tally.tolist())
            if len(self.lanes) > 2 * MOST_LANES:
                most = sorted(self.lanes, key=lambda name: -self.lanes[name][0])[:MOST_LANES]
                self.lanes = {name: self.lanes[name] for name in most}
            for pair, comparison in seen.versions.items():
                self.versions.setdefault(pair, Comparison()).update(comparison)
            while len(self.versions) > MOST_PAIRS:
                del self.versions[next(iter(self.versions))]
            if seen.refused:
                self.refused = self.refused[0] + seen.refused, time.time()

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

    def _look(self) -> None:
        """Set the gauges of correctors and open requests."""
        for row in (*table.LEARNED, *table.REQUESTS):
            self._metrics[row.name].clear()
        self._metrics["registry_away"].set(bool(self._waits_for()))
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
