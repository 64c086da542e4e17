"""Changed settings: what a start changes in what goes on from a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stream_can.corrector.content import bytes_of
from stream_can.corrector.known_mix import mix_in_order, same_mix
from stream_can.learner.learner import Learner
from stream_can.learner.saved import SavedHead
from stream_can.method.classes import ClassIndex
from stream_can.method.settings import LOOP, PROMISE

NOTICE = "settings change with this start: {}"


def changed_settings(corrector: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that differ from a corrector's; those that are left out stay.

    ``sets`` without ``sets_by`` are of all rows. A ``prior`` in other words may be the same.
    """
    if "sets" in settings:
        settings = {"sets_by": None, **settings}
    have = getattr(corrector, "settings", {})
    changed = {
        name: settings[name]
        for name in (*LOOP, *PROMISE)
        if name in settings
        and settings[name] != (have[name] if name in have else getattr(corrector, name, None))
    }
    if "prior" in settings and hasattr(corrector, "known_prior"):
        mix = mix_in_order(settings["prior"], ClassIndex(corrector.classes))
        if not same_mix(mix, corrector.known_prior):
            changed["prior"] = settings["prior"]
    mb, values = settings.get("segments_mb"), getattr(corrector, "_values", None)
    if mb is not None and values is not None and values.limit != bytes_of(mb):
        changed["segments_mb"] = mb
    return changed


def changed_limits(memory: Learner | SavedHead, limits: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a learner that differ from those of one of before."""
    return {name: value for name, value in limits.items() if getattr(memory, name) != value}
