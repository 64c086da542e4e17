"""MetricsRegistry: the metrics of a worker, collected while its loop does not change them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Metric


class MetricsRegistry(CollectorRegistry):
    """The metrics of a worker, collected while its loop does not change them.

    Parameters
    ----------
    set_gauges
        Called before each collection: sets gauges that are not counted.
    """

    def __init__(self, set_gauges: Callable[[], None]) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self._set_gauges = set_gauges

    def collect(self) -> Iterator[Metric]:
        """Every metric, without creation times of counters."""
        with self.lock:
            self._set_gauges()
            metrics = list(super().collect())
        for metric in metrics:
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            for sample in metric.samples:
                if sample.labels.get("le", "+Inf") != "+Inf":
                    # prometheus_client would write 2.592e+06, beside 2592000.0 another series.
                    sample.labels["le"] = str(float(sample.labels["le"]))
        yield from metrics
