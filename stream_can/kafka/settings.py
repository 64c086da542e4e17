"""Everything that ``stream-can run`` can be told, with its bounds and its help."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
)
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from stream_can.app.start import SEGMENTS_MB
from stream_can.kafka.client.options import PRODUCER
from stream_can.kafka.client.registry import passwords_in, servers_at
from stream_can.messages.fields import Fields
from stream_can.method.promise import miss_of
from stream_can.method.rows import Normalise
from stream_can.method.segments import column_names
from stream_can.method.settings import LOOP, SETTINGS, check_settings, given_settings
from stream_can.stream.identity import Identity

Name = str | int | float
Format = Literal["json", "avro", "protobuf", "json-schema"]


FORMATS_OF = {
    "schema_registry": ("avro", "protobuf", "json-schema"),
    "avro_schema": ("avro",),
    "protobuf_descriptor": ("protobuf",),
    "protobuf_message": ("protobuf",),
    "protobuf_label_message": ("protobuf",),
}
"""Settings that say nothing about other formats than these."""
NEEDED = {
    "schema_registry_user": "schema_registry",
    "schema_registry_password": "schema_registry_user",
    "schema_registry_ca": "schema_registry",
    "output_subject": "schema_registry",
}
"""Settings that say nothing without another."""


def _is(help_: str, **bounds: Any) -> Meta:
    return Meta(description=help_, **bounds)


if TYPE_CHECKING:

    class OfModel(msgspec.Struct, frozen=True):
        """Settings of the corrector that differ for one model."""

    class OfCorrector(msgspec.Struct, frozen=True):
        """All settings of the corrector; those that are read here by name."""

        paths: list[str] | None
        segments: list[str] | None
        segments_mb: float | None
        sets: float | None

else:
    OfModel, OfCorrector = given_settings(LOOP), given_settings(segments_mb=SEGMENTS_MB)


class ModelSettings(
    OfModel, kw_only=True, forbid_unknown_fields=True, frozen=True, omit_defaults=True
):
    """What differs for one model: ``[models.NAME]``."""

    classes: list[Name] | None = None
    train_counts: list[float] | None = None

    @property
    def corrector(self) -> dict[str, Any]:
        """Those settings of the corrector that are given."""
        values = {name: getattr(self, name) for name in LOOP}
        return {name: value for name, value in values.items() if value is not None}


class Settings(OfCorrector, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Everything that ``stream-can run`` can be told; `options` lists it with its help."""

    secret_names: ClassVar[tuple[str, ...]] = ("schema_registry_password",)
    """Settings that may come from a file, ``<name>_from_file``."""
    files: ClassVar[tuple[str, ...]] = (
        "classes_from_file", "schema_registry_ca", "avro_schema", "protobuf_descriptor",
    )  # fmt: skip
    """Settings that name a file: as seen from the one that names it."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of what can be told."""
        return (*(name for name in cls.__struct_fields__ if name not in SETTINGS), *SETTINGS)

    bootstrap_servers: Annotated[list[str], _is("brokers to ask first, host:port,...")]
    application_id: Annotated[
        str, _is("consumer group and first part of the transactional id", min_length=1)
    ]
    input: Annotated[str, _is("topic of predictions")]
    output: Annotated[str, _is("topic of corrected predictions")]
    labels: Annotated[str | None, _is("topic of labels, if any; keyed like the predictions")] = None
    state: Annotated[str | None, _is("compacted topic of states (application_id-state)")] = None
    learned: Annotated[str | None, _is("log of what is learned (application_id-learned)")] = None
    dead_letters: Annotated[
        str | None, _is("topic of what cannot be read (application_id-dead-letters)")
    ] = None
    ask: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        _is("share of labels to ask for, in the topic application_id-label-requests"),
    ] = None
    instance: Annotated[
        str | None, _is("name of this process, the same after a restart (the host's name)")
    ] = None

    classes: Annotated[list[Name] | None, _is("class names in the order of the arrays")] = None
    train_counts: Annotated[
        list[float] | None, _is("training rows per class, in the order of the classes")
    ] = None
    classes_from_file: Annotated[
        str | None,
        _is("JSON with classes and train_counts, or a snapshot to start from"),
    ] = None

    probs: Annotated[str, _is("field of the probabilities; dots reach inside")] = "probs"
    raw: Annotated[str, _is("field that keeps the original; empty keeps none")] = "probs_raw"
    id: Annotated[str | None, _is("field that joins labels to predictions (the key)")] = None
    label: Annotated[str, _is("field of the label")] = "label"
    normalise: Annotated[
        Normalise, _is("divide rows by their sum where rounding explains it, or always")
    ] = "rounded"
    digits: Annotated[int | None, _is("round the output to so many digits")] = None
    format: Annotated[Format, _is("what the messages are written in")] = "json"
    labels_format: Annotated[
        Format | None, _is("what the labels are written in (as the predictions)")
    ] = None
    schema_registry: Annotated[
        str | None, _is("http(s) address of the schema registry's API, or several with commas")
    ] = None
    schema_registry_user: Annotated[str | None, _is("its user, or the key of its API")] = None
    schema_registry_password: Annotated[
        str | None, _is("that user's password; better in the environment than here")
    ] = None
    schema_registry_ca: Annotated[
        str | None, _is("PEM file of the authority behind its certificate (the system's)")
    ] = None
    output_subject: Annotated[
        str | None, _is("subject to register the schemas of the output under (OUTPUT-value)")
    ] = None
    avro_schema: Annotated[
        str | None, _is("Avro schema of the messages, a file, where there is no registry")
    ] = None
    protobuf_descriptor: Annotated[
        str | None, _is("file of the messages' types: a FileDescriptorSet, protoc -o")
    ] = None
    protobuf_message: Annotated[
        str | None, _is("full name of the messages' type, package.Message")
    ] = None
    protobuf_label_message: Annotated[
        str | None, _is("full name of the type of labels (that of predictions)")
    ] = None
    protobuf_first_field: Annotated[
        int, _is("number of the first field that is added to the output", ge=1, le=2**29 - 1)
    ] = 20001
    model: Annotated[
        str | None, _is("field, or header:NAME, that names the model: each learns for itself")
    ] = None
    version: Annotated[
        str | None, _is("field, or header:NAME, that names its version: as the model, alike")
    ] = None
    only_listed_models: Annotated[
        bool, _is("refuse predictions of models without a table [models.NAME]")
    ] = False
    max_lanes: Annotated[
        int,
        _is("models and versions to keep; the one that was silent longest goes", ge=1, le=10_000),
    ] = 1000
    models: Annotated[
        dict[str, ModelSettings], _is("[models.NAME]: what differs for a model; in the file alone")
    ] = {}  # noqa: RUF012, msgspec copies it

    learn: Annotated[
        Literal["together", "apart"],
        _is("whether all partitions learn from all labels, or each from its own alone"),
    ] = "together"
    learn_share: Annotated[
        float, _is("share of the labels that are learned, where they are very many", gt=0, le=1)
    ] = 1.0

    start: Annotated[
        Literal["earliest", "latest"], _is("where a group begins that has committed nothing")
    ] = "earliest"
    reset_state: Annotated[
        bool, _is("begin with fresh state where what is stored cannot be used")
    ] = False
    for_everyone: Annotated[
        bool, _is("let reset_state begin the learned log anew under other workers that are alive")
    ] = False
    settings_generation: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        _is("number of these settings of the corrector, to bring earlier ones back"),
    ] = None
    skip_gap: Annotated[bool, _is("go on behind records that retention has deleted")] = False
    skip_damaged: Annotated[
        bool, _is("make one dead letter of a batch whose bytes are damaged, and go on behind it")
    ] = False
    errors: Annotated[
        Literal["dead-letter", "fail"], _is("what to do with a record that cannot be read")
    ] = "dead-letter"
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], _is("codec of what is written")
    ] = "none"
    commit_interval_ms: Annotated[int, _is("commit at least so often", ge=1)] = 200
    commit_every: Annotated[int, _is("commit after so many records at the latest", ge=1)] = 5000
    recent_mb: Annotated[float, _is("memory for predictions waiting for their label", gt=0)] = 64
    connect_seconds: Annotated[float, _is("give up after so long without any broker", ge=0)] = 300
    create_topics: Annotated[bool, _is("create missing topics, but the input")] = False
    check: Annotated[bool, _is("check settings, topics, rights and sizes, then exit")] = False
    http_port: Annotated[
        int | None, _is("serve a live page, /livez, /readyz and /metrics here (not at all)")
    ] = None
    http_host: Annotated[str, _is("address to serve them on (every one)")] = "0.0.0.0"
    live_seconds: Annotated[float, _is("/livez fails where the loop hangs for so long", gt=0)] = 120
    log_format: Annotated[Literal["text", "json"], _is("log lines for people or machines")] = "text"
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], _is("least level to log")
    ] = "INFO"
    client: Annotated[dict[str, Any], _is("options of kafka-python, NAME=VALUE")] = {}  # noqa: RUF012

    def __post_init__(self) -> None:
        given = self.classes is not None, self.classes_from_file is not None
        if all(given) or (not any(given) and not self.has_lanes):
            raise ValueError("give either classes or classes_from_file")
        if self.model is None and (self.models or self.only_listed_models):
            what = "models" if self.models else "only_listed_models"
            raise ValueError(f"{what}: needs model, the field that names the model")
        if not any(given) and self.train_counts is not None:
            raise ValueError("train_counts: needs classes")
        for name, own in self.models.items():
            try:
                check_settings(self._given(LOOP) | own.corrector)
            except ValueError as error:
                raise ValueError(f"models.{name}: {error}") from None
        if self.sets is not None:
            miss_of(self.sets)
            if self.format != "json":
                raise ValueError(f'sets: needs format = "json", it is {self.format!r}')
        if self.ask is not None and self.labels is None:
            raise ValueError("ask: needs labels, the topic that the answers come in")
        named = (self.input, self.output, self.labels, *self.own_topics, self.learned_topic)
        asked = None if self.ask is None else self.requests_topic
        topics = [t for t in (*named, asked) if t]
        if len(set(topics)) < len(topics):
            raise ValueError(f"topics must differ: {', '.join(topics)}")
        if self.http_port is not None and not 0 <= self.http_port <= 65535:
            raise ValueError(f"http_port: {self.http_port}, expected 0 to 65535")
        timeout = int(self.client.get("transaction_timeout_ms", PRODUCER["transaction_timeout_ms"]))
        if 2 * self.commit_interval_ms > timeout:
            raise ValueError(
                f"commit_interval_ms: {self.commit_interval_ms}, expected at most half of"
                f" client.transaction_timeout_ms, {timeout}: a commit takes time too"
            )
        for name, value in {"application_id": self.application_id, "instance": self.name}.items():
            if not re.fullmatch(r"[A-Za-z0-9._-]{1,120}", value):
                raise ValueError(f"{name}: {value!r} may only hold letters, digits, '.', '_', '-'")
        self._check_formats()
        check_settings(self.corrector)
        column_names(self.segments or ())
        _ = self.fields  # refused here what it refuses

    def _check_formats(self) -> None:
        """Raise ValueError where the settings of formats and registry do not belong together."""
        formats = self.formats
        if "avro" in formats and not (self.schema_registry or self.avro_schema):
            raise ValueError("format avro: needs schema_registry or, without one, avro_schema")
        if "json-schema" in formats and not self.schema_registry:
            raise ValueError("format json-schema: needs schema_registry")
        if "protobuf" in formats and not (self.protobuf_descriptor and self.protobuf_message):
            raise ValueError("format protobuf: needs protobuf_descriptor and protobuf_message")
        if self.avro_schema and self.schema_registry:
            raise ValueError("avro_schema: not with schema_registry, which has the schemas")
        for name, those in FORMATS_OF.items():
            if getattr(self, name) is not None and not {*those} & {*formats}:
                raise ValueError(f"{name}: needs format {' or '.join(those)}")
        for name, wanted in NEEDED.items():
            if getattr(self, name) is not None and getattr(self, wanted) is None:
                raise ValueError(f"{name}: needs {wanted}")
        if self.schema_registry is not None:
            try:
                servers_at(self.schema_registry)
            except ValueError as error:
                raise ValueError(f"schema_registry: {error}") from None
        if 19_000 <= self.protobuf_first_field <= 19_999:
            raise ValueError("protobuf_first_field: 19000 to 19999 are Protobuf's own")

    @property
    def formats(self) -> tuple[Format, Format]:
        """What predictions and labels are written in."""
        return self.format, self.labels_format or self.format

    @property
    def subject(self) -> str:
        """What the schemas of the output are registered under."""
        return self.output_subject or f"{self.output}-value"

    @property
    def has_lanes(self) -> bool:
        """Whether messages name a model or a version."""
        return self.model is not None or self.version is not None

    @property
    def name(self) -> str:
        """The instance: as given, else the host's name."""
        return self.instance or socket.gethostname()

    @property
    def own_topics(self) -> tuple[str, str]:
        """The topics of states and of dead letters."""
        return (
            self.state or f"{self.application_id}-state",
            self.dead_letters or f"{self.application_id}-dead-letters",
        )

    @property
    def learned_topic(self) -> str:
        """The topic of the learned log."""
        return self.learned or f"{self.application_id}-learned"

    @property
    def requests_topic(self) -> str:
        """The topic of label requests; as many partitions as the input."""
        return f"{self.application_id}-label-requests"

    @property
    def secrets(self) -> list[str]:
        """What no log may show."""
        proxy = urlsplit(str(self.client.get("proxy_url") or "")).password
        found = [value for name, value in self.client.items() if "password" in name]
        found += [proxy, self.schema_registry_password, *passwords_in(self.schema_registry or "")]
        return [text for text in found if isinstance(text, str) and text]

    @property
    def corrector(self) -> dict[str, Any]:
        """Those keyword arguments of `Corrector` that were given, without classes and counts."""
        return self._given(name for name in SETTINGS if name != "sets")  # the log has its own

    @property
    def fields(self) -> Fields:
        """Where in the messages everything is."""
        return Fields(
            probs=self.probs, raw=self.raw, label=self.label, id=self.id, digits=self.digits,
            normalise=self.normalise, model=self.model, version=self.version,
        )  # fmt: skip

    def identity(self, classes: Iterable[Name], segments: Iterable[str] = ()) -> Identity:
        """Who the application is, as its learned log says it."""
        return Identity(
            self.application_id, self.input, self.output, self.labels, self.probs, self.raw,
            self.label, self.id, tuple(classes), segments=tuple(segments), model=self.model,
            version=self.version,
        )  # fmt: skip

    @property
    def field_names(self) -> list[str]:
        """The names of the messages' fields that were given."""
        return [
            name
            for name in (self.probs, self.raw, self.label, self.id, self.model, self.version)
            if name
        ]

    def _given(self, names: Iterable[str]) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}
