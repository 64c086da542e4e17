"""Errors raised by stream_can.

StreamCANError
├── InvalidPrediction          (ValueError) a row is not a probability vector
├── UnknownClass               (ValueError) a label is none of the classes
├── SnapshotMismatch           (ValueError) bytes that are no snapshot, or one of another corrector
├── recording.InvalidRecording (ValueError) a file that cannot be replayed
├── messages.probability_formats.BadMessage  (ValueError) a message that cannot be read
│   └── messages.codecs.avro.AvroSchemaError  no record of an Avro schema can be read or answered
├── report.NoLabels            (ValueError) a replay without a label: nothing to draw
├── pipe.StateInUse                         another pipe has the state file
├── pipe.BadLine                            the line at which `--errors fail` stopped
├── pipe.container.NoContainer              the input of a pipe is no Avro container file
├── app.settings.SettingsError (ValueError) a setting of `stream-can run` or `serve`
├── kafka.dead_letters.RefusedOutput            what the output topic would not take: a dead letter
├── serve.service.TooMany                   a request of more rows than are read at once
├── app.server.NoPort                       a port cannot be had
├── app.labelling.requests.NotOpen          a label request that was answered already
├── app.labelling.requests.NotWritten       a label cannot be written now
├── kafka.ClientError                       what a Kafka client cannot do, and what to do about it
│   ├── kafka.client.guards.RetryError      wait and try again
│   │   ├── kafka.client.registry_connection.RegistryDown  no schema registry answers
│   │   └── kafka.schema_lookups.RegistryAway  nor did one for as long as one waits
│   ├── kafka.client.guards.RebuildError    make the client again
│   │   └── kafka.client.guards.MadeAgain   a topic is another one of the same name
│   ├── kafka.client.guards.FencedError     another process has this one's name
│   ├── kafka.client.guards.DeniedError     no retry helps
│   │   └── kafka.client.guards.NoRight     a right is missing
│   ├── kafka.client.registry.UnknownSchema a schema that the registry does not have
│   └── kafka.client.registry.RefusedSchema one that it does not take
├── kafka.UnreadableRecord                  the record at which `--errors fail` stopped
├── serve.database.StateError                the state file of a server cannot be used
├── serve.database.CannotWrite               nothing of a commit is in it
├── serve.service.Refused                   a request with a message that cannot be read
├── serve.service.Unavailable               what a server cannot do now
├── serve.service.NoBrokers                 no broker answers a server that begins
└── serve.inference.BadRequest              none of the open inference protocol

Within the package, and caught there: kafka.client.guards.DamagedBatch, a batch whose bytes have
changed, messages.label.NoLabel, a message that says there is no label,
pipe.lines.StopReading, which ends a read that waits,
serve.app.HttpProblem, an answer,
serve.bounded_connection.Refusal, which ends a connection's parser.
"""

from typing import ClassVar

__all__ = ["InvalidPrediction", "SnapshotMismatch", "StreamCANError", "UnknownClass"]


class StreamCANError(Exception):
    """Base of every error that stream_can raises deliberately."""

    full_name: ClassVar[str] = "stream_can.errors.StreamCANError"
    """Name in the headers of dead letters: part of the wire format, unlike the class's module."""


class InvalidPrediction(StreamCANError, ValueError):
    """A prediction is not a probability vector; the message names the row and the reason."""

    full_name = "stream_can.errors.InvalidPrediction"


class UnknownClass(StreamCANError, ValueError):
    """A label is not one of the corrector's classes; the message names both."""

    full_name = "stream_can.errors.UnknownClass"


class SnapshotMismatch(StreamCANError, ValueError):
    """Bytes are truncated, corrupt, of a newer version, or of another corrector than expected."""
