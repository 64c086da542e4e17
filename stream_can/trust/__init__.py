"""Has the classifier itself become worse, and how right is it before labels come?"""

from stream_can.trust.alarm import Alarm
from stream_can.trust.episode import Episode
from stream_can.trust.expected import ExpectedAccuracy, Gap, Interval, expected_accuracy

__all__ = ["Alarm", "Episode", "ExpectedAccuracy", "Gap", "Interval", "expected_accuracy"]
