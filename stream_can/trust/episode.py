"""Episode: a period in which the classifier, or the output, is worse than before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta


class Episode(msgspec.Struct, kw_only=True):
    """A period in which the classifier, or the output, is worse than before."""

    since: int
    """Number of its first label, from 0, as the test locates it."""
    time: int | None
    """Time of that label, where known."""
    noticed: int
    """Number of labels when it was noticed."""
    by: list[str]
    """The tests that noticed it: "raw accuracy", "sent log loss"."""
    side: Annotated[int, Meta(ge=0, le=1)] = 0
    """0 where the raw rows became worse, 1 where only the sent ones did: noticed by tests of these
    alone, and the raw score changed less than half as much."""
    before: list[float]
    """Means before: accuracy and log loss in nats of the raw rows, then of the sent rows."""
    after: list[float]
    """The same since it began."""
    holds: float | None = None
    """1 - rise of the sent log loss / rise of the raw log loss, over the last quarter; None where
    the raw log loss has not risen."""
    until: int | None = None
    """Number of labels when it ended; None while it lasts."""
    stays: bool = False
    """Whether it ended because it lasted so long that it is the new normal."""

    def text(self, of: str = "") -> str:
        """Describe the episode: since when, and how much; ``of`` names the model, if any."""
        since = "" if self.time is None else f" since {_minute(self.time)}"
        corrected = self.after[:2] != self.after[2:]
        held = held_of(self) if corrected else ""
        who = who_of(self) + (f" ({of})" if of else "")
        end = f" The {held}." if held else ""
        return f"{who} is worse than before{since}: {figures_of(self)}.{end}"


def who_of(episode: Episode) -> str:
    """What became worse, in words."""
    return "What is sent" if episode.side else "The classifier itself"


def figures_of(episode: Episode) -> str:
    """Accuracy and log loss of what became worse, and what they were before, in words."""
    k, before, after = 2 * episode.side, episode.before, episode.after
    return (
        f"right in {100 * after[k]:.1f} % instead of {100 * before[k]:.1f}, log loss"
        f" {after[k + 1]:.3f} instead of {before[k + 1]:.3f}"
    )


def held_of(episode: Episode) -> str:
    """How much of it the correction makes up for, in words; empty where that is unknown."""
    if episode.side or episode.holds is None:
        return ""
    return f"correction makes up for {100 * min(max(episode.holds, 0), 1):.0f} % of that"


def _minute(time: int) -> str:
    """A time in milliseconds as text."""
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
