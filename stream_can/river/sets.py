"""Prediction sets of a stream whose classes appear as they come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stream_can import snapshot
from stream_can.trust.sets import PredictionSets

__all__ = ["knowing"]


def knowing(sets: PredictionSets, names: Iterable[Any]) -> PredictionSets:
    """A copy that knows some classes more, of which nothing was learned yet."""
    content, arrays = snapshot.decode(sets.to_bytes())
    content["classes"] = [*dict.fromkeys([*sets.classes, *names])]
    for name in ("shifts", "counts"):
        arrays[name] = arrays[name].copy()
        arrays[name].resize(len(content["classes"]))  # with zeros
    return PredictionSets.from_bytes(snapshot.encode(content, arrays))
