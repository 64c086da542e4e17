"""Quantiles of label delays in constant memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = math.log(1.02)
LEAST = 1e-9
BINS = 3300
"""From 1e-9 to 2e19 in steps of 2 %."""


class Delays:
    """Label delays, counted on a logarithmic scale.

    Examples
    --------
    >>> import numpy as np
    >>> delays = Delays()
    >>> delays.add(np.arange(101))
    >>> delays.longest, 49 <= delays.quantile(0.5) <= 51
    (100.0, True)
    """

    def __init__(self) -> None:
        self.n = 0
        self.shortest, self.longest = math.inf, 0.0
        self._counts = np.zeros(BINS, np.int64)

    def add(self, delays: NDArray[Any]) -> None:
        """Add delays; a label known before its prediction has none."""
        if len(delays) == 0:
            return
        if delays.dtype.kind == "m":
            delays = delays.astype("timedelta64[us]").astype(np.int64)
        late = np.maximum(delays.astype(np.float64), 0)
        self.n += len(late)
        self.shortest = min(self.shortest, float(late.min()))
        self.longest = max(self.longest, float(late.max()))
        places = np.log(np.maximum(late, LEAST) / LEAST) / STEP
        self._counts += np.bincount(np.minimum(places.astype(np.int64), BINS - 1), minlength=BINS)

    def quantile(self, q: float) -> float:
        """The delay that a share q of the labels does not exceed, within 1 %; nan without
        labels."""
        if not self.n:
            return math.nan
        place = int(np.searchsorted(np.cumsum(self._counts), max(q * self.n, 1)))
        middle = LEAST * math.exp(STEP * (place + 0.5)) if place else 0.0
        return min(max(middle, self.shortest), self.longest)

    def summary(self) -> dict[str, float] | None:
        """Delay of half of the labels, of 90 %, and of all; None without labels."""
        if not self.n:
            return None
        return {"median": self.quantile(0.5), "p90": self.quantile(0.9), "longest": self.longest}
