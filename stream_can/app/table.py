"""The metrics: name, help text and source of each.

Counters and histograms count what was committed; learned values are read when scraped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stream_can.app.commit import SIDES, Commit
from stream_can.app.correctors_in_use import CorrectorsInUse
from stream_can.app.history import DELAYS, History
from stream_can.app.status_windows import hour_of

COMMIT_ENDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
RESTORE_ENDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
Values = float | None | list[float] | Mapping[str, float]
"""A number or None; an observation for a histogram; numbers by the value of the last label."""


def age(timestamp: int, now: float | None = None) -> float:
    """Seconds since a Kafka timestamp, which is in milliseconds."""
    return max(0.0, (time.time() if now is None else now) - timestamp / 1000)


LANE = ("model", "version")


class Row(NamedTuple):
    """One metric."""

    name: str
    """Follows ``stream_can_``; Prometheus appends ``_total`` for counters."""
    kind: type[Counter | Gauge | Histogram]
    help: str
    of: Callable[[Any], Values] = lambda source: None
    """Returns its value from the source."""
    labels: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    """Label values initialised to 0, since rate() misses the first increment otherwise."""
    ends: tuple[float, ...] = ()
    """Bucket bounds of a histogram."""


COMMITTED = (
    Row("predictions", Counter, "Input records committed", Commit.predictions, ("result",),
        ("corrected", "tombstone", "dead_letter")),
    Row("labels", Counter, "Label records committed", Commit.labels, ("result",),
        ("matched", "unmatched", "repeated", "tombstone", "dead_letter")),
    Row("normalised_rows", Counter, "Predictions divided by their sum", lambda c: c.normalised),
    Row("rows_dropped", Counter, "Predictions that a server dropped without learning from them",
        lambda c: c.counts["dropped"]),
    Row("values_not_given", Counter, "Predictions with an invalid segment value",
        lambda c: c.faults),
    Row("predictions_without_id", Counter, "Predictions without an id, which no label can find",
        lambda c: c.counts["without_id"]),
    Row("label_requests", Counter, "Label requests sent", lambda c: c.requested, ("reason",),
        ("random", "margin")),
    Row("label_requests_answered", Counter, "Requested labels that arrived",
        lambda c: c.answered),
    Row("transactions", Counter, "Transactions, by outcome", lambda c: {"committed": 1},
        ("outcome",), ("committed", "aborted", "unknown")),
    Row("snapshot_bytes", Counter, "Bytes of sent batches and states committed",
        lambda c: c.snapshot_bytes),
    Row("scored", Counter, "Sent predictions whose label arrived, by its weight",
        lambda c: c.scores["scored"]),
    Row("hits", Counter, "Scored predictions whose likeliest class was the label",
        lambda c: c.sides("hits"), ("stage",), SIDES),
    Row("log_loss", Counter, "Sum of the scored predictions' log loss, in nats",
        lambda c: c.sides("log_loss"), ("stage",), SIDES),
    Row("set_rows", Counter, "Predictions sent with a prediction set",
        lambda c: c.scores["set_rows"]),
    Row("set_classes", Counter, "Classes in prediction sets", lambda c: c.scores["set_classes"]),
    Row("set_labels", Counter, "Labels of predictions whose set is known",
        lambda c: c.scores["set_labels"]),
    Row("set_kept", Counter, "Labels that are in their set", lambda c: c.scores["set_kept"]),
    Row("label_delay_seconds", Histogram, "Seconds from a prediction to its label, by timestamp",
        lambda c: c.delays, ends=DELAYS),
    Row("commit_seconds", Histogram, "Seconds to commit a transaction",
        lambda c: [c.seconds], ends=COMMIT_ENDS),
)  # fmt: skip
"""Metrics of each `Commit`."""


def _of(name: str) -> Callable[[CorrectorsInUse], Values]:
    """Return a getter for an attribute of the only corrector, where it has that attribute."""
    return lambda known: None if known.lanes is not None else getattr(known.corrector, name, None)


LEARNED = (
    Row("effective_sample_size", Gauge, "Decayed sum of the labels learned",
        _of("effective_sample_size"), ("partition",)),
    Row("path_weight", Gauge, "Weight of a path in the mixture", _of("weights"),
        ("partition", "path")),
    Row("final_weight", Gauge, "Weight of each row in the output",
        _of("final_weights"), ("partition", "row")),
    Row("last_temperature", Gauge, "Temperature of the tempered mixture", _of("last_temperature"),
        ("partition",)),
    Row("coverage", Gauge, "Share of the correction that is applied, from 0 to 1",
        _of("coverage"), ("partition",)),
    # Only the number: a series for each of thousands of classes would be too many.
    Row("silent_classes", Gauge, "Classes left out of learning, as they got no labels",
        lambda known: None if known.lanes is not None else known.n_silent,
        ("partition",)),
    Row("state_number", Gauge, "Number of the state in use",
        lambda known: known.offset, ("partition",)),
    Row("learned_labels", Gauge, "Labels learned by the state in use", _of("n_labels"),
        ("partition",)),
    Row("state_age_seconds", Gauge, "Seconds since the state was written, or a server learned",
        lambda known: None if known.newest is None else age(known.newest), ("partition",)),
    Row("changed_labels", Gauge, "Labels that contradicted the first label of their prediction",
        lambda known: known.changed, ("partition",)),
    Row("early_labels", Gauge, "Labels given up by this process before their prediction came",
        lambda known: known.early, ("partition",)),
    Row("lanes", Gauge, "Models and versions in use",
        lambda known: None if known.lanes is None else len(known.lanes), ("partition",)),
    Row("lanes_dropped", Gauge, "Models and versions dropped because of max_lanes",
        lambda known: None if known.lanes is None else known.dropped, ("partition",)),
    Row("foreign_records", Gauge, "Foreign records among the sent batches, skipped",
        lambda known: known.foreign, ("partition",)),
)  # fmt: skip
"""Metrics of `CorrectorsInUse`, under partition 0."""

REQUESTS = (
    Row("open_label_requests", Gauge, "Label requests without a label yet",
        lambda requests: requests[0], ("partition",)),
    Row("oldest_label_request_seconds", Gauge, "Seconds since the oldest open label request",
        lambda requests: 0 if requests[1] is None else age(requests[1]), ("partition",)),
)  # fmt: skip
"""Metrics of each assigned partition: open requests, and the oldest's age."""

LANES = (
    Row("lane_records", Counter, "Predictions of a model and version", labels=LANE),
    Row("lane_scored", Counter, "Scored predictions of a model and version", labels=LANE),
    Row("lane_hits", Counter, "Hits among the scored predictions of a model and version",
        labels=(*LANE, "stage")),
    Row("lane_log_loss", Counter, "Sum of the log loss of a model and version, in nats",
        labels=(*LANE, "stage")),
)  # fmt: skip
"""Metrics of the first 50 lanes, and of the others together, where messages name models."""

ELSEWHERE = (
    Row("rebalances", Counter, "Partition assignments taken over"),
    Row("restore_seconds", Histogram, "Seconds to restore the partitions of one assignment",
        ends=RESTORE_ENDS),
    Row("registry_away", Gauge, "1 while records wait for a schema registry that does not answer"),
    Row("worse", Gauge, "1 while the classifier, or the output, is worse than it was",
        labels=("stage",), first=SIDES),
    Row("expected_accuracy", Gauge, "Expected accuracy of the rows of the last hour, and the ends"
        " of its 95 % interval, whether their labels came or not", labels=("bound",)),
    Row("clock_skew_seconds", Gauge, "Seconds that the brokers' clock is ahead of this machine's"),
    Row("partitions", Gauge, "Partitions assigned and restored"),
    Row("learning", Gauge, "1 while this process is the application's learner"),
    Row("learning_failed", Gauge, "1 if this process can no longer learn"),
    Row("left_out_batches", Counter, "Sent batches that the learner could not replay and skipped"),
    Row("lost_records", Counter, "Offsets deleted before the learner had learned them"),
    Row("handed_over_records", Gauge, "Offsets of a backlog that the learner has yet to correct"),
    Row("lag_records", Gauge, "Offsets not yet processed", labels=("source", "partition")),
    Row("build_info", Gauge, "Release of stream_can in use", labels=("version",)),
)  # fmt: skip
"""Metrics that a worker sets on events."""


def make(registry: CollectorRegistry) -> dict[str, Any]:
    """Create every metric, by name."""
    metrics: dict[str, Any] = {}
    for row in (*COMMITTED, *LANES, *ELSEWHERE, *LEARNED, *REQUESTS):
        buckets: dict[str, Any] = {"buckets": row.ends} if row.ends else {}
        metric = row.kind(
            f"stream_can_{row.name}", row.help, row.labels, registry=registry, **buckets
        )
        for value in row.first:
            metric.labels(value)
        metrics[row.name] = metric
    return metrics


def count(metric: Any, values: Values) -> None:
    """Add to a counter, or observe in a histogram."""
    if isinstance(values, list):
        for value in values:
            metric.observe(value)
    elif isinstance(values, Mapping):
        for label, value in values.items():
            metric.labels(label).inc(value)
    elif values is not None:
        metric.inc(values)


def count_lane(metrics: Mapping[str, Any], lane: Sequence[str], tally: Sequence[float]) -> None:
    """Add a lane's tally."""
    rows, scored, *sides = tally
    metrics["lane_records"].labels(*lane).inc(rows)
    metrics["lane_scored"].labels(*lane).inc(scored)
    for (name, side), value in zip(
        [(name, side) for name in ("lane_hits", "lane_log_loss") for side in SIDES],
        sides,
        strict=True,
    ):
        metrics[name].labels(*lane, side).inc(value)


def set_expected(metric: Any, history: History) -> None:
    """Set the gauge of expected accuracy and the ends of its interval, where there are rows."""
    metric.clear()
    now = time.time()
    expected = hour_of(history.hour.last(now), history.day.last(now)).expected_accuracy
    for bound in ("value", "low", "high") if expected is not None else ():
        metric.labels(bound).set(getattr(expected, bound))


def set_to(metric: Any, partition: int, values: Values) -> None:
    """Set a gauge of a partition."""
    if isinstance(values, Mapping):
        for label, value in values.items():
            metric.labels(partition, label).set(value)
    elif values is not None:
        metric.labels(partition).set(values)
