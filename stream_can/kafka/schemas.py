"""Schemas of messages from a registry or a file, and records that wait for a registry."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from stream_can.app.settings import SettingsError
from stream_can.kafka.client.guards import ClientError, DeniedError, RetryError
from stream_can.kafka.client.registry import RefusedSchema, Registry, UnknownSchema
from stream_can.kafka.settings import Settings
from stream_can.messages.codecs.codec import Codec
from stream_can.messages.codecs.framing import HEAD, Key, SchemaText, key_of, shown
from stream_can.messages.codecs.json import JsonCodec
from stream_can.messages.messages import BadMessage, Formats
from stream_can.messages.records import Headers

__all__ = ["Asked", "RegistryAway", "RegistrySchemas", "check", "formats"]

log = logging.getLogger(__name__)

AGAIN_SECONDS = 5.0
"""How long a negative answer of the registry is cached, in seconds."""
PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between two attempts at a registry that does not answer: first, and longest."""
MOST_REFUSED = 10_000


class RegistryAway(RetryError):
    """No registry has answered for as long as brokers would be waited for."""


class RegistrySchemas:
    """Schemas of a registry; implements :class:`stream_can.messages.codecs.framing.Schemas`.

    Parameters
    ----------
    registry
        The registry client.
    subject
        Subject of the schemas of outputs.
    """

    def __init__(self, registry: Registry, subject: str) -> None:
        self.registry, self.subject = registry, subject

    def key(self, value: bytes, headers: Headers) -> tuple[Key, int]:
        """Read the schema number or GUID in front of a message."""
        return key_of(value, headers)

    def schema(self, key: Key) -> SchemaText:
        """Look up a schema; results are cached, negative ones for a while."""
        ask = self.registry.schema if isinstance(key, int) else self.registry.schema_by_guid
        try:
            schema = ask(key)  # type: ignore[arg-type]
        except UnknownSchema as error:
            raise BadMessage(str(error)) from None
        return SchemaText(schema.kind, schema.text, schema.references, schema.direct)

    def newest(self) -> tuple[bytes, SchemaText]:
        """Return the latest version of the subject."""
        try:
            number, newest = self.registry.latest(self.subject)
        except UnknownSchema as error:
            raise BadMessage(str(error)) from None
        text = SchemaText(newest.kind, newest.text, newest.references, newest.direct)
        return framed(number), text

    def head(self, written: SchemaText) -> bytes:
        """Return the encoded number of a schema registered under the subject."""
        kind: Any = written.kind
        try:
            number = self.registry.register(self.subject, kind, written.text, written.named)
        except RefusedSchema as error:
            raise BadMessage(str(error)) from None
        return framed(number)


def framed(number: int) -> bytes:
    """Encode a schema's number as the prefix of a message."""
    return b"\0" + number.to_bytes(HEAD - 1, "big")


def formats(settings: Settings) -> Formats:
    """Create the readers of an application's messages.

    Raises
    ------
    SettingsError
        A file of schemas cannot be read, or a package is not installed.
    """
    s = settings
    registry = None
    if s.schema_registry is not None:
        registry = Registry(
            s.schema_registry,
            user=s.schema_registry_user,
            password=s.schema_registry_password,
            ca=s.schema_registry_ca,
        )
    fields: dict[str, Any] = {"probs": s.fields.probs, "raw": s.fields.raw, "sets": s.has_sets}
    predictions = _codec(s, s.format, registry, s.subject, s.protobuf_message, fields)
    codecs = {
        topic: _label_codec(s, topic, registry, fields)
        for topic in s.topics_of_labels or [""]
    }  # fmt: skip
    first, *further = codecs
    return Formats(predictions, codecs[first], {topic: codecs[topic] for topic in further})


def _label_codec(
    s: Settings, topic: str, registry: Registry | None, fields: dict[str, Any]
) -> Codec:
    """Create the codec of a topic of labels."""
    label_message = s.of_labels(topic, "protobuf_label_message")
    if label_message not in (
        None,
        s.protobuf_message,
    ):  # labels have no probabilities and no outputs
        fields = {"probs": s.fields.probs, "raw": ""}
    message = label_message or s.protobuf_message
    return _codec(s, s.format_of(topic), registry, f"{topic}-value", message, fields)


def _codec(
    s: Settings,
    format: str,
    registry: Registry | None,
    subject: str,
    message: str | None,
    fields: dict[str, Any],
) -> Codec:
    """Create a codec that writes under a subject."""
    schemas: Any = None if registry is None else RegistrySchemas(registry, subject)
    try:
        match format:
            case "avro":
                from stream_can.messages.codecs.avro import AvroCodec
                from stream_can.messages.codecs.single_object import SchemaFile

                return AvroCodec(schemas or SchemaFile(s.avro_schema or ""), **fields)
            case "json-schema":
                from stream_can.messages.codecs.json_schema import JsonSchemaCodec

                return JsonSchemaCodec(schemas, **fields)
            case "protobuf":
                from stream_can.messages.codecs.protobuf import ProtobufCodec

                return ProtobufCodec(
                    schemas,
                    s.protobuf_descriptor or "",
                    message or "",
                    first_field=s.protobuf_first_field,
                    **fields,
                )
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"format: {format} needs {error.name}: pip install 'stream_can[{format}]'"
        ) from None
    except ValueError as error:
        raise SettingsError(str(error)) from None
    plain = JsonCodec()
    plain.sets = s.has_sets
    return plain


def check(settings: Settings, formats: Formats) -> None:
    """Check that the registry would accept the schema of the outputs.

    Raises
    ------
    DeniedError
        It would not, with its reasons; or records of the input cannot be answered.
    RetryError
        No registry answers.
    """
    schemas = getattr(formats.predictions, "schemas", None)
    if not isinstance(schemas, RegistrySchemas):
        return
    registry, subject = schemas.registry, f"{settings.input}-value"
    try:
        number, newest = registry.latest(subject)
    except UnknownSchema as error:
        log.info("%s: what the output's schema is will be known with the first record", error)
        return
    text = SchemaText(newest.kind, newest.text, newest.references, newest.direct)
    try:
        answer_schema = formats.predictions.answer(text)
    except BadMessage as error:
        raise DeniedError(f"schema {number}, the newest of {subject!r}: {error}") from None
    kind: Any = answer_schema.kind
    refused = registry.compatible(settings.subject, kind, answer_schema.text, answer_schema.named)
    if refused:
        raise DeniedError(
            f"output_subject {settings.subject!r}: the schema registry would refuse the schema of"
            f" answers to {subject!r}: {'; '.join(refused)}"
        )
    log.info("schema registry: %r takes the schema of answers to %r", settings.subject, subject)


class Asked:
    """Tells which records can be read without asking a registry; asks in a background thread.

    Parameters
    ----------
    formats
        The readers.
    labels
        Topics of labels.
    seconds
        Give up where no registry answers for this long.
    """

    def __init__(self, formats: Formats, labels: Sequence[str], seconds: float) -> None:
        self._formats, self._seconds = formats, seconds
        self._of_labels = {topic: formats.of_labels(topic).labels for topic in labels}
        self._known: set[tuple[str, Key]] = set()
        """Schemas by the topic of labels, "" for predictions."""
        self._refused: dict[tuple[str, Key], float] = {}
        """For each schema until when it is known to be unusable."""
        self._asking: threading.Thread | None = None
        self._again, self._pause = 0.0, PAUSE
        self._denied: ClientError | None = None
        self._since: float | None = None
        self.trouble: str | None = None
        """Why records wait, while they do."""

    def ping(self) -> None:
        """Raise RetryError where no registry answers."""
        for codec in self._formats.codecs:
            schemas = getattr(codec, "schemas", None)
            if isinstance(schemas, RegistrySchemas):
                schemas.registry.ping()

    def ready(self, record: Any) -> bool:
        """Whether a record can be read now; otherwise its schema is requested.

        Raises
        ------
        DeniedError
            The registry denies access.
        RegistryAway
            No registry has answered for too long.
        """
        if record.value is None:
            return True
        of = record.topic if record.topic in self._of_labels else ""
        codec = self._of_labels.get(of, self._formats.predictions)
        try:
            key = codec.key(record.value, record.headers)
        except BadMessage:
            return True
        if key is None or (of, key) in self._known:
            return True
        now = time.monotonic()
        if self._refused.get((of, key), 0.0) > now:
            return True
        if self._denied is not None:
            raise self._denied
        if self._asking is None and now >= self._again:
            arguments = codec, record.value, record.headers, (of, key)
            self._asking = threading.Thread(target=self._ask, args=arguments, daemon=True)
            self._asking.start()
        if self._since is not None and now - self._since > self._seconds:
            raise RegistryAway(f"{self.trouble} (for {now - self._since:.0f} s)")
        return False

    def _ask(
        self, codec: Codec, value: bytes, headers: Headers, schema_key: tuple[str, Key]
    ) -> None:
        """Look up the schema of a message."""
        try:
            codec.prepare(value, headers, answered=not schema_key[0])
        except BadMessage:
            if len(self._refused) >= MOST_REFUSED:
                self._refused.clear()
            self._refused[schema_key] = time.monotonic() + AGAIN_SECONDS
        except RetryError as error:
            if self._since is None:
                log.warning("%s; records wait for it", error)
            self._since = self._since or time.monotonic()
            self.trouble = str(error)
            self._again = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._asking = None
            return
        except ClientError as error:
            self._denied = error
        except Exception as error:  # otherwise the records would wait for ever
            log.exception("schema %s", shown(schema_key[1]))
            self._denied = DeniedError(f"schema {shown(schema_key[1])}: {error!r}")
        else:
            self._known.add(schema_key)
        if self._since is not None:
            log.info("the schema registry answers again")
        self._since = self.trouble = None
        self._pause, self._asking = PAUSE, None
