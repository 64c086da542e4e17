"""What people see of a worker: which figures, in which words, rounded how and in which order.

The page lays it out and decides nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_can.app.status import (
    Cell,
    Column,
    LearnedStatus,
    Name,
    Score,
    Sheet,
    Shown,
    ShownColumn,
    ShownLanes,
    ShownLearned,
    Status,
    Tile,
    Time,
    Window,
)

__all__ = ["shown"]

NOTHING = "\N{EN DASH}"
LEAST_SHARE = 0.0005
"""Weights below it are counted, not named."""
DAY = 86_400.0
BEFORE = (
    "One counts also where its prediction was sent before a restart, as far as the output topic"
    " still has it."
)
WINDOWS = ("", "last hour", "last day")
MIX_NOTE = (
    "What the labels say, the older ones counting less, and the mix that the corrector takes it"
    " for."
)

COLUMN_HEAD = ("value", "rows", "labels", "accuracy %", "log loss change", "calibration %")
COLUMNS_NOTE = (
    "Since this process learns, the values with most rows first; predictions"
    " that waited for their label then are among the rows. Calibration: how far accuracy is from"
    " the mean confidence."
)


LANE_HEAD = (
    "model", "version", "went on from", "records", "learned", "scored", "accuracy %", "log loss",
)  # fmt: skip
LANES_NOTE = (
    "The 50 with most records of this worker since it began. Learned: labels that the application"
    " has learned for it. A version that went on from another counts a tenth of that one's."
)
VERSION_HEAD = (
    "model", "versions", "rows", "labels", "accuracy %", "between", "log loss", "between"
)  # fmt: skip
VERSIONS_NOTE = (
    "Of the labels whose id both versions predicted, which came to this worker since it began."
    " Between: where the change from the first version to the second lies with 95 % confidence."
)


def shown(status: Status) -> Shown:
    """All that is said of a worker, in the order in which it is read."""
    s, hour = status, status.hour
    ages = [one.age for one in s.learned if one.age is not None]
    n, who = len(s.partitions), "server" if s.over_http else "worker"
    return Shown(
        title=[Name(s.application)],
        sub=[
            "server, state in " if s.over_http else "worker ", Name(s.instance),
            f", stream_can {s.release}, {_kinds(s)},"
            + ("" if s.over_http else f" {_count(n, 'partition', 'partitions')},"),
            " since ", Time(s.since, date=True),
        ],
        tiles=[
            Tile(_both(hour.accuracy, 100, 1), "accuracy %, last hour"),
            Tile(_both(hour.log_loss, 1, 3), "log loss, last hour"),
            Tile(_number(s.records_per_second), "records a second"),
            Tile(_number(s.lag), "records waiting"),
            Tile(_seconds(max(ages, default=None)), "since it learned"),
            Tile(_number(hour.dead_letters), "dead letters, last hour"),
        ],
        scores=Sheet(list(WINDOWS), _scores(s)),
        flow=Sheet(list(WINDOWS), _flow(s)),
        fair=_fair(s),
        requests=_requests(s),
        learned=[_learned(one, s.n_classes) for one in s.learned],
        learned_note=""
        if s.over_http
        else "Of the whole application: one process learns from all labels, for every worker.",
        letters=Sheet(
            ["time", "record", "reason"],
            [
                [
                    [Time(x.time)],
                    [
                        Name(
                            f"{x.topic}, message {x.offset}"
                            if s.over_http
                            else f"{x.topic}-{x.partition} offset {x.offset}"
                        )
                    ],
                    [Name(f"{x.error}: {x.reason}")],
                ]
                for x in s.dead_letters
            ],
        ),
        partitions=Sheet(
            ["partition", "waiting", "records", "dead"],
            [
                _row(
                    str(p.partition), _number(p.lag), _number(p.records),
                    _number(p.dead_letters),
                )
                for p in (() if s.over_http else s.partitions)
            ],
        ),
        foot=[
            f"The hour and the day are this {who}'s since ", Time(s.since),
            f", in {_number(s.history_bytes / 1000)} kB of its memory that do not grow.",
        ],
        columns=[_column(one) for one in s.columns],
        columns_note=COLUMNS_NOTE if s.columns else "",
        letters_note=_letters(s),
        lanes=_lanes(s),
    )  # fmt: skip


def _kinds(s: Status) -> str:
    if s.n_lanes is None:
        return _count(s.n_classes, "class", "classes")
    return _count(s.n_lanes, "model and version", "models and versions")


def _scores(s: Status) -> list[list[Cell]]:
    """Accuracy and log loss before and after, the change, and where it lies."""
    return [
        _row("labels", _number(s.hour.scored), _number(s.day.scored)),
        *_score("accuracy %", (s.hour.accuracy, s.day.accuracy), 100, 2),
        *_score("log loss", (s.hour.log_loss, s.day.log_loss), 1, 4),
        *_sets(s),
    ]


def _sets(s: Status) -> list[list[Cell]]:
    """Whether prediction sets keep what they promise."""
    if s.sets is None:
        return []
    kept, sizes = zip(*((w.set_kept, w.set_size) for w in (s.hour, s.day)), strict=True)
    return [
        _row("labels of prediction sets", _number(s.hour.set_labels), _number(s.day.set_labels)),
        _row(
            f"in the set %, promised {100 * s.sets:g}",
            *(None if x is None else f"{100 * x:.2f}" for x in kept),
        ),
        _row("classes in a set", *(None if x is None else f"{x:.2f}" for x in sizes)),
    ]


def _score(
    what: str, scores: tuple[Score | None, Score | None], factor: float, digits: int
) -> list[list[Cell]]:
    def signed(x: float) -> str:
        return _signed(factor * x, digits)

    def each(name: str, of: Callable[[Score], str]) -> list[Cell]:
        return _row(name, *(None if score is None else of(score) for score in scores))

    return [
        each(f"{what} before", lambda x: f"{factor * x.before:.{digits}f}"),
        each(f"{what} after", lambda x: f"{factor * x.after:.{digits}f}"),
        each("change", lambda x: signed(x.after - x.before)),
        each("between", lambda x: _between(x, factor, digits)),
    ]


def _flow(s: Status) -> list[list[Cell]]:
    """What came in, how late, what was asked for, and what went wrong."""
    runs = max(1.0, s.time - s.since)

    def each(what: str, of: Callable[[Window], str]) -> list[Cell]:
        return _row(what, of(s.hour), of(s.day))

    def a_second(hour: int, day: int) -> list[Cell]:
        rates = hour / min(3600, runs), day / min(DAY, runs)
        return _row("a second", *(f"{x:,.{2 if x < 10 else 0}f}" for x in rates))

    again = s.hour.repeated or s.day.repeated
    asked = [
        each("labels asked for", lambda w: _number(w.asked)),
        each("of these came", lambda w: _number(w.answered)),
    ]
    return [
        each("records", lambda w: _number(w.records)),
        a_second(s.hour.records, s.day.records),
        each("labels", lambda w: _number(w.labels)),
        a_second(s.hour.labels, s.day.labels),
        each(
            "found their prediction", lambda w: _percent(w.matched / w.labels if w.labels else None)
        ),
        *([each("came again, not learned", lambda w: _number(w.repeated))] if again else []),
        each("median delay", _delay),
        *([] if s.open_requests is None else asked),
        each("dead letters", lambda w: _number(w.dead_letters)),
        each("commits", lambda w: _number(w.commits)),
        each("given up", lambda w: _number(w.given_up)),
        each("mean commit", lambda w: _seconds(w.commit_mean)),
        each("longest commit", lambda w: _seconds(w.commit_longest)),
    ]


def _fair(s: Status) -> str:
    """How many labels are scored, and why these."""
    labels, scored = s.day.labels, s.day.scored
    if not s.has_labels:
        return ""
    if not labels:
        this = "server" if s.over_http else "worker"
        since = f"since this {this} began" if s.time - s.since < DAY else "in the last day"
        return f"No label has come {since}." + ("" if s.over_http else f" {BEFORE}")
    if s.open_requests is not None:
        why = ": those asked for at random, since the others are no fair sample"
    elif scored < labels:
        why = ": those whose prediction is known as it was sent"
    else:
        return f"All {labels:,} labels of the last day count."
    return f"{scored:,} of {labels:,} labels of the last day count{why}."


def _requests(s: Status) -> str:
    if s.open_requests is None:
        return ""
    oldest = f", the oldest for {_seconds(s.oldest_request)}" if s.open_requests else ""
    return f"Open label requests: {s.open_requests:,}{oldest}."


def _letters(s: Status) -> str:
    """How many dead letters there are: those below are the newest of this process."""
    n = s.n_dead_letters
    if not n:
        return ""
    if s.over_http:
        return f"{_count(n, 'bad message', 'bad messages')} since the state began."
    return f"{_count(n, 'dead letter', 'dead letters')} since this process has its partitions."


def _learned(one: LearnedStatus, n_classes: int) -> ShownLearned:
    """What corrects now, and the class mix."""
    facts: list[list[Cell]] = [
        _row(
            "labels",
            f"{one.labels:,}; it rests on the last {_number(one.effective_sample_size)} or so"
            if one.labels
            else None,
        ),
        _row(
            "recent log loss",
            None
            if one.log_loss_before is None or one.log_loss_after is None
            else f"{one.log_loss_before:.4f} before, {one.log_loss_after:.4f} after",
        ),
        _row("what goes out", _shares(one.final_weights)),
        _row("paths", _shares(one.weights)),
        _row("last temperature", f"{one.last_temperature:.3f}"),
        _row(
            "fair labels",
            f"no: {_percent(one.coverage, 0)} of the correction goes out"
            if one.coverage < 0.995
            else "yes: all of the correction goes out",
        ),
    ]
    if one.n_silent:
        names: Cell = []
        for name in one.silent:
            names += [", " if names else "no label of ", Name(name)]
        more = one.n_silent - len(one.silent)
        names.append((f" and {more:,} more" if more else "") + " has come: left out of learning")
        facts.append([["silent class" if one.n_silent == 1 else "silent classes"], names])
    newest = None
    if one.age is not None:
        at = "" if one.offset is None else f", number {one.offset:,}"
        newest = f"{_seconds(one.age)} ago{at}"
    facts.append(_row("newest label" if one.offset is None else "newest state", newest))
    left = 0 if one.lane else n_classes - len(one.classes)
    largest = f"The {len(one.classes)} largest; {left:,} more are left out. " if left > 0 else ""
    return ShownLearned(
        partition=one.partition,
        facts=facts,
        mix=Sheet(
            ["class", "labels say", "taken for"],
            [_row(_percent(c.labels), _percent(c.taken)) for c in one.classes],
        ),
        mix_note=largest + MIX_NOTE,
        lane=one.lane,
    )


def _lanes(s: Status) -> ShownLanes | None:
    """Models and versions, and versions side by side."""
    if s.n_lanes is None:
        return None
    lanes: list[list[Cell]] = [
        [
            [Name(one.model)], [Name(one.version)],
            [NOTHING] if one.successor_of is None else [Name(one.successor_of)],
            *_row(
                _number(one.records), _number(one.learned), _number(one.scored),
                _arrow(one.accuracy_before, one.accuracy_after, 100, 1),
                _arrow(one.log_loss_before, one.log_loss_after, 1, 3),
            ),
        ]
        for one in s.lanes
    ]  # fmt: skip
    versions: list[list[Cell]] = [
        [
            [Name(one.model)],
            [Name(one.version), " → ", Name(one.other)],
            *_row(
                what,
                _number(one.labels),
                _arrow(side.accuracy.before, side.accuracy.after, 100, 1),
                _between(side.accuracy, 100, 1),
                _arrow(side.log_loss.before, side.log_loss.after, 1, 3),
                _between(side.log_loss, 1, 3),
            ),
        ]
        for one in s.versions
        for what, side in (("as given", one.raw), ("as sent", one.sent))
    ]
    return ShownLanes(
        Sheet(list(LANE_HEAD), lanes),
        LANES_NOTE,
        Sheet(list(VERSION_HEAD), versions),
        VERSIONS_NOTE,
    )


def _column(one: Column) -> ShownColumn:
    """What became of a column's values, and how many rows and labels the others have."""
    rows: list[list[Cell]] = [
        [
            [Name(v.value)],
            *_row(
                _number(v.rows), _number(v.labels),
                _arrow(v.accuracy_before, v.accuracy_after, 100, 1),
                None
                if v.log_loss_before is None or v.log_loss_after is None
                else _signed(v.log_loss_after - v.log_loss_before, 3),
                _arrow(v.calibration_before, v.calibration_after, 100, 1),
            ),
        ]
        for v in one.values
    ]  # fmt: skip
    others = one.rows - sum(v.rows for v in one.values)
    if others > 0:
        labels = one.labels - sum(v.labels for v in one.values)
        rows.append(_row("all others", _number(others), _number(labels), None, None, None))
    return ShownColumn([Name(one.name)], Sheet(list(COLUMN_HEAD), rows))


def _shares(weights: dict[str, float]) -> str:
    """Weights from the largest; those of next to nothing together."""
    largest = sorted(weights.items(), key=lambda item: -item[1])
    named = [f"{what} {_percent(w)}" for what, w in largest if w >= LEAST_SHARE]
    if left := len(weights) - len(named):
        named.append(f"{_count(left, 'other', 'others')} less than 0.1 %")
    return ", ".join(named)


def _delay(window: Window) -> str:
    if window.delay_from is None:
        return NOTHING
    if window.delay_to is None:
        return f"over {_seconds(window.delay_from)}"
    return f"{_seconds(window.delay_from)} to {_seconds(window.delay_to)}"


def _row(*cells: str | None) -> list[Cell]:
    return [[NOTHING if cell is None else cell] for cell in cells]


def _signed(x: float, digits: int) -> str:
    return f"{x:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _number(x: float | None) -> str:
    return NOTHING if x is None else f"{x:,.0f}"


def _percent(x: float | None, digits: int = 1) -> str:
    return NOTHING if x is None else f"{100 * x:.{digits}f} %"


def _both(score: Score | None, factor: float, digits: int) -> str:
    return NOTHING if score is None else _arrow(score.before, score.after, factor, digits)


def _between(score: Score, factor: float, digits: int) -> str:
    if score.low is None or score.high is None:
        return "too early to say"
    return f"{_signed(factor * score.low, digits)} and {_signed(factor * score.high, digits)}"


def _arrow(before: float | None, after: float | None, factor: float, digits: int) -> str:
    if before is None or after is None:
        return NOTHING
    return f"{factor * before:.{digits}f} → {factor * after:.{digits}f}"


def _seconds(x: float | None) -> str:
    """A duration in the unit that people would take."""
    if x is None:
        return NOTHING
    if 0 < x < 1:
        return f"{1000 * x:.0f} ms"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if x >= 2 * size or x == size or size == 1:
            digits = 1 if x / size < 10 and x % size else 0
            return f"{x / size:.{digits}f} {unit}"
    raise AssertionError("seconds are the last unit")
