"""Problems of a worker, worst first, each in a sentence and with a remedy."""

from __future__ import annotations

from collections.abc import Iterator

from stream_can.app.doubts import MOST_WORSE, doubts
from stream_can.app.gain import FEWEST_LABELS, gain
from stream_can.app.status import Problem, Status

START_SECONDS = 60.0
"""Seconds after start within which missing things are no problem yet."""


def problems(status: Status) -> list[Problem]:
    """Problems of a status; without any, the effect of the correction."""
    sorted_problems = [*_bad(status), *doubts(status)]
    return sorted_problems or [gain(status)]


def _bad(s: Status) -> Iterator[Problem]:
    """Problems that need action now, most urgent first."""
    recent = s.hour_course
    runs = s.time - s.since
    who, letters = ("server", "bad messages") if s.over_http else ("worker", "dead letters")

    def bad(sentence: str, remedy: str) -> Problem:
        return Problem("bad", sentence, remedy)

    if not s.live:
        yield bad(
            f"The {who} hangs: its loop does not come round.",
            "Restart the process; nothing is lost, it goes on from the last commit.",
        )
    elif not s.ready and s.over_http:
        yield bad(
            "The server answers no prediction now: it has no state yet.",
            "Wait a minute: it starts. If it stays, the last line of its log says why.",
        )
    elif not s.ready and not s.learned:
        yield bad(
            "The worker corrects nothing now: it has no state yet.",
            "Wait a minute. If it stays, nobody has learned: start a process that learns,"
            " stream-can learn, or run with learn = true; its log says what holds it up.",
        )
    elif not s.ready:
        yield bad(
            "The worker corrects nothing now: its partitions are not restored.",
            "Wait a minute: it starts, or the group shares its partitions out again. If it stays,"
            " the last line of its log says why.",
        )
    if s.away:
        yield bad(
            f"No broker has answered for {s.away:.0f} s: nothing is corrected.",
            "Look at the brokers and the network. Nothing is lost: when they answer, it goes on"
            " where it was; the process ends after connect_seconds.",
        )
    if s.waits_for and s.over_http:
        yield bad(
            f"Nothing can be written, and labels are refused: {s.waits_for}.",
            "Make room for the state file, or give rights on it: then all goes on by itself."
            " Predictions are answered meanwhile.",
        )
    elif s.waits_for:
        yield bad(
            f"Records wait for the schema registry: {s.waits_for}.",
            "Look at the registry. Nothing is lost; schemas that are known go on meanwhile.",
        )
    if (
        s.ready
        and s.lag
        and s.backlog is None
        and runs > START_SECONDS
        and not sum(recent.records[-2:])
    ):
        yield bad(
            f"It stands still: {s.lag:,} records wait and none was committed for a minute.",
            "Look at the brokers: a partition without a leader, or a transaction left open.",
        )
    if s.unowned:
        partitions = ", ".join(map(str, [*s.unowned][:MOST_WORSE]))
        and_more = f" and {len(s.unowned) - MOST_WORSE} more" if len(s.unowned) > MOST_WORSE else ""
        yield bad(
            f"{sum(s.unowned.values()):,} records wait in partitions {partitions}{and_more}: no"
            " worker has corrected any of them for a minute.",
            "Is a worker running? Look at its log, and at the members of the group.",
        )
    hour = s.hour
    if hour.given_up > max(3, 0.1 * (hour.commits + hour.given_up)):
        yield bad(
            f"{hour.given_up:,} of {hour.commits + hour.given_up:,} transactions of the last hour"
            " were given up.",
            "Look for brokers that fail over, or workers that come and go; the log names each.",
        )
    if hour.dead_letters > 0.01 * (hour.records + hour.labels):
        total = hour.records + hour.labels
        yield bad(
            f"{hour.dead_letters:,} of {total:,} {'messages' if s.over_http else 'records'} of the"
            " last hour could not be read.",
            f"See the last {letters} below: has the message changed?",
        )
    if s.refused:
        yield bad(
            f"Predictions refused: {s.refused:,}. More than {s.max_lanes:,} models and versions"
            " began within an hour.",
            f"Look at the last {letters}: do the settings model and version name fields that say"
            " something else? If there are as many, raise max_lanes.",
        )
    if s.cannot_learn:
        yield bad(
            f"This process may not learn any more: {s.cannot_learn}",
            "Correcting goes on. Mend it and restart; another process learns meanwhile, if there"
            " is one.",
        )
    if s.refuses_labels:
        yield bad(
            f"Labels are refused: {s.refuses_labels}",
            "Look at the brokers: then all goes on by itself. Predictions are answered meanwhile;"
            " those of many minutes are not learned from.",
        )
    for name, window in (("hour", hour), ("day", s.day)):
        loss = window.log_loss
        if loss and window.scored >= FEWEST_LABELS and loss.low is not None and loss.low > 0:
            yield bad(
                f"It harms: over the last {name} the log loss is {loss.after - loss.before:.4f}"
                " nats higher after correction than before.",
                "Check that labels are right and echo raw probabilities, not corrected ones."
                " Meanwhile correct = false sends predictions as they came.",
            )
            break
