"""What a learned log has said beside what it taught: whose it is, and under which settings."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from stream_can.corrector import Corrector
from stream_can.messages.records import Source
from stream_can.method.promise import miss_of
from stream_can.stream.entry import BadEntry, FleetTerms, LogEntry
from stream_can.stream.identity import Identity

__all__ = ["Terms", "digest"]

MOST_HELD = 100


class Terms(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function of the entries below an offset, as the corrector is."""

    epoch: int = 0
    """The offset behind the entry with which the log last began anew; 0 where it never did."""
    app: bytes | None = None
    """The mark by which entries name their application; None before the log has started."""
    identity: Identity | None = None
    generation: int = 0
    """Of the settings in force: how often they have changed, unless somebody gave a number."""
    held: tuple[bytes, ...] = ()
    """The digests of all settings that were in force, those of now last."""
    by: str = ""
    """The instance that wrote the last of this, where it said so."""
    fleet: FleetTerms | None = None
    """Where the log has lanes."""
    sets: float | None = None
    """The share that prediction sets keep, where outputs have them."""

    @classmethod
    def of(cls, corrector: Corrector | None) -> Terms:
        """Those of a log of which no more than its corrector is known."""
        return cls() if corrector is None else cls(held=(digest(corrector.settings),))

    def after(self, one: LogEntry, record: Source, corrector: Corrector | None) -> Terms:
        """Those behind an entry that counts."""
        changed: dict[str, Any] = {}
        if one.start is not None and (one.reset or not self.held):
            changed["fleet"], changed["sets"] = one.fleet, None
            changed["held"] = (digest(corrector.settings, one.fleet),) if corrector else ()
            changed["generation"] = 0
            if one.reset:
                changed["epoch"] = record.offset + 1
            if one.identity is not None:
                changed |= {"app": one.app, "identity": one.identity}
        elif one.settings is not None and corrector is not None:
            fleet = one.fleet or self.fleet
            sets: Any = one.settings.get("sets", self.sets)
            try:
                if sets is not None:
                    miss_of(sets)
            except ValueError as error:
                raise BadEntry(str(error)) from None
            now = digest(corrector.settings | {"sets": sets}, fleet)
            changed["fleet"], changed["sets"] = fleet, sets
            others = tuple(before for before in self.held if before != now)
            changed["held"] = (*others, now)[-MOST_HELD:]
            changed["generation"] = max(self.generation + 1, one.generation or 0)
        return msgspec.structs.replace(self, **changed, by=one.by) if changed else self


def digest(settings: dict[str, Any], fleet: FleetTerms | None = None) -> bytes:
    """A few bytes that stand for settings of a corrector, and of the lanes where there are any."""
    known = dict(settings)
    if known.get("sets", 0) is None:
        del known["sets"]
    same = {n: float(v) if isinstance(v, int | float) else v for n, v in known.items()}
    said: Any = sorted(same.items())
    if fleet is not None:
        said = [
            said,
            fleet.max_lanes,
            sorted((m, sorted(v.items())) for m, v in fleet.models.items()),
        ]
    return hashlib.sha256(msgspec.json.encode(said)).digest()[:8]
