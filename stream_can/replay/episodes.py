"""Describe the periods in which the classifier itself was worse than before."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import to_builtins
from msgspec.structs import replace
from numpy.typing import NDArray

from stream_can.trust.alarm import Alarm
from stream_can.trust.episode import Episode, figures_of, held_of, who_of

MOST = 2
"""Number of episodes described, the longest ones."""


def milliseconds(times: NDArray[Any]) -> NDArray[np.float64]:
    """Milliseconds since 1970 from datetime64 or microseconds."""
    dates = times.dtype.kind == "M"
    floored = times.astype("datetime64[ms]") if dates else np.floor_divide(times, 1000)
    floats: NDArray[np.float64] = floored.astype(np.int64).astype(np.float64)
    return floats


def episodes_as_json(alarm: Alarm, *, dates: bool) -> list[dict[str, Any]]:
    """Episodes as JSON, with times where these are dates."""
    return [
        to_builtins(episode if dates else replace(episode, time=None)) for episode in alarm.episodes
    ]


def worse_in_words(alarm: Alarm | None, *, dates: bool) -> list[str]:
    """A sentence for each of the longest episodes."""
    if alarm is None:
        return []
    n = alarm.n

    def length(episode: Episode) -> int:
        return (n if episode.until is None else episode.until) - episode.since

    longest = sorted(alarm.episodes, key=length, reverse=True)[:MOST]
    return [
        _sentence(episode, dates) for episode in sorted(longest, key=lambda episode: episode.since)
    ]


def _sentence(episode: Episode, dates: bool) -> str:
    """A sentence for one episode."""
    where = f"labelled row {episode.since:,}"
    if dates and episode.time is not None:
        where = f"{np.datetime64(episode.time, 'ms').astype('datetime64[m]')} ({where})"
    until = ""
    if episode.until is not None:
        how = "had become usual" if episode.stays else "had clearly recovered"
        until = f" until it {how}, at row {episode.until:,}"
    held = held_of(episode)
    end = f"; the {held}" if held else ""
    return (
        f"{who_of(episode)} was worse than it used to be from {where}{until}:"
        f" {figures_of(episode)}{end}."
    )
