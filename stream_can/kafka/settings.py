"""The settings of ``stream-can run``, with bounds and help texts."""

from __future__ import annotations

import re
import socket
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from stream_can.app.application import ApplicationSettings, described
from stream_can.app.model_settings import Name
from stream_can.app.settings import SettingsError
from stream_can.kafka.client.options import require_time
from stream_can.kafka.client.registry_addresses import passwords_in
from stream_can.kafka.format_settings import Format, check_formats
from stream_can.kafka.label_topics import OF_LABELS, LabelTopic, check_map, fields_of_labels
from stream_can.messages.fields import Fields

OWN_TOPICS = {"state_topic": "state", "sent_topic": "sent", "dead_letters": "dead-letters"}
"""Suffixes of the application's topics, where they are not named."""
_is = described


class Settings(ApplicationSettings, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """The settings of ``stream-can run``; `options` lists them with their help texts."""

    place = "topics"
    secret_names: ClassVar[tuple[str, ...]] = ("schema_registry_password",)
    files: ClassVar[tuple[str, ...]] = (
        "classes_from_file", "schema_registry_ca", "avro_schema", "protobuf_descriptor",
    )  # fmt: skip

    bootstrap_servers: Annotated[list[str], _is("brokers to connect to first: host:port,...")]
    application_id: Annotated[
        str,
        _is(
            "name of the application: consumer group, prefix of transactional ids and topics",
            min_length=1,
        ),
    ]
    input: Annotated[str, _is("topic of predictions (none: only servers correct)")] = ""
    output: Annotated[str, _is("topic of corrected predictions")] = ""
    labels: Annotated[str | None, _is("topic of labels, if any")] = None
    label_topics: Annotated[
        dict[str, LabelTopic],
        _is("[label_topics.TOPIC]: another topic of labels, with settings of its own"),
    ] = {}  # noqa: RUF012
    label_id: Annotated[
        str | None,
        _is("id in a label, joins it to a prediction: field, header:NAME, or key: (as id)"),
    ] = None
    label_map: Annotated[
        dict[str, Name],
        _is("class for a label written otherwise: TEXT=CLASS; TEXT= to ignore it"),
    ] = {}  # noqa: RUF012
    time: Annotated[
        str | None, _is("field, or header:NAME, with the time of a prediction (time of the record)")
    ] = None
    label_time: Annotated[
        str | None, _is("field, or header:NAME, with the time of a label (time of the record)")
    ] = None
    state_topic: Annotated[str, _is("compacted topic of states (application_id-state)")] = ""
    sent_topic: Annotated[
        str, _is("topic of sent batches, which the learner reads (application_id-sent)")
    ] = ""
    dead_letters: Annotated[
        str, _is("topic of unreadable records (application_id-dead-letters)")
    ] = ""
    ask: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        _is("share of the predictions whose labels to request (application_id-label-requests)"),
    ] = None
    instance: Annotated[
        str | None, _is("name of this process, the same after a restart (host name)")
    ] = None

    format: Annotated[Format, _is("format of messages: json, avro, protobuf or json-schema")] = (
        "json"
    )
    labels_format: Annotated[Format | None, _is("format of labels (that of the predictions)")] = (
        None
    )
    schema_registry: Annotated[
        str | None, _is("URL of the schema registry, or several with commas")
    ] = None
    schema_registry_user: Annotated[str | None, _is("user of the schema registry, or API key")] = (
        None
    )
    schema_registry_password: Annotated[
        str | None, _is("password of that user, or API secret; better set in the environment")
    ] = None
    schema_registry_ca: Annotated[
        str | None,
        _is("PEM file of the certificate authority of the registry (that of the system)"),
    ] = None
    output_subject: Annotated[
        str | None, _is("registry subject for the schemas of the output (OUTPUT-value)")
    ] = None
    avro_schema: Annotated[
        str | None, _is("file with the Avro schema of messages, if there is no registry")
    ] = None
    protobuf_descriptor: Annotated[
        str | None,
        _is("file with the Protobuf types of messages, a FileDescriptorSet from protoc -o"),
    ] = None
    protobuf_message: Annotated[str | None, _is("Protobuf type of messages: package.Message")] = (
        None
    )
    protobuf_label_message: Annotated[
        str | None, _is("Protobuf type of labels (that of the predictions)")
    ] = None
    protobuf_first_field: Annotated[
        int, _is("Protobuf number of the first field added to the output", ge=1, le=2**29 - 1)
    ] = 20001

    learn: Annotated[bool, _is("let this process learn for all workers; one at a time does")] = True
    label_wait: Annotated[
        float, _is("seconds to keep a label that arrives before its prediction", gt=0)
    ] = 90
    backlog: Annotated[
        Literal["ordered", "lagging"],
        _is(
            "who corrects a backlog: the learner, after learning every earlier label (ordered), or"
            " the workers, with the newest state (lagging)"
        ),
    ] = "ordered"
    reset_offsets: Annotated[
        bool, _is("start over if the offsets of the group are lost or belong to another topic")
    ] = False

    start: Annotated[
        Literal["earliest", "latest"], _is("where a new group begins to read: earliest or latest")
    ] = "earliest"
    skip_damaged: Annotated[
        bool, _is("turn a corrupt batch into one dead letter and go on, instead of stopping")
    ] = False
    errors: Annotated[
        Literal["dead-letter", "fail"], _is("on an unreadable record: dead-letter or fail")
    ] = "dead-letter"
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"],
        _is("compression of written records: none, gzip, snappy, lz4 or zstd"),
    ] = "none"
    commit_interval_ms: Annotated[int, _is("milliseconds between two commits, at most", ge=1)] = 200
    commit_every: Annotated[int, _is("records between two commits, at most", ge=1)] = 5000
    connect_seconds: Annotated[
        float, _is("seconds without any broker after which to give up", ge=0)
    ] = 300
    create_topics: Annotated[bool, _is("create missing topics, except the input")] = False
    check: Annotated[bool, _is("check settings, topics, permissions and sizes, then exit")] = False
    client: Annotated[
        dict[str, Any], _is("option of the Kafka client (kafka-python): NAME=VALUE")
    ] = {}  # noqa: RUF012

    def __post_init__(self) -> None:
        super().__post_init__()
        if re.fullmatch(r"[\w.-]+(?<!-learner)", self.application_id, re.ASCII) is None:
            raise ValueError(
                f"application_id: {self.application_id!r}, expected letters, digits, '.', '_' and"
                " '-', and not -learner at its end, as topics and the learner are named by it"
            )
        if bool(self.input) != bool(self.output):
            raise ValueError("input and output: give both, or neither where servers alone correct")
        if not self.input and self.id is None:
            force_setattr(self, "id", "id")  # servers use "id"
        for name, kind in OWN_TOPICS.items():
            if not getattr(self, name):
                force_setattr(self, name, f"{self.application_id}-{kind}")
        if self.ask is not None and self.labels is None:
            raise ValueError("ask: needs labels, the topic that the answers come in")
        if self.label_topics and self.labels is None:
            raise ValueError("label_topics: needs labels, the first of the topics of labels")
        class_names, closed = [*map(str, self.classes or ())], not self.has_lanes
        for topic, fields in self.label_fields.items():  # raises where they are inconsistent
            answers = (self.ask is not None or not self.input) and topic == self.labels
            check_map(fields.label_map, class_names, closed=closed, answers=answers)
        topics = [self.input, self.output, *self.topics_of_labels]
        topics += [getattr(self, name) for name in OWN_TOPICS]
        topics = [*filter(None, topics), *([] if self.ask is None else [self.requests_topic])]
        if len(set(topics)) < len(topics):
            raise ValueError(f"topics must differ: {', '.join(topics)}")
        require_time(self.client, self.label_wait, self.commit_interval_ms)
        self._check_name("instance", self.name)
        formats = {*self.formats, *map(self.format_of, self.topics_of_labels)}
        check_formats(formats, msgspec.structs.asdict(self))

    @property
    def label_fields(self) -> dict[str, Fields]:
        """Fields of the labels in each topic of labels, by its name, the first one first; ``id`` is
        that of the prediction."""
        labels_fields = {}
        for topic in self.topics_of_labels:
            where = f"label_topics.{topic}: " if topic in self.label_topics else ""
            values = [self.of_labels(topic, name) for name in OF_LABELS[:4]]
            labels_fields[topic] = fields_of_labels(self.fields, *values, where=where)
        return labels_fields

    @property
    def topics_of_labels(self) -> list[str]:
        """Topics of labels, the first one first."""
        return [] if self.labels is None else [self.labels, *self.label_topics]

    def of_labels(self, topic: str, name: str) -> Any:
        """One of the settings `OF_LABELS` of a topic of labels."""
        topic_setting = getattr(self.label_topics.get(topic), name, None)
        return getattr(self, name) if topic_setting is None else topic_setting

    def require_input(self) -> None:
        """Raise SettingsError where a command reads predictions and the settings name no topic of
        predictions."""
        if not self.input:
            raise SettingsError("input: name the topic of predictions, and output, where they go")

    @property
    def formats(self) -> tuple[Format, Format]:
        """Formats of predictions and of labels."""
        return self.format, self.labels_format or self.format

    def format_of(self, topic: str) -> Format:
        """Format of a topic of labels."""
        topic_format: Format | None = self.of_labels(topic, "labels_format")
        return topic_format or self.format

    @property
    def subject(self) -> str:
        """Subject of the output's schemas."""
        return self.output_subject or f"{self.output}-value"

    @property
    def name(self) -> str:
        """Name of this process: as given, else the host's name."""
        return self.instance or socket.gethostname()

    @property
    def requests_topic(self) -> str:
        """Topic of label requests; it has as many partitions as the input."""
        return f"{self.application_id}-label-requests"

    @property
    def secrets(self) -> list[str]:
        """Values that must not appear in logs."""
        proxy = urlsplit(str(self.client.get("proxy_url") or "")).password
        secrets = [value for name, value in self.client.items() if "password" in name]
        secrets += [proxy, self.schema_registry_password, *passwords_in(self.schema_registry or "")]
        return [text for text in secrets if isinstance(text, str) and text]
