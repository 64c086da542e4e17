"""Gain: what the correction brings, in a sentence, where there is no problem."""

from __future__ import annotations

from stream_can.app.status import Problem, Score, Status, Window

FEWEST_LABELS = 100
WAIT = "Wait for more labels. Meanwhile correct = false sends predictions unchanged."


def gain(s: Status) -> Problem:
    """Summary without problems: how much the correction helps, where known."""
    if not s.has_labels:
        return Problem(
            "good",
            "Nothing is wrong; without labels there is no accuracy to show.",
            "Set labels to the topic of labels: the worker then learns and scores.",
        )
    for name, window in (("hour", s.hour), ("day", s.day)):
        few = window.scored < FEWEST_LABELS
        if few or window.accuracy is None or window.log_loss is None:
            continue
        loss, accuracy = window.log_loss, window.accuracy
        is_sure = (loss.high or 0) < 0 or (accuracy.low or 0) > 0
        is_early = loss.high is None and accuracy.low is None
        verb = (
            "The correction helps"
            if is_sure
            else "No harm, and too early to say whether it helps"
            if is_early
            else "No harm, and no significant gain"
        )
        if worse := _worse(window):
            verb = f"{worse} is worse so far, too early to say" + (", and it helps" * is_sure)
        return Problem(
            "doubt" if worse else "good",
            f"{verb}: over the last {name} the accuracy goes from {100 * accuracy.before:.1f} % to"
            f" {100 * accuracy.after:.1f} %{_interval(accuracy, 100, '.1f', ' points')},"
            f" the log loss from {loss.before:.3f} to {loss.after:.3f}{_interval(loss, 1, '.3f')}.",
            WAIT if worse else "Nothing to do.",
        )
    count = f"{s.day.scored:,}" if s.day.scored else "no"
    labels = "scored label has" if s.day.scored == 1 else "scored labels have"
    if worse := _worse(s.day):
        return Problem(
            "doubt",
            f"Too early to say, {worse.lower()} is worse so far: {count} {labels} come since this"
            " process began.",
            WAIT,
        )
    if s.corrects and not s.learns and not s.over_http:
        return Problem(
            "good",
            "Nothing is wrong here; labels are scored by the process that learns.",
            "Nothing to do: its page shows whether the correction helps.",
        )
    return Problem(
        "good",
        f"Nothing is wrong; {count} {labels} come since this process started"
        + (", too few to say whether it helps." if s.day.scored else "."),
        "Nothing to do: wait for labels.",
    )


def _worse(window: Window) -> str:
    """Which score is worse after correction than before, so far."""
    loss, accuracy = window.log_loss, window.accuracy
    if loss is not None and loss.after > loss.before:
        return "The log loss"
    return "The accuracy" if accuracy is not None and accuracy.after < accuracy.before else ""


def _interval(score: Score, times: float, digits: str, unit: str = "") -> str:
    """The interval of a change, in parentheses; empty where it is not known."""
    if score.low is None or score.high is None:
        return ""
    return f" ({times * score.low:+{digits}} to {times * score.high:+{digits}}{unit})"
