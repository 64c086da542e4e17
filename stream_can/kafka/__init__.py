"""Correct predictions between topics of Apache Kafka, exactly once.

::

    import os
    from stream_can.kafka import Worker, load

    Worker(load("app.toml", {}, os.environ)).run()
"""

from stream_can.app.model_settings import ModelSettings
from stream_can.app.settings import Option, SettingsError
from stream_can.kafka.client.guards import (
    ClientError,
    DeniedError,
    FencedError,
    RebuildError,
    RetryError,
)
from stream_can.kafka.corrections import UnreadableRecord
from stream_can.kafka.engine import ApplicationState, States, read_state
from stream_can.kafka.label_topics import LabelTopic
from stream_can.kafka.loading import load, options
from stream_can.kafka.process import EXIT_CODES, run
from stream_can.kafka.settings import Settings
from stream_can.kafka.worker import Worker

__all__ = [
    "EXIT_CODES",
    "ApplicationState",
    "ClientError",
    "DeniedError",
    "FencedError",
    "LabelTopic",
    "ModelSettings",
    "Option",
    "RebuildError",
    "RetryError",
    "Settings",
    "SettingsError",
    "States",
    "UnreadableRecord",
    "Worker",
    "load",
    "options",
    "read_state",
    "run",
]
