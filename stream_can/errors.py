"""The errors that stream_can raises.

StreamCANError
├── InvalidPrediction          (ValueError) a row is not a probability vector
├── UnknownClass               (ValueError) a label is none of the classes
├── SnapshotMismatch           (ValueError) bytes that are no snapshot, or one of another corrector
├── recording.InvalidRecording (ValueError) a file that cannot be replayed
├── stream.messages.BadMessage (ValueError) a message that cannot be read
├── report.NoLabels            (ValueError) a replay without a label: nothing to draw
├── pipe.StateInUse                         another pipe has the state file
├── pipe.BadLine                            the line at which `--errors fail` stopped
├── kafka.SettingsError        (ValueError) a setting of `stream-can run`
├── kafka.refusals.RefusedOutput            what the output topic would not take: a dead letter
├── kafka.ClientError                       what a Kafka client cannot do, and what to do about it
└── kafka.UnreadableRecord                  the record at which `--errors fail` stopped
"""

from typing import ClassVar

__all__ = ["InvalidPrediction", "SnapshotMismatch", "StreamCANError", "UnknownClass"]


class StreamCANError(Exception):
    """Base of every error that stream_can raises on purpose."""

    full_name: ClassVar[str] = "stream_can.errors.StreamCANError"
    """What dead letters call it in their headers: wire format, whatever module it lives in."""


class InvalidPrediction(StreamCANError, ValueError):
    """A prediction is not a probability vector; the message names the row and the reason."""

    full_name = "stream_can.errors.InvalidPrediction"


class UnknownClass(StreamCANError, ValueError):
    """A label is none of the corrector's classes; the message names both."""

    full_name = "stream_can.errors.UnknownClass"


class SnapshotMismatch(StreamCANError, ValueError):
    """Bytes are truncated, corrupt, of a newer version, or of another corrector than asked for."""
