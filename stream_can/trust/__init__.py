"""Detect that the classifier itself has become worse."""

from stream_can.trust.alarm import Alarm, Episode

__all__ = ["Alarm", "Episode"]
