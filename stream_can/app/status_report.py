"""StatusReport: the status document of a worker, made in another thread."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_can.app.correctors_in_use import CorrectorInUse, CorrectorsInUse
from stream_can.app.counts import Committed
from stream_can.app.health import Health
from stream_can.app.history import Slots
from stream_can.app.learned import Knowledge, Share
from stream_can.app.metrics import LEARNER, Metrics
from stream_can.app.problems import problems
from stream_can.app.status import (
    VERSION,
    ClassShare,
    Column,
    CourseStatus,
    FewValues,
    LaneScores,
    LearnedStatus,
    Partition,
    Score,
    Side,
    Status,
    TwoVersions,
    Value,
    Window,
    Worse,
)
from stream_can.app.table import age
from stream_can.app.versions import Comparison, Pair
from stream_can.change import Change
from stream_can.column_scores import HEAVIEST, ColumnScores, ValueScores
from stream_can.learner.switch import CorrectionSwitch
from stream_can.messages.naming import UNNAMED, LaneName
from stream_can.row_kinds import part
from stream_can.trust.alarm import Episode
from stream_can.version import __version__

MOST_CLASSES = 300
MOST_CLASSES_OF_LANE = 20
MOST_CHANGED = 20
MOST_SILENT = 20
MOST_LANES, MOST_LEARNED = 50, 20
"""Maximum number of lanes with scores, and with learned details, in the document."""
Tally = NDArray[np.float64]
LONGEST_NAME = 80
COUNTED = (
    "labels", "matched", "unmatched", "dead_letters", "asked", "answered", "commits", "given_up",
    "repeated", "early", "without_id",
)  # fmt: skip
"""History sums copied to a window unchanged."""


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
            lag, letters = dict(metrics.lag), list(metrics.letters)[::-1]
            partitions = dict(metrics.partitions)
            tallies, refused = dict(metrics.lanes), metrics.refused
            worse = _worse(metrics.episodes, tallies)
            versions = {pair: _two_versions(pair, x) for pair, x in metrics.versions.items()}
            values = {name: column.copy() for name, column in metrics.values.items()}
        known = self._known()
        learned = [] if known is None else list(_all_learned(known, tallies, now))
        inputs = [waiting for (source, _), waiting in lag.items() if source == "input"]
        held = [_partition(p, counts, lag) for p, counts in sorted(partitions.items()) if p >= 0]
        requests = [p.requests for p in partitions.values() if p.requests is not None]
        oldest = [when for _, when in requests if when is not None]
        ran = now - self._since
        hour_course = _course(hour, 6, history.hour.seconds, now, ran)
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
            hour=_window(hour),
            day=_of_day(day, hour),
            hour_course=hour_course,
            day_course=_course(day, 3, history.day.seconds, now, ran),
            learned=learned,
            partitions=held,
            dead_letters=letters,
            n_dead_letters=sum(p.counts["dead_letters"] for p in partitions.values()),
            history_bytes=history.nbytes,
            columns=[_column(name, column) for name, column in values.items()],
            **_lanes(known, tallies),
            versions=sorted(
                filter(None, versions.values()), key=lambda pair: -pair.labels
            )[:MOST_LANES],
            waits_for=self._health.waits_for,
            away=self._health.away,
            backlog=metrics.backlog,
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


def _text(name: object) -> str:
    """A name of bounded length; whoever displays it must escape it."""
    text, half = str(name), LONGEST_NAME // 2
    return text if len(text) <= LONGEST_NAME else f"{text[:half]}…{text[1 - half :]}"


def _score(change: Change | None) -> Score | None:
    if change is None:
        return None
    return Score(change.before, change.after, *(change.interval or (None, None)))


def _window(slots: Slots) -> Window:
    commits = int(slots.total("commits"))
    delay = slots.delay(0.5) or (None, None)
    return Window(
        scored=int(slots.total("scored")),
        accuracy=_score(slots.change("hits")),
        log_loss=_score(slots.change("log_loss")),
        records=int(slots.total("predictions")),
        **{name: int(slots.total(name)) for name in COUNTED},
        commit_mean=slots.total("commit_seconds") / commits if commits else None,
        commit_longest=slots.total("commit_longest") if commits else None,
        delay_from=delay[0],
        delay_to=delay[1],
        set_labels=int(slots.total("set_labels")),
        set_kept=_mean(slots, "set_kept", "set_labels"),
        set_size=_mean(slots, "set_classes", "set_rows"),
    )


def _mean(slots: Slots, total: str, count: str) -> float | None:
    n = slots.total(count)
    return slots.total(total) / n if n else None


def _of_day(day: Slots, hour: Slots) -> Window:
    """The day's figures; standard errors come from the finer slots while the hour has all
    labels."""
    window = _window(day)
    if window.scored == hour.total("scored"):
        window.accuracy, window.log_loss = (_score(hour.change(s)) for s in ("hits", "log_loss"))
    return window


def _course(slots: Slots, merged: int, seconds: int, now: float, ran: float) -> CourseStatus:
    """Means and counts of steps of ``merged`` slots."""
    slots, step = slots.merged(merged), merged * seconds
    n = slots["scored"].tolist()

    def means(name: str) -> list[float | None]:
        sums = slots[name].tolist()
        return [x / labels if labels else None for x, labels in zip(sums, n, strict=True)]

    rates: list[float | None] = []
    began = step - seconds + now % seconds  # age of its beginning: the last slot is not over
    for records in slots["predictions"][::-1].tolist():
        lasted = min(began, ran) - max(0.0, began - step)
        rates.append(records / max(1.0, lasted) if lasted > 0 else None)
        began += step
    return CourseStatus(
        seconds=step,
        accuracy_before=means("hits_before"),
        accuracy_after=means("hits_after"),
        log_loss_before=means("log_loss_before"),
        log_loss_after=means("log_loss_after"),
        records=slots["predictions"].astype(int).tolist(),
        lag=slots["lag"].astype(int).tolist(),
        rates=rates[::-1],
    )


def _all_learned(
    known: CorrectorsInUse, tallies: Mapping[LaneName, Tally], now: float
) -> Iterator[LearnedStatus]:
    """Describe each corrector; of many, those with most records here."""
    lanes = known.lanes
    if lanes is None:
        yield _learned(known, known.corrector, now)
        return
    for name in sorted(lanes, key=lambda name: (-_rows(tallies, name), name))[:MOST_LEARNED]:
        yield _learned(known, lanes[name].corrector, now, name)


def _rows(tallies: Mapping[LaneName, Tally], name: LaneName) -> float:
    return float(tallies[name][0]) if name in tallies else 0.0


def _lanes(known: CorrectorsInUse | None, tallies: Mapping[LaneName, Tally]) -> dict[str, Any]:
    """The part of a status about lanes; empty without models."""
    if known is None or known.lanes is None:
        return {}
    lanes: Mapping[LaneName, CorrectorInUse] = known.lanes
    heaviest = sorted(tallies, key=lambda name: (-_rows(tallies, name), name))[:MOST_LANES]
    return {
        "n_lanes": len(lanes),
        "max_lanes": known.max_lanes,
        "lanes": [_lane(name, lanes.get(name), tallies[name].tolist()) for name in heaviest],
    }


def _worse(last: Mapping[LaneName, Episode], tallies: Mapping[LaneName, Tally]) -> list[Worse]:
    """Copy open episodes."""
    heaviest = sorted(last, key=lambda name: (-_rows(tallies, name), name))[:MOST_LEARNED]
    return [Worse(_text(name), copy.copy(last[name])) for name in heaviest]


def _lane(name: LaneName, in_use: CorrectorInUse | None, tally: Sequence[float]) -> LaneScores:
    rows, n, *sides = tally
    means = [side / n if n else None for side in sides]
    predecessor = None if in_use is None else in_use.predecessor
    learned = 0 if in_use is None else in_use.corrector.n_labels
    return LaneScores(
        _text(name.model), _text(name.version), None if predecessor is None else _text(predecessor),
        learned, int(rows), int(n), *means,
    )  # fmt: skip


def _two_versions(pair: Pair, comparison: Comparison) -> TwoVersions | None:
    sides = []
    for sent in (False, True):
        changes = comparison.changes(sent=sent)
        if changes is None:
            return None
        accuracy, log_loss = _score(changes.accuracy), _score(changes.log_loss)
        assert accuracy is not None
        assert log_loss is not None
        sides.append(Side(accuracy, log_loss))
    model, version, other = map(_text, pair)
    return TwoVersions(model, version, other, comparison.n, *sides)


def _learned(
    known: CorrectorsInUse, corrector: Any, now: float, lane: LaneName = UNNAMED
) -> LearnedStatus:
    """Describe a corrector; of many classes only the most frequent are named."""
    about = part(corrector.row_kind, "about")
    knowledge: Knowledge = about.learned(
        corrector, MOST_CLASSES if lane == UNNAMED else MOST_CLASSES_OF_LANE
    )
    silent = knowledge.silent
    return LearnedStatus(
        offset=known.offset,
        labels=corrector.n_labels,
        effective_sample_size=corrector.effective_sample_size,
        age=None if known.newest is None else age(known.newest, now),
        log_loss_before=knowledge.log_loss_before,
        log_loss_after=knowledge.log_loss_after,
        log_loss_fitted=knowledge.log_loss_fitted,
        weights=corrector.weights,
        final_weights=corrector.final_weights,
        last_temperature=knowledge.last_temperature,
        coverage=knowledge.coverage,
        silent=[_text(name) for name in silent[:MOST_SILENT]],
        n_silent=len(silent),
        classes=_shares(knowledge.classes),
        changed=_shares(knowledge.changed[:MOST_CHANGED]),
        lane=_text(lane),
    )


def _shares(shares: Iterable[Share]) -> list[ClassShare]:
    return [ClassShare(_text(name), labels, rows) for name, labels, rows in shares]


def _passed(switch: CorrectionSwitch) -> list[str]:
    """The models that are not corrected; ``*`` is all others."""
    return ["*"] * (not switch.all) + sorted(
        _text(model) for model, corrects in switch.models.items() if not corrects
    )


def _partition(number: int, committed: Committed, lag: Mapping[tuple[str, int], int]) -> Partition:
    """Counts and lag of a partition."""
    counts = committed.counts
    waiting = lag.get(("input", number))
    records = counts["predictions"] + counts["handed_over"]
    return Partition(number, waiting, records, counts["dead_letters"])


def _column(name: str, column: ColumnScores) -> Column:
    """Scores by value of a column; of many values only the most frequent are named."""
    few = column.one_sided()
    return Column(
        name=_text(name),
        rows=column.rows,
        labels=column.labels,
        values=[_value(value) for value in column.values(HEAVIEST)],
        few=few and FewValues([_text(value.value) for value in few[0]], *few[1:]),
    )


def _value(value: ValueScores) -> Value:
    pairs = (*value.accuracy, *value.log_loss, *value.calibration)
    scores = pairs if value.scored else (None,) * len(pairs)
    return Value(_text(value.value), value.rows, value.labels, value.scored, *scores)
