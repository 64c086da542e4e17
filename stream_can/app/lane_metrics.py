"""LaneMetrics: counts of models and versions since this process started."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_can.app import table
from stream_can.app.counts import Seen
from stream_can.app.versions import MOST_PAIRS, Comparison, Pair
from stream_can.messages.naming import LaneName

MOST_SERIES, OTHERS = 50, LaneName("other", "")
"""Maximum number of lanes with series of their own; the rest share one."""
MOST_LANES = 1000


class LaneMetrics:
    """Counts of models and versions since this process started.

    Parameters
    ----------
    metrics
        The metrics by name, see `table.make`.
    """

    def __init__(self, metrics: Mapping[str, Any]) -> None:
        self._metrics = metrics
        self.tallies: dict[LaneName, NDArray[np.float64]] = {}
        """Tally of each lane, see `Seen`."""
        self.versions: dict[Pair, Comparison] = {}
        """Versions of a model on the same labels."""
        self.refused: tuple[int, float] = 0, 0.0
        """Predictions refused because of too many models, and the time of the last."""
        self._series: dict[LaneName, LaneName] = {}

    def include(self, seen: Seen | None) -> None:
        """Add what a source saw since the last commit; None without models."""
        if seen is None:
            return
        for name, tally in seen.tallies.items():
            self.tallies[name] = self.tallies.get(name, 0.0) + tally
            series = self._series.get(name, OTHERS)
            if series is OTHERS and len(self._series) < MOST_SERIES:
                series = self._series[name] = name
            table.count_lane(self._metrics, series, tally.tolist())
        if len(self.tallies) > 2 * MOST_LANES:
            most = sorted(self.tallies, key=lambda name: -self.tallies[name][0])[:MOST_LANES]
            self.tallies = {name: self.tallies[name] for name in most}
        for pair, comparison in seen.versions.items():
            self.versions.setdefault(pair, Comparison()).update(comparison)
        while len(self.versions) > MOST_PAIRS:
            del self.versions[next(iter(self.versions))]
        if seen.refused:
            self.refused = self.refused[0] + seen.refused, time.time()
