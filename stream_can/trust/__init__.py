"""Detect that the classifier itself has become worse."""

from stream_can.trust.alarm import Alarm
from stream_can.trust.episode import Episode

__all__ = ["Alarm", "Episode"]
