"""StatusReport: the status document of a worker, made in another thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from stream_can.app.correctors_in_use import CorrectorsInUse
from stream_can.app.counts import Committed
from stream_can.app.health import Health
from stream_can.app.metrics import LEARNER, Metrics
from stream_can.app.problems import problems
from stream_can.app.shown_name import shown_name
from stream_can.app.status import VERSION, Column, FewValues, Partition, Status, Value
from stream_can.app.status_lanes import (
    MOST_LANES,
    all_learned,
    lanes_of,
    two_versions,
    worse_lanes,
)
from stream_can.app.status_windows import confused, course_of, day_of, hour_of
from stream_can.app.table import age
from stream_can.column_scores import HEAVIEST, ColumnScores, ValueScores
from stream_can.learner.switch import CorrectionSwitch
from stream_can.version import __version__


class StatusReport:
    """Makes the status document of a worker; thread-safe.

    Parameters
    ----------
    application, instance
        Names of application and process.
    has_labels
        Whether the application has labels.
    health, metrics
        The worker's health and counts.
    known
        Returns the correctors in use; None before the first state.
    over_http
        Whether the program is a server.
    corrects
        Whether it corrects, and does not learn alone.
    """

    def __init__(
        self,
        application: str,
        instance: str,
        *,
        has_labels: bool,
        health: Health,
        metrics: Metrics,
        known: Callable[[], CorrectorsInUse | None],
        over_http: bool = False,
        corrects: bool = True,
    ) -> None:
        self._over_http, self._corrects = over_http, corrects
        self._application, self._instance = application, instance
        self._has_labels = has_labels
        self._health, self._metrics, self._known = health, metrics, known
        self._since = time.time()

    def status(self, now: float | None = None) -> Status:
        """The current document."""
        now, metrics = time.time() if now is None else now, self._metrics
        with metrics.registry.lock:
            history = metrics.history
            hour, day = history.hour.last(now), history.day.last(now)
            confusion = history.confusion(now)
            lag, letters = dict(metrics.lag), list(metrics.letters)[::-1]
            partitions = dict(metrics.partitions)
            tallies, refused = dict(metrics.lanes.tallies), metrics.lanes.refused
            worse = worse_lanes(metrics.episodes, tallies)
            versions = {pair: two_versions(pair, x) for pair, x in metrics.lanes.versions.items()}
            values = {name: column.copy() for name, column in metrics.values.items()}
        known = self._known()
        learned = [] if known is None else list(all_learned(known, tallies, now))
        inputs = [waiting for (source, _), waiting in lag.items() if source == "input"]
        held = [_partition(p, counts, lag) for p, counts in sorted(partitions.items()) if p >= 0]
        requests = [p.requests for p in partitions.values() if p.requests is not None]
        oldest = [when for _, when in requests if when is not None]
        ran = now - self._since
        hour_course = course_of(hour, 6, history.hour.seconds, now, ran)
        document = Status(
            version=VERSION,
            release=__version__,
            application=self._application,
            instance=self._instance,
            has_labels=self._has_labels,
            time=now,
            since=self._since,
            live=self._health.live,
            ready=self._health.ready,
            records_per_second=hour_course.rates[-1] or 0.0,
            lag=sum(inputs) if inputs and not self._health.away else None,
            open_requests=sum(n for n, _ in requests) if requests else None,
            oldest_request=age(min(oldest), now) if oldest else None,
            n_classes=0 if known is None else known.n_classes,
            hour=hour_of(hour, day),
            day=day_of(day, hour),
            hour_course=hour_course,
            day_course=course_of(day, 3, history.day.seconds, now, ran),
            learned=learned,
            confused=[] if known is None or known.lanes is not None else confused(
                confusion, getattr(known.corrector, "classes", ())
            ),
            partitions=held,
            dead_letters=letters,
            n_dead_letters=sum(p.counts["dead_letters"] for p in partitions.values()),
            history_bytes=history.nbytes,
            columns=[column_of(name, column) for name, column in values.items()],
            **lanes_of(known, tallies),
            versions=sorted(
                filter(None, versions.values()), key=lambda pair: -pair.labels
            )[:MOST_LANES],
            waits_for=self._health.waits_for,
            away=self._health.away,
            unlearned=self._health.unlearned,
            backlog=metrics.backlog,
            unlearned_batches=metrics.unlearned_batches,
            over_http=self._over_http,
            cannot_learn=self._health.cannot_learn,
            refuses_labels=self._health.refuses_labels,
            unowned={p: n for (source, p), n in metrics.lag.items() if source == "unowned"},
            corrects=self._corrects,
            learns=LEARNER in partitions,
            worse=worse,
            changed_labels=0 if known is None else known.changed,
            sets=None if known is None else known.sets,
            passes=[] if known is None else _passed(known.switch),
            refused=refused[0] if now - refused[1] < 3600 else 0,
        )  # fmt: skip
        document.problems = problems(document)
        return document

    def json(self) -> bytes:
        """The current document as JSON."""
        return msgspec.json.encode(self.status())


def _passed(switch: CorrectionSwitch) -> list[str]:
    """The models that are not corrected; ``*`` is all others."""
    return ["*"] * (not switch.all) + sorted(
        shown_name(model) for model, corrects in switch.models.items() if not corrects
    )


def _partition(number: int, committed: Committed, lag: Mapping[tuple[str, int], int]) -> Partition:
    """Counts and lag of a partition."""
    counts = committed.counts
    waiting = lag.get(("input", number))
    records = counts["predictions"] + counts["handed_over"]
    return Partition(number, waiting, records, counts["dead_letters"])


def column_of(name: str, column: ColumnScores) -> Column:
    """Scores by value of a column; of many values only the most frequent are named."""
    few = column.one_sided()
    return Column(
        name=shown_name(name),
        rows=column.rows,
        labels=column.labels,
        values=[_value(value) for value in column.values(HEAVIEST)],
        few=few and FewValues([shown_name(value.value) for value in few[0]], *few[1:]),
    )


def _value(value: ValueScores) -> Value:
    pairs = (*value.accuracy, *value.log_loss, *value.calibration)
    scores = pairs if value.scored else (None,) * len(pairs)
    scored = round(value.scored)
    return Value(shown_name(value.value), value.rows, value.labels, scored, *scores)
