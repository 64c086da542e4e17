"""Doubts: problems of a worker that are possible, or not confirmed."""

from __future__ import annotations

from collections.abc import Iterator

from stream_can.app.status import Backlog, Problem, Status

BEHIND, FEW_WAITING = 10_000, 1_000
HOUR = 3600.0
START_SECONDS = 60.0
"""Seconds after start within which missing things are no problem yet."""
MOST_WORSE = 3
"""Maximum number of models or partitions that are named."""


def doubts(s: Status) -> Iterator[Problem]:
    """Possible or unconfirmed problems."""
    hour, runs = s.hour, s.time - s.since

    def doubt(sentence: str, remedy: str) -> Problem:
        return Problem("doubt", sentence, remedy)

    if runs <= START_SECONDS and (sentences := of_unready(s)):
        yield doubt(*sentences)
    if s.passes:
        models = ", ".join(
            "all" if model == "*" else f"“{model}”" for model in s.passes[:MOST_WORSE]
        )
        yield doubt(
            "Correction is switched off: predictions"
            + (f" of the models {models}" if s.passes != ["*"] else "")
            + " go out unchanged.",
            "Learning continues. To switch correction on again, remove correct = false and"
            " restart.",
        )
    for worse in s.worse[:MOST_WORSE]:
        yield doubt(
            worse.episode.text(worse.lane),
            "The data may have changed, as with a season or other traffic. If not, check the"
            " classifier's inputs, its last deployment, and the labels: wrong labels look the same."
            if worse.episode.side == 0
            else "Correction is switched off, which may be all there is to it."
            if s.passes
            else "The classifier itself is unchanged: check the labels, and who gives them. Where"
            " wrong labels were learned and have stopped, docs/operations.md says how to undo"
            " that.",
        )
    if len(s.worse) > MOST_WORSE:
        yield doubt(
            f"{len(s.worse) - MOST_WORSE} more models and versions are worse than before.",
            "The field worse of /status.json lists up to 20: look for what they have in common.",
        )
    if s.backlog is not None and s.backlog.waiting > FEW_WAITING:
        yield doubt(*_of_backlog(s.backlog))
    elif s.unlearned_batches is not None:
        yield doubt(*_of_unlearned(s.unlearned_batches))
    lag = s.hour_course.lag
    if s.backlog is None and s.lag is not None and s.lag > BEHIND and lag[-1] > lag[-10] > 0:
        yield doubt(
            f"The worker falls behind: {s.lag:,} records wait, more than ten minutes ago.",
            "Add workers, up to one per partition.",
        )
    if s.has_labels and runs > HOUR and hour.records and not hour.labels:
        yield doubt(
            "No label has come for an hour: nothing is learned.",
            "Check the program that sends labels."
            if s.over_http
            else "Check the program that writes to the labels topic.",
        )
    if hour.unmatched > max(10, 0.1 * hour.labels):
        yield doubt(
            f"{hour.unmatched:,} of {hour.labels:,} labels of the last hour found no prediction.",
            "Labels arrive later than recent_mb can hold predictions, or with another id.",
        )
    if s.has_labels and hour.without_id > max(10, 0.01 * hour.records):
        yield doubt(
            f"{hour.without_id:,} of {hour.records:,} predictions of the last hour have no id: no"
            " label can find them.",
            "Check the setting id, and what the program that sends predictions gives as one"
            + ("." if s.over_http else "; the log names the first of these predictions."),
        )
    if hour.early > max(10, 0.01 * hour.labels):
        yield doubt(
            f"{hour.early:,} labels of the last hour were given up before their prediction came.",
            "Check the clocks of the programs that write predictions and labels, or raise"
            " label_wait.",
        )
    for learned in s.learned:
        where = f" ({learned.lane})" if learned.lane else ""
        if learned.n_silent:
            names = ", ".join(f"“{name}”" for name in learned.silent[:3])
            and_more = f" and {learned.n_silent - 3:,} more" if learned.n_silent > 3 else ""
            yield doubt(
                f"No label of {names}{and_more} has come{where}: excluded from learning.",
                "Label a random share of all predictions, including these classes.",
            )
        if learned.coverage < 0.95:
            yield doubt(
                f"Labels are not a fair sample{where}: {100 * learned.coverage:.0f} % of the"
                " correction is applied.",
                "Label a random share of all predictions, not only those that somebody noticed.",
            )
    for column in s.columns:
        if few := column.few:
            names = ", ".join(f"“{name}”" for name in few.values)
            yield doubt(
                f"{100 * few.of_labels:.0f} % of the labels come from {100 * few.of_rows:.0f} % of"
                f" the rows, those with {column.name} {names}.",
                "They move the correction of all other rows, where it may be wrong: label a random"
                " share of all predictions.",
            )
    if s.ready and not s.corrects and not s.learns:
        yield doubt(
            "This process does not learn now: another one does, or it is taking over from that.",
            "Nothing to do: it takes over when the other ends, and its log says so.",
        )
    if s.ready and s.corrects and not s.partitions:
        yield doubt(
            "This worker has no partition.",
            "Wait a minute while the group assigns them. If this stays, there are more workers than"
            " partitions, and this one takes over when another ends.",
        )


def _of_backlog(backlog: Backlog) -> tuple[str, str]:
    """What was handed over to the learner, how fast it is, and what to do."""
    sentence = f"A backlog: {backlog.waiting:,} records wait for the learner, which corrects them"
    return (
        sentence + (_speed(backlog) or " in the order of time") + ".",
        "Look at the log of the process that learns. If it is too slow, set"
        ' backlog = "lagging" in every process: workers then correct by the newest state.'
        if backlog.grows
        else "Nothing to do: new records follow after them.",
    )


def _of_unlearned(batches: Backlog) -> tuple[str, str]:
    """What the learner has yet to learn, how fast it is, and what to do."""
    return (
        f"Learning is behind: {batches.waiting:,} batches of predictions wait, and are learned"
        + (_speed(batches) or " in the order of time")
        + ".",
        "Look at the processor and the log of this process. Nothing is lost before topics delete"
        " it, and workers correct by the newest state. docs/operations.md says under Sizing how"
        " much one process learns."
        if batches.grows
        else "Nothing to do: workers correct by the newest state meanwhile.",
    )


def _speed(backlog: Backlog) -> str:
    """How fast the learner is, and how long it takes; empty where that is unknown."""
    if backlog.done is None or backlog.came is None:
        return ""
    speed = f" at {backlog.done:,.0f} a second"
    if backlog.grows:
        return f"{speed} while {backlog.came:,.0f} come: they do not become fewer"
    return f"{speed}: about {span(backlog.waiting / (backlog.done - backlog.came))} are left"


def span(seconds: float) -> str:
    """A number of seconds in words, in the unit that leaves at least 2."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    n = round(seconds)
    return f"{n} second{'s' * (n != 1)}"


def of_unready(s: Status) -> tuple[str, str] | None:
    """Why nothing is corrected now, and what to do; None where the process is ready."""
    if s.ready:
        return None
    if s.over_http:
        return (
            "The server answers no prediction now: it has no state yet.",
            "Wait a minute while it starts. If this stays, the last line of its log says why.",
        )
    if not s.learned:
        return (
            "The worker corrects nothing now: it has no state yet.",
            "Wait a minute. If this stays, no process learns: start stream-can learn, or a worker"
            " with learn = true. Its log says what it waits for.",
        )
    return (
        "The worker corrects nothing now: its partitions are not restored.",
        "Wait a minute: it is starting, or the group reassigns its partitions. If this stays, the"
        " last line of its log says why.",
    )
