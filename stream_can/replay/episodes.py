"""Describe the periods in which the classifier itself was worse than before."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import to_builtins
from msgspec.structs import replace
from numpy.typing import NDArray

from stream_can.trust.alarm import Alarm, Episode

__all__ = ["milliseconds", "told", "worse_in_words"]

MOST = 2
"""Number of episodes described, the longest ones."""


def milliseconds(times: NDArray[Any]) -> NDArray[np.float64]:
    """Milliseconds since 1970 from datetime64 or microseconds."""
    dates = times.dtype.kind == "M"
    whole = times.astype("datetime64[ms]") if dates else np.floor_divide(times, 1000)
    found: NDArray[np.float64] = whole.astype(np.int64).astype(np.float64)
    return found


def told(alarm: Alarm, *, dates: bool) -> list[dict[str, Any]]:
    """Episodes as JSON, with times where these are dates."""
    return [to_builtins(one if dates else replace(one, time=None)) for one in alarm.episodes]


def worse_in_words(alarm: Alarm | None, *, dates: bool) -> list[str]:
    """A sentence for each of the longest episodes."""
    if alarm is None:
        return []
    n = alarm.n

    def length(one: Episode) -> int:
        return (n if one.until is None else one.until) - one.since

    longest = sorted(alarm.episodes, key=length, reverse=True)[:MOST]
    return [_said(one, dates) for one in sorted(longest, key=lambda one: one.since)]


def _said(one: Episode, dates: bool) -> str:
    """A sentence for one episode."""
    where = f"labelled row {one.since:,}"
    if dates and one.time is not None:
        where = f"{np.datetime64(one.time, 'ms').astype('datetime64[m]')} ({where})"
    side = 2 * one.side
    who = "What is sent" if one.side else "The classifier itself"
    accuracy, loss = (
        f"{100 * one.after[side]:.1f} % instead of {100 * one.before[side]:.1f}",
        f"{one.after[side + 1]:.3f} instead of {one.before[side + 1]:.3f}",
    )
    until = ""
    if one.until is not None:
        until = ", when it had become usual" if one.stays else ""
        until = f" to {one.until:,}{until}"
    held = ""
    if one.side == 0 and one.holds is not None:
        held = f"; the correction holds {100 * min(max(one.holds, 0), 1):.0f} % of that"
    return (
        f"{who} was worse than it used to be from {where}{until}: right in {accuracy}, log loss"
        f" {loss}{held}."
    )
