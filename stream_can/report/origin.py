"""Origin of a page: version, date, label delay."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from stream_can.replay.delays import Delays
from stream_can.replay.result import Replay
from stream_can.version import __version__

UNITS = {"days": 86_400e6, "h": 3600e6, "min": 60e6, "s": 1e6, "ms": 1e3}
"""Units in microseconds."""


def made_by(date: datetime) -> list[tuple[str, str]]:
    """Version and date."""
    return [
        ("made by", f"stream_can {__version__}"),
        ("made on", date.astimezone().strftime("%Y-%m-%d %H:%M %Z").strip()),
    ]


def delay(result: Replay) -> str:
    """Describe the label delay."""
    rows = result.delay_rows
    if not rows.n:
        return "none came before the recording ended" if result.coming else result.delay
    words = [_spread(rows, _rows)]
    if result.delay_time.n:
        words.append(_spread(result.delay_time, _duration if result.dates else _number))
    never = result.coming - rows.n
    if never:
        words.append(f"{never:,} were still on their way at the end")
    return "; ".join(words)


def _spread(delays: Delays, form: Any) -> str:
    if delays.shortest == delays.longest:
        return f"each {form(delays.longest)} late"
    return (
        f"half of them at most {form(delays.quantile(0.5))} late, nine in ten "
        f"{form(delays.quantile(0.9))}, all {form(delays.longest)}"
    )


def _rows(value: float) -> str:
    return f"{value:,.0f} row" + ("" if round(value) == 1 else "s")


def _number(value: float) -> str:
    return f"{value:.4g}"


def _duration(microseconds: float) -> str:
    for unit, length in UNITS.items():
        if microseconds >= 1.5 * length:
            return f"{microseconds / length:.3g} {unit}"
    return f"{microseconds / 1e3:.3g} ms"
