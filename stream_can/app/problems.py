"""Problems of a worker, worst first, each in a sentence and with a remedy."""

from __future__ import annotations

from collections.abc import Iterator

from stream_can.app.doubts import MOST_WORSE, START_SECONDS, doubts, of_unready, span
from stream_can.app.gain import FEWEST_LABELS, gain
from stream_can.app.status import Problem, Status


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
            f"The {who} hangs: its loop has stopped turning.",
            "Restart the process. Nothing is lost: it continues from the last commit.",
        )
    elif runs > START_SECONDS and (sentences := of_unready(s)):
        yield bad(*sentences)
    if s.away:
        yield bad(
            f"No broker has answered for {s.away:.0f} s: nothing is corrected.",
            "Check the brokers and the network. Nothing is lost: the process continues where it was"
            " once they answer, and ends after connect_seconds.",
        )
    if s.unlearned:
        yield bad(
            f"Nobody learns: what was sent {span(s.unlearned)} ago is in no state yet.",
            "Look at the log of the process that learned; restart it, or start stream-can learn."
            + (
                f" {s.backlog.waiting:,} records wait for it, others are corrected by the newest"
                " state."
                if s.backlog is not None
                else " Correction continues by the newest state meanwhile."
            ),
        )
    if s.waits_for and s.over_http:
        yield bad(
            f"Nothing can be written, and labels are refused: {s.waits_for}.",
            "Free disk space for the state file, or grant rights to it. Writing then resumes by"
            " itself. Predictions are answered meanwhile.",
        )
    elif s.waits_for:
        yield bad(
            f"Records wait for the schema registry: {s.waits_for}.",
            "Check the registry. Nothing is lost: records with known schemas are corrected"
            " meanwhile.",
        )
    if (
        s.ready
        and s.lag
        and s.backlog is None
        and runs > START_SECONDS
        and not sum(recent.records[-2:])
    ):
        yield bad(
            f"The worker stands still: {s.lag:,} records wait and none was committed for a minute.",
            "Check the brokers for a partition without a leader or an open transaction.",
        )
    if s.unowned:
        partitions = ", ".join(map(str, [*s.unowned][:MOST_WORSE]))
        and_more = f" and {len(s.unowned) - MOST_WORSE} more" if len(s.unowned) > MOST_WORSE else ""
        yield bad(
            f"{sum(s.unowned.values()):,} records wait in partitions {partitions}{and_more}: no"
            " worker has corrected any of them for a minute.",
            "Check that a worker runs, its log, and the members of the group.",
        )
    hour = s.hour
    if hour.given_up > max(3, 0.1 * (hour.commits + hour.given_up)):
        yield bad(
            f"{hour.given_up:,} of {hour.commits + hour.given_up:,} transactions of the last hour"
            " were given up.",
            "Look for brokers that fail over and workers that restart; the log names each case.",
        )
    if hour.dead_letters > 0.01 * (hour.records + hour.labels):
        total = hour.records + hour.labels
        is_named = s.dead_letters and not s.over_http
        last_in = f", the last in topic “{s.dead_letters[0].topic}”" if is_named else ""
        yield bad(
            f"{hour.dead_letters:,} of {total:,} {'messages' if s.over_http else 'records'} of the"
            f" last hour could not be read{last_in}.",
            f"See the last {letters} below: has the message changed?",
        )
    if s.refused:
        yield bad(
            f"Predictions refused: {s.refused:,}. More than {s.max_lanes:,} models and versions"
            " began within an hour.",
            "Check that the settings model and version name the right fields; see the last"
            f" {letters}. If there are that many models, raise max_lanes.",
        )
    if s.cannot_learn:
        yield bad(
            f"This process can no longer learn: {s.cannot_learn}",
            "Correction continues. Fix the cause and restart; another process learns meanwhile, if"
            " there is one.",
        )
    if s.refuses_labels:
        yield bad(
            f"Labels are refused: {s.refuses_labels}",
            "Check the brokers; labels are then accepted again. Predictions are answered meanwhile,"
            " but after many minutes the server does not learn from them.",
        )
    for name, window in (("hour", hour), ("day", s.day)):
        loss = window.log_loss
        if loss and window.scored >= FEWEST_LABELS and loss.low is not None and loss.low > 0:
            yield bad(
                f"The correction harms: over the last {name} the log loss is"
                f" {loss.after - loss.before:.4f} nats higher after correction than before.",
                "Check that labels are right, and that they echo raw probabilities, not corrected"
                " ones. Meanwhile correct = false sends predictions unchanged.",
            )
            break
