"""Problems of a worker, worst first, each in a sentence and with a remedy."""

from __future__ import annotations

from collections.abc import Iterator

from stream_can.app.status import Backlog, Problem, Score, Status, Window

BEHIND, FEW_WAITING = 10_000, 1_000
STALE_SECONDS = 120.0
START_SECONDS = 60.0
"""Seconds after start within which missing things are no problem yet."""
HOUR = 3600.0
FEWEST_LABELS = 100
MOST_WORSE = 3
WAIT = "Wait for more labels. correct = false sends predictions as they came meanwhile."


def problems(status: Status) -> list[Problem]:
    """Problems of a status; without any, the effect of the correction."""
    sorted_problems = [*_bad(status), *_doubts(status)]
    return sorted_problems or [_good(status)]


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


def _doubts(s: Status) -> Iterator[Problem]:
    """Possible or unconfirmed problems."""
    hour, runs = s.hour, s.time - s.since

    def doubt(sentence: str, remedy: str) -> Problem:
        return Problem("doubt", sentence, remedy)

    if s.passes:
        models = ", ".join(
            "all" if model == "*" else f"“{model}”" for model in s.passes[:MOST_WORSE]
        )
        yield doubt(
            "Correction is switched off: predictions go out as they came"
            + (f", of the models {models}." if s.passes != ["*"] else "."),
            "What is learned goes on. Remove correct = false and restart, and it is on again.",
        )
    for worse in s.worse[:MOST_WORSE]:
        yield doubt(
            worse.episode.text(worse.lane),
            "It may be weather: another season or other traffic. If not, look at what feeds the"
            " classifier, at its last deployment, and at the labels: wrong ones look the same."
            if worse.episode.side == 0
            else "The classifier itself is as it was: look at the labels, and at who answers."
            " Where something wrong was learned and is over, docs/operations.md says how to undo"
            " it.",
        )
    if len(s.worse) > MOST_WORSE:
        yield doubt(
            f"{len(s.worse) - MOST_WORSE} more models and versions are worse than before.",
            "worse in /status.json has up to 20: look at what they have in common.",
        )
    if s.backlog is not None and s.backlog.waiting > FEW_WAITING:
        yield doubt(*_of_backlog(s.backlog))
    lag, key = s.hour_course.lag, "id" if s.over_http else "key or partitioner"
    if s.backlog is None and s.lag is not None and s.lag > BEHIND and lag[-1] > lag[-10] > 0:
        yield doubt(
            f"It falls behind: {s.lag:,} records wait, more than ten minutes ago.",
            "Add workers, up to one a partition.",
        )
    oldest = max((learned.age or 0.0 for learned in s.learned), default=0.0)
    if s.has_labels and oldest > STALE_SECONDS and any(s.hour_course.records[-5:]):
        yield doubt(
            f"What corrects was learned {_span(oldest)} ago: nobody learns now.",
            "Look at the log of the process that learned, and whether any other one may; correcting"
            " goes on meanwhile.",
        )
    if s.has_labels and runs > HOUR and hour.records and not hour.labels:
        yield doubt(
            "No label has come for an hour: nothing is learned.",
            "Look at what sends labels."
            if s.over_http
            else "Look at what writes the labels topic.",
        )
    if hour.unmatched > max(10, 0.1 * hour.labels):
        yield doubt(
            f"{hour.unmatched:,} of {hour.labels:,} labels of the last hour found no prediction.",
            f"They come later than recent_mb holds, or with another {key}.",
        )
    if s.has_labels and hour.without_id > max(10, 0.01 * hour.records):
        yield doubt(
            f"{hour.without_id:,} of {hour.records:,} predictions of the last hour have no id: no"
            " label finds them.",
            "Look at the first that the log names, and at the setting id.",
        )
    if hour.early > max(10, 0.01 * hour.labels):
        yield doubt(
            f"{hour.early:,} labels of the last hour were given up before their prediction came.",
            "A clock is wrong, of what writes predictions or labels, or label_wait is too short.",
        )
    for learned in s.learned:
        where = f" ({learned.lane})" if learned.lane else ""
        if learned.n_silent:
            names = ", ".join(f"“{name}”" for name in learned.silent[:3])
            and_more = f" and {learned.n_silent - 3:,} more" if learned.n_silent > 3 else ""
            yield doubt(
                f"No label of {names}{and_more} has come{where}: left out of learning.",
                "Send labels of a random share of all predictions, these among them.",
            )
        if learned.coverage < 0.95:
            yield doubt(
                f"Labels are no fair sample{where}: {100 * learned.coverage:.0f} % of the"
                " correction goes out.",
                "Label a random share of all predictions, not those that were noticed.",
            )
    for column in s.columns:
        if few := column.few:
            names = ", ".join(f"“{name}”" for name in few.values)
            yield doubt(
                f"{100 * few.of_labels:.0f} % of the labels are of {100 * few.of_rows:.0f} % of the"
                f" rows, those with {column.name} {names}.",
                "What they teach moves all other rows too, and may be wrong for them: label a"
                " random share of all predictions.",
            )
    if s.ready and not s.corrects and not s.learns:
        yield doubt(
            "Another process learns.",
            "This one takes over when that one ends. Nothing to do.",
        )
    if s.ready and s.corrects and not s.partitions:
        yield doubt(
            "This worker has no partition.",
            "Wait a minute: the group shares them out. If it stays, there are more workers than"
            " partitions: it takes over when another ends.",
        )


def _of_backlog(backlog: Backlog) -> tuple[str, str]:
    """What waits for the learner, how fast it is, and what to do."""
    sentence = f"A backlog: {backlog.waiting:,} records wait for the learner, which corrects them"
    if backlog.corrected is None or backlog.came is None:
        return f"{sentence} in the order of time.", "Nothing: new ones come after them."
    sentence += f" at {backlog.corrected:,.0f} a second"
    if backlog.grows:
        return (
            f"{sentence} while {backlog.came:,.0f} come: it does not get smaller.",
            "Look at the log of the process that learns. If it is too slow, set"
            ' backlog = "lagging" in every process: workers then correct by the newest state.',
        )
    seconds_left = backlog.waiting / (backlog.corrected - backlog.came)
    return (
        f"{sentence}: about {_span(seconds_left)} are left.",
        "Nothing: new ones come after them.",
    )


def _good(s: Status) -> Problem:
    """Summary without problems: how much the correction helps, where known."""
    if not s.has_labels:
        return Problem(
            "good",
            "Nothing is wrong; without labels there is no accuracy to show.",
            "Set labels to the topic that has them, and the worker learns and scores.",
        )
    for name, window in (("hour", s.hour), ("day", s.day)):
        few = window.scored < FEWEST_LABELS
        if few or window.accuracy is None or window.log_loss is None:
            continue
        loss, accuracy = window.log_loss, window.accuracy
        is_sure = (loss.high or 0) < 0 or (accuracy.low or 0) > 0
        verb = "It helps" if is_sure else "No harm seen, no sure gain yet"
        if worse := _worse(window):
            verb = f"{worse} is worse so far, too early to say" + (", and it helps" * is_sure)
        return Problem(
            "doubt" if worse else "good",
            f"{verb}: over the last {name} the accuracy goes from {100 * accuracy.before:.1f} % to"
            f" {100 * accuracy.after:.1f} %{_points(accuracy)},"
            f" the log loss from {loss.before:.3f} to {loss.after:.3f}.",
            WAIT if worse else "Nothing to do.",
        )
    count = f"{s.day.scored:,}" if s.day.scored else "no"
    labels = "label that counts has" if s.day.scored == 1 else "labels that count have"
    if worse := _worse(s.day):
        return Problem(
            "doubt",
            f"Too early to say, {worse.lower()} is worse so far: {count} {labels} come since this"
            " process began.",
            WAIT,
        )
    return Problem(
        "good",
        f"Nothing is wrong; {count} {labels} come since this process began"
        + (", too few to say whether it helps." if s.day.scored else "."),
        "Nothing to do but wait.",
    )


def _worse(window: Window) -> str:
    """Which score is worse after correction than before, so far."""
    loss, accuracy = window.log_loss, window.accuracy
    if loss is not None and loss.after > loss.before:
        return "The log loss"
    return "The accuracy" if accuracy is not None and accuracy.after < accuracy.before else ""


def _points(score: Score) -> str:
    """Describe the interval of a change."""
    if score.low is None or score.high is None:
        return ""
    return f" ({100 * score.low:+.1f} to {100 * score.high:+.1f} points)"


def _span(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    n = round(seconds)
    return f"{n} second{'s' * (n != 1)}"
