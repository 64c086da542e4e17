"""Against what one would use today: a recording played once for each rival."""

from stream_can.compare.outcome import Outcome, compare
from stream_can.compare.rivals import Rival, rivals
from stream_can.compare.stream import Stream, load

__all__ = ["Outcome", "Rival", "Stream", "compare", "load", "rivals"]
