"""Compare stream_can to what one would use today, on a recording."""

from stream_can.compare.outcome import Outcome, compare
from stream_can.compare.rivals import Rival, rivals
from stream_can.compare.stream import Stream, load

__all__ = ["Outcome", "Rival", "Stream", "compare", "load", "rivals"]
