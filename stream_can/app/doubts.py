"""Doubts: problems of a worker that are possible, or not confirmed."""

from __future__ import annotations

from collections.abc import Iterator

from stream_can.app.status import Backlog, Problem, Status

__all__ = ["MOST_WORSE", "doubts"]

BEHIND, FEW_WAITING = 10_000, 1_000
STALE_SECONDS = 120.0
HOUR = 3600.0
MOST_WORSE = 3
"""Maximum number of models or partitions that are named."""


def doubts(s: Status) -> Iterator[Problem]:
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


def _span(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    n = round(seconds)
    return f"{n} second{'s' * (n != 1)}"
