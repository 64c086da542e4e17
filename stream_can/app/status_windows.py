"""Windows of the status document: the last hour and day, whole and step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.app.history import Slots
from stream_can.app.shown_name import shown_name
from stream_can.app.status import Confused, CourseStatus, Expected, Score, Window
from stream_can.change import Change
from stream_can.trust.expected import LABELS, Gap, expected_accuracy

COUNTED = (
    "labels", "matched", "unmatched", "dead_letters", "asked", "answered", "commits", "given_up",
    "repeated", "early", "without_id",
)  # fmt: skip
"""History sums copied to a window unchanged."""

MOST_CONFUSED = 20
MOST_LABELS = LABELS / math.log(2)
"""Labels that count at most, as where older ones fade."""


def score_of(change: Change | None) -> Score | None:
    if change is None:
        return None
    return Score(change.before, change.after, *(change.interval or (None, None)))


def window_of(slots: Slots) -> Window:
    commits = int(slots.total("commits"))
    delay = slots.delay(0.5) or (None, None)
    return Window(
        scored=round(slots.total("scored")),
        accuracy=score_of(slots.change("hits")),
        log_loss=score_of(slots.change("log_loss")),
        records=int(slots.total("predictions")),
        **{name: int(slots.total(name)) for name in COUNTED},
        commit_mean=slots.total("commit_seconds") / commits if commits else None,
        commit_longest=slots.total("commit_longest") if commits else None,
        delay_from=delay[0],
        delay_to=delay[1],
        set_labels=int(slots.total("set_labels")),
        set_kept=_mean(slots, "set_kept", "set_labels"),
        set_size=_mean(slots, "set_classes", "set_rows"),
        expected_accuracy=expected_of(slots, slots),
    )


def expected_of(rows: Slots, labels: Slots) -> Expected | None:
    """Expected accuracy of the rows of a window; None without any.

    Parameters
    ----------
    rows
        The window.
    labels
        The window whose labels say how far confidence can be trusted.
    """
    n = rows.total("sure_rows")
    if not n:
        return None
    k = labels.total("gap_labels")
    most = min(k, MOST_LABELS)
    gap = Gap(most, most * labels.total("gap") / k) if k else Gap()
    return Expected(*expected_accuracy(n, rows.total("confidence"), rows.total("doubt"), gap))


def _mean(slots: Slots, total: str, count: str) -> float | None:
    n = slots.total(count)
    return slots.total(total) / n if n else None


def hour_of(hour: Slots, day: Slots) -> Window:
    """The hour's figures; few labels of the hour leave the day's to say how right rows are."""
    window = window_of(hour)
    labels = hour if hour.total("gap_labels") >= LABELS else day
    window.expected_accuracy = expected_of(hour, labels)
    return window


def day_of(day: Slots, hour: Slots) -> Window:
    """The day's figures; standard errors come from the finer slots while the hour has all
    labels."""
    window = window_of(day)
    if window.scored == round(hour.total("scored")):
        window.accuracy, window.log_loss = (score_of(hour.change(s)) for s in ("hits", "log_loss"))
    return window


def confused(sums: NDArray[np.float64] | None, classes: Sequence[Any]) -> list[Confused]:
    """Pairs of classes that rows of the last hour are likely taken for, commonest first."""
    if sums is None or len(classes) != sums.shape[1]:
        return []
    probabilities, labelled = sums
    others = np.where(np.eye(len(classes), dtype=bool), 0.0, probabilities)
    rows, labels = probabilities.sum(axis=1).tolist(), labelled.sum(axis=1).tolist()
    pairs = []
    for at in np.argsort(-others, axis=None, kind="stable")[:MOST_CONFUSED].tolist():
        k, j = divmod(at, len(classes))
        if others[k, j] > 0:
            share = float(labelled[k, j]) / labels[k] if labels[k] else None
            names = shown_name(classes[k]), shown_name(classes[j])
            pairs.append(Confused(*names, rows[k], float(others[k, j]) / rows[k], labels[k], share))
    return pairs


def course_of(slots: Slots, merged: int, seconds: int, now: float, ran: float) -> CourseStatus:
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
