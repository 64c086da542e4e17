"""Notices: said on standard error, once each, about the lines and the classifier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stream_can.learner.learner import Learner
from stream_can.learner.model_name import Name
from stream_can.learner.totals import hit_rate, total
from stream_can.messages.fields import Fields
from stream_can.messages.messages import Prediction
from stream_can.messages.parsing import Opened
from stream_can.pipe.output import complain
from stream_can.trust.episode import Episode

MANY_LABELS = 100
"""Labels from which on it is said at once that most of them find no prediction."""


class Notices:
    """Writes each notice once.

    Parameters
    ----------
    learner
        Its episodes are announced.
    fields
        Fields of the messages.
    unit
        "line" or "record".
    """

    def __init__(self, learner: Learner, fields: Fields, unit: str) -> None:
        self.learner, self.fields, self.unit = learner, fields, unit
        self.written: set[str] = set()
        self.episodes: dict[Name, Episode] = dict(learner.episodes)

    def is_due(self, notice: str) -> bool:
        """Whether a notice has not been written; from here on it has."""
        if notice in self.written:
            return False
        self.written.add(notice)
        return True

    def divided_rows(self) -> None:
        """Tell of rows that were divided by their sum."""
        if self.is_due("divided rows"):
            complain("rows that do not sum to 1 are divided by their sum; see normalise")

    def both_in_a_line(self) -> None:
        """Tell of a line with probabilities and a label."""
        if self.is_due("both in a line"):
            names, unit = self.fields, self.unit
            complain(
                f"a {unit} has both {names.probs!r} and {names.label!r}: it is corrected, its"
                f" label is not learned; if {unit}s carry their own label, say so with labelled"
            )

    def unknown_ids(self, outcomes: Counter[str]) -> None:
        """Tell that most labels of this run find no prediction."""
        unknown, learner = outcomes["unknown"], self.learner
        if unknown > outcomes["learned"] and self.is_due("unknown ids"):
            text = (
                f"{unknown} of {outcomes.total()} labels so far name no prediction before them: is"
                f" {self.fields.id!r} the field of the id in both?"
            )
            if learner.bytes_kept > 0.9 * 2**20 * learner.recent_mb:
                text += (
                    f" Or do they come too late? Only the last {learner.waiting:,} predictions"
                    f" are kept; recent_mb, {learner.recent_mb:g}, is full"
                )
            complain(text)

    def faults(
        self, opened: Sequence[Opened], numbered: Sequence[tuple[int, bytes]], first: int
    ) -> None:
        """Tell of the first prediction with an invalid segment value, counted from a first line."""
        if "faults" in self.written:
            return
        for (number, _), line in zip(numbered, opened, strict=False):
            if isinstance(line, Prediction) and line.fault is not None:
                self.written.add("faults")
                complain(f"{self.unit} {number - first + 1}: {line.fault}; others are not told of")
                return

    def new_episodes(self) -> None:
        """Tell where a classifier, or the output, has become worse."""
        for name, episode in self.learner.episodes.items():
            if self.episodes.get(name) is not episode:
                self.episodes[name] = episode
                complain(episode.text(" ".join(filter(None, name))))

    def gain(self) -> str:
        """Describe the scores of all models together."""
        raw, sent = total(self.learner.scores)
        if not sent.n:
            return ""
        name = hit_rate(sent)
        labels = "label" if sent.n == 1 else "labels"
        if self.learner.ask is not None:
            labels += " asked for at random"
        return (
            f"; over {sent.n} {labels}: {name.replace('_', ' ')} {getattr(raw, name):.4f} -> "
            f"{getattr(sent, name):.4f}, log loss {raw.log_loss:.4f} -> {sent.log_loss:.4f}"
        )
