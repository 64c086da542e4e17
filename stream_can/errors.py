"""The errors that stream_can raises.

StreamCANError
├── InvalidPrediction  (ValueError)   a row is not a probability vector
├── UnknownClass       (ValueError)   a label is none of the classes
├── SnapshotMismatch   (ValueError)   bytes that are no snapshot, or one of another corrector
├── tables.InvalidRecording    (ValueError)   a file that cannot be replayed
├── messages.BadMessage        (ValueError)   a message that cannot be read
├── pipe.BadLine                              the line at which `--errors fail` stopped
├── kafka.settings.SettingsError (ValueError) a setting of `stream-can run`
├── kafka.guards.ClientError                  what a Kafka client cannot do, and what to do about it
└── kafka.worker.UnreadableRecord             the record at which `--errors fail` stopped
"""

__all__ = ["InvalidPrediction", "SnapshotMismatch", "StreamCANError", "UnknownClass"]


class StreamCANError(Exception):
    """Base of every error that stream_can raises on purpose."""


class InvalidPrediction(StreamCANError, ValueError):
    """A prediction is not a probability vector; the message names the row and the reason."""


class UnknownClass(StreamCANError, ValueError):
    """A label is none of the corrector's classes; the message names both."""


class SnapshotMismatch(StreamCANError, ValueError):
    """Bytes are truncated, corrupt, of a newer version, or of another corrector than asked for."""
